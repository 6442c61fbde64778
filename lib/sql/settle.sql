-- settle: what attempts came to, of every kind; the only statement that ends a run that was running.
-- Arrays of equal length: $1 ids, $2 claim_seqs, $3 runner ids (of the holder, also when it is dead), $4 outcomes
-- (succeeded, failed, dead, later, released, unstarted, cancelled, lost), $5 delays in ms, $6 error codes, $7 errors,
-- $8 exit statuses, $9 pids, $10 cpu ms, $11 max rss kB, $12 outputs, $13 bytes of output dropped, $14 results,
-- $15 progress, $16 checkpoints: these three as the lines of JOBRUN_OUT, JSON objects with a member of that name.
-- Gives (id, claim_seq, status, attempts, max_attempts, run_in_ms or null when final, id of the alarm that a dead one has
-- raised or null) for what was accepted; what does not come back was fenced out. A repeat changes nothing: the first one took the lease away.
--
-- The fence is id, claim_seq, runner_id and "locked_until is not null". The last means running, by a CHECK; saying so
-- with status would lead the planner to the index of running rows and its dead entries.
with given as materialized (
	select g.* from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[],
			$8::integer[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::text[], $15::text[], $16::text[])
		as g(id, claim_seq, runner_id, outcome, delay_ms, error_code, error, exit_status, pid, cpu_ms, max_rss_kb,
			output, output_dropped, result, progress, checkpoint)
), held as materialized (
	-- locked in order of id, so that no two batches can wait for each other
	select g.*, r.attempts, r.max_attempts, r.snoozes, r.releases, r.cancel_requested_at,
		r.output as last_output, r.output_dropped as last_dropped -- all that is known of an attempt that was lost
	from given g join jobrun.job_runs r on r.id = g.id
	where r.claim_seq = g.claim_seq and r.runner_id = g.runner_id and r.locked_until is not null
		and (g.outcome <> 'lost' or r.locked_until <= now())
	order by r.id
	for no key update of r
), judged as (
	select h.*,
		case
			when h.outcome = 'succeeded' then 'succeeded'
			when h.outcome = 'cancelled' or h.cancel_requested_at is not null then 'cancelled'
			when h.outcome = 'dead' then 'dead'
			when h.outcome = 'unstarted' then 'queued' -- nothing was tried, so nothing is counted
			-- not charged, but not for ever either: from the 50th and the 4th time on it is a failure
			when h.outcome = 'later' and h.snoozes + 1 < 50 then 'queued'
			when h.outcome = 'released' and h.releases + 1 < 4 then 'queued'
			when h.attempts >= h.max_attempts then 'dead'
			else 'failed'
		end as status,
		case
			when h.outcome = 'later' then least(coalesce(h.delay_ms, 0), 86400000)
			else coalesce(h.delay_ms, 0)
		end * interval '1 millisecond' as delay
	from held h
), settled as (
	update jobrun.job_runs r
	set status       = j.status,
		locked_until = null,
		attempts     = r.attempts - (j.status = 'queued' or j.outcome = 'unstarted')::integer,
		snoozes      = r.snoozes + (j.status = 'queued' and j.outcome = 'later')::integer,
		releases     = r.releases + (j.status = 'queued' and j.outcome = 'released')::integer,
		run_at       = case
			when j.outcome = 'unstarted' then r.run_at
			when j.status = 'queued' and j.outcome = 'released' then now()
			when j.status in ('queued', 'failed') then now() + j.delay
			else r.run_at end,
		cancel_requested_at = case when j.status not in ('queued', 'failed') then r.cancel_requested_at end,
		failed_at    = case when j.status in ('failed', 'dead') then now() else r.failed_at end,
		finished_at  = case when j.status in ('succeeded', 'dead', 'cancelled') then now() end,
		error_code   = case when j.outcome = 'unstarted' then r.error_code when j.status <> 'succeeded' then j.error_code end,
		last_error   = case when j.outcome = 'unstarted' then r.last_error when j.status <> 'succeeded' then j.error end,
		output       = null,
		output_dropped = null,
		progress     = case when j.progress is null then r.progress
			else nullif(j.progress::jsonb -> 'progress', 'null') end,
		checkpoint   = case when j.checkpoint is null then r.checkpoint
			else nullif(j.checkpoint::jsonb -> 'checkpoint', 'null') end,
		result       = case when j.status = 'succeeded' and j.result is not null
			then nullif(j.result::jsonb -> 'result', 'null') else r.result end
	from judged j
	where r.id = j.id and r.claim_seq = j.claim_seq and r.runner_id = j.runner_id and r.locked_until is not null
	returning r.id, r.claim_seq, r.runner_id, r.status, r.attempts, r.max_attempts, r.run_at, r.started_at, r.locked_by,
		j.attempts as attempt, j.outcome, j.error_code, j.error, j.exit_status, j.pid, j.cpu_ms, j.max_rss_kb,
		case when j.outcome = 'lost' then j.last_output else j.output end as output,
		case when j.outcome = 'lost' then j.last_dropped else j.output_dropped end as output_dropped
), told as (
	insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, error, exit_status, host, pid, runner_id,
		started_at, finished_at, output, output_dropped, cpu_ms, max_rss_kb)
	select s.id, s.claim_seq, s.attempt, s.outcome, s.error_code, s.error, s.exit_status, s.locked_by, s.pid, s.runner_id,
		s.started_at, now(), s.output, coalesce(s.output_dropped, 0), s.cpu_ms, s.max_rss_kb
	from settled s
	where s.outcome <> 'unstarted'
		and (s.outcome <> 'succeeded' or s.output is not null or s.cpu_ms >= 1000 or s.max_rss_kb >= 262144)
	on conflict do nothing
)
select s.id, s.claim_seq, s.status, s.attempts, s.max_attempts,
	case when s.status in ('queued', 'failed')
		then greatest(0, (extract(epoch from s.run_at - now()) * 1000)::bigint) end as run_in_ms,
	case when s.status = 'dead' then jobrun.raise_alarm(s.id, s.claim_seq) end as alarm
from settled s
