-- settle_group: the last statement before COMMIT of a group: its runs have ended as these arrays say. If a claim is
-- lost it raises JR074, and nothing is kept. $1 ids, $2 claim_seqs, $3 runner id, $4 outcomes, $5 delays in ms, $6
-- error codes, $7 errors. Returns (id, status, run_in_ms or null if final) of each run.
select g.id, g.status, g.run_in_ms
from jobrun.settle_group($1::bigint[], $2::bigint[], $3::bigint, $4::text[], $5::bigint[], $6::text[], $7::text[]) g
