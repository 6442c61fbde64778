-- candidates: the combinations (job_type, queue, priority) that have a due run now, best priority first, for the claim.
-- $1 job types of this host, $2 wanted queues or null for all, $3 how many to return, $4 host
-- If there is none, one row without a combination. look_ms: how long the server looked.
select c.job_type, c.queue, c.priority, (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::bigint as look_ms
from (select) one left join jobrun.candidates($1::text[], $2::text[], $3::bigint, $4::text) c on true
