-- watch: what monitoring reads. Nothing here reads finished runs that are kept, and a million waiting runs cost what a
-- hundred do.

-- waiting_heads: of each job type, queue and priority the first of the waiting runs that nothing binds (bound = 0), and the first of
-- those with a lock key or a definition. It steps from one to the next in job_runs_ready, and reads no other runs.
create or replace function jobrun.waiting_heads()
returns table (job_type text, queue text, priority smallint, bound smallint, run_at timestamptz)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
begin
	return query
	with recursive walk as (
		(select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
		from jobrun.job_runs r
		where r.status in ('queued', 'failed')
		order by r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id
		limit 1)
		union all
		select n.* from walk w cross join lateral (
			select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
			from jobrun.job_runs r
			where r.status in ('queued', 'failed')
				and (r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint)
					> (w.job_type, w.queue, w.priority, w.bound)
			order by r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id
			limit 1) n
	)
	select w.job_type, w.queue, w.priority, w.bound, w.run_at from walk w;
end
$fn$;

-- last_runner: the runner that was seen last, of the thousand newest and of those that stay (run --for); no row: there was none. Those
-- of `jobrun exec`, which take no runs but their own and have no job types, count only if there are no others: while they come, the
-- line that starts the runs of the queue may be gone.
create or replace function jobrun.last_runner()
returns table (host text, last_seen_at timestamptz)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
begin
	return query
	select n.host, n.last_seen_at
	from (
		(select r.host, r.last_seen_at, r.job_types from jobrun.job_runners r order by r.started_at desc limit 1000)
		union all
		(select r.host, r.last_seen_at, r.job_types from jobrun.job_runners r
		where r.lingers_until is not null order by r.lingers_until desc limit 1000)) n
	order by n.job_types <> '{}' desc, n.last_seen_at desc limit 1;
end
$fn$;

-- seen_hosts: each host that had a runner, when one of its ten newest was seen last, and whether the host is paused. It steps from host
-- to host.
create or replace function jobrun.seen_hosts()
returns table (host text, last_seen_at timestamptz, is_paused boolean)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
begin
	return query
	with recursive hosts as (
		(select r.host from jobrun.job_runners r order by r.host limit 1)
		union all
		select n.host from hosts h cross join lateral (
			select r.host from jobrun.job_runners r where r.host > h.host order by r.host limit 1) n
	)
	select h.host, n.last_seen_at, exists (select from jobrun.job_runners p where p.host = h.host and p.paused_until > now())
	from hosts h cross join lateral (
		select max(r.last_seen_at) as last_seen_at
		from (select l.last_seen_at from jobrun.job_runners l where l.host = h.host order by l.started_at desc limit 10) r) n;
end
$fn$;

-- waiting_commands: of the bound runs of one combination of waiting_heads(), those that people have retried and that the next
-- `jobrun exec` starts, as explain() says: no handler is missing, and nothing is late. Empty if the first one is no such run, or if a
-- runner takes them, too. Of the first thousand.
-- A call costs several times what the other questions about a combination cost. Where there may be very many, callers first look
-- whether the first run was claimed before, and has a single attempt.
create or replace function jobrun.waiting_commands(job_type text, queue text, priority smallint) returns bigint[]
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_type     constant text := job_type;
	v_queue    constant text := queue;
	v_priority constant smallint := priority;
	v_run      jobrun.job_runs;
begin
	select r.* into v_run from jobrun.job_runs r
	where r.status in ('queued', 'failed') and r.job_type = v_type and r.queue = v_queue and r.priority = v_priority
		and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = 1
	order by r.run_at, r.id limit 1;
	if jobrun.is_retried_command(v_run) is not true or v_type = any (jobrun.taken_types(v_queue)) then
		return '{}';
	end if;
	return array(
		select r.id
		from (select o.* from jobrun.job_runs o
			where o.status in ('queued', 'failed') and o.job_type = v_type and o.queue = v_queue and o.priority = v_priority
				and least(num_nonnulls(o.concurrency_key, o.definition_id), 1)::smallint = 1
			order by o.run_at, o.id limit 1000) r
		where jobrun.is_retried_command(r) and exists (select from jobrun.job_definitions d where d.id = r.definition_id));
