-- progress: write what running handlers have reported. $1 ids, $2 claim_seqs, $3 runner id, $4 progress, $5 checkpoints
-- (lines of JOBRUN_OUT: JSON objects with a member of that name; null: nothing new), $6 output so far, $7 bytes dropped
-- from it.
-- Returns (id, claim_seq, followed) of the runs that were written; followed: somebody looks at the output (follow()). The
-- others are locked by another session, or this runner does not hold them any more. It waits for no lock and changes no
-- indexed column. A value too large for its column is ignored.
with given as materialized (
	select g.*, nullif(g.progress_line::jsonb -> 'progress', 'null') as progress,
		nullif(g.checkpoint_line::jsonb -> 'checkpoint', 'null') as checkpoint
	from unnest($1::bigint[], $2::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[])
		g(id, claim_seq, progress_line, checkpoint_line, output, output_dropped)
), mine as materialized (
	select g.* from given g cross join lateral (
		select from jobrun.job_runs r
		where r.id = g.id and r.claim_seq = g.claim_seq and r.runner_id = $3::bigint and r.locked_until is not null
		for no key update skip locked) r
)
update jobrun.job_runs r
set progress   = case when m.progress_line is null or pg_column_size(m.progress) > 65536 then r.progress else m.progress end,
	checkpoint = case when m.checkpoint_line is null or pg_column_size(m.checkpoint) > 1049600 then r.checkpoint
		else m.checkpoint end,
	output     = coalesce(m.output, r.output),
	output_dropped = case when m.output is null then r.output_dropped else m.output_dropped end
from mine m
where r.id = any (array[m.id]) and r.claim_seq = m.claim_seq and r.runner_id = $3::bigint and r.locked_until is not null
returning r.id, r.claim_seq,
	exists (select from jobrun.job_follows f where f.run_id = r.id and f.followed_until > now()) as followed
