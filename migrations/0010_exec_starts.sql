-- 0010 exec_starts: a skipped start of jobrun exec is a row of job_slots, too, with the id of its runner.
drop function if exists jobrun.exec_skipped;
alter table jobrun.job_slots add column runner_id bigint,
	add constraint job_slots_start check (runner_id is null or (outcome = 'skipped' and slots = 1));
-- Finds the last slot of a schedule, however many starts were skipped since then.
create index job_slots_scheduled on jobrun.job_slots (definition_id, slot) where runner_id is null;