end
$fn$;

-- oldest_due: of each job type (null: of all) and queue, since when its oldest run is due that nobody holds and no pause holds
-- back, and that does not wait for the next `jobrun exec`; no row: there is none. Only where a definition is paused, or such runs wait,
-- it goes on from run to run, to the first other one.
create or replace function jobrun.oldest_due(job_types text[] default null)
returns table (job_type text, queue text, since timestamptz)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_paused bigint[] := array(select d.id from jobrun.job_definitions d where d.paused_until > now());
begin
	if exists (select from jobrun.settings s where s.paused_until > now()) then
		return;
	end if;
	return query
	select w.job_type, w.queue, min(o.run_at)
	from jobrun.waiting_heads() w
	left join jobrun.job_queues q on q.name = w.queue
	left join jobrun.job_types t on t.name = w.job_type
	cross join lateral (select case when w.bound = 1 and w.run_at <= now() and exists (
			select from (
				select r.claim_seq, r.max_attempts from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = w.queue and r.priority = w.priority
					and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = 1
				order by r.run_at, r.id limit 1) f
			where f.claim_seq > 0 and f.max_attempts = 1)
		then jobrun.waiting_commands(w.job_type, w.queue, w.priority) else '{}'::bigint[] end as ids) c
	cross join lateral (
		select w.run_at where w.bound = 0 or v_paused = '{}' and c.ids = '{}'
		union all
		(select r.run_at from jobrun.job_runs r
		where w.bound = 1 and (v_paused <> '{}' or c.ids <> '{}') and r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = w.queue
			and r.priority = w.priority and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = 1
			and not coalesce(r.definition_id = any (v_paused), false) and r.id <> all (c.ids)
		order by r.run_at, r.id limit 1)) o
	where o.run_at <= now() and (oldest_due.job_types is null or w.job_type = any (oldest_due.job_types))
		and (q.paused_until is null or q.paused_until <= now()) and (t.paused_until is null or t.paused_until <= now())
	group by w.job_type, w.queue;
end
$fn$;

-- late_counts: of each job type (null: of all) that has runs which have been due for five minutes, how many, in words; counted up to
-- 100. In job_runs_ready such runs stand before those that came later, so no others are read. Those that wait for the next
-- `jobrun exec` are not late.
create or replace function jobrun.late_counts(job_types text[])
returns table (job_type text, due text)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
begin
	return query
	with counts as (
		select h.job_type, sum(f.n)::bigint as n
		from jobrun.waiting_heads() h
		cross join lateral (select case when h.bound = 1 and h.run_at <= now() - interval '5 minutes' and exists (
				select from (
					select r.claim_seq, r.max_attempts from jobrun.job_runs r
					where r.status in ('queued', 'failed') and r.job_type = h.job_type and r.queue = h.queue and r.priority = h.priority
						and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = 1
					order by r.run_at, r.id limit 1) f
				where f.claim_seq > 0 and f.max_attempts = 1)
			then jobrun.waiting_commands(h.job_type, h.queue, h.priority) else '{}'::bigint[] end as ids) e
		cross join lateral (
			select count(*) as n from (
				select from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = h.job_type and r.queue = h.queue and r.priority = h.priority
					and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = h.bound
					and r.run_at <= now() - interval '5 minutes' and r.id <> all (e.ids)
				limit 101) r) f
		where h.run_at <= now() - interval '5 minutes' and (late_counts.job_types is null or h.job_type = any (late_counts.job_types))
		group by h.job_type
	)
	select c.job_type, case when c.n > 100 then '>100' else c.n::text end from counts c where c.n > 0;
end
$fn$;

