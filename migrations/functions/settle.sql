-- settle: end runs, and raise alarms for dead ones.

-- settle: write the outcomes of attempts; the only statement that ends a running run. Arrays of equal length (null
-- stands for an array of nulls): runner_ids of the runners that hold the runs, even if they are dead; outcomes:
-- succeeded, failed, dead, later, released, unstarted, cancelled, lost; outputs_dropped: bytes; results, progress and
-- checkpoints as lines of JOBRUN_OUT, JSON objects with a member of that name. settled_at: the time now, since now() is
-- when the transaction began.
-- Returns a row for each outcome that was accepted: run_in_ms is null if it is final, alarm is the id of a dead run's
-- alarm. A run without a row was fenced out. A repeat changes nothing, since the first call has ended the lease.
--
-- The fence is id, claim_seq, runner_id and "locked_until is not null". The last means running, by a CHECK; a condition
-- on status would make the planner use the index of running rows with its dead entries.
--
-- A first statement locks the runs. The second one has a younger snapshot, which shows the rows as they were locked; it
-- finds each by id again and writes it by its ctid. One statement for both would miss a run whose row was changed while
-- it waited for the lock, for example by a cancel: the lock returns the ctid of the new row version, which the snapshot
-- of the same statement does not show. Every statement of a volatile function has its own snapshot only in READ
-- COMMITTED: anything else is refused.
--
-- Planned once per connection, like claim. There is one lookup per id: lateral subqueries that cannot be flattened
-- leave the planner no other choice. The ctid is the cheapest access whatever the statistics say, as long as plans that
-- materialize, hash or merge all rows are switched off.
create or replace function jobrun.settle(run_ids bigint[], claim_seqs bigint[], runner_ids bigint[], outcomes text[],
	delays_ms bigint[], error_codes text[], errors text[], exit_statuses integer[], pids bigint[], cpu_ms bigint[],
	max_rss_kb bigint[], outputs text[], outputs_dropped bigint[], results text[], progress text[], checkpoints text[],
	settled_at timestamptz)
