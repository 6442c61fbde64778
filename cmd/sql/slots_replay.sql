-- slots_replay: enqueue a run for slot $2 (a time with its offset) of definition $1; $3 why, $4 will this be rolled
-- back? Then the document has no id. The time zone of the
-- transaction is that of the definition. Returns the run's id, the slot in the definition's zone, document.
with run as materialized (
	select jobrun.replay($1::text, $2::text::timestamptz, $3::text) as id
), told as (
	select r.id, case when not $4::boolean then r.id end as run_id, d.name as definition, $2::text::timestamptz as slot,
		jobrun.slot_text($2::text::timestamptz, d.time_zone) as slot_local, d.time_zone, $3::text as reason
	from run r join jobrun.job_definitions d on d.name = $1::text
)
select t.id, t.slot_local, json_build_object('run_id', t.run_id, 'definition', t.definition, 'slot', (to_json(t.slot at time zone 'UTC') #>> '{}') || '+00:00',
	'slot_local', replace(jobrun.slot_text(t.slot, t.time_zone, true), ' ', 'T'), 'reason', t.reason)::text
from told t
