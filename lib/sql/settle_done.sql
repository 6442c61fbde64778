-- settle_done: the last statement before COMMIT: the runs whose effect is in this transaction have succeeded, or nothing
-- of it is kept (JR074). $1 ids, $2 claim_seqs, $3 runner id, $4 results or nulls
select jobrun.settle_done($1::bigint[], $2::bigint[], $3::bigint, $4::pg_catalog.jsonb[])
