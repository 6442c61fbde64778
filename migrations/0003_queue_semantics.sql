-- 0003: what clients may ask of the queue, under any race: keys, many runs at once, pauses, limits, alarms, audit.

create index job_runners_lingering on jobrun.job_runners (lingers_until) where lingers_until is not null;
create index job_definitions_paused on jobrun.job_definitions (paused_until) where paused_until is not null;
create index job_audit_object on jobrun.job_audit (object);

alter table jobrun.job_runs add constraint job_runs_horizon check (run_at <= created_at + interval '101 years') not valid;

-- ------------------------------------------------------------------------------------------------------ who is asking?

-- caller: whose rights count: the role of SET ROLE, else the session's. (Inside these functions current_user is the owner.)
create function jobrun.caller() returns text
language plpgsql stable as $fn$
begin
	return case when pg_catalog.current_setting('role') operator(pg_catalog.=) 'none' then session_user
		else pg_catalog.current_setting('role') end;
end
$fn$;

-- may: has the caller a grant of one of these kinds? The owner of the schema may everything.
create function jobrun.may(variadic kinds text[]) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_caller constant name := jobrun.caller();
begin
	return pg_has_role(v_caller, (select n.nspowner from pg_namespace n where n.nspname = 'jobrun'), 'usage')
		or exists (select from jobrun.job_grants g join pg_roles o on o.rolname = g.role
			where g.kind = any (kinds) and pg_has_role(v_caller, o.oid, 'usage'));
end
$fn$;

