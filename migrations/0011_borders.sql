-- 0011 borders: what one role can do to another, and who is told.

-- The overlap rule of schedules asks for each who enqueued, and for slots.
drop index jobrun.job_runs_unfinished_definition;
create index job_runs_unfinished_definition on jobrun.job_runs (definition_id, created_by, slot)
	where definition_id is not null and finished_at is null;

-- The audit is kept for a month at least.
do $do$
begin
	if exists (select from jobrun.settings s where s.keep_audit < interval '30 days') then
		raise warning 'the audit is kept for 30 days at least: keep_audit was %', (select s.keep_audit from jobrun.settings s);
		update jobrun.settings set keep_audit = interval '30 days';
	end if;
end
$do$;
alter table jobrun.settings add constraint settings_keep_audit check (keep_audit >= interval '30 days');
