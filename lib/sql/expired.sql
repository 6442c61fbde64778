-- expired: has the lease of any run ended that this runner does not hold now? $1 ids, $2 claim_seqs of the runs it
-- holds
select exists (
	select from jobrun.job_runs r
	where r.status = 'running' and r.locked_until <= now()
		and not exists (select from unnest($1::bigint[], $2::bigint[]) k(id, claim_seq)
			where k.id = r.id and k.claim_seq = r.claim_seq)) as expired
