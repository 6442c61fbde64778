-- resume: resume job types $1, queues $2, definitions $3 and hosts $4 (arrays or null), and everything if $5; $6 why.
-- Rows are locked in the usual order: queues by name, then definitions by id. Returns kind, name (null: everything), was
-- it paused?, document.
with asked as (
	select 1 as nr, 0::bigint as id, 'queue' as kind, n.name collate "C" as name from unnest($2::text[]) n(name)
	union
	select 2, 0, 'type', n.name collate "C" from unnest($1::text[]) n(name)
	union
	select 3, coalesce(d.id, 0), 'definition', n.name collate "C"
	from unnest($3::text[]) n(name) left join jobrun.job_definitions d on d.name = n.name
	union
	select 4, 0, 'host', n.name collate "C" from unnest($4::text[]) n(name)
	union
	select 5, 0, 'everything', null where $5::boolean
), ordered as materialized (
	select a.* from asked a order by a.nr, a.id, a.name
), resumed as materialized (
	select o.nr, o.kind, o.name, jobrun.resume(
		job_type   => case when o.kind = 'type' then o.name end,
		queue      => case when o.kind = 'queue' then o.name end,
		definition => case when o.kind = 'definition' then o.name end,
		reason     => $6::text,
		host       => case when o.kind = 'host' then o.name end,
		everything => o.kind = 'everything') as was_paused
	from ordered o
)
select r.kind, r.name, r.was_paused, row_to_json(d)::text
from resumed r
cross join lateral (select r.kind, r.name, false as paused, r.was_paused) d
order by r.nr, r.name
