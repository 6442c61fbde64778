-- report_slots: definitions with slots in the next 24 hours, the next one first; $1 time zone, $2 how many. Returns name, job type, schedule,
-- its zone, is it paused, the next slot as text, the minutes from now of its first 25 slots, and in each row how many there are.
select d.name, d.job_type, d.schedule, d.time_zone, d.is_paused, to_char(d.slots[1] at time zone $1::text, 'HH24:MI'),
	(select string_agg((floor(extract(epoch from s.slot - now()) / 60)::bigint)::text, ' ' order by s.slot) from unnest(d.slots) s(slot)),
	count(*) over ()
from (
	select d.name, d.job_type, d.schedule, d.time_zone, coalesce(d.paused_until > now(), false) as is_paused,
		jobrun.slots_ahead(d.schedule, d.time_zone, d.anchor_at, interval '24 hours', 25) as slots
	from (select f.name, f.job_type, f.schedule, f.time_zone, f.paused_until, f.anchor_at from jobrun.job_definitions f
		where f.enabled and f.next_slot_at < now() + interval '24 hours' and f.name not like 'jobrun.%' order by f.next_slot_at, f.name
		limit 200) d) d
where d.slots <> '{}'
order by d.slots[1], d.name
limit $2::bigint
