-- retry_matching: retry the runs of $1 that still have one of the statuses $4; $2 why, $3 also those that succeeded or
-- are superseded. They are locked first, in order of id, so that nobody changes them between the check and the update.
-- Returns how many were retried, 0, and how many were left alone.
with mine as materialized (
	select r.id from jobrun.job_runs r where r.id = any ($1::bigint[]) and r.status = any ($4::text[])
	order by r.id for no key update
), answers as materialized (
	select jobrun.retry(m.id, $3::boolean, $2::text) as answer from mine m
)
select count(*) filter (where a.answer = 'retried'), 0,
	cardinality($1::bigint[]) - count(*) filter (where a.answer = 'retried')
from answers a
