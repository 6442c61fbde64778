-- session_parameters: parameters by which a sql handler can read facts about its run, for this transaction only. $1 run
-- id, $2 claim, $3 attempt, $4 key, $5 slot; '': there is none, or the statement is for many runs. $6 statement_timeout
-- in ms; null: unchanged. $7 and $8 bound how long the server keeps the transaction of a dead runner: $7
-- idle_in_transaction_session_timeout in ms, $8 client_connection_check_interval in ms, from PostgreSQL 14 on and if
-- the server runs on Linux; null: unchanged. transaction_timeout (17) is switched off: the run's own timeout bounds the
-- transaction.
select pg_catalog.set_config('jobrun.run_id', $1, true), pg_catalog.set_config('jobrun.claim', $2, true),
	pg_catalog.set_config('jobrun.attempt', $3, true), pg_catalog.set_config('jobrun.key', $4, true),
	pg_catalog.set_config('jobrun.slot', $5, true),
	case when pg_catalog.current_setting('transaction_timeout', true) <> '0'
		then pg_catalog.set_config('transaction_timeout', '0', true) end,
	pg_catalog.set_config('statement_timeout', coalesce($6, pg_catalog.current_setting('statement_timeout')), true),
	pg_catalog.set_config('idle_in_transaction_session_timeout',
		coalesce($7, pg_catalog.current_setting('idle_in_transaction_session_timeout')), true),
	case when $8::text is not null and pg_catalog.textlike(pg_catalog.version(), '%linux%')
			and pg_catalog.current_setting('client_connection_check_interval', true) is not null
		then pg_catalog.set_config('client_connection_check_interval', $8, true) end
