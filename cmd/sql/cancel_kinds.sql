-- cancel_kinds: how many of runs $1 can be cancelled, by kind; $2 the statuses in which they can. Returns job type,
-- status, runs, document. run_status, not the table: a role with `enqueue` alone can cancel its runs, but reads no table.
-- cancel(null) does nothing; whoever may not call it is refused as cancel refuses.
select k.job_type, k.status, k.runs, json_build_object('job_type', k.job_type, 'status', k.status, 'count', k.runs)::text
from (
	select s.job_type, s.status, count(*) as runs from jobrun.run_status($1::bigint[]) s
	where case s.status when 'retrying' then 'failed' else s.status end = any ($2::text[])
		and s.id in (select jobrun.may_cancel($1::bigint[])) and (select jobrun.cancel(null)) is null
	group by s.job_type, s.status) k
order by k.job_type, k.status
