-- invariants: no row on a healthy database; each row says what is wrong. For what no CHECK can state, since it takes two
-- rows or two tables. What a CHECK or unique index states is left to it.
select format('attempt (%s, %s) has no run', a.run_id, a.claim_seq)
from jobrun.job_attempts a
where not exists (select from jobrun.job_runs r where r.id = a.run_id)
union all
select format('archived attempt (%s, %s) has no run in the archive that ended when it says', a.run_id, a.claim_seq)
from jobrun.job_attempts_archive a
where not exists (select from jobrun.job_runs_archive r where r.id = a.run_id and r.finished_at = a.run_finished_at)
union all
select format('run %s is in the archive, and %s', r.id, case when r.status in ('succeeded', 'dead', 'cancelled') then 'elsewhere, too' else r.status end)
from jobrun.job_runs_archive r
where r.status not in ('succeeded', 'dead', 'cancelled') or exists (select from jobrun.job_runs o where o.id = r.id)
	or exists (select from jobrun.job_runs_archive o where o.id = r.id and o.finished_at <> r.finished_at)
union all
select format('attempt (%s, %s) is ahead of its run, which has been claimed %s times', a.run_id, a.claim_seq, r.claim_seq)
from jobrun.job_attempts a join jobrun.job_runs r on r.id = a.run_id
where a.claim_seq > r.claim_seq
union all
select format('attempt (%s, %s) has ended, and that very claim is running', a.run_id, a.claim_seq)
from jobrun.job_attempts a join jobrun.job_runs r on r.id = a.run_id and r.claim_seq = a.claim_seq
where r.locked_until is not null
union all
select format('attempt (%s, %s) has outcome %s and its run is %s', a.run_id, a.claim_seq, a.outcome, r.status)
from jobrun.job_attempts a join jobrun.job_runs r on r.id = a.run_id and r.claim_seq = a.claim_seq
where r.attempts + r.snoozes + r.releases > 0       -- else it was retried, and that attempt belongs to an earlier life
	and ((r.finished_at is not null and (r.status = 'succeeded') <> (a.outcome = 'succeeded'))
		or (r.status = 'dead' and a.outcome = 'cancelled')
		or (r.status in ('queued', 'failed') and a.outcome in ('succeeded', 'dead', 'cancelled')))
union all
-- a claim that was never started is told nowhere, and counted nowhere
select format('run %s counts %s claims, and its attempts tell of %s that have ended', r.id, r.counted, count(a.run_id))
from (
	select id, claim_seq, attempts + snoozes + releases as counted,
		(locked_until is not null or status = 'succeeded')::integer as untold from jobrun.job_runs) r
left join jobrun.job_attempts a on a.run_id = r.id and a.claim_seq < r.claim_seq + 1 - r.untold
group by r.id, r.counted, r.untold
having count(a.run_id) < r.counted - r.untold
union all
-- but that is rare: more of them are a loop that nobody is charged for
select format('run %s has been claimed %s times, and only %s ends are told', r.id, r.claim_seq, count(a.run_id))
from (
	select id, claim_seq, (locked_until is not null or status = 'succeeded')::integer as untold from jobrun.job_runs) r
left join jobrun.job_attempts a on a.run_id = r.id and a.claim_seq < r.claim_seq + 1 - r.untold
group by r.id, r.claim_seq, r.untold
having count(a.run_id) + 5 < r.claim_seq - r.untold
union all
select format('run %s was claimed again after attempt %s had ended it as %s, and nobody had retried it', r.id, a.claim_seq, a.outcome)
from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id
where a.outcome in ('succeeded', 'dead', 'cancelled')
	and a.claim_seq < r.claim_seq and a.claim_seq > r.claim_seq - r.attempts - r.snoozes - r.releases
union all
select format('run %s says %s %s and its attempts say %s', r.id, r.given_back, r.outcome, count(a.run_id))
from (
	select id, claim_seq, attempts, snoozes, releases, 'later' as outcome, snoozes as given_back from jobrun.job_runs where snoozes > 0
	union all
	select id, claim_seq, attempts, snoozes, releases, 'released', releases from jobrun.job_runs where releases > 0) r
left join jobrun.job_attempts a on a.run_id = r.id and a.outcome = r.outcome
group by r.id, r.outcome, r.given_back
having count(a.run_id) < r.given_back
union all
select format('run %s is held by a runner that never was', r.id)
from jobrun.job_runs r
where r.locked_until is not null and not exists (select from jobrun.job_runners n where n.id = r.runner_id)
union all
select format('run %s has a concurrency key, and its queue %s has no row to lock', r.id, r.queue)
from jobrun.job_runs r
where r.concurrency_key is not null and r.finished_at is null
	and not exists (select from jobrun.job_queues q where q.name = r.queue)
union all
select format('run %s was never claimed and waits, and is not the newest of its unique key: %s is', r.id, n.id)
from jobrun.job_runs r join jobrun.job_runs n on n.job_type = r.job_type and n.unique_key = r.unique_key and n.id > r.id
where r.status = 'queued' and r.claim_seq = 0
union all
select format('run %s was superseded by run %s, which was never claimed, or is no newer one of its unique key', r.id, n.id)
from jobrun.job_runs r join jobrun.job_runs n on n.id = r.superseded_by
where n.id <= r.id or n.claim_seq = 0 or n.job_type <> r.job_type or n.unique_key <> r.unique_key
union all
select format('row %s of new_runs was not taken', n.nr)
from jobrun.new_runs n
union all
select format('alarm %s is about run %s, which is not dead', r.id, r.parent_id)
from jobrun.job_runs r join jobrun.job_runs d on d.id = r.parent_id
where r.idempotency_key = format('on_dead:%s:%s', d.id, d.claim_seq) and d.status <> 'dead'
	and d.attempts > 0                                  -- else it was retried
