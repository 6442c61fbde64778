-- due: what a runner here would claim now, best first. $1 job types, $2 queues or null, $3 at most, $4 this run alone,
-- due or not, or null.
-- The last column is a JSON document.
select r.id, r.job_type, r.queue, r.priority, (r.attempts + 1) || '/' || r.max_attempts,
	(extract(epoch from now() - r.run_at) * 1000)::bigint,
	jsonb_build_object('id', r.id, 'job_type', r.job_type, 'queue', r.queue, 'priority', r.priority,
		'attempt', r.attempts + 1, 'max_attempts', r.max_attempts, 'run_at', r.run_at)
from jobrun.job_runs r
where r.status in ('queued', 'failed') and r.job_type = any ($1::text[])
	and (r.id = $4::bigint
		or ($4::bigint is null and r.run_at <= now() and ($2::text[] is null or r.queue = any ($2::text[]))
			and not exists (select from jobrun.job_queues q where q.name = r.queue and q.paused_until > now())
			and not exists (select from jobrun.job_types t where t.name = r.job_type and t.paused_until > now())
			and not exists (select from jobrun.job_definitions d where d.id = r.definition_id and d.paused_until > now())))
order by r.priority, r.run_at, r.id
limit $3::bigint
