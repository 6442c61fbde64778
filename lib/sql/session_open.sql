-- session_open: the first statement of a sql handler's transaction (migrations/functions/session.sql). $1 run id,
-- $2 claim, $3 attempt, $4 key, $5 slot; '': there is none, or the statement is for many runs. In ms, null: unchanged:
-- $6 statement_timeout, $7 idle_in_transaction_session_timeout, $8 client_connection_check_interval
select jobrun.session_open($1, $2, $3, $4, $5, $6, $7, $8)
