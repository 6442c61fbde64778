-- claim: up to n due runs, best first; n may be 0. $1 runner id, $2 host, $3 n, $4 job types, $5 queues, $6 priorities (parallel,
-- from candidates), $7 priority, $8 run_at, $9 id of the last run claimed (null: from the head), $10 lease in ms,
-- $11 number of the claim, $12 most runs beyond n, which start when others have ended, $13 the job types that they may have.
-- Columns: id, claim_seq, job_type, queue, priority, run_at, attempts, max_attempts, snoozes, releases, timeout_ms,
-- backoff_base_ms, backoff_cap_ms, expired, cancelled, key, slot, checkpoint, trace_context, payload,
-- runner_id, started_ms, slot_local, tid. After the runs, one row with only its queue for each queue that was left out because another
-- session has locked the row of the queue, or a run with the same unique key as a due run in the queue; and at the end, if not all
-- that is due was looked at, one row with only priority, run_at and, as claim_seq, the id of the run behind which to go on
select * from jobrun.claim($1::bigint, $2::text, $3::integer, $4::text[], $5::text[], $6::smallint[],
	$7::smallint, $8::timestamptz, $9::bigint, $10::bigint, $11::bigint, $12::integer, $13::text[])
