-- resolve: what became of settles that got no answer? $1 ids, $2 claim_seqs, $3 runner id.
-- One row for each pair: (id, claim_seq, answer, status of the run unless it was claimed again, outcome that was
-- written). The answers: running: this runner still holds it and nothing was written, so send the settle again;
-- accepted; fenced: somebody else has ended that claim.
-- A plain success has no row in job_attempts, so it is read from the run.
select g.id, g.claim_seq,
	case
		when r.claim_seq = g.claim_seq and r.runner_id = $3::bigint and r.locked_until is not null then 'running'
		when a.outcome = 'lost' then 'fenced'
		when a.runner_id = $3::bigint then 'accepted'
		when r.claim_seq = g.claim_seq and r.runner_id = $3::bigint and r.status = 'succeeded' then 'accepted'
		else 'fenced'
	end as answer,
	case when r.claim_seq = g.claim_seq then r.status end as status,
	coalesce(a.outcome, 'succeeded') as outcome
from unnest($1::bigint[], $2::bigint[]) g(id, claim_seq)
left join lateral (select r.claim_seq, r.runner_id, r.locked_until, r.status from jobrun.job_runs r where r.id = g.id offset 0) r on true
left join lateral (select a.outcome, a.runner_id from jobrun.job_attempts a
	where a.run_id = g.id and a.claim_seq = g.claim_seq offset 0) a on true
