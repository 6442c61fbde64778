-- doctor_zones: time zones of definitions that the server does not know (any more). Returns findings (doctor.h).
select 'fail', format('the server does not know the time zone %s of definition %s', d.time_zone, d.name), null::bigint,
	'its schedule does not fire; the name was removed, or the server has no time zone data', format('jobrun define %s --time-zone UTC', d.name),
	null::text
from jobrun.job_definitions d
where d.schedule is not null and d.time_zone <> 'UTC' and d.time_zone not in (select z.name from pg_timezone_names z)
order by d.name
limit 5
