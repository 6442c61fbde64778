-- known_names: of the job types $1, the queues $2 and the definitions $3 (arrays or null) those that nothing has: what, name, and the
-- names that there are, one a line.
select n.what, n.name, n.others
from (
	select 'type' as what, t.name, jobrun.other_paused_types(t.name) as others from unnest($1::text[]) t(name)
	union all
	select 'queue', q.name, jobrun.other_queues(q.name) from unnest($2::text[]) q(name)
	union all
	select 'definition', n.name, coalesce((select string_agg(d.name, e'\n') from jobrun.job_definitions d), '')
	from unnest($3::text[]) n(name) where not exists (select from jobrun.job_definitions d where d.name = n.name)) n
where n.others is not null
