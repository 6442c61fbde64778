-- 0009 claims_void: claims carry a number, and those up to this one were given up on by their runner: they take nothing any more.
drop function if exists jobrun.claim, jobrun.claim_job, jobrun.exec_claim;
alter table jobrun.job_runners add column claims_void bigint not null default 0;
