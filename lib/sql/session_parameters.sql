-- session_parameters: what session_open does for a run without a claim, by any role, in any database. $1 run id, $2
-- claim, $3 attempt, $4 key, $5 slot, $6 statement_timeout in ms, null: unchanged.
select pg_catalog.set_config('jobrun.run_id', $1, true), pg_catalog.set_config('jobrun.claim', $2, true),
	pg_catalog.set_config('jobrun.attempt', $3, true), pg_catalog.set_config('jobrun.key', $4, true),
	pg_catalog.set_config('jobrun.slot', $5, true),
	case when pg_catalog.current_setting('transaction_timeout', true) <> '0'
		then pg_catalog.set_config('transaction_timeout', '0', true) end,
	pg_catalog.set_config('statement_timeout', coalesce($6, pg_catalog.current_setting('statement_timeout')), true)
