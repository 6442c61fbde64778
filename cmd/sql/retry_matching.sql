-- retry_matching: retry the runs of $1 that still have one of the statuses $4; $2 why, $3 also those that succeeded or
-- are superseded. They are locked first, in order of id, so that nobody changes them between the check and the update; $5: those
-- that others have locked are passed over. Returns how many were retried, 0, how many were left alone, and how many passed over.
with waited as materialized (
	select r.id from jobrun.job_runs r where not $5::boolean and r.id = any ($1::bigint[]) and r.status = any ($4::text[])
	order by r.id for no key update
), passed as materialized (
	select r.id from jobrun.job_runs r where $5::boolean and r.id = any ($1::bigint[]) and r.status = any ($4::text[])
	order by r.id for no key update skip locked
), locked as (
	select count(*) as n from jobrun.job_runs r where $5::boolean and r.id = any ($1::bigint[]) and r.status = any ($4::text[])
		and r.id not in (select p.id from passed p)
), mine as (
	select w.id from waited w union all select p.id from passed p
), answers as materialized (
	select jobrun.retry(m.id, $3::boolean, $2::text) as answer from mine m
)
select count(*) filter (where a.answer = 'retried'), 0,
	cardinality($1::bigint[]) - count(*) filter (where a.answer = 'retried') - (select l.n from locked l), (select l.n from locked l)
from answers a
