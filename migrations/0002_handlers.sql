-- 0002: what handlers can tell while they work, effects that happen once, and completions that commit with their effect.

-- What the running attempt has printed, as of the last heartbeat. Null when it is over: then job_attempts has it.
alter table jobrun.job_runs add column output_dropped bigint, add column output text;
alter table jobrun.job_runs add constraint job_runs_output
	check (output is null or (locked_until is not null and pg_column_size(output) <= 262144)) not valid;
alter table jobrun.job_runs_archive add column output_dropped bigint, add column output text;

-- Running rows as a runner gets them; two more columns: whose claim it is, and when it began by the database's clock.
create or replace view jobrun.held_runs as
select r.id, r.claim_seq, r.job_type, r.queue, r.priority, r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases,
	(extract(epoch from r.timeout) * 1000)::bigint      as timeout_ms,
	(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
	(extract(epoch from r.backoff_cap) * 1000)::bigint  as backoff_cap_ms,
	r.expires_at is not null and r.expires_at <= now()  as expired,
	r.cancel_requested_at is not null                   as cancelled,
	coalesce(r.idempotency_key, (select s.install_id::text from jobrun.settings s) || '-' || r.id) as key,
	to_char(r.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as slot,
	r.checkpoint::text as checkpoint,
	r.trace_context,
	r.payload::text    as payload,
	r.runner_id,
	floor(extract(epoch from r.started_at) * 1000)::bigint as started_ms
from jobrun.job_runs r
where r.locked_until is not null;

-- settle_done: the runs whose effect is in this transaction have succeeded; called as the last statement before COMMIT.
-- If one of these claims is not held any more it raises JR074, so that a COMMIT behind it can only roll back: effect and
-- completion are there together or not at all. results: what each gave, or null; JR054 if one is too large. The time is that of the clock, since
-- now() is when the handler's transaction began.
create function jobrun.settle_done(run_ids bigint[], claim_seqs bigint[], runner_id bigint, results jsonb[]) returns void
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

-- effect: true until a transaction that called it with this key has committed. Who calls it while another transaction has
-- done so waits for its end. In the transaction that has the effect it is exact: `if jobrun.effect('mail-42') then ...`.
-- Inside a handler (settings jobrun.run_id and jobrun.claim; sql handlers have them) it raises JR074 when that claim is
-- not the running one any more.
create function jobrun.effect(key text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_key   constant text := key;
	v_run   constant bigint := nullif(current_setting('jobrun.run_id', true), '')::bigint;
	v_claim constant bigint := nullif(current_setting('jobrun.claim', true), '')::bigint;
begin
	perform jobrun.check_key('key', v_key);
	if v_key is null then
		raise exception 'key must not be null' using errcode = 'null_value_not_allowed';
	elsif v_run is not null and not exists (select from jobrun.job_runs r
		where r.id = v_run and r.claim_seq = v_claim and r.locked_until is not null)
	then
		raise exception 'claim % of run % is not the running one any more', v_claim, v_run using errcode = 'JR074';
	end if;
	insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at) values (v_key, v_run, v_claim, now())
	on conflict (key) do update set run_id = excluded.run_id, claim_seq = excluded.claim_seq,
		started_at = excluded.started_at, done_at = excluded.done_at
		where e.done_at is null;
	return found;
end
$fn$;

revoke all on all functions in schema jobrun from public;
