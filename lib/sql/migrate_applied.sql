-- migrate_applied: the applied migrations: version, name, checksum, time; the functions come last
select m.version, m.name, m.checksum, to_char(m.applied_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"')
from jobrun.schema_migrations m
order by m.name = 'functions', m.version
