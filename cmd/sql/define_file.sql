-- define_file: create or change the definitions of the file $1 (JSON text); with $2 remove all others. $3: why, or
-- null. Returns name, action, a line for each member that has another value now (jobrun.changed_lines), document, null, and in
-- each row the names of the new ones whose schedule is in UTC because the file names no zone, or null. If the file is not valid,
-- nothing is done and the one row says why in its last column but one.
with file as materialized (
	select f.doc, case
		when jsonb_typeof(f.doc) <> 'object' then 'it is not an object; write {"definitions": [...]}'
		when k.key is not null then format('unknown member "%s"; there is "definitions" alone', left(k.key, 100))
		when f.doc -> 'definitions' is null then 'there is no "definitions"; write {"definitions": [...]}'
		when jsonb_typeof(f.doc -> 'definitions') <> 'array' then '"definitions" is not an array of objects'
		end as wrong
	from (select $1::text::jsonb as doc) f
	left join lateral (select o.key
		from jsonb_object_keys(case when jsonb_typeof(f.doc) = 'object' then f.doc else '{}' end) o(key)
		where o.key <> 'definitions' order by o.key limit 1) k on true
), done as materialized (
	select d.* from file f cross join lateral jobrun.define_all(f.doc -> 'definitions', $2::boolean, $3::text) d where f.wrong is null
)
select d.name, d.action, jobrun.changed_lines(d), row_to_json(d)::text, null,
	jobrun.some_of(array_agg(d.name) filter (where d.action = 'created' and d.new ->> 'schedule' !~* '^@every'
		and d.name <> all (array(select e.value ->> 'name' from file f cross join lateral jsonb_array_elements(f.doc -> 'definitions') e(value)
			where f.wrong is null and e.value ->> 'time_zone' is not null))) over ())
from done d
union all
select null, null, null, null, f.wrong, null from file f where f.wrong is not null
