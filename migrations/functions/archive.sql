-- archive: finished runs and their attempts, by the month (UTC) in which the run ended. Housekeeping (prune.sql) moves
-- runs here if settings.archive is on; a retry brings a run back.
--
-- What must hold: a run is in job_runs or in job_runs_archive, and its attempts are where it is. What has no month is in the
-- default partition, and moves to its month with the next housekeeping. Claims never read or lock anything here.
--
-- A month is a partition of each of the two tables. To attach or drop one takes a lock that readers of the archive do not
-- share, so it is asked for with a short timeout: who reads the archive for hours (pg_dump) is not disturbed, and nobody
-- queues behind us. DETACH ... CONCURRENTLY is no choice: the server refuses it where there is a default partition.

-- kept_since: rows older than this are removed. PostgreSQL has no time before 4713 BC.
create or replace function jobrun.kept_since(keep interval) returns timestamptz
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select now() - least(keep, interval '5000 years')
$fn$;

-- archive_months: the months there are, with their partitions; since is -infinity for what was archived before there
-- were months. The system catalogue alone says which there are, and bounds, not names, say what belongs together: people
-- may detach or drop partitions by hand. Null: that one is missing.
create or replace function jobrun.archive_months()
returns table (since timestamptz, until timestamptz, runs regclass, attempts regclass)
language sql stable set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' as $fn$
	select coalesce(substring(b.bounds from 'FROM [(]''([^'']+)''[)]')::timestamptz, '-infinity'),
		substring(b.bounds from 'TO [(]''([^'']+)''[)]')::timestamptz,
		max(c.oid) filter (where i.inhparent = 'jobrun.job_runs_archive'::regclass)::regclass,
		max(c.oid) filter (where i.inhparent = 'jobrun.job_attempts_archive'::regclass)::regclass
	from pg_inherits i join pg_class c on c.oid = i.inhrelid
	cross join lateral (select pg_get_expr(c.relpartbound, c.oid) as bounds) b
	where i.inhparent in ('jobrun.job_runs_archive'::regclass, 'jobrun.job_attempts_archive'::regclass) and b.bounds <> 'DEFAULT'
	group by b.bounds
$fn$;

-- has_month: is there a month for this time, in both tables? In each by itself, since people may have made longer ones in one.
create or replace function jobrun.has_month(at timestamptz) returns boolean
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select count(m.runs) > 0 and count(m.attempts) > 0 from jobrun.archive_months() m
	where m.since <= has_month.at and has_month.at < m.until
$fn$;

