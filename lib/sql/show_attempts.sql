-- show_attempts: the attempts of run $1 that have ended, oldest first: attempt, outcome, age of its start in ms, ms it took,
-- ms of CPU, memory, exit status, host, message
select v.attempt, v.outcome, floor(extract(epoch from now() - v.started_at) * 1000)::bigint,
	floor(extract(epoch from v.finished_at - v.started_at) * 1000)::bigint, v.cpu_ms,
	pg_size_pretty(v.max_rss_kb * 1024), v.exit_status, v.host,
	coalesce(split_part(a.error, E'\n', 1), v.error_code)
from jobrun.attempts v
left join jobrun.job_attempts a on a.run_id = v.run_id and a.claim_seq = v.claim_seq
where v.run_id = $1::bigint
order by v.claim_seq
