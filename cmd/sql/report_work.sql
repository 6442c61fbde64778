-- report_work: what ended in the last 168 hours. A row for each hour (kind "hour", its number 0 to 167) and, behind these, for
-- each job type (kind "type") in which something ended, waits, runs or is dead, or which has a definition; the busiest ones first, at
-- most 1000. $1: how far waiting and dead runs are counted.
-- Returns kind, job type, hour; succeeded, attempts that failed or were lost and another one follows, dead, cancelled; below how many
-- ms half, 95 % and 99 % waited, and ran; and of a type its hours as "HOUR:SUCCEEDED:FAILED OR DEAD ..."; now: queued, retrying,
-- running, dead, is there more that waits, is dead; ms since the oldest due run, the last success, until the next slot.
with open as materialized (
	select s.stats_until, date_trunc('hour', now()) - interval '167 hours' as first,
		-- include report_open
		as since
	from jobrun.settings s
), cells as materialized (
	select s.hour, s.job_type, s.outcome, s.n, s.run_buckets, s.wait_buckets
	from open o cross join lateral (select * from jobrun.job_stats s where s.hour >= o.first and s.hour < o.stats_until) s
	union all
	select s.hour, s.job_type, s.outcome, s.n, s.run_buckets, s.wait_buckets
	from open o cross join lateral jobrun.stats_of(o.since, 'infinity') s
), ends as materialized (
	select c.hour, c.job_type,
		(extract(epoch from c.hour - o.first) / 3600)::integer as nr,
		coalesce(sum(c.n) filter (where c.outcome = 'succeeded'), 0) as succeeded,
		coalesce(sum(c.n) filter (where c.outcome in ('failed', 'lost')), 0) as failed,
		coalesce(sum(c.n) filter (where c.outcome = 'dead'), 0) as dead,
		coalesce(sum(c.n) filter (where c.outcome = 'cancelled'), 0) as cancelled
	from cells c cross join open o
	group by c.hour, c.job_type, o.first
), counts as (
	select e.nr, e.job_type, sum(e.succeeded) as succeeded, sum(e.failed) as failed, sum(e.dead) as dead, sum(e.cancelled) as cancelled,
		string_agg(e.nr || ':' || e.succeeded || ':' || e.failed + e.dead, ' ' order by e.nr) as hours
	from ends e
	group by grouping sets ((e.nr), (e.job_type))
), buckets as (
	select b.nr, b.job_type, array_agg(b.run order by b.k) as run, array_agg(b.wait order by b.k) as wait
	from (select u.nr, u.job_type, u.k, coalesce(sum(u.run), 0)::bigint as run, coalesce(sum(u.wait), 0)::bigint as wait
		from (select (extract(epoch from c.hour - o.first) / 3600)::integer as nr, c.job_type, u.run, u.wait, u.k
			from cells c cross join open o
			cross join lateral unnest(c.run_buckets, c.wait_buckets) with ordinality u(run, wait, k)) u
		group by grouping sets ((u.nr, u.k), (u.job_type, u.k))) b
	group by b.nr, b.job_type
), times as (
	select b.nr, b.job_type, jobrun.below(b.wait, 0.5) as wait_p50, jobrun.below(b.wait, 0.95) as wait_p95,
		jobrun.below(b.wait, 0.99) as wait_p99, jobrun.below(b.run, 0.5) as run_p50, jobrun.below(b.run, 0.95) as run_p95,
		jobrun.below(b.run, 0.99) as run_p99
	from buckets b
)
(select 'hour' as kind, null::text as job_type, c.nr, c.succeeded, c.failed, c.dead, c.cancelled, t.wait_p50, t.wait_p95, t.wait_p99,
	t.run_p50, t.run_p95, t.run_p99, null::text as hours, null::bigint as queued, null::bigint as retrying, null::bigint as running,
	null::bigint as dead_now, null::boolean as waits_more, null::boolean as dead_more, null::bigint as oldest_due_ms,
	null::bigint as last_ok_ms, null::bigint as next_slot_ms
from counts c left join times t on t.nr = c.nr
where c.nr between 0 and 167
order by c.nr)
union all
(select 'type', coalesce(s.job_type, c.job_type), null, coalesce(c.succeeded, 0), coalesce(c.failed, 0), coalesce(c.dead, 0),
	coalesce(c.cancelled, 0), t.wait_p50, t.wait_p95, t.wait_p99, t.run_p50, t.run_p95, t.run_p99, c.hours,
	coalesce(s.queued, 0), coalesce(s.retrying, 0), coalesce(s.running, 0), coalesce(s.dead, 0), coalesce(s.waiting_is_capped, false),
	coalesce(s.dead_is_capped, false), floor(extract(epoch from now() - s.oldest_due_at) * 1000)::bigint,
	floor(extract(epoch from now() - s.last_succeeded_at) * 1000)::bigint, floor(extract(epoch from s.next_slot_at - now()) * 1000)::bigint
from jobrun.type_counts(null, $1::bigint) s
full join (select * from counts c where c.job_type is not null) c on c.job_type = s.job_type
left join times t on t.job_type = c.job_type
order by coalesce(c.succeeded + c.failed + c.dead, 0) + coalesce(s.queued + s.retrying + s.running, 0) desc, 2
limit 1000)
