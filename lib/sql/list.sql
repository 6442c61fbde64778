-- list: runs, newest first. $1 at most (null: all), $2 statuses, $3 job types, $4 queues (each null: any), $5 ended, or if they
-- have not, enqueued within so many ms (null: at any time). Gives id, job type, status, tries, age in ms of what it is in, ms it
-- took, message, document. A branch for each group of statuses that has an index of its own, so that three dead runs among
-- millions are found. From "where" to the end of the branches it is the text of matching_kinds.sql and matching_ids.sql.
with picked as (
	select r.id, r.job_type, r.queue, r.priority, r.status, r.attempts, r.max_attempts, r.run_at, r.created_at,
		r.started_at, r.finished_at, r.failed_at, r.expires_at, r.cancel_requested_at, r.idempotency_key, r.parent_id, r.locked_by,
		r.error_code
	from jobrun.job_runs r
	where ($3::text[] is null or r.job_type = any ($3::text[])) and ($4::text[] is null or r.queue = any ($4::text[]))
		and (r.status in ('queued', 'failed') and r.status = any ($2::text[])
				and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
			or r.status = 'running' and 'running' = any ($2::text[])
				and ($5::bigint is null or r.created_at >= now() - $5::bigint * interval '1 millisecond')
			or r.status = 'dead' and 'dead' = any ($2::text[])
				and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond')
			or r.status in ('succeeded', 'cancelled') and r.status = any ($2::text[])
				and ($5::bigint is null or r.finished_at >= now() - $5::bigint * interval '1 millisecond'))
	order by r.id desc limit $1::bigint
), shown as (
	select r.id, r.job_type, r.queue, r.priority, r.status, r.attempts, r.max_attempts, r.run_at, r.created_at,
		r.started_at, r.finished_at, r.expires_at, r.cancel_requested_at, r.idempotency_key, r.parent_id, r.locked_by as host,
		r.error_code, t.last_error,
		floor(extract(epoch from case
			when r.status = 'running' then now()
			when r.status = 'failed' then r.failed_at
			when r.finished_at is not null then r.finished_at end - r.started_at) * 1000)::bigint as took_ms
	from picked r
	left join lateral (select x.last_error from jobrun.run_texts(r.id) x where r.error_code is not null) t on true
)
select s.id, s.job_type, case s.status when 'failed' then 'retrying' else s.status end, s.attempts || '/' || s.max_attempts,
	floor(extract(epoch from now() - case
		when s.status in ('queued', 'failed') then s.run_at else coalesce(s.finished_at, s.started_at) end) * 1000)::bigint,
	s.took_ms,
	case when s.status = 'running' and s.cancel_requested_at is not null then 'cancel requested'
		when s.status = 'succeeded' then null
		else split_part(s.last_error, E'\n', 1) end,
	row_to_json(s)::text
from shown s
order by s.id desc
