-- effect_look: what is known of effect $1, for a handler that is tried: nothing is written, and nobody is waited for. Gives
--   go      nothing
--   begun, done, open  as effect_claim
select * from jobrun.effect_look($1::text)
