-- pause: pauses of job types, queues, definitions, hosts and everything, and limits of queues.

-- lock_queue: lock the row of a queue that is about to change, and make it first if there is none. Returns it. Who has waited for the
-- lock while the row was removed has none: so look again, each time with a younger snapshot. Anything but READ COMMITTED raises 40001.
create or replace function jobrun.lock_queue(name text) returns jobrun.job_queues
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_queue jobrun.job_queues;
begin
	loop
		select q.* into v_queue from jobrun.job_queues q where q.name = lock_queue.name for no key update;
		exit when found;
		insert into jobrun.job_queues (name) values (lock_queue.name) on conflict do nothing;
	end loop;
	return v_queue;
end
$fn$;

-- pause: claim no run of this job type, queue or definition, no run on this host, or none at all (everything) until the
-- pause ends (no duration: until resume). Waiting runs stay, running ones go on, and slots fire. Returns the end of the
-- pause. Commit soon: until then claims leave the queue out, since its row is locked; the same holds for set_queue.
-- The pause of a host stands in one row of its runners, which housekeeping leaves alone; held_back() looks for it by the
-- name of the host, so runners that start later obey it. If possible the row is of a runner that has ended: one that
-- lives would wait for this transaction with its next claim.
create or replace function jobrun.pause(
	job_type text default null, queue text default null, definition text default null, duration interval default null,
	reason text default null, host text default null, everything boolean default false)
returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_until  timestamptz;
	v_object text;
	v_old    jsonb;
	v_id     bigint;
	v_queue  jobrun.job_queues;
begin
	if num_nonnulls(job_type, queue, definition, host, nullif(everything, false)) <> 1 then
		raise exception 'pause needs one of job_type, queue, definition, host and everything' using errcode = 'JR065';
	end if;
	perform jobrun.check_duration('duration', duration);
	v_until := coalesce(now() + duration, 'infinity');
	reason := case when btrim(reason) <> '' then reason end;
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
		v_queue := jobrun.lock_queue(queue);
		v_old := jsonb_build_object('paused_until', v_queue.paused_until, 'reason', v_queue.paused_reason);
		update jobrun.job_queues q set paused_until = v_until, paused_reason = reason, paused_by = jobrun.caller()
		where q.name = pause.queue;
	elsif host is not null then
		v_object := 'host ' || host;
		select n.id, jsonb_build_object('paused_until', n.paused_until, 'reason', n.paused_reason) into v_id, v_old
		from jobrun.job_runners n where n.host = pause.host
		order by n.paused_until is null, n.finished_at is null, n.started_at desc limit 1 for no key update;
		if not found then
			raise exception 'no runner of host "%" is on record', left(host, 100) using errcode = 'JR065',
				hint = 'the name is the one that hostname(1) prints there; a host that has never run anything need not be paused';
		end if;
		update jobrun.job_runners n set paused_until = v_until, paused_reason = reason, paused_by = jobrun.caller() where n.id = v_id;
	elsif everything then
		v_object := 'everything';
		select jsonb_build_object('paused_until', s.paused_until, 'reason', s.paused_reason) into v_old
		from jobrun.settings s for no key update;
		update jobrun.settings s set paused_until = v_until, paused_reason = reason, paused_by = jobrun.caller() where s.only_row;
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

-- resume: end a pause. Returns whether there was one.
create or replace function jobrun.resume(
	job_type text default null, queue text default null, definition text default null, reason text default null,
	host text default null, everything boolean default false)
returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_object text := case when job_type is not null then 'type ' || job_type when queue is not null then 'queue ' || queue
		when host is not null then 'host ' || host when everything then 'everything' else 'definition ' || definition end;
	v_old    timestamptz;
