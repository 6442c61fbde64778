-- 0013 cheap_checks: the rules of a run in two CHECKs that call functions. Each statement that writes runs reads and plans the
-- CHECKs of the table anew: 19 of them were three quarters of the time of a single insert, and half of that of a settle of one run.
-- A function is planned once per connection. Operators have their schema, because the search_path is that of the client.
--
-- is_enqueued() has the rules for what an enqueue says. Claims and settles do not change that, so it is asked only of runs that
-- wait: for a run that runs or has ended, it was asked before. is_run() has the rules for what changes while a run lives.
--
-- Each rule is written once, here. The functions have them all in one expression, which is all that a good row costs; if that
-- is false, one by one, to say which is broken. Null is as good as true, as in any CHECK.
do $do$
declare
	v_function record;
begin
	for v_function in
		select f.name, f.arguments,
			string_agg(format('(%s)', r.rule), ' and ' order by r.nr) as rules,
			string_agg(format('if (%s) is false then raise exception using errcode = ''check_violation'', schema = ''jobrun'', '
				'table = ''job_runs'', constraint = %L, message = %L; end if;', r.rule, r.name,
				format('new row for relation "job_runs" violates check constraint "%s": %s', r.name, r.words)), ' ' order by r.nr) as each
		from (values
			('is_enqueued', 'job_type text, queue text, priority smallint, run_at timestamptz, created_at timestamptz, '
				'timeout interval, backoff_base interval, backoff_cap interval, idempotency_key text, unique_key text, '
				'concurrency_key text, payload jsonb'),
			('is_run', 'status text, max_attempts bigint, attempts bigint, snoozes bigint, releases bigint, claim_seq bigint, '
				'locked_until timestamptz, started_at timestamptz, finished_at timestamptz, cancel_requested_at timestamptz, '
				'runner_id bigint, locked_by text, superseded_by bigint, progress jsonb, checkpoint jsonb, result jsonb, output text')
			) f(name, arguments)
		join (values
			(1, 'is_enqueued', 'job_runs_queue', 'queue is no name', $r$
				queue operator(pg_catalog.=) 'default' or jobrun.is_name(queue)$r$),
			(2, 'is_enqueued', 'job_runs_job_type', 'job_type is no name', $r$
				jobrun.is_name(job_type)$r$),
			-- "locked_until is not null" is what every fence asks, so it must mean "running" exactly
			(3, 'is_run', 'job_runs_state', 'a run is succeeded, dead or cancelled and has finished_at, and superseded_by only if cancelled; '
				'or running, and has locked_until, runner_id, locked_by, started_at and attempts >= 1, and output of at most 256 KiB; '
				'or queued or failed, and has attempts < max_attempts and no cancel_requested_at', $r$
				case
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
				end$r$),
			(4, 'is_enqueued', 'job_runs_priority', 'priority is from -1000 to 1000', $r$
				priority operator(pg_catalog.>=) -1000 and priority operator(pg_catalog.<=) 1000$r$),
			(5, 'is_run', 'job_runs_max_attempts', 'max_attempts is from 1 to 2147483647', $r$
				max_attempts operator(pg_catalog.>=) 1 and max_attempts operator(pg_catalog.<=) 2147483647$r$),
			(6, 'is_run', 'job_runs_attempts', 'attempts is from 0 to max_attempts', $r$
				attempts operator(pg_catalog.>=) 0 and attempts operator(pg_catalog.<=) max_attempts$r$),
			-- each claim adds one to claim_seq and one to one of the three counters; only retry lowers them
			(7, 'is_run', 'job_runs_claims', 'snoozes and releases are at least 0, and claim_seq at least attempts + snoozes + releases', $r$
				least(snoozes, releases) operator(pg_catalog.>=) 0
				and claim_seq operator(pg_catalog.>=) (attempts operator(pg_catalog.+) snoozes operator(pg_catalog.+) releases)$r$),
			(8, 'is_enqueued', 'job_runs_run_at', 'run_at is finite', $r$
				pg_catalog.isfinite(run_at)$r$),
			(9, 'is_enqueued', 'job_runs_horizon', 'run_at is at most 101 years after created_at', $r$
				run_at operator(pg_catalog.<=) (created_at operator(pg_catalog.+) interval '101 years')$r$),
			(10, 'is_enqueued', 'job_runs_durations', 'timeout, backoff_base and backoff_cap are not negative', $r$
				least(timeout, backoff_base, backoff_cap) operator(pg_catalog.>=) interval '0'$r$),
			(11, 'is_enqueued', 'job_runs_keys', 'idempotency_key, unique_key and concurrency_key have 1 to 255 bytes', $r$
				least(pg_catalog.octet_length(idempotency_key), pg_catalog.octet_length(unique_key),
					pg_catalog.octet_length(concurrency_key)) operator(pg_catalog.>=) 1
				and greatest(pg_catalog.octet_length(idempotency_key), pg_catalog.octet_length(unique_key),
					pg_catalog.octet_length(concurrency_key)) operator(pg_catalog.<=) 255$r$),
			-- pg_column_size reads no TOAST; the exact limit, 1 MiB of text, is in enqueue_run(), and the 1 KiB is room for the
			-- header that jsonb adds to a text of exactly 1 MiB.
			(12, 'is_enqueued', 'job_runs_sizes', 'payload takes at most 1 MiB', $r$
				pg_catalog.pg_column_size(payload) operator(pg_catalog.<=) 1049600$r$),
			(13, 'is_run', 'job_runs_sizes', 'checkpoint and result take at most 1 MiB, progress 64 KiB', $r$
				greatest(pg_catalog.pg_column_size(checkpoint), pg_catalog.pg_column_size(result)) operator(pg_catalog.<=) 1049600
				and pg_catalog.pg_column_size(progress) operator(pg_catalog.<=) 65536$r$)
			) r(nr, function, name, words, rule) on r.function = f.name
		group by f.name, f.arguments
	loop
		execute format('create function jobrun.%I(%s) returns boolean language plpgsql stable as %L', v_function.name, v_function.arguments,
			format('begin if (%s) is false then %s end if; return true; end', v_function.rules, v_function.each));
	end loop;
end
$do$;

alter table jobrun.job_runs
	drop constraint if exists job_runs_status, drop constraint if exists job_runs_lease, drop constraint if exists job_runs_holder,
	drop constraint if exists job_runs_final, drop constraint if exists job_runs_cancel, drop constraint if exists job_runs_superseded,
	drop constraint if exists job_runs_output, drop constraint if exists job_runs_max_attempts,
	drop constraint if exists job_runs_attempts, drop constraint if exists job_runs_claims, drop constraint if exists job_runs_run_at,
	drop constraint if exists job_runs_horizon, drop constraint if exists job_runs_durations,
	drop constraint if exists job_runs_priority, drop constraint if exists job_runs_job_type, drop constraint if exists job_runs_queue,
	drop constraint if exists job_runs_keys, drop constraint if exists job_runs_payload, drop constraint if exists job_runs_sizes,
	add constraint job_runs_enqueued check (locked_until is not null or finished_at is not null or jobrun.is_enqueued(job_type, queue,
		priority, run_at, created_at, timeout, backoff_base, backoff_cap, idempotency_key, unique_key, concurrency_key, payload)),
	add constraint job_runs_rules check (jobrun.is_run(status, max_attempts, attempts, snoozes, releases, claim_seq, locked_until,
		started_at, finished_at, cancel_requested_at, runner_id, locked_by, superseded_by, progress, checkpoint, result, output));
