-- replay_zone: what is read as a time of definition $1 from here on in this transaction is read in its zone
select set_config('TimeZone', d.time_zone, true) from jobrun.job_definitions d where d.name = $1::text
