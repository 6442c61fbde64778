-- explain_definition: why definition $1 does or does not fire, as explain.sql does it for a run, also $2 and $3. Returns condition, state, words, point in time
-- in them in Unix ms (null: none), its age in ms (negative: to come), the rest of the words, what changes it, reason, and in
-- each row the same document. No row: no such definition.
with e as materialized (
	select x.* from jobrun.explain_definition($1::text, $2::text, $3::text[]) with ordinality x(condition, state, reason, words, at, rest, command, nr)
)
select e.condition, e.state, e.words, floor(extract(epoch from e.at) * 1000)::bigint,
	floor(extract(epoch from now() - e.at) * 1000)::bigint, e.rest, e.command, e.reason, d.doc
from e
cross join (
	select json_build_object('definition', $1::text, 'explained_at', now(),
		'verdict', max(v.state) filter (where v.nr = 1), 'reason', max(v.reason) filter (where v.nr = 1),
		'text', max(v.text) filter (where v.nr = 1), 'command', max(v.command) filter (where v.nr = 1),
		'conditions', coalesce(json_agg(json_build_object('condition', v.condition, 'state', v.state, 'reason', v.reason, 'text', v.text,
			'text_at', v.at, 'command', v.command) order by v.nr) filter (where v.nr > 1), '[]'))::text as doc
	from (select e.*, e.words || coalesce(' ' || to_char(e.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '') || e.rest as text from e) v) d
order by e.nr
