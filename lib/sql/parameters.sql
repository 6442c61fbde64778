-- parameters: set the server parameters of a transaction of jobrun, for this transaction only. $1 lock_timeout,
-- $2 statement_timeout (ms), $3 synchronous_commit. It goes before any other statement, since array_nulls and
-- standard_conforming_strings decide how the others' arrays and texts are read. jit never pays off here.
-- transaction_timeout (new in 17) is switched off: $2 bounds the transaction.
select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $2, true), set_config('synchronous_commit', $3, true),
       set_config('search_path', 'pg_catalog, pg_temp', true), set_config('TimeZone', 'UTC', true),
       set_config('DateStyle', 'ISO, YMD', true), set_config('IntervalStyle', 'postgres', true),
       set_config('array_nulls', 'on', true), set_config('standard_conforming_strings', 'on', true),
       set_config('jit', 'off', true), set_config('client_min_messages', 'notice', true),
       case when current_setting('transaction_timeout', true) <> '0' then set_config('transaction_timeout', '0', true) end
