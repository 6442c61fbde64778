-- show_output: status of run $1 and what its last attempt printed; if it is running, as much as is known so far. Null: nothing, or
-- not for those who ask. No row: no such run.
select r.status, case when r.status = 'running' then t.output else e.output end
from jobrun.job_runs r
cross join lateral jobrun.run_texts(r.id) t
cross join lateral jobrun.attempt_texts(r.id, r.claim_seq) e
where r.id = $1::bigint
