-- doctor_transactions: sessions and prepared transactions that have kept vacuum from removing anything in this database for longer
-- than $1 ms, the five oldest of each; also sessions with a lock on a table of jobrun, for longer than 5 s, that commands and runners
-- wait for, which a transaction may hold that keeps vacuum from nothing. Of other roles' sessions only members of pg_read_all_stats see since when; without that a
-- session counts after a hundred thousand other transactions. Returns findings (doctor.h).
(select case when now() - a.xact_start > 6 * l.long then 'fail' else 'warn' end,
	format('session %s (%s) %s', a.pid, concat_ws(', ', 'role ' || a.usename, 'application ' || nullif(a.application_name, ''), a.state),
		case when a.xact_start is null then format('has a transaction, since when is not shown to this role, but %s others began since',
				age(coalesce(a.backend_xmin, a.backend_xid)))
			else 'has been in a transaction for {age}' end),
	floor(extract(epoch from now() - a.xact_start) * 1000)::bigint,
	'vacuum cannot remove what was deleted since, and claims become slower', null::text, format('select pg_terminate_backend(%s)', a.pid)
from pg_stat_activity a cross join (select $1::bigint * interval '1 ms' as long) l
where a.pid <> pg_backend_pid() and (a.datname = current_database() or a.backend_type = 'walsender')
	and (a.backend_xmin is not null or a.backend_xid is not null)
	and coalesce(a.backend_type, '') <> 'autovacuum worker'
	and (now() - a.xact_start > l.long or (a.xact_start is null and age(coalesce(a.backend_xmin, a.backend_xid)) > 100000))
order by a.xact_start nulls last, a.pid limit 5)
union all
(select case when now() - x.prepared > 6 * l.long then 'fail' else 'warn' end,
	format('the prepared transaction %s of role %s is {age} old', x.gid, x.owner), floor(extract(epoch from now() - x.prepared) * 1000)::bigint,
	'vacuum cannot remove what was deleted since, and its locks stay', null, format('rollback prepared %L', x.gid)
from pg_prepared_xacts x cross join (select $1::bigint * interval '1 ms' as long) l
where x.database = current_database() and now() - x.prepared > l.long
order by x.prepared, x.gid limit 5)
union all
(select 'warn', format('session %s (%s) has a lock on jobrun.%s%s', a.pid,
		concat_ws(', ', 'role ' || a.usename, 'application ' || nullif(a.application_name, ''), a.state), min(c.relname),
		case when a.xact_start is not null then ', in a transaction of {age}' end),
	floor(extract(epoch from now() - a.xact_start) * 1000)::bigint,
	'what needs this table waits, and then ends with 75', null, format('select pg_terminate_backend(%s)', a.pid)
from pg_locks l join pg_class c on c.oid = l.relation join pg_stat_activity a on a.pid = l.pid
where l.granted and l.database = (select d.oid from pg_database d where d.datname = current_database())
	and c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and c.relkind in ('r', 'p')
	and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	and a.pid <> pg_backend_pid() and coalesce(now() - a.xact_start > interval '5 s', true)
group by a.pid, a.usename, a.application_name, a.state, a.xact_start
order by a.xact_start nulls last, a.pid limit 5)
union all
select 'unchecked', format('how long transactions of other roles last: role %s may not see it', current_user), null,
	'a superuser can allow it', null,
	format('grant pg_read_all_stats to %I', current_user)
where not pg_has_role(current_user, 'pg_read_all_stats', 'usage')
