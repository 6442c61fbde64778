-- retry: runs $1 get all their attempts again, now; $2 also those that succeeded. Locked in order of id.
-- Gives id, answer of jobrun.retry (null: no such run), document.
with ids as materialized (
	select distinct i.id from unnest($1::bigint[]) i(id) order by i.id
), answers as materialized (
	select i.id, jobrun.retry(i.id, $2::boolean) as answer from ids i
)
select a.id, a.answer, json_build_object('id', a.id, 'retried', coalesce(a.answer = 'retried', false),
	'status', case a.answer when 'retried' then 'queued' else a.answer end)::text
from answers a
order by a.id
