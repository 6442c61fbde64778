-- effect_look: what is known of effect $1, for a handler that is tried: nothing is written, and nobody is waited for. Gives
--   go      nothing
--   begun, done, open  as effect_claim
select case when e.key is null then 'go'
		when e.done_at is null then 'begun'
		when e.detail ? 'at_most_once' and not e.detail ? 'exit' then 'open'
		else 'done' end,
	e.detail ->> 'exit', greatest(0, floor(1000 * extract(epoch from now() - e.done_at)))::bigint
from (select $1::text as key) asked left join jobrun.job_effects e on e.key = asked.key
