-- retry_kinds: how many of runs $1 jobrun.retry would make due, by kind; $2 the statuses in which it does, $3 also
-- those that a newer run of their unique key supersedes. Returns job type, status, runs, document.
-- retry(null) does nothing; whoever may not call it is refused as retry refuses.
select k.job_type, case k.status when 'failed' then 'retrying' else k.status end, k.runs,
	json_build_object('job_type', k.job_type,
		'status', case k.status when 'failed' then 'retrying' else k.status end, 'count', k.runs)::text
from (
	select r.job_type, r.status, count(*) as runs from jobrun.all_runs r
	where r.id = any ($1::bigint[]) and r.status = any ($2::text[])
		and ($3::boolean or jobrun.newer_or_archived(r.job_type, r.unique_key, r.id) is null)
		and (select jobrun.retry(null)) is null
	group by r.job_type, r.status) k
order by k.job_type, k.status
