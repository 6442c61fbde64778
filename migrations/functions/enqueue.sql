-- enqueue: enqueue one run or many, in the transaction of the client.

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

-- insert_many: insert a run for each payload, with what run_of_many has returned. Returns the ids in the same order. They are drawn
-- before the rows are inserted: to get them from RETURNING, row by row, takes longer. A plan for these very payloads would have
-- copies of the whole array in it: hence force_generic_plan, here and in enqueue_many and enqueue_many_with.
create or replace function jobrun.insert_many(run jobrun.job_runs, payloads jsonb[]) returns bigint[]
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
#variable_conflict use_column
declare
	v_new   constant jobrun.job_runs := run;
	v_ids   bigint[];
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
	v_ids := array(select nextval('jobrun.job_runs_id_seq') from generate_series(1, cardinality(payloads)));
	-- unnest in the select list gives one id and one payload after the other, in their order; what all have in common is unpacked once
	insert into jobrun.job_runs as r (id, job_type, payload, queue, priority, run_at, expires_at, max_attempts, timeout,
		backoff_base, backoff_cap, concurrency_key, parent_id, trace_context, created_by, is_counted)
	overriding system value
	select p.id, c.job_type, coalesce(p.payload, c.payload), c.queue, c.priority, c.run_at, c.expires_at, c.max_attempts, c.timeout,
		c.backoff_base, c.backoff_cap, c.concurrency_key, c.parent_id, c.trace_context, c.created_by, c.is_counted
	from unnest(array[v_new]) c cross join (select unnest(v_ids) as id, unnest(payloads) as payload) p;
	return v_ids;
end
$fn$;

-- enqueue_many_with: enqueue_many with these options, which have no keys; their payload does not count.
create or replace function jobrun.enqueue_many_with(job_type text, payloads jsonb[], o jobrun.run_options) returns bigint[]
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
declare
	v_new jobrun.job_runs;
	v_ids bigint[];
begin
	if o.on_conflict <> 'keep' then
		perform jobrun.check_conflict(o.on_conflict, o.unique_key);
	end if;
	v_new := jobrun.run_of_many(job_type, coalesce(cardinality(payloads), 0), o);
	v_ids := jobrun.insert_many(v_new, payloads);
	if v_ids <> '{}' and v_new.run_at <= now() then
		perform jobrun.call_runners(v_new.job_type || ' ' || v_new.priority || ' ' || v_new.queue);
	end if;
	return v_ids;
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
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
begin
	return query select unnest(jobrun.enqueue_many_with(job_type, payloads, row(null, queue, priority, run_in, run_at, expires_in,
		max_attempts, timeout, backoff_base, backoff_cap, null, null, null, concurrency_key, parent_id, trace_context)::jobrun.run_options));
end
$fn$;
