-- successor: is there a later runner on this host that has all job types and queues of this one, and stays long enough?
-- $1 id of this runner, $2 how long it must stay at least, in ms.
-- "Later" compares (started_at, id), so that of two runners that started at the same instant only one hands over.
select exists (
	select from jobrun.job_runners m
	join jobrun.job_runners n on n.host = m.host and (n.started_at, n.id) > (m.started_at, m.id)
	where m.id = $1::bigint
		and n.finished_at is null
		and n.lingers_until > now() + $2::bigint * interval '1 millisecond'
		and n.job_types @> m.job_types
		and (n.queues is null or n.queues @> m.queues)) as found
