-- slots_head: the next slot of definition $1. No row: no such definition. Returns name, schedule (null: none),
-- time_zone, next slot in that zone (null: none), its age in ms (negative: to come), enabled, paused_until in Unix ms
-- (infinity: 0;
-- null: not paused), paused_reason, document, has a tick begun more than a minute after the next slot?
select s.name, s.schedule, s.time_zone, jobrun.slot_text(s.next_slot_at, s.time_zone),
	case when isfinite(s.next_slot_at) then floor(extract(epoch from now() - s.next_slot_at) * 1000)::bigint end, s.enabled,
	case when isfinite(s.paused_until) then floor(extract(epoch from s.paused_until) * 1000)::bigint
		when s.paused_until is not null then 0 end,
	s.paused_reason, row_to_json(o)::text,
	exists (select from jobrun.job_runners n where n.started_at > s.next_slot_at + interval '1 minute' and n.job_types <> '{}')
from (
	select d.name, d.job_type, d.schedule, d.time_zone, d.catch_up, d.overlap, d.enabled, d.next_slot_at,
		case when d.paused_until > now() then d.paused_until end as paused_until,
		case when d.paused_until > now() then d.paused_reason end as paused_reason
	from jobrun.job_definitions d where d.name = $1::text) s
cross join lateral (select s.name as definition, s.job_type, s.schedule, s.time_zone, s.catch_up, s.overlap, s.enabled,
	s.next_slot_at, s.paused_until is not null as paused,
	case when isfinite(s.paused_until) then s.paused_until end as paused_until, s.paused_reason) o
