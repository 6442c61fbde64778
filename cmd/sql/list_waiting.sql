-- list_waiting: the next waiting runs in the order in which they will start, with why each does not run yet: $1 how many,
-- $2 job types, $3 queues (null: all), $4 this host, $5 the types that it has handlers for. Returns id, job type, queue, priority,
-- attempts, age in ms since it is due (negative: to come), why, document. In the table never stands for all its words.
select r.id, r.job_type, r.queue, r.priority, r.attempts || '/' || r.max_attempts,
	floor(extract(epoch from now() - r.run_at) * 1000)::bigint,
	regexp_replace(w.text, '^never starts unless somebody acts:', 'never:'),
	json_build_object('id', r.id, 'job_type', r.job_type, 'queue', r.queue, 'priority', r.priority,
		'status', case r.status when 'failed' then 'retrying' else r.status end, 'attempts', r.attempts, 'max_attempts', r.max_attempts,
		'run_at', r.run_at, 'why', json_build_object('verdict', n.state, 'reason', n.reason, 'text', w.text, 'command', n.command))::text
from jobrun.next_waiting($2::text[], $3::text[], $1::bigint, $4::text, $5::text[]) with ordinality n(id, state, reason, words, at, rest, command, nr)
cross join lateral ( -- "offset 0": rule 19 of lib/README.md
	select r.id, r.job_type, r.queue, r.priority, r.status, r.attempts, r.max_attempts, r.run_at from jobrun.job_runs r
	where r.id = n.id offset 0) r
cross join lateral (select jobrun.line_of(n.words, n.at, n.rest) as text) w
order by n.nr
