-- report_runners: when runners were there in the last 24 hours, a row for each host; $1 time zone, $2 how many hosts. Looks at the newest
-- 30,000 runners. A gap is longer than two minutes more than twice the usual time between two starts. Returns host, runners, the usual
-- minutes between two starts, ms since one was seen, is the host paused; the times without a gap, as "FROM-TO ..." in minutes of these 24
-- hours; how many gaps there are, and the last of them as text; and in each row: hosts, minutes that are not known since there were too
-- many runners.
with newest as materialized (
	select n.host, n.started_at, coalesce(n.finished_at, n.last_seen_at) as ended_at, n.last_seen_at
	from jobrun.job_runners n where n.started_at > now() - interval '25 hours'
	order by n.started_at desc limit 30000
), minutes as (
	select n.host, n.started_at, n.last_seen_at,
		greatest(0, floor(extract(epoch from n.started_at - now()) / 60)::integer + 1440) as first,
		least(1439, floor(extract(epoch from n.ended_at - now()) / 60)::integer + 1440) as last
	from newest n
	where n.ended_at > now() - interval '24 hours'
), starts as (
	select m.*, m.first - lag(m.first) over w as step, max(m.last) over (w rows between unbounded preceding and 1 preceding) as before
	from minutes m
	window w as (partition by m.host order by m.first, m.started_at)
), hosts as (
	select s.host, count(*) as runners, max(s.last_seen_at) as seen_at,
		coalesce(percentile_disc(0.5) within group (order by s.step) filter (where s.step > 0), 1) as usual
	from starts s group by s.host
), marked as (
	select s.host, s.first, s.last, s.before, h.usual, count(*) filter (where s.first - s.before > 2 * h.usual + 2)
		over (partition by s.host order by s.first, s.started_at) as stretch
	from starts s join hosts h on h.host = s.host
), stretches as (
	select m.host, m.stretch, min(m.first) as first, greatest(max(m.last), least(max(m.first) + max(m.usual), 1439)) as last
	from marked m group by m.host, m.stretch
), gaps as (
	select s.host, s.stretch, lag(s.last) over (partition by s.host order by s.stretch) as since, s.first as until from stretches s
)
select h.host, h.runners, h.usual, floor(extract(epoch from now() - h.seen_at) * 1000)::bigint,
	exists (select from jobrun.job_runners p where p.host = h.host and p.paused_until > now()),
	(select string_agg(s.first || '-' || s.last, ' ' order by s.stretch) from (select * from stretches s where s.host = h.host
		order by s.stretch desc limit 300) s),
	(select count(*) from gaps g where g.host = h.host and g.since is not null),
	(select string_agg(to_char((now() + (g.since - 1440) * interval '1 minute') at time zone $1::text, 'HH24:MI') || ' to '
		|| to_char((now() + (g.until - 1440) * interval '1 minute') at time zone $1::text, 'HH24:MI'), ', ' order by g.stretch)
		from (select * from gaps g where g.host = h.host and g.since is not null order by g.stretch desc limit 3) g),
	count(*) over (),
	(select case when count(*) = 30000 then greatest(0, floor(extract(epoch from min(n.started_at) - now()) / 60)::integer + 1440) else 0 end
		from newest n)
from hosts h
order by h.host
limit $2::bigint
