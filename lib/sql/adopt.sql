-- adopt: runs that this runner holds in the database but does not know, because the answer of a claim was lost.
-- $1 runner id, $2 ids, $3 claim_seqs of the runs it knows, $4 how many at most. Columns: those of claim,
-- and the time that is left of the lease in ms. They are named: a later version of held_runs may have more.
select h.id, h.claim_seq, h.job_type, h.queue, h.priority, h.run_at, h.attempts, h.max_attempts, h.snoozes, h.releases, h.timeout_ms,
	h.backoff_base_ms, h.backoff_cap_ms, h.expired, h.cancelled, h.key, h.slot, h.checkpoint, h.trace_context, h.payload, h.runner_id,
	h.started_ms, h.slot_local, (extract(epoch from r.locked_until - now()) * 1000)::bigint as lease_left_ms
from (select r.id, r.claim_seq, r.locked_until from jobrun.job_runs r
	where r.status = 'running' and r.runner_id = $1::bigint offset 0) r
cross join lateral (select h.* from jobrun.held_runs h where h.id = r.id offset 0) h
where not exists (select from unnest($2::bigint[], $3::bigint[]) k(id, claim_seq) where k.id = r.id and k.claim_seq = r.claim_seq)
order by h.priority, h.run_at, h.id
limit $4::bigint
