-- runner_seen: this runner is alive. $1 id. It waits for nobody: it goes with the heartbeat, and a lock on this row must
-- not cost a lease.
update jobrun.job_runners set last_seen_at = now()
where id = (select n.id from jobrun.job_runners n where n.id = $1::bigint for no key update skip locked)