-- make_month: make the month of the archive in which this time lies, unless there is one, and move what the default
-- partition has of it there. Returns whether there is such a month now; false: somebody uses the archive for so long
-- that the lock was not to be had, or there is no such month (infinity).
create or replace function jobrun.make_month(at timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' set lock_timeout = '200ms' set jit = off as $fn$
declare
	v_since constant timestamptz := date_trunc('month', make_month.at);
	v_until constant timestamptz := date_trunc('month', make_month.at) + interval '1 month';
	v_table text;
	v_month text;
	v_key   text;
	v_role  text;
begin
	if not isfinite(make_month.at) then
		return false;
	end if;
	lock table only jobrun.job_runs_archive in share update exclusive mode;   -- one maker at a time
	for v_table, v_key in
		select t.name, t.key
		from (values (1, 'job_attempts_archive', 'run_finished_at'), (2, 'job_runs_archive', 'finished_at')) t(nr, name, key)
		where not exists (select from jobrun.archive_months() m where m.since <= make_month.at and make_month.at < m.until
			and case t.nr when 1 then m.attempts else m.runs end is not null)
		order by t.nr
	loop
		v_month := v_table || to_char(v_since, '_YYYY_MM');
		while to_regclass(format('jobrun.%I', v_month)) is not null loop     -- one that was detached by hand
			v_month := v_month || '_again';
		end loop;
		execute format('lock table jobrun.%I in access exclusive mode', v_table || '_default');
		execute format('create table jobrun.%I (like jobrun.%I including all)', v_month, v_table);
		-- The default privileges of its owner may let others read it, past the rights on the archive.
		for v_role in
			select distinct case a.grantee when 0 then 'public' else a.grantee::regrole::text end
			from pg_class c cross join aclexplode(c.relacl) a
			where c.oid = to_regclass(format('jobrun.%I', v_month)) and a.grantee <> c.relowner
		loop
			execute format('revoke all on jobrun.%I from %s', v_month, v_role);
		end loop;
		execute format('with gone as (delete from jobrun.%1$I a where a.%2$I >= $1 and a.%2$I < $2 returning *) '
			'insert into jobrun.%3$I select * from gone', v_table || '_default', v_key, v_month) using v_since, v_until;
		execute format('alter table jobrun.%I attach partition jobrun.%I for values from (%L) to (%L)', v_table, v_month, v_since, v_until);
	end loop;
	return true;
exception when lock_not_available then
	return false;
end
$fn$;

-- make_months: one month of those that housekeeping needs: of what lies in the default partition, and if runs are
-- archived, of now and the three months ahead. Returns whether one was made.
create or replace function jobrun.make_months() returns boolean
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' as $fn$
declare
	v_at timestamptz;
begin
	for v_at in
		select w.at from (
			select min(r.finished_at) from jobrun.job_runs_archive_default r where isfinite(r.finished_at)
			union all
			select date_trunc('month', now()) + i * interval '1 month' from generate_series(0, 3) i
			where (select s.archive from jobrun.settings s where s.only_row)) w(at)
		where w.at is not null and not jobrun.has_month(w.at)
	loop
		return jobrun.make_month(v_at);
	end loop;
	return false;
end
$fn$;

-- old_months: the months of which all is older than settings.keep_archive; none if that is null.
create or replace function jobrun.old_months() returns table (until timestamptz, runs regclass, attempts regclass)
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select m.until, m.runs, m.attempts from jobrun.archive_months() m
	where m.until <= jobrun.kept_since((select s.keep_archive from jobrun.settings s where s.only_row))
	order by m.until
$fn$;

-- drop_month: drop the oldest of old_months() that can be dropped: what keeps one month does not keep the later ones. Returns
-- how many were dropped: 0 if there is none, if somebody uses the whole archive for so long that the lock was not to be had, or
-- if each month that is left has a reader of its own, something (a view) made on it, or another owner. It warns of views and
-- owners only when it returns 0: housekeeping calls it until then, and so warns once.
create or replace function jobrun.drop_month() returns bigint
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp set lock_timeout = '200ms' as $fn$
declare
	v_month   record;
	v_archive boolean;
	v_kept    text[] := '{}';
	v_words   text;
begin
	begin
		lock table only jobrun.job_runs_archive in share update exclusive mode;   -- one at a time
	exception when lock_not_available then
		return 0;
	end;
	for v_month in select m.runs, m.attempts from jobrun.old_months() m loop
		-- Each in a block of its own, so that no lock is kept when nothing is dropped. A drop takes all these locks. Who uses the
		-- archive as a whole is in the way of every month, and is waited for once.
		v_archive := false;
		begin
			lock table only jobrun.job_attempts_archive, only jobrun.job_runs_archive, jobrun.job_attempts_archive_default,
				jobrun.job_runs_archive_default in access exclusive mode;
			v_archive := true;
			execute 'lock table ' || concat_ws(', ', v_month.attempts, v_month.runs) || ' in access exclusive mode nowait';
			execute 'drop table ' || concat_ws(', ', v_month.attempts, v_month.runs);
			return 1;
		exception
			when lock_not_available then
				exit when not v_archive;
			when dependent_objects_still_exist then
				get stacked diagnostics v_words = pg_exception_detail;      -- "view january depends on table ..."
				v_kept := v_kept || replace(v_words, E'\n', '; ');
			when insufficient_privilege then
				v_kept := v_kept || sqlerrm;      -- somebody else has made this partition
		end;
	end loop;
	foreach v_words in array v_kept loop
		raise warning 'a month of the archive is older than keep_archive and is not dropped: %', v_words;
	end loop;
	return 0;
end
$fn$;

-- archive_columns: the columns that job_runs, or job_attempts, has in common with its archive, each after the prefix. A column that
-- people have made in one of them alone stays there.
create or replace function jobrun.archive_columns("table" text, prefix text default '') returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select string_agg(prefix || quote_ident(a.attname), ', ' order by a.attnum)
	from pg_attribute a join pg_attribute b on b.attname = a.attname
	where a.attrelid = format('jobrun.%I', "table")::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
		and b.attrelid = format('jobrun.%I', "table" || '_archive')::regclass and b.attnum > 0 and not b.attisdropped and b.attgenerated = ''
$fn$;

-- archive_runs: move these rows of job_runs, which the caller has locked, with their attempts. Output that is older
-- than it is kept does not go with them. Returns how many runs were moved.
create or replace function jobrun.archive_runs(rows tid[]) returns bigint
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $fn$
declare
	v_n bigint;
begin
	-- Materialized: otherwise a full table makes the planner ask has_month() of each run, which takes longer than all the rest.
	perform (with w(at) as materialized (
			select distinct date_trunc('month', r.finished_at) from jobrun.job_runs r where r.ctid = any (rows))
		select bool_and(jobrun.make_month(w.at)) from w where not jobrun.has_month(w.at));
	execute format('with gone as (delete from jobrun.job_runs r where r.ctid = any ($1) returning %1$s),
		told as (delete from jobrun.job_attempts a using gone g where a.run_id = any (array[g.id]) returning a.*, g.finished_at as run_finished_at),
		kept as (insert into jobrun.job_attempts_archive (%2$s, run_finished_at) select %3$s, t.run_finished_at from told t)
		insert into jobrun.job_runs_archive (%1$s) select %1$s from gone',
			jobrun.archive_columns('job_runs'), jobrun.archive_columns('job_attempts'),
			regexp_replace(jobrun.archive_columns('job_attempts', 't.'), E't[.]output\\M', 'case when t.finished_at >= $2 then t.output end'))
		using rows, (select jobrun.kept_since(s.keep_output) from jobrun.settings s where s.only_row);
	get diagnostics v_n = row_count;
	return v_n;
end
$fn$;

-- forget_outputs: remove the first `most` outputs in the archive that are older than `before`, from `after` on; returns
-- like prune_some.
create or replace function jobrun.forget_outputs(before timestamptz, most bigint, inout after timestamptz, out n bigint)
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $fn$
begin
	with old as materialized (
		select a.run_id, a.claim_seq, a.run_finished_at, a.finished_at from jobrun.job_attempts_archive a
		where a.output is not null and a.finished_at >= after and a.finished_at < before
		order by a.finished_at limit most for update skip locked
	), gone as (
		update jobrun.job_attempts_archive a set output = null from old o
		where a.run_id = any (array[o.run_id]) and a.claim_seq = o.claim_seq and a.run_finished_at = o.run_finished_at
	)
	select count(*), max(o.finished_at) into n, after from old o;
	if n < most then
		after := null;
	end if;
end
$fn$;

-- newer_or_archived: newer_run(), and newer successes in the archive count, too: what repair asks before a run that may
-- come from there.
create or replace function jobrun.newer_or_archived(job_type text, unique_key text, id bigint) returns bigint
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select greatest(jobrun.newer_run($1, $2, $3), (select max(r.id) from jobrun.job_runs_archive r
		where r.job_type = $1 and r.unique_key = $2 and r.status = 'succeeded' and r.id > $3))
$fn$;

-- bring_back: move this run from the archive to job_runs, with its attempts, as they were. If its idempotency key is
-- that of another run now, JR065: nobody could tell the two apart. Returns whether it was in the archive; another session may have brought it back.
create or replace function jobrun.bring_back(id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set jit = off set enable_seqscan = off as $fn$
declare
	v_n bigint;
begin
	execute format('with gone as (delete from jobrun.job_runs_archive r where r.id = $1 returning %1$s),
		told as (delete from jobrun.job_attempts_archive a using gone g where a.run_id = $1 returning %2$s),
		kept as (insert into jobrun.job_attempts (%3$s) select %3$s from told)
		insert into jobrun.job_runs (%1$s) overriding system value select %1$s from gone', jobrun.archive_columns('job_runs'),
		jobrun.archive_columns('job_attempts', 'a.'), jobrun.archive_columns('job_attempts')) using bring_back.id;
	get diagnostics v_n = row_count;
	return v_n > 0;
exception when unique_violation then
	raise exception 'run % is in the archive, and another run has its idempotency key now: enqueue it anew, with another key',
		bring_back.id using errcode = 'JR065';
end
$fn$;
