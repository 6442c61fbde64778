-- session_timeout: how long each statement of this transaction may take from here on. $1 ms
select pg_catalog.set_config('statement_timeout', $1, true)
