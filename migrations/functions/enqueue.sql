-- enqueue: enqueue one run or many, in the transaction of the client.

-- ----------------------------------------------------------------------------------------------------------- arguments

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

-- -------------------------------------------------------------------------------------------- a run, made and inserted

-- call_runners: wake lingering runners (run --for). NOTIFY makes all commits of the server wait in line, so it is sent
-- only if a runner listens; a runner that begins to linger just now looks by itself a second later. A transaction that
-- has notified cannot be prepared (PREPARE TRANSACTION), so a client that prepares can switch this off with the
-- parameter jobrun.notify.
--  message  'TYPE PRIORITY QUEUE': a run of this combination is due, so a runner that has nothing to do claims it without
--           a look. These names have no spaces. 'cancel': a running run was asked to stop; for runs of a job type of that
--           name the message is longer. '': there may be work of any kind.
--  runner   notify only if this runner was started with --for; it also listens while it finishes its last runs
-- A transaction notifies of its first combination, and once more, with '', if there is another one. So it makes no
-- difference how many there are: PostgreSQL 12 compares each notification with all before it. jobrun.called remembers
-- what was sent; when a savepoint is rolled back, both are as before.
create or replace function jobrun.call_runners(message text, runner bigint default null) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_called constant text := nullif(current_setting('jobrun.called', true), '');
begin
	if current_setting('jobrun.notify', true) is not distinct from 'off' then
		return;
	elsif message <> 'cancel' and v_called in ('all', message) then
		return;
	elsif (case when runner is null then exists (select from jobrun.job_runners n where n.lingers_until > now())
		else exists (select from jobrun.job_runners n where n.id = runner and n.lingers_until is not null) end)
	then
		if message <> 'cancel' then
			message := case when v_called is null then message else '' end;
			perform set_config('jobrun.called', coalesce(nullif(message, ''), 'all'), true);
		end if;
		perform pg_notify('jobrun', message);
	end if;
end
$fn$;

