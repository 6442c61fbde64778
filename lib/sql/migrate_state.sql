-- migrate_state: is there a table of migrations, and one of runs? Read from the catalog: to_regclass() answers from a cache, which
-- inside a transaction may not know yet what others committed while this session waited for the lock.
select coalesce(bool_or(c.relname = 'schema_migrations'), false), coalesce(bool_or(c.relname = 'job_runs'), false)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'jobrun' and c.relname in ('schema_migrations', 'job_runs')
