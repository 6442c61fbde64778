-- cancel_matching: cancel the runs of $1 that still have one of the statuses $3; $2 why. They are locked first, in
-- order of id, so that nobody changes them between the check and the update; $4: those that others have locked are passed over.
-- Returns how many were cancelled, how many running ones were asked to stop, how many were left alone, and how many passed over.
with waited as materialized (
	select r.id from jobrun.job_runs r where not $4::boolean and r.id = any ($1::bigint[]) and r.status = any ($3::text[])
	order by r.id for no key update
), passed as materialized (
	select r.id from jobrun.job_runs r where $4::boolean and r.id = any ($1::bigint[]) and r.status = any ($3::text[])
	order by r.id for no key update skip locked
), locked as (
	select count(*) as n from jobrun.job_runs r where $4::boolean and r.id = any ($1::bigint[]) and r.status = any ($3::text[])
		and r.id not in (select p.id from passed p)
), mine as (
	select w.id from waited w union all select p.id from passed p
), answers as materialized (
	select jobrun.cancel(m.id, $2::text) as answer from mine m
)
select count(*) filter (where a.answer = 'cancelled'), count(*) filter (where a.answer = 'requested'),
	cardinality($1::bigint[]) - count(*) filter (where a.answer in ('cancelled', 'requested')) - (select l.n from locked l),
	(select l.n from locked l)
from answers a
