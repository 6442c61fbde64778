-- retry_others: the runs of $1 that jobrun.retry would refuse; $2 and $3 as in retry_kinds.sql. The columns are those
-- of retry.sql, without a document: id, status or "superseded" (null: no such run), null, the newer run and its status, has
-- the lease run out.
select i.id, case when r.status = any ($2::text[]) then 'superseded' else r.status end, null, n.id, n.status,
	r.status = 'running' and r.locked_until <= now()
from (select distinct u.id from unnest($1::bigint[]) u(id)) i
left join lateral (select r.id, r.status, r.locked_until, r.job_type, r.unique_key from jobrun.all_runs r where r.id = i.id offset 0) r on true
left join lateral (select jobrun.newer_or_archived(r.job_type, r.unique_key, r.id) as id
	where r.status = any ($2::text[]) and not $3::boolean offset 0) w on true
left join lateral (select n.id, n.status from jobrun.all_runs n where n.id = w.id offset 0) n on true
where r.id is null or r.status <> all ($2::text[]) or n.id is not null
order by i.id
