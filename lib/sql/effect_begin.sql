-- effect_begin: may the command of effect $1 run? $2, $3: run and claim inside which it is, or nulls. Gives
--   go      it has not been marked done; from now on it is begun (done_at is null), by $2 and $3
--   done    it has; with the exit status that its command ended with, and how many milliseconds ago
--   open    effect_claim has marked it before its command ran, and nobody has said yet how that ended
--   fenced  that claim is not the running one any more; nothing was written
-- Who has called jobrun.effect($1) in an open transaction is waited for. Safe to repeat.
with fence as materialized (
	select $2::bigint is null or exists (select from jobrun.job_runs r
		where r.id = $2::bigint and r.claim_seq = $3::bigint and r.locked_until is not null) as held
), met as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq)
	select $1::text, $2::bigint, $3::bigint from fence f where f.held
	on conflict (key) do update set                 -- one that is done stays as it is: only to see the row that there is now
		run_id     = case when e.done_at is null then excluded.run_id else e.run_id end,
		claim_seq  = case when e.done_at is null then excluded.claim_seq else e.claim_seq end,
		started_at = case when e.done_at is null then excluded.started_at else e.started_at end
	returning e.done_at, e.detail
)
select case when not f.held then 'fenced'
		when m.done_at is null then 'go'
		when m.detail ? 'at_most_once' and not m.detail ? 'exit' then 'open'
		else 'done' end,
	m.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - m.done_at)))::bigint
from fence f left join met m on true
