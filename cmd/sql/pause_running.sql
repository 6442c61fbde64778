-- pause_running: what runs of the job types $1, queues $2, definitions $3, on the hosts $4 (arrays or null), or at all
-- if $5; those whose lease has ended last, since nobody works on them any more. At most 100 rows. Returns id, job type,
-- host, started in Unix ms, age in ms, has it a lease, how many have.
select r.id, r.job_type, r.locked_by, floor(extract(epoch from r.started_at) * 1000)::bigint,
	floor(extract(epoch from now() - r.started_at) * 1000)::bigint, r.locked_until > now() as held,
	count(*) filter (where r.locked_until > now()) over ()
from jobrun.job_runs r
where r.status = 'running' and ($5::boolean or r.job_type = any ($1::text[]) or r.queue = any ($2::text[])
	or r.definition_id in (select d.id from jobrun.job_definitions d where d.name = any ($3::text[]))
	or r.locked_by = any ($4::text[]))
order by held desc, r.started_at, r.id
limit 100