returns table (id bigint, claim_seq bigint, status text, attempts bigint, max_attempts bigint, run_in_ms bigint, alarm bigint)
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off as $fn$
#variable_conflict use_column
declare
	v_now constant timestamptz := settled_at;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.settle needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	end if;
	if 'succeeded' = all (outcomes) then
		-- The usual case. Each run ends in the same way whatever its row says, so one statement does, as in settle_done.
		return query with settled as (
			update jobrun.job_runs r
			set status = 'succeeded', locked_until = null, finished_at = v_now, error_code = null, last_error = null,
				output = null, output_dropped = null,
				progress   = case when g.progress is null then r.progress else nullif(g.progress::jsonb -> 'progress', 'null') end,
				checkpoint = case when g.checkpoint is null then r.checkpoint
					else nullif(g.checkpoint::jsonb -> 'checkpoint', 'null') end,
				result     = case when g.result is null then r.result else nullif(g.result::jsonb -> 'result', 'null') end
			from (select g.* from unnest(run_ids, claim_seqs, runner_ids, error_codes, errors, exit_statuses, pids, cpu_ms,
						max_rss_kb, outputs, outputs_dropped, results, progress, checkpoints)
					as g(id, claim_seq, runner_id, error_code, error, exit_status, pid, cpu_ms, max_rss_kb,
						output, output_dropped, result, progress, checkpoint)
				order by g.id) g
			where r.id = any (array[g.id]) and r.claim_seq = g.claim_seq and r.runner_id = g.runner_id and r.locked_until is not null
			returning r.id, r.claim_seq, r.runner_id, r.attempts, r.max_attempts, r.started_at, r.locked_by,
				g.error_code, g.error, g.exit_status, g.pid, g.cpu_ms, g.max_rss_kb, g.output, g.output_dropped
		), told as (
			insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, error, exit_status, host, pid,
				runner_id, started_at, finished_at, output, output_dropped, cpu_ms, max_rss_kb)
			select s.id, s.claim_seq, s.attempts, 'succeeded', s.error_code, s.error, s.exit_status, s.locked_by, s.pid,
				s.runner_id, s.started_at, v_now, s.output, coalesce(s.output_dropped, 0), s.cpu_ms, s.max_rss_kb
			from settled s
			where s.output is not null or s.cpu_ms >= 1000 or s.max_rss_kb >= 262144
			on conflict do nothing
		)
		select s.id, s.claim_seq, 'succeeded', s.attempts, s.max_attempts, null::bigint, null::bigint from settled s;
		return;
	end if;
	-- in order of id, so that two settles cannot deadlock
	perform from (select g.* from unnest(run_ids, claim_seqs, runner_ids) g(id, claim_seq, runner_id) order by g.id) g
	cross join lateral (select from jobrun.job_runs r
		where r.id = g.id and r.claim_seq = g.claim_seq and r.runner_id = g.runner_id and r.locked_until is not null
		for no key update) r;
	return query with given as materialized (
		select g.* from unnest(run_ids, claim_seqs, runner_ids, outcomes, delays_ms, error_codes, errors, exit_statuses, pids, cpu_ms,
				max_rss_kb, outputs, outputs_dropped, results, progress, checkpoints)
			as g(id, claim_seq, runner_id, outcome, delay_ms, error_code, error, exit_status, pid, cpu_ms, max_rss_kb,
				output, output_dropped, result, progress, checkpoint)
	), held as materialized (
		select g.*, r.* from given g cross join lateral (
			select r.ctid as place, r.attempts, r.max_attempts, r.snoozes, r.releases, r.cancel_requested_at,
				r.output as last_output, r.output_dropped as last_dropped -- the last known output of an attempt that was lost
			from jobrun.job_runs r
			where r.id = g.id and r.claim_seq = g.claim_seq and r.runner_id = g.runner_id and r.locked_until is not null
				and (g.outcome <> 'lost' or r.locked_until <= v_now)
			offset 0) r
	), judged as (
		select h.*,
			case
				when h.outcome = 'succeeded' then 'succeeded'
				when h.outcome = 'cancelled' or h.cancel_requested_at is not null then 'cancelled'
				when h.outcome = 'dead' then 'dead'
				when h.outcome = 'unstarted' then 'queued' -- it was not started, so no attempt counts
				-- these do not count as attempts, but from the 50th "later" and the 4th "released" on they count as failures
				when h.outcome = 'later' and h.snoozes + 1 < 50 then 'queued'
				when h.outcome = 'released' and h.releases + 1 < 4 then 'queued'
				when h.attempts >= h.max_attempts then 'dead'
				else 'failed'
			end as status,
			case
				when h.outcome = 'later' then least(coalesce(h.delay_ms, 0), 86400000)
				else coalesce(h.delay_ms, 0)
			end * interval '1 millisecond' as delay
		from held h
	), settled as (
		update jobrun.job_runs r
		set status       = j.status,
			locked_until = null,
			attempts     = r.attempts - (j.status = 'queued' or j.outcome = 'unstarted')::integer,
			snoozes      = r.snoozes + (j.status = 'queued' and j.outcome = 'later')::integer,
			releases     = r.releases + (j.status = 'queued' and j.outcome = 'released')::integer,
			run_at       = case
				when j.outcome = 'unstarted' then r.run_at
				when j.status = 'queued' and j.outcome = 'released' then v_now
				when j.status in ('queued', 'failed') then v_now + j.delay
				else r.run_at end,
			cancel_requested_at = case when j.status not in ('queued', 'failed') then r.cancel_requested_at end,
			failed_at    = case when j.status in ('failed', 'dead') then v_now else r.failed_at end,
			finished_at  = case when j.status in ('succeeded', 'dead', 'cancelled') then v_now end,
			error_code   = case when j.outcome = 'unstarted' then r.error_code when j.status <> 'succeeded' then j.error_code end,
			last_error   = case when j.outcome = 'unstarted' then r.last_error when j.status <> 'succeeded' then j.error end,
			output       = null,
			output_dropped = null,
			progress     = case when j.progress is null then r.progress
				else nullif(j.progress::jsonb -> 'progress', 'null') end,
			checkpoint   = case when j.checkpoint is null then r.checkpoint
				else nullif(j.checkpoint::jsonb -> 'checkpoint', 'null') end,
			result       = case when j.status = 'succeeded' and j.result is not null
				then nullif(j.result::jsonb -> 'result', 'null') else r.result end
		from judged j
		where r.ctid = j.place
		returning r.id, r.claim_seq, r.runner_id, r.status, r.attempts, r.max_attempts, r.run_at, r.started_at, r.locked_by,
			j.attempts as attempt, j.outcome, j.error_code, j.error, j.exit_status, j.pid, j.cpu_ms, j.max_rss_kb,
			case when j.outcome = 'lost' then j.last_output else j.output end as output,
			case when j.outcome = 'lost' then j.last_dropped else j.output_dropped end as output_dropped
	), told as (
		insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, error, exit_status, host, pid, runner_id,
			started_at, finished_at, output, output_dropped, cpu_ms, max_rss_kb)
		select s.id, s.claim_seq, s.attempt, s.outcome, s.error_code, s.error, s.exit_status, s.locked_by, s.pid, s.runner_id,
			s.started_at, v_now, s.output, coalesce(s.output_dropped, 0), s.cpu_ms, s.max_rss_kb
		from settled s
		where s.outcome <> 'unstarted'
			and (s.outcome <> 'succeeded' or s.output is not null or s.cpu_ms >= 1000 or s.max_rss_kb >= 262144)
		on conflict do nothing
	)
	select s.id, s.claim_seq, s.status, s.attempts, s.max_attempts,
		case when s.status in ('queued', 'failed')
			then greatest(0, (extract(epoch from s.run_at - v_now) * 1000)::bigint) end as run_in_ms,
		case when s.status = 'dead' then jobrun.raise_alarm(s.id, s.claim_seq) end as alarm
	from settled s;
