-- A tick of the prototype that finds nothing, first round trip: its runner's row, what others have lost, a claim.
begin;
set local synchronous_commit = off;
insert into queue_runners default values;
update queue_runs set status = 0 where status = 1 and locked_until < now();
with c as materialized (
    select ctid from queue_runs where queue = 'default' and status = 0 and run_at <= now()
    order by priority, run_at, id limit 4 for update skip locked
)
update queue_runs j set status = 1, locked_by = 1, locked_until = now() + interval '5 min', attempts = attempts + 1
from c where j.ctid = c.ctid
returning j.id, j.job_type, j.payload;
commit
