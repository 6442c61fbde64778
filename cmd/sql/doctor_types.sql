-- doctor_types: due runs that no host can run, and that neither a pause nor the next `jobrun exec` explains: the five pairs of job type
-- and queue with the oldest ones, of the hundred oldest pairs. Returns findings (doctor.h).
with seen as materialized (
	select jobrun.all_seen() as runners
), due as (
	select d.job_type, d.queue, d.since from jobrun.oldest_due() d
	where d.job_type not like 'jobrun.%' order by d.since limit 100
), stuck as (
	select d.*, h.words || h.rest as words, h.command, row_number() over (order by d.since, d.job_type, d.queue) as nr, count(*) over () as n
	from due d cross join seen s cross join lateral jobrun.explain_handler(d.job_type, d.queue, s.runners) h
	where h.state = 'no' and s.runners <> '[]'
)
select f.state, f.text, f.age_ms, f.consequence, f.command, null::text
from (
	select s.nr, 'fail' as state, format('a run of %s in queue %s has been due for {age}, and %s', s.job_type, s.queue, s.words)
			|| case when s.nr = 5 and s.n > 5 then format(' (and %s more)', s.n - 5) else '' end as text,
		floor(extract(epoch from now() - s.since) * 1000)::bigint as age_ms, 'it waits until a host has one' as consequence, s.command
	from stuck s
	where s.nr <= 5
	union all
	select 0, 'unchecked', 'no runner was seen in the last day, so what hosts have handlers for is not known', null, null, null
	from seen s
	where s.runners = '[]' and exists (select from due)) f
order by f.nr
