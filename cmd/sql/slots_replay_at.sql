-- slots_replay_at: read $2, a time as people write it, in the zone of this transaction, as a slot of definition $1.
-- Returns it with an offset, so that it means the same in any zone. PostgreSQL reads a local time that comes twice in
-- autumn as the second one; if that is no slot, the first one is returned. No row: no such definition.
select case when not isfinite(t.at) then t.at::text else (case
		when exists (select from jobrun.job_slots o where o.definition_id = d.id and o.slot = t.at) then t.at
		when d.schedule is null then t.at
		when t.at in (select n from jobrun.next_slots(d.schedule, d.time_zone, t.at - interval '1 microsecond', 1, d.anchor_at) n) then t.at
		else coalesce((select t.at - m * interval '1 minute' from generate_series(5, 180, 5) m
			where (t.at - m * interval '1 minute')::timestamp = t.at::timestamp), t.at) end at time zone 'UTC')::text || '+00' end
from (select $2::text::timestamptz as at) t
join jobrun.job_definitions d on d.name = $1::text
