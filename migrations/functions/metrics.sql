-- metrics: what `jobrun metrics` prints for Prometheus. Nothing here reads history or writes, and waiting runs are counted
-- up to a limit. Labels are arrays, name and value by turns.

-- add_totals: add cells of job_stats, of one hour that was never added, to job_totals. At most 1,000 combinations of job type and
-- queue have rows of their own there; what comes later is added to "other". A row in which nothing has ended for as long as
-- sums are kept, and for thirty days at least, goes and makes room. To Prometheus that is a counter that begins again.
create or replace function jobrun.add_totals(cells jobrun.job_stats[]) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
begin
	delete from jobrun.job_totals t
	where t.last_hour < jobrun.kept_since((select greatest(s.keep_stats, interval '30 days') from jobrun.settings s));
	with known as materialized (
		select t.job_type, t.queue from jobrun.job_totals t group by t.job_type, t.queue
	), given as materialized (
		select c.*, row_number() over () as nr from unnest(add_totals.cells) c
	), fresh as (
		select g.job_type, g.queue from given g
		where (g.job_type, g.queue) not in (select k.job_type, k.queue from known k)
		group by g.job_type, g.queue order by sum(g.n) desc, g.job_type, g.queue
		limit greatest(0, 1000 - (select count(*) from known))
	), named as materialized (
		select g.nr, coalesce(p.job_type, 'other') as job_type, coalesce(p.queue, 'other') as queue
		from given g left join (select k.* from known k union all select f.* from fresh f) p on p.job_type = g.job_type and p.queue = g.queue
	), buckets as materialized (
		select b.job_type, b.queue, b.outcome, array_agg(b.ran order by b.k) filter (where b.ran is not null) as run_buckets,
			array_agg(b.waited order by b.k) filter (where b.waited is not null) as wait_buckets
		from (select m.job_type, m.queue, g.outcome, u.k, sum(u.ran)::bigint as ran, sum(u.waited)::bigint as waited
			from given g join named m on m.nr = g.nr
			cross join unnest(g.run_buckets, g.wait_buckets) with ordinality u(ran, waited, k)
			group by m.job_type, m.queue, g.outcome, u.k) b
		group by b.job_type, b.queue, b.outcome
	)
	insert into jobrun.job_totals as t (last_hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
	select max(g.hour), sum(g.n), sum(g.run_ms), sum(g.wait_ms), m.job_type, m.queue, g.outcome,
		coalesce((select b.run_buckets from buckets b where b.job_type = m.job_type and b.queue = m.queue and b.outcome = g.outcome), '{}'),
		coalesce((select b.wait_buckets from buckets b where b.job_type = m.job_type and b.queue = m.queue and b.outcome = g.outcome), '{}')
	from given g join named m on m.nr = g.nr
	group by m.job_type, m.queue, g.outcome
	on conflict (job_type, queue, outcome) do update set last_hour = greatest(t.last_hour, excluded.last_hour), n = t.n + excluded.n,
		run_ms = t.run_ms + excluded.run_ms, wait_ms = t.wait_ms + excluded.wait_ms,
		run_buckets = jobrun.both_buckets(t.run_buckets, excluded.run_buckets),
		wait_buckets = jobrun.both_buckets(t.wait_buckets, excluded.wait_buckets);
end
$fn$;

-- both_buckets: the counts of two arrays of buckets together.
create or replace function jobrun.both_buckets(a bigint[], b bigint[]) returns bigint[]
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select coalesce(array_agg(coalesce(u.na, 0) + coalesce(u.nb, 0) order by u.k), '{}')
	from unnest(both_buckets.a, both_buckets.b) with ordinality u(na, nb, k)
$fn$;

-- metrics_of_types: those of each job type and queue that is known from a definition, from runs that have not ended or are dead,
-- or from job_totals. Of `pairs` combinations at most, those with the most runs; left_out says how many more there are.
-- Counters are job_totals and what ended since. A run that was cancelled while it waited counts once its hour is summed: until
-- then it leaves no trace when people retry it, and a counter must not fall.
create or replace function jobrun.metrics_of_types(most bigint, pairs bigint)
returns table (metric text, labels text[], value numeric, buckets bigint[])
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' set jit = off
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_most  constant bigint := most;
	v_since constant timestamptz := (select s.totals_until from jobrun.settings s);
begin
	return query
	with heads as materialized (
		select h.job_type, h.queue from jobrun.waiting_heads() h group by h.job_type, h.queue
	), waiting as materialized (
		select h.job_type, h.queue, w.queued, w.retrying
		from heads h cross join lateral (
			select count(*) filter (where f.status = 'queued') as queued, count(*) filter (where f.status = 'failed') as retrying
			from (select r.status from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = h.job_type and r.queue = h.queue
				limit (select case when v_most is not null then least(v_most, greatest(1, 50000 / count(*))) end from heads)) f) w
	), running as materialized (
		select r.job_type, r.queue, count(*) as n from jobrun.job_runs r where r.status = 'running' group by r.job_type, r.queue
	), dead as materialized (
		select d.job_type, d.queue, count(*) as n
		from (select r.job_type, r.queue from jobrun.job_runs r where r.status = 'dead' order by r.id desc limit v_most) d
		group by d.job_type, d.queue
	), sums as materialized (
		select t.job_type, t.queue, t.outcome, t.n, t.run_ms, t.wait_ms, t.run_buckets, t.wait_buckets, false as is_open from jobrun.job_totals t
		union all
		select o.job_type, o.queue, o.outcome, o.n, o.run_ms, o.wait_ms, o.run_buckets, o.wait_buckets, true from jobrun.stats_of(v_since, 'infinity') o
	), known as materialized (
		select k.job_type, k.queue, row_number() over (order by sum(k.n) desc, k.job_type, k.queue) as nr
		from (
			select w.job_type, w.queue, w.queued + w.retrying as n from waiting w
			union all select r.job_type, r.queue, r.n from running r
			union all select d.job_type, d.queue, d.n from dead d
			union all select s.job_type, s.queue, s.n from sums s
			union all select d.job_type, coalesce(d.queue, (select t.queue from jobrun.job_definitions t where t.name = d.job_type), 'default'), 0
			from jobrun.job_definitions d) k
		group by k.job_type, k.queue
	), chosen as materialized (
		select k.job_type, k.queue, array['job_type', k.job_type, 'queue', k.queue] as labels from known k where k.nr <= pairs
	), ends as materialized (     -- ran: those that ended an attempt, so not what was cancelled while it waited
		select c.labels, s.outcome, sum(case when s.is_open and s.outcome = 'cancelled' then a.ran else s.n end) as n,
			sum(case when s.outcome = 'cancelled' then a.ran else s.n end) as attempts, sum(s.run_ms) as run_ms, sum(s.wait_ms) as wait_ms
		from chosen c join sums s on s.job_type = c.job_type and s.queue = c.queue
		cross join lateral (select coalesce(sum(u.n), 0) as ran from unnest(s.run_buckets) u(n)) a
		group by c.labels, s.outcome
	), times as materialized (
		select b.labels, array_agg(b.ran order by b.k) as ran, array_agg(b.waited order by b.k) as waited
		from (select c.labels, u.k, coalesce(sum(u.ran), 0)::bigint as ran, coalesce(sum(u.waited), 0)::bigint as waited
			from chosen c join sums s on s.job_type = c.job_type and s.queue = c.queue
			cross join unnest(s.run_buckets, s.wait_buckets) with ordinality u(ran, waited, k)
			group by c.labels, u.k) b
		group by b.labels
	), due as materialized (
		select d.job_type, d.queue, d.since from jobrun.oldest_due() d
	)
	select 'runs', c.labels || array['status', s.status], (case s.status
			when 'queued' then (select w.queued from waiting w where w.job_type = c.job_type and w.queue = c.queue)
			when 'retrying' then (select w.retrying from waiting w where w.job_type = c.job_type and w.queue = c.queue)
			when 'running' then (select r.n from running r where r.job_type = c.job_type and r.queue = c.queue)
			else (select d.n from dead d where d.job_type = c.job_type and d.queue = c.queue) end)::numeric, null::bigint[]
	from chosen c cross join unnest(array['queued', 'retrying', 'running', 'dead']) s(status)
	union all
	select 'oldest_due_seconds', c.labels, round(extract(epoch from now() - d.since)::numeric, 3), null
	from chosen c left join due d on d.job_type = c.job_type and d.queue = c.queue
	union all
	select 'runs_finished_total', c.labels || array['outcome', o.outcome], e.n, null
	from chosen c cross join unnest(array['succeeded', 'dead', 'cancelled']) o(outcome)
	left join ends e on e.labels = c.labels and e.outcome = o.outcome
	union all
	select 'attempts_total', c.labels || array['outcome', o.outcome], e.attempts, null
	from chosen c cross join unnest(array['succeeded', 'failed', 'dead', 'later', 'released', 'cancelled', 'lost']) o(outcome)
	left join ends e on e.labels = c.labels and e.outcome = o.outcome
	union all
	select 'attempt_duration_seconds', c.labels, round((select sum(e.run_ms) from ends e where e.labels = c.labels) / 1000, 3),
		coalesce(t.ran, '{}')
	from chosen c left join times t on t.labels = c.labels
	union all
	select 'run_wait_seconds', c.labels, round((select sum(e.wait_ms) from ends e where e.labels = c.labels) / 1000, 3),
		coalesce(t.waited, '{}')
	from chosen c left join times t on t.labels = c.labels
	union all
	select 'metrics_left_out', array['of', 'job_type'], (select greatest(count(*) - pairs, 0) from known)::numeric, null
	union all
	select 'runs_counted_max', '{}', (select case when v_most is not null then least(v_most, greatest(1, 50000 / greatest(count(*), 1))) end from heads)::numeric, null;
end
$fn$;

-- claims_of: claims of the runners that ended then, as they wrote them in job_runners.counts: how many, how long they took in
-- ms, and how many left out a queue that somebody else had locked. What is no such number counts as 0.
create or replace function jobrun.claims_of(since timestamptz, until timestamptz, out claims bigint, out ms bigint, out locked bigint)
language sql stable set search_path = pg_catalog, jobrun, pg_temp set jit = off as $fn$
	select coalesce(sum(v.n) filter (where v.name = 'claims'), 0)::bigint, coalesce(sum(v.n) filter (where v.name = 'claim_ms'), 0)::bigint,
		coalesce(sum(v.n) filter (where v.name = 'claims_locked'), 0)::bigint
	from (select k.name, case when jsonb_typeof(n.counts -> k.name) = 'number' then
			least(greatest((n.counts ->> k.name)::numeric, 0), 1000000000)::bigint end as n
		from jobrun.job_runners n cross join unnest('{claims,claim_ms,claims_locked}'::text[]) k(name)
		where n.finished_at >= claims_of.since and n.finished_at < claims_of.until) v
$fn$;

-- metrics_of_all: those that no job type has. Of hosts those seen last are told, `hosts` at most; of limits, and of pauses
-- of each kind, `most` at most, pauses that hold first.
create or replace function jobrun.metrics_of_all(hosts bigint, most bigint)
returns table (metric text, labels text[], value numeric)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp set jit = off
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
begin
	return query
	with seen as materialized (
		select h.*, row_number() over (order by h.last_seen_at desc, h.host) as nr
		from jobrun.seen_hosts() h
	), running as materialized (
		select r.locked_by as host, r.locked_until from jobrun.job_runs r where r.status = 'running'
	), limits as materialized (
		select q.name, q.max_running, row_number() over (order by q.name) as nr from jobrun.job_queues q where q.max_running is not null
	), places as materialized (
		select p.kind, p.name, p.is_paused, row_number() over (partition by p.kind order by p.is_paused desc, p.name) as nr
		from (
			select 'all' as kind, '' as name, coalesce(s.paused_until > now(), false) as is_paused from jobrun.settings s
			union all select 'host', h.host, h.is_paused from seen h
			union all select 'queue', q.name, coalesce(q.paused_until > now(), false) from jobrun.job_queues q
			union all select 'type', t.name, coalesce(t.paused_until > now(), false) from jobrun.job_types t
			union all select 'definition', d.name, coalesce(d.paused_until > now(), false) from jobrun.job_definitions d) p
	)
	select 'runner_last_seen_timestamp_seconds', array['host', h.host], round(extract(epoch from h.last_seen_at)::numeric, 3)
	from seen h where h.nr <= metrics_of_all.hosts
	union all
	select 'runner_held_runs', array['host', h.host], (select count(*) from running r where r.host = h.host)::numeric
	from seen h where h.nr <= metrics_of_all.hosts
	union all
	select c.metric, '{}', c.n
	from jobrun.settings s cross join jobrun.claims_of(s.totals_until, 'infinity') o
	cross join lateral (values ('claims_total', s.claims_total + o.claims::numeric),
		('claim_seconds_total', round((s.claim_ms_total + o.ms::numeric) / 1000, 3)),
		('claims_queue_locked_total', s.claims_locked_total + o.locked::numeric)) c(metric, n)
	union all
	select 'last_runner_seen_timestamp_seconds', '{}', coalesce((select round(extract(epoch from l.last_seen_at)::numeric, 3) from jobrun.last_runner() l), 0)
	union all
	select 'expired_leases', '{}', (select count(*) from running r where r.locked_until < now())::numeric
	union all
	select 'slot_late_seconds', '{}', (select coalesce(max(round(extract(epoch from now() - d.next_slot_at)::numeric, 3)), 0)
		from jobrun.job_definitions d
		where d.next_slot_at < now() and d.enabled and d.name not like 'jobrun.%' and (d.paused_until is null or d.paused_until <= now()))
	union all
	select 'queue_running_limit', array['queue', l.name], l.max_running::numeric from limits l where l.nr <= most
	union all
	select 'lock_waits', '{}', (select count(distinct l.pid) from pg_locks l join pg_stat_activity a on a.pid = l.pid
		where not l.granted and a.datname = current_database())::numeric
	union all
	select 'paused', array['kind', p.kind, 'name', p.name], p.is_paused::integer::numeric from places p where p.nr <= most
	union all
	select 'metrics_left_out', array['of', k.of], k.n::numeric
	from (values ('host', (select count(*) from seen h where h.nr > metrics_of_all.hosts)),
		('queue', (select count(*) from limits l where l.nr > most)), ('pause', (select count(*) from places p where p.nr > most))) k(of, n)
	union all
	select 'written_timestamp_seconds', '{}', round(extract(epoch from now())::numeric, 3);
end
$fn$;

-- metrics: all of them. Waiting and dead runs are counted up to `most` (null: all); With buckets (see stats_of) the
-- value is the sum of the times in seconds.
create or replace function jobrun.metrics(most bigint default 10000)
returns table (metric text, labels text[], value numeric, buckets bigint[])
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select t.metric, t.labels, coalesce(t.value, 0), t.buckets from jobrun.metrics_of_types(most, 200) t
	union all
	select a.metric, a.labels, a.value, null from jobrun.metrics_of_all(100, 200) a
$fn$;
