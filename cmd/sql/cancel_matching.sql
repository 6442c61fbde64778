-- cancel_matching: cancel the runs of $1 that still have one of the statuses $3; $2 why. They are locked first, in
-- order of id, so that nobody changes them between the check and the update.
-- Returns how many were cancelled, how many running ones were asked to stop, and how many were left alone.
with mine as materialized (
	select r.id from jobrun.job_runs r where r.id = any ($1::bigint[]) and r.status = any ($3::text[])
	order by r.id for no key update
), answers as materialized (
	select jobrun.cancel(m.id, $2::text) as answer from mine m
)
select count(*) filter (where a.answer = 'cancelled'), count(*) filter (where a.answer = 'requested'),
	cardinality($1::bigint[]) - count(*) filter (where a.answer in ('cancelled', 'requested'))
from answers a
