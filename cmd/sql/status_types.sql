-- status_types: a row for each job type that has runs waiting, running, dead, or finished in the last 24 hours, or a
-- definition that is not jobrun's own; $1 only these (null: all). Returns job type, queued, retrying, running, dead,
-- done in 24 h, age in ms of the oldest due run, age of the last success, document.
-- Each part reads one partial index or 24 hours of the index on finished_at, never the history.
with counts as (
	select r.job_type, count(*) filter (where r.status = 'queued') as queued,
		count(*) filter (where r.status = 'failed') as retrying, 0 as running, 0 as dead, 0 as succeeded_24h,
		min(r.run_at) filter (where r.run_at <= now()) as oldest_due_at, null::timestamptz as last_succeeded_at
	from jobrun.job_runs r where r.status in ('queued', 'failed') group by r.job_type
	union all
	select r.job_type, 0, 0, count(*), 0, 0, null, null
	from jobrun.job_runs r where r.status = 'running' group by r.job_type
	union all
	select r.job_type, 0, 0, 0, count(*), 0, null, null
	from jobrun.job_runs r where r.status = 'dead' group by r.job_type
	union all
	select r.job_type, 0, 0, 0, 0, count(*), null, max(r.finished_at)
	from jobrun.job_runs r
	where r.finished_at >= now() - interval '24 hours' and r.status = 'succeeded' group by r.job_type
	union all
	select d.job_type, 0, 0, 0, 0, 0, null, null from jobrun.job_definitions d where d.job_type not like 'jobrun.%'
), types as (
	select c.job_type, sum(c.queued)::bigint as queued, sum(c.retrying)::bigint as retrying, sum(c.running)::bigint as running,
		sum(c.dead)::bigint as dead, sum(c.succeeded_24h)::bigint as succeeded_24h, min(c.oldest_due_at) as oldest_due_at,
		coalesce(max(c.last_succeeded_at), (select max(s.hour) from jobrun.job_stats s
			where s.job_type = c.job_type and s.outcome = 'succeeded')) as last_succeeded_at
	from counts c
	where $1::text[] is null or c.job_type = any ($1::text[])
	group by c.job_type
)
select t.job_type, t.queued, t.retrying, t.running, t.dead, t.succeeded_24h,
	floor(extract(epoch from now() - t.oldest_due_at) * 1000)::bigint,
	floor(extract(epoch from now() - t.last_succeeded_at) * 1000)::bigint, row_to_json(t)::text
from types t
order by t.job_type
