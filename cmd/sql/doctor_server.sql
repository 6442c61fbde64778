-- doctor_server: can this session write? Returns is it a standby; are transactions read only; if a setting is why, for what
-- it is set, and SQL that a new session can run to change that. Both are null if the connection itself asks for it.
with settings as (
	select s.name, 'off' as off from pg_settings s
	where s.name = 'default_transaction_read_only' and s.reset_val = 'on' and s.source <> 'client'
),
-- include doctor_origins
select pg_is_in_recovery() as standby, current_setting('transaction_read_only') = 'on' as read_only, o.set_for,
	'begin read write; ' || o.sql || '; commit' as sql
from (select) one left join origins o on true