begin
	if num_nonnulls(job_type, queue, definition, host, nullif(everything, false)) <> 1 then
		raise exception 'resume needs one of job_type, queue, definition, host and everything' using errcode = 'JR065';
	end if;
	if job_type is not null then
		select t.paused_until into v_old from jobrun.job_types t where t.name = resume.job_type for no key update;
		update jobrun.job_types t set paused_until = null, paused_reason = null, paused_by = null
		where t.name = resume.job_type and t.paused_until is not null;
	elsif queue is not null then
		select q.paused_until into v_old from jobrun.job_queues q where q.name = resume.queue for no key update;
		update jobrun.job_queues q set paused_until = null, paused_reason = null, paused_by = null
		where q.name = resume.queue and q.paused_until is not null;
	elsif host is not null then
		v_old := (select max(n.paused_until) from jobrun.job_runners n where n.host = resume.host and n.paused_until is not null);
		update jobrun.job_runners n set paused_until = null, paused_reason = null, paused_by = null
		where n.host = resume.host and n.paused_until is not null;
	elsif everything then
		select s.paused_until into v_old from jobrun.settings s for no key update;
		update jobrun.settings s set paused_until = null, paused_reason = null, paused_by = null
		where s.only_row and s.paused_until is not null;
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

-- set_queue: change limits of a queue. changes: an object with the members to change, of max_running,
-- max_running_per_key, rate_limit and rate_period; null: no limit. rate_limit and rate_period are given together.
-- Returns the queue.
create or replace function jobrun.set_queue(name text, changes jsonb, reason text default null) returns jobrun.job_queues
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
	v_old := jobrun.lock_queue(v_name);
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

-- remove_queue: forget the limits and the pause of a queue. Returns "removed", or "kept" if unfinished runs or definitions in it
-- have lock keys: then the row stays with the limit of a new one, one run per lock key at a time. null: it has no row. The
-- advisory lock, which need_queue() shares, keeps out those that are writing such a run just now. What they have committed only a
-- statement with a snapshot of its own sees: anything but READ COMMITTED is refused.
create or replace function jobrun.remove_queue(name text, reason text default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_name constant text := name;
	v_old  jobrun.job_queues;
	v_done text := 'removed';
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.remove_queue needs READ COMMITTED' using errcode = 'feature_not_supported';
	end if;
	if not pg_try_advisory_xact_lock(1785684593, hashtext(v_name)) then
		raise exception 'a transaction that has enqueued a run with a lock key into queue "%" is still open; try again', v_name
			using errcode = 'lock_not_available';
	end if;
	select q.* into v_old from jobrun.job_queues q where q.name = v_name for update;
	if not found then
		return null;
	end if;
	if exists (select from jobrun.job_runs r where r.queue = v_name and r.status = 'running' and r.concurrency_key is not null)
		or exists (select from jobrun.job_definitions d
			where d.concurrency_key is not null and coalesce(d.queue, 'default') = v_name)
		or jobrun.has_waiting_keys(v_name)
	then
		v_done := 'kept';
		update jobrun.job_queues q
		set max_running = null, max_running_per_key = 1, rate_limit = null, rate_period = null, paused_until = null, paused_reason = null,
			paused_by = null
		where q.name = v_name;
	else
		delete from jobrun.job_queues q where q.name = v_name;
	end if;
	perform jobrun.audit('remove_queue', 'queue ' || v_name, jsonb_strip_nulls(to_jsonb(v_old) - '{name,rate_window_start,rate_used}'::text[]),
		case v_done when 'kept' then '{"max_running_per_key": 1}'::jsonb end, reason);
	perform jobrun.call_runners('');
	return v_done;
end
$fn$;

-- has_waiting_keys: has a waiting run of this queue a lock key? It steps through the combinations of job_runs_bound.
create or replace function jobrun.has_waiting_keys(queue text) returns boolean
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $fn$
	with recursive walk as (
		(select r.job_type, r.queue, r.priority from jobrun.job_runs r
		where r.status in ('queued', 'failed') and (r.concurrency_key is not null or r.definition_id is not null)
		order by r.job_type, r.queue, r.priority limit 1)
		union all
		select n.* from walk w cross join lateral (
			select r.job_type, r.queue, r.priority from jobrun.job_runs r
			where r.status in ('queued', 'failed') and (r.concurrency_key is not null or r.definition_id is not null)
				and (r.job_type, r.queue, r.priority) > (w.job_type, w.queue, w.priority)
			order by r.job_type, r.queue, r.priority limit 1) n)
	select exists (select from walk w cross join lateral (
		select from jobrun.job_runs r
		where r.status in ('queued', 'failed') and (r.concurrency_key is not null or r.definition_id is not null)
			and r.job_type = w.job_type and r.queue = w.queue and r.priority = w.priority and coalesce(r.concurrency_key, '') > ''
		limit 1) k
	where w.queue = has_waiting_keys.queue)
$fn$;
