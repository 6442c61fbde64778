-- effect_look: what is known of effect $1, for a handler of `jobrun try`. It writes nothing and waits for nobody.
-- Returns
--   go      nothing is known
--   begun, done, open  as effect_claim
select * from jobrun.effect_look($1::text)
