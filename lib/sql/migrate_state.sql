-- migrate_state: is there a table of migrations at all?
select to_regclass('jobrun.schema_migrations') is not null
