-- show_doc: run $1 with its attempts as one JSON document. Durations are milliseconds; output is that of the running
-- attempt so far. No row: no such run.
select row_to_json(d)::text
from (
	select r.id, r.job_type, r.queue, r.priority, r.status, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq,
		r.run_at, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at, r.cancel_requested_at,
		r.locked_by as host, r.runner_id, r.locked_until, r.definition_id, r.slot, r.parent_id,
		r.idempotency_key, r.unique_key, r.concurrency_key, r.trace_context,
		floor(extract(epoch from r.timeout) * 1000)::bigint as timeout_ms,
		floor(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
		floor(extract(epoch from r.backoff_cap) * 1000)::bigint as backoff_cap_ms,
		r.error_code, r.last_error, r.progress, r.checkpoint, r.result, r.payload,
		r.output, r.output_dropped,
		coalesce((
			select json_agg(row_to_json(t) order by t.claim_seq)
			from (
				select v.claim_seq, v.attempt, v.outcome, v.error_code, a.error, v.exit_status, v.host, v.pid, v.runner_id,
					v.started_at, v.finished_at, v.cpu_ms, v.max_rss_kb, a.output, v.output_dropped
				from jobrun.attempts v
				left join jobrun.job_attempts a on a.run_id = v.run_id and a.claim_seq = v.claim_seq
				where v.run_id = r.id) t), '[]') as attempt_list
	from jobrun.job_runs r
	where r.id = $1::bigint) d
