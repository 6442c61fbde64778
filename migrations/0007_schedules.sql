-- 0007: schedules: definitions that are checked whoever writes them, slots that fire once, and what people do with both.

-- Until now nobody asked when the next slot is: whatever stands there was never fired.
update jobrun.job_definitions set next_slot_at = null where next_slot_at is not null;

-- Also those that are disabled: their slots are recorded as skipped.
drop index jobrun.job_definitions_next;
create index job_definitions_next on jobrun.job_definitions (next_slot_at) where next_slot_at is not null;
alter table jobrun.job_definitions add constraint job_definitions_next_slot check (isfinite(next_slot_at));

-- --------------------------------------------------------------------------------------------------- accounts of slots

-- record_slots: what became of the slots of a definition from this time until then, both included: a row for each, or one
-- with their number and the last when they are more than a hundred. Returns how many.
create function jobrun.record_slots(
	definition jobrun.job_definitions, fields jobrun.schedule_fields, first timestamptz, until timestamptz, outcome text,
	reason text)
returns bigint
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_zone   constant text := definition.time_zone;
	v_anchor constant timestamptz := definition.anchor_at;
	v_slot   timestamptz := jobrun.next_slot(fields, v_zone, first - interval '1 microsecond', v_anchor);
	v_n      bigint;
begin
	if until is null or v_slot is null or v_slot > until then
		return 0;
	end if;
	v_n := 1 + jobrun.count_slots(fields, v_zone, v_anchor, v_slot, until);
	if v_n > 100 then
		insert into jobrun.job_slots (definition_id, slot, until, slots, outcome, reason)
		values (definition.id, v_slot, jobrun.last_slot(fields, v_zone, v_anchor, v_slot, until), v_n, record_slots.outcome,
			record_slots.reason)
		on conflict do nothing;
		return v_n;
	end if;
	while v_slot <= until loop
		insert into jobrun.job_slots (definition_id, slot, outcome, reason)
		values (definition.id, v_slot, record_slots.outcome, record_slots.reason)
		on conflict do nothing;
		v_slot := jobrun.next_slot(fields, v_zone, v_slot, v_anchor);
	end loop;
	return v_n;
end
$fn$;

-- forget_ahead: what is yet to come cannot have been fired, so the clock was ahead: its accounts go.
create function jobrun.forget_ahead(definition jobrun.job_definitions) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_now  constant timestamptz := clock_timestamp();     -- not now(): a tick that began later has fired since
	v_slot jobrun.job_slots;
begin
	for v_slot in
		delete from jobrun.job_slots s where s.definition_id = definition.id and coalesce(s.until, s.slot) > v_now returning s.*
	loop
		perform jobrun.record_slots(definition, jobrun.parse_schedule(definition.schedule), v_slot.slot, v_now, v_slot.outcome,
			v_slot.reason);
	end loop;
end
$fn$;

-- pause_reason: why a definition that is disabled, or paused at this time, does not fire; null: it fires.
create function jobrun.pause_reason(definition jobrun.job_definitions, at timestamptz) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when not definition.enabled then 'disabled'
		when definition.paused_until >= at then 'paused' || coalesce(': ' || definition.paused_reason, '') end
$fn$;

-- ---------------------------------------------------------------------------------------------------------- definitions

-- check_definition: a row of job_definitions obeys its rules whoever writes it, and next_slot_at fits its schedule. What was
-- due when it changes, and is not fired yet, is recorded: nothing of the old schedule fires under the new one. The constraints
-- of the table say the same as many of these rules, but not in words.
create function jobrun.check_definition() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_fields jobrun.schedule_fields;
	v_reason text;
	v_after  timestamptz := case tg_op when 'INSERT' then now() end;     -- next_slot_at is the first slot after it; null: stays