-- may_enqueue: not if grants of kind enqueue name the job types that the caller may enqueue, and this is none of them. Who
-- has no such grant may all the same have come through a function around enqueue, but not with EXECUTE of its own: a role
-- that was renamed keeps that, while the grant and its limits stay with the old name.
create function jobrun.may_enqueue(job_type text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_caller constant name := jobrun.caller();
begin
	return jobrun.may('run', 'admin')
		or coalesce((select bool_or(g.job_types is null or may_enqueue.job_type = any (g.job_types))
			from jobrun.job_grants g join pg_roles o on o.rolname = g.role
			where g.kind = 'enqueue' and pg_has_role(v_caller, o.oid, 'usage')),
			not exists (select from pg_proc p where p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun')
				and p.proname in ('enqueue', 'enqueue_run', 'enqueue_many') and has_function_privilege(v_caller, p.oid, 'execute')));
end
$fn$;

create or replace function jobrun.is_admin() returns boolean
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select jobrun.may('admin')
$fn$;

-- audit: who did what to which object.
create function jobrun.audit(action text, object text, old jsonb, new jsonb, reason text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if octet_length(reason) > 1000 then
		raise exception 'the reason has % bytes; at most 1000', octet_length(reason) using errcode = 'JR065';
	end if;
	insert into jobrun.job_audit (who, action, object, old, new, reason)
	values (jobrun.caller(), audit.action, audit.object, audit.old, audit.new, audit.reason);
end
$fn$;

-- call_runners: wake those that linger (run --for). NOTIFY makes all commits of the server queue up, so there is none unless
-- somebody listens; who begins to linger right now looks for himself a second later. '' there may be work; 'cancel' a running
-- run was asked to stop. runner: only if this one was started with --for; it listens also while it finishes what it holds. A
-- transaction that has notified cannot be prepared, so whoever prepares his says so with the setting jobrun.notify.
create function jobrun.call_runners(message text, runner bigint default null) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if current_setting('jobrun.notify', true) is not distinct from 'off' then
		return;
	elsif (case when runner is null then exists (select from jobrun.job_runners n where n.lingers_until > now())
		else exists (select from jobrun.job_runners n where n.id = runner and n.lingers_until is not null) end)
	then
		perform pg_notify('jobrun', message);
	end if;
end
$fn$;

-- ------------------------------------------------------------------------------------------------------------- enqueue

-- check_type: may the caller enqueue this job type?
create function jobrun.check_type(job_type text) returns void
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	perform jobrun.check_name('job type', job_type);
	if job_type like 'jobrun.%' and not jobrun.is_admin() then
		raise exception 'job type "%": names that begin with "jobrun." are reserved', job_type using errcode = 'JR065';
	elsif not jobrun.may_enqueue(job_type) then
		raise exception 'role "%" may not enqueue job type "%"', jobrun.caller(), job_type using errcode = 'insufficient_privilege',
			-- a grant takes the place of the one before it: all types that the role shall have
			hint = format('jobrun grant enqueue %s --type %s', quote_ident(jobrun.caller()), array_to_string(array_append((select g.job_types
				from jobrun.job_grants g where g.role = jobrun.caller() and g.kind = 'enqueue'), check_type.job_type), ','));
	end if;
end
$fn$;

-- new_run: a row for job_runs, not inserted: arguments before definition before built-in, all checked but for whether the caller
-- may (check_type). See enqueue_run.
create function jobrun.new_run(
	job_type text, payload jsonb, queue text, priority integer, run_in interval, run_at timestamptz, expires_in interval,
	max_attempts bigint, timeout interval, backoff_base interval, backoff_cap interval, idempotency_key text, unique_key text,
	concurrency_key text, parent_id bigint, trace_context text)
returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_type   constant text := new_run.job_type;
	v_inside constant text := current_setting('jobrun.run_id', true);     -- a sql handler runs in this transaction
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
	elsif not isfinite(new_run.run_at) or new_run.run_at > now() + interval '100 years' then
		raise exception 'run_at "%" never comes; at most 100 years from now', new_run.run_at using errcode = 'JR065';
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

	-- A limit per key needs a queue row to lock. The look saves the row lock that even a do-nothing insert may wait for. The
	-- name of a new queue is a key like others: see enqueue_run.
	if v_run.concurrency_key is not null and not exists (select from jobrun.job_queues q where q.name = v_run.queue) then
		perform jobrun.nth_key();
		begin
			insert into jobrun.job_queues (name) values (v_run.queue) on conflict do nothing;
		exception when deadlock_detected then
			raise exception 'another transaction uses the same new queues in another order; try again'
				using errcode = 'serialization_failure';
		end;
	end if;
	return v_run;
end
$fn$;

-- lock_waiting: see 0001. Who stands in line for a run stands in the way of those behind, and can so be part of a circle in
-- which others wait for each other, even with the first key of a transaction: told as in enqueue_run.
create or replace function jobrun.lock_waiting(run_id bigint, to_change boolean) returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run jobrun.job_runs;
begin
	if to_change then
		select r.* into v_run from jobrun.job_runs r where r.id = run_id for no key update;
	else
		select r.* into v_run from jobrun.job_runs r where r.id = run_id for share;
	end if;
	if v_run.status in ('queued', 'failed') then
		return v_run;
	end if;
	raise exception 'run % does not wait any more', run_id using errcode = 'JR001';
exception
	when sqlstate 'JR001' then
		return null;
	when deadlock_detected then
		raise exception 'another transaction enqueues the same keys in another order; try again'
			using errcode = 'serialization_failure';
end
$fn$;

-- insert_run: the row of new_run, unless its keys say that there is one already.
create function jobrun.insert_run(run jobrun.job_runs, on_conflict text) returns jobrun.enqueued
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_new      constant jobrun.job_runs := run;
	v_conflict constant text := on_conflict;
	v_run      jobrun.job_runs;
	v_id       bigint;
	v_expires  timestamptz;
begin
	-- Each statement below has a snapshot of its own. A turn that finds nothing and then cannot insert has met a run that
	-- was committed in between: the next turn sees it.
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
			select r.id, r.expires_at into v_id, v_expires from jobrun.job_runs r
			where r.job_type = v_new.job_type and r.unique_key = v_new.unique_key and r.finished_at is null
				and r.status in ('queued', 'failed')
			order by r.claim_seq, r.id limit 1;
			if found then
				v_run := jobrun.lock_waiting(v_id, v_conflict = 'replace' or v_expires <= now());
				continue when v_run.id is null;
				-- What has expired will never start, and would take this request with it: it gets the time of this one.
				if v_conflict = 'replace' then
					-- A violation of job_runs_horizon would show the whole row, which may be of another role, in its DETAIL.
					update jobrun.job_runs r
					set payload = v_new.payload, priority = v_new.priority,
						run_at = least(v_new.run_at, r.created_at + interval '101 years'),
						expires_at = coalesce(v_new.expires_at, case when r.expires_at > v_new.run_at then r.expires_at end)
					where r.id = v_id returning r.* into v_run;
					return (v_run.id, false, true, v_run.status, v_run.job_type, v_run.queue, v_run.priority, v_run.run_at)::jobrun.enqueued;
				elsif v_run.expires_at <= now() then
					update jobrun.job_runs r set expires_at = v_new.expires_at where r.id = v_id;
				end if;
				exit;
			end if;
			if v_conflict = 'unless_running' then
				select r.* into v_run from jobrun.job_runs r
				where r.job_type = v_new.job_type and r.unique_key = v_new.unique_key and r.finished_at is null and r.status = 'running'
				order by r.id desc limit 1;
				exit when found;
			end if;
		end if;

		insert into jobrun.job_runs as r (job_type, payload, queue, priority, run_at, expires_at, max_attempts, timeout,
			backoff_base, backoff_cap, idempotency_key, unique_key, concurrency_key, parent_id, trace_context, created_by,
			definition_id, slot)
		values (v_new.job_type, v_new.payload, v_new.queue, v_new.priority, v_new.run_at, v_new.expires_at, v_new.max_attempts,
			v_new.timeout, v_new.backoff_base, v_new.backoff_cap, v_new.idempotency_key, v_new.unique_key, v_new.concurrency_key,
			v_new.parent_id, v_new.trace_context, v_new.created_by, v_new.definition_id, v_new.slot)
		on conflict do nothing
		returning r.id into v_id;
		if found then
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

-- nth_key: how many keyed runs this transaction has enqueued and queues it has made by now, this one included.
create function jobrun.nth_key() returns integer
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_before constant text := current_setting('jobrun.keys', true);
	v_nth    constant integer := 1 + case when v_before ~ '^[0-9]{1,8}$' then v_before::integer else 0 end;
begin
	perform set_config('jobrun.keys', v_nth::text, true);
	return v_nth;
end
$fn$;

-- enqueue_run: see 0001. Two transactions that enqueue the same keys in another order wait for each other. What the server
-- then calls a deadlock is told as what it is for the client, 40001: try again. That takes a subtransaction, which the first
-- key of a transaction does not need (it can only meet one in lock_waiting, which has its own), and which a transaction with
-- very many keys could not afford.
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
declare
	v_conflict constant text := coalesce(on_conflict, 'keep');
	v_new      jobrun.job_runs;
	v_done     jobrun.enqueued;
begin
	if v_conflict not in ('keep', 'replace', 'unless_running') then
		raise exception 'on_conflict "%" is not one of keep, replace, unless_running', left(v_conflict, 100) using errcode = 'JR065';
	elsif idempotency_key like 'on\_dead:%' then
		raise exception 'idempotency_key "%": those that begin with "on_dead:" are reserved', left(idempotency_key, 100)
			using errcode = 'JR065';
	end if;
	perform jobrun.check_type(job_type);
	v_new := jobrun.new_run(job_type, payload, queue, priority, run_in, run_at, expires_in, max_attempts, timeout, backoff_base,
		backoff_cap, idempotency_key, unique_key, concurrency_key, parent_id, trace_context);
	if (idempotency_key is not null or unique_key is not null) and jobrun.nth_key() between 2 and 50 then
		begin
			v_done := jobrun.insert_run(v_new, v_conflict);
		exception when deadlock_detected then
			raise exception 'another transaction enqueues the same keys in another order; try again'
				using errcode = 'serialization_failure';
		end;
	else
		v_done := jobrun.insert_run(v_new, v_conflict);
	end if;
	if (v_done.created or v_done.replaced) and v_done.run_at <= now() then
		perform jobrun.call_runners('');
	end if;
	return v_done;
end
$fn$;

-- enqueue_many: a run for each payload, in their order; returns the ids in this order. The other arguments are those of
-- enqueue and hold for all; there are no keys, since a key is of one run.
create function jobrun.enqueue_many(
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
#variable_conflict use_column
declare
	v_new   jobrun.job_runs;
	v_nr    bigint;
	v_bytes integer;
begin
	perform jobrun.check_type(enqueue_many.job_type);
	v_new := jobrun.new_run(enqueue_many.job_type, null, enqueue_many.queue, enqueue_many.priority, enqueue_many.run_in,
		enqueue_many.run_at, enqueue_many.expires_in, enqueue_many.max_attempts, enqueue_many.timeout, enqueue_many.backoff_base,
		enqueue_many.backoff_cap, null, null, enqueue_many.concurrency_key, enqueue_many.parent_id, enqueue_many.trace_context);
	select p.nr, greatest(octet_length(p.payload::text), pg_column_size(p.payload)) into v_nr, v_bytes
	from unnest(payloads) with ordinality p(payload, nr)
	where octet_length(p.payload::text) > 1048576 or pg_column_size(p.payload) > 1049600
	order by p.nr limit 1;
	if found then
		raise exception 'payload % has % bytes; the limit is 1048576', v_nr, v_bytes using errcode = 'JR065';
	end if;
	return query
		with new as (
			insert into jobrun.job_runs as r (job_type, payload, queue, priority, run_at, expires_at, max_attempts, timeout,
				backoff_base, backoff_cap, concurrency_key, parent_id, trace_context, created_by)
			select v_new.job_type, coalesce(p.payload, v_new.payload), v_new.queue, v_new.priority, v_new.run_at, v_new.expires_at,
				v_new.max_attempts, v_new.timeout, v_new.backoff_base, v_new.backoff_cap, v_new.concurrency_key, v_new.parent_id,
				v_new.trace_context, v_new.created_by
			from unnest(payloads) with ordinality p(payload, nr) order by p.nr
			returning r.id)
		select new.id from new order by new.id;
	if found and v_new.run_at <= now() then
		perform jobrun.call_runners('');
	end if;
end
$fn$;

-- new_runs: to be inserted into, best with COPY; a row is a run. options: a JSON object with arguments of enqueue by their
-- names, durations as texts ('5 minutes'); run: the same for this row, wins over options, and may have the payload as well. So
-- the lines of a file can share their options. A row of nulls alone is passed over, so that an empty line of a file may be sent
-- as one, and rows count as lines: what is wrong with one is told as "line N: ..." (COPY itself tells bad JSON in its CONTEXT).
-- How many runs are new, and how many were there before by their keys, is counted in the settings jobrun.new_runs_created and
-- jobrun.new_runs_existed of the transaction. The rows are gone at the end of the statement that brought them.
create unlogged table jobrun.new_runs (
	nr       bigint generated always as identity primary key,
	job_type text,
	payload  jsonb,
	options  jsonb,
	run      jsonb
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create function jobrun.count_up(setting text, n bigint) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_before constant text := current_setting(setting, true);
begin
	perform set_config(setting, (n + case when v_before ~ '^[0-9]{1,15}$' then v_before::bigint else 0 end)::text, true);
end
$fn$;

create type jobrun.run_options as (
	payload jsonb, queue text, priority integer, run_in interval, run_at timestamptz, expires_in interval, max_attempts bigint,
	timeout interval, backoff_base interval, backoff_cap interval, idempotency_key text, unique_key text, on_conflict text,
	concurrency_key text, parent_id bigint, trace_context text);

-- read_options: options, and over them those of one run.
create function jobrun.read_options(options jsonb, run jsonb) returns jobrun.run_options
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_all    jsonb;
	v_word   text;
	v_result jobrun.run_options;
begin
	if jsonb_typeof(options) <> 'object' then
		raise exception 'options are no object but %', left(options::text, 100) using errcode = 'JR065';
	elsif jsonb_typeof(run) <> 'object' then
		raise exception 'a run with options of its own is an object like {"payload": ..., "run_in": "5m"}, not %', left(run::text, 100)
			using errcode = 'JR065';
	end if;
	v_all := case when run ?| '{run_in,run_at}' then options - '{run_in,run_at}'::text[] else options end;
	v_all := coalesce(v_all, '{}') || coalesce(run, '{}');
	v_result := jsonb_populate_record(null::jobrun.run_options, v_all);
	select k.key into v_word from jsonb_object_keys(v_all) k(key) where not to_jsonb(v_result) ? k.key order by k.key limit 1;
	if found then
		raise exception 'there is no option "%"; there are %', left(v_word, 100),
			(select string_agg(k.key, ', ') from jsonb_object_keys(to_jsonb(v_result)) k(key)) using errcode = 'JR065';
	end if;
	v_result.payload := v_all -> 'payload';         -- the JSON null is a payload, too
	return v_result;
end
$fn$;

-- take_new_runs: rows that have type and options in common, and no keys, go in together; others one by one. What is wrong with
-- a row is caught once for all of them, to say which line it is.
create function jobrun.take_new_runs() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_head jobrun.new_runs;
	v_o    jobrun.run_options;
	v_done jobrun.enqueued;
	v_line bigint;
	v_row  record;
	v_text text;
	v_code text;
	v_hint text;
begin
	select a.* into v_head from added a where num_nonnulls(a.job_type, a.payload, a.options, a.run) > 0 order by a.nr limit 1;
	if not found then
		delete from jobrun.new_runs n where n.nr between (select min(a.nr) from added a) and (select max(a.nr) from added a);
		return null;
	end if;
	v_o := jobrun.read_options(v_head.options, null);
	if num_nonnulls(v_o.idempotency_key, v_o.unique_key) = 0 and not exists (select from added a
		where a.run is not null or ((a.job_type is distinct from v_head.job_type or a.options is distinct from v_head.options)
			and num_nonnulls(a.job_type, a.payload, a.options) > 0))
	then
		perform jobrun.count_up('jobrun.new_runs_created', (select count(*) from jobrun.enqueue_many(v_head.job_type,
			(select array_agg(coalesce(v_o.payload, a.payload) order by a.nr) from added a
				where num_nonnulls(a.job_type, a.payload, a.options) > 0),
			v_o.queue, v_o.priority, v_o.run_in, v_o.run_at, v_o.expires_in, v_o.max_attempts, v_o.timeout, v_o.backoff_base,
			v_o.backoff_cap, v_o.concurrency_key, v_o.parent_id, v_o.trace_context)));
	else
		for v_row in select a.*, row_number() over (order by a.nr) as line from added a order by a.nr loop
			continue when num_nonnulls(v_row.job_type, v_row.payload, v_row.options, v_row.run) = 0;
			v_line := v_row.line;
			v_o := jobrun.read_options(v_row.options, v_row.run);
			v_done := jobrun.enqueue_run(v_row.job_type, coalesce(v_o.payload, v_row.payload), v_o.queue, v_o.priority, v_o.run_in,
				v_o.run_at, v_o.expires_in, v_o.max_attempts, v_o.timeout, v_o.backoff_base, v_o.backoff_cap, v_o.idempotency_key,
				v_o.unique_key, v_o.on_conflict, v_o.concurrency_key, v_o.parent_id, v_o.trace_context);
			perform jobrun.count_up(case when v_done.created then 'jobrun.new_runs_created' else 'jobrun.new_runs_existed' end, 1);
		end loop;
	end if;
	delete from jobrun.new_runs n where n.nr between (select min(a.nr) from added a) and (select max(a.nr) from added a);
	return null;
exception when others then
	get stacked diagnostics v_text = message_text, v_hint = pg_exception_hint;
	if v_line is null then         -- of those that went in together only a payload can be too large
		select l.line into v_line from (select row_number() over (order by a.nr) as line, a.payload from added a) l
		where octet_length(l.payload::text) > 1048576 or pg_column_size(l.payload) > 1049600 order by l.line limit 1;
		v_text := regexp_replace(v_text, '^payload [0-9]+ ', 'the payload ');
	end if;
	v_text := case when v_line is null then '' else format('line %s: ', v_line) end || v_text;
	v_code := case when sqlstate = '40P01' then '40001' else sqlstate end;     -- as enqueue_run
	if v_hint = '' then
		raise exception '%', v_text using errcode = v_code;
	end if;
	raise exception '%', v_text using errcode = v_code, hint = v_hint;
end
$fn$;

create trigger new_runs_taken after insert on jobrun.new_runs referencing new table as added
	for each statement execute function jobrun.take_new_runs();

-- ------------------------------------------------------------------------------------------------- cancel, retry, status

-- cancel: a waiting run ends here, a running one is asked to (its runner sees it at the next heartbeat, at once if it lingers;
-- no status change). Returns what is so now: cancelled, requested; succeeded or dead when it had ended before; null when there
-- is no such run, or it is somebody else's and the caller is no admin.
drop function jobrun.cancel(bigint);
create function jobrun.cancel(id bigint, reason text default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_all constant boolean := jobrun.may('admin');
	v_run jobrun.job_runs;
begin
	select r.* into v_run from jobrun.job_runs r where r.id = cancel.id and (v_all or r.created_by = jobrun.caller()) for no key update;
	if v_run.status in ('queued', 'failed') then
		-- not now(): the caller's transaction may be older than an hour that is summed already
		update jobrun.job_runs r set status = 'cancelled', finished_at = clock_timestamp(), error_code = 'cancelled'
		where r.id = cancel.id;
		perform jobrun.audit('cancel', 'run ' || id, jsonb_build_object('status', v_run.status, 'attempts', v_run.attempts),
			'{"status": "cancelled"}', reason);
		return 'cancelled';
	elsif v_run.status = 'running' then
		update jobrun.job_runs r set cancel_requested_at = now() where r.id = cancel.id and r.cancel_requested_at is null;
		if found then
			perform jobrun.audit('cancel', 'run ' || id, jsonb_build_object('status', 'running', 'attempts', v_run.attempts),
				'{"status": "running", "cancel_requested": true}', reason);
		end if;
		perform jobrun.call_runners('cancel', v_run.runner_id);
		return 'requested';
	end if;
	return v_run.status;
end
$fn$;

-- retry: makes a run due now with all its attempts before it; claim_seq goes on. Returns retried; running (refused); succeeded
-- (refused without force); null when there is no such run.
drop function jobrun.retry(bigint, boolean);
create function jobrun.retry(id bigint, force boolean default false, reason text default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_run jobrun.job_runs;
begin
	begin
		select r.* into v_run from jobrun.job_runs r where r.id = retry.id for no key update;
		if v_run.status = 'running' then           -- the lock is given back: it would keep heartbeats out
			raise exception 'run % is running', id using errcode = 'JR001';
		end if;
	exception when sqlstate 'JR001' then
		return 'running';
	end;
	if v_run.status is null or (v_run.status = 'succeeded' and force is not true) then
		return v_run.status;
	end if;

	-- The plain success lives in the run row alone, which is about to forget it.
	insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, host, runner_id, started_at, finished_at)
	select r.id, r.claim_seq, r.attempts, 'succeeded', r.locked_by, r.runner_id, r.started_at, r.finished_at
	from jobrun.job_runs r where r.id = retry.id and r.status = 'succeeded'
	on conflict do nothing;

	update jobrun.job_runs r
	set status = 'queued', run_at = now(), attempts = 0, snoozes = 0, releases = 0,
		finished_at = null, cancel_requested_at = null, result = null, progress = null,
		-- a run that had expired would only expire again
		expires_at = case when r.expires_at > now() then r.expires_at end,
		-- of a success the next attempt would have nothing left to do
		checkpoint = case when r.status <> 'succeeded' then r.checkpoint end,
		-- cancelled before its first claim: with its key it would enter job_runs_unique, where another may stand by now
		unique_key = case when r.status in ('queued', 'failed') or r.claim_seq > 0 then r.unique_key end
	where r.id = retry.id;
	perform jobrun.audit('retry', 'run ' || id, jsonb_build_object('status', v_run.status, 'attempts', v_run.attempts),
		'{"status": "queued"}', reason);
	perform jobrun.call_runners('');
	return 'retried';
end
$fn$;

-- run_status: what has become of these runs; result and error are not for kind read. No row for an id that does not exist or
-- that the caller may not see: one sees one's own, and all with a grant of kind read, run or admin.
drop function jobrun.run_status(bigint[]);
create function jobrun.run_status(ids bigint[])
returns table (id bigint, job_type text, status text, attempts bigint, max_attempts bigint, run_at timestamptz,
	finished_at timestamptz, error_code text, result jsonb, error text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_caller constant text := jobrun.caller();
	v_texts  constant boolean := jobrun.may('run', 'admin');
	v_all    constant boolean := v_texts or jobrun.may('read');
begin
	return query
		select r.id, r.job_type, r.status, r.attempts, r.max_attempts, r.run_at, r.finished_at, r.error_code,
			case when v_texts or r.created_by = v_caller then r.result end,
			case when v_texts or r.created_by = v_caller then r.last_error end
		from jobrun.job_runs r where r.id = any (ids) and (v_all or r.created_by = v_caller) order by r.id;
end
$fn$;

-- run_texts, attempt_texts: what a run was given, gave and said, for those who may read it: its own, and kinds run
-- and admin; nulls for others.
create function jobrun.run_texts(id bigint)
returns table (payload jsonb, progress jsonb, checkpoint jsonb, result jsonb, last_error text, output text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
begin
	return query
		select r.payload, r.progress, r.checkpoint, r.result, r.last_error, r.output
		from jobrun.job_runs r
		where r.id = run_texts.id and (r.created_by = jobrun.caller() or jobrun.may('run', 'admin'));
	if not found then
		return query select null::jsonb, null::jsonb, null::jsonb, null::jsonb, null::text, null::text;
	end if;
end
$fn$;

create function jobrun.attempt_texts(run_id bigint, claim_seq bigint) returns table (error text, output text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
begin
	return query
		select a.error, a.output from jobrun.job_attempts a
		where a.run_id = attempt_texts.run_id and a.claim_seq = attempt_texts.claim_seq
			and (jobrun.may('run', 'admin') or exists (select from jobrun.job_runs r
				where r.id = attempt_texts.run_id and r.created_by = jobrun.caller()));
	if not found then
		return query select null::text, null::text;
	end if;
end
$fn$;

-- ------------------------------------------------------------------------------------------------------ pauses and limits

-- pause: no run of this job type, of this queue, or of this definition is claimed until the pause ends (no duration: until
-- resume). Runs stay where they are; those that run go on. Returns until when. Commit soon: claims wait for the queue's row,
-- as they do after set_queue.
create function jobrun.pause(
	job_type text default null, queue text default null, definition text default null, duration interval default null,
	reason text default null)
returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_until  timestamptz;
	v_object text;
	v_old    jsonb;
begin
	if num_nonnulls(job_type, queue, definition) <> 1 then
		raise exception 'pause needs one of job_type, queue and definition' using errcode = 'JR065';
	end if;
	perform jobrun.check_duration('duration', duration);
	v_until := coalesce(now() + duration, 'infinity');
	if job_type is not null then
		perform jobrun.check_name('job type', job_type);
		v_object := 'type ' || job_type;
		insert into jobrun.job_types as t (name) values (job_type) on conflict do nothing;
		select jsonb_build_object('paused_until', t.paused_until, 'reason', t.paused_reason) into v_old
		from jobrun.job_types t where t.name = pause.job_type for no key update;
		update jobrun.job_types t set paused_until = v_until, paused_reason = reason, paused_by = jobrun.caller()
		where t.name = pause.job_type;
	elsif queue is not null then
		perform jobrun.check_name('queue', queue);
		v_object := 'queue ' || queue;
		insert into jobrun.job_queues as q (name) values (queue) on conflict do nothing;
		select jsonb_build_object('paused_until', q.paused_until, 'reason', q.paused_reason) into v_old
		from jobrun.job_queues q where q.name = pause.queue for no key update;
		update jobrun.job_queues q set paused_until = v_until, paused_reason = reason, paused_by = jobrun.caller()
		where q.name = pause.queue;
	else
		v_object := 'definition ' || definition;
		select jsonb_build_object('paused_until', d.paused_until, 'reason', d.paused_reason) into v_old
		from jobrun.job_definitions d where d.name = definition for no key update;
		if not found then
			raise exception 'there is no definition "%"', left(definition, 100) using errcode = 'JR065';
		end if;
		update jobrun.job_definitions d set paused_until = v_until, paused_reason = reason where d.name = definition;
	end if;
	perform jobrun.audit('pause', v_object, v_old, jsonb_build_object('paused_until', v_until, 'reason', reason), reason);
	return v_until;
end
$fn$;

-- resume: the end of a pause. Returns whether there was one.
create function jobrun.resume(
	job_type text default null, queue text default null, definition text default null, reason text default null)
returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_object text := case when job_type is not null then 'type ' || job_type when queue is not null then 'queue ' || queue
		else 'definition ' || definition end;
	v_old    timestamptz;
begin
	if num_nonnulls(job_type, queue, definition) <> 1 then
		raise exception 'resume needs one of job_type, queue and definition' using errcode = 'JR065';
	end if;
	if job_type is not null then
		select t.paused_until into v_old from jobrun.job_types t where t.name = resume.job_type for no key update;
		update jobrun.job_types t set paused_until = null, paused_reason = null, paused_by = null
		where t.name = resume.job_type and t.paused_until is not null;
	elsif queue is not null then
		select q.paused_until into v_old from jobrun.job_queues q where q.name = resume.queue for no key update;
		update jobrun.job_queues q set paused_until = null, paused_reason = null, paused_by = null
		where q.name = resume.queue and q.paused_until is not null;
	else
		select d.paused_until into v_old from jobrun.job_definitions d where d.name = definition for no key update;
		if not found then
			raise exception 'there is no definition "%"', left(definition, 100) using errcode = 'JR065';
		end if;
		update jobrun.job_definitions d set paused_until = null, paused_reason = null
		where d.name = definition and d.paused_until is not null;
	end if;
	if v_old > now() then
		perform jobrun.audit('resume', v_object, jsonb_build_object('paused_until', v_old), '{"paused_until": null}', reason);
		perform jobrun.call_runners('');
		return true;
	end if;
	return false;
end
$fn$;

-- set_queue: limits of a queue. changes: an object with those of max_running, max_running_per_key, rate_limit and rate_period
-- that shall change; null: no limit. rate_limit and rate_period are given together. Returns the queue.
create function jobrun.set_queue(name text, changes jsonb, reason text default null) returns jobrun.job_queues
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_name  constant text := name;
	v_known constant text[] := '{max_running,max_running_per_key,rate_limit,rate_period}';
	v_word  text;
	v_old   jobrun.job_queues;
	v_new   jobrun.job_queues;
begin
	perform jobrun.check_name('queue', v_name);
	if jsonb_typeof(changes) is distinct from 'object' then
		raise exception 'changes is not an object' using errcode = 'JR065';
	end if;
	select k.key into v_word from jsonb_object_keys(changes) k(key) where k.key <> all (v_known) limit 1;
	if found then
		raise exception 'a queue has no "%"; it has %', left(v_word, 100), array_to_string(v_known, ', ') using errcode = 'JR065';
	end if;
	insert into jobrun.job_queues (name) values (v_name) on conflict do nothing;
	select q.* into v_old from jobrun.job_queues q where q.name = v_name for no key update;
	v_new := jsonb_populate_record(v_old, changes);
	if least(v_new.max_running, v_new.max_running_per_key, v_new.rate_limit) < 0 then
		raise exception 'a limit of queue "%" is negative', v_name using errcode = 'JR065';
	elsif (v_new.rate_limit is null) <> (v_new.rate_period is null) or v_new.rate_period <= interval '0' then
		raise exception 'a rate is rate_limit runs in rate_period, which is longer than 0' using errcode = 'JR065';
	end if;
	perform jobrun.check_duration('rate_period', v_new.rate_period);
	update jobrun.job_queues q
	set max_running = v_new.max_running, max_running_per_key = v_new.max_running_per_key, rate_limit = v_new.rate_limit,
		rate_period = v_new.rate_period
	where q.name = v_name returning q.* into v_new;
	perform jobrun.audit('set_queue', 'queue ' || v_name,
		(select jsonb_object_agg(k.key, to_jsonb(v_old) -> k.key) from jsonb_object_keys(changes) k(key)),
		(select jsonb_object_agg(k.key, to_jsonb(v_new) -> k.key) from jsonb_object_keys(changes) k(key)), reason);
	perform jobrun.call_runners('');
	return v_new;
end
$fn$;

-- --------------------------------------------------------------------------------------------------------------- alarms

-- raise_alarm: for settle, when a run goes dead: enqueues the on_dead of its definition (the one it is of, else the one named
-- as its type) with what is known of the run. An alarm that dies raises none. Whatever is wrong with it must not cost the
-- settle: it is a warning in the server's log. Returns the id of the alarm or null.
create function jobrun.raise_alarm(run_id bigint, claim_seq bigint) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_run   jobrun.job_runs;
	v_def   jobrun.job_definitions;
	v_facts jsonb;
	v_done  jobrun.enqueued;
begin
	select r.* into v_run from jobrun.job_runs r
	where r.id = raise_alarm.run_id and r.claim_seq = raise_alarm.claim_seq and r.status = 'dead';
	select d.* into v_def from jobrun.job_definitions d
	where d.id = v_run.definition_id or (v_run.definition_id is null and d.name = v_run.job_type);
	if v_def.on_dead is null or v_run.idempotency_key like 'on\_dead:%' then
		return null;
	end if;
	v_facts := jsonb_build_object('run_id', v_run.id, 'job_type', v_run.job_type, 'queue', v_run.queue, 'definition', v_def.name,
		'slot', v_run.slot, 'attempts', v_run.attempts, 'max_attempts', v_run.max_attempts, 'error_code', v_run.error_code,
		'error', v_run.last_error, 'host', v_run.locked_by, 'started_at', v_run.started_at, 'failed_at', v_run.failed_at,
		'parent_id', v_run.parent_id, 'payload', v_run.payload);
	if octet_length(v_facts::text) > 1048576 or pg_column_size(v_facts) > 1048576 then
		v_facts := v_facts - 'payload';
	end if;
	perform jobrun.check_type(v_def.on_dead);
	-- Not through enqueue_run, which keeps such a key from clients: who had it first would be the alarm.
	v_done := jobrun.insert_run(jobrun.new_run(v_def.on_dead, v_facts, null, null, null, null, null, null, null, null, null,
		format('on_dead:%s:%s', v_run.id, v_run.claim_seq), null, null, v_run.id, v_run.trace_context), 'keep');
	if v_done.created and v_done.run_at <= now() then
		perform jobrun.call_runners('');
	end if;
	return v_done.id;
exception when others then
	raise warning 'run % is dead, and its alarm could not be enqueued: %', run_id, sqlerrm;
	return null;
end
$fn$;

-- --------------------------------------------------------------------------------------------------------------- effects

-- effect_begin, effect_claim, effect_done, effect_undo, effect_end, effect_look: the steps of `jobrun effect`, which says in
-- lib/sql/effect_*.sql what each is for. Functions, so that handlers need no rights on the tables.
create function jobrun.effect_begin(effect text, run_id bigint, claim_seq bigint)
returns table (verdict text, exit_status text, age_ms bigint)
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
with fence as materialized (
	select $2 is null or exists (select from jobrun.job_runs r
		where r.id = $2 and r.claim_seq = $3 and r.locked_until is not null) as held
), met as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq)
	select $1, $2, $3 from fence f where f.held
	on conflict (key) do update set                 -- one that is done stays as it is: only to see the row that there is now
		run_id     = case when e.done_at is null then excluded.run_id else e.run_id end,
		claim_seq  = case when e.done_at is null then excluded.claim_seq else e.claim_seq end,
		started_at = case when e.done_at is null then excluded.started_at else e.started_at end
	returning e.done_at, e.detail
)
select case when not f.held then 'fenced'
		when m.done_at is null then 'go'
		when m.detail ? 'at_most_once' and not m.detail ? 'exit' then 'open'
		else 'done' end,
	m.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - m.done_at)))::bigint
from fence f left join met m on true
$fn$;

create function jobrun.effect_claim(effect text, run_id bigint, claim_seq bigint, word text)
returns table (verdict text, exit_status text, age_ms bigint)
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
with fence as materialized (
	select $2 is null or exists (select from jobrun.job_runs r
		where r.id = $2 and r.claim_seq = $3 and r.locked_until is not null) as held
), met as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at, detail)
	select $1, $2, $3, now(), jsonb_build_object('at_most_once', $4) from fence f where f.held
	on conflict (key) do update set key = e.key     -- as it is: only to see the row that there is now
	returning e.done_at, e.detail
)
select case when not f.held then 'fenced'
		when m.done_at is null then 'begun'
		when m.detail ->> 'at_most_once' = $4 then 'go'
		when m.detail ? 'at_most_once' and not m.detail ? 'exit' then 'open'
		else 'done' end,
	m.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - m.done_at)))::bigint
