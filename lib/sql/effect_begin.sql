-- effect_begin: may the command of effect $1 run? $2, $3: run and claim inside which it is, or nulls. Gives
--   go      it has not been marked done; from now on it is begun (done_at is null), by $2 and $3
--   done    it has
--   fenced  that claim is not the running one any more; nothing was written
-- Who has called jobrun.effect($1) in an open transaction is waited for. Safe to repeat.
with fence as materialized (
	select $2::bigint is null or exists (select from jobrun.job_runs r
		where r.id = $2::bigint and r.claim_seq = $3::bigint and r.locked_until is not null) as held
), taken as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq)
	select $1::text, $2::bigint, $3::bigint from fence f where f.held
	on conflict (key) do update set run_id = excluded.run_id, claim_seq = excluded.claim_seq, started_at = excluded.started_at
		where e.done_at is null
	returning e.key
)
select case when not f.held then 'fenced' when exists (select from taken) then 'go' else 'done' end
from fence f
