-- session_timeout: set statement_timeout for the rest of this transaction. $1 ms
select pg_catalog.set_config('statement_timeout', $1, true)
