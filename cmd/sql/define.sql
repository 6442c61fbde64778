-- define: create or change definition $1; $2 (a JSON object) has the members to change. $3: its payload (JSON text;
-- JSON
-- null: no payload), or null: unchanged. $4: why, or null. Returns name, action, a line for each member that has
-- another value now (jobrun.changed_lines), document.
select d.name, d.action, jobrun.changed_lines(d), row_to_json(d)::text
from jobrun.define($1::text, $2::text::jsonb
	|| case when $3::text is null then '{}' else jsonb_build_object('payload', $3::text::jsonb) end, $4::text) d
