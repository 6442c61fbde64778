-- views: runs and attempts as people, clients and runners see them.

-- all_runs: runs, archived or not, with all columns and the status of the tables, for commands.
create or replace view jobrun.all_runs as
select r.id, r.job_type, r.queue, r.priority, r.status, r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq,
	r.locked_by, r.locked_until, r.runner_id, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at,
	r.cancel_requested_at, r.definition_id, r.slot, r.parent_id, r.superseded_by, r.idempotency_key, r.unique_key, r.concurrency_key,
	r.timeout, r.backoff_base, r.backoff_cap, r.trace_context, r.error_code, r.output_dropped, null::timestamptz as archived_at
from jobrun.job_runs r
union all
select r.id, r.job_type, r.queue, r.priority, r.status, r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq,
	r.locked_by, r.locked_until, r.runner_id, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at,
	r.cancel_requested_at, r.definition_id, r.slot, r.parent_id, r.superseded_by, r.idempotency_key, r.unique_key, r.concurrency_key,
	r.timeout, r.backoff_base, r.backoff_cap, r.trace_context, r.error_code, r.output_dropped, r.archived_at
from jobrun.job_runs_archive r;

-- runs: the runs for people: "retrying" instead of "failed", no payload, result, output or error text.
create or replace view jobrun.runs with (security_barrier) as
select r.id, r.job_type, r.queue, r.priority, case r.status when 'failed' then 'retrying' else r.status end as status,
	r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq, r.error_code, r.locked_by as host, r.runner_id,
	r.locked_until, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at, r.cancel_requested_at,
	r.definition_id, r.slot, r.parent_id, r.idempotency_key, r.unique_key, r.concurrency_key, r.timeout, r.backoff_base, r.backoff_cap,
	false as archived, r.superseded_by
from jobrun.job_runs r
union all
select r.id, r.job_type, r.queue, r.priority, r.status,
	r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq, r.error_code, r.locked_by, r.runner_id,
	r.locked_until, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at, r.cancel_requested_at,
	r.definition_id, r.slot, r.parent_id, r.idempotency_key, r.unique_key, r.concurrency_key, r.timeout, r.backoff_base, r.backoff_cap,
	true, r.superseded_by
from jobrun.job_runs_archive r;

-- attempts: all attempts that have ended, archived or not: the rows of job_attempts, and plain successes, which only the
-- run records.
create or replace view jobrun.attempts with (security_barrier) as
select a.run_id, a.claim_seq, a.attempt, a.outcome, a.error_code, a.exit_status, a.host, a.pid, a.runner_id,
	a.started_at, a.finished_at, a.cpu_ms, a.max_rss_kb, a.output_dropped
from jobrun.job_attempts a
union all
select a.run_id, a.claim_seq, a.attempt, a.outcome, a.error_code, a.exit_status, a.host, a.pid, a.runner_id,
	a.started_at, a.finished_at, a.cpu_ms, a.max_rss_kb, a.output_dropped
from jobrun.job_attempts_archive a
union all
select r.id, r.claim_seq, r.attempts, r.status, null, null, r.locked_by, null, r.runner_id, r.started_at, r.finished_at, null, null, 0
from jobrun.job_runs r
where r.status = 'succeeded'
	and not exists (select from jobrun.job_attempts a where a.run_id = r.id and a.claim_seq = r.claim_seq)
union all
select r.id, r.claim_seq, r.attempts, r.status, null, null, r.locked_by, null, r.runner_id, r.started_at, r.finished_at, null, null, 0
from jobrun.job_runs_archive r
where r.status = 'succeeded'
	and not exists (select from jobrun.job_attempts_archive a where a.run_id = r.id and a.claim_seq = r.claim_seq);

