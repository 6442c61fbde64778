-- runner_finish: the runner ends normally. $1 id, $2 counts by outcome (a JSON object), $3 number of its last claim: a
-- claim that got no answer will take nothing. The server's clock may have been set back since the runner started.
update jobrun.job_runners
set finished_at = greatest(now(), started_at), last_seen_at = now(), lingers_until = null, counts = $2::jsonb,
	claims_void = greatest(claims_void, $3::bigint)
where id = $1::bigint
