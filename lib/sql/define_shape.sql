-- define_shape: what is wrong with the outline of the file $1 (text of JSON) of definitions, for people; null: nothing
select case
	when jsonb_typeof(f.doc) <> 'object' then 'it is not an object; write {"definitions": [...]}'
	when k.key is not null then format('unknown member "%s"; there is "definitions" alone', left(k.key, 100))
	when f.doc -> 'definitions' is null then 'there is no "definitions"; write {"definitions": [...]}'
	when jsonb_typeof(f.doc -> 'definitions') <> 'array' then '"definitions" is not an array of objects'
	end
from (select $1::text::jsonb as doc) f
left join lateral (select o.key
	from jsonb_object_keys(case when jsonb_typeof(f.doc) = 'object' then f.doc else '{}' end) o(key)
	where o.key <> 'definitions' order by o.key limit 1) k on true
