-- wait: which of the runs $1 are not over, with job type and status; one that was superseded goes on as the one in its place.
-- What nobody may see or never was is over.
select s.id, s.job_type, s.status
from jobrun.run_status(array(select distinct i.newer from jobrun.in_place_of($1::text::bigint[]) i)) s
where s.status in ('queued', 'failed', 'running')
