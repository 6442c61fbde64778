-- effect_claim: mark effect $1 before its command runs. $2, $3: as for effect_begin. $4: a random word that no other call
-- has; who finds it in the row has written the mark, so that asking again after a lost answer says the same. Gives
--   go      the mark is there, and it is ours
--   begun   effect_begin has said go to somebody, and nobody has said that it is done: it may have happened
--   done, open, fenced  as effect_begin
with fence as materialized (
	select $2::bigint is null or exists (select from jobrun.job_runs r
		where r.id = $2::bigint and r.claim_seq = $3::bigint and r.locked_until is not null) as held
), met as (
	insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at, detail)
	select $1::text, $2::bigint, $3::bigint, now(), jsonb_build_object('at_most_once', $4::text) from fence f where f.held
	on conflict (key) do update set key = e.key     -- as it is: only to see the row that there is now
	returning e.done_at, e.detail
)
select case when not f.held then 'fenced'
		when m.done_at is null then 'begun'
		when m.detail ->> 'at_most_once' = $4::text then 'go'
		when m.detail ? 'at_most_once' and not m.detail ? 'exit' then 'open'
		else 'done' end,
	m.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - m.done_at)))::bigint
from fence f left join met m on true
