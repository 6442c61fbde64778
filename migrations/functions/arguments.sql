-- arguments: checks of what a client enqueues, and whether it may.

-- is_name() is in the baseline, whose CHECKs need it, with a backslash that means something else in a client with
-- standard_conforming_strings = off, and with a bound in a regular expression, {0,62}, which is most of what it costs:
-- each insert and each UPDATE of a run asks it twice. It has no SET clause, since then it could not be inlined.
do $do$
begin
	execute replace(replace(pg_get_functiondef('jobrun.is_name(text)'::regprocedure), E'\\.(', '[.]('),
		'{0,62}$''', '*$'' and octet_length(name) <= 63');
end
$do$;

-- check_name, check_duration, check_key, check_conflict: raise JR065 (bad data) with the name of the argument and the problem.
create or replace function jobrun.check_name(argument text, name text) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if jobrun.is_name(name) is distinct from true then
		raise exception '% "%" is not a name: up to 63 of a-z, 0-9, "_", "." and "-", beginning with a letter or digit, not ending in .sql or .json',
			argument, coalesce(left(name, 100), '') using errcode = 'JR065';
	end if;
end
$fn$;

create or replace function jobrun.check_duration(argument text, duration interval) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if duration < interval '0' or extract(epoch from duration) < 0 then
		raise exception '% "%" is negative; durations count forward', argument, duration using errcode = 'JR065';
	elsif not isfinite(duration) or extract(epoch from duration) > 3155760000 then     -- as an interval, 100 years are 36,000 days
		raise exception '% "%" is too long; at most 100 years', argument, duration using errcode = 'JR065';
	end if;
end
$fn$;

