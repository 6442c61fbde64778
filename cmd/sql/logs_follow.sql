-- logs_follow: read by `logs -f` once a second: the attempts of run $1 from claim $2 on (null: only the last one), both
-- ended and running, in order. Returns of the run: status, last claim, max_attempts, due in ms (null unless it waits),
-- first line of its last error, progress; of the attempt: claim (null: no attempt to show), attempt, output, bytes
-- dropped; and the newer run that has superseded the run, if it still exists. No row: no such run.
select r.status, r.claim_seq, r.max_attempts,
	case when r.status in ('queued', 'failed') then floor(extract(epoch from r.run_at - now()) * 1000)::bigint end,
	split_part(r.last_error, E'\n', 1), r.progress::text,
	a.claim_seq, a.attempt, a.output, a.output_dropped,
	(select n.id from jobrun.job_runs n where n.id = r.superseded_by)
from jobrun.job_runs r
left join lateral (
	select r.claim_seq, r.attempts, r.output, coalesce(r.output_dropped, 0)
	where r.locked_until is not null
	union all
	select v.claim_seq, v.attempt, e.output, v.output_dropped
	from jobrun.attempts v
	left join jobrun.job_attempts e on e.run_id = v.run_id and e.claim_seq = v.claim_seq
	where v.run_id = $1::bigint) a(claim_seq, attempt, output, output_dropped)
	on a.claim_seq >= coalesce($2::bigint, r.claim_seq)
where r.id = $1::bigint
order by a.claim_seq
