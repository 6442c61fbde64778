-- known_names: of the job types $1 and the queues $2 (arrays or null) those that nothing has: what, name, and the names that there
-- are, one a line.
select n.what, n.name, n.others
from (
	select 'type' as what, t.name, jobrun.other_paused_types(t.name) as others from unnest($1::text[]) t(name)
	union all
	select 'queue', q.name, jobrun.other_queues(q.name) from unnest($2::text[]) q(name)) n
where n.others is not null
