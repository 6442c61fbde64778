-- effect_done: mark that effect $1 has happened, inside run $2 and claim $3 or (nulls) outside of a run. It is marked
-- no matter who holds the run now. Safe to repeat; the first mark stays.
select jobrun.effect_done($1::text, $2::bigint, $3::bigint)
