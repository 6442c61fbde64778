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
-- the newest thousand that have finished, a definition, a runner?
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
