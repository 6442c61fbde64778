-- candidates: the combinations (job_type, queue, priority) that have a due run now, best priority first, for the claim.
-- $1 job types of this host, $2 wanted queues or null for all, $3 how many to return, $4 host
select * from jobrun.candidates($1::text[], $2::text[], $3::bigint, $4::text)
