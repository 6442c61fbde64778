-- 0011 borders: what one role can do to another, and who is told.

-- The overlap rule of schedules asks for each who enqueued, and for slots.
drop index jobrun.job_runs_unfinished_definition;
create index job_runs_unfinished_definition on jobrun.job_runs (definition_id, created_by, slot)
	where definition_id is not null and finished_at is null;
