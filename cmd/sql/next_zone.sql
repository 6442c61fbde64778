-- next_zone: set the zone in which --after is read, for this transaction: that of definition $1, or if $1 is null $2.
-- ":NAME" is always a zone, never an abbreviation.
select set_config('TimeZone', ':' || z.name, true)
from (select d.time_zone from jobrun.job_definitions d where d.name = $1::text
	union all select $2::text where $1::text is null) z(name)
cross join lateral jobrun.next_slots('@daily', z.name) checked
