-- run_dry: what a runner here would claim now, best first, and the definitions whose runs it would enqueue before that. $1 job
-- types, $2 queues or null, $3 at most, $4 this run alone, due or not, or null.
-- Whether a definition has a run for its slots is for fire() to say: here are those that nothing is known to keep from it.
-- The last column is a JSON document.
select w.id, w.job_type, w.queue, w.priority, w.try, (extract(epoch from now() - w.at) * 1000)::bigint, w.definition, w.doc
from (
	select r.id, r.job_type, r.queue, r.priority, (r.attempts + 1) || '/' || r.max_attempts as try, r.run_at as at,
		(select d.name from jobrun.job_definitions d where d.id = r.definition_id) as definition,
		jsonb_build_object('id', r.id, 'job_type', r.job_type, 'queue', r.queue, 'priority', r.priority,
			'attempt', r.attempts + 1, 'max_attempts', r.max_attempts, 'run_at', r.run_at) as doc
	from jobrun.job_runs r
	where r.status in ('queued', 'failed') and r.job_type = any ($1::text[])
		and (r.id = $4::bigint
			or ($4::bigint is null and r.run_at <= now() and ($2::text[] is null or r.queue = any ($2::text[]))
				and not exists (select from jobrun.job_queues q where q.name = r.queue and q.paused_until > now())
				and not exists (select from jobrun.job_types t where t.name = r.job_type and t.paused_until > now())
				and not exists (select from jobrun.job_definitions d where d.id = r.definition_id and d.paused_until > now())))
	union all
	select null, d.job_type, coalesce(d.queue, t.queue, 'default'), coalesce(d.priority, t.priority, 100), null, d.next_slot_at,
		d.name, jsonb_build_object('definition', d.name, 'job_type', d.job_type, 'slot', d.next_slot_at)
	from jobrun.job_definitions d left join jobrun.job_definitions t on t.name = d.job_type
	where d.next_slot_at <= now() and d.enabled and (d.paused_until is null or d.paused_until < now()) and $4::bigint is null
		and (d.overlap = 'allow' or jobrun.overlapping(d.id) is null)
	) w
order by w.priority, w.at, w.id
limit $3::bigint
