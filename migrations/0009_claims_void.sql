-- 0009 claims_void: claims have numbers. The runner has given up its claims up to claims_void, and they take nothing.
drop function if exists jobrun.claim, jobrun.claim_job, jobrun.exec_claim;
alter table jobrun.job_runners add column claims_void bigint not null default 0;