-- type_counts: of each job type (null: of all) what waits, runs, is dead, and has succeeded in 24 hours. Waiting runs of a type, and
-- dead runs, are counted up to `most` (null: all); waiting_is_capped, dead_is_capped: there are more. Where several types have so
-- many waiting, each is counted up to its share of 5,000, but at least 100, since to count takes a microsecond a run. What succeeded
-- in completed hours is known from job_stats; of what succeeded since then the newest 50,000 are looked at
-- (cmd/sql/status_head.sql says if there are more). The last success of a type that has had none for 24 hours is known from
-- job_totals, which has few rows; job_stats would be read to its beginning for it.
create or replace function jobrun.type_counts(job_types text[], most bigint)
returns table (job_type text, queued bigint, retrying bigint, running bigint, dead bigint, succeeded_24h bigint,
	waiting_is_capped boolean, dead_is_capped boolean,
	oldest_due_at timestamptz, last_succeeded_at timestamptz, next_slot_at timestamptz)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_most  constant bigint := most;
	v_until constant timestamptz := (select s.stats_until from jobrun.settings s);
begin
	return query
	with heads as materialized (
		select h.job_type, min(h.run_at) as first_at
		from jobrun.waiting_heads() h
		where type_counts.job_types is null or h.job_type = any (type_counts.job_types)
		group by h.job_type
	), begun as materialized (      -- each counted a little way, to know which are long
		select h.job_type, h.first_at, f.queued, f.retrying, f.queued + f.retrying > 100 as is_long
		from heads h cross join lateral (
			select count(*) filter (where r.status = 'queued') as queued, count(*) filter (where r.status = 'failed') as retrying
			from (select r.status from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = h.job_type limit 101) r) f
	), limits as (
		select b.*, case when not b.is_long then 100
			when count(*) filter (where b.is_long) over () = 1 then v_most
			when v_most is not null then least(v_most, greatest(100, 5000 / count(*) filter (where b.is_long) over ())) end as most
		from begun b
	), ended as (      -- by job_runs_finished: 'keyed' and 'succeeded' are its last kinds, and rows of the others are not read
		select r.job_type, r.finished_at from jobrun.job_runs r
		where r.finished_at is not null and r.finished_at >= greatest(v_until, now() - interval '24 hours') and case
			when r.status <> 'succeeded' then r.status
			when r.idempotency_key is null or r.idempotency_key like 'cli:%' then 'succeeded'
			else 'keyed' end >= 'keyed'
		order by r.finished_at desc limit case when v_most is not null then 50000 end
	), counts as (
		select l.job_type, least(f.queued, l.most) as queued, least(f.retrying, l.most) as retrying, 0::bigint as running, 0::bigint as dead,
			0::bigint as succeeded, f.queued + f.retrying > l.most as waiting_is_capped, false as dead_is_capped,
			case when l.first_at <= now() then l.first_at end as oldest_due_at, null::timestamptz as last_at, null::timestamptz as next_slot_at
		from limits l cross join lateral (
			select l.queued, l.retrying where l.most = 100
			union all
			select count(*) filter (where r.status = 'queued'), count(*) filter (where r.status = 'failed')
			from (select r.status from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = l.job_type limit l.most + 1) r
			where l.most is distinct from 100
			having l.most is distinct from 100) f
		union all
		select r.job_type, 0, 0, count(*), 0, 0, false, false, null, null, null
		from jobrun.job_runs r where r.status = 'running' group by r.job_type
		union all
		select d.job_type, 0, 0, 0, least(count(*), v_most), 0, false, sum(count(*)) over () > v_most, null, null, null
		from (select r.job_type from jobrun.job_runs r where r.status = 'dead' order by r.id desc limit v_most + 1) d      -- by their index alone
		group by d.job_type
		union all
		select s.job_type, 0, 0, 0, 0, sum(s.n)::bigint, false, false, null, max(s.hour), null
		from jobrun.job_stats s
		where s.hour >= now() - interval '24 hours' and s.hour < v_until and s.outcome = 'succeeded' group by s.job_type
		union all
		select e.job_type, 0, 0, 0, 0, count(*), false, false, null, max(e.finished_at), null
		from ended e group by e.job_type
		union all
		select d.job_type, 0, 0, 0, 0, 0, false, false, null, null,
			case when d.enabled and (d.paused_until is null or d.paused_until <= now()) then d.next_slot_at end
		from jobrun.job_definitions d where d.job_type not like 'jobrun.%'
	)
	select c.job_type, sum(c.queued)::bigint, sum(c.retrying)::bigint, sum(c.running)::bigint, sum(c.dead)::bigint, sum(c.succeeded)::bigint,
		coalesce(bool_or(c.waiting_is_capped), false), coalesce(bool_or(c.dead_is_capped), false), min(c.oldest_due_at),
		coalesce(max(c.last_at),
			(select max(t.last_hour) from jobrun.job_totals t where t.job_type = c.job_type and t.outcome = 'succeeded')),
		min(c.next_slot_at)
	from counts c
	where type_counts.job_types is null or c.job_type = any (type_counts.job_types)
	group by c.job_type;
