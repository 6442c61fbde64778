-- doctor_transactions: sessions and prepared transactions that have kept vacuum from removing anything in this database for longer
-- than $1 ms, the five oldest of each; also those that have locked a table of jobrun, or wait to lock it, in a transaction older
-- than 5 s: runners and commands wait for it, and it may keep vacuum from nothing. Of other roles' sessions only members of
-- pg_read_all_stats see since when; without that a session counts after a hundred thousand other transactions, and a lock does not.
-- Returns findings (doctor.h).
with locks as (
	select l.pid, l.virtualtransaction, l.granted, case when l.granted then 'has a lock on ' else 'waits for a lock on ' end
			|| string_agg(distinct 'jobrun.' || c.relname, ', ' order by 'jobrun.' || c.relname)
			|| case when l.granted then '' else ', and others wait behind it' end as what
	from pg_locks l join pg_class c on c.oid = l.relation
	where l.database = (select d.oid from pg_database d where d.datname = current_database())
		and c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and c.relkind in ('r', 'p')
		and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	group by l.pid, l.virtualtransaction, l.granted
)
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
(select 'warn', format('session %s (%s) has been in a transaction for {age}, and %s', a.pid,
		concat_ws(', ', 'role ' || a.usename, 'application ' || nullif(a.application_name, ''), a.state), l.what),
	floor(extract(epoch from now() - a.xact_start) * 1000)::bigint,
	'what needs the table waits, and then ends with 75', null, format('select pg_terminate_backend(%s)', a.pid)
from locks l join pg_stat_activity a on a.pid = l.pid
where a.pid <> pg_backend_pid() and a.backend_type <> 'autovacuum worker' and now() - a.xact_start > interval '5 s'
order by a.xact_start, a.pid, l.granted limit 5)
union all
(select 'warn', format('the prepared transaction %s of role %s is {age} old, and %s', x.gid, x.owner, l.what),
	floor(extract(epoch from now() - x.prepared) * 1000)::bigint,
	'what needs the table waits, and then ends with 75', null, format('rollback prepared %L', x.gid)
from locks l join pg_locks t on t.virtualtransaction = l.virtualtransaction and t.pid is null and t.locktype = 'transactionid'
	join pg_prepared_xacts x on x.transaction = t.transactionid
where l.pid is null and x.database = current_database() and now() - x.prepared > interval '5 s'
order by x.prepared, x.gid limit 5)
union all
select 'unchecked', format('how long transactions of other roles last: role %s may not see it', current_user), null,
	'a superuser can allow it', null,
	format('grant pg_read_all_stats to %I', current_user)
where not pg_has_role(current_user, 'pg_read_all_stats', 'usage')
