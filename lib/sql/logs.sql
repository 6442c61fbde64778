-- logs: what an attempt of run $1 printed. $2: attempt (the newest of that number), null: the last one; while the run is
-- running the last one that has ended. Gives status, attempts, attempt shown, output, bytes dropped, document.
-- No row: no such run.
select d.status, d.attempts, d.attempt, d.output, d.output_dropped, row_to_json(d)::text
from (
	select r.id, r.job_type, r.status, r.attempts, a.attempt, a.claim_seq, a.output, a.output_dropped
	from jobrun.job_runs r
	left join lateral (
		select t.attempt, t.claim_seq, t.output, t.output_dropped
		from jobrun.job_attempts t
		where t.run_id = r.id and (t.attempt = $2::bigint
			or ($2::bigint is null and (r.status = 'running' or t.claim_seq = r.claim_seq)))
		order by t.claim_seq desc limit 1) a on true
	where r.id = $1::bigint) d
