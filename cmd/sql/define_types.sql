-- define_types: the job types that definition $1 (null: all of them) makes runs of. Returns type; null, or if no runner of the last
-- day has a handler for it, the types that there are, one a line; and whether runs of it are certain to need a handler: a
-- definition without a schedule may be one of exec. Those that are known to be of exec are left out.
select t.job_type, jobrun.other_types(t.job_type), t.is_sure
from (
	select s.job_type, bool_or(s.is_sure) as is_sure
	from (
		select d.job_type, d.schedule is not null or d.job_type <> d.name as is_sure from jobrun.job_definitions d
		where (d.name = $1::text or $1::text is null) and not jobrun.is_of_exec(d.name)
		union all
		select d.on_dead, true from jobrun.job_definitions d where d.on_dead is not null and (d.name = $1::text or $1::text is null)) s
	where s.job_type not like 'jobrun.%'
	group by s.job_type) t
order by t.job_type
