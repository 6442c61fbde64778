-- doctor_retention: does housekeeping delete what is older than the settings say? Returns findings (doctor.h).
with prune as (
	select d.enabled, d.paused_until, d.next_slot_at from jobrun.job_definitions d where d.name = 'jobrun.prune'
), settings as (
	select s.stats_until, greatest(s.keep_succeeded, s.keep_cancelled, s.keep_dead) as longest from jobrun.settings s
)
select f.state, f.text, floor(extract(epoch from f.age) * 1000)::bigint, f.consequence, f.command, f.sql
from settings s left join prune p on true cross join lateral (
	select 'fail' as state, 'there is no definition jobrun.prune' as text, null::interval as age,
		'finished runs are kept for ever, and tables grow' as consequence,
		'jobrun define jobrun.prune --schedule @hourly --queue jobrun' as command, null as sql
	where p.enabled is null
	union all
	select 'fail', 'housekeeping (jobrun.prune) is disabled', null, 'finished runs are kept for ever, and tables grow',
		'jobrun define jobrun.prune --enable', null
	where not p.enabled
	union all
	select 'fail', 'housekeeping (jobrun.prune) is paused', null, 'finished runs are kept until it is resumed',
		'jobrun resume --definition jobrun.prune', null
	where p.enabled and p.paused_until > now()
	union all
	select 'warn', format('the next slot of jobrun.prune is %s', to_char(p.next_slot_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"')), null,
		'until then finished runs are kept', 'jobrun define jobrun.prune --restart', null
	where p.enabled and p.next_slot_at > now() + interval '1 day'
	union all
	select 'warn', 'housekeeping has not gone on for {age}', now() - s.stats_until, 'finished runs are kept, and tables grow',
		'jobrun list --type jobrun.prune', null
	where p.enabled and s.stats_until < now() - interval '1 day'
	union all
	select 'warn', 'finished runs are kept for {age}', s.longest, 'tables grow until then', null,
		'select keep_succeeded, keep_cancelled, keep_dead from jobrun.settings'
	where s.longest > interval '5 years') f
