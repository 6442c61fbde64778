-- replay_at: $2, a point in time as people write it, read in the zone of this transaction, as a slot of definition $1; out: one that
-- any zone reads the same way. A local time that comes twice in autumn is read as the second; if only the first is on record,
-- that is meant. No row: no such definition.
select case when isfinite(t.at) then (coalesce(
		(select o.slot from jobrun.job_slots o where o.definition_id = d.id and o.slot = t.at),
		(select min(o.slot) from jobrun.job_slots o
			where o.definition_id = d.id and o.slot between t.at - interval '3 hours' and t.at
				and o.slot::timestamp = t.at::timestamp),
		t.at) at time zone 'UTC')::text || '+00' else t.at::text end
from (select $2::text::timestamptz as at) t
join jobrun.job_definitions d on d.name = $1::text
