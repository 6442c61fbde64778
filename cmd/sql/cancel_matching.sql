-- cancel_matching: cancel the runs of $1 that still have one of the statuses $2; $4 why. They are locked first, in
-- order of id, so that nobody changes them between the check and the update; $3: those that others have locked are passed over.
-- Returns how many were cancelled, how many running ones were asked to stop, how many were left alone, and how many passed over.
with
-- include matching_mine
, answers as materialized (
	select jobrun.cancel(m.id, $4::text) as answer from mine m
)
select count(*) filter (where a.answer = 'cancelled'), count(*) filter (where a.answer = 'requested'),
	cardinality($1::bigint[]) - count(*) filter (where a.answer in ('cancelled', 'requested')) - (select l.n from locked l),
	(select l.n from locked l)
from answers a
