-- show_output: status of run $1 and the output of its last attempt; of a running attempt, the part reported so far.
-- Null: no output, or this role may not read it. No row: no such run.
select r.status, case when r.status = 'running' then t.output else e.output end
from jobrun.all_runs r
cross join lateral jobrun.run_texts(r.id) t
cross join lateral jobrun.attempt_texts(r.id, r.claim_seq) e
where r.id = $1::bigint
