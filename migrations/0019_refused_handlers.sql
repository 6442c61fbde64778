-- 0019 refused_handlers: a runner tells which handlers its host has refused, and why, for people who ask why a run waits.

-- "FILE: why", at most 20; null: none
alter table jobrun.job_runners add column refused text[];

drop function if exists jobrun.seen_runners();
