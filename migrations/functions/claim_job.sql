-- claim_job: claim one run by its id: run --job.

-- When claim_job() or exec_claim() takes nothing, a row without an id says why. If payload is set, it is the reason why the run must
-- not start now. If it is null, another session has locked the queue, or a run with the same unique key in it, or, for
-- exec_claim(), the definition (job_type), and the runner asks again.

-- claim_job: claim this one run, whatever its run_at, and whether its type, queue or definition is paused or not, if it
-- waits, no other session has locked it, the host has its job type, neither everything nor the host is paused, its queue's
-- limits have room, and the runner has not given up this claim. Otherwise zero rows, or the row without an id described
-- above. It waits for no lock.
create or replace function jobrun.claim_job(
	runner_id bigint, host text, job_id bigint, lease_ms bigint, job_types text[], claim_number bigint)
returns setof jobrun.held_runs
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_host   constant text := host;
	v_name   text;
	v_queue  jobrun.job_queues;
	v_run    jobrun.job_runs;
	v_reason text;
	v_keyed  record;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.claim_job needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	elsif not jobrun.may_claim(v_runner, claim_number) then
		return;
	end if;
	select r.queue into v_name from jobrun.job_runs r where r.id = job_id and r.finished_at is null;
	if exists (select from jobrun.job_queues q where q.name = v_name and jobrun.is_limited(q)) then
		select q.* into v_queue from jobrun.job_queues q where q.name = v_name for no key update skip locked;
		if not found then
			return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('queue', v_name)) h;
			return;
		end if;
	end if;
	select r.* into v_run from jobrun.job_runs r
	where r.id = job_id and r.finished_at is null and r.status in ('queued', 'failed') and r.job_type = any (job_types)
		and r.queue = v_name
	for no key update skip locked;
	if not found then
		return;
	end if;
	v_reason := coalesce(jobrun.held_back(v_host), jobrun.limit_reason(v_queue, v_run.concurrency_key));
	if v_reason is not null then
		return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('payload', v_reason)) h;
		return;
	end if;
	if v_run.unique_key is not null then
		v_keyed := jobrun.start_keyed(array[job_id], v_runner, v_host, now() + lease_ms * interval '1 millisecond', array[v_queue.name],
			false);
		return query select h.* from jobrun.held_runs h where h.id = any (v_keyed.started);
		if v_keyed.left_out <> '{}' then
			return query select h.* from jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('queue', v_name)) h;
		end if;
		return;
	end if;
	if (v_run.expires_at <= now()) is not true then
		perform jobrun.spend_rate(v_queue);
	end if;
	update jobrun.job_runs r
	set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = now() + lease_ms * interval '1 millisecond',
		started_at = now(), attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
	where r.id = job_id;
	return query select h.* from jobrun.held_runs h where h.id = job_id;
end
$fn$;
