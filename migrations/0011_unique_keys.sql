-- 0011 unique_keys: of the runs of a unique key the newest wins when it starts.

-- The newer run of its key that has superseded this one before it could start (again). Then its status is cancelled and
-- its error_code superseded.
alter table jobrun.job_runs add column superseded_by bigint,
	add constraint job_runs_superseded check (superseded_by is null or status = 'cancelled');
alter table jobrun.job_runs_archive add column superseded_by bigint;

-- The unfinished and the finished runs of a key, by age: is there a newer run, or one that has succeeded? Each row is
-- in one of the two indexes, and a query for one cannot use the other: the few waiting runs are found without reading
-- the many that have ended.
drop index if exists jobrun.job_runs_unfinished_keys;
create index job_runs_unfinished_keys on jobrun.job_runs (job_type, unique_key, id)
	where unique_key is not null and finished_at is null;
create index job_runs_finished_keys on jobrun.job_runs (job_type, unique_key, status, id)
	where unique_key is not null and finished_at is not null;

-- The first returns more columns now, the second takes more arguments.
drop function if exists jobrun.run_status, jobrun.lock_waiting;
