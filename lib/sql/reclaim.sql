-- reclaim: lock the running rows whose lease has ended; settle then writes them as lost in the same transaction.
-- $1 ids, $2 claim_seqs of the runs that this runner holds now; they are left out. Runs that it has lost are taken like
-- any other's. $3 the last id of the batch before, or 0, $4 how many at most.
-- "r.id + 0": there are few running rows and millions of others, so the primary key must not be used for the order.
select r.id, r.claim_seq, r.runner_id, r.job_type, r.attempts, r.max_attempts,
	(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
	(extract(epoch from r.backoff_cap) * 1000)::bigint as backoff_cap_ms,
	r.locked_by
from jobrun.job_runs r
where r.status = 'running' and r.locked_until <= now() and r.id + 0 > $3::bigint
	and not exists (select from unnest($1::bigint[], $2::bigint[]) k(id, claim_seq)
		where k.id = r.id and k.claim_seq = r.claim_seq)
order by r.id + 0
limit $4::bigint
for no key update skip locked
