-- doctor_owner: who may change schema jobrun, and whether this role may change it, and what is in it. No row: there is no schema.
select pg_get_userbyid(n.nspowner), pg_has_role(n.nspowner, 'usage'),
	exists (select from pg_proc p where p.pronamespace = n.oid and p.proname = 'add_grant'
		and has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute'))
from pg_namespace n where n.nspname = 'jobrun'
