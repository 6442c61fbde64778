-- slots_replay_zone: read and write times in the zone of definition $1 for the rest of this transaction, after a check
-- that the server knows the zone.
select set_config('TimeZone', ':' || d.time_zone, true)
from jobrun.job_definitions d
cross join lateral jobrun.next_slots('@daily', d.time_zone) checked
where d.name = $1::text
