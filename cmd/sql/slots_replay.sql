-- slots_replay: enqueue a run for slot $2 (a time with its offset) of definition $1; $3 why, $4 will this be rolled
-- back? Then the document has no id. Returns the run's id, the slot in the definition's zone, document.
with run as materialized (
	select jobrun.replay($1::text, $2::text::timestamptz, $3::text) as id
), told as (
	select r.id, case when not $4::boolean then r.id end as run_id, d.name as definition, $2::text::timestamptz as slot,
		jobrun.slot_text($2::text::timestamptz, d.time_zone) as slot_local, $3::text as reason
	from run r join jobrun.job_definitions d on d.name = $1::text
)
select t.id, t.slot_local, (to_jsonb(t) - 'id')::text
from told t
