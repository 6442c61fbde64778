-- Second round trip: the runner says goodbye.
begin;
set local synchronous_commit = off;
update queue_runners set finished_at = now() where id = lastval();
commit
