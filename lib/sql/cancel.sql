-- cancel: runs $1 shall not go on. Locked in order of id. Gives id, answer of jobrun.cancel (null: no such run), document.
with ids as materialized (
	select distinct i.id from unnest($1::bigint[]) i(id) order by i.id
), answers as materialized (
	select i.id, jobrun.cancel(i.id) as answer from ids i
)
select a.id, a.answer, json_build_object('id', a.id, 'cancelled', coalesce(a.answer = 'cancelled', false),
	'requested', coalesce(a.answer = 'requested', false),
	'status', case a.answer when 'requested' then 'running' else a.answer end)::text
from answers a
order by a.id