end
$fn$;

-- measures: what `jobrun check` judges, a row for each: its label, its value in seconds or as a number (null: there is none),
-- whom the worst of it is about (null: nobody): of dead runs and expired leases the one that has more than half of them, else
-- the first three. Of these job types (null: of all), but for runner_age, see last_runner().
-- Dead runs are read by the index of dead runs, whatever else has finished in the hour.
create or replace function jobrun.measures(job_types text[] default null)
returns table (label text, value bigint, about text)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
begin
	return query
	with due as (
		select d.job_type, extract(epoch from now() - d.since) as age from jobrun.oldest_due(measures.job_types) d order by d.since limit 1
	), runner as (
		select n.host, extract(epoch from now() - n.last_seen_at) as age from jobrun.last_runner() n
	), dead as (
		select 'dead' as label, d.job_type as name, count(*) as n from (select r.job_type, r.finished_at from jobrun.job_runs r where r.status = 'dead' offset 0) d
		where d.finished_at > now() - interval '1 hour' and (measures.job_types is null or d.job_type = any (measures.job_types))
		group by d.job_type
	), late as (
		select d.name, extract(epoch from now() - d.next_slot_at) as age
		from jobrun.job_definitions d
		where d.next_slot_at < now() and d.enabled and d.name not like 'jobrun.%' and (d.paused_until is null or d.paused_until <= now())
			and (measures.job_types is null or d.job_type = any (measures.job_types))
		order by d.next_slot_at limit 1
	), expired as (
		select 'expired_leases' as label, r.locked_by as name, count(*) as n
		from jobrun.job_runs r
		where r.status = 'running' and r.locked_until < now() - interval '2 minutes'
			and (measures.job_types is null or r.job_type = any (measures.job_types))
		group by r.locked_by
	), counted as (
		select c.label, sum(c.n) as n, case when max(c.n) * 2 > sum(c.n) then min(c.name) filter (where c.place = 1)
			else string_agg(c.name, ', ' order by c.place) filter (where c.place <= 3) || case when count(*) > 3 then ' and others' else '' end end as about
		from (select u.label, u.name, u.n, row_number() over (partition by u.label order by u.n desc, u.name) as place
			from (select * from dead union all select * from expired) u) c
		group by c.label
	), paused as (
		select 'everything' as name from jobrun.settings s where s.paused_until > now()
		union all
		select distinct 'host ' || n.host from jobrun.job_runners n where n.paused_until > now()
		union all
		select 'queue ' || q.name from jobrun.job_queues q where q.paused_until > now() and measures.job_types is null
		union all
		select 'type ' || t.name from jobrun.job_types t
		where t.paused_until > now() and (measures.job_types is null or t.name = any (measures.job_types))
		union all
		select 'definition ' || d.name from jobrun.job_definitions d
		where d.paused_until > now() and (measures.job_types is null or d.job_type = any (measures.job_types))
	)
	select m.label, m.value::bigint, m.about
	from (values
		(1, 'runner_age', (select floor(greatest(age, 0)) from runner), (select host from runner)),
		(2, 'oldest_due', coalesce((select floor(age) from due), 0), (select job_type from due)),
		(3, 'dead', coalesce((select n from counted where label = 'dead'), 0), (select about from counted where label = 'dead')),
		(4, 'slot_late', coalesce((select floor(age) from late), 0), (select name from late)),
		(5, 'expired_leases', coalesce((select n from counted where label = 'expired_leases'), 0), (select about from counted where label = 'expired_leases')),
		(6, 'paused', (select count(*) from paused), (select name from paused order by name = 'everything' desc, name limit 1))
	) m(nr, label, value, about)
	order by m.nr;
