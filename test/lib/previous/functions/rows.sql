-- rows: those that must be there. What people have changed in them stays.

-- The one row of settings. install_id need only be unlike any other database's, not secret; gen_random_uuid() came with
-- PostgreSQL 13. Nothing has ended yet, so all sums are made.
insert into jobrun.settings (install_id, stats_until)
select md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text || random()::text)::uuid,
	date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'
where not exists (select from jobrun.settings);

-- Housekeeping.
insert into jobrun.job_definitions (name, job_type, description, schedule, queue, priority, timeout)
select 'jobrun.prune', 'jobrun.prune', 'deletes what settings say is old enough', '23 * * * *', 'jobrun', 1000, interval '5 minutes'
where not exists (select from jobrun.job_definitions d where d.name = 'jobrun.prune');
