-- exec: a command that a host starts itself (`jobrun exec`) is a run, too.

-- exec_paused: the pause that keeps commands of this definition from starting; null: none.
create or replace function jobrun.exec_paused(definition jobrun.job_definitions) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	return case when not definition.enabled then 'disabled'
		else jobrun.pause_words(definition.job_type, coalesce(definition.queue, 'exec'), definition.id) end;
end
$fn$;

-- is_of_exec: is this a definition whose runs `jobrun exec` starts, so that its type needs no handler? Exec has made it, which the
-- audit tells as long as it is kept; or runs of its name have ended in queue exec. Not if it has a schedule or another type.
create or replace function jobrun.is_of_exec(definition text) returns boolean
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp set enable_seqscan = off as $fn$
	select exists (select from jobrun.job_definitions d
		where d.name = is_of_exec.definition and d.job_type = d.name and d.schedule is null
			and (exists (select from jobrun.job_audit a
					where a.object = 'definition ' || d.name and a.action = 'define' and a.reason = 'first use by exec' and a.at = d.created_at)
				or exists (select from jobrun.job_totals t
					where t.job_type = d.name and t.queue = 'exec' and t.outcome in ('succeeded', 'dead'))))
$fn$;

-- record_start: record a skipped start as a row of job_slots, with the id of the runner and the time when the runner
-- began. There is one row even if the claim is repeated after a lost answer. Its time is never that of a slot of the
-- schedule, since then that slot's row could not be written. The caller has locked the definition.
create or replace function jobrun.record_start(definition jobrun.job_definitions, runner_id bigint, reason text) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_every constant interval := case when definition.schedule is not null then (jobrun.parse_schedule(definition.schedule)).every end;
	v_tick  constant interval := interval '1 microsecond';
	v_slot  timestamptz;
begin
	select n.started_at into v_slot from jobrun.job_runners n where n.id = record_start.runner_id;
	if exists (select from jobrun.job_slots s
		where s.definition_id = definition.id and s.slot >= v_slot and s.runner_id = record_start.runner_id)
	then
		return;
	end if;
	loop
		if (case when v_every is null then date_trunc('second', v_slot) < v_slot
			else jobrun.count_every(v_every, definition.anchor_at, v_slot)
				= jobrun.count_every(v_every, definition.anchor_at, v_slot - v_tick) end)
		then
			insert into jobrun.job_slots (definition_id, slot, outcome, reason, runner_id)
			values (definition.id, v_slot, 'skipped', record_start.reason, record_start.runner_id) on conflict do nothing;
			exit when found;
		end if;
		v_slot := v_slot + v_tick;
	end loop;
end
$fn$;

-- exec_claim: a command of this host begins (`jobrun exec`). Creates a run of the definition, claimed from the start
-- and with one attempt; or takes the oldest run of it that people have retried, which nobody else can start. The first
-- use creates the definition. timeout_ms: null: the definition's. Queue and max_attempts are set on the run and not on
-- the definition, so that runs enqueued for a job type of this name are not affected.
-- If a pause, the overlap rule or a limit of its queue holds it back, that is recorded and returned, as in claim_job();
-- with the job type if everything or the host is paused, since the caller then says so.
-- If another session has locked a row, that is returned, too: this does not wait, and the runner asks again. The queue
-- is locked first, then the definition; what was read before is checked again. Zero rows: the runner has given up this
-- claim, or its row is gone.
create or replace function jobrun.exec_claim(
	runner_id bigint, host text, definition text, lease_ms bigint, timeout_ms bigint, argv text[], claim_number bigint)
