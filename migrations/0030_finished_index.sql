-- 0030 finished_index: one index of all runs that have ended, by the time and then by the kind of prune_step(). There were two, one with
-- each order, so each run that ended had to be entered in both.

drop function if exists jobrun.prune_some;

-- Housekeeping, statistics of the open hour, what happened lately. New entries go to its right edge. Housekeeping of one kind passes the
-- entries of the others without a look at their rows. What succeeded goes soon, unless it has an idempotency key that somebody gave
-- ("cli:" is what the command line makes up); then the key guards as long as the run is kept.
create index job_runs_ended on jobrun.job_runs (finished_at, (case
	when status <> 'succeeded' then status
	when idempotency_key is null or idempotency_key like 'cli:%' then 'succeeded'
	else 'keyed' end)) where finished_at is not null;
drop index jobrun.job_runs_kept;     -- after that, so that readers need not wait for it
drop index jobrun.job_runs_finished;
alter index jobrun.job_runs_ended rename to job_runs_finished;

-- How far the housekeeping of a day has come with each kind of run: it does not pass again, each hour, what is kept longer.
alter table jobrun.settings add column pruned_until jsonb not null default '{}';
