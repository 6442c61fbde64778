-- 0015 archive_by_month: the archive is partitioned by the month in which a run ended, so that its end is a catalogue change.
-- A run and its attempts lie in the same month. Housekeeping makes months ahead and drops old ones (functions/archive.sql).

drop view if exists jobrun.attempts, jobrun.runs;
drop function if exists jobrun.prune_some;

-- A view would go on to read what is now the oldest part, and no more.
do $do$
declare
	v_views constant text := (select string_agg(distinct w.ev_class::regclass::text, ', ') from pg_depend d join pg_rewrite w on w.oid = d.objid
		where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = 'jobrun.job_runs_archive'::regclass);
begin
	if v_views is not null then
		raise exception 'table jobrun.job_runs_archive is made anew, and views read it: %', v_views
			using hint = 'drop them, migrate, and create them again';
	end if;
end
$do$;

-- null: months of the archive are never dropped
alter table jobrun.settings add column keep_archive interval,
	add constraint settings_keep_archive check (keep_archive >= interval '0');

alter table jobrun.job_runs_archive rename to job_runs_archive_before;
alter table jobrun.job_runs_archive_before rename constraint job_runs_archive_pkey to job_runs_archive_before_pkey;
drop index if exists jobrun.job_runs_archive_finished;

-- Plain and without rules: what comes here has obeyed those of job_runs. A migration that adds a column there adds it here.
create table jobrun.job_runs_archive (
	like jobrun.job_runs,
	archived_at timestamptz not null default now(),
	primary key (id, finished_at)
) partition by range (finished_at);
create index job_runs_archive_finished on jobrun.job_runs_archive (finished_at);
create index job_runs_archive_dead on jobrun.job_runs_archive (id) where status = 'dead';
-- A newer success of its unique key keeps an archived run from being retried.
create index job_runs_archive_keys on jobrun.job_runs_archive (job_type, unique_key, id) where unique_key is not null and status = 'succeeded';

create table jobrun.job_attempts_archive (
	like jobrun.job_attempts,
	run_finished_at timestamptz not null,                -- that of the run, which decides the month
	primary key (run_id, claim_seq, run_finished_at)
) partition by range (run_finished_at);
create index job_attempts_archive_output on jobrun.job_attempts_archive (finished_at) where output is not null;

-- What has no month is kept here, and housekeeping makes the month and moves it there.
create table jobrun.job_runs_archive_default partition of jobrun.job_runs_archive default;
create table jobrun.job_attempts_archive_default partition of jobrun.job_attempts_archive default;

-- What was archived before: the table becomes the oldest part of the new one, up to the end of its last month.
do $do$
declare
	v_until timestamptz;
begin
	select (date_trunc('month', max(r.finished_at) at time zone 'UTC') + interval '1 month') at time zone 'UTC' into v_until
	from jobrun.job_runs_archive_before r;
	if v_until is null then
		drop table jobrun.job_runs_archive_before;
		return;
	end if;
	create table jobrun.job_attempts_archive_before (like jobrun.job_attempts_archive);
	insert into jobrun.job_attempts_archive_before
	select a.*, r.finished_at from jobrun.job_attempts a join jobrun.job_runs_archive_before r on r.id = a.run_id;
	delete from jobrun.job_attempts a using jobrun.job_runs_archive_before r where r.id = a.run_id;
	alter table jobrun.job_runs_archive_before alter column finished_at set not null, drop constraint job_runs_archive_before_pkey;
	execute format('alter table jobrun.job_runs_archive attach partition jobrun.job_runs_archive_before for values from (minvalue) to (%L)', v_until);
	execute format('alter table jobrun.job_attempts_archive attach partition jobrun.job_attempts_archive_before for values from (minvalue) to (%L)',
		v_until);
end
$do$;
