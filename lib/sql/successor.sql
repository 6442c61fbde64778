-- successor: is there a runner on this host that does all that this one does, and will for a while? $1 id of the asking
-- runner, $2 how long at least, in ms.
-- "Started later" is an order with the id as its second part, so that of two that started in one instant only one goes.
select exists (
	select from jobrun.job_runners m
	join jobrun.job_runners n on n.host = m.host and (n.started_at, n.id) > (m.started_at, m.id)
	where m.id = $1::bigint
		and n.finished_at is null
		and n.lingers_until > now() + $2::bigint * interval '1 millisecond'
		and n.job_types @> m.job_types
		and (n.queues is null or n.queues @> m.queues)) as found
