-- exec_claim: create and claim a run of this definition for a command that this runner starts itself; the first use
-- creates the definition. A row without an id: the command must not start now (pause, overlap, limit), with the reason
-- in column payload, and with its job type if everything or this host is paused; without a reason, another session has locked its queue or, if queue is null, the definition
-- (job_type).
-- $1 runner id, $2 host, $3 definition, $4 lease in ms, $5 timeout in ms or null: the definition's, $6 the command
-- and its arguments, for the record, $7 number of the claim. Columns: those of claim
select * from jobrun.exec_claim($1::bigint, $2::text, $3::text, $4::bigint, $5::bigint, $6::text[], $7::bigint)
