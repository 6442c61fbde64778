-- effect_claim: mark effect $1 before its command runs. $2, $3: as for effect_begin. $4: a random word that no other
-- call has. If the row has this word, this caller has written the mark; so after a lost answer a repeat returns the
-- same. Returns
--   go      the mark is there, and it is ours
--   begun   effect_begin has returned go to somebody, and the effect is not marked as done: it may have happened
--   done, open, fenced  as effect_begin
select * from jobrun.effect_claim($1::text, $2::bigint, $3::bigint, $4::text)
