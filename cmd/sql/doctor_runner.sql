-- doctor_runner: when was a runner seen, on any host and on this one? $1 its name, null: it has no handlers. Returns findings
-- (doctor.h).
with seen as (
	select n.host, n.last_seen_at from jobrun.last_runner() n
), here as (
	select max(n.last_seen_at) as at from jobrun.seen_runners() n where n.host = $1::text and n.job_types <> '{}'
), due as (
	select exists (select from jobrun.oldest_due() d where d.since < now() - interval '5 minutes') as late
)
select f.state, f.text, floor(extract(epoch from now() - f.at) * 1000)::bigint, f.consequence, f.command, null::text
from due d left join seen s on true cross join here h cross join lateral (
	select case when d.late then 'fail' else 'warn' end as state, 'no runner has ever been seen' as text, null::timestamptz as at,
		case when d.late then 'runs wait, and nothing runs them' else 'nothing runs until one starts' end as consequence,
		'jobrun --once -v' as command
	where s.host is null
	union all
	select case when d.late then 'fail' else 'warn' end, 'the last runner was seen {age} ago on ' || s.host, s.last_seen_at,
		case when d.late then 'runs wait, and nothing runs them' else 'nothing runs until one starts' end, 'jobrun --once -v'
	where s.last_seen_at <= now() - interval '5 minutes'
	union all
	select 'warn', case when h.at is null then format('no runner of this host, %s, was seen in the last day', $1::text)
			else format('the last runner of this host, %s, was seen {age} ago', $1::text) end, h.at,
		'other hosts run jobs, this one does not', 'jobrun --once -v'
	where s.last_seen_at > now() - interval '5 minutes' and $1::text is not null and coalesce(h.at, '-infinity') <= now() - interval '5 minutes'
	union all
	select 'ok', 'the last runner was seen {age} ago on ' || s.host, s.last_seen_at, null, null
	where s.last_seen_at > now() - interval '5 minutes'
		and ($1::text is null or coalesce(h.at, '-infinity') > now() - interval '5 minutes')) f
