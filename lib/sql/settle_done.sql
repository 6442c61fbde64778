-- settle_done: the last statement before COMMIT of a group of which all runs have succeeded. If a claim is lost it raises
-- JR074, and nothing is kept. $1 ids, $2 claim_seqs, $3 runner id
select jobrun.settle_done($1::bigint[], $2::bigint[], $3::bigint, null)