returns setof jobrun.held_runs
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_name    constant text := exec_claim.definition;
	v_text    constant jsonb := jsonb_build_object('argv', to_jsonb(exec_claim.argv));
	v_end     constant timestamptz := now() + lease_ms * interval '1 millisecond';
	v_read    jobrun.job_definitions;     -- before it was locked
	v_def     jobrun.job_definitions;
	v_in      text;
	v_queue   jobrun.job_queues;
	v_held    text;
	v_overlap text;
	v_reason  text;
	v_id      bigint;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.exec_claim needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	elsif not jobrun.may_claim(runner_id, claim_number) then
		return;
	end if;
	perform jobrun.check_name('name', v_name);
	if not exists (select from jobrun.job_definitions d where d.name = v_name) then
		begin
			insert into jobrun.job_definitions (name, job_type) values (v_name, v_name)
			on conflict on constraint job_definitions_name do nothing;
		exception when lock_not_available then       -- an open transaction is creating it
			return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('job_type', v_name)) h;
			return;
		end;
		if found then
			perform jobrun.audit('define', 'definition ' || v_name, null, jsonb_build_object('job_type', v_name), 'first use by exec');
		end if;
	end if;
	select d.* into v_read from jobrun.job_definitions d where d.name = v_name;
	v_in := coalesce(v_read.queue, 'exec');
	if v_read.job_type like 'jobrun.%' then
		raise exception 'definition "%" is jobrun''s own', v_name using errcode = 'JR065';
	elsif v_read.concurrency_key is not null then
		begin
			perform jobrun.need_queue(v_in);
		exception when serialization_failure then    -- an open transaction is creating or removing it
			return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('queue', v_in)) h;
			return;
		end;
	end if;

	if exists (select from jobrun.job_queues q where q.name = v_in and jobrun.is_limited(q)) then
		select q.* into v_queue from jobrun.job_queues q where q.name = v_in for no key update skip locked;
		if not found then
			return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('queue', v_in)) h;
			return;
		end if;
	end if;
	select d.* into v_def from jobrun.job_definitions d where d.name = v_name for no key update skip locked;
	if not found or (v_def.queue, v_def.concurrency_key) is distinct from (v_read.queue, v_read.concurrency_key) then
		return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('job_type', v_name)) h;
		return;
	end if;

	v_held := jobrun.held_back(host);
	v_reason := coalesce(v_held, jobrun.exec_paused(v_def));
	if v_reason is null and v_def.overlap = 'skip' then
		v_overlap := jobrun.overlapping(v_def.id, true);
	end if;
	v_reason := coalesce(v_reason, v_overlap, jobrun.limit_reason(v_queue, v_def.concurrency_key));
	if v_reason is not null then
		perform jobrun.record_start(v_def, runner_id, case when v_overlap is null then '' else 'overlap: ' end || v_reason);
		return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('payload', v_reason,
			'job_type', case when v_held is not null then v_name end)) h;
		return;
	end if;

	perform jobrun.spend_rate(v_queue);
	select r.id into v_id from jobrun.job_runs r
	where r.definition_id = v_def.id and r.finished_at is null and jobrun.is_retried_command(r)
	order by r.id limit 1 for no key update skip locked;
	if v_id is not null then
		update jobrun.job_runs r
		set payload = v_text, timeout = coalesce(timeout_ms * interval '1 millisecond', v_def.timeout), status = 'running', attempts = 1,
			claim_seq = r.claim_seq + 1, runner_id = exec_claim.runner_id, locked_by = exec_claim.host, locked_until = v_end,
			started_at = now(), queue = v_in, concurrency_key = v_def.concurrency_key     -- as those that were counted
		where r.id = v_id;
	else
		insert into jobrun.job_runs as r (definition_id, job_type, queue, priority, payload, concurrency_key, timeout, created_by, status,
			attempts, max_attempts, claim_seq, runner_id, locked_by, locked_until, started_at)
		values (v_def.id, v_def.job_type, v_in, coalesce(v_def.priority, 100), v_text, v_def.concurrency_key,
			coalesce(timeout_ms * interval '1 millisecond', v_def.timeout), jobrun.caller(), 'running',
			1, 1, 1, exec_claim.runner_id, exec_claim.host, v_end, now())
		returning r.id into v_id;
	end if;
	return query select h.* from jobrun.held_runs h where h.id = v_id;
end
$fn$;
