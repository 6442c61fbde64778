-- sql_settings: what a sql handler can ask about its run, for this transaction only. $1 run id, $2 claim, $3 attempt,
-- $4 key, $5 slot: '' when there is none or when the statement is for many runs. $6 statement_timeout in ms; null: as it is
select pg_catalog.set_config('jobrun.run_id', $1, true), pg_catalog.set_config('jobrun.claim', $2, true),
	pg_catalog.set_config('jobrun.attempt', $3, true), pg_catalog.set_config('jobrun.key', $4, true),
	pg_catalog.set_config('jobrun.slot', $5, true),
	pg_catalog.set_config('statement_timeout', coalesce($6, pg_catalog.current_setting('statement_timeout')), true)
