-- 0013 cheap_checks: the rules of a run in two CHECKs that call functions. Each statement that writes runs reads and plans the
-- CHECKs of the table anew: 19 of them were three quarters of the time of a single insert, and half of that of a settle of one run.
-- A function is planned once per connection. Operators have their schema, because the search_path is that of the client.

create function jobrun.are_names(job_type text, queue text) returns boolean
language plpgsql stable as $fn$
begin
	return (queue operator(pg_catalog.=) 'default' or jobrun.is_name(queue)) and jobrun.is_name(job_type);
end
$fn$;

-- null is as good as true, as in any CHECK. A run is final, running, or it waits. "locked_until is not null" is what every fence asks, so it must mean "running" exactly.
-- Each claim adds one to claim_seq and one to one of the three counters; only retry lowers them. CHECKs run again at every UPDATE.
-- pg_column_size reads no TOAST; the exact limit, 1 MiB of text, is in enqueue_run(), and the 1 KiB is room for the header that
-- jsonb adds to a text of exactly 1 MiB.
create function jobrun.is_run(
	status text, priority smallint, max_attempts bigint, attempts bigint, snoozes bigint, releases bigint, claim_seq bigint,
	run_at timestamptz, created_at timestamptz, locked_until timestamptz, started_at timestamptz, finished_at timestamptz,
	cancel_requested_at timestamptz, runner_id bigint, locked_by text, superseded_by bigint, timeout interval, backoff_base interval,
	backoff_cap interval, idempotency_key text, unique_key text, concurrency_key text, payload jsonb, progress jsonb, checkpoint jsonb,
	result jsonb, output text)
returns boolean
language plpgsql stable as $fn$
begin
	return case
		when finished_at is not null then
			status operator(pg_catalog.=) any (array['succeeded', 'dead', 'cancelled']) and locked_until is null and output is null
			and (superseded_by is null or status operator(pg_catalog.=) 'cancelled')
		when locked_until is not null then
			status operator(pg_catalog.=) 'running' and runner_id is not null and locked_by is not null and started_at is not null
			and attempts operator(pg_catalog.>=) 1 and superseded_by is null
			and pg_catalog.pg_column_size(output) operator(pg_catalog.<=) 262144
		else
			status operator(pg_catalog.=) any (array['queued', 'failed']) and cancel_requested_at is null
			and attempts operator(pg_catalog.<) max_attempts and superseded_by is null and output is null
		end
		and priority operator(pg_catalog.>=) -1000 and priority operator(pg_catalog.<=) 1000
		and max_attempts operator(pg_catalog.>=) 1 and max_attempts operator(pg_catalog.<=) 2147483647
		and attempts operator(pg_catalog.<=) max_attempts and least(attempts, snoozes, releases) operator(pg_catalog.>=) 0
		and claim_seq operator(pg_catalog.>=) (attempts operator(pg_catalog.+) snoozes operator(pg_catalog.+) releases)
		and pg_catalog.isfinite(run_at)
		and run_at operator(pg_catalog.<=) (created_at operator(pg_catalog.+) interval '101 years')
		and least(timeout, backoff_base, backoff_cap) operator(pg_catalog.>=) interval '0'
		and least(pg_catalog.octet_length(idempotency_key), pg_catalog.octet_length(unique_key),
			pg_catalog.octet_length(concurrency_key)) operator(pg_catalog.>=) 1
		and greatest(pg_catalog.octet_length(idempotency_key), pg_catalog.octet_length(unique_key),
			pg_catalog.octet_length(concurrency_key)) operator(pg_catalog.<=) 255
		and greatest(pg_catalog.pg_column_size(payload), pg_catalog.pg_column_size(checkpoint), pg_catalog.pg_column_size(result))
			operator(pg_catalog.<=) 1049600
		and pg_catalog.pg_column_size(progress) operator(pg_catalog.<=) 65536;
end
$fn$;

alter table jobrun.job_runs
	drop constraint if exists job_runs_status, drop constraint if exists job_runs_lease, drop constraint if exists job_runs_holder,
	drop constraint if exists job_runs_final, drop constraint if exists job_runs_cancel, drop constraint if exists job_runs_superseded,
	drop constraint if exists job_runs_output, drop constraint if exists job_runs_max_attempts,
	drop constraint if exists job_runs_attempts, drop constraint if exists job_runs_claims, drop constraint if exists job_runs_run_at,
	drop constraint if exists job_runs_horizon, drop constraint if exists job_runs_durations,
	drop constraint if exists job_runs_priority, drop constraint if exists job_runs_job_type, drop constraint if exists job_runs_queue,
	drop constraint if exists job_runs_keys, drop constraint if exists job_runs_payload, drop constraint if exists job_runs_sizes,
	add constraint job_runs_names check (jobrun.are_names(job_type, queue)),
	add constraint job_runs_rules check (jobrun.is_run(status, priority, max_attempts, attempts, snoozes, releases, claim_seq, run_at,
		created_at, locked_until, started_at, finished_at, cancel_requested_at, runner_id, locked_by, superseded_by, timeout,
		backoff_base, backoff_cap, idempotency_key, unique_key, concurrency_key, payload, progress, checkpoint, result, output));
