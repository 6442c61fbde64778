-- claims_void: the runner gives up on its claims up to a number: what of them has not committed by now takes nothing any more.
-- $1 runner id, $2 number. A late copy of this must not lower it.
update jobrun.job_runners set claims_void = greatest(claims_void, $2::bigint) where id = $1::bigint
