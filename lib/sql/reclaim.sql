-- reclaim: running rows whose lease has ended, locked until the transaction ends; settle then writes them as lost.
-- $1 runner id to leave out (it knows best what it holds), $2 the last id of the batch before, or 0, $3 at most so many.
-- "r.id + 0": there are few running rows and millions of others; the primary key must not serve the order.
select r.id, r.claim_seq, r.runner_id, r.job_type, r.attempts, r.max_attempts,
	(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
	(extract(epoch from r.backoff_cap) * 1000)::bigint as backoff_cap_ms,
	r.locked_by
from jobrun.job_runs r
where r.status = 'running' and r.locked_until <= now() and r.runner_id <> $1::bigint and r.id + 0 > $2::bigint
order by r.id + 0
limit $3::bigint
for no key update skip locked
