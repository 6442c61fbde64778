-- migrate_role: what a migration makes must belong to the owner of the rest, whoever types it: functions that run with their
-- owner's rights call each other, and some of them nobody else may call. So the transaction goes on in that role, if it may
select pg_catalog.set_config('role', o.rolname, true)
from pg_catalog.pg_namespace n join pg_catalog.pg_roles o on o.oid = n.nspowner
where n.nspname = 'jobrun' and o.rolname <> current_user and pg_catalog.pg_has_role(o.oid, 'member')
