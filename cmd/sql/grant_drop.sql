-- grant_drop: revoke kind $1 from role $2. Returns whether it had anything to revoke, whether it had any grant before, and whether
-- there is such a role
select jobrun.drop_grant($1::text, $2::text), exists (select from jobrun.job_grants g where g.role = $2::text),
	exists (select from pg_roles o where o.rolname = $2::text)
