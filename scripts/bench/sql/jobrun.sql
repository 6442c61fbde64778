-- In the database that the others are copied from: housekeeping is never due, nothing is recorded of where it belongs,
-- and there is a table for effects.
set session_replication_role = replica;
update jobrun.job_definitions set next_slot_at = '9999-01-01';
update jobrun.settings set system_identifier = null, database_oid = null;
create table public.effects (n bigint);
