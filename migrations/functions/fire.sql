-- fire: turn slots into runs, when they are due and by hand.

-- ---------------------------------------------------------------------------------------------- what stands in the way

-- is_command: is this a run of exec_claim? (A run that somebody enqueued has a key, since `jobrun enqueue` always gives one.)
create or replace function jobrun.is_command(run jobrun.job_runs) returns boolean
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select num_nonnulls(run.slot, run.idempotency_key, run.unique_key) = 0 and run.max_attempts = 1
		and jsonb_typeof(run.payload -> 'argv') is not distinct from 'array' and run.payload = jsonb_build_object('argv', run.payload -> 'argv')
$fn$;

-- is_retried_command: is it one that people have retried, so that it waits for the next command of its name?
create or replace function jobrun.is_retried_command(run jobrun.job_runs) returns boolean
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select run.status = 'queued' and run.claim_seq > 0 and jobrun.is_command(run)
$fn$;

-- overlapping: a text about a run of the definition that keeps its slots from starting; null: there is none. Such runs
-- are: every running run, whoever enqueued it; unfinished runs of slots; and unfinished runs enqueued by roles with
-- kind run or admin, except those that were never claimed and are due in the future. A waiting run of any other role
-- does not count: a role that may enqueue a job type could otherwise stop its schedules. These runs are not even read,
-- however many wait. command: the caller is exec_claim. Then runs that wait for the next command do not count; but a
-- running command of this name counts even if its definition was removed, and made anew, since it began. What is due is due by the
-- clock, not by now(): a run may have been enqueued after this transaction began.
create or replace function jobrun.overlapping(definition_id bigint, command boolean default false) returns text
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_definition constant bigint := overlapping.definition_id;
	v_command    constant boolean := overlapping.command;
	v_by         text := '';
	v_run        jobrun.job_runs;
begin
	select r.* into v_run from jobrun.job_runs r where r.status = 'running' and r.definition_id = v_definition limit 1;
	if v_run.id is null and v_command then
		select r.* into v_run from jobrun.job_runs r join jobrun.job_definitions d on d.name = r.job_type
		where r.status = 'running' and d.id = v_definition and jobrun.is_command(r)
			and not exists (select from jobrun.job_definitions o where o.id = r.definition_id) limit 1;
	end if;
	while v_run.id is null loop
		v_by := (select r.created_by from jobrun.job_runs r
			where r.definition_id = v_definition and r.finished_at is null and r.created_by > v_by order by r.created_by limit 1);
		exit when v_by is null;
		select r.* into v_run from jobrun.job_runs r
		where r.definition_id = v_definition and r.finished_at is null and r.created_by = v_by and r.slot is not null limit 1;
		if not found and jobrun.role_may(v_by, 'run', 'admin') then
			select r.* into v_run from jobrun.job_runs r
			where r.definition_id = v_definition and r.finished_at is null and r.created_by = v_by
				and (r.claim_seq > 0 or r.run_at <= clock_timestamp()) and not (v_command and jobrun.is_retried_command(r)) limit 1;
		end if;
	end loop;
	return (select format('run %s %s', v_run.id, case v_run.status when 'running' then 'is running' when 'failed'
			then concat_ws(' ', 'waits', u.until, 'to be retried') else concat_ws(' ', 'waits', u.until) end)
		from (select case when v_run.run_at > clock_timestamp() then 'until ' || jobrun.slot_text(date_trunc('second', v_run.run_at),
			coalesce((select d.time_zone from jobrun.job_definitions d where d.id = v_definition), 'UTC')) end) u(until)
		where v_run.id is not null);
end
$fn$;

-- --------------------------------------------------------------------------------------------------- when they are due

-- new_run_of: a run with the values of the definition, not inserted; values that are not set come from the definition
-- that is named like its job type.
create or replace function jobrun.new_run_of(
	definition jobrun.job_definitions, payload jsonb, run_in interval, run_at timestamptz, idempotency_key text, parent_id bigint,
	trace_context text)
returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run jobrun.job_runs;
begin
	v_run := jobrun.new_run(definition.job_type, coalesce(payload, definition.payload), definition.queue, definition.priority, run_in,
		run_at, null, definition.max_attempts, definition.timeout, definition.backoff_base, definition.backoff_cap, idempotency_key,
		null, definition.concurrency_key, parent_id, trace_context);
	v_run.definition_id := definition.id;
	return v_run;
end
$fn$;

-- fire_slot: create the run of one new slot, or return the reason why the overlap rule forbids it. The caller has
-- locked the definition.
create or replace function jobrun.fire_slot(
	definition jobrun.job_definitions, slot timestamptz, out outcome text, out reason text, out run_id bigint)
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_slot constant timestamptz := slot;
	v_run  jobrun.job_runs;
begin
	outcome := 'queued';
	if definition.overlap = 'skip' then
		reason := 'overlap: ' || jobrun.overlapping(definition.id);
	end if;
	if reason is not null then
		outcome := 'skipped';
	end if;
	insert into jobrun.job_slots as s (definition_id, slot, outcome, reason, run_id)
	values (definition.id, v_slot, 'skipped', fire_slot.reason, null) on conflict do nothing;
	if not found then
		outcome := null;       -- the slot is recorded already: somebody has set next_slot_at back
	elsif outcome = 'queued' then
		v_run := jobrun.new_run_of(definition, null, null, null, null, null, null);
		v_run.slot := v_slot;
		run_id := (jobrun.insert_run(v_run, 'keep')).id;
		update jobrun.job_slots s set outcome = 'queued', run_id = fire_slot.run_id
		where s.definition_id = definition.id and s.slot = v_slot;
	end if;
end
$fn$;

-- known_zone: the zone, or an error that says what to do.
create or replace function jobrun.known_zone(zone text) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	perform jobrun.check_time_zone(zone);
	return zone;
end
$fn$;

-- due_slots: what a tick at that instant does with the slots of a definition that are not recorded yet. Those in which it was
-- disabled or paused are skipped: from held_from to held_until (null: none). For the others, from first_at (null: there are
-- none), catch_up counts: "once" fires the last one and coalesces those before; "skip" fires the last one unless it is too
-- late; "all" fires each one, at most a hundred. catch_up_grace is how late a slot may be fired. Those from fires_from on are
-- fired (null: none is); missed: the outcome of those before.
create or replace function jobrun.due_slots(definition jobrun.job_definitions, fields jobrun.schedule_fields, at timestamptz,
	out held_from timestamptz, out held_until timestamptz, out first_at timestamptz, out fires_from timestamptz, out missed text)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_zone   constant text := definition.time_zone;
	v_anchor constant timestamptz := definition.anchor_at;
	v_tick   constant interval := interval '1 microsecond';
	v_from   constant timestamptz := at - coalesce(definition.catch_up_grace,
		case when definition.catch_up = 'skip' then interval '5 minutes' end, interval '200 years');
	v_slot   timestamptz;
begin
	-- compute next_slot_at again: it may have been written by hand, or the rules of its zone may have changed
	first_at := jobrun.next_slot(fields, v_zone, definition.next_slot_at - v_tick, v_anchor);
	if first_at is distinct from definition.next_slot_at then
		-- With new zone rules the slot may be earlier now: at most 3 hours, since clocks are never moved further, and neither
		-- before a slot that is recorded nor before the last change of the definition.
		first_at := jobrun.next_slot(fields, v_zone, least(definition.next_slot_at - v_tick, greatest(definition.updated_at,
			definition.next_slot_at - interval '3 hours', (select max(coalesce(s.until, s.slot)) from jobrun.job_slots s
				where s.definition_id = definition.id and s.runner_id is null))), v_anchor);
	end if;
	held_until := case when not definition.enabled then at
		when definition.paused_until is not null then least(definition.paused_until, at) end;
	if first_at <= held_until then
		held_from := first_at;
		first_at  := jobrun.next_slot(fields, v_zone, held_until, v_anchor);
	end if;
	if first_at is null or first_at > at then
		first_at := null;
		return;
	end if;

	v_slot := coalesce(jobrun.last_slot(fields, v_zone, v_anchor, first_at, at), first_at);
	fires_from := case when v_slot >= v_from then v_slot end;
	if definition.catch_up = 'all' and fires_from is not null then
		for nth in 2 .. 100 loop
			v_slot := jobrun.last_slot(fields, v_zone, v_anchor, greatest(first_at, v_from) - v_tick, fires_from - v_tick);
			exit when v_slot is null;
			fires_from := v_slot;
		end loop;
	end if;
	missed := case when definition.catch_up = 'once' and fires_from is not null then 'coalesced' else 'skipped' end;
