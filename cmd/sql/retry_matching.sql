-- retry_matching: retry the runs of $1 that still have one of the statuses $2; $4 why, $5 also those that succeeded or
-- are superseded. They are locked first, in order of id, so that nobody changes them between the check and the update; $3: those
-- that others have locked are passed over. Returns how many were retried, 0, how many were left alone, and how many passed over.
with
-- include matching_mine
, answers as materialized (
	select jobrun.retry(m.id, $5::boolean, $4::text) as answer from mine m
)
select count(*) filter (where a.answer = 'retried'), 0,
	cardinality($1::bigint[]) - count(*) filter (where a.answer = 'retried') - (select l.n from locked l), (select l.n from locked l)
from answers a
