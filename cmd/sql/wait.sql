-- wait: the runs of $1 that are not over, with job type and status. A superseded run counts as the run that took its
-- place. A run that does not exist, or that this role may not see, counts as over.
select s.id, s.job_type, s.status
from jobrun.run_status(array(select distinct i.newer from jobrun.in_place_of($1::text::bigint[]) i)) s
where s.status in ('queued', 'retrying', 'running')