end
$fn$;

-- settle_group: end the runs whose effects are in this transaction as the arrays say; called as the last statement
-- before COMMIT. If one of these claims is not held any more it raises JR074, so that the COMMIT after it can only roll
-- back: effects, ends and alarms of all runs are committed together or not at all. The time is that of the clock. A
-- group of which all runs have succeeded is the usual one, and settle_done ends it for less.
create or replace function jobrun.settle_group(run_ids bigint[], claim_seqs bigint[], runner_id bigint, outcomes text[],
	delays_ms bigint[], error_codes text[], errors text[])
returns table (id bigint, status text, run_in_ms bigint)
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_runners constant bigint[] := array_fill(settle_group.runner_id, array[cardinality(run_ids)]);
	v_settled bigint;
begin
	return query select s.id, s.status, s.run_in_ms
		from jobrun.settle(run_ids, claim_seqs, v_runners, outcomes, delays_ms, error_codes, errors,
			null, null, null, null, null, null, null, null, null, clock_timestamp()) s;
	get diagnostics v_settled = row_count;
	if v_settled <> cardinality(run_ids) then
		raise exception 'the lease of % of % runs is lost: nothing of this transaction is kept',
			cardinality(run_ids) - v_settled, cardinality(run_ids) using errcode = 'JR074';
	end if;
end
$fn$;

-- settle_done: the runs whose effects are in this transaction have succeeded; called as the last statement before
-- COMMIT. If one of these claims is not held any more it raises JR074, so that the COMMIT after it can only roll back:
-- effect and success are committed together or not at all. results: the result of each run, or null; JR054 if one is
-- too large. The time is that of the clock, since now() is when the handler's transaction began.
--
-- One statement, which locks no row before it writes it: each run ends in the same way whatever its row says, and READ
-- COMMITTED looks at a row that has changed meanwhile again, with the fence. It takes them in order of id, so that two
-- cannot deadlock. The planner can find a run only by its id, once for each: "= any (array[...])" is a condition of the
-- index that joins in no other way, and reading all rows is switched off.
create or replace function jobrun.settle_done(run_ids bigint[], claim_seqs bigint[], runner_id bigint, results jsonb[]) returns void
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_settled bigint;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.settle_done needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	elsif results is not null and exists (select from unnest(results) g(result) where pg_column_size(g.result) > 1049600) then
		raise exception 'the result takes more than 1 MiB in the database: nothing of the statement is kept' using errcode = 'JR054';
	end if;
	update jobrun.job_runs r
	set status = 'succeeded', locked_until = null, finished_at = clock_timestamp(), error_code = null, last_error = null,
		output = null, output_dropped = null, result = coalesce(g.result, r.result)
	from (select g.* from unnest(run_ids, claim_seqs, results) g(id, claim_seq, result) order by g.id) g
	where r.id = any (array[g.id]) and r.claim_seq = g.claim_seq and r.runner_id = v_runner and r.locked_until is not null;
	get diagnostics v_settled = row_count;
	if v_settled <> cardinality(run_ids) then
		raise exception 'the lease of % of % runs is lost: nothing of this transaction is kept',
			cardinality(run_ids) - v_settled, cardinality(run_ids) using errcode = 'JR074';
	end if;
end
$fn$;

