-- migrate_begin: create the table of migrations if it is missing; under migrate_lock, in the owner's role. CREATE ...
-- IF NOT EXISTS would need the right to create even if there is nothing to do. The catalog is read as in migrate_state.
-- add_grant() and drop_grant() lock job_grants before they change the rights of functions. So this locks it first, too,
-- or both could wait for each other.
do $do$
declare
	v_owner constant name := (select o.rolname from pg_namespace n join pg_roles o on o.oid = n.nspowner where n.nspname = 'jobrun');
begin
	if v_owner is null then
		create schema jobrun;
	elsif v_owner <> current_user then
		raise exception 'schema jobrun belongs to role "%": migrate as this role, a member of it, or a superuser', v_owner
			using errcode = 'JR077';
	end if;
	if not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'jobrun' and c.relname = 'schema_migrations')
	then
		create table jobrun.schema_migrations (
			version    integer     not null, -- of the row "functions": their number
			name       text        primary key,
			checksum   text        not null, -- SHA-256 of the text
			applied_at timestamptz not null default now()
		);
	end if;
	if exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'jobrun' and c.relname = 'job_grants')
	then
		lock table jobrun.job_grants in share row exclusive mode;
	end if;
end
$do$