-- held_runs: running rows as a runner gets them. claim(), claim_job(), exec_claim() and adopt.sql all return these
-- columns, in this order, and rows without an id for queues and runs that they left out. expired: it had expired when
-- it was claimed. runner_id is the runner that claimed it, started_ms when the claim began by the database's clock.
-- tid, the ctid of the row, is for claim() alone; it stays the last column, and adopt.sql leaves it out.
create or replace view jobrun.held_runs as
select r.id, r.claim_seq, r.job_type, r.queue, r.priority, r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases,
	(extract(epoch from r.timeout) * 1000)::bigint      as timeout_ms,
	(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
	(extract(epoch from r.backoff_cap) * 1000)::bigint  as backoff_cap_ms,
	r.expires_at is not null and r.expires_at <= r.started_at as expired,
	r.cancel_requested_at is not null                   as cancelled,
	coalesce(r.idempotency_key, (select s.install_id::text from jobrun.settings s) || '-' || r.id) as key,
	to_char(r.slot at time zone 'UTC', case when date_trunc('second', r.slot) = r.slot then 'YYYY-MM-DD"T"HH24:MI:SS"Z"'
		else 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' end) as slot,     -- fractions: of an anchor from before they were cut off
	r.checkpoint::text as checkpoint,
	r.trace_context,
	r.payload::text    as payload,
	r.runner_id,
	(date_part('epoch', r.started_at) * 1000)::bigint   as started_ms,
	case when r.slot is not null then replace(jobrun.slot_text(r.slot,
		coalesce((select d.time_zone from jobrun.job_definitions d where d.id = r.definition_id), 'UTC'), true), ' ', 'T') end as slot_local,
	r.ctid as tid
from jobrun.job_runs r
where r.locked_until is not null;

-- run_status: the status of these runs, "retrying" instead of "failed"; result and error are null for kind read. No row
-- for an id that does not exist or that the caller may not see. A role sees its own runs, and with a grant of kind read, run or admin all runs.
create or replace function jobrun.run_status(ids bigint[])
returns table (id bigint, job_type text, status text, attempts bigint, max_attempts bigint, run_at timestamptz,
	finished_at timestamptz, error_code text, result jsonb, error text, superseded_by bigint)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_caller constant text := jobrun.caller();
	v_texts  constant boolean := jobrun.may('run', 'admin');
	v_all    constant boolean := v_texts or jobrun.may('read');
	v_n      bigint;
begin
	return query
		select r.id, r.job_type, case r.status when 'failed' then 'retrying' else r.status end, r.attempts, r.max_attempts, r.run_at, r.finished_at, r.error_code,
			case when v_texts or r.created_by = v_caller then r.result end,
			case when v_texts or r.created_by = v_caller then r.last_error end, r.superseded_by
		from jobrun.job_runs r where r.id = any (ids) and (v_all or r.created_by = v_caller) order by r.id;
	get diagnostics v_n = row_count;
	if v_n < cardinality(ids) then
		return query
			select r.id, r.job_type, r.status, r.attempts, r.max_attempts, r.run_at, r.finished_at, r.error_code,
				case when v_texts or r.created_by = v_caller then r.result end,
				case when v_texts or r.created_by = v_caller then r.last_error end, r.superseded_by
			from jobrun.job_runs_archive r where r.id = any (ids) and (v_all or r.created_by = v_caller) order by r.id;
	end if;
end
$fn$;

-- in_place_of: for each of these runs the run whose end counts: itself, or if a newer run of its unique key has
-- superseded it, that one, and so on. A newer run that does not exist any more, or that the caller may not see, does
-- not count.
create or replace function jobrun.in_place_of(ids bigint[]) returns table (id bigint, newer bigint)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_caller constant text := jobrun.caller();
	v_all    constant boolean := jobrun.may('read', 'run', 'admin');
	v_next   bigint;
	v_after  bigint;
begin
	for id in select distinct i.id from unnest(ids) i(id) loop
		newer := id;
		v_next := id;
		while v_next >= newer loop
			select r.superseded_by into v_after from jobrun.job_runs r where r.id = v_next and (v_all or r.created_by = v_caller);
			if not found then
				select r.superseded_by into v_after from jobrun.job_runs_archive r where r.id = v_next and (v_all or r.created_by = v_caller);
			end if;
			exit when not found;
			newer := v_next;
			v_next := case when v_after > v_next then v_after end;
		end loop;
		return next;
	end loop;
end
$fn$;

-- run_texts, attempt_texts: payload, result, error and output, for roles that may read them: the role that enqueued the
-- run, and kinds run and admin; nulls for others.
create or replace function jobrun.run_texts(id bigint)
returns table (payload jsonb, progress jsonb, checkpoint jsonb, result jsonb, last_error text, output text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
begin
	return query
		select r.payload, r.progress, r.checkpoint, r.result, r.last_error, r.output
		from jobrun.job_runs r
		where r.id = run_texts.id and (r.created_by = jobrun.caller() or jobrun.may('run', 'admin'));
	if not found then
		return query
			select r.payload, r.progress, r.checkpoint, r.result, r.last_error, null::text
			from jobrun.job_runs_archive r
			where r.id = run_texts.id and (r.created_by = jobrun.caller() or jobrun.may('run', 'admin'));
	end if;
	if not found then
		return query select null::jsonb, null::jsonb, null::jsonb, null::jsonb, null::text, null::text;
	end if;
end
$fn$;

create or replace function jobrun.attempt_texts(run_id bigint, claim_seq bigint) returns table (error text, output text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
begin
	return query
		select a.error, a.output from jobrun.job_attempts a
		where a.run_id = attempt_texts.run_id and a.claim_seq = attempt_texts.claim_seq
			and (jobrun.may('run', 'admin') or exists (select from jobrun.job_runs r
				where r.id = attempt_texts.run_id and r.created_by = jobrun.caller()));
	if not found then
		return query
			select a.error, a.output from jobrun.job_attempts_archive a
			where a.run_id = attempt_texts.run_id and a.claim_seq = attempt_texts.claim_seq
				and (jobrun.may('run', 'admin') or exists (select from jobrun.job_runs_archive r
					where r.id = attempt_texts.run_id and r.created_by = jobrun.caller()));
	end if;
	if not found then
		return query select null::text, null::text;
	end if;
end
$fn$;
