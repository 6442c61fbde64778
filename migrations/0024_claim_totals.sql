-- claim_totals: numbers of claims for jobrun metrics, and dead runs that are counted by their index alone.

-- What monitoring asks of dead runs, without a look at each of them among millions of others.
drop index if exists jobrun.job_runs_dead;
create index job_runs_dead on jobrun.job_runs (id, finished_at) include (job_type, queue) where status = 'dead';

-- Claims of the runners that had ended before settings.totals_until, as they stood in job_runners.counts: how many, how long they
-- took, and how many left out a queue because somebody else had locked it. sum_hours() adds to them, so they stay when rows of
-- job_runners go.
alter table jobrun.settings
	add column claims_total bigint not null default 0,
	add column claim_ms_total bigint not null default 0,
	add column claims_locked_total bigint not null default 0,
	add constraint settings_claims check (least(claims_total, claim_ms_total, claims_locked_total) >= 0);
