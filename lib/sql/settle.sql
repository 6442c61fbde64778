-- settle: write the outcomes of attempts (migrations/functions/settle.sql). Arrays of equal length: $1 ids,
-- $2 claim_seqs, $3 runner ids (of the runner that holds the run, even if it is dead), $4 outcomes, $5 delays in ms,
-- $6 error codes, $7 errors, $8 exit statuses, $9 pids, $10 cpu ms, $11 max rss kB, $12 outputs, $13 bytes of output
-- dropped, $14 results, $15 progress, $16 checkpoints.
-- Returns (id, claim_seq, status, attempts, max_attempts, run_in_ms or null if final, id of the alarm of a dead run or
-- null) for each settle that was accepted. A run without a row was fenced out. A repeat changes nothing.
select s.id, s.claim_seq, s.status, s.attempts, s.max_attempts, s.run_in_ms, s.alarm
from jobrun.settle($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::integer[],
	$9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::text[], $15::text[], $16::text[], now()) s
