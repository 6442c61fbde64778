-- runner_finish: the runner ends in good order. $1 id, $2 counts by outcome (a JSON object), $3 number of its last
-- claim: one that was not answered takes nothing any more
update jobrun.job_runners
set finished_at = now(), last_seen_at = now(), lingers_until = null, counts = $2::jsonb,
	claims_void = greatest(claims_void, $3::bigint)
where id = $1::bigint
