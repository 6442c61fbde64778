-- migrate_state: is there a table of migrations? Read from the catalog: to_regclass() answers from a cache, which
-- inside a transaction may not know yet what others committed while this session waited for the lock.
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
	where n.nspname = 'jobrun' and c.relname = 'schema_migrations')
