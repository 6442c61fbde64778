-- heartbeat: renew the leases of held runs. $1 ids, $2 claim_seqs, $3 runner id, $4 lease in ms.
-- Returns one row (id, claim_seq, state, cancel, followed) for each pair. renewed; busy: still held by this runner, but
-- another session has locked the row: ask again soon (reclaim skips locked rows, too); gone: this runner does not hold it
-- any more. followed: somebody looks at its output (follow()). It waits for no lock and changes no indexed column.
with given as materialized (
	select g.id, g.claim_seq from unnest($1::bigint[], $2::bigint[]) g(id, claim_seq)
), mine as materialized (
	select g.* from given g cross join lateral (
		select from jobrun.job_runs r
		where r.id = g.id and r.claim_seq = g.claim_seq and r.runner_id = $3::bigint and r.locked_until is not null
		for no key update skip locked) r
), renewed as (
	update jobrun.job_runs r set locked_until = now() + $4::bigint * interval '1 millisecond'
	from mine m
	where r.id = any (array[m.id]) and r.claim_seq = m.claim_seq and r.runner_id = $3::bigint and r.locked_until is not null
	returning r.id, r.claim_seq, r.cancel_requested_at is not null as cancel
)
select b.id, b.claim_seq, b.state, b.cancel,
	exists (select from jobrun.job_follows f where f.run_id = b.id and f.followed_until > now()) as followed
from (
	select n.id, n.claim_seq, 'renewed' as state, n.cancel
	from renewed n
	union all
	select g.id, g.claim_seq, case when r.id is not null then 'busy' else 'gone' end,
		r.id is not null and r.cancel_requested_at is not null
	from given g
	left join lateral (select r.id, r.cancel_requested_at from jobrun.job_runs r
		where r.id = g.id and r.claim_seq = g.claim_seq and r.runner_id = $3::bigint and r.locked_until is not null offset 0) r on true
	where (g.id, g.claim_seq) not in (select n.id, n.claim_seq from renewed n)) b
