-- settings: what a transaction of jobrun needs, for this transaction only. $1 lock_timeout, $2 statement_timeout (ms)
select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $2, true), set_config('synchronous_commit', 'on', true),
       set_config('search_path', 'pg_catalog, pg_temp', true), set_config('TimeZone', 'UTC', true),
       set_config('DateStyle', 'ISO, YMD', true)
