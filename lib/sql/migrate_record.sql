-- migrate_record: record what this transaction has applied. $1 version, $2 name, $3 checksum. Only the row "functions"
-- can exist already
insert into jobrun.schema_migrations as m (version, name, checksum) values ($1::integer, $2::text, $3::text)
on conflict (name) do update set version = excluded.version, checksum = excluded.checksum, applied_at = excluded.applied_at