begin
	if tg_op = 'DELETE' then     -- of one of jobrun's own: see the trigger
		raise exception 'definition "%" is jobrun''s own and cannot be removed, only disabled', old.name using errcode = 'JR065';
	end if;
	new.job_type := coalesce(new.job_type, new.name);
	perform jobrun.check_name('name', new.name), jobrun.check_name('job_type', new.job_type);
	if tg_op = 'UPDATE' and old.name like 'jobrun.%' and new.name <> old.name then
		raise exception 'definition "%" is jobrun''s own and cannot be renamed, only disabled', old.name using errcode = 'JR065';
	elsif (new.name like 'jobrun.%' or new.job_type like 'jobrun.%') and (new.name, new.job_type) <> ('jobrun.prune', 'jobrun.prune') then
		raise exception 'definition "%": names and job types that begin with "jobrun." are reserved', new.name using errcode = 'JR065';
	elsif (coalesce(new.queue, '') = 'jobrun') <> (new.name = 'jobrun.prune') then
		raise exception 'queue "jobrun" is for jobrun.prune, and for nothing else' using errcode = 'JR065';
	elsif new.catch_up = 'all' and new.overlap = 'skip' then
		raise exception 'catch_up "all" needs overlap "allow": else all missed slots but the first would be skipped as overlap'
			using errcode = 'JR065';
	elsif new.anchor_at not between timestamptz '1800-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z' then
		raise exception 'anchor_at "%" is out of range; from the year 1800 to 2199', new.anchor_at using errcode = 'JR065';
	end if;
	perform jobrun.check_name(n.name, n.value) from (values ('queue', new.queue), ('on_dead', new.on_dead)) n(name, value)
	where n.value is not null;
	perform jobrun.check_key('concurrency_key', new.concurrency_key);
	perform jobrun.check_duration(d.name, d.value) from (values ('timeout', new.timeout), ('backoff_base', new.backoff_base),
		('backoff_cap', new.backoff_cap), ('catch_up_grace', new.catch_up_grace)) d(name, value);
	if new.priority not between -1000 and 1000 then
		raise exception 'priority % is out of range; from -1000 to 1000, smaller first', new.priority using errcode = 'JR065';
	elsif new.max_attempts not between 1 and 2147483647 then
		raise exception 'max_attempts % is out of range; at least 1', new.max_attempts using errcode = 'JR065';
	elsif new.catch_up not in ('once', 'skip', 'all') then
		raise exception 'catch_up "%" is not one of once, skip, all', left(new.catch_up, 100) using errcode = 'JR065';
	elsif new.overlap not in ('skip', 'allow') then
		raise exception 'overlap "%" is not one of skip, allow', left(new.overlap, 100) using errcode = 'JR065';
	elsif (tg_op = 'INSERT' or new.payload is distinct from old.payload)
		and (octet_length(new.payload::text) > 1048576 or pg_column_size(new.payload) > 1049600)
	then
		raise exception 'the payload has % bytes; the limit is 1048576', octet_length(new.payload::text) using errcode = 'JR065';
	elsif (tg_op = 'INSERT' or new.description is distinct from old.description) and octet_length(new.description) > 1000 then
		raise exception 'the description has % bytes; at most 1000', octet_length(new.description) using errcode = 'JR065';
	end if;
	if tg_op = 'INSERT' or new.time_zone is distinct from old.time_zone then
		perform jobrun.check_time_zone(new.time_zone);
	end if;
	if new.schedule is not null then
		v_fields := jobrun.parse_schedule(new.schedule);
	end if;

	if tg_op = 'UPDATE' then
		new.updated_at   := now();
		new.next_slot_at := old.next_slot_at;     -- a client that writes back the whole row that it read has an old one
		if (new.schedule, new.time_zone, new.anchor_at) is distinct from (old.schedule, old.time_zone, old.anchor_at) then
			v_reason := coalesce(jobrun.pause_reason(old, now()), 'schedule changed');
			v_after  := now();
		elsif (new.enabled, new.paused_until) is distinct from (old.enabled, old.paused_until) and old.next_slot_at <= now() then
			-- of a pause that has run out by itself, what fell into it
			v_reason := jobrun.pause_reason(old, old.next_slot_at);
			v_after  := case when not old.enabled then now() when v_reason is not null then least(old.paused_until, now()) end;
		end if;
		if v_after is not null and old.schedule is not null then
			begin
				perform jobrun.forget_ahead(old);
				if old.next_slot_at <= now() then
					perform jobrun.record_slots(old, jobrun.parse_schedule(old.schedule), old.next_slot_at, v_after, 'skipped', v_reason);
				end if;
			exception when invalid_parameter_value or sqlstate 'JR065' then
				null;     -- a zone that the server does not know any more: it must be possible to write another
			end;
		end if;
	end if;
	if v_after is not null and new.schedule is null then
		new.next_slot_at := null;
	elsif v_after is not null then
		perform jobrun.check_time_zone(new.time_zone);
		new.next_slot_at := jobrun.next_slot(v_fields, new.time_zone, v_after, new.anchor_at);
	end if;
	return new;
end
$fn$;

-- Not next_slot_at: it moves at every firing. Who sets it by hand sets nothing else.
create trigger job_definitions_checked
	before insert or update of name, job_type, payload, description, schedule, time_zone, anchor_at, queue, priority, max_attempts,
		timeout, backoff_base, backoff_cap, concurrency_key, on_dead, catch_up, catch_up_grace, overlap, enabled, paused_until,
		paused_reason
	on jobrun.job_definitions for each row execute function jobrun.check_definition();

-- Who had this name before cannot have meant this.
delete from jobrun.job_definitions d where d.name = 'jobrun.prune';

-- Definitions of earlier versions were not checked. One that is wrong must not keep the schema from being migrated: it loses
-- its schedule, which never fired until now, and keeps the rest.
do $do$
declare
	v_name  text;
	v_wrong text[] := '{}';
begin
	for v_name in select d.name from jobrun.job_definitions d where d.catch_up = 'all' and d.overlap = 'skip' order by d.name loop
		raise warning 'definition "%": catch_up is "once" now: "all" needs overlap "allow"', v_name;
	end loop;
	foreach v_name in array array(select d.name from jobrun.job_definitions d where d.schedule is not null order by d.name) loop
		begin
			update jobrun.job_definitions d set catch_up = case when d.overlap = 'skip' and d.catch_up = 'all' then 'once' else d.catch_up end
			where d.name = v_name;
			update jobrun.job_definitions d
			set next_slot_at = (select s from jobrun.next_slots(d.schedule, d.time_zone, now(), 1, d.anchor_at) s)
			where d.name = v_name;
		exception when others then
			raise warning 'definition "%" loses its schedule and is disabled: %', v_name, sqlerrm;
			v_wrong := v_wrong || v_name;
		end;
	end loop;
	alter table jobrun.job_definitions disable trigger job_definitions_checked;
	update jobrun.job_definitions d set catch_up = 'once' where d.catch_up = 'all' and d.overlap = 'skip';
	update jobrun.job_definitions d set schedule = null, enabled = false where d.name = any (v_wrong);
	alter table jobrun.job_definitions enable trigger job_definitions_checked;
