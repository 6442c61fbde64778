-- explain_types: the job type of run $1, or of definition $2, and in further rows the types that runners of the last day
-- have handlers for.
(select r.job_type from jobrun.all_runs r where r.id = $1::bigint
union all
select d.job_type from jobrun.job_definitions d where d.name = $2::text)
union all
(select distinct t.job_type from jobrun.seen_runners() n cross join unnest(n.job_types) t(job_type))
