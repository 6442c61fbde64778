-- 0012 borders: limit what one role can do to another, and what is recorded.

-- The overlap rule of schedules reads the runs of a definition by role, and those of slots.
drop index if exists jobrun.job_runs_unfinished_definition;
create index job_runs_unfinished_definition on jobrun.job_runs (definition_id, created_by, slot)
	where definition_id is not null and finished_at is null;

-- The audit is kept for at least 30 days.
do $do$
begin
	if exists (select from jobrun.settings s where s.keep_audit < interval '30 days') then
		raise warning 'the audit is kept for 30 days at least: keep_audit was %', (select s.keep_audit from jobrun.settings s);
		update jobrun.settings set keep_audit = interval '30 days';
	end if;
end
$do$;
alter table jobrun.settings add constraint settings_keep_audit check (keep_audit >= interval '30 days');

-- Grants may be limited to queues and to a number of unfinished runs. Only runs of roles with such a limit have the
-- mark is_counted, so that other runs have no cost.
drop function if exists jobrun.add_grant, jobrun.may_enqueue;
alter table jobrun.job_grants add column queues text[], add column max_open bigint,
	add constraint job_grants_queues check (queues is null or kind = 'enqueue'),
	add constraint job_grants_max_open check (max_open is null or (kind = 'enqueue' and max_open >= 1));
alter table jobrun.job_runs add column is_counted boolean not null default false;
alter table jobrun.job_runs_archive add column is_counted boolean not null default false;
create index job_runs_counted on jobrun.job_runs (created_by) where is_counted and finished_at is null;

-- A permit is the right to run one handler at a time.
alter table jobrun.job_runners rename column places to permits;

-- The identity of this database, which tells a copy from the original. null: not recorded, or the server hides it.
alter table jobrun.settings add column system_identifier bigint, add column database_oid bigint,
	add column copies text collate "C" not null default 'tell',
	add constraint settings_copies check (copies in ('tell', 'refuse'));
