-- repair: cancel and retry, by people.

-- cancel: end a waiting run, or ask a running one to end (its status does not change; its runner sees the request at
-- the next heartbeat, or at once if it lingers). Returns cancelled or requested; succeeded, dead or cancelled if it had
-- ended before; null if there is no such run, or it belongs to another role and the caller is no admin.
create or replace function jobrun.cancel(id bigint, reason text default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_all constant boolean := jobrun.may('admin');
	v_run jobrun.job_runs;
begin
	select r.* into v_run from jobrun.job_runs r where r.id = cancel.id and (v_all or r.created_by = jobrun.caller()) for no key update;
	if v_run.status in ('queued', 'failed') then
		-- not now(): the caller's transaction may have begun in an hour that is summed already
		update jobrun.job_runs r set status = 'cancelled', finished_at = clock_timestamp(), error_code = 'cancelled'
		where r.id = cancel.id;
		perform jobrun.audit('cancel', 'run ' || id, jsonb_build_object('status', v_run.status, 'attempts', v_run.attempts),
			'{"status": "cancelled"}', reason);
		return 'cancelled';
	elsif v_run.status = 'running' then
		update jobrun.job_runs r set cancel_requested_at = now() where r.id = cancel.id and r.cancel_requested_at is null;
		if found then
			perform jobrun.audit('cancel', 'run ' || id, jsonb_build_object('status', 'running', 'attempts', v_run.attempts),
				'{"status": "running", "cancel_requested": true}', reason);
		end if;
		perform jobrun.call_runners('cancel', v_run.runner_id);
		return 'requested';
	elsif v_run.id is null then
		return (select r.status from jobrun.job_runs_archive r where r.id = cancel.id and (v_all or r.created_by = jobrun.caller()));
	end if;
	return v_run.status;
end
$fn$;

-- may_cancel: those of these runs that cancel() does not hide from this caller, whatever their status.
create or replace function jobrun.may_cancel(ids bigint[]) returns setof bigint
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_all constant boolean := jobrun.may('admin');
begin
	return query
		select r.id from jobrun.job_runs r where r.id = any (ids) and (v_all or r.created_by = jobrun.caller())
		union all
		select r.id from jobrun.job_runs_archive r where r.id = any (ids) and (v_all or r.created_by = jobrun.caller());
end
$fn$;

-- payload_mark: what the audit tells of a payload.
create or replace function jobrun.payload_mark(payload jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
select jsonb_build_object('payload_bytes', octet_length(payload::text),
	'payload_sha256', encode(sha256(convert_to(payload::text, 'UTF8')), 'hex'))
$fn$;

-- retry: make a run due now with a full number of attempts; claim_seq goes on. With a unique key it counts as one that was
-- claimed before, even if it was not: a newer run of the key may wait beside it, and ends it by its start. Returns retried;
-- running (refused); succeeded, or superseded if a newer run of its unique key is running or has succeeded (both refused without
-- force; with force a superseded run loses its key, or it would not start); null if there is no such run. A run in the archive
-- comes back, unless its idempotency key has gone to another run (JR065). A payload that is given replaces its own; the
-- audit then has size and digest of both, since roles that see no payloads read it. The checkpoint belongs to what was
-- done with the old one, and is dropped.
create or replace function jobrun.retry(id bigint, force boolean default false, reason text default null, payload jsonb default null)
returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_run      jobrun.job_runs;
	v_newer    bigint;
	v_archived boolean;
	v_old      jsonb;
	v_new      jsonb;
begin
	begin
		select r.* into v_run from jobrun.job_runs r where r.id = retry.id for no key update;
		if v_run.status = 'running' then           -- give the lock back, or it would block heartbeats
			raise exception 'run % is running', id using errcode = 'JR001';
		end if;
	exception when sqlstate 'JR001' then
		return 'running';
	end;
	v_archived := v_run.id is null;
	if v_archived then
		select r.id, r.job_type, r.unique_key, r.status, r.attempts
		into v_run.id, v_run.job_type, v_run.unique_key, v_run.status, v_run.attempts
		from jobrun.job_runs_archive r where r.id = retry.id;
	end if;
	if v_run.status is null or (v_run.status = 'succeeded' and force is not true) then
		return v_run.status;
	end if;
	v_newer := case when v_run.unique_key is not null then jobrun.newer_or_archived(v_run.job_type, v_run.unique_key, v_run.id) end;
	if v_newer is not null and force is not true then
		return 'superseded';
	end if;

	if octet_length(retry.payload::text) > 1048576 or pg_column_size(retry.payload) > 1049600 then
		raise exception 'the payload has % bytes; the limit is 1048576', greatest(octet_length(retry.payload::text),
			pg_column_size(retry.payload)) using errcode = 'JR065';
	end if;

	-- If another session brings it back at the same time, that run may run already: look again.
	if v_archived and not jobrun.bring_back(id) then
		return jobrun.retry(id, force, reason, retry.payload);
	end if;
	if v_archived then
		select r.* into v_run from jobrun.job_runs r where r.id = retry.id;
	end if;
	if retry.payload is not null then
		v_old := jobrun.payload_mark(v_run.payload);
		v_new := jobrun.payload_mark(retry.payload);
	end if;
	if v_run.concurrency_key is not null then
		perform jobrun.need_queue(v_run.queue);
	end if;
	-- A plain success is recorded in the row of the run alone, so write an attempt before that row changes.
	if v_run.status = 'succeeded' then
		insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, host, runner_id, started_at, finished_at)
		values (v_run.id, v_run.claim_seq, v_run.attempts, 'succeeded', v_run.locked_by, v_run.runner_id, v_run.started_at, v_run.finished_at)
		on conflict do nothing;
	end if;
	-- What it had come to, and how late it was, is told by the row of the run until now, and from now on by that of the attempt.
	update jobrun.job_attempts a set due_at = v_run.run_at, run_status = v_run.status
	where a.run_id = v_run.id and a.claim_seq = v_run.claim_seq and (a.finished_at = v_run.finished_at) is true;

	update jobrun.job_runs r
	set status = 'queued', run_at = now(), attempts = 0, snoozes = 0, releases = 0,
		finished_at = null, cancel_requested_at = null, superseded_by = null, result = null, progress = null,
		-- a run that has expired would only expire again
		expires_at = case when r.expires_at > now() then r.expires_at end,
		payload = coalesce(retry.payload, r.payload),
		-- with the checkpoint of a success the next attempt would have nothing to do
		checkpoint = case when r.status <> 'succeeded' and retry.payload is null then r.checkpoint end,
		unique_key = case when v_newer is null then r.unique_key end,
		-- cancelled before its first claim: it must not enter job_runs_unique again, where another run may be now
		claim_seq = case when v_newer is null and r.unique_key is not null and r.finished_at is not null then greatest(r.claim_seq, 1)
			else r.claim_seq end
	where r.id = retry.id;
	perform jobrun.audit('retry', 'run ' || id, jsonb_build_object('status', v_run.status, 'attempts', v_run.attempts) || coalesce(v_old, '{}'),
		'{"status": "queued"}' || coalesce(v_new, '{}'), reason);
	perform jobrun.call_runners('');
	return 'retried';
end
$fn$;
