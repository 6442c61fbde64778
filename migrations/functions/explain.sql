-- explain: why a run does not start, or when the next one of a definition will. Nothing here takes a lock: a claim would
-- pass over a run that somebody has locked to explain it.

-- explain_verdict: the rows of explain() for a waiting run, of which next_claim() has said this. taken: see explain_conditions().
create or replace function jobrun.explain_verdict(
	run_id bigint, fate text, newer bigint, is_sure boolean, seen jsonb, taken text[] default null)
returns table (condition text, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_key    constant text := (select r.unique_key from jobrun.job_runs r where r.id = run_id);
	v_line   record;
	v_rows   jsonb := '[]';
	v_held   boolean := false;
	v_locked boolean := false;            -- a claim does not come to it
	v_state  text;
	v_why    jsonb;
	v_others bigint;
begin
	for v_line in select c.* from jobrun.explain_conditions(run_id, seen, taken) c loop
		if v_line.condition = 'unique_key' and explain_verdict.fate = 'superseded' then
			v_line.state := 'no';
			v_line.reason := 'superseded';
			v_line.words := format('run %s of unique key %s is newer', explain_verdict.newer, v_key);
			v_line.command := 'jobrun show ' || explain_verdict.newer;
		elsif v_line.condition = 'before' and explain_verdict.fate is null and not v_held then
			v_line.state := case when explain_verdict.is_sure then 'no' else '?' end;
			v_line.reason := 'turn';
			v_line.words := v_line.words || case when explain_verdict.is_sure then '; its limits leave no further room' else '' end;
			v_line.command := 'jobrun run --job ' || run_id;
		end if;
		v_held := v_held or v_line.state = 'no';
		v_locked := v_locked or v_line.condition in ('copy', 'lock') and v_line.state = 'no';
		v_rows := v_rows || to_jsonb(v_line);
	end loop;
	select c.c into v_why from jsonb_array_elements(v_rows) with ordinality c(c, nr)
	where (c.c ->> 'state' = 'no' or c.c ->> 'reason' = 'turn') and c.c ->> 'condition' <> 'runner'
	order by c.c ->> 'condition' = 'copy' desc, (c.c ->> 'never')::boolean desc, c.c ->> 'condition' = 'lock' desc,
		c.c ->> 'reason' = 'command', c.nr limit 1;
	v_others := (select count(distinct c.c ->> 'condition') - 1 from jsonb_array_elements(v_rows) c(c)
		where c.c ->> 'state' = 'no' and c.c ->> 'condition' <> 'runner' and (c.c ->> 'reason' <> 'command' or c.c = v_why));
	-- What a claim would do decides: a run may start in the place of an older one of its key.
	v_state := case when not v_locked and explain_verdict.fate = 'starts' then 'starts' when not v_locked and explain_verdict.fate is not null then 'ends'
		when (v_why ->> 'never')::boolean then 'never' else 'waits' end;
	if v_state = 'starts' then
		v_why := null;
		select c.c into v_why from jsonb_array_elements(v_rows) with ordinality c(c, nr)
		where c.c ->> 'condition' = 'runner' and c.c ->> 'state' = 'no' or c.c ->> 'condition' = 'handler' and c.c ->> 'state' = '?'
			or c.c ->> 'reason' = 'permits_taken'
		order by c.nr limit 1;
	elsif v_state = 'ends' then
		select c.c into v_why from jsonb_array_elements(v_rows) c(c)
		where c.c ->> 'condition' = case explain_verdict.fate when 'expired' then 'expiry' else 'unique_key' end;
	end if;
	return query
		select 'verdict', v_state, coalesce(v_why ->> 'reason', 'next_claim'),
			case v_state when 'starts' then 'starts with the next claim' || coalesce('; but ' || (v_why ->> 'words'), '')
				when 'ends' then 'ends with the next claim, without a start: ' || (v_why ->> 'words')
				when 'never' then 'never starts unless somebody acts: ' || (v_why ->> 'words')
				else 'waits: ' || (v_why ->> 'words') end,
			(v_why ->> 'at')::timestamptz, coalesce(v_why ->> 'rest', '') || case when v_state in ('waits', 'never') then jobrun.others_words(v_others) else '' end,
			v_why ->> 'command'
		union all
		select r.condition, r.state, r.reason, r.words, r.at, coalesce(r.rest, ''), r.command
		from jsonb_to_recordset(v_rows) r(condition text, state text, reason text, words text, at timestamptz, rest text, command text);
end
$fn$;

-- explain: why the run stands where it does. The first row is the verdict, the others are the conditions of a claim, in
-- its order. No row: no such run, or one that the caller may not see.
--  condition  verdict, copy, handler, all, host, type, queue, definition, due, expiry, lock, max_running, rate, lock_key, unique_key, before,
--             permits, runner
--  state      of a condition: ok, no, ? (not known here); of the verdict: starts (with the next claim), ends (with the next
--             claim, without a start), waits, never (unless somebody acts), or the status of the run
--  reason     a fixed word, see the manual; of the verdict: that of the condition that decides
--  words, at, rest   the line for people, with a point in time in it or none
--  command    what changes it
-- host, here: the host of the caller, and the job types that it has handlers for: see seen_here().
create or replace function jobrun.explain(id bigint, host text default null, here text[] default null)
returns table (condition text, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_id     constant bigint := id;
	v_run    record;
	v_next   record;
	v_seen   jsonb;
	v_copy   record;                     -- as of explain_copy(), of a run whose lease has run out
begin
	select r.*, (r.status in ('queued', 'failed')) as waits into v_run from jobrun.all_runs r where r.id = v_id;
	if v_run.id is null or not (jobrun.may('read', 'run', 'admin') or v_run.created_by = jobrun.caller()) then
		return;
	end if;
	if not v_run.waits then
		select c.* into v_copy from (select 1) o left join jobrun.explain_copy() c on v_run.status = 'running' and v_run.locked_until <= now();
		return query
			select 'verdict', v_run.status, coalesce(v_run.error_code, v_run.status),
				case v_run.status
				when 'running' then format('is running on %s since', v_run.locked_by)
				when 'cancelled' then case when v_run.superseded_by is not null
					then format('was superseded by run %s of its unique key', v_run.superseded_by) else 'was cancelled' end
				when 'dead' then 'is dead: ' || coalesce((select t.last_error from jobrun.run_texts(v_id) t), v_run.error_code, 'no reason is known') || ','
				else v_run.status end,
				case when v_run.status = 'running' then v_run.started_at else v_run.finished_at end,
				case when v_run.status <> 'running' then ''
					when v_run.locked_until > now() then format(', lease for %ss more', floor(extract(epoch from v_run.locked_until - now())))
						|| case when v_run.cancel_requested_at is not null then ', cancel requested' else '' end
					when v_copy.state is not null then ', its lease has run out: nothing takes it back, since ' || v_copy.words || v_copy.rest
					else ', its lease has run out: the next tick of any runner takes it back as lost, and it is ' || case
						when v_run.cancel_requested_at is not null then 'cancelled'
						when v_run.attempts >= v_run.max_attempts then format('dead: that was attempt %s of %s', v_run.attempts, v_run.max_attempts)
						else 'tried again' end
					end,
				case when v_run.status = 'succeeded' then null
					when v_run.status <> 'running' then 'jobrun retry ' || coalesce(v_run.superseded_by, v_id)
					when v_run.locked_until <= now() then coalesce(v_copy.command, 'jobrun run')
					when v_run.cancel_requested_at is null then 'jobrun cancel ' || v_id end;
		return;
	end if;

	v_seen := jobrun.seen_here(explain.host, explain.here);
	select n.* into v_next from jobrun.next_claim(array[v_id], v_seen) n;
	return query select v.* from jobrun.explain_verdict(v_id, v_next.fate, v_next.newer, v_next.is_sure, v_seen) v;
end
$fn$;

-- next_waiting: the next waiting runs of these job types and queues (null: of all), in the order in which they will start: due
-- ones by priority, then those that are due later; each with the verdict of explain(). What is the same for many is looked up once.
-- host, here: as for explain().
create or replace function jobrun.next_waiting(
	job_types text[], queues text[], most bigint, host text default null, here text[] default null)
returns table (id bigint, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_most constant bigint := most;
	v_ids  bigint[];
	v_seen jsonb := jobrun.seen_here(next_waiting.host, next_waiting.here);
begin
	if not jobrun.may('read', 'run', 'admin') then
		raise exception using errcode = '42501', message = 'permission denied: what waits is for roles that may read, run or administer';
	end if;
	v_ids := array(
		select f.id
		from (select w.* from jobrun.waiting_heads() w where (next_waiting.job_types is null or w.job_type = any (next_waiting.job_types))
			and (next_waiting.queues is null or w.queue = any (next_waiting.queues)) offset 0) w
		cross join lateral (
			select r.id, r.priority, r.run_at from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = w.queue and r.priority = w.priority
				and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = w.bound
			order by r.run_at, r.id limit v_most) f
		order by f.run_at > now(), case when f.run_at <= now() then f.priority end, f.run_at, f.id limit v_most);
	return query
		with taken as materialized (
			-- but for those that are new: of them explain_handler() says more
			select q.queue, array(select t.name from unnest(jobrun.taken_types(q.queue, v_seen)) t(name)
				where not exists (select from jobrun.new_on(v_seen, t.name))) as types
			from (select distinct r.queue from jobrun.runs_of(v_ids) r) q)
		select n.id, v.state, v.reason, v.words, v.at, v.rest, v.command
		from jobrun.next_claim(v_ids, v_seen) n
		cross join lateral (select r.queue from jobrun.job_runs r where r.id = n.id offset 0) r
		join taken t on t.queue = r.queue
		cross join lateral (select x.* from jobrun.explain_verdict(n.id, n.fate, n.newer, n.is_sure, v_seen, t.types) x limit 1) v
		order by array_position(v_ids, n.id);
end
$fn$;

-- slots_words: a slot, and how many more.
create or replace function jobrun.slots_words(slot timestamptz, time_zone text, more bigint) returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select 'its slot of ' || jobrun.slot_text(slot, time_zone) || case when more > 0 then format(' and %s more', more) else '' end
$fn$;

-- explain_late: of a definition that is enabled and not paused, whose zone the server knows: the slot that fires next (null: none),
-- and what the next tick does with those that are due before it (''), as due_slots() decides.
create or replace function jobrun.explain_late(definition jobrun.job_definitions, out fires_at timestamptz, out rest text)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_fields constant jobrun.schedule_fields := jobrun.parse_schedule(definition.schedule);
	v_zone   constant text := definition.time_zone;
	v_anchor constant timestamptz := definition.anchor_at;
	v_due    record;
	v_until  timestamptz;
	v_n      bigint;
begin
	select d.* into v_due from jobrun.due_slots(definition, v_fields, now()) d;
	fires_at := coalesce(v_due.fires_from, jobrun.next_slot(v_fields, v_zone, now(), v_anchor));
	rest     := '';
	if v_due.held_from is not null then
		v_n  := jobrun.count_slots(v_fields, v_zone, v_anchor, v_due.held_from, v_due.held_until);
		rest := format('; the next tick skips %s: %s', jobrun.slots_words(v_due.held_from, v_zone, v_n),
			jobrun.pause_reason(definition, v_due.held_from));
	end if;
	v_until := coalesce(v_due.fires_from - interval '1 microsecond', now());
	if v_due.first_at <= v_until then
		v_n  := jobrun.count_slots(v_fields, v_zone, v_anchor, v_due.first_at, v_until);
		rest := rest || format(case when v_due.missed = 'coalesced' then '; the next tick coalesces %s with it (catch-up once)'
				when definition.catch_up = 'skip' and v_due.fires_from is not null then '; the next tick skips %s: only the last one fires (catch-up skip)'
				when definition.catch_up_grace is not null then '; the next tick skips %s: later than the catch-up grace'
				when definition.catch_up = 'skip' then '; the next tick skips %s: more than 5m late (catch-up skip)'
				else '; the next tick skips %s: the last hundred fire (catch-up all)' end,
			jobrun.slots_words(v_due.first_at, v_zone, v_n));
	end if;
end
$fn$;

-- explain_definition: why the definition does or does not make runs, and what a run of it would meet. Rows as of
-- explain(). The verdict is fires, never (unless somebody acts), paused, or manual (it has no schedule). Of slots that are
-- late it says what the next tick does with them, which may be to skip them. Without a schedule it is about the next start
-- by hand: a command of exec that is typed on this host, or a run that is enqueued. Further conditions: enabled, next (a
-- slot to come, or that the server does not know the zone), overlap, past (a slot, newest first; reason: its outcome), and
-- without a schedule the limits of its queue. A definition of jobrun exec needs no handler. No row: no such definition.
create or replace function jobrun.explain_definition(name text, host text default null, here text[] default null)
returns table (condition text, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_name    constant text := name;
	v_host    constant text := host;
	v_def     record;
	v_seen    constant jsonb := jobrun.seen_here(host, here);
	v_hosts   jsonb;                     -- as v_seen: those that may start it
	v_overlap text;
	v_lost    text;                      -- the server does not know its time zone
	v_next    record;                    -- as of explain_late()
	v_late    boolean;
	v_rows    jsonb;                     -- the conditions of a start, in the order in which exec_claim() asks
	v_held    jsonb;                     -- those that a run of its next slot, or the next start by hand, would meet
	v_but     jsonb;                     -- the first of them
	v_copy    jsonb;                     -- the row of explain_copy()
	v_words   text;
	v_by_hand boolean;                   -- no schedule
	v_by_exec boolean;                   -- and no known handler: it is most likely of jobrun exec
	v_queue   text;                      -- of the runs that it makes
	v_key     text;
begin
	select d.*, coalesce(d.queue, t.queue, 'default') as its_queue, coalesce(d.concurrency_key, t.concurrency_key) as its_key,
		(d.paused_until > now()) is true as is_paused into v_def
	from jobrun.job_definitions d left join jobrun.job_definitions t on t.name = d.job_type where d.name = v_name;
	if v_def.id is null or not jobrun.may('read', 'run', 'admin') then
		return;
	end if;
	v_lost := case when v_def.schedule is not null then jobrun.lost_zone(v_def.time_zone) end;
	select v_def.next_slot_at as fires_at, '' as rest into v_next;
	if v_lost is null and v_def.enabled and not v_def.is_paused and v_def.next_slot_at <= now() then
		select l.* into v_next from jobrun.job_definitions d cross join lateral jobrun.explain_late(d) l where d.id = v_def.id;
	end if;
	v_late := v_next.fires_at < now() - interval '2 minutes';
	v_by_hand := v_def.schedule is null;
	v_by_exec := v_by_hand and exists (select from jobrun.explain_handler(v_def.job_type, v_def.its_queue, v_seen) h
		where h.reason in ('no_handler', 'no_runner'));
	v_queue := v_def.its_queue;
	v_key := v_def.its_key;
	v_hosts := v_seen;
	if v_by_exec then
		v_queue := coalesce(v_def.queue, 'exec'); -- as exec_claim() chooses them
		v_key := v_def.concurrency_key;
		-- If the pause of this host holds it back, no other host helps who types the command here.
		v_hosts := jobrun.seen_by_exec(jsonb_build_object('host', v_host)
			|| case when exists (select from jobrun.job_runners n where n.host = v_host and n.paused_until > now()) then '[]' else v_seen end,
			v_def.job_type);
	end if;
	v_overlap := case when v_def.overlap = 'skip' then jobrun.overlapping(v_def.id, v_by_exec) end;
	v_rows := (
		select jsonb_agg(to_jsonb(c) order by c.nr)
		from (
			select u.*, row_number() over () as nr
			from (
				select p.* from jobrun.explain_copy() p
				union all
				select h.* from jobrun.explain_hosts(v_def.job_type, v_queue, v_hosts) h
				union all
				-- A run that is enqueued by hand starts all the same.
				select 'enabled', case when v_def.enabled or v_by_hand and not v_by_exec then 'ok' else 'no' end, not v_def.enabled,
					case when not v_def.enabled and (v_by_exec or not v_by_hand) then 'disabled' end,
					case when v_def.enabled then 'enabled' when v_by_hand and not v_by_exec then 'disabled, which holds back no run enqueued by hand'
						else 'disabled' end, null, '', case when not v_def.enabled then format('jobrun define %s --enable', v_name) end
				union all
				select p.* from jobrun.explain_pauses(v_def.job_type, v_queue, v_def.id) p
				union all
				select h.* from jobrun.explain_handler(v_def.job_type, v_queue, v_seen) h where not v_by_exec or not jobrun.is_of_exec(v_name)
				union all
				select 'overlap', case when v_overlap is null or v_by_hand and not v_by_exec then 'ok' else 'no' end, false,
					case when v_overlap is not null and (v_by_exec or not v_by_hand) then 'overlap' end,
					case when v_def.overlap <> 'skip' then 'runs may overlap'
						when v_overlap is null and v_by_exec then 'no run of it is running'
						when v_overlap is null then 'no run of it is unfinished'
						when v_by_exec then v_overlap || ', and nothing starts beside it'
						when v_by_hand then v_overlap || ', which holds back no run enqueued by hand'
						else v_overlap || ', so a slot now would be skipped' end, null, '',
					case when v_overlap is not null and (v_by_exec or not v_by_hand) then format('jobrun define %s --overlap allow', v_name) end
				union all
				select l.* from jobrun.explain_limits(v_queue, v_key) l where v_by_hand) u) c);
	v_held := (
		select jsonb_agg(c.c order by c.c ->> 'condition' = 'copy' desc, (c.c ->> 'never')::boolean desc, c.c ->> 'condition' = 'handler' desc, c.nr)
		from jsonb_array_elements(v_rows) with ordinality c(c, nr)
		where c.c ->> 'state' = 'no' and case when v_by_hand then not (v_by_exec and c.c ->> 'condition' = 'handler')
			else c.c ->> 'condition' <> 'overlap' and v_def.enabled and not v_def.is_paused and v_lost is null
				and v_next.fires_at is not null and ((c.c ->> 'at')::timestamptz > v_next.fires_at) is not false end);
	v_but := v_held -> 0;
	v_copy := (select c.c from jsonb_array_elements(v_rows) c(c) where c.c ->> 'condition' = 'copy');
	if v_by_hand then
		v_words := case v_but ->> 'condition' when 'enabled' then format('definition %s is disabled', v_name) else v_but ->> 'words' end;
		return query select 'verdict',
			case when (v_but ->> 'never')::boolean then 'never' when right(v_but ->> 'reason', 7) = '_paused' then 'paused' else 'manual' end,
			coalesce(v_but ->> 'reason', 'no_schedule'),
			case when not v_by_exec then 'has no schedule: it fires only by hand' || coalesce('; but ' || v_words, '')
				else format('has no schedule, and no host was seen with a handler for %s: ''jobrun exec %s'' starts ', v_def.job_type, v_name)
					|| coalesce('nothing: ' || v_words, 'it') end,
			(v_but ->> 'at')::timestamptz, coalesce(v_but ->> 'rest', '')
				|| jobrun.others_words((select count(distinct c.c ->> 'condition') - 1 from jsonb_array_elements(v_held) c(c))),
			case when v_but is not null then v_but ->> 'command' when not v_by_exec then 'jobrun enqueue --definition ' || v_name end;
	elsif v_copy is not null then
		return query select 'verdict', 'never', v_copy ->> 'reason', 'never fires unless somebody acts: ' || (v_copy ->> 'words'), null::timestamptz,
			v_copy ->> 'rest', v_copy ->> 'command';
	elsif v_def.enabled and v_lost is not null then
		return query select 'verdict', 'never', 'zone_lost', 'never fires unless somebody acts: ' || v_lost, null::timestamptz, '',
			format('jobrun define %s --time-zone UTC', v_name);
	else
		return query select 'verdict',
			case when not v_def.enabled or v_def.is_paused and not isfinite(v_def.paused_until) or v_next.fires_at is null then 'never'
				when v_def.is_paused then 'paused' else 'fires' end,
			case when not v_def.enabled then 'disabled' when v_def.is_paused then 'definition_paused'
				when v_next.fires_at is null then 'no_slot' when v_late then 'late_slot' when v_next.fires_at > now() and v_next.rest <> '' then 'skipped_slot'
				else coalesce(v_but ->> 'reason', 'next_slot') end,
			case when not v_def.enabled then 'never fires unless somebody acts: it is disabled, and its slots are skipped'
				when v_def.is_paused and not isfinite(v_def.paused_until) then 'never fires unless somebody acts: it is paused until resumed'
				when v_def.is_paused then 'fires no slot before its pause ends' when v_next.fires_at is null then 'never fires again: its schedule has no further slot'
				when v_late then 'fires with the next tick: no tick has fired its slot of' else 'fires' end,
			case when not v_def.enabled then null when v_def.is_paused then nullif(v_def.paused_until, 'infinity') else v_next.fires_at end,
			case when v_def.enabled and v_def.is_paused then coalesce(': ' || v_def.paused_reason, '')
				else coalesce('; but ' || jobrun.line_of(v_but ->> 'words', (v_but ->> 'at')::timestamptz, v_but ->> 'rest'), '') || v_next.rest end,
			case when not v_def.enabled then format('jobrun define %s --enable', v_name)
				when v_def.is_paused then 'jobrun resume --definition ' || v_name
				when v_late or v_next.rest <> '' then 'jobrun --once -v' else v_but ->> 'command' end;
	end if;
	return query select r.condition, r.state, r.reason, r.words, r.at, coalesce(r.rest, ''), r.command
		from jsonb_to_recordset(v_rows) r(condition text, state text, reason text, words text, at timestamptz, rest text, command text);
	if v_lost is not null then
		return query select 'next', 'no', 'zone_lost', v_lost, null::timestamptz, '', format('jobrun define %s --time-zone UTC', v_name);
	elsif not v_by_hand then
		return query select 'next', 'ok', null, 'next slot ' || jobrun.slot_text(n.slot, v_def.time_zone), n.slot, '', null
			from jobrun.next_slots(v_def.schedule, v_def.time_zone, now(), 3, v_def.anchor_at) n(slot);
	end if;
	return query select 'past', case s.outcome when 'queued' then 'ok' else 'no' end, s.outcome,
			format('slot %s%s: %s', jobrun.slot_text(date_trunc('second', s.slot), v_def.time_zone),
				case when s.slots > 1 then format(' and %s more', s.slots - 1) else '' end,
				case s.outcome when 'queued' then 'run ' || s.run_id else s.outcome || ', ' || coalesce(s.reason, 'no reason is recorded') end),
			null::timestamptz, '', case when s.outcome <> 'queued' and jobrun.may_replay(d, s.recorded)
				then format('jobrun slots %s --replay %s', v_name, to_char(s.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) end
		from jobrun.job_definitions d cross join lateral (
			select o as recorded, o.* from jobrun.job_slots o where o.definition_id = d.id order by o.slot desc limit 5) s
		where d.id = v_def.id;
end
$fn$;
