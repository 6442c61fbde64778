-- settle_one: the last statement before COMMIT: the run whose effect is in this transaction has succeeded. If its claim
-- is lost it raises JR074, and nothing is kept. $1 id, $2 claim_seq, $3 runner id, $4 result or null
select jobrun.settle_one($1::bigint, $2::bigint, $3::bigint, $4::pg_catalog.jsonb)
