-- need: the schema's version, or error JR078 if the schema does not fit. $1 lowest, $2 highest version that this
-- program can work with, $3 lowest number of functions that it can work with, $4 number and $5 checksum of its own
-- functions. owns: has the role the rights of the schema's owner, to whom nobody can grant anything?
select jobrun.need($1::integer, $2::integer, $3::integer, $4::integer, $5::text),
	(select pg_has_role(n.nspowner, 'usage') from pg_namespace n where n.nspname = 'jobrun') as owns
