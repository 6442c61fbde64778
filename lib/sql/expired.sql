-- expired: has the lease of any other runner's run ended? $1 id of the asking runner
select exists (
	select from jobrun.job_runs
	where status = 'running' and locked_until <= now() and runner_id <> $1::bigint)
