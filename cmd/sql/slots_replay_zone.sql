-- slots_replay_zone: from here on in this transaction times are read and written in the zone of definition $1, which the server knows.
select set_config('TimeZone', ':' || d.time_zone, true)
from jobrun.job_definitions d
cross join lateral jobrun.next_slots('@daily', d.time_zone) checked
where d.name = $1::text
