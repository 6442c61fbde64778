-- queues: queues that have a row or unfinished runs; $1 only this one (null: all). A queue without a row is shown with
-- the defaults: one run per lock key at a time. Returns name, running, waiting, max_running, max_running_per_key,
-- rate_limit, rate_period in ms, starts in the current window, paused_until in Unix ms (infinity: 0; null: not
-- paused), paused_reason, document. Each part reads one partial index, never the history.
with running as (
	select r.queue, count(*) as n from jobrun.job_runs r
	where r.status = 'running' and ($1::text is null or r.queue = $1::text) group by r.queue
), waiting as (
	select r.queue, count(*) as n from jobrun.job_runs r
	where r.status in ('queued', 'failed') and ($1::text is null or r.queue = $1::text) group by r.queue
), known as (
	select q.name from jobrun.job_queues q where $1::text is null or q.name = $1::text
	union select r.queue from running r
	union select w.queue from waiting w
), shown as (
	select k.name, coalesce(r.n, 0) as running, coalesce(w.n, 0) as waiting, q.max_running,
		case when q.name is null then 1 else q.max_running_per_key end as max_running_per_key,
		q.rate_limit, (extract(epoch from q.rate_period) * 1000)::bigint as rate_period_ms,
		q.rate_limit - jobrun.rate_left(q) as rate_used,
		case when jobrun.rate_left(q) < q.rate_limit then q.rate_window_start + q.rate_period end as rate_window_ends_at,
		case when q.paused_until > now() then q.paused_until end as paused_until,
		case when q.paused_until > now() then q.paused_reason end as paused_reason,
		case when q.paused_until > now() then q.paused_by end as paused_by
	from known k
	left join jobrun.job_queues q on q.name = k.name
	left join running r on r.queue = k.name
	left join waiting w on w.queue = k.name
)
select s.name, s.running, s.waiting, s.max_running, s.max_running_per_key, s.rate_limit, s.rate_period_ms, s.rate_used,
	case when isfinite(s.paused_until) then floor(extract(epoch from s.paused_until) * 1000)::bigint
		when s.paused_until is not null then 0 end,
	s.paused_reason, row_to_json(d)::text
from shown s
cross join lateral (select s.name, s.running, s.waiting, s.max_running, s.max_running_per_key, s.rate_limit, s.rate_period_ms, s.rate_used,
	s.rate_window_ends_at, s.paused_until is not null as paused, case when isfinite(s.paused_until) then s.paused_until end as paused_until,
	s.paused_reason, s.paused_by) d
order by s.name
