-- definitions: all definitions, or only $1. Returns name, job type, schedule, zone, age in ms of the next slot
-- (negative: to come), state, outcome of the last slot, document, may this role see payloads. The document has no
-- payload.
select d.name, d.job_type, d.schedule, case when d.schedule is not null then d.time_zone end,
	case when d.enabled and isfinite(d.next_slot_at) then floor(extract(epoch from now() - d.next_slot_at) * 1000)::bigint end, s.state,
	l.outcome || case when l.slots > 1 then ' ' || l.slots else '' end
		|| coalesce(': run ' || l.run_id, ': ' || l.reason, ''), row_to_json(o)::text,
	has_column_privilege('jobrun.job_definitions', 'payload', 'select')
from jobrun.job_definitions d
cross join lateral (select case when not d.enabled then 'disabled' when d.paused_until > now() then 'paused' else 'enabled' end as state) s
left join lateral (select j.slot, j.until, j.slots, j.outcome, j.reason, j.run_id
	from jobrun.job_slots j where j.definition_id = d.id and j.runner_id is null order by j.slot desc limit 1) l on true
cross join lateral (select d.id, d.name, d.job_type, d.schedule, d.time_zone, d.queue, d.priority, d.max_attempts,
	floor(extract(epoch from d.timeout) * 1000)::bigint as timeout_ms,
	floor(extract(epoch from d.backoff_base) * 1000)::bigint as backoff_base_ms,
	floor(extract(epoch from d.backoff_cap) * 1000)::bigint as backoff_cap_ms, d.concurrency_key, d.on_dead, d.catch_up,
	floor(extract(epoch from d.catch_up_grace) * 1000)::bigint as catch_up_grace_ms, d.overlap, d.enabled, d.description, d.anchor_at,
	(d.paused_until > now()) is true as paused, case when d.paused_until > now() and isfinite(d.paused_until) then d.paused_until end as paused_until,
	case when d.paused_until > now() then d.paused_reason end as paused_reason,
	d.next_slot_at, d.created_at, d.updated_at, s.state,
	case when l.slot is not null then json_build_object('slot', l.slot, 'slot_until', l.until, 'slots', l.slots, 'outcome', l.outcome,
		'reason', l.reason, 'run_id', l.run_id) end as last_slot) o
where $1::text is null or d.name = $1::text
order by d.name
