-- pause: pause job types $1, queues $2, definitions $3 and hosts $4 (arrays or null), and everything if $5, for $6 ms
-- (null: until resumed); $7 why. Rows are locked in the usual order: queues by name, then definitions by id. Returns
-- kind, name (null: everything), paused until in Unix ms (0: until resumed), document, and if
-- nothing has the name those that there are, one a line, else null.
with asked as (
	select 1 as nr, 0::bigint as id, 'queue' as kind, n.name collate "C" as name, jobrun.other_queues(n.name) as others
	from unnest($2::text[]) n(name)
	union
	select 2, 0, 'type', n.name collate "C", jobrun.other_paused_types(n.name)
	from unnest($1::text[]) n(name)
	union
	select 3, coalesce(d.id, 0), 'definition', n.name collate "C", null
	from unnest($3::text[]) n(name) left join jobrun.job_definitions d on d.name = n.name
	union
	select 4, 0, 'host', n.name collate "C", null from unnest($4::text[]) n(name)
	union
	select 5, 0, 'everything', null, null where $5::boolean
), ordered as materialized (
	select a.* from asked a order by a.nr, a.id, a.name
), paused as materialized (
	select o.nr, o.kind, o.name, o.others, jobrun.pause(
		job_type   => case when o.kind = 'type' then o.name end,
		queue      => case when o.kind = 'queue' then o.name end,
		definition => case when o.kind = 'definition' then o.name end,
		duration   => ($6::bigint / 1000.0)::double precision * interval '1 second',
		reason     => $7::text,
		host       => case when o.kind = 'host' then o.name end,
		everything => o.kind = 'everything') as until
	from ordered o
)
select p.kind, p.name, case when isfinite(p.until) then floor(extract(epoch from p.until) * 1000)::bigint else 0 end,
	row_to_json(d)::text, p.others
from paused p
cross join lateral (select p.kind, p.name, true as paused,
	case when isfinite(p.until) then p.until end as paused_until, $7::text as paused_reason, p.others is null as known) d
order by p.nr, p.name