end
$fn$;

-- fire_definition: fire or record the slots of a locked definition up to `at` that are not recorded yet, as due_slots() says.
create or replace function jobrun.fire_definition(definition jobrun.job_definitions, at timestamptz)
returns table (slot timestamptz, outcome text, reason text, run_id bigint, slots bigint)
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_fields constant jobrun.schedule_fields := jobrun.parse_schedule(definition.schedule);
	v_zone   constant text := jobrun.known_zone(definition.time_zone);
	v_next   constant timestamptz := jobrun.next_slot(v_fields, v_zone, at, definition.anchor_at);
	v_due    record;
	v_fire   timestamptz;
begin
	select d.* into v_due from jobrun.due_slots(definition, v_fields, at) d;
	update jobrun.job_definitions d set next_slot_at = v_next where d.id = definition.id;

	if v_due.held_from is not null then
		slot    := v_due.held_from;
		outcome := 'skipped';
		reason  := jobrun.pause_reason(definition, slot);
		slots   := jobrun.record_slots(definition, v_fields, slot, v_due.held_until, outcome, reason);
		return next;
	end if;
	if v_due.first_at is null then
		return;
	end if;
	v_fire := v_due.fires_from;
	slot   := v_due.first_at;
	slots  := jobrun.record_slots(definition, v_fields, slot, coalesce(v_fire - interval '1 microsecond', at), v_due.missed, 'missed');
	if slots > 0 then
		outcome := v_due.missed;
		reason  := 'missed';
		run_id  := null;
		return next;
	end if;
	while v_fire <= at loop
		slot  := v_fire;
		slots := 1;
		select f.outcome, f.reason, f.run_id into outcome, reason, run_id from jobrun.fire_slot(definition, v_fire) f;
		if outcome is not null then
			return next;
		end if;
		v_fire := jobrun.next_slot(v_fields, v_zone, v_fire, definition.anchor_at);
	end loop;
end
$fn$;

-- fires_now: the first slot of a definition that a tick would fire now; null: there is none, or the server does not know its zone any
-- more. Whether a run of it is in the way, overlapping() says.
create or replace function jobrun.fires_now(definition_id bigint) returns timestamptz
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_def    jobrun.job_definitions;
	v_fields jobrun.schedule_fields;
	v_slot   timestamptz;
begin
	select d.* into v_def from jobrun.job_definitions d where d.id = fires_now.definition_id;
	v_fields := jobrun.parse_schedule(v_def.schedule);
	perform jobrun.known_zone(v_def.time_zone);
	v_slot := (select d.fires_from from jobrun.due_slots(v_def, v_fields, now()) d);
	while exists (select from jobrun.job_slots s where s.definition_id = v_def.id and s.slot = v_slot) loop     -- see fire_slot()
		v_slot := jobrun.next_slot(v_fields, v_def.time_zone, v_slot, v_def.anchor_at);
	end loop;
	return case when v_slot <= now() then v_slot end;
exception when sqlstate 'JR065' then
	return null;
end
$fn$;

