-- session_timeout: set statement_timeout and lock_timeout for the rest of this transaction. $1 ms (null: unchanged), $2 ms
select pg_catalog.set_config('statement_timeout', coalesce($1, pg_catalog.current_setting('statement_timeout')), true),
	pg_catalog.set_config('lock_timeout', $2, true)
