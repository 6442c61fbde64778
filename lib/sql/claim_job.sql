-- claim_job: claim this one run, due or not, within its queue's limits, and whether its type, queue or definition is
-- paused or not. No row: it does not wait, or is locked. A row without an id: a limit, or a pause of everything or of
-- this host, holds it back, with the reason in column payload; without a reason, another session has locked its queue.
-- $1 runner id, $2 host, $3 run id, $4 lease in ms, $5 job types of this host, $6 number of the claim.
-- Columns: those of claim
select * from jobrun.claim_job($1::bigint, $2::text, $3::bigint, $4::bigint, $5::text[], $6::bigint)
