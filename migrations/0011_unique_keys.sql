-- 0011 unique_keys: of the runs of a unique key the newest wins, at its start.

-- The newer run of its key that took this one's place before it could start (again). Then it ended cancelled, error_code superseded.
alter table jobrun.job_runs add column superseded_by bigint,
	add constraint job_runs_superseded check (superseded_by is null or status = 'cancelled');
alter table jobrun.job_runs_archive add column superseded_by bigint;

-- What has not ended of a key and what has, by age: is there a newer one, or one that has succeeded? A row is in one of the two and
-- what asks for one cannot be led to the other: the few that wait are found without a look at the many that have ended.
drop index if exists jobrun.job_runs_unfinished_keys;
create index job_runs_unfinished_keys on jobrun.job_runs (job_type, unique_key, id)
	where unique_key is not null and finished_at is null;
create index job_runs_finished_keys on jobrun.job_runs (job_type, unique_key, status, id)
	where unique_key is not null and finished_at is not null;

-- One says more now, the other asks more.
drop function if exists jobrun.run_status, jobrun.lock_waiting;
