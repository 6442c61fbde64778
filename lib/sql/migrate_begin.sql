-- migrate_begin: where migrations are written down; under migrate_lock. CREATE ... IF NOT EXISTS would ask for the right
-- to create also when there is nothing to do. The catalog's rows are asked as in migrate_state.
do $do$
begin
	if not exists (select from pg_namespace n where n.nspname = 'jobrun') then
		create schema jobrun;
	end if;
	if not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'jobrun' and c.relname = 'schema_migrations')
	then
		create table jobrun.schema_migrations (
			version    integer     primary key,
			name       text        not null,
			checksum   text        not null, -- SHA-256 of the file
			applied_at timestamptz not null default now()
		);
	end if;
end
$do$
