-- define_file: the definitions of the file $1 (text of JSON) are made, or become what it says; with $2 all others are
-- removed. $3: why, or null. Gives name, action, a line for each member that has another value now ("timeout: null ->
-- 00:15:00"; of a new definition what it has, without the arrow), document.
with done as materialized (
	select d.* from jobrun.define_all($1::text::jsonb -> 'definitions', $2::boolean, $3::text) d
)
select d.name, d.action, l.lines, row_to_json(d)::text
from done d
cross join lateral (
	select string_agg(k.key || ': ' || case d.action when 'changed' then left(coalesce(d.old -> k.key, 'null')::text, 300) || ' -> '
		else '' end || left((d.new -> k.key)::text, 300), e'\n' order by k.key) as lines
	from jsonb_object_keys(d.new) k(key)
) l
