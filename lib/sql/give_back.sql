-- give_back: when the runner ends, settle the runs that it holds but never started with outcome $4. $1 runner id, $2
-- ids, $3 claim_seqs of the runs it has started; these are left to their leases, since given back they would run again
-- without a charge. $5 error code, $6 error.
-- Returns (id, claim_seq, is it settled). A run whose row another session has locked is not settled, and the others
-- are.
with mine as materialized (
	select r.id, r.claim_seq
	from (select r.id, r.claim_seq from jobrun.job_runs r where r.status = 'running' and r.runner_id = $1::bigint offset 0) r
	where not exists (select from unnest($2::bigint[], $3::bigint[]) k(id, claim_seq) where k.id = r.id and k.claim_seq = r.claim_seq)
), free as materialized (
	select f.id, f.claim_seq from mine m cross join lateral (
		select r.id, r.claim_seq from jobrun.job_runs r
		where r.id = m.id and r.claim_seq = m.claim_seq and r.runner_id = $1::bigint and r.locked_until is not null
		for no key update skip locked) f
), given as (
	select array_agg(f.id order by f.id) as ids, array_agg(f.claim_seq order by f.id) as claim_seqs, array[count(*)::integer] as n
	from free f
), settled as materialized (
	select s.id, s.claim_seq
	from given g cross join lateral jobrun.settle(g.ids, g.claim_seqs, array_fill($1::bigint, g.n), array_fill($4::text, g.n),
		null, array_fill($5::text, g.n), array_fill($6::text, g.n), null, null, null, null, null, null, null, null, null, now()) s
)
select m.id, m.claim_seq, s.id is not null as settled
from mine m left join settled s on s.id = m.id and s.claim_seq = m.claim_seq
order by m.id
