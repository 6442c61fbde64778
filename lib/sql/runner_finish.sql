-- runner_finish: the runner ends in good order. $1 id, $2 counts by outcome (a JSON object)
update jobrun.job_runners
set finished_at = now(), last_seen_at = now(), lingers_until = null, counts = $2::jsonb
where id = $1::bigint
