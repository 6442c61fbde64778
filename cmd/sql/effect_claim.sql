-- effect_claim: mark effect $1 before its command runs. $2, $3: as for effect_begin. $4: a random word that no other call
-- has; who finds it in the row has written the mark, so that asking again after a lost answer says the same. Gives
--   go      the mark is there, and it is ours
--   begun   effect_begin has said go to somebody, and nobody has said that it is done: it may have happened
--   done, open, fenced  as effect_begin
select * from jobrun.effect_claim($1::text, $2::bigint, $3::bigint, $4::text)
