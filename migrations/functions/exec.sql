-- exec: a command that the host starts by itself (`jobrun exec`) is a run, too.

-- exec_skipped: why a command under this name would not be started now; null: it would.
create or replace function jobrun.exec_skipped(definition text) returns text
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
-- exec_skipped says why, or the runner has given up on this claim. timeout_ms: null: the definition's. Queue and max_attempts are of the run, not of the definition: what
-- is enqueued of a job type of this name is none of exec's business.
create or replace function jobrun.exec_claim(
	runner_id bigint, host text, definition text, lease_ms bigint, timeout_ms bigint, command text, claim_number bigint)
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
	elsif not jobrun.may_claim(runner_id, claim_number) then
		return;
	end if;
	perform jobrun.check_name('name', v_name);
	if not exists (select from jobrun.job_definitions d where d.name = v_name) then
		insert into jobrun.job_definitions (name, job_type) values (v_name, v_name)
		on conflict on constraint job_definitions_name do nothing;
		if found then
			perform jobrun.audit('define', 'definition ' || v_name, null, jsonb_build_object('job_type', v_name), 'first use by exec');
		end if;
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
