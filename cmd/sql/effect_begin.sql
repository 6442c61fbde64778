-- effect_begin: may the command of effect $1 run? $2, $3: the run and claim of the handler, or nulls. Returns
--   go      it is not marked as done; it is now begun (done_at is null), by $2 and $3
--   done    it is marked as done; with the exit status of its command, and how many milliseconds ago
--   open    effect_claim has marked it before its command ran, and the end of the command is not recorded yet
--   fenced  that claim is not the running one any more; nothing was written
-- It waits for open transactions that have called jobrun.effect($1). Safe to repeat.
select * from jobrun.effect_begin($1::text, $2::bigint, $3::bigint)
