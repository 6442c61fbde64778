-- cancel_others: the runs of $1 that cannot be cancelled, since they have none of the statuses $2: id, status (null: no
-- such run, or not for this role to cancel). run_status as in cancel_kinds.sql.
select i.id, s.status
from (select distinct u.id from unnest($1::bigint[]) u(id)) i
left join jobrun.run_status($1::bigint[]) s on s.id = i.id and s.id in (select jobrun.may_cancel($1::bigint[]))
where s.id is null or case s.status when 'retrying' then 'failed' else s.status end <> all ($2::text[])
order by i.id