-- fire: fire all definitions that have due slots, at most a hundred, and for at most a third of statement_timeout, so
-- that long work is done in several calls. next_slot_at is advanced and the runs are inserted in one transaction. at:
-- not after now(). Any number of callers may run at once: the second one skips locked definitions, or finds
-- next_slot_at advanced already. If something is wrong with a definition, its slots are recorded as skipped ("error:
-- ..."), and other definitions are not affected.
create or replace function jobrun.fire(at timestamptz default now())
returns table (definition text, slot timestamptz, outcome text, reason text, run_id bigint, slots bigint)
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_at     constant timestamptz := least(at, now());
	v_end    constant timestamptz := clock_timestamp() + nullif(current_setting('statement_timeout')::interval, interval '0') / 3;
	v_queued boolean := false;
	v_done   integer := 0;
	v_def    jobrun.job_definitions;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.fire needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	end if;
	for v_def in
		select d.* from jobrun.job_definitions d where d.next_slot_at <= v_at
		order by d.id for no key update skip locked
	loop
		begin
			for definition, slot, outcome, reason, run_id, slots in
				select v_def.name, f.slot, f.outcome, f.reason, f.run_id, f.slots from jobrun.fire_definition(v_def, v_at) f
			loop
				v_queued := v_queued or outcome = 'queued';
				return next;
			end loop;
			v_done := v_done + 1;
		exception
			when serialization_failure or deadlock_detected or lock_not_available then
				null;         -- the next tick
			when others then
				definition := v_def.name;
				slot       := v_def.next_slot_at;
				outcome    := 'error';
				reason     := sqlerrm;
				run_id     := null;
				-- shortages of the server (53: disk, memory; 58: a file) will pass: the slots stay due
				slots      := case when left(sqlstate, 2) in ('53', '58') then 0
					else jobrun.fail_slots(v_def, v_at, left('error: ' || sqlerrm, 1000)) end;
				return next;
		end;
		exit when v_done = 100 or clock_timestamp() > v_end;     -- definitions that stay due do not count
	end loop;
	if v_queued then
		perform jobrun.call_runners('');
	end if;
end
$fn$;

-- fail_slots: record the due slots of a definition whose runs cannot be enqueued. If even its schedule cannot be read
-- any more (the server does not know its zone now), nothing is written and it stays due.
create or replace function jobrun.fail_slots(definition jobrun.job_definitions, at timestamptz, why text) returns bigint
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_fields constant jobrun.schedule_fields := jobrun.parse_schedule(definition.schedule);
begin
	update jobrun.job_definitions d set next_slot_at = jobrun.next_slot(v_fields, definition.time_zone, at, definition.anchor_at)
	where d.id = definition.id;
	return jobrun.record_slots(definition, v_fields, jobrun.next_slot(v_fields, definition.time_zone,
		definition.next_slot_at - interval '1 microsecond', definition.anchor_at), at, 'skipped', why);
exception when others then
	return 0;
end
$fn$;

-- ------------------------------------------------------------------------------------------------------------- by hand

-- is_whole: are the slots of this row of many just those that the present schedule has in that time?
create or replace function jobrun.is_whole(definition jobrun.job_definitions, fields jobrun.schedule_fields, many jobrun.job_slots)
returns boolean
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select (jobrun.next_slot(fields, definition.time_zone, many.slot - interval '1 microsecond', definition.anchor_at),
			jobrun.next_slot(fields, definition.time_zone, many.until - interval '1 microsecond', definition.anchor_at),
			1 + jobrun.count_slots(fields, definition.time_zone, definition.anchor_at, many.slot, many.until))
		is not distinct from (many.slot, many.until, many.slots)
$fn$;

-- may_replay: does replay() accept this slot, whose run, if it has one, is finished? Of a row of many: the first.
create or replace function jobrun.may_replay(definition jobrun.job_definitions, recorded jobrun.job_slots) returns boolean
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when recorded.runner_id is not null or jobrun.lost_zone(definition.time_zone) is not null then false
		when recorded.slots = 1 then true when definition.schedule is null then false
		else jobrun.is_whole(definition, jobrun.parse_schedule(definition.schedule), recorded) end
$fn$;

-- carve_slot: give a slot inside a row of many slots a row of its own. A row from before the schedule, or its zone, changed stays
-- whole, since nobody could count its parts: then the slot gets its row beside it.
create or replace function jobrun.carve_slot(definition jobrun.job_definitions, fields jobrun.schedule_fields, slot timestamptz) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_slot   constant timestamptz := slot;
	v_zone   constant text := definition.time_zone;
	v_anchor constant timestamptz := definition.anchor_at;
	v_tick   constant interval := interval '1 microsecond';
	v_row    jobrun.job_slots;
begin
	select s.* into v_row from jobrun.job_slots s
	where s.definition_id = definition.id and s.slot <= v_slot and s.until >= v_slot and s.slots > 1
	order by s.slot desc limit 1 for no key update;
	if not found or not jobrun.is_whole(definition, fields, v_row) then
		return;
	end if;
	delete from jobrun.job_slots s where s.definition_id = v_row.definition_id and s.slot = v_row.slot;
	perform jobrun.restore_slots(definition, fields, v_row, v_row.slot,
		jobrun.last_slot(fields, v_zone, v_anchor, v_row.slot - v_tick, v_slot - v_tick));
	perform jobrun.restore_slots(definition, fields, v_row, v_slot, v_slot);
	perform jobrun.restore_slots(definition, fields, v_row, jobrun.next_slot(fields, v_zone, v_slot, v_anchor), v_row.until);
end
$fn$;

-- restore_slots: write a part of such a row as one row again. It begins behind slots that have got rows beside the whole.
create or replace function jobrun.restore_slots(
	definition jobrun.job_definitions, fields jobrun.schedule_fields, whole jobrun.job_slots, first timestamptz, until timestamptz)
returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_first timestamptz := first;
	v_n     bigint;
begin
	while exists (select from jobrun.job_slots s where s.definition_id = definition.id and s.slot = v_first) loop
		v_first := jobrun.next_slot(fields, definition.time_zone, v_first, definition.anchor_at);
	end loop;
	if v_first is null or until is null or v_first > until then
		return;
	end if;
	v_n := 1 + jobrun.count_slots(fields, definition.time_zone, definition.anchor_at, v_first, until);
	insert into jobrun.job_slots (definition_id, slot, until, slots, created_at, outcome, reason)
	values (definition.id, v_first, case when v_n > 1 then until end, v_n, whole.created_at, whole.outcome, whole.reason)
	on conflict do nothing;
end
$fn$;

-- replay: create a new run for a slot, with the present values of the definition, unless the slot's run is unfinished.
-- Returns the id of the new run, which replaces the old one in job_slots.
create or replace function jobrun.replay(definition text, slot timestamptz, reason text default null) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_slot   constant timestamptz := slot;
	v_def    jobrun.job_definitions;
	v_fields jobrun.schedule_fields;
	v_is     boolean := false;     -- is it a slot of the present schedule?
	v_old    jobrun.job_slots;
	v_run    jobrun.job_runs;
	v_id     bigint;
begin
	select d.* into v_def from jobrun.job_definitions d where d.name = replay.definition for no key update;
	if not found then
		raise exception 'there is no definition "%"', left(replay.definition, 100) using errcode = 'JR065';
	elsif v_slot is null or v_slot > now() then
		raise exception 'slot "%" has not come yet', coalesce(v_slot::text, '') using errcode = 'JR065';
	elsif v_slot < timestamptz '1800-01-01 00:00Z' then
		raise exception 'definition "%" has no slot at %', v_def.name, v_slot using errcode = 'JR065';
	end if;
	if v_def.schedule is not null then
		v_fields := jobrun.parse_schedule(v_def.schedule);
		v_is     := jobrun.next_slot(v_fields, v_def.time_zone, v_slot - interval '1 microsecond', v_def.anchor_at) = v_slot;
	end if;
	if v_is then
		perform jobrun.carve_slot(v_def, v_fields, v_slot);
	end if;
	select s.* into v_old from jobrun.job_slots s where s.definition_id = v_def.id and s.slot = v_slot for no key update;
	if not v_is and (v_old.slot is null or v_old.slots > 1) then
		raise exception 'definition "%" has no slot at %', v_def.name, jobrun.slot_text(v_slot, v_def.time_zone)
			|| case when v_def.schedule is null then '; it has no schedule' else coalesce('; the one before is ' || jobrun.slot_text(
				jobrun.last_slot(v_fields, v_def.time_zone, v_def.anchor_at, v_slot - interval '366 days', v_slot), v_def.time_zone), '') end
			using errcode = 'JR065';
	elsif v_old.slots > 1 then
		raise exception 'slot % of definition "%" is on record with the % after it as one line, from before the schedule changed: enqueue a run '
			'for no slot (jobrun enqueue --definition %)', jobrun.slot_text(v_slot, v_def.time_zone), v_def.name, v_old.slots - 1, v_def.name
			using errcode = 'JR065';
	elsif v_old.runner_id is not null then
		raise exception 'at % a start of `jobrun exec %` was left out, which is no slot: start the command again on its host', v_slot, v_def.name
			using errcode = 'JR065';
	elsif v_old.slot is null and v_slot >= v_def.next_slot_at then
		raise exception 'slot % of definition "%" is due: the next tick fires it, or records why not (jobrun --once -v)', v_slot, v_def.name using errcode = 'JR065';
	elsif exists (select from jobrun.job_runs r where r.id = v_old.run_id and r.finished_at is null) then
		raise exception 'run % of this slot is not finished', v_old.run_id using errcode = 'JR065';
	end if;
	v_run := jobrun.new_run_of(v_def, null, null, null, null, null, null);
	v_run.slot := v_slot;
	v_id := (jobrun.insert_run(v_run, 'keep')).id;
	insert into jobrun.job_slots as s (definition_id, slot, outcome, reason, run_id)
	values (v_def.id, v_slot, 'queued', 'replayed', v_id)
	on conflict (definition_id, slot) do update set outcome = 'queued', reason = 'replayed', run_id = v_id;
	perform jobrun.audit('replay', 'definition ' || v_def.name, to_jsonb(v_old) - '{definition_id,created_at,runner_id}'::text[],
		jsonb_build_object('slot', v_slot, 'run_id', v_id), replay.reason);
	perform jobrun.call_runners('');
	return v_id;
end
$fn$;

-- enqueue_definition: a run now, or then, with all that the definition says; it belongs to no slot.
create or replace function jobrun.enqueue_definition(
	definition      text,
	payload         jsonb       default null,
	run_in          interval    default null,
	run_at          timestamptz default null,
	idempotency_key text        default null,
	parent_id       bigint      default null,
	trace_context   text        default null)
returns jobrun.enqueued
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_def  jobrun.job_definitions;
	v_new  jobrun.job_runs;
	v_done jobrun.enqueued;
begin
	select d.* into v_def from jobrun.job_definitions d where d.name = definition;
	if not found then
		raise exception 'there is no definition "%"', left(definition, 100) using errcode = 'JR065';
	elsif starts_with(idempotency_key, 'on_dead:') then
		raise exception 'idempotency_key "%": those that begin with "on_dead:" are reserved', left(idempotency_key, 100)
			using errcode = 'JR065';
	end if;
	perform jobrun.check_type(v_def.job_type);
	v_new := jobrun.new_run_of(v_def, payload, run_in, run_at, idempotency_key, parent_id, trace_context);
	v_new.is_counted := jobrun.check_grant(v_new) is not null;
	v_done := jobrun.insert_run(v_new, 'keep');
	if v_done.created and v_done.run_at <= now() then
		perform jobrun.call_runners(v_done.job_type || ' ' || v_done.priority || ' ' || v_done.queue);
	end if;
	return v_done;
end
$fn$;

-- fire_due: ms until the next slot of any schedule, at most an hour; 0: a slot is due. It must not fail, whatever value
-- next_slot_at has, since every look for work asks it. A function for the sake of its plan, which a connection keeps.
create or replace function jobrun.fire_due() returns bigint
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	return ceil(extract(epoch from greatest(least((select d.next_slot_at from jobrun.job_definitions d where d.next_slot_at is not null
		order by d.next_slot_at limit 1), now() + interval '1 hour'), now()) - now()) * 1000);
end
$fn$;