from fence f left join met m on true
$fn$;

create function jobrun.effect_done(effect text, run_id bigint, claim_seq bigint) returns void
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at) values ($1, $2, $3, now())
on conflict (key) do update set run_id = excluded.run_id, claim_seq = excluded.claim_seq, done_at = excluded.done_at
	where e.done_at is null
$fn$;

create function jobrun.effect_undo(effect text, word text) returns void
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
delete from jobrun.job_effects e where e.key = $1 and e.detail ->> 'at_most_once' = $2
$fn$;

create function jobrun.effect_end(effect text, word text, exit_status integer) returns void
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
update jobrun.job_effects e set done_at = now(), detail = e.detail || jsonb_build_object('exit', $3)
where e.key = $1 and e.detail ->> 'at_most_once' = $2 and not e.detail ? 'exit'
$fn$;

create function jobrun.effect_look(effect text) returns table (verdict text, exit_status text, age_ms bigint)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
select case when e.key is null then 'go'
		when e.done_at is null then 'begun'
		when e.detail ? 'at_most_once' and not e.detail ? 'exit' then 'open'
		else 'done' end,
	e.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - e.done_at)))::bigint
from (select $1 as key) asked left join jobrun.job_effects e on e.key = asked.key
$fn$;

-- ---------------------------------------------------------------------------------------------------------------- claim

