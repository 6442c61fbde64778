-- unique_keys: the runs of a unique key: the one that a new run keeps or replaces, and the newest.

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