-- spell_durations: the members of an object that are durations, so that an interval takes them as they are meant: a number alone,
-- which would be seconds, is refused as it is everywhere else, and 1w2d becomes 1w 2d, which PostgreSQL wants.
create or replace function jobrun.spell_durations(doc jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_member text;
	v_text   text;
begin
	foreach v_member in array '{run_in,expires_in,timeout,backoff_base,backoff_cap,catch_up_grace}'::text[] loop
		continue when coalesce(jsonb_typeof(doc -> v_member), 'null') = 'null';
		v_text := doc ->> v_member;
		if jsonb_typeof(doc -> v_member) <> 'string' then
			raise exception '% must be a string, not %; durations are texts: "90s", "15m"', v_member, left(v_text, 100)
				using errcode = 'JR065';
		elsif v_text ~ '^[-+ ]*[0-9.]+ *$' and v_text ~ '[1-9]' then
			raise exception '% "%" has no unit; write %s or %m', v_member, left(v_text, 100), btrim(left(v_text, 20)), btrim(left(v_text, 20))
				using errcode = 'JR065';
		elsif v_text ~ 'w[0-9]' then
			doc := doc || jsonb_build_object(v_member, replace(v_text, 'w', 'w '));
		end if;
	end loop;
	return doc;
end
$fn$;

create or replace function jobrun.check_key(argument text, key text) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if octet_length(key) not between 1 and 255 then
		raise exception '% has % bytes; from 1 to 255 are possible', argument, octet_length(key) using errcode = 'JR065';
	end if;
end
$fn$;

create or replace function jobrun.check_conflict(on_conflict text, unique_key text) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if on_conflict not in ('keep', 'replace', 'unless_running') then
		raise exception 'on_conflict "%" is not one of keep, replace, unless_running', left(on_conflict, 100) using errcode = 'JR065';
	elsif on_conflict <> 'keep' and unique_key is null then
		raise exception 'on_conflict "%" needs a unique_key', on_conflict using errcode = 'JR065';
	end if;
end
$fn$;

-- check_type: is this a valid job type and not reserved? check_grant decides whether the caller may enqueue it.
create or replace function jobrun.check_type(job_type text) returns void
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	perform jobrun.check_name('job type', job_type);
	if job_type like 'jobrun.%' and not jobrun.is_admin() then
		raise exception 'job type "%": names that begin with "jobrun." are reserved', job_type using errcode = 'JR065';
	end if;
end
$fn$;

-- grant_hint: the command that lets the caller enqueue this, too. A new grant replaces the old one, so the command has
-- all job types and queues of the role.
create or replace function jobrun.grant_hint(job_type text, queue text) returns text
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select concat_ws(' ', 'jobrun grant enqueue', quote_ident(jobrun.caller()),
		'--type ' || array_to_string(case when grant_hint.job_type = any (g.job_types) then g.job_types
			when g.role is null or g.job_types is not null then array_append(g.job_types, grant_hint.job_type) end, ','),
		'--queue ' || array_to_string(case when grant_hint.queue = any (g.queues) then g.queues
			when g.queues is not null then array_append(g.queues, grant_hint.queue) end, ','),
		'--max-open ' || g.max_open)
	from (select 1) always left join jobrun.job_grants g on g.role = jobrun.caller() and g.kind = 'enqueue'
$fn$;

-- check_grant: may the caller enqueue this run? If it has grants of kind enqueue, one of them must allow both the job
-- type and the queue. A caller without such a grant may come through a function of others that calls enqueue; but not
-- if it has EXECUTE itself: a renamed role keeps EXECUTE, while the grant and its limits stay with the old name.
-- Returns how many unfinished runs the caller may have at a time; null: any number. If several grants allow the run,
-- the highest limit counts.
create or replace function jobrun.check_grant(run jobrun.job_runs) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_caller constant name := jobrun.caller();
	v_grants bigint;
	v_types  bigint;
	v_fits   bigint;
	v_most   bigint;
begin
	if jobrun.may('run', 'admin') then
		return null;
	end if;
	select count(*), count(*) filter (where f.type), count(*) filter (where f.type and f.queue),
		case when count(*) filter (where f.type and f.queue and f.max_open is null) = 0
			then max(f.max_open) filter (where f.type and f.queue) end
	into v_grants, v_types, v_fits, v_most
	from (select g.max_open, coalesce(run.job_type = any (g.job_types), true) as type, coalesce(run.queue = any (g.queues), true) as queue
		from jobrun.job_grants g join pg_roles o on o.rolname = g.role
		where g.kind = 'enqueue' and pg_has_role(v_caller, o.oid, 'usage')) f;
	if v_fits > 0 then
		return v_most;
	elsif v_types > 0 then
		raise exception 'role "%" may not enqueue job type "%" into queue "%"', v_caller, run.job_type, run.queue
			using errcode = 'insufficient_privilege', hint = jobrun.grant_hint(run.job_type, run.queue);
	elsif v_grants > 0 or exists (select from pg_proc p where p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun')
		and p.proname in ('enqueue', 'enqueue_run', 'enqueue_many', 'enqueue_lines') and has_function_privilege(v_caller, p.oid, 'execute'))
	then
		raise exception 'role "%" may not enqueue job type "%"', v_caller, run.job_type using errcode = 'insufficient_privilege',
			hint = jobrun.grant_hint(run.job_type, run.queue);
	end if;
	return null;
end
$fn$;

-- check_open: may the caller have n more unfinished runs? It counts the role's runs with the mark is_counted, reading
-- no more than the limit. It takes no lock, so it does not see uncommitted runs of other transactions of the role, and
-- together they may exceed the limit. Runs that were enqueued before the limit was granted are not counted.
create or replace function jobrun.check_open(run jobrun.job_runs, n bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, jobrun, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $fn$
declare
	v_most constant bigint := jobrun.check_grant(run);
begin
	if n > v_most or exists (select from jobrun.job_runs r
		where r.is_counted and r.finished_at is null and r.created_by = run.created_by offset greatest(0, v_most - n))
	then
		raise exception 'role "%" may have % unfinished runs, and would have more', run.created_by, v_most
			using errcode = 'configuration_limit_exceeded', hint = 'try again when some have ended, or grant again with a higher --max-open';
	end if;
end
$fn$;

-- open_runs: for calls that enqueue many runs: how many unfinished runs the caller has, and the highest number that it may have;
-- nulls if nothing limits it. It reads no more than that number. As for check_open, the calls of other sessions may come in between.
create or replace function jobrun.open_runs(out open bigint, out most bigint)
language plpgsql stable security definer
set search_path = pg_catalog, jobrun, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $fn$
declare
	v_caller constant name := jobrun.caller();
begin
	if jobrun.may('run', 'admin') then
		return;
	end if;
	select max(g.max_open) into most from jobrun.job_grants g join pg_roles o on o.rolname = g.role
	where g.kind = 'enqueue' and pg_has_role(v_caller, o.oid, 'usage');
	if most is not null then
		select count(*) into open from (select from jobrun.job_runs r
			where r.is_counted and r.finished_at is null and r.created_by = v_caller limit most) l;
	end if;
end
$fn$;

-- one_more: what open_runs() has said, after the caller has enqueued one more. When there is no room left, runs are counted anew,
-- since some may have ended.
create or replace function jobrun.one_more(inout open bigint, inout most bigint)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if open + 1 < most then
		open := open + 1;
	else
		select c.open, c.most into open, most from jobrun.open_runs() c;
	end if;
end
$fn$;

-- bound_run: limits for roles that may only enqueue: at most 1,000 attempts, and at least a second between two
-- attempts. Values of a definition are not limited. Seconds are compared, as runners count them: as intervals, '-1 year 365 days
-- 06:00' is more than a second, because a year counts as 360 days, but it is no time at all.
create or replace function jobrun.bound_run(inout max_attempts bigint, inout backoff_base interval, inout backoff_cap interval)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if not jobrun.may('run', 'admin') then
		max_attempts := case when max_attempts > 1000 then 1000 else max_attempts end;
		backoff_base := case when extract(epoch from backoff_base) between 0 and 1 then interval '1 second' else backoff_base end;
		backoff_cap  := case when extract(epoch from backoff_cap) between 0 and 1 then interval '1 second' else backoff_cap end;
	end if;
end
$fn$;
