-- known: does anything have the name that somebody has typed? If not, these return the names that there are, one a line, so
-- that the program can ask "did you mean". null: the name is known. A name that is not known is no error: jobs may be
-- enqueued, and queues set up, before the first host has a handler.

-- other_types: has a runner of the last day a handler for this job type, or for that of this definition? jobrun asks it at
-- each enqueue, so it looks at the newest runners first and mostly reads one row. '': no runner was seen.
create or replace function jobrun.other_types(job_type text, definition text default null) returns text
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_sort = off as $fn$
declare
	v_type text := other_types.job_type;
begin
	if definition is not null then
		v_type := (select d.job_type from jobrun.job_definitions d where d.name = definition);
	end if;
	if exists (select from (select r.job_types from jobrun.job_runners r where r.started_at > now() - interval '1 day'
			order by r.started_at desc limit 2000) n where v_type = any (n.job_types))
		or exists (select from jobrun.job_runners r where r.lingers_until is not null and r.last_seen_at > now() - interval '1 day'
			and v_type = any (r.job_types))
	then
		return null;
	end if;
	return coalesce((select string_agg(distinct t.job_type, E'\n') from jobrun.seen_runners() n cross join unnest(n.job_types) t(job_type)),
		'');
end
$fn$;

-- other_paused_types, other_queues: has anything this job type, or this queue: a row of its own, an unfinished run or one of
-- the newest thousand that have finished, a definition, a runner? For a job type also: has a run of it ever been counted?
create or replace function jobrun.other_paused_types(job_type text) returns text
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_sort = off as $fn$
begin
	if exists (select from jobrun.job_types t where t.name = other_paused_types.job_type)
		or exists (select from jobrun.job_runs r where r.job_type = other_paused_types.job_type and r.status in ('queued', 'failed'))
		or exists (select from jobrun.job_definitions d where d.job_type = other_paused_types.job_type)
		or exists (select from jobrun.job_runners n where other_paused_types.job_type = any (n.job_types))
		or exists (select from (select r.job_type from jobrun.job_runs r where r.finished_at is not null
			order by r.finished_at desc limit 1000) f where f.job_type = other_paused_types.job_type)
		or exists (select from jobrun.job_totals t where t.job_type = other_paused_types.job_type)
	then
		return null;
	end if;
	return coalesce((select string_agg(distinct n.name, E'\n') from (
			select t.name from jobrun.job_types t
			union all
			select d.job_type from jobrun.job_definitions d
			union all
			select t.job_type from jobrun.seen_runners() s cross join unnest(s.job_types) t(job_type)) n), '');
end
$fn$;

create or replace function jobrun.other_queues(queue text) returns text
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_sort = off as $fn$
begin
	if exists (select from jobrun.job_queues q where q.name = other_queues.queue)
		or exists (select from jobrun.job_runs r where r.queue = other_queues.queue and r.status = 'running')
		or exists (select from jobrun.job_definitions d where d.queue = other_queues.queue)
		or exists (select from jobrun.job_runners n where other_queues.queue = any (n.queues))
		or exists (select from (select r.queue from jobrun.job_runs r where r.finished_at is not null
			order by r.finished_at desc limit 1000) f where f.queue = other_queues.queue)
		or exists (select from jobrun.job_runs r where r.queue = other_queues.queue and r.status in ('queued', 'failed'))
	then
		return null;
	end if;
	return coalesce((select string_agg(distinct n.name, E'\n') from (
			select 'default' as name
			union all
			select q.name from jobrun.job_queues q
			union all
			select d.queue from jobrun.job_definitions d
			union all
			select t.queue from jobrun.seen_runners() s cross join unnest(s.queues) t(queue)) n), '');
end
$fn$;

