-- effect_done: effect $1 has happened, inside run $2 and claim $3 or outside of any. It is marked whoever holds the run by
-- now. Safe to repeat; the first mark stays.
select jobrun.effect_done($1::text, $2::bigint, $3::bigint)
