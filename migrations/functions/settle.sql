-- settle: how runs end, and what their deaths set off.

-- settle: what attempts came to, of every kind; the only statement that ends a run that was running. Arrays of equal length (null
-- stands for nulls): runner_ids of the holders, also when they are dead; outcomes: succeeded, failed, dead, later, released,
-- unstarted, cancelled, lost; outputs_dropped: bytes; results, progress and checkpoints as the lines of JOBRUN_OUT, JSON objects with a member
-- of that name. settled_at: what is now, since now() is when the transaction began.
-- Gives what was accepted, run_in_ms null when final, alarm the id of the one that a dead one has raised; what does not come back
-- was fenced out. A repeat changes nothing: the first one took the lease away.
--
-- The fence is id, claim_seq, runner_id and "locked_until is not null". The last means running, by a CHECK; saying so
-- with status would lead the planner to the index of running rows and its dead entries. Planned once a connection, as claim is; what
-- is off leaves one lookup by id for each run, whatever the statistics say.
create or replace function jobrun.settle(run_ids bigint[], claim_seqs bigint[], runner_ids bigint[], outcomes text[],
	delays_ms bigint[], error_codes text[], errors text[], exit_statuses integer[], pids bigint[], cpu_ms bigint[],
	max_rss_kb bigint[], outputs text[], outputs_dropped bigint[], results text[], progress text[], checkpoints text[],
	settled_at timestamptz)
returns table (id bigint, claim_seq bigint, status text, attempts bigint, max_attempts bigint, run_in_ms bigint, alarm bigint)
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $fn$
#variable_conflict use_column
declare
	v_now constant timestamptz := settled_at;
begin
	return query with given as materialized (
		select g.* from unnest(run_ids, claim_seqs, runner_ids, outcomes, delays_ms, error_codes, errors, exit_statuses, pids, cpu_ms,
				max_rss_kb, outputs, outputs_dropped, results, progress, checkpoints)
			as g(id, claim_seq, runner_id, outcome, delay_ms, error_code, error, exit_status, pid, cpu_ms, max_rss_kb,
				output, output_dropped, result, progress, checkpoint)
	), held as materialized (
		-- locked in order of id, so that no two batches can wait for each other
		select g.*, r.attempts, r.max_attempts, r.snoozes, r.releases, r.cancel_requested_at,
			r.output as last_output, r.output_dropped as last_dropped -- all that is known of an attempt that was lost
		from given g join jobrun.job_runs r on r.id = g.id
		where r.claim_seq = g.claim_seq and r.runner_id = g.runner_id and r.locked_until is not null
			and (g.outcome <> 'lost' or r.locked_until <= v_now)
		order by r.id
		for no key update of r
	), judged as (
		select h.*,
			case
				when h.outcome = 'succeeded' then 'succeeded'
				when h.outcome = 'cancelled' or h.cancel_requested_at is not null then 'cancelled'
				when h.outcome = 'dead' then 'dead'
				when h.outcome = 'unstarted' then 'queued' -- nothing was tried, so nothing is counted
				-- not charged, but not for ever either: from the 50th and the 4th time on it is a failure
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
		where r.id = j.id and r.claim_seq = j.claim_seq and r.runner_id = j.runner_id and r.locked_until is not null
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

-- settle_group: the runs whose effects are in this transaction end as the arrays say, by settle and on the same terms; called as the
-- last statement before COMMIT. If one of these claims is not held any more it raises JR074, so that a COMMIT behind it can only
-- roll back: effects, ends and alarms of all of them are there together or not at all. The time is that of the clock.
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

-- settle_done: the runs whose effect is in this transaction have succeeded; called as the last statement before COMMIT.
-- If one of these claims is not held any more it raises JR074, so that a COMMIT behind it can only roll back: effect and
-- completion are there together or not at all. results: what each gave, or null; JR054 if one is too large. The time is that of the clock, since
-- now() is when the handler's transaction began.
create or replace function jobrun.settle_done(run_ids bigint[], claim_seqs bigint[], runner_id bigint, results jsonb[]) returns void
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_settled bigint;
begin
	if exists (select from unnest(results) g(result) where pg_column_size(g.result) > 1049600) then
		raise exception 'the result takes more than 1 MiB in the database: nothing of the statement is kept' using errcode = 'JR054';
	end if;
	with held as materialized (
		select r.id, g.result
		from unnest(run_ids, claim_seqs, results) g(id, claim_seq, result)
		join jobrun.job_runs r on r.id = g.id
		where r.claim_seq = g.claim_seq and r.runner_id = v_runner and r.locked_until is not null
		order by r.id
		for no key update of r)
	update jobrun.job_runs r
	set status = 'succeeded', locked_until = null, finished_at = clock_timestamp(), error_code = null, last_error = null,
		output = null, output_dropped = null, result = coalesce(held.result, r.result)
	from held
	where r.id = held.id;
	get diagnostics v_settled = row_count;
	if v_settled <> cardinality(run_ids) then
		raise exception 'the lease of % of % runs is lost: nothing of this transaction is kept',
			cardinality(run_ids) - v_settled, cardinality(run_ids) using errcode = 'JR074';
	end if;
end
$fn$;

-- raise_alarm: for settle, when a run goes dead: enqueues the on_dead of its definition (the one it is of, else the one named
-- as its type) with what is known of the run. An alarm that dies raises none. Whatever is wrong with it must not cost the
-- settle: it is a warning in the server's log. Returns the id of the alarm or null.
create or replace function jobrun.raise_alarm(run_id bigint, claim_seq bigint) returns bigint
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
	if v_def.on_dead is null or starts_with(v_run.idempotency_key, 'on_dead:') then
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
