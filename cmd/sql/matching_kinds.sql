-- matching_kinds: how many runs match a filter, by kind; with a limit, the newest. $1 how many at most (null: all), $2 to $12
-- as in run_filter.part, but $2 is never null. $13: only those of them that cancel() does not hide from the caller.
-- Returns job type, status, runs, document, lowest and highest id.
-- All waiting runs are read, whatever the limit: with an order by id the planner would search them among all runs that
-- ever ended.
with matching as materialized (
	(select r.id, r.job_type, r.status, r.created_by from jobrun.job_runs r
	where 'dead' = any ($2::text[]) and r.status = 'dead'
			-- include run_ended
		-- include run_filter
	order by r.id desc limit $1::bigint)
	union all
	select r.id, r.job_type, r.status, r.created_by from jobrun.job_runs r
	where 'running' = any ($2::text[]) and r.status = 'running'
		-- include run_filter
	union all
	select r.id, r.job_type, r.status, r.created_by from jobrun.job_runs r
	where $2::text[] && '{queued,failed}' and r.status in ('queued', 'failed')
		-- include run_filter
	union all
	(select r.id, r.job_type, r.status, r.created_by from jobrun.job_runs r
	where $2::text[] && '{succeeded,cancelled}' and r.status in ('succeeded', 'cancelled')
			-- include run_ended
		-- include run_filter
	order by r.id desc limit $1::bigint)
)
select k.job_type, case k.status when 'failed' then 'retrying' else k.status end, k.runs,
	json_build_object('job_type', k.job_type,
		'status', case k.status when 'failed' then 'retrying' else k.status end, 'count', k.runs)::text, k.first, k.last
from (
	select m.job_type, m.status, count(*) as runs, min(m.id) as first, max(m.id) as last
	from (select m.* from matching m order by m.id desc limit $1::bigint) m
	where not $13::boolean or m.created_by = current_user
		or (select has_function_privilege('jobrun.is_admin()', 'execute')) -- which only admins have
	group by m.job_type, m.status) k
order by k.job_type, k.status
