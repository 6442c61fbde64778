-- replay_zone: from here on in this transaction times are read and written in the zone of definition $1
select set_config('TimeZone', d.time_zone, true) from jobrun.job_definitions d where d.name = $1::text
