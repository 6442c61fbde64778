-- runner_seen: record that this runner is alive. $1 id. It is sent together with the heartbeat, so it must not wait for
-- a lock on this row: leases could end meanwhile. here: is the row there, and has nobody ended it? Otherwise the runner
-- claims nothing any more (may_claim). A row that is locked was not written, and is here.
with seen as (
	update jobrun.job_runners set last_seen_at = now()
	where id = (select n.id from jobrun.job_runners n where n.id = $1::bigint for no key update skip locked)
)
select exists (select from jobrun.job_runners n where n.id = $1::bigint and n.finished_at is null) as here
