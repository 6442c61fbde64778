-- define_types: the job types that definition $1 (null: all of them) makes runs of. Returns type; null, or if no runner of the last
-- day has a handler for it, the types that there are, one a line; and whether runs of it are certain to need a handler: a
-- definition without a schedule may be one of exec. Those that are known to be of exec are left out, by the words of is_of_exec():
-- a schema of the version before has no such function.
select t.job_type, jobrun.other_types(t.job_type), t.is_sure
from (
	select s.job_type, bool_or(s.is_sure) as is_sure
	from (
		select d.job_type, d.schedule is not null or d.job_type <> d.name as is_sure from jobrun.job_definitions d
		where (d.name = $1::text or $1::text is null)
			and (d.schedule is not null or d.job_type <> d.name
				or not exists (select from jobrun.job_audit a where a.object = 'definition ' || d.name and a.action = 'define'
						and a.reason = 'first use by exec' and a.at = d.created_at)
					and not exists (select from jobrun.job_totals t
						where t.job_type = d.name and t.queue = 'exec' and t.outcome in ('succeeded', 'dead')))
		union all
		select d.on_dead, true from jobrun.job_definitions d where d.on_dead is not null and (d.name = $1::text or $1::text is null)) s
	where s.job_type not like 'jobrun.%'
	group by s.job_type) t
order by t.job_type
