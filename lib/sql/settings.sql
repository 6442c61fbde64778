-- settings: what a transaction of jobrun needs, for this transaction only. $1 lock_timeout, $2 statement_timeout (ms).
-- Before any other statement is read: array_nulls and standard_conforming_strings say how texts and arrays in it are meant.
-- transaction_timeout is new in 17; what a transaction of ours may take is told by $2.
select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $2, true), set_config('synchronous_commit', 'on', true),
       set_config('search_path', 'pg_catalog, pg_temp', true), set_config('TimeZone', 'UTC', true),
       set_config('DateStyle', 'ISO, YMD', true), set_config('array_nulls', 'on', true),
       set_config('standard_conforming_strings', 'on', true),
       case when current_setting('transaction_timeout', true) <> '0' then set_config('transaction_timeout', '0', true) end
