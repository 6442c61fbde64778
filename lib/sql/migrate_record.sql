-- migrate_record: $1 version, $2 name, $3 checksum: the migration has been applied in this transaction
insert into jobrun.schema_migrations (version, name, checksum) values ($1::integer, $2::text, $3::text)