-- claim: see 0001. New: runs of paused definitions are passed over. There is no index for that, since a definition has few
-- waiting runs; a pause of a job type or a queue costs nothing however many wait.
create or replace function jobrun.claim(
	runner_id bigint, host text, n integer, job_types text[], queues text[], priorities smallint[],
	after_priority smallint, after_run_at timestamptz, after_id bigint, lease_ms bigint)
returns setof jobrun.held_runs
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
#variable_conflict use_column
declare
	v_runner   constant bigint := runner_id;
	v_host     constant text := host;
	v_until    constant timestamptz := now() + lease_ms * interval '1 millisecond';
	v_batch    constant integer := 2 * n + 50;          -- some spare, in case others hold the first ones
	v_paused   constant bigint[] := array(select d.id from jobrun.job_definitions d where d.paused_until > now());
	v_priority smallint := coalesce(after_priority, -32768);
	v_run_at   timestamptz := coalesce(after_run_at, '-infinity');
	v_id       bigint := coalesce(after_id, 0);
	v_limited  text[];
	v_ids      bigint[];
	v_new      bigint[];
	v_seen     integer;
	v_looked   integer := 0;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.claim needs READ COMMITTED' using errcode = 'feature_not_supported';
	elsif n is null or n <= 0 then
		return;
	end if;

	v_limited := array(select l.name from (
		select q.name from jobrun.job_queues q where q.name = any (queues) and jobrun.is_limited(q)
		order by q.name for no key update) l);

	if v_limited = '{}' then
		with c as materialized (           -- not behind the cursor, not paused, no limit set meanwhile
			select c.job_type, c.queue, c.priority,
				case when c.priority = v_priority then v_run_at else '-infinity' end as after_run_at, v_id as after_id
			from unnest(job_types, queues, priorities) c(job_type, queue, priority)
			where c.priority >= v_priority
				and not exists (select from jobrun.job_queues q
					where q.name = c.queue and (q.paused_until > now() or jobrun.is_limited(q)))
				and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
		pick as materialized (             -- the first due runs of each, merged and cut; no lock yet
			select p.* from c cross join lateral (
				select r.ctid as tid, r.priority, r.run_at, r.id from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
					and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
					and (v_paused = '{}' or r.definition_id is null or r.definition_id <> all (v_paused))
				order by r.run_at, r.id limit v_batch) p
			order by p.priority, p.run_at, p.id limit v_batch),
		got as materialized (              -- n of them, locked in order; looked at again, since they may have changed
			select r.ctid as tid from pick p join jobrun.job_runs r on r.ctid = p.tid
			where r.status in ('queued', 'failed') and r.run_at <= now()
			order by p.priority, p.run_at, p.id limit n
			for no key update of r skip locked),
		taken as (
			update jobrun.job_runs r
			set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
				attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
			from got where r.ctid = got.tid
			returning r.id)
		select array_agg(taken.id) into v_ids from taken;
	end if;

	-- With limits; and without, in the rare case that all the first ones were held by others: on behind them, until something is
	-- found. A saturated key or a locked row must not hide what lies behind it.
	while v_ids is null or (v_limited <> '{}' and cardinality(v_ids) < n) loop
		with lim as materialized (         -- room left in each limited queue; its row is locked, so this is exact
			select q.name, q.max_running_per_key as per_key,
				least(jobrun.rate_left(q), q.max_running - (select count(*) from jobrun.job_runs r
					where r.status = 'running' and r.queue = q.name)) as room
			from jobrun.job_queues q where q.name = any (v_limited)),
		held as materialized (             -- running of each key, in queues with a limit per key
			select r.queue, r.concurrency_key, count(*) as n
			from lim join jobrun.job_runs r on r.queue = lim.name
			where lim.per_key is not null and r.status = 'running' and r.concurrency_key is not null
			group by r.queue, r.concurrency_key),
		c as materialized (
			select c.job_type, c.queue, c.priority, lim.room, lim.per_key,
				case when c.priority = v_priority then v_run_at else '-infinity' end as after_run_at, v_id as after_id,
				array(select h.concurrency_key from held h where h.queue = c.queue and h.n >= lim.per_key) as full_keys
			from unnest(job_types, queues, priorities) c(job_type, queue, priority)
			left join lim on lim.name = c.queue
			where c.priority >= v_priority and (lim.room is null or lim.room > 0)
				and not exists (select from jobrun.job_queues q
					where q.name = c.queue and (q.paused_until > now() or (lim.name is null and jobrun.is_limited(q))))
				and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
		pick as materialized (
			select p.*, c.queue, c.room, c.per_key from c cross join lateral (
				select r.ctid as tid, r.priority, r.run_at, r.id, r.concurrency_key from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
					and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
					and (v_paused = '{}' or r.definition_id is null or r.definition_id <> all (v_paused))
					and (r.concurrency_key is null or r.concurrency_key <> all (c.full_keys))
				order by r.run_at, r.id limit v_batch) p
			order by p.priority, p.run_at, p.id limit v_batch),
		keyed as (                         -- n-th of its key, counting those that run
			select p.*, coalesce(h.n, 0)
				+ row_number() over (partition by p.queue, p.concurrency_key order by p.priority, p.run_at, p.id) as nth_of_key
			from pick p left join held h on h.queue = p.queue and h.concurrency_key = p.concurrency_key),
		fits as materialized (             -- n-th of its queue, among those whose key has room
			select f.* from (
				select k.*, row_number() over (partition by k.queue order by k.priority, k.run_at, k.id) as nth_of_queue
				from keyed k where k.per_key is null or k.concurrency_key is null or k.nth_of_key <= k.per_key) f
			where f.room is null or f.nth_of_queue <= f.room),
		got as materialized (
			select r.ctid as tid from fits p join jobrun.job_runs r on r.ctid = p.tid
			where r.status in ('queued', 'failed') and r.run_at <= now()
			order by p.priority, p.run_at, p.id limit n - coalesce(cardinality(v_ids), 0)
			for no key update of r skip locked),
		taken as (
			update jobrun.job_runs r
			set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
				attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
			from got where r.ctid = got.tid
			returning r.id, r.queue),
		rated as (                         -- the window is paid for by the transaction that holds the queue's row
			update jobrun.job_queues q
			set rate_used = t.n + case when q.rate_window_start + q.rate_period > now() then q.rate_used else 0 end,
				rate_window_start = case when q.rate_window_start + q.rate_period > now() then q.rate_window_start else now() end
			from (select taken.queue, count(*) as n from taken group by taken.queue) t
			where q.name = t.queue and q.name = any (v_limited) and q.rate_limit is not null
			returning q.name)
		select array(select taken.id from taken), (select count(*) from pick), l.priority, l.run_at, l.id
		into v_new, v_seen, v_priority, v_run_at, v_id
		from (select 1) always left join
			(select p.priority, p.run_at, p.id from pick p order by p.priority desc, p.run_at desc, p.id desc limit 1) l on true;
		v_ids := nullif(v_ids || v_new, '{}');
		v_looked := v_looked + v_seen;
		exit when v_seen < v_batch or v_looked >= 10000;
	end loop;

	return query select h.* from jobrun.held_runs h where h.id = any (v_ids) order by h.priority, h.run_at, h.id;
end
$fn$;

revoke all on all functions in schema jobrun from public;
