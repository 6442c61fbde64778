-- migrate_state: is there a table of migrations at all? Asked of the catalog's rows: to_regclass() answers from a cache,
-- which inside a transaction may not know yet what was committed while the lock was waited for.
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
	where n.nspname = 'jobrun' and c.relname = 'schema_migrations')
