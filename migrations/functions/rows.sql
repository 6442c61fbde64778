-- rows: insert the rows that must exist, analyse the small tables, and make ANALYZE read fewer rows of the large ones. Values that
-- people have changed stay.

-- The one row of settings. No run has ended yet, so the sums are complete. The identity of this database is recorded
-- here once; later only adopt() changes it.
insert into jobrun.settings (install_id, stats_until)
select jobrun.new_install_id(), date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'
where not exists (select from jobrun.settings);
update jobrun.settings s set system_identifier = t.system_identifier, database_oid = t.database_oid
from jobrun.this_database() t where s.database_oid is null;

-- Housekeeping.
insert into jobrun.job_definitions (name, job_type, description, schedule, queue, priority, timeout)
select 'jobrun.prune', 'jobrun.prune', 'deletes what settings say is old enough', '23 * * * *', 'jobrun', 1000, interval '5 minutes'
where not exists (select from jobrun.job_definitions d where d.name = 'jobrun.prune');

-- Queues of definitions with a lock key, which define() makes: those that were defined before it did.
insert into jobrun.job_queues (name)
select distinct coalesce(d.queue, 'default') from jobrun.job_definitions d where d.concurrency_key is not null
on conflict do nothing;

-- Each tick reads these tables, and they change too little for autovacuum ever to analyse them. Without statistics the planner
-- adds up the width of their columns anew in each session, which is a twentieth of what a tick costs the server.
analyze jobrun.settings, jobrun.schema_migrations, jobrun.job_definitions;

-- Rough statistics are enough for every plan here, and autovacuum analyses these tables often. With this target ANALYZE reads 3,000
-- rows instead of 30,000, which is a tenth of the work. Of an index, only columns with an expression have a target, and a virtual column
-- has none. Since PostgreSQL 17 the default is null; before, it was -1.
do $do$
declare
	v_column record;
begin
	for v_column in
		select c.relkind, a.attrelid::regclass as relation, a.attnum, a.attname
		from unnest('{jobrun.job_runs,jobrun.job_attempts}'::regclass[]) t(oid)
		join pg_catalog.pg_class c on c.oid = t.oid or c.oid in (select i.indexrelid from pg_catalog.pg_index i where i.indrelid = t.oid)
		join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where coalesce(a.attstattarget, -1) = -1 and a.attgenerated <> 'v'
			and (c.relkind = 'r' or (select i.indkey[a.attnum - 1] = 0 from pg_catalog.pg_index i where i.indexrelid = c.oid))
	loop
		if v_column.relkind = 'r' then
			execute format('alter table only %s alter column %I set statistics 10', v_column.relation, v_column.attname);
		else
			execute format('alter index %s alter column %s set statistics 10', v_column.relation, v_column.attnum);
		end if;
	end loop;
end
$do$;