-- make_queue: create a row for a queue that may be new. Another transaction that creates it may stay open for hours, so
-- this waits for it for a second at most, or for the client's lock_timeout if that is shorter. The name of a new queue
-- can deadlock like a key: see enqueue_run. A row that is there costs nothing, and a lock on it is not waited for.
-- In REPEATABLE READ and SERIALIZABLE, ON CONFLICT raises 40001 for a row that is newer than the snapshot, and each claim
-- from a queue with a rate makes it newer. A plain INSERT does not ask the snapshot: it says that the row is there, or makes it.
create or replace function jobrun.make_queue(name text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_before constant text := current_setting('lock_timeout');
begin
	if v_before::interval = '0' or v_before::interval > '1 second' then
		perform set_config('lock_timeout', '1s', true);
	end if;
	begin
		begin
			insert into jobrun.job_queues (name) values (make_queue.name) on conflict do nothing;
		exception when serialization_failure then
			insert into jobrun.job_queues (name) values (make_queue.name);
		end;
		if found then
			perform jobrun.nth_key();
		end if;
	exception
		when unique_violation then
			null;
		when deadlock_detected then
			raise exception 'another transaction uses the same new queues in another order; try again'
				using errcode = 'serialization_failure';
		when lock_not_available then
			raise exception 'another transaction creates or changes queue "%" and is still open; try again',
				make_queue.name using errcode = 'serialization_failure',
				hint = format('jobrun queue %s --per-key 1 creates it once and for all', make_queue.name);
	end;
	perform set_config('lock_timeout', v_before, true);
end
$fn$;

-- need_queue: the caller is about to write a run or definition with a lock key, whose limit needs a queue row to lock. It makes
-- one if there is none, and until the caller commits nobody removes it (remove_queue). The look before make_queue is cheap, and
-- never waits: even INSERT ... DO NOTHING may wait. An older snapshot than that of READ COMMITTED may still show a row that was
-- removed, so there the row is locked instead: that raises 40001 if it was removed. The number is that of "jobq". Anybody can hold an advisory
-- lock, with or without rights in jobrun, so if it is not to be had the row decides: one that can be locked is not being
-- removed, and stays. Claims, pauses and new limits go on beside KEY SHARE.
create or replace function jobrun.need_queue(name text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_is_kept constant boolean := pg_try_advisory_xact_lock_shared(1785684593, hashtext(need_queue.name));
begin
	if v_is_kept and current_setting('transaction_isolation') = 'read committed' then
		perform from jobrun.job_queues q where q.name = need_queue.name;
	else
		perform from jobrun.job_queues q where q.name = need_queue.name for key share skip locked;
	end if;
	if found then
		return;
	elsif not v_is_kept then
		raise exception 'queue "%" is being removed; try again', need_queue.name using errcode = 'serialization_failure';
	end if;
	perform jobrun.make_queue(need_queue.name);
end
$fn$;

-- new_run: a row for job_runs, not inserted. Each value comes from the argument, else from the definition, else it is
-- the built-in default. Everything is checked except the rights of the caller (check_type, check_grant). See
-- enqueue_run.
create or replace function jobrun.new_run(
	job_type text, payload jsonb, queue text, priority integer, run_in interval, run_at timestamptz, expires_in interval,
	max_attempts bigint, timeout interval, backoff_base interval, backoff_cap interval, idempotency_key text, unique_key text,
	concurrency_key text, parent_id bigint, trace_context text)
returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_type   constant text := new_run.job_type;
	v_inside constant text := current_setting('jobrun.run_id', true);     -- set if a sql handler runs in this transaction
	v_def    jobrun.job_definitions;
	v_run    jobrun.job_runs;
begin
	select d.* into v_def from jobrun.job_definitions d where d.name = v_type;
	v_run.job_type        := v_type;
	v_run.created_by      := jobrun.caller();
	v_run.payload         := coalesce(new_run.payload, v_def.payload, '{}');
	v_run.queue           := coalesce(new_run.queue, v_def.queue, 'default');
	v_run.timeout         := coalesce(new_run.timeout, v_def.timeout);
	v_run.backoff_base    := coalesce(new_run.backoff_base, v_def.backoff_base);
	v_run.backoff_cap     := coalesce(new_run.backoff_cap, v_def.backoff_cap);
	v_run.max_attempts    := coalesce(new_run.max_attempts, v_def.max_attempts, 5);
	v_run.concurrency_key := coalesce(new_run.concurrency_key, v_def.concurrency_key);
	v_run.idempotency_key := new_run.idempotency_key;
	v_run.unique_key      := new_run.unique_key;
	v_run.trace_context   := new_run.trace_context;
	v_run.parent_id       := coalesce(new_run.parent_id, case when v_inside ~ '^[0-9]{1,18}$' then v_inside::bigint end);

	if octet_length(v_run.payload::text) > 1048576 then
		raise exception 'the payload has % bytes; the limit is 1048576', octet_length(v_run.payload::text) using errcode = 'JR065';
	elsif pg_column_size(v_run.payload) > 1049600 then
		raise exception 'the payload takes % bytes as jsonb, its text %; the limit is 1048576 for both',
			pg_column_size(v_run.payload), octet_length(v_run.payload::text) using errcode = 'JR065';
	elsif coalesce(new_run.priority, v_def.priority, 100) not between -1000 and 1000 then
		raise exception 'priority % is out of range; from -1000 to 1000, smaller first', new_run.priority using errcode = 'JR065';
	elsif v_run.max_attempts not between 1 and 2147483647 then
		raise exception 'max_attempts % is out of range; at least 1', v_run.max_attempts using errcode = 'JR065';
	elsif new_run.run_in is not null and new_run.run_at is not null then
		raise exception 'run_in and run_at exclude each other' using errcode = 'JR065';
	elsif new_run.run_at > now() + interval '100 years' then     -- infinity is; -infinity means now, as any past time
		raise exception 'run_at "%" never comes; at most 100 years from now', new_run.run_at using errcode = 'JR065';
	end if;
	if getdatabaseencoding() <> 'UTF8' then         -- what UTF-8 lacks would fail each claim that comes to this run
		perform convert_to(concat_ws(' ', v_run.payload, v_run.idempotency_key, v_run.unique_key, v_run.concurrency_key,
			v_run.trace_context), 'UTF8');
	end if;
	perform jobrun.check_name('queue', v_run.queue);
	if v_run.queue = 'jobrun' and v_type not like 'jobrun.%' then
		raise exception 'queue "jobrun" is for what jobrun does itself' using errcode = 'JR065';
	end if;
	if num_nonnulls(new_run.run_in, new_run.expires_in, v_run.timeout, v_run.backoff_base, v_run.backoff_cap) > 0 then
		perform jobrun.check_duration('run_in', new_run.run_in);
		perform jobrun.check_duration('expires_in', new_run.expires_in);
		perform jobrun.check_duration('timeout', v_run.timeout);
		perform jobrun.check_duration('backoff_base', v_run.backoff_base);
		perform jobrun.check_duration('backoff_cap', v_run.backoff_cap);
	end if;
	if num_nonnulls(v_run.idempotency_key, v_run.unique_key, v_run.concurrency_key, v_run.trace_context) > 0 then
		perform jobrun.check_key('idempotency_key', v_run.idempotency_key);
		perform jobrun.check_key('unique_key', v_run.unique_key);
		perform jobrun.check_key('concurrency_key', v_run.concurrency_key);
		perform jobrun.check_key('trace_context', v_run.trace_context);
	end if;
	v_run.priority   := coalesce(new_run.priority, v_def.priority, 100);
	v_run.run_at     := greatest(now(), coalesce(new_run.run_at, now() + new_run.run_in, now()));
	v_run.expires_at := v_run.run_at + new_run.expires_in;

	if v_run.concurrency_key is not null then
		perform jobrun.need_queue(v_run.queue);
	end if;
	return v_run;
end
$fn$;

-- newer_run: the newest run of a key with a higher id that is running or has succeeded; null if there is none. Such a
-- run sees the data that this one was enqueued for. A waiting run does not count, since it may never start, unless
-- or_waiting is true; nor does a run that was claimed after it had expired. The SET clauses keep the plan to the
-- unfinished runs of the key, whatever the statistics say.
create or replace function jobrun.newer_run(job_type text, unique_key text, id bigint, or_waiting boolean default false) returns bigint
language plpgsql stable
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $fn$
declare
	v_unfinished bigint;
	v_succeeded  bigint;
begin
	select r.id into v_unfinished from jobrun.job_runs r
	where r.job_type = newer_run.job_type and r.unique_key = newer_run.unique_key and r.finished_at is null and r.id > newer_run.id
		and case r.status when 'running' then (r.expires_at <= r.started_at) is not true else newer_run.or_waiting end
	order by r.id desc limit 1;
	-- Read job_runs_finished_keys backwards from the end of this key's successes: no other index has this order.
	select l.id into v_succeeded from (
		select r.job_type, r.unique_key, r.status, r.id from jobrun.job_runs r
		where r.unique_key is not null and r.finished_at is not null and (r.job_type, r.unique_key, r.status, r.id)
			<= (newer_run.job_type, newer_run.unique_key, 'succeeded', 9223372036854775807)
		order by r.job_type desc, r.unique_key desc, r.status desc, r.id desc limit 1) l
	where l.job_type = newer_run.job_type and l.unique_key = newer_run.unique_key and l.status = 'succeeded' and l.id > newer_run.id;
	return greatest(v_unfinished, v_succeeded);
end
$fn$;

-- lock_waiting: the run, locked to the end of the caller's transaction, if it still waits and is the newest of its key;
-- else nulls and no lock. It also returns nulls if the run was claimed meanwhile and is to be replaced, or if it
-- expires before expires_at and is not to be changed.
-- The lock keeps claims away from this run and from all others of its key until the caller commits, so that the next
-- start of the key sees what the caller wrote. A run that was never claimed is the newest of its key. For a run that
-- was claimed before, this must be checked under the lock: while it ran, between the caller's look and the lock, a
-- newer one may have started, which will end it.
-- To wait for the lock means to wait for a claim. If the run was claimed meanwhile, it must not stay locked until the
-- caller commits, perhaps hours later, since its heartbeats would be blocked. So the lock is taken in a subtransaction
-- and given back with it.
-- A session that waits for a run also blocks those that wait after it. So it can be part of a deadlock even with the
-- first key of its transaction; that is reported as in enqueue_run.
create or replace function jobrun.lock_waiting(run_id bigint, on_conflict text, expires_at timestamptz, to_change boolean)
returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run jobrun.job_runs;
begin
	if to_change then
		select r.* into v_run from jobrun.job_runs r where r.id = run_id for no key update;
	else
		select r.* into v_run from jobrun.job_runs r where r.id = run_id for share;
	end if;
	if v_run.status in ('queued', 'failed') and (to_change or v_run.expires_at is null or v_run.expires_at >= lock_waiting.expires_at)
		and (v_run.claim_seq = 0 or (on_conflict <> 'replace'
			and jobrun.newer_run(v_run.job_type, v_run.unique_key, v_run.id, true) is null))
	then
		return v_run;
	end if;
	raise exception 'run % cannot be locked any more', run_id using errcode = 'JR001';
exception
	when sqlstate 'JR001' then
		return null;
	when deadlock_detected then
		raise exception 'another transaction enqueues the same keys in another order; try again'
			using errcode = 'serialization_failure';
end
$fn$;

-- redraw_id: give a run that the caller has just inserted a new id if that is needed. An id is drawn from the sequence
-- before its row is inserted. Meanwhile another session may have drawn a higher id, inserted a run of the same key and
-- seen it start; then the newest run of the key would not have the highest id. Until the caller commits, no other run
-- of the key can be inserted, so an id drawn now is the highest. If the snapshot is older than the insert, a new id is
-- drawn whenever any id was drawn since. Returns the id.
create or replace function jobrun.redraw_id(job_type text, unique_key text, id bigint) returns bigint
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off as $fn$
declare
	v_id bigint := redraw_id.id;
begin
	if (case when current_setting('transaction_isolation') <> 'read committed'
		then pg_sequence_last_value('jobrun.job_runs_id_seq'::regclass) > v_id
		else exists (select from jobrun.job_runs r
				where r.job_type = redraw_id.job_type and r.unique_key = redraw_id.unique_key and r.finished_at is null and r.id > v_id)
			or exists (select from unnest('{succeeded,dead,cancelled}'::text[]) s(status) cross join lateral (select from jobrun.job_runs r
				where r.job_type = redraw_id.job_type and r.unique_key = redraw_id.unique_key and r.finished_at is not null
					and r.status = s.status and r.id > v_id limit 1) l) end)
	then
		update jobrun.job_runs r set id = default where r.id = v_id returning r.id into v_id;
	end if;
	return v_id;
end
$fn$;

-- keep_or_replace: find the newest waiting run of the key and keep it, or replace its payload, priority and time. A null
-- id: there is no such run, or it cannot be used. again: it has changed between the look and the lock. unless_running: if none
-- waits, the running one. One look finds either, since a run may go from running to waiting and back between two. expires_at
-- becomes the later one of both; null is the latest, since a new run that does not expire must not expire with the old one.
-- Only a run that was never claimed is replaced: JOBRUN_KEY and checkpoint of a claimed one belong to what it did.
-- The conditions name no status in which runs wait, so that no statistics can make the planner use the index of all
-- waiting runs of the job type.
create or replace function jobrun.keep_or_replace(new jobrun.job_runs, on_conflict text, out run jobrun.job_runs, out again boolean)
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_new     constant jobrun.job_runs := new;
	v_replace constant boolean := on_conflict = 'replace';
	v_running constant boolean := on_conflict = 'unless_running';
	v_old     jobrun.job_runs;
begin
	again := false;
	select r.* into v_old from jobrun.job_runs r
	where r.job_type = v_new.job_type and r.unique_key = v_new.unique_key and r.finished_at is null
		and (r.status <> 'running' or v_running and (r.expires_at <= r.started_at) is not true)
	order by r.status = 'running', r.claim_seq = 0 desc, r.id desc limit 1;
	if v_old.status = 'running' then
		run := v_old;
		return;
	elsif v_old.id is null
		or (v_old.claim_seq > 0 and (v_replace or jobrun.newer_run(v_new.job_type, v_new.unique_key, v_old.id) is not null)) then
		return;
	end if;
	run := jobrun.lock_waiting(v_old.id, on_conflict, coalesce(v_new.expires_at, 'infinity'),
		v_replace or (v_old.expires_at < coalesce(v_new.expires_at, 'infinity')) is true);
	if run.id is null then
		again := true;
	elsif v_replace then
		-- A violation of job_runs_horizon would show the whole row in its DETAIL, and the row may belong to another role.
		update jobrun.job_runs r
		set payload = v_new.payload, priority = v_new.priority,
			run_at = least(v_new.run_at, r.created_at + interval '101 years'),
			expires_at = nullif(greatest(coalesce(r.expires_at, 'infinity'), coalesce(v_new.expires_at, 'infinity')), 'infinity')
		where r.id = v_old.id returning r.* into run;
	elsif run.expires_at < coalesce(v_new.expires_at, 'infinity') then
		update jobrun.job_runs r set expires_at = v_new.expires_at where r.id = v_old.id;
	end if;
end
$fn$;

-- insert_run: insert the row of new_run, unless a run with one of its keys exists already. has_room: the caller of jobrun may have
-- one more, which need not be counted.
create or replace function jobrun.insert_run(run jobrun.job_runs, on_conflict text, has_room boolean default false)
returns jobrun.enqueued
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_new      constant jobrun.job_runs := run;
	v_conflict constant text := on_conflict;
	v_run      jobrun.job_runs;
	v_id       bigint;
	v_kept     record;
begin
	-- Each statement below has a snapshot of its own. If a turn finds no run and then cannot insert, another session has
	-- committed one in between: the next turn sees it.
	for turn in 1 .. 10 loop
		if v_new.idempotency_key is not null then
			select r.* into v_run from jobrun.job_runs r where r.job_type = v_new.job_type and r.idempotency_key = v_new.idempotency_key;
			if found then
				if v_run.payload <> v_new.payload and v_run.created_by = v_new.created_by then
					raise notice 'run % has this idempotency key and another payload; it stays as it is', v_run.id;
				end if;
				exit;
			end if;
		end if;

		if v_new.unique_key is not null then
			select k.* into v_kept from jobrun.keep_or_replace(v_new, v_conflict) k;
			continue when v_kept.again;
			v_run := v_kept.run;
			if v_run.id is not null and v_conflict = 'replace' then
				return (v_run.id, false, true, v_run.status, v_run.job_type, v_run.queue, v_run.priority, v_run.run_at)::jobrun.enqueued;
			end if;
			exit when v_run.id is not null;
			if v_conflict = 'unless_running' then     -- the newer one, beside a retry that cannot be used
				select r.* into v_run from jobrun.job_runs r
				where r.job_type = v_new.job_type and r.unique_key = v_new.unique_key and r.finished_at is null
					and r.status = 'running' and (r.expires_at <= r.started_at) is not true
				order by r.id desc limit 1;
				exit when found;
			end if;
		end if;

		if v_new.is_counted and not has_room then
			perform jobrun.check_open(v_new, 1);
		end if;
		insert into jobrun.job_runs as r (job_type, payload, queue, priority, run_at, expires_at, max_attempts, timeout,
			backoff_base, backoff_cap, idempotency_key, unique_key, concurrency_key, parent_id, trace_context, created_by,
			definition_id, slot, is_counted)
		values (v_new.job_type, v_new.payload, v_new.queue, v_new.priority, v_new.run_at, v_new.expires_at, v_new.max_attempts,
			v_new.timeout, v_new.backoff_base, v_new.backoff_cap, v_new.idempotency_key, v_new.unique_key, v_new.concurrency_key,
			v_new.parent_id, v_new.trace_context, v_new.created_by, v_new.definition_id, v_new.slot,
			coalesce(v_new.is_counted, false))
		on conflict do nothing
		returning r.id into v_id;
		if found then
			if v_new.unique_key is not null then
				v_id := jobrun.redraw_id(v_new.job_type, v_new.unique_key, v_id);
			end if;
			return (v_id, true, false, 'queued', v_new.job_type, v_new.queue, v_new.priority, v_new.run_at)::jobrun.enqueued;
		end if;
	end loop;

	if v_run.id is null then
		raise exception 'runs with key "%" come and go too fast; try again', coalesce(v_new.unique_key, v_new.idempotency_key)
			using errcode = 'serialization_failure';
	end if;
	return (v_run.id, false, false, v_run.status, v_run.job_type, v_run.queue, v_run.priority, v_run.run_at)::jobrun.enqueued;
end
$fn$;

-- nth_key: how many runs with keys this transaction has enqueued and how many queues it has created, this one included.
create or replace function jobrun.nth_key() returns integer
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_before constant text := current_setting('jobrun.keys', true);
	v_nth    constant integer := 1 + case when v_before ~ '^[0-9]{1,8}$' then v_before::integer else 0 end;
begin
	perform set_config('jobrun.keys', v_nth::text, true);
	return v_nth;
end
$fn$;

-- enqueue_with: enqueue_run with these options; their payload, if there is one, counts. open: what the caller knows of its unfinished
-- runs, see open_runs(); one more is not counted again. null: nothing.
-- Two transactions that enqueue the same keys in different orders wait for each other. The server's deadlock error is
-- reported to the client as 40001: try again. That takes a subtransaction. The first key of a transaction needs none
-- (it can only deadlock in lock_waiting, which has its own), and a transaction with very many keys cannot afford one
-- for each.
create or replace function jobrun.enqueue_with(job_type text, payload jsonb, o jobrun.run_options, open bigint default null)
returns jobrun.enqueued
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_conflict constant text := coalesce(o.on_conflict, 'keep');
	v_new      jobrun.job_runs;
	v_most     bigint;
	v_has_room boolean;
	v_done     jobrun.enqueued;
begin
	if v_conflict <> 'keep' then
		perform jobrun.check_conflict(v_conflict, o.unique_key);
	end if;
	if starts_with(o.idempotency_key, 'on_dead:') then
		raise exception 'idempotency_key "%": those that begin with "on_dead:" are reserved', left(o.idempotency_key, 100)
			using errcode = 'JR065';
	end if;
	perform jobrun.check_type(job_type);
	if o.max_attempts > 1000 or num_nonnulls(o.backoff_base, o.backoff_cap) > 0 then
		select b.* into o.max_attempts, o.backoff_base, o.backoff_cap
		from jobrun.bound_run(o.max_attempts, o.backoff_base, o.backoff_cap) b;
	end if;
	v_new := jobrun.new_run(job_type, coalesce(o.payload, payload), o.queue, o.priority, o.run_in, o.run_at, o.expires_in,
		o.max_attempts, o.timeout, o.backoff_base, o.backoff_cap, o.idempotency_key, o.unique_key, o.concurrency_key, o.parent_id,
		o.trace_context);
	v_most := jobrun.check_grant(v_new);
	v_new.is_counted := v_most is not null;
	v_has_room := coalesce(open < v_most, false);
	if num_nonnulls(o.idempotency_key, o.unique_key) > 0 and jobrun.nth_key() between 2 and 50 then
		begin
			v_done := jobrun.insert_run(v_new, v_conflict, v_has_room);
		exception when deadlock_detected then
			raise exception 'another transaction enqueues the same keys in another order; try again'
				using errcode = 'serialization_failure';
		end;
	else
		v_done := jobrun.insert_run(v_new, v_conflict, v_has_room);
	end if;
	if (v_done.created or v_done.replaced) and v_done.run_at <= now() then
		perform jobrun.call_runners(v_done.job_type || ' ' || v_done.priority || ' ' || v_done.queue);
	end if;
	return v_done;
end
$fn$;

-- run_of_many: the row that n runs with these options have in common, checked as for enqueue_many. It has the payload of a run
-- without one.
create or replace function jobrun.run_of_many(job_type text, n bigint, o jobrun.run_options) returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_new jobrun.job_runs;
begin
	perform jobrun.check_type(job_type);
	select b.* into o.max_attempts, o.backoff_base, o.backoff_cap from jobrun.bound_run(o.max_attempts, o.backoff_base, o.backoff_cap) b;
	v_new := jobrun.new_run(job_type, null, o.queue, o.priority, o.run_in, o.run_at, o.expires_in, o.max_attempts, o.timeout,
		o.backoff_base, o.backoff_cap, null, null, o.concurrency_key, o.parent_id, o.trace_context);
	v_new.is_counted := jobrun.check_grant(v_new) is not null;
	if v_new.is_counted then
		perform jobrun.check_open(v_new, n);
	end if;
	return v_new;
end
$fn$;

-- insert_many: insert a run for each payload, with what run_of_many has returned. Returns the ids in the same order.
create or replace function jobrun.insert_many(run jobrun.job_runs, payloads jsonb[]) returns setof bigint
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_new   constant jobrun.job_runs := run;
	v_nr    bigint;
	v_bytes integer;
begin
	-- A number prints up to 147,456 characters and takes 12 bytes, an escaped character 6 of one: nothing of up to 96
	-- bytes can be too long as text, and it is not printed to find out.
	if exists (select from (select unnest(payloads) as payload) p where pg_column_size(p.payload) > 96
		and (octet_length(p.payload::text) > 1048576 or pg_column_size(p.payload) > 1049600))
	then
		select p.nr, greatest(octet_length(p.payload::text), pg_column_size(p.payload)) into v_nr, v_bytes
		from unnest(payloads) with ordinality p(payload, nr)
		where octet_length(p.payload::text) > 1048576 or pg_column_size(p.payload) > 1049600
		order by p.nr limit 1;
		raise exception 'payload % has % bytes; the limit is 1048576', v_nr, v_bytes using errcode = 'JR065';
	end if;
	if getdatabaseencoding() <> 'UTF8' then         -- as new_run
		perform convert_to(p.payload::text, 'UTF8') from (select unnest(payloads) as payload) p;
	end if;
	-- unnest in the select list hands on one payload after the other, in their order. Ids are drawn, and rows returned,
	-- in the order in which they are inserted.
	return query
		insert into jobrun.job_runs as r (job_type, payload, queue, priority, run_at, expires_at, max_attempts, timeout,
			backoff_base, backoff_cap, concurrency_key, parent_id, trace_context, created_by, is_counted)
		select v_new.job_type, coalesce(p.payload, v_new.payload), v_new.queue, v_new.priority, v_new.run_at, v_new.expires_at,
			v_new.max_attempts, v_new.timeout, v_new.backoff_base, v_new.backoff_cap, v_new.concurrency_key, v_new.parent_id,
			v_new.trace_context, v_new.created_by, v_new.is_counted
		from (select unnest(payloads) as payload) p
		returning r.id;
end
$fn$;

-- --------------------------------------------------------------------------------------------------------- for clients

-- enqueue_run: enqueue one run in the caller's transaction; also returns whether the run is new. enqueue() returns only
-- the id.
--  payload .. backoff_cap   null: the value of the definition that is named like the job type, else the built-in default
--  run_in, run_at           at most one of the two; a time in the past means now
--  expires_in               counts from the time it is due; a run that has not started by then is dead
--  idempotency_key          returns the run with this key if it exists, whatever its status
--  unique_key, on_conflict  if a run with the key waits: keep it, replace its payload, priority and time (if it was claimed
--                           before, a newer run is added instead), or (unless_running) keep it; then a running one
--                           counts, too. The newest run of a key wins: when it starts, the older waiting ones end.
--                           Without a key only keep, the default, is possible
-- Bad data raises JR065. In REPEATABLE READ and SERIALIZABLE it may raise 40001, as any write may.
-- It also raises 40001 if another transaction enqueues the same keys in another order, see enqueue_with.
create or replace function jobrun.enqueue_run(
	job_type        text,
	payload         jsonb       default null,
	queue           text        default null,
	priority        integer     default null,
	run_in          interval    default null,
	run_at          timestamptz default null,
	expires_in      interval    default null,
	max_attempts    bigint      default null,
	timeout         interval    default null,
	backoff_base    interval    default null,
	backoff_cap     interval    default null,
	idempotency_key text        default null,
	unique_key      text        default null,
	on_conflict     text        default 'keep',
	concurrency_key text        default null,
	parent_id       bigint      default null,
	trace_context   text        default null)
returns jobrun.enqueued
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	return jobrun.enqueue_with(job_type, payload, row(null, queue, priority, run_in, run_at, expires_in, max_attempts, timeout,
		backoff_base, backoff_cap, idempotency_key, unique_key, on_conflict, concurrency_key, parent_id, trace_context)::jobrun.run_options);
end
$fn$;

-- enqueue: like enqueue_run, but returns only the id.
create or replace function jobrun.enqueue(
	job_type        text,
	payload         jsonb       default null,
	queue           text        default null,
	priority        integer     default null,
	run_in          interval    default null,
	run_at          timestamptz default null,
	expires_in      interval    default null,
	max_attempts    bigint      default null,
	timeout         interval    default null,
	backoff_base    interval    default null,
	backoff_cap     interval    default null,
	idempotency_key text        default null,
	unique_key      text        default null,
	on_conflict     text        default 'keep',
	concurrency_key text        default null,
	parent_id       bigint      default null,
	trace_context   text        default null)
returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run jobrun.enqueued;
begin
	v_run := jobrun.enqueue_run(job_type, payload, queue, priority, run_in, run_at, expires_in, max_attempts, timeout, backoff_base,
		backoff_cap, idempotency_key, unique_key, on_conflict, concurrency_key, parent_id, trace_context);
	return v_run.id;
end
$fn$;

-- enqueue_many: enqueue a run for each payload; returns the ids in the same order. The other arguments are those of
-- enqueue and apply to all runs; there are no keys, since a key belongs to one run.
create or replace function jobrun.enqueue_many(
	job_type        text,
	payloads        jsonb[],
	queue           text        default null,
	priority        integer     default null,
	run_in          interval    default null,
	run_at          timestamptz default null,
	expires_in      interval    default null,
	max_attempts    bigint      default null,
	timeout         interval    default null,
	backoff_base    interval    default null,
	backoff_cap     interval    default null,
	concurrency_key text        default null,
	parent_id       bigint      default null,
	trace_context   text        default null)
returns setof bigint
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_new jobrun.job_runs;
begin
	v_new := jobrun.run_of_many(job_type, coalesce(cardinality(payloads), 0), row(null, queue, priority, run_in, run_at, expires_in,
		max_attempts, timeout, backoff_base, backoff_cap, null, null, null, concurrency_key, parent_id, trace_context)::jobrun.run_options);
	return query select m.id from jobrun.insert_many(v_new, payloads) m(id);
	if found and v_new.run_at <= now() then
		perform jobrun.call_runners(v_new.job_type || ' ' || v_new.priority || ' ' || v_new.queue);
	end if;
end
$fn$;
