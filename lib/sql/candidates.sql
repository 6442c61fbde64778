-- candidates: the combinations (job_type, queue, priority) that have a due run now, best priority first, for the claim.
-- $1 job types of this host, $2 wanted queues or null for all, $3 how many to return.
-- A loose index scan: one probe of job_runs_ready for each combination, however many runs it has and however far ahead
-- they are due; two if it has both free runs and bound ones, which have a lock key or a definition. Paused and full
-- combinations are left out, so that they do not count as work. The list ends after about $3, and only between two
-- priorities: all combinations left out have a worse priority, so the order of claims stays exact.
with recursive walk as (
	select f.* from unnest($1::text[]) t(job_type) cross join lateral (
		select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
		from jobrun.job_runs r
		where r.status in ('queued', 'failed') and r.job_type = t.job_type
		order by r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id limit 1) f
	union all
	select n.* from walk w cross join lateral (
		select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
		from jobrun.job_runs r
		where r.status in ('queued', 'failed') and r.job_type = w.job_type
			and (r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint) > (w.queue, w.priority, w.bound)
		order by r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id limit 1) n
), combinations as (
	select w.job_type, w.queue, w.priority, min(w.run_at) as run_at from walk w group by w.job_type, w.queue, w.priority
), due as (
	select w.job_type, w.queue, w.priority, count(*) over (order by w.priority) as so_far,
		min(w.priority) over () as best
	from combinations w
	left join jobrun.job_queues q on q.name = w.queue
	left join jobrun.job_types t on t.name = w.job_type
	where w.run_at <= now()
		and ($2::text[] is null or w.queue = any ($2::text[]))
		and (q.paused_until is null or q.paused_until <= now())
		and (t.paused_until is null or t.paused_until <= now())
		and (q.rate_limit is null or jobrun.rate_left(q) > 0)
		and (q.max_running is null or q.max_running >
			(select count(*) from jobrun.job_runs r where r.status = 'running' and r.queue = q.name))
)
select job_type, queue, priority from due
where so_far <= $3::bigint or priority = best
order by priority, job_type, queue
