-- settle_done: the last statement before COMMIT: the runs whose effects are in this transaction have succeeded. If a
-- claim is lost it raises JR074, and nothing is kept. $1 ids, $2 claim_seqs, $3 runner id, $4 results or nulls
select jobrun.settle_done($1::bigint[], $2::bigint[], $3::bigint, $4::pg_catalog.jsonb[])
