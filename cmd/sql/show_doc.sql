-- show_doc: run $1 with its attempts as one JSON document. Durations are milliseconds; output is the output of the
-- running attempt so far; audit is what people did to it, the last 100. Payload, result, error and the like are null
-- for roles that may not read them. No row: no such run.
select row_to_json(d)::text
from (
	select r.id, r.job_type, r.queue, r.priority,
		case r.status when 'failed' then 'retrying' else r.status end as status, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq,
		r.run_at, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at, r.cancel_requested_at, r.archived_at,
		r.superseded_by, r.locked_by as host, r.runner_id, r.locked_until, r.definition_id, n.name as definition, r.slot,
		replace(jobrun.slot_text(r.slot, n.time_zone, true), ' ', 'T') as slot_local, r.parent_id,
		r.idempotency_key, r.unique_key, r.concurrency_key, r.trace_context,
		floor(extract(epoch from r.timeout) * 1000)::bigint as timeout_ms,
		floor(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
		floor(extract(epoch from r.backoff_cap) * 1000)::bigint as backoff_cap_ms,
		r.error_code, x.last_error as error, x.progress, x.checkpoint, x.result, x.payload,
		x.output, r.output_dropped,
		coalesce((
			select json_agg(row_to_json(t) order by t.claim_seq)
			from (
				select v.claim_seq, v.attempt, v.outcome, v.error_code, e.error, v.exit_status, v.host, v.pid, v.runner_id,
					v.started_at, v.finished_at, v.cpu_ms, v.max_rss_kb, e.output, v.output_dropped
				from jobrun.attempts v
				cross join lateral jobrun.attempt_texts(v.run_id, v.claim_seq) e
				where v.run_id = r.id) t), '[]') as attempt_list,
		coalesce((
			select json_agg(row_to_json(u) order by u.id)
			from (
				select d.id, d.at as recorded_at, d.who, d.action, d.old, d.new, d.reason
				from jobrun.job_audit d where d.object = 'run ' || r.id
				order by d.id desc limit 100) u), '[]') as audit
	from jobrun.all_runs r
	left join jobrun.job_definitions n on n.id = r.definition_id
	cross join lateral jobrun.run_texts(r.id) x
	where r.id = $1::bigint) d
