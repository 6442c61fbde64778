-- define: definition $1 is made, or becomes what the members of $2 (a JSON object) say; the others stay. $3: its payload
-- (text of JSON; JSON null: none of its own), or null: stays. $4: why, or null. Gives name, action, a line for each member
-- that has another value now, document. See define_file for the lines.
with done as materialized (
	select d.* from jobrun.define($1::text, $2::text::jsonb
		|| case when $3::text is null then '{}' else jsonb_build_object('payload', $3::text::jsonb) end, $4::text) d
)
select d.name, d.action, l.lines, row_to_json(d)::text
from done d
cross join lateral (
	select string_agg(k.key || ': ' || case when d.action = 'changed' then left(v.old, 300) || case when length(v.old) > 300 then '...'
		else '' end || ' -> ' else '' end || left(v.new, 300) || case when length(v.new) > 300 then '...' else '' end, e'\n'
		order by k.key) as lines
	from jsonb_object_keys(coalesce(d.old, '{}') || d.new) k(key)
	cross join lateral (select coalesce(d.old -> k.key, 'null')::text as old, coalesce(d.new -> k.key, 'null')::text as new) v
	where d.new -> k.key is distinct from case when d.action = 'changed' then d.old -> k.key
		else jsonb_build_object('job_type', d.name, 'time_zone', 'UTC', 'anchor_at', d.new -> 'anchor_at', 'catch_up', 'once',
			'overlap', 'skip', 'enabled', true) -> k.key end
) l
