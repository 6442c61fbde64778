-- grants: all grants: kind, role, job types, queues, most unfinished runs, age in ms, problem, document
select d.kind, d.role, coalesce(array_to_string(d.job_types, ', '), 'all'), coalesce(array_to_string(d.queues, ', '), 'all'), d.max_open,
	floor(extract(epoch from now() - d.granted_at) * 1000)::bigint, d.problem, row_to_json(d)::text
from (
	select g.kind, g.role, g.job_types, g.queues, g.max_open, g.granted_at,
		case when not exists (select from pg_roles o where o.rolname = g.role) then 'this role does not exist' end as problem
	from jobrun.job_grants g) d
order by array_position('{enqueue,read,run,admin}'::text[], d.kind), d.role
