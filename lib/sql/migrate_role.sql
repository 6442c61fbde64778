-- migrate_role: go on in the role of the schema's owner, if this role is a member of it. Whoever migrates, new objects
-- must have the same owner as the old ones: security definer functions call each other, and only their owner may call
-- some of them
select pg_catalog.set_config('role', o.rolname, true)
from pg_catalog.pg_namespace n join pg_catalog.pg_roles o on o.oid = n.nspowner
where n.nspname = 'jobrun' and o.rolname <> current_user and pg_catalog.pg_has_role(o.oid, 'member')
