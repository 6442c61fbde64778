-- cancel_others: the runs of $1 that cannot be cancelled, since they have none of the statuses $2: id, status (null: no
-- such run).
select i.id, r.status
from (select distinct u.id from unnest($1::bigint[]) u(id)) i
left join jobrun.all_runs r on r.id = i.id
where r.id is null or r.status <> all ($2::text[])
order by i.id
