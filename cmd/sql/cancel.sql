-- cancel: cancel runs $1; $2 why. Locked in order of id. Returns id, answer of jobrun.cancel (null: no such run),
-- document.
with ids as materialized (
	select distinct i.id from unnest($1::bigint[]) i(id) order by i.id
), answers as materialized (
	select i.id, jobrun.cancel(i.id, $2::text) as answer from ids i
)
select a.id, a.answer, row_to_json(d)::text
from answers a
cross join lateral (select a.id, coalesce(a.answer = 'cancelled', false) as cancelled,
	coalesce(a.answer = 'requested', false) as requested,
	case a.answer when 'requested' then 'running' else a.answer end as status) d
order by a.id
