-- claims_void: the runner gives up its claims up to a number: those that have not committed yet will take nothing.
-- $1 runner id, $2 number. A late copy of this statement must not lower the number.
-- Returns whether that holds. It does not while an unfinished claim has locked the row (this does not wait, since the
-- runner holds runs meanwhile). It does if the row is gone: then no claim takes anything.
with mine as materialized (
	select n.id from jobrun.job_runners n where n.id = $1::bigint for no key update skip locked
), void as (
	update jobrun.job_runners n set claims_void = greatest(n.claims_void, $2::bigint) from mine m where n.id = m.id
)
select exists (select from mine) or not exists (select from jobrun.job_runners n where n.id = $1::bigint) as void
