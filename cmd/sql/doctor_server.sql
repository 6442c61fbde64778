-- doctor_server: can this session write? Returns is it a standby; are transactions read only; if a setting is why, for what
-- it is set, and SQL that a new session can run to change that. Both are null if the connection itself asks for it.
with setting as (
	select true as is_on, o.setdatabase, o.setrole
	from pg_settings s left join lateral (
		select r.setdatabase, r.setrole from pg_db_role_setting r cross join unnest(r.setconfig) c(line)
		where split_part(c.line, '=', 1) = s.name
			and r.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
			and r.setrole in (0, (select u.oid from pg_roles u where u.rolname = session_user))
		order by r.setrole = 0, r.setdatabase = 0 limit 1) o on true
	where s.name = 'default_transaction_read_only' and s.reset_val = 'on' and s.source <> 'client'
)
select pg_is_in_recovery() as standby, current_setting('transaction_read_only') = 'on' as read_only,
	case when s.is_on is null then null
		when s.setrole is null then 'the server'
		else concat_ws(' in ', case when s.setrole <> 0 then 'role ' || session_user end,
			case when s.setdatabase <> 0 then 'database ' || current_database() end) end as set_for,
	'begin read write; '
		|| case when s.is_on is null then null
			when s.setrole is null then format('alter role %I set default_transaction_read_only = off', session_user)
			when s.setrole <> 0 then format('alter role %I %sreset default_transaction_read_only', session_user,
				case when s.setdatabase <> 0 then format('in database %I ', current_database()) else '' end)
			else format('alter database %I reset default_transaction_read_only', current_database()) end
		|| '; commit' as sql
from (select) one left join setting s on true
