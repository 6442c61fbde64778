-- runner_seen: a sign of life. $1 id
update jobrun.job_runners set last_seen_at = now()
where id = $1::bigint
