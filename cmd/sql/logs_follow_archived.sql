-- logs_follow_archived: as logs_follow.sql, for a run $1 that is in the archive. It has ended.
select r.status, r.claim_seq, r.max_attempts, null, split_part(r.last_error, E'\n', 1), r.progress::text,
	a.claim_seq, a.attempt, a.output, a.output_dropped,
	(select n.id from jobrun.all_runs n where n.id = r.superseded_by)
from jobrun.job_runs_archive r
left join jobrun.job_attempts_archive a on a.run_id = r.id and a.run_finished_at = r.finished_at
	and a.claim_seq >= coalesce($2::bigint, r.claim_seq)
where r.id = $1::bigint
order by a.claim_seq
