-- rows: those that must be there. What people have changed in them stays.

-- The one row of settings. Nothing has ended yet, so all sums are made. Where it belongs is recorded once, and then only by adopt().
insert into jobrun.settings (install_id, stats_until)
select jobrun.new_install_id(), date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'
where not exists (select from jobrun.settings);
update jobrun.settings s set system_identifier = t.system_identifier, database_oid = t.database_oid
from jobrun.this_database() t where s.database_oid is null;

-- Housekeeping.
insert into jobrun.job_definitions (name, job_type, description, schedule, queue, priority, timeout)
select 'jobrun.prune', 'jobrun.prune', 'deletes what settings say is old enough', '23 * * * *', 'jobrun', 1000, interval '5 minutes'
where not exists (select from jobrun.job_definitions d where d.name = 'jobrun.prune');
