-- doctor_host_zone: schedules at fixed hours that are in UTC, while this host is in zone $1. Returns findings (doctor.h).
with zone as (
	select $1::text as name, $1::text in ('UTC', 'Etc/UTC', 'UCT', 'Etc/UCT', 'Universal', 'Zulu', 'GMT', 'Etc/GMT') as is_utc
), fixed as (
	select d.name from jobrun.job_definitions d
	where d.enabled and d.time_zone = 'UTC' and d.name not like 'jobrun.%'
		and (d.schedule in ('@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually')
			or split_part(d.schedule, ' ', 2) ~ '^[0-9]')
	order by d.name limit 1001
), count as (
	select count(*) as n, min(f.name) as first from fixed f
)
select 'warn', format('this host is in %s, and %s in UTC: %s', z.name,
		case when c.n = 1 then 'a schedule is' else format('%s schedules are', c.n) end, c.first || case when c.n > 1 then ' and others' else '' end),
	null::bigint, 'they do not start at the hours that a crontab of this host would mean',
	case when exists (select from pg_timezone_names t where t.name = z.name) then format('jobrun define %s --time-zone %s', c.first, z.name)
		else format('jobrun define %s', c.first) end, null::text
from zone z cross join count c
where not z.is_utc and c.n > 0
union all
select 'ok', format('this host is in %s', z.name), null, null, null, null
from zone z cross join count c
where z.is_utc or c.n = 0
