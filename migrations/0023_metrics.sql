-- metrics: counters that never fall, for jobrun metrics.

-- Everything that has ended before settings.totals_until, since the first hour that was counted. sum_hours() adds each hour once,
-- when it is complete, so a row stays when the rows of job_stats go.
create table jobrun.job_totals (
	last_hour    timestamptz not null,                    -- the newest hour that is in it
	n            bigint      not null,
	run_ms       bigint      not null,
	wait_ms      bigint      not null,
	job_type     text collate "C" not null,
	queue        text collate "C" not null,
	outcome      text collate "C" not null,
	run_buckets  bigint[]    not null,
	wait_buckets bigint[]    not null,
	primary key (job_type, queue, outcome),
	constraint job_totals_numbers check (n >= 0 and run_ms >= 0 and wait_ms >= 0)
);

-- A counter may begin anywhere, so it begins with this hour.
alter table jobrun.settings
	add column totals_until timestamptz not null default (date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'),
	add constraint settings_totals_until check (totals_until = date_trunc('hour', totals_until at time zone 'UTC') at time zone 'UTC');

-- Of an attempt that ended its run, if people have retried that since: when the run was due, and what it had come to. Else both
-- would be forgotten if that happens before the hour is summed, and counters would fall.
alter table jobrun.job_attempts add column due_at timestamptz, add column run_status text collate "C";
alter table jobrun.job_attempts_archive add column due_at timestamptz, add column run_status text collate "C";