end
$fn$;

-- below: the bound below which the share of all times stays that were counted in these buckets (see stats_of), in ms; null: there
-- are none. The real time is at least half of it.
create or replace function jobrun.below(buckets bigint[], share double precision) returns bigint
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select (2 ^ min(b.k))::bigint
	from (select c.k, sum(c.n) over (order by c.k) as so_far, sum(c.n) over () as total
		from unnest(buckets) with ordinality c(n, k)) b
	where b.total > 0 and b.so_far >= share * b.total
$fn$;

-- stats: what ended since then, from the beginning of that hour, of these job types (null: of all). A row for each type, queue, or
-- hour or day of the zone in which something ended. Of each outcome how many; run_ms: the sum of all times, those of failed
-- attempts, too; the buckets of all rows summed.
create or replace function jobrun.stats(since timestamptz, job_types text[] default null, by text default 'type', zone text default 'UTC')
returns table (name text, succeeded bigint, failed bigint, dead bigint, cancelled bigint, lost bigint, run_ms bigint,
	run_buckets bigint[], wait_buckets bigint[])
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp set jit = off set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_since constant timestamptz := date_trunc('hour', stats.since at time zone 'UTC') at time zone 'UTC';
	v_until constant timestamptz := (select s.stats_until from jobrun.settings s);
begin
	return query
	with cells as (
		select s.* from jobrun.job_stats s where s.hour >= v_since and s.hour < v_until
		union all
		select s.* from jobrun.stats_of(greatest(v_since, v_until), 'infinity') s
	), named as materialized (
		select case stats.by when 'type' then c.job_type when 'queue' then c.queue
				when 'hour' then to_char(c.hour at time zone stats.zone, 'YYYY-MM-DD HH24:MI')
				else to_char(c.hour at time zone stats.zone, 'YYYY-MM-DD') end as name, c.outcome, c.n, c.run_ms, c.run_buckets,
			c.wait_buckets
		from cells c
		where stats.job_types is null or c.job_type = any (stats.job_types)
	), runs as (
		select b.name, array_agg(b.n order by b.k) as buckets
		from (select n.name, u.k, sum(u.n)::bigint as n from named n cross join unnest(n.run_buckets) with ordinality u(n, k)
			group by n.name, u.k) b
		group by b.name
	), waits as (
		select b.name, array_agg(b.n order by b.k) as buckets
		from (select n.name, u.k, sum(u.n)::bigint as n from named n cross join unnest(n.wait_buckets) with ordinality u(n, k)
			group by n.name, u.k) b
		group by b.name
	)
	select n.name, coalesce(sum(n.n) filter (where n.outcome = 'succeeded'), 0)::bigint,
		coalesce(sum(n.n) filter (where n.outcome = 'failed'), 0)::bigint, coalesce(sum(n.n) filter (where n.outcome = 'dead'), 0)::bigint,
		coalesce(sum(n.n) filter (where n.outcome = 'cancelled'), 0)::bigint,
		coalesce(sum(n.n) filter (where n.outcome = 'lost'), 0)::bigint, sum(n.run_ms)::bigint,
		coalesce((select r.buckets from runs r where r.name = n.name), '{}'),
		coalesce((select w.buckets from waits w where w.name = n.name), '{}')
	from named n
	group by n.name;
end
$fn$;

-- slots_ahead: the next slots of a schedule within this time, `most` at most; null: this server does not know the zone (any more).
create or replace function jobrun.slots_ahead(schedule text, time_zone text, anchor timestamptz, ahead interval, most integer)
returns timestamptz[]
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	return array(select n.slot from jobrun.next_slots(schedule, time_zone, now(), most, anchor) n(slot) where n.slot < now() + ahead);
exception when invalid_parameter_value or sqlstate 'JR065' then
	return null;
end
$fn$;