-- settle_one: the same for one run, which is what most transactions end: nothing to join, and no array to read.
create or replace function jobrun.settle_one(run_id bigint, claim_seq bigint, runner_id bigint, result jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
declare
	v_claim_seq constant bigint := claim_seq;
	v_runner    constant bigint := runner_id;
	v_result    constant jsonb := result;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.settle_one needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	elsif pg_column_size(v_result) > 1049600 then
		raise exception 'the result takes more than 1 MiB in the database: nothing of the statement is kept' using errcode = 'JR054';
	end if;
	update jobrun.job_runs r
	set status = 'succeeded', locked_until = null, finished_at = clock_timestamp(), error_code = null, last_error = null,
		output = null, output_dropped = null, result = coalesce(v_result, r.result)
	where r.id = run_id and r.claim_seq = v_claim_seq and r.runner_id = v_runner and r.locked_until is not null;
	if not found then
		raise exception 'the lease of the run is lost: nothing of this transaction is kept' using errcode = 'JR074';
	end if;
end
$fn$;

-- raise_alarm: called by settle when a run is dead: enqueue a run of the job type in on_dead of its definition (its
-- own, else the definition named like its job type), with the facts about the dead run. An alarm that is dead raises no
-- alarm. An error here must not fail the settle: it becomes a warning in the server's log, and with SQLSTATE JR001 the
-- runner prints it for people, whatever client_min_messages its session has. Returns the id of the alarm or null.
create or replace function jobrun.raise_alarm(run_id bigint, claim_seq bigint) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, jobrun, pg_temp set client_min_messages = warning as $fn$
#variable_conflict use_column
declare
	v_hint  text;
	v_run   jobrun.job_runs;
	v_def   jobrun.job_definitions;
	v_facts jsonb;
	v_done  jobrun.enqueued;
begin
	select r.* into v_run from jobrun.job_runs r
	where r.id = raise_alarm.run_id and r.claim_seq = raise_alarm.claim_seq and r.status = 'dead';
	select d.* into v_def from jobrun.job_definitions d
	where d.id = v_run.definition_id or (v_run.definition_id is null and d.name = v_run.job_type);
	if v_def.on_dead is null or starts_with(v_run.idempotency_key, 'on_dead:') then
		return null;
	end if;
	v_facts := jsonb_build_object('run_id', v_run.id, 'job_type', v_run.job_type, 'queue', v_run.queue, 'definition', v_def.name,
		'slot', v_run.slot, 'attempts', v_run.attempts, 'max_attempts', v_run.max_attempts, 'error_code', v_run.error_code,
		'error', v_run.last_error, 'host', v_run.locked_by, 'started_at', v_run.started_at, 'failed_at', v_run.failed_at,
		'parent_id', v_run.parent_id);
	begin
		v_facts := v_facts || jsonb_build_object('payload', v_run.payload);
	exception when statement_too_complex then
		null;     -- a client may nest its payload as deep as fits, and then it does not fit into another
	end;
	if octet_length(v_facts::text) > 1048576 or pg_column_size(v_facts) > 1048576 then
		v_facts := v_facts - 'payload';
	end if;
	perform jobrun.check_type(v_def.on_dead);
	-- Not through enqueue_run, which refuses this key: a client that used the key first would suppress the alarm.
	v_done := jobrun.insert_run(jobrun.new_run(v_def.on_dead, v_facts, null, null, null, null, null, null, null, null, null,
		format('on_dead:%s:%s', v_run.id, v_run.claim_seq), null, null, v_run.id, v_run.trace_context), 'keep');
	if v_done.created and v_done.run_at <= now() then
		perform jobrun.call_runners(v_done.job_type || ' ' || v_done.priority || ' ' || v_done.queue);
	end if;
	-- In the transaction of a group now() is older; the alarm gets the time at which its run died.
	if v_done.created and v_run.finished_at > now() then
		update jobrun.job_runs r set created_at = v_run.finished_at, run_at = v_run.finished_at where r.id = v_done.id;
	end if;
	return v_done.id;
exception when others then
	get stacked diagnostics v_hint = pg_exception_hint;
	raise warning 'run % is dead, and its alarm could not be enqueued: %', run_id, sqlerrm using errcode = 'JR001',
		hint = concat_ws('; ', nullif(v_hint, ''), format('no "%s" tells of it; to name another alarm: jobrun define %s --on-dead TYPE',
			v_def.on_dead, v_def.name));
	return null;
end
$fn$;
