-- migrate_holders: the sessions that hold what a migration waits for (its lock, or a lock on a table of the schema),
-- the oldest three; null: nobody any more. Facts that this role may not see are left out
select string_agg(h.who, ', ' order by h.since) from (
	select coalesce(format('pid %s (%s)', a.pid, concat_ws(', ', nullif(a.application_name, ''), 'role ' || a.usename, a.state,
			'since ' || to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"'))), 'a prepared transaction') as who,
		a.xact_start as since
	from (select distinct l.pid from pg_locks l
		where l.granted and l.pid is distinct from pg_backend_pid()
			and l.database = (select d.oid from pg_database d where d.datname = current_database())
			and (l.relation in (select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'jobrun')
				or (l.locktype = 'advisory' and l.objsubid = 1 and (l.classid::bigint << 32 | l.objid::bigint) = 117026625582446))) l
	left join pg_stat_activity a on a.pid = l.pid
	order by a.xact_start limit 3) h
