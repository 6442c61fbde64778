-- logs: the output of an attempt of run $1; of a running attempt, the part reported so far. $2: number of the attempt
-- ("later", an interruption and retry use a number again; then the newest), null: the last one that began.
-- Returns status, attempts, attempt shown, output, bytes dropped, document. No row: no such run.
select d.status, d.attempts, d.attempt, d.output, d.output_dropped, row_to_json(d)::text
from (
	select r.id, r.job_type, case r.status when 'failed' then 'retrying' else r.status end as status, r.attempts, a.attempt, a.claim_seq, a.output, a.output_dropped
	from jobrun.all_runs r
	left join lateral (
		select t.attempt, t.claim_seq, t.output, t.output_dropped
		from (
			select h.attempts, h.claim_seq, h.output, coalesce(h.output_dropped, 0)
			from jobrun.job_runs h where h.id = r.id and h.locked_until is not null
			union all
			select e.attempt, e.claim_seq, e.output, e.output_dropped
			from jobrun.job_attempts e where e.run_id = r.id
			union all
			select e.attempt, e.claim_seq, e.output, e.output_dropped
			from jobrun.job_attempts_archive e where e.run_id = r.id) t(attempt, claim_seq, output, output_dropped)
		where t.attempt = $2::bigint or ($2::bigint is null and t.claim_seq = r.claim_seq)
		order by t.claim_seq desc limit 1) a on true
	where r.id = $1::bigint) d
