-- doctor_timeouts: settings of the server, the database or the role that end long handlers; each with where it is set. jobrun sets
-- them for its own statements, so the value that a new session gets is looked at. Returns findings (doctor.h).
with settings as (
	select s.name, s.reset_val::bigint as ms from pg_settings s
	where s.name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
		and s.reset_val <> '0'
), origins as (
	select s.name, s.ms, o.setdatabase, o.setrole
	from settings s left join lateral (
		select r.setdatabase, r.setrole from pg_db_role_setting r cross join unnest(r.setconfig) c(line)
		where split_part(c.line, '=', 1) = s.name
			and r.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
			and r.setrole in (0, (select o.oid from pg_roles o where o.rolname = current_user))
		order by r.setrole = 0, r.setdatabase = 0 limit 1) o on true
)
select 'warn', format('%s is {age}, set for %s', o.name,
		case when o.setrole is null then 'the server'
			else concat_ws(' in ', case when o.setrole <> 0 then 'role ' || current_user end,
				case when o.setdatabase <> 0 then 'database ' || current_database() end) end),
	o.ms,
	case o.name when 'statement_timeout' then 'it ends every statement of a program that takes longer, and of an sql handler without a timeout'
		when 'idle_session_timeout' then 'it ends the session of a program that works so long without a statement'
		when 'transaction_timeout' then 'it ends the session of a program whose transaction takes longer'
		else 'it ends the session of a program that works so long in a transaction without a statement' end,
	null::text,
	case when o.setrole is null then format('alter role %I set %s = 0', current_user, o.name)
		when o.setrole <> 0 then format('alter role %I %sreset %s', current_user,
			case when o.setdatabase <> 0 then format('in database %I ', current_database()) else '' end, o.name)
		else format('alter database %I reset %s', current_database(), o.name) end
from origins o
order by o.name
