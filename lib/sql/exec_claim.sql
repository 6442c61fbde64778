-- exec_claim: a run of this definition, made as it is claimed, for a command that this runner starts by itself; the definition
-- is made on first use. A row without an id: it is not to be started now (pause, overlap, limit), for the reason in column payload;
-- or without one, somebody else has locked its queue or, if that is null, the definition (job_type).
-- $1 runner id, $2 host, $3 definition, $4 lease in ms, $5 timeout in ms or null: the definition's, $6 the command line, for
-- people, $7 number of the claim. Columns: those of claim
select * from jobrun.exec_claim($1::bigint, $2::text, $3::text, $4::bigint, $5::bigint, $6::text, $7::bigint)
