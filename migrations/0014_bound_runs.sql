-- 0014 bound_runs: a full lock key, or a paused definition, with any number of due runs does not slow claims down.

-- The claim: one range for each combination of job type, queue and priority of free runs, and one of bound runs (1), those that
-- have a lock key or a definition. So the free ones are found however many bound ones wait before them.
drop index if exists jobrun.job_runs_ready;
create index job_runs_ready on jobrun.job_runs (job_type, queue, priority,
	(least(num_nonnulls(concurrency_key, definition_id), 1)::smallint), run_at, id)
	where status in ('queued', 'failed');

-- Bound runs by key and definition: the claim steps from one key to the next when those of a full one are many. Free runs are
-- not in it, so they pay nothing for it.
create index job_runs_bound on jobrun.job_runs (job_type, queue, priority, coalesce(concurrency_key, ''), coalesce(definition_id, 0),
	run_at, id)
	where status in ('queued', 'failed') and (concurrency_key is not null or definition_id is not null);
