-- cancel_kinds: how many of runs $1 can be cancelled, by kind; $2 the statuses in which they can. Returns job type,
-- status, runs, document.
select k.job_type, case k.status when 'failed' then 'retrying' else k.status end, k.runs,
	json_build_object('job_type', k.job_type,
		'status', case k.status when 'failed' then 'retrying' else k.status end, 'count', k.runs)::text
from (
	select r.job_type, r.status, count(*) as runs from jobrun.job_runs r
	where r.id = any ($1::bigint[]) and r.status = any ($2::text[])
	group by r.job_type, r.status) k
order by k.job_type, k.status
