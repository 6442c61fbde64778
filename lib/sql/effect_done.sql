-- effect_done: effect $1 has happened, inside run $2 and claim $3 or outside of any. It is marked whoever holds the run by
-- now. Safe to repeat; the first mark stays.
insert into jobrun.job_effects as e (key, run_id, claim_seq, done_at) values ($1::text, $2::bigint, $3::bigint, now())
on conflict (key) do update set run_id = excluded.run_id, claim_seq = excluded.claim_seq, done_at = excluded.done_at
	where e.done_at is null
