-- define: definition $1 is made, or becomes what the members of $2 (a JSON object) say; the others stay. $3: its payload
-- (text of JSON; JSON null: none of its own), or null: stays. $4: why, or null. Gives name, action, a line for each member
-- that has another value now, document. See jobrun.changed_lines.
select d.name, d.action, jobrun.changed_lines(d), row_to_json(d)::text
from jobrun.define($1::text, $2::text::jsonb
	|| case when $3::text is null then '{}' else jsonb_build_object('payload', $3::text::jsonb) end, $4::text) d
