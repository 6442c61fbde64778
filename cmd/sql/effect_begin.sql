-- effect_begin: may the command of effect $1 run? $2, $3: run and claim inside which it is, or nulls. Gives
--   go      it has not been marked done; from now on it is begun (done_at is null), by $2 and $3
--   done    it has; with the exit status that its command ended with, and how many milliseconds ago
--   open    effect_claim has marked it before its command ran, and nobody has said yet how that ended
--   fenced  that claim is not the running one any more; nothing was written
-- Who has called jobrun.effect($1) in an open transaction is waited for. Safe to repeat.
select * from jobrun.effect_begin($1::text, $2::bigint, $3::bigint)
