-- define: check definitions, whoever writes them, and record the outcome of every slot.

-- --------------------------------------------------------------------------------------------------- accounts of slots

-- record_slots: record the outcome of the slots of a definition between `first` and `until`, both included: a row for
-- each, or if there are more than a hundred, one row with their number and the last slot. Returns how many.
create or replace function jobrun.record_slots(
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

-- forget_ahead: slots in the future cannot have been fired, so the clock was wrong when they were recorded: delete
-- these records.
create or replace function jobrun.forget_ahead(definition jobrun.job_definitions) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_now  constant timestamptz := clock_timestamp();     -- not now(): a later tick may have fired since
	v_slot jobrun.job_slots;
begin
	for v_slot in
		delete from jobrun.job_slots s
		where s.definition_id = definition.id and s.runner_id is null and coalesce(s.until, s.slot) > v_now returning s.*
	loop
		perform jobrun.record_slots(definition, jobrun.parse_schedule(definition.schedule), v_slot.slot, v_now, v_slot.outcome,
			v_slot.reason);
	end loop;
end
$fn$;

-- pause_reason: why a definition that is disabled, or paused at this time, does not fire; null: it fires.
create or replace function jobrun.pause_reason(definition jobrun.job_definitions, at timestamptz) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when not definition.enabled then 'disabled'
		when definition.paused_until >= at then 'paused' || coalesce(': ' || definition.paused_reason, '') end
$fn$;

-- ----------------------------------------------------------------------------------------------------------- the rules

-- check_definition: check a row of job_definitions, whoever writes it, and set next_slot_at to fit its schedule. When
-- the schedule changes, and not its spelling alone, slots that were due and not fired yet are recorded, so that no slot
-- of the old schedule fires under the new one. The constraints of the table check many of the same rules, but without
-- readable messages.
create or replace function jobrun.check_definition() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_fields jobrun.schedule_fields;
	v_is_new boolean;
	v_reason text;
	v_after  timestamptz := case tg_op when 'INSERT' then now() end;     -- next_slot_at becomes the next slot; null: it stays
begin
	if tg_op = 'DELETE' then     -- the trigger calls this for jobrun's own definitions only
		raise exception 'definition "%" is jobrun''s own and cannot be removed, only disabled', old.name using errcode = 'JR065';
	end if;
	new.job_type := coalesce(new.job_type, new.name);
	if tg_op = 'INSERT' or new.anchor_at is distinct from old.anchor_at then
		new.anchor_at := date_trunc('second', new.anchor_at);     -- slots are written to the second, as in JOBRUN_SLOT
	end if;
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
	if (tg_op = 'INSERT' or new.on_dead is distinct from old.on_dead) and new.on_dead like 'jobrun.%' then
		raise exception 'on_dead "%": job types that begin with "jobrun." are reserved', new.on_dead using errcode = 'JR065';
	end if;
	perform jobrun.check_key('concurrency_key', new.concurrency_key);
	perform jobrun.check_duration(d.name, d.value) from (values ('timeout', new.timeout), ('backoff_base', new.backoff_base),
		('backoff_cap', new.backoff_cap), ('catch_up_grace', new.catch_up_grace)) d(name, value);
	if new.priority not between -1000 and 1000 then
		raise exception 'priority % is out of range; from -1000 to 1000, smaller first', new.priority using errcode = 'JR065';
	elsif new.max_attempts not between 1 and 2147483647 then
		raise exception 'max_attempts % is out of range; at least 1', new.max_attempts using errcode = 'JR065';
	elsif new.catch_up not in ('once', 'skip', 'all') then
		raise exception 'catch_up "%" is not one of once, skip, all', left(new.catch_up, 100) using errcode = 'JR065';
	elsif (tg_op = 'INSERT' or new.catch_up_grace is distinct from old.catch_up_grace) and new.catch_up_grace < interval '1 minute' then
		raise exception 'catch_up_grace "%" is too short: a tick comes once a minute; write 1m or more, or none for %', new.catch_up_grace,
			case new.catch_up when 'skip' then 'the 5m of catch_up "skip"' else 'no limit' end using errcode = 'JR065';
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
		new.next_slot_at := old.next_slot_at;     -- a client that writes the whole row back may have an outdated value
		v_is_new := (new.time_zone, new.anchor_at) is distinct from (old.time_zone, old.anchor_at);
		if not v_is_new and new.schedule is distinct from old.schedule then
			begin
				v_is_new := v_fields is distinct from jobrun.parse_schedule(old.schedule);
			exception when sqlstate 'JR065' then
				v_is_new := true;     -- there was none, or one that is not read any more
			end;
		end if;
		if v_is_new then
			v_reason := coalesce(jobrun.pause_reason(old, now()), 'schedule changed');
			v_after  := now();
		elsif (new.enabled, new.paused_until) is distinct from (old.enabled, old.paused_until) and old.next_slot_at <= now() then
			-- slots in a pause that has ended by itself
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
				null;     -- if the server does not know the old zone any more, it must still be possible to set another
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

-- Not on next_slot_at, which every firing changes: whoever sets it by hand sets nothing else.
do $do$
begin
	if not exists (select from pg_trigger t where t.tgrelid = 'jobrun.job_definitions'::regclass and t.tgname = 'job_definitions_checked') then
		create trigger job_definitions_checked
			before insert or update of name, job_type, payload, description, schedule, time_zone, anchor_at, queue, priority, max_attempts,
				timeout, backoff_base, backoff_cap, concurrency_key, on_dead, catch_up, catch_up_grace, overlap, enabled, paused_until,
				paused_reason
			on jobrun.job_definitions for each row execute function jobrun.check_definition();
	end if;
end
$do$;

-- Without jobrun.prune nothing would ever be deleted, and nobody would notice.
do $do$
begin
	if not exists (select from pg_trigger t where t.tgrelid = 'jobrun.job_definitions'::regclass and t.tgname = 'job_definitions_own') then
		create trigger job_definitions_own
			before delete on jobrun.job_definitions for each row when (old.name like 'jobrun.%') execute function jobrun.check_definition();
	end if;
end
$do$;

-- --------------------------------------------------------------------------------------------- for people and programs

-- definition_doc: a definition as the object that define() takes.
create or replace function jobrun.definition_doc(definition jobrun.job_definitions) returns jsonb
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select jsonb_strip_nulls(to_jsonb(definition) - 'payload'
			- '{id,name,next_slot_at,paused_until,paused_reason,created_at,updated_at}'::text[])
		|| case when definition.payload is null then '{}' else jsonb_build_object('payload', definition.payload) end
$fn$;

-- read_definition: `base` with the members of `changes`, each named like its column; a null becomes the default.
create or replace function jobrun.read_definition(base jobrun.job_definitions, changes jsonb) returns jobrun.job_definitions
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
		elsif v_member in ('timeout', 'backoff_base', 'backoff_cap', 'catch_up_grace') then
			v_value := jobrun.spell_durations(jsonb_build_object(v_member, v_value)) -> v_member;
		elsif jsonb_typeof(v_value) <> v_kind then
			raise exception 'definition "%": % must be a %, not %', base.name, v_member, v_kind, left(v_value::text, 100)
				using errcode = 'JR065';
		elsif v_value = '"now"' and v_member = 'anchor_at' then
			-- a second restart within one second must change the anchor, too: what depends on it looks for a change
			v_value := to_jsonb(case when base.id is not null and base.anchor_at = date_trunc('second', now())
				then base.anchor_at + interval '1 second' else now() end);
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
	if v_row.anchor_at is distinct from base.anchor_at then
		v_row.anchor_at := date_trunc('second', v_row.anchor_at);     -- as check_definition() stores it
	end if;
	return v_row;
end
$fn$;

-- changed_lines: a readable line for each member that has another value now (timeout: null -> "00:15:00"); for a new
-- definition, for each member that is not the default, without the arrow; null: there is none, or it was removed.
create or replace function jobrun.changed_lines(done jobrun.defined) returns text
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

-- define: create the definition of this name, or change the members of `changes` and nothing else. See read_definition.
create or replace function jobrun.define(name text, changes jsonb, reason text default null) returns jobrun.defined
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
		select v_name, v_name, date_trunc('second', now()), true, 'UTC', 'once', 'skip'
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
	-- A limit per lock key needs a queue row to lock. It is created here and not by the first run: a role that may only
	-- enqueue could create it before in a transaction that stays open, and a schedule or an alarm would have to wait.
	if v_new.concurrency_key is not null then
		perform jobrun.need_queue(coalesce(v_new.queue, 'default'));
	end if;
	-- Roles that may read the audit may not read payloads.
	perform jobrun.audit('define', 'definition ' || v_name, v_done.old - 'payload', v_done.new - 'payload', reason);
	return v_done;
end
$fn$;

-- undefine: remove the definition; its slots and runs stay. Returns whether there was one.
create or replace function jobrun.undefine(name text, reason text default null) returns boolean
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

-- define_all: create or change the definitions that these objects describe, each with its "name"; a missing member gets
-- its default. exact: remove all other definitions except jobrun's own and those of `jobrun exec`, which makes its own.
create or replace function jobrun.define_all(definitions jsonb, exact boolean default false, reason text default null)
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
	-- in order of id, as everywhere
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
			select d.* from jobrun.job_definitions d
			where d.name <> all (v_names) and d.name not like 'jobrun.%' and not jobrun.is_of_exec(d.name) order by d.name
		loop
			perform jobrun.undefine(v_old.name, reason);
			return next (v_old.name, 'removed', jobrun.definition_doc(v_old), null)::jobrun.defined;
		end loop;
	end if;
end
$fn$;
