-- claims_void: the runner gives up on its claims up to a number: what of them has not committed by now takes nothing any more.
-- $1 runner id, $2 number. A late copy of this must not lower it.
-- Gives whether it is so: not while a claim that is not over has locked the row (it waits for nobody, since runs are held
-- meanwhile); a row that is gone lets no claim take anything either.
with mine as materialized (
	select n.id from jobrun.job_runners n where n.id = $1::bigint for no key update skip locked
), void as (
	update jobrun.job_runners n set claims_void = greatest(n.claims_void, $2::bigint) from mine m where n.id = m.id
)
select exists (select from mine) or not exists (select from jobrun.job_runners n where n.id = $1::bigint) as void
