-- settle: how a run ends inside the transaction of its effect, and what its death sets off. (Runners end runs with settle.sql.)

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
	if v_def.on_dead is null or v_run.idempotency_key like 'on\_dead:%' then
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
