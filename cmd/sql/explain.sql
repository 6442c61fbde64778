-- explain: why run $1 stands where it does; the first row is the verdict. $2 this host, $3 the types that it has handlers for (null: not known). Returns condition, state, words, point in time
-- in them in Unix ms (null: none), its age in ms (negative: to come), the rest of the words, what changes it, reason, and in
-- each row the same document. No row: no such run.
with e as materialized (
	select x.* from jobrun.explain($1::bigint, $2::text, $3::text[]) with ordinality x(condition, state, reason, words, at, rest, command, nr)
)
select e.condition, e.state, e.words, floor(extract(epoch from e.at) * 1000)::bigint,
	floor(extract(epoch from now() - e.at) * 1000)::bigint, e.rest, e.command, e.reason, d.doc
from e
cross join (
	select json_build_object('id', $1::bigint, 'explained_at', now(),
		'verdict', max(v.state) filter (where v.nr = 1), 'reason', max(v.reason) filter (where v.nr = 1),
		'text', max(v.text) filter (where v.nr = 1), 'command', max(v.command) filter (where v.nr = 1),
		'conditions', coalesce(json_agg(json_build_object('condition', v.condition, 'state', v.state, 'reason', v.reason, 'text', v.text,
			'text_at', v.at, 'command', v.command) order by v.nr) filter (where v.nr > 1), '[]'))::text as doc
	from (select e.*, e.words || coalesce(' ' || to_char(e.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '') || e.rest as text from e) v) d
order by e.nr
