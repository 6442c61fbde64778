-- next: the first $5 fire times after $4 (Unix ms; null: now) of definition $1, or if $1 is null of schedule $2 in zone
-- $3. Returns local time, its offset, age in ms (negative: to come), the local time that the schedule names if clocks
-- skip it that day, document; then, the same in each row: does it fire on either day (day of month or weekday),
-- enabled, paused_until in Unix ms (infinity: 0; null: not paused), paused_reason, schedule, zone, document of these, and, if
-- the server has lost the zone of the definition, the words for it. If there are no further times, or none can be known: one
-- row with a null time. No row: no such definition. ":NAME" is always a zone; "CET" could be an abbreviation without summer time.
with asked as (
	select d.name, d.schedule, d.time_zone, ':' || d.time_zone as zone, d.anchor_at, d.enabled, case when d.paused_until > now() then d.paused_until end as until,
		d.paused_reason as reason, case when d.schedule is not null then jobrun.lost_zone(d.time_zone) end as lost
	from jobrun.job_definitions d where d.name = $1::text
	union all
	select null, $2::text, $3::text, ':' || $3::text, null, true, null, null, null where $1::text is null
), fires as (
	select n.slot, n.nr
	from asked a
	cross join lateral jobrun.next_slots(a.schedule, a.time_zone, coalesce(to_timestamp($4::bigint / 1000.0), now()),
		$5::integer, a.anchor_at) with ordinality n(slot, nr)
	where a.schedule is not null and a.lost is null
), shown as (
	select f.nr, f.slot, l.local, case when o.seconds < 0 then '-' else '+' end || to_char(abs(o.seconds) / 3600, 'FM00') || ':'
			|| to_char(abs(o.seconds) / 60 % 60, 'FM00') as utc_offset,
		(select to_char(m.slot at time zone 'UTC', 'HH24:MI')
		from jobrun.next_slots(a.schedule, 'UTC', p.local at time zone 'UTC', 1) m(slot)
		where p.skips and m.slot at time zone 'UTC' < l.local and not exists (
			select from jobrun.next_slots(a.schedule, 'UTC', l.local at time zone 'UTC' - interval '1 second', 1) s(slot)
			where s.slot at time zone 'UTC' = l.local)) as nominal
	from asked a
	cross join fires f
	cross join lateral (select f.slot at time zone a.zone as local) l
	cross join lateral (select (f.slot - interval '1 second') at time zone a.zone as local, a.schedule not ilike '@every%'
		and l.local > (f.slot - interval '1 second') at time zone a.zone + interval '1 second' as skips) p
	cross join lateral (select extract(epoch from l.local - f.slot at time zone 'UTC')::integer as seconds) o
)
select case when extract(second from s.local) = 0 then to_char(s.local, 'Dy DD Mon YYYY HH24:MI')
		else to_char(s.local, 'Dy DD Mon YYYY HH24:MI:SS') end,
	s.utc_offset, floor(extract(epoch from now() - s.slot) * 1000)::bigint, s.nominal, row_to_json(d)::text, e.either, a.enabled,
	case when isfinite(a.until) then floor(extract(epoch from a.until) * 1000)::bigint when a.until is not null then 0 end, a.reason,
	a.schedule, a.time_zone, json_build_object('definition', a.name, 'schedule', a.schedule, 'time_zone', a.time_zone)::text, a.lost
from asked a
left join shown s on true
cross join lateral (select s.slot, to_char(s.local, 'YYYY-MM-DD"T"HH24:MI:SS') || s.utc_offset as slot_local,
	to_char(s.local, 'FMDay') as weekday, floor(extract(epoch from s.slot - now()) * 1000)::bigint as in_ms, s.nominal) d
cross join lateral (select coalesce(a.schedule ~ '^\s*[^@\s]\S*\s+\S+\s+[^*\s]\S*\s+\S+\s+[^*\s]', false) as either) e
order by s.nr
