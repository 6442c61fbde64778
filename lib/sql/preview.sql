-- preview: what this runner holds, best first, in the transaction that has claimed it and will be rolled back; and the definitions
-- whose runs it would enqueue before that. $1 runner id, $2 how many at most, $3 are definitions wanted?
-- fire() decides whether a definition gets a run for its slots; these are the definitions for which no reason against it is known, each
-- with the first slot that would fire.
-- An expired run is claimed only to end it. The last column is a JSON document.
select w.id, w.job_type, w.queue, w.priority, w.try, (extract(epoch from now() - w.at) * 1000)::bigint as due_for_ms,
	w.definition, w.doc
from (
	select h.id, h.job_type, h.queue, h.priority,
		case when h.expired then 'expired' else h.attempts || '/' || h.max_attempts end as try, h.run_at as at,
		d.name as definition,
		json_build_object('id', h.id, 'job_type', h.job_type, 'definition', d.name, 'slot', r.slot, 'queue', h.queue, 'priority', h.priority,
			'attempt', h.attempts, 'max_attempts', h.max_attempts, 'run_at', h.run_at, 'expired', h.expired)::text as doc
	from (select r.id, r.slot, r.definition_id from jobrun.job_runs r where r.status = 'running' and r.runner_id = $1::bigint offset 0) r
	cross join lateral (select h.* from jobrun.held_runs h where h.id = r.id offset 0) h
	left join jobrun.job_definitions d on d.id = r.definition_id
	union all
	select null, d.job_type, v.queue, v.priority, null, f.slot, d.name,
		json_build_object('id', null, 'job_type', d.job_type, 'definition', d.name, 'slot', f.slot, 'queue', v.queue,
			'priority', v.priority, 'attempt', null, 'max_attempts', null, 'run_at', f.slot, 'expired', false)::text
	from jobrun.job_definitions d left join jobrun.job_definitions t on t.name = d.job_type
	cross join lateral (select coalesce(d.queue, t.queue, 'default') as queue, coalesce(d.priority, t.priority, 100) as priority) v
	cross join lateral (select jobrun.fires_now(d.id) as slot offset 0) f
	where d.next_slot_at <= now() and d.enabled and (d.paused_until is null or d.paused_until < now()) and $3::boolean
		and (d.overlap = 'allow' or jobrun.overlapping(d.id) is null) and f.slot is not null
	) w
order by w.priority, w.at, w.id
limit $2::bigint
