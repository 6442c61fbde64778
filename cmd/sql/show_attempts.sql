-- show_attempts: the attempts of run $1 that have ended, oldest first: attempt, outcome, age of its start in ms, ms it
-- took, ms of CPU, memory, exit status, host, message
select v.attempt, v.outcome, floor(extract(epoch from now() - v.started_at) * 1000)::bigint,
	floor(extract(epoch from v.finished_at - v.started_at) * 1000)::bigint, v.cpu_ms,
	pg_size_pretty(v.max_rss_kb * 1024), v.exit_status, v.host,
	coalesce(split_part(e.error, E'\n', 1), v.error_code)
from jobrun.attempts v
cross join lateral jobrun.attempt_texts(v.run_id, v.claim_seq) e
where v.run_id = $1::bigint
order by v.claim_seq