end
$do$;

create type jobrun.defined as (
	name   text,
	action text,      -- created, changed, unchanged, removed
	old    jsonb,     -- as define takes it, what has no value left out; null: there was none
	new    jsonb
);

-- definition_doc: a definition as define takes it.
create function jobrun.definition_doc(definition jobrun.job_definitions) returns jsonb
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select jsonb_strip_nulls(to_jsonb(definition) - 'payload'
			- '{id,name,next_slot_at,paused_until,paused_reason,created_at,updated_at}'::text[])
		|| case when definition.payload is null then '{}' else jsonb_build_object('payload', definition.payload) end
$fn$;

-- read_definition: base with the members of changes, each named like its column; null: the default of a new definition.
create function jobrun.read_definition(base jobrun.job_definitions, changes jsonb) returns jobrun.job_definitions
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_row    jobrun.job_definitions := base;
	v_known  constant text[] := array['job_type', 'payload', 'description', 'schedule', 'time_zone', 'anchor_at', 'queue', 'priority',
		'max_attempts', 'timeout', 'backoff_base', 'backoff_cap', 'concurrency_key', 'on_dead', 'catch_up', 'catch_up_grace', 'overlap',
		'enabled'];
	v_member text;
	v_value  jsonb;
	v_kind   text;
begin
	if jsonb_typeof(changes) is distinct from 'object' then
		raise exception 'definition "%" is not an object like {"schedule": "30 2 * * *"}', base.name using errcode = 'JR065';
	end if;
	for v_member, v_value in select c.key, c.value from jsonb_each(changes) c order by array_position(v_known, c.key) loop
		if v_member <> all (v_known) then
			raise exception 'definition "%": there is no member "%"; there are %', base.name, left(v_member, 100),
				array_to_string(v_known, ', ') using errcode = 'JR065';
		elsif v_member = 'payload' then
			v_row.payload := nullif(v_value, 'null');
			continue;
		end if;
		v_kind := case when v_member = 'enabled' then 'boolean' when v_member in ('priority', 'max_attempts') then 'number'
			else 'string' end;
		if v_value = 'null' then
			v_value := case v_member when 'job_type' then to_jsonb(base.name) when 'time_zone' then '"UTC"'
				when 'catch_up' then '"once"' when 'overlap' then '"skip"' when 'enabled' then 'true'
				when 'anchor_at' then to_jsonb(base.anchor_at) else 'null' end;
		elsif jsonb_typeof(v_value) <> v_kind then
			raise exception 'definition "%": % must be a %, not %', base.name, v_member, v_kind, left(v_value::text, 100)
				|| case when v_member in ('timeout', 'backoff_base', 'backoff_cap', 'catch_up_grace')
					then '; durations are texts: "90s", "15m"' else '' end
				using errcode = 'JR065';
		elsif v_value = '"now"' and v_member = 'anchor_at' then
			v_value := to_jsonb(now());
		end if;
		begin
			v_row := jsonb_populate_record(v_row, jsonb_build_object(v_member, v_value));
		exception when data_exception then
			raise exception 'definition "%": % "%" is not a %', base.name, v_member, left(v_value #>> '{}', 100),
				case when v_kind = 'number' then 'whole number in its range' when v_member = 'anchor_at' then 'time'
					else 'duration like 90s, 15m or 2h' end
				using errcode = 'JR065';
		end;
	end loop;
	return v_row;
end
$fn$;

-- changed_lines: for people, a line for each member that has another value now (timeout: null -> "00:15:00"); of a new
-- definition each that is not the default, without the arrow; null: there is none, or it was removed.
create function jobrun.changed_lines(done jobrun.defined) returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select string_agg(k.key || ': ' || case when done.action = 'changed' then v.old || ' -> ' else '' end || v.new, e'\n' order by k.key)
	from jsonb_object_keys(coalesce(done.old, '{}') || done.new) k(key)
	cross join lateral (select case when length(m.old) > 300 then left(m.old, 300) || '...' else m.old end as old,
			case when length(m.new) > 300 then left(m.new, 300) || '...' else m.new end as new
		from (values (coalesce(done.old -> k.key, 'null')::text, coalesce(done.new -> k.key, 'null')::text)) m(old, new)) v
	where done.new -> k.key is distinct from case when done.action = 'changed' then done.old -> k.key
		else jsonb_build_object('job_type', done.name, 'time_zone', 'UTC', 'anchor_at', done.new -> 'anchor_at', 'catch_up', 'once',
			'overlap', 'skip', 'enabled', true) -> k.key end
$fn$;

-- define: the definition of this name is made, or changed: the members of changes and nothing else. See read_definition.
create function jobrun.define(name text, changes jsonb, reason text default null) returns jobrun.defined
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_name constant text := define.name;
	v_old  jobrun.job_definitions;
	v_new  jobrun.job_definitions;
	v_done jobrun.defined;
begin
	perform jobrun.check_name('name', v_name);
	if v_name like 'jobrun.%' and changes ?| '{job_type,payload,queue}' then
		raise exception 'definition "%" is jobrun''s own: its job type, payload and queue stay as they are', v_name
			using errcode = 'JR065';
	end if;
	select d.* into v_old from jobrun.job_definitions d where d.name = v_name for no key update;
	if found then
		v_new := jobrun.read_definition(v_old, changes);
	else
		select v_name, v_name, now(), true, 'UTC', 'once', 'skip'
		into v_new.name, v_new.job_type, v_new.anchor_at, v_new.enabled, v_new.time_zone, v_new.catch_up, v_new.overlap;
		v_new := jobrun.read_definition(v_new, changes);
	end if;
	v_done := (v_name, 'unchanged', case when v_old.id is not null then jobrun.definition_doc(v_old) end,
		jobrun.definition_doc(v_new));
	if v_old.id is not null and v_old is not distinct from v_new then
		return v_done;
	elsif v_old.id is not null then
		update jobrun.job_definitions d
		set job_type = v_new.job_type, payload = v_new.payload, description = v_new.description, schedule = v_new.schedule,
			time_zone = v_new.time_zone, anchor_at = v_new.anchor_at, queue = v_new.queue, priority = v_new.priority,
			max_attempts = v_new.max_attempts, timeout = v_new.timeout, backoff_base = v_new.backoff_base,
			backoff_cap = v_new.backoff_cap, concurrency_key = v_new.concurrency_key, on_dead = v_new.on_dead, catch_up = v_new.catch_up,
			catch_up_grace = v_new.catch_up_grace, overlap = v_new.overlap, enabled = v_new.enabled
		where d.id = v_old.id;
		v_done.action := 'changed';
	else
		insert into jobrun.job_definitions (name, job_type, payload, description, schedule, time_zone, anchor_at, queue, priority,
			max_attempts, timeout, backoff_base, backoff_cap, concurrency_key, on_dead, catch_up, catch_up_grace, overlap, enabled)
		values (v_new.name, v_new.job_type, v_new.payload, v_new.description, v_new.schedule, v_new.time_zone, v_new.anchor_at,
			v_new.queue, v_new.priority, v_new.max_attempts, v_new.timeout, v_new.backoff_base, v_new.backoff_cap,
			v_new.concurrency_key, v_new.on_dead, v_new.catch_up, v_new.catch_up_grace, v_new.overlap, v_new.enabled)
		on conflict on constraint job_definitions_name do nothing;
		if not found then
			raise exception 'definition "%" was made by somebody else just now; try again', v_name
				using errcode = 'serialization_failure';
		end if;
		v_done.action := 'created';
	end if;
	-- Whoever may read the audit may not read payloads.
	perform jobrun.audit('define', 'definition ' || v_name, v_done.old - 'payload', v_done.new - 'payload', reason);
	return v_done;
end
$fn$;

-- undefine: the definition is gone, its slots and runs stay. Returns whether there was one.
create function jobrun.undefine(name text, reason text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_old jobrun.job_definitions;
begin
	if undefine.name like 'jobrun.%' then
		raise exception 'definition "%" is jobrun''s own and cannot be removed, only disabled', left(undefine.name, 100)
			using errcode = 'JR065';
	end if;
	delete from jobrun.job_definitions d where d.name = undefine.name returning d.* into v_old;
	if v_old.id is null then
		return false;
	end if;
	perform jobrun.audit('undefine', 'definition ' || v_old.name, jobrun.definition_doc(v_old) - 'payload', null, reason);
	return true;
end
$fn$;

-- define_all: the definitions are as these objects say, each with its "name"; what one does not say has its default. exact:
-- there are no others, but jobrun's own.
create function jobrun.define_all(definitions jsonb, exact boolean default false, reason text default null)
returns setof jobrun.defined
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_unsaid constant jsonb := '{"job_type": null, "payload": null, "description": null, "schedule": null, "time_zone": null,
		"queue": null, "priority": null, "max_attempts": null, "timeout": null, "backoff_base": null, "backoff_cap": null,
		"concurrency_key": null, "on_dead": null, "catch_up": null, "catch_up_grace": null, "overlap": null, "enabled": null}';
	v_names  text[] := '{}';
	v_one    jsonb;
	v_name   text;
	v_nr     bigint;
	v_old    jobrun.job_definitions;
begin
	if jsonb_typeof(definitions) is distinct from 'array' then
		raise exception 'definitions must be an array of objects' using errcode = 'JR065';
	end if;
	for v_one, v_nr in
		select a.value, a.nr from jsonb_array_elements(definitions) with ordinality a(value, nr) order by a.nr
	loop
		v_name := v_one ->> 'name';
		if jsonb_typeof(v_one) <> 'object' or jsonb_typeof(v_one -> 'name') is distinct from 'string' then
			raise exception 'definition % is not an object with a "name"', v_nr using errcode = 'JR065';
		elsif v_name = any (v_names) then
			raise exception 'definition % is a second "%"', v_nr, left(v_name, 100) using errcode = 'JR065';
		elsif v_name like 'jobrun.%' then
			raise exception 'definition "%" is jobrun''s own: leave it out here', left(v_name, 100) using errcode = 'JR065';
		end if;
		v_names := v_names || v_name;
	end loop;
	-- in order of id, as everybody locks them
	perform from jobrun.job_definitions d where d.name = any (v_names) or exact order by d.id for no key update;
	for v_one in select a.value from jsonb_array_elements(definitions) with ordinality a(value, nr) order by a.nr loop
		begin
			return next jobrun.define(v_one ->> 'name', v_unsaid || (v_one - 'name'), reason);
		exception when sqlstate 'JR065' then     -- which one?
			raise exception '%', case when sqlerrm like 'definition "%' then '' else format('definition "%s": ', left(v_one ->> 'name', 100))
				end || sqlerrm using errcode = 'JR065';
		end;
	end loop;
	if exact then
		for v_old in
			select d.* from jobrun.job_definitions d where d.name <> all (v_names) and d.name not like 'jobrun.%' order by d.name
		loop
			perform jobrun.undefine(v_old.name, reason);
			return next (v_old.name, 'removed', jobrun.definition_doc(v_old), null)::jobrun.defined;
		end loop;
	end if;
end
$fn$;

-- -------------------------------------------------------------------------------------------------------------- firing

-- is_retried_command: a run of exec_claim that people have retried: it waits for the next command of its name. Not one that
-- somebody enqueued: the command line gives each a key.
create function jobrun.is_retried_command(run jobrun.job_runs) returns boolean
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select run.status = 'queued' and run.claim_seq > 0 and num_nonnulls(run.slot, run.idempotency_key, run.unique_key) = 0
		and run.max_attempts = 1
		and jsonb_typeof(run.payload -> 'command') is not distinct from 'string' and run.payload - 'command' = '{}'
$fn$;

-- overlapping: what a run of the definition that is not final is doing, the oldest one; null: there is none. command: for one
-- of exec_claim, which those that wait for it do not keep from starting.
create function jobrun.overlapping(definition_id bigint, command boolean default false) returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select format('run %s %s', r.id,
		case r.status when 'running' then 'is running' when 'failed' then 'waits to be retried' else 'waits' end)
	from jobrun.job_runs r where r.definition_id = overlapping.definition_id and r.finished_at is null
		and not (overlapping.command and jobrun.is_retried_command(r)) order by r.id limit 1
$fn$;

-- new_run_of: a run with all that the definition says, not inserted; what it does not say comes from the one named like its type.
create function jobrun.new_run_of(
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

-- fire_slot: the run of one slot, which is new; or, by the overlap rule, the reason why there is none. The definition is locked.
create function jobrun.fire_slot(
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
		outcome := null;       -- somebody has turned next_slot_at back
	elsif outcome = 'queued' then
		v_run := jobrun.new_run_of(definition, null, null, null, null, null, null);
		v_run.slot := v_slot;
		run_id := (jobrun.insert_run(v_run, 'keep')).id;
		update jobrun.job_slots s set outcome = 'queued', run_id = fire_slot.run_id
		where s.definition_id = definition.id and s.slot = v_slot;
	end if;
end
$fn$;

-- known_zone: the zone, or an error that says what to do about it.
create function jobrun.known_zone(zone text) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	perform jobrun.check_time_zone(zone);
	return zone;
end
$fn$;

-- fire_definition: the slots of a locked definition up to at that have not been accounted for. Those while it was disabled or
-- paused are skipped. Of the others once fires the last one and coalesces those before; skip fires the last one unless it is
-- too late for it; all fires each one, a hundred at most. catch_up_grace is how late a slot may be fired.
create function jobrun.fire_definition(definition jobrun.job_definitions, at timestamptz)
returns table (slot timestamptz, outcome text, reason text, run_id bigint, slots bigint)
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_fields constant jobrun.schedule_fields := jobrun.parse_schedule(definition.schedule);
	v_zone   constant text := jobrun.known_zone(definition.time_zone);
	v_anchor constant timestamptz := definition.anchor_at;
	v_tick   constant interval := interval '1 microsecond';
	v_from   constant timestamptz := at - coalesce(definition.catch_up_grace,
		case when definition.catch_up = 'skip' then interval '5 minutes' end, interval '200 years');
	v_next   constant timestamptz := jobrun.next_slot(v_fields, v_zone, at, v_anchor);
	-- not as it stands: it may have been written by hand, or the rules of its zone are others now
	v_first  timestamptz := jobrun.next_slot(v_fields, v_zone, definition.next_slot_at - v_tick, v_anchor);
	v_last   timestamptz;
	v_fire   timestamptz;
begin
	if v_first is distinct from definition.next_slot_at then
		-- The slot that was meant may be an earlier one now. Not one that was accounted for, or of another schedule; clocks are
		-- not moved further.
		v_first := jobrun.next_slot(v_fields, v_zone, least(definition.next_slot_at - v_tick, greatest(definition.updated_at,
			definition.next_slot_at - interval '3 hours', (select coalesce(s.until, s.slot) from jobrun.job_slots s
				where s.definition_id = definition.id order by s.slot desc limit 1))), v_anchor);
	end if;
	update jobrun.job_definitions d set next_slot_at = v_next where d.id = definition.id;

	v_last := case when not definition.enabled then at
		when definition.paused_until is not null then least(definition.paused_until, at) end;
	if v_first <= v_last then
		slot    := v_first;
		outcome := 'skipped';
		reason  := jobrun.pause_reason(definition, v_first);
		slots   := jobrun.record_slots(definition, v_fields, v_first, v_last, outcome, reason);
		return next;
		v_first := jobrun.next_slot(v_fields, v_zone, v_last, v_anchor);
	end if;
	if v_first is null or v_first > at then
		return;
	end if;

	v_last := coalesce(jobrun.last_slot(v_fields, v_zone, v_anchor, v_first, at), v_first);
	v_fire := case when v_last >= v_from then v_last end;
	if definition.catch_up = 'all' and v_fire is not null then
		for nth in 2 .. 100 loop
			slot := jobrun.last_slot(v_fields, v_zone, v_anchor, greatest(v_first, v_from) - v_tick, v_fire - v_tick);
			exit when slot is null;
			v_fire := slot;
		end loop;
	end if;
	slot   := v_first;
	slots  := jobrun.record_slots(definition, v_fields, v_first, coalesce(v_fire - v_tick, at),
		case when definition.catch_up = 'once' and v_fire is not null then 'coalesced' else 'skipped' end, 'missed');
	if slots > 0 then
		outcome := case when definition.catch_up = 'once' and v_fire is not null then 'coalesced' else 'skipped' end;
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
		v_fire := jobrun.next_slot(v_fields, v_zone, v_fire, v_anchor);
	end loop;
end
$fn$;

-- fire: all definitions that have slots to account for, a hundred at most, and for a third of statement_timeout at most, so that
-- what takes long is done in several calls; their slots are advanced and their runs inserted
-- in one go. at: not behind now(). Any number of callers: who comes second passes a locked definition over, and one that waited
-- nowhere finds next_slot_at moved on. What is wrong with one definition costs its slots ("error: ...") and no other definition.
create function jobrun.fire(at timestamptz default now())
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
		raise exception 'jobrun.fire needs READ COMMITTED' using errcode = 'feature_not_supported';
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
				-- what the server lacks (53: disk, memory; 58: a file) it will have again: the slots stay due
				slots      := case when left(sqlstate, 2) in ('53', '58') then 0
					else jobrun.fail_slots(v_def, v_at, left('error: ' || sqlerrm, 1000)) end;
				return next;
		end;
		exit when v_done = 100 or clock_timestamp() > v_end;     -- what stays due is not counted: it would stand before the others
	end loop;
	if v_queued then
		perform jobrun.call_runners('');
	end if;
end
$fn$;

-- fail_slots: those of a definition whose runs cannot be enqueued; if even its schedule cannot be read any more (a zone that the
-- server does not know now), nothing is written and it stays due.
create function jobrun.fail_slots(definition jobrun.job_definitions, at timestamptz, why text) returns bigint
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

-- slot_text: a slot as people read and type it: local time of the zone with its offset, "2026-03-29 03:00+02:00"; seconds only
-- where there are any. A zone that this server does not know (any more) is UTC here, so that what looks goes on.
create function jobrun.slot_text(slot timestamptz, time_zone text) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_local timestamp := slot at time zone 'UTC';
	v_ahead interval := '0';
begin
	if not isfinite(slot) then
		return slot::text;
	elsif time_zone <> 'UTC' then
		begin
			v_ahead := (slot at time zone (':' || time_zone)) - v_local;     -- ':': "CET" is not an abbreviation, as in the engine
		exception when invalid_parameter_value then
			null;
		end;
	end if;
	v_local := v_local + v_ahead;
	return to_char(v_local, case when date_trunc('minute', v_local) = v_local then 'YYYY-MM-DD HH24:MI'
			when date_trunc('second', v_local) = v_local then 'YYYY-MM-DD HH24:MI:SS' else 'YYYY-MM-DD HH24:MI:SS.US' end)
		|| case when v_ahead < '0' then '-' else '+' end || to_char(greatest(v_ahead, -v_ahead), 'HH24:MI');
end
$fn$;

-- carve_slot: a slot in the middle of a row of many gets a row of its own.
create function jobrun.carve_slot(definition jobrun.job_definitions, fields jobrun.schedule_fields, slot timestamptz) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_slot constant timestamptz := slot;
	v_row  jobrun.job_slots;
begin
	select s.* into v_row from jobrun.job_slots s
	where s.definition_id = definition.id and s.slot <= v_slot and s.until >= v_slot and s.slots > 1
	order by s.slot desc limit 1 for no key update;
	if not found then
		return;
	end if;
	delete from jobrun.job_slots s where s.definition_id = v_row.definition_id and s.slot = v_row.slot;
	perform jobrun.restore_slots(definition, fields, v_row, v_row.slot,
		jobrun.last_slot(fields, definition.time_zone, definition.anchor_at, v_row.slot - interval '1 microsecond',
			v_slot - interval '1 microsecond'));
	perform jobrun.restore_slots(definition, fields, v_row, v_slot, v_slot);
	perform jobrun.restore_slots(definition, fields, v_row,
		jobrun.next_slot(fields, definition.time_zone, v_slot, definition.anchor_at), v_row.until);
end
$fn$;

-- restore_slots: a part of such a row, as one row again.
create function jobrun.restore_slots(
	definition jobrun.job_definitions, fields jobrun.schedule_fields, whole jobrun.job_slots, first timestamptz, until timestamptz)
returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_n bigint;
begin
	if first is null or until is null or first > until then
		return;
	end if;
	v_n := 1 + jobrun.count_slots(fields, definition.time_zone, definition.anchor_at, first, until);
	insert into jobrun.job_slots (definition_id, slot, until, slots, created_at, outcome, reason)
	values (definition.id, first, case when v_n > 1 then until end, v_n, whole.created_at, whole.outcome, whole.reason)
	on conflict do nothing;
end
$fn$;

-- replay: the run of a slot once more, with what the definition says now. Not while the run that the slot has is on its way.
-- Returns the id of the new one, which takes its place in job_slots.
create function jobrun.replay(definition text, slot timestamptz, reason text default null) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_slot   constant timestamptz := slot;
	v_def    jobrun.job_definitions;
	v_fields jobrun.schedule_fields;
	v_is     boolean := false;     -- one of the slots of its schedule, as that is now
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
	elsif v_old.slot is null and v_slot >= v_def.next_slot_at then
		raise exception 'slot % of definition "%" is due and will be fired by the next tick', v_slot, v_def.name using errcode = 'JR065';
	elsif exists (select from jobrun.job_runs r where r.id = v_old.run_id and r.finished_at is null) then
		raise exception 'run % of this slot is not finished', v_old.run_id using errcode = 'JR065';
	end if;
	v_run := jobrun.new_run_of(v_def, null, null, null, null, null, null);
	v_run.slot := v_slot;
	v_id := (jobrun.insert_run(v_run, 'keep')).id;
	insert into jobrun.job_slots as s (definition_id, slot, outcome, reason, run_id)
	values (v_def.id, v_slot, 'queued', 'replayed', v_id)
	on conflict (definition_id, slot) do update set outcome = 'queued', reason = 'replayed', run_id = v_id;
	perform jobrun.audit('replay', 'definition ' || v_def.name, to_jsonb(v_old) - '{definition_id,created_at}'::text[],
		jsonb_build_object('slot', v_slot, 'run_id', v_id), replay.reason);
	perform jobrun.call_runners('');
	return v_id;
end
$fn$;

-- enqueue_definition: a run now, or then, with all that the definition says; it belongs to no slot.
create function jobrun.enqueue_definition(
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
	v_done jobrun.enqueued;
begin
	select d.* into v_def from jobrun.job_definitions d where d.name = definition;
	if not found then
		raise exception 'there is no definition "%"', left(definition, 100) using errcode = 'JR065';
	elsif idempotency_key like 'on\_dead:%' then
		raise exception 'idempotency_key "%": those that begin with "on_dead:" are reserved', left(idempotency_key, 100)
			using errcode = 'JR065';
	end if;
	perform jobrun.check_type(v_def.job_type);
	v_done := jobrun.insert_run(
		jobrun.new_run_of(v_def, payload, run_in, run_at, idempotency_key, parent_id, trace_context), 'keep');
	if v_done.created and v_done.run_at <= now() then
		perform jobrun.call_runners('');
	end if;
	return v_done;
end
$fn$;

-- exec_skipped: why a command under this name would not be started now; null: it would.
create function jobrun.exec_skipped(definition text) returns text
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select coalesce(jobrun.pause_reason(d, now()), case when d.overlap = 'skip' then jobrun.overlapping(d.id, true) end,
		(select 'job type paused' || coalesce(': ' || t.paused_reason, '') from jobrun.job_types t
			where t.name = d.job_type and t.paused_until > now()),
		(select 'queue paused' || coalesce(': ' || q.paused_reason, '') from jobrun.job_queues q
			where q.name = coalesce(d.queue, 'exec') and q.paused_until > now()))
	from jobrun.job_definitions d where d.name = exec_skipped.definition
$fn$;

-- exec_claim: a command of this host begins (`jobrun exec`): a run of the definition, which is made on first use, claimed from
-- its beginning and never to be tried again; or the oldest that people have retried, which nobody else could start. No row:
-- exec_skipped says why. timeout_ms: null: the definition's. Queue and max_attempts are of the run, not of the definition: what
-- is enqueued of a job type of this name is none of exec's business.
create function jobrun.exec_claim(runner_id bigint, host text, definition text, lease_ms bigint, timeout_ms bigint, command text)
returns setof jobrun.held_runs
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_name constant text := exec_claim.definition;
	v_text constant jsonb := jsonb_build_object('command', left(command, 10000));
	v_end  constant timestamptz := now() + lease_ms * interval '1 millisecond';
	v_def  jobrun.job_definitions;
	v_id   bigint;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.exec_claim needs READ COMMITTED' using errcode = 'feature_not_supported';
	end if;
	perform jobrun.check_name('name', v_name);
	if not exists (select from jobrun.job_definitions d where d.name = v_name) then
		insert into jobrun.job_definitions (name, job_type) values (v_name, v_name)
		on conflict on constraint job_definitions_name do nothing;
	end if;
	select d.* into v_def from jobrun.job_definitions d where d.name = v_name for no key update;
	if v_def.job_type like 'jobrun.%' then
		raise exception 'definition "%" is jobrun''s own', v_name using errcode = 'JR065';
	elsif v_def.id is null or jobrun.exec_skipped(v_name) is not null then
		return;
	end if;
	select r.id into v_id from jobrun.job_runs r
	where r.definition_id = v_def.id and r.finished_at is null and jobrun.is_retried_command(r)
	order by r.id limit 1 for no key update skip locked;
	if v_id is not null then
		update jobrun.job_runs r
		set payload = v_text, timeout = coalesce(timeout_ms * interval '1 millisecond', v_def.timeout), status = 'running', attempts = 1,
			claim_seq = r.claim_seq + 1, runner_id = exec_claim.runner_id, locked_by = exec_claim.host, locked_until = v_end,
			started_at = now()
		where r.id = v_id;
	else
		insert into jobrun.job_runs as r (definition_id, job_type, queue, priority, payload, concurrency_key, timeout, created_by, status,
			attempts, max_attempts, claim_seq, runner_id, locked_by, locked_until, started_at)
		values (v_def.id, v_def.job_type, coalesce(v_def.queue, 'exec'), coalesce(v_def.priority, 100), v_text, v_def.concurrency_key,
			coalesce(timeout_ms * interval '1 millisecond', v_def.timeout), jobrun.caller(), 'running',
			1, 1, 1, exec_claim.runner_id, exec_claim.host, v_end, now())
		returning r.id into v_id;
	end if;
	return query select h.* from jobrun.held_runs h where h.id = v_id;
end
$fn$;

-- -------------------------------------------------------------------------------------------------------- housekeeping

insert into jobrun.job_definitions (name, job_type, description, schedule, queue, priority, timeout)
values ('jobrun.prune', 'jobrun.prune', 'deletes what settings say is old enough', '23 * * * *', 'jobrun', 1000, interval '5 minutes');

-- Without it nothing is ever deleted, and nobody is told.
create trigger job_definitions_own
	before delete on jobrun.job_definitions for each row when (old.name like 'jobrun.%') execute function jobrun.check_definition();

-- --------------------------------------------------------------------------------------------------------------- roles

-- rights: see 0004, with what is new since then.
create or replace function jobrun.rights(kind text) returns setof text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with columns as (     -- of a table, without those that hold what jobs and handlers say
		select c.relname, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as names
		from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobrun') and a.attnum > 0 and not a.attisdropped
			and a.attname not in ('payload', 'progress', 'checkpoint', 'result', 'last_error', 'error', 'output')
		group by c.relname)
	select r.what from (values
		('{enqueue,read,run,admin}'::text[], 'usage on schema jobrun'),
		('{enqueue,read,run,admin}', 'execute on function jobrun.need, jobrun.run_status, jobrun.next_slots'),
		('{enqueue,run,admin}', 'execute on function jobrun.enqueue, jobrun.enqueue_run, jobrun.enqueue_many, '
			|| 'jobrun.enqueue_definition, jobrun.cancel, jobrun.effect, jobrun.effect_begin, '
			|| 'jobrun.effect_claim, jobrun.effect_done, jobrun.effect_undo, jobrun.effect_end, jobrun.effect_look'),
		('{enqueue,run,admin}', 'insert (job_type, payload, options, run) on jobrun.new_runs'),
		('{read,run,admin}', 'select on jobrun.runs, jobrun.attempts, jobrun.job_queues, jobrun.job_types, jobrun.job_runners, '
			|| 'jobrun.job_slots, jobrun.job_stats, jobrun.job_audit, jobrun.job_grants, jobrun.settings, jobrun.schema_migrations'),
		('{read,run,admin}', 'execute on function jobrun.run_texts, jobrun.attempt_texts, jobrun.rate_left, '
			|| 'jobrun.is_limited, jobrun.is_name, jobrun.slot_text'),
		('{run,admin}', 'select, insert, update, delete on jobrun.job_runs, jobrun.job_attempts, jobrun.job_slots, jobrun.job_runners, '
			|| 'jobrun.job_effects, jobrun.job_stats, jobrun.job_runs_archive'),
		('{run,admin}', 'select on jobrun.held_runs, jobrun.job_definitions'),
		('{run,admin}', 'update (rate_window_start, rate_used) on jobrun.job_queues'),
		('{run,admin}', 'execute on function jobrun.claim, jobrun.claim_job, jobrun.settle_done, jobrun.raise_alarm, jobrun.fire, '
			|| 'jobrun.exec_claim, jobrun.exec_skipped, jobrun.prune_step'),
		('{admin}', 'select, insert, update, delete on jobrun.job_definitions'),
		('{admin}', 'update on jobrun.settings'),
		('{admin}', 'select on all tables in schema jobrun'),
		('{admin}', 'execute on all functions in schema jobrun')) r(kinds, what)
	where rights.kind = any (r.kinds)
	union all
	select format('select (%s) on jobrun.%I', c.names, c.relname) from columns c
	where rights.kind = 'read' and c.relname in ('job_runs', 'job_attempts', 'job_runs_archive', 'job_definitions')
$fn$;

revoke all on all functions in schema jobrun from public;
