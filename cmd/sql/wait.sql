-- wait: which of the runs $1 are not over, with job type and status. What nobody may see or never was is over.
select s.id, s.job_type, s.status from jobrun.run_status($1::text::bigint[]) s where s.status in ('queued', 'failed', 'running')
