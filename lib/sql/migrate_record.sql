-- migrate_record: $1 version, $2 name, $3 checksum: this has been applied in this transaction. Only the row "functions" can be
-- there already
insert into jobrun.schema_migrations as m (version, name, checksum) values ($1::integer, $2::text, $3::text)
on conflict (name) do update set version = excluded.version, checksum = excluded.checksum, applied_at = excluded.applied_at
