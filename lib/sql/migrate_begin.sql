-- migrate_begin: where migrations are written down; under migrate_lock. CREATE ... IF NOT EXISTS would ask for the right
-- to create also when there is nothing to do.
do $do$
begin
	if to_regnamespace('jobrun') is null then
		create schema jobrun;
	end if;
	if to_regclass('jobrun.schema_migrations') is null then
		create table jobrun.schema_migrations (
			version    integer     primary key,
			name       text        not null,
			checksum   text        not null, -- SHA-256 of the file
			applied_at timestamptz not null default now()
		);
	end if;
end
$do$