-- unhandled_since: job types with a run that has been due for ten minutes and that nothing but the missing handler holds back
-- for good: no runner of the last day has the type, or its host has lost it since; neither type, queue nor definition is paused, and the run does not wait for
-- the next `jobrun exec`. since: the time from which the oldest such run is due. Not those in `told`.
-- It walks as candidates() does, but from gap to gap between the types that have handlers. So it costs nothing that many runs
-- of these wait. It looks at the first thousand combinations of job type, queue and priority, and of one with definitions at the
-- first hundred due runs.
create or replace function jobrun.unhandled_since(told text[]) returns table (job_type text, since timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_told   constant text[] := told;
	v_due    constant timestamptz := now() - interval '10 minutes';
	v_paused constant bigint[] := array(select d.id from jobrun.job_definitions d where d.paused_until > now());
begin
	return query
	with recursive gaps as materialized (
		select h.job_type as low, lead(h.job_type, 1, '~') over (order by h.job_type) as high -- '~' is behind every job type
		from (select '' collate "C" as job_type
			union
			select t.job_type collate "C" from jobrun.seen_runners() n cross join unnest(n.job_types) t(job_type)) h
	), walk as (
		select f.*, g.high from gaps g cross join lateral (
			select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
			from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type > g.low and r.job_type < g.high
			order by r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id
			limit 1) f
		union all
		select n.*, w.high from walk w cross join lateral (
			select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
			from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type < w.high
				and (r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint)
					> (w.job_type, w.queue, w.priority, w.bound)
			order by r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id
			limit 1) n
	), waiting as materialized (
		select w.* from (select w.* from walk w limit 1000) w
		left join jobrun.job_queues q on q.name = w.queue
		left join jobrun.job_types t on t.name = w.job_type
		where w.run_at <= v_due and w.job_type <> all (v_told) and w.job_type not like 'jobrun.%'
			and (q.paused_until is null or q.paused_until <= now())
			and (t.paused_until is null or t.paused_until <= now())
	), free as (
		select w.job_type, min(f.run_at) as since from waiting w
		cross join lateral (select case when w.bound = 1 then jobrun.waiting_commands(w.job_type, w.queue, w.priority)
			else '{}'::bigint[] end as ids) c
		cross join lateral (
			select case when w.bound = 0 or v_paused = '{}' and c.ids = '{}' then w.run_at else (
				select min(p.run_at) from (
					select r.id, r.run_at, r.definition_id from jobrun.job_runs r
					where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = w.queue and r.priority = w.priority
						and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = w.bound and r.run_at <= v_due
					order by r.run_at, r.id limit 100) p
				where (p.definition_id is null or p.definition_id <> all (v_paused)) and p.id <> all (c.ids)) end as run_at) f
		where f.run_at is not null
		group by w.job_type)
	select f.job_type, f.since from free f
	where f.job_type <> all (array( -- with very many ticks a day seen_runners() leaves out a host that ticks seldom
		select t.job_type collate "C" from jobrun.runners_of_day(null) n cross join unnest(n.job_types) t(job_type)));
end
$fn$;

-- unhandled_words: of these job types, which no host has a handler for, how many runs wait, since when, and why, in the words of
-- explain(). is_refused: a host has the handler and does not trust it. Of very many waiting runs ten thousand are counted.
create or replace function jobrun.unhandled_words(job_types text[], since timestamptz[])
returns table (job_type text, words text, is_refused boolean)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set enable_seqscan = off set enable_bitmapscan = off as $fn$
	select t.job_type, format('%s%s waited since %s: %s%s', case when c.seen = 10000 then 'at least ' end,
			case when c.due > 1 then format('%s runs of %s have', c.due, t.job_type) else format('1 run of %s has', t.job_type) end,
			to_char(t.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), h.words || h.rest, case when h.reason <> 'refused' then '; put one on a host, or type: jobrun cancel --type ' || t.job_type end),
		h.reason = 'refused'
	from unnest(unhandled_words.job_types, unhandled_words.since) with ordinality t(job_type, since, nr)
	cross join lateral jobrun.explain_handler(t.job_type, 'default') h
	cross join lateral (
		select count(*) as seen, count(*) filter (where w.run_at <= now()) as due
		from (select r.run_at from jobrun.job_runs r where r.status in ('queued', 'failed') and r.job_type = t.job_type
			order by r.queue limit 10000) w) c
	where h.state = 'no'
	order by t.nr
$fn$;

-- tell_unhandled: for runners, what to tell people: a row for each of at most five job types of unhandled_since(), and one that
-- counts the others. others: the job types that have handlers, one a line; null: nothing is spelt wrong. No row if somebody has
-- looked within the last five minutes, or looks now: nobody waits. A type is told once a day, by one runner of all. An error
-- becomes a warning in the log of the server, or each tick would look again and fail.
create or replace function jobrun.tell_unhandled() returns table (job_type text, words text, others text)
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_most  constant integer := 1000; -- types in unhandled_told
	v_told  jsonb;
	v_types text[];
	v_since timestamptz[];
begin
	select s.unhandled_told into v_told from jobrun.settings s
	where s.only_row and (s.unhandled_looked_at <= now() - interval '5 minutes' or s.unhandled_looked_at > now() + interval '5 minutes')
	for no key update skip locked;
	if not found then
		return;
	end if;
	update jobrun.settings s set unhandled_looked_at = now() where s.only_row;
	if exists (select from jobrun.settings s where s.only_row and s.paused_until > now()) then
		return;
	end if;
	begin
		v_told := (select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(v_told) t
			where t.value::timestamptz > now() - interval '1 day');
		select array_agg(u.job_type order by u.since, u.job_type), array_agg(u.since order by u.since, u.job_type) into v_types, v_since
		from (select s.job_type, s.since from jobrun.unhandled_since(array(select jsonb_object_keys(v_told))) s
			order by s.since, s.job_type limit v_most - (select count(*) from jsonb_object_keys(v_told))) u;
		if v_types is null then
			return;
		end if;
		update jobrun.settings s
		set unhandled_told = v_told || (select jsonb_object_agg(t.job_type, now()) from unnest(v_types) t(job_type)) where s.only_row;
		return query
		select u.job_type, u.words, case when not u.is_refused then coalesce((select string_agg(distinct t.job_type, E'\n')
			from jobrun.seen_runners() n cross join unnest(n.job_types) t(job_type)), '') end
		from jobrun.unhandled_words(v_types[1:5], v_since[1:5]) u
		union all
		select null, format(case cardinality(v_types) when 6 then 'runs of %s more job type wait' else 'runs of %s more job types wait' end
			|| ' for a handler: jobrun status', cardinality(v_types) - 5), null
		where cardinality(v_types) > 5;
	exception when others or query_canceled then
		raise warning 'jobrun did not look for runs without a handler: %', sqlerrm;
	end;
end
$fn$;
