-- retry: retry runs $1 now, with all their attempts; $2 why, $3 also those that succeeded or are superseded, $4 the new
-- payload (text of JSON; null: its own). Locked in
-- order of id. Returns id, answer of jobrun.retry (null: no such run), document, if the answer is "superseded" the
-- newer run and its status, and if it is "running" whether the lease has run out.
with ids as materialized (
	select distinct i.id from unnest($1::bigint[]) i(id) order by i.id
), answers as materialized (
	select i.id, jobrun.retry(i.id, $3::boolean, $2::text, $4::text::jsonb) as answer from ids i
)
select a.id, a.answer, row_to_json(d)::text, n.id, n.status, a.answer = 'running' and r.locked_until <= now()
from answers a
left join lateral (select r.id, r.status, r.locked_until, r.job_type, r.unique_key from jobrun.all_runs r where r.id = a.id offset 0) r
	on a.answer in ('superseded', 'running')
left join lateral (select jobrun.newer_or_archived(r.job_type, r.unique_key, r.id) as id where a.answer = 'superseded' offset 0) w on true
left join lateral (select n.id, n.status from jobrun.all_runs n where n.id = w.id offset 0) n on true
cross join lateral (select a.id, coalesce(a.answer = 'retried', false) as retried,
	case a.answer when 'retried' then 'queued'
		when 'superseded' then case r.status when 'failed' then 'retrying' else r.status end else a.answer end as status, n.id as superseded_by) d
order by a.id
