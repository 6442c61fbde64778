-- prune: housekeeping. Runs and attempts that have ended are summed into job_stats by the hour, kept as long as the
-- table settings says, and then removed.
--
-- What must hold: nothing unfinished is removed; nothing is removed before the hour in which it ended was summed; every
-- end is in exactly one sum; only the table settings says how long rows are kept. Nothing here waits for a lock: rows
-- that others have locked are left for the next time, so any number of pruners may work at once.

-- ---------------------------------------------------------------------------------------------------------------- sums

-- bucket_counts: add up the bucket counts of many groups; the array ends with the last bucket that has any.
create or replace function jobrun.bucket_counts(buckets integer[], counts bigint[]) returns bigint[]
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select coalesce(array_agg(coalesce(c.n, 0) order by b.bucket), '{}')
	from generate_series(1, (select max(m.bucket) from unnest(buckets) m(bucket))) b(bucket)
	left join (select g.bucket, sum(g.n)::bigint as n from unnest(buckets, counts) g(bucket, n) group by g.bucket) c
		on c.bucket = b.bucket
$fn$;

-- bucket_of: the bucket of a time in milliseconds; see stats_of.
create or replace function jobrun.bucket_of(ms bigint) returns integer
language sql immutable as $fn$
	select pg_catalog.width_bucket(ms, '{2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576,'
		'2097152,4194304,8388608,16777216,33554432,67108864,134217728,268435456,536870912,1073741824,2147483648}'::bigint[]) + 1
$fn$;

-- stats_of: all runs and attempts that ended at or after `since` and before `until`, as rows of job_stats. job_stats
-- plus stats_of() from stats_until on is everything.
--  - A run counts once, together with the attempt that ended it, by its final status: succeeded, dead, cancelled.
--  - An attempt that did not end its run counts by itself: failed, lost, later, released; also an attempt that ended the
--    run before people retried it, as what the run had come to.
-- run_ms is the time it ran; wait_ms is how late a run was started, which is not known of attempts that did not end it. A run
-- cancelled while it waited has neither. Element k of the buckets counts the times from 2^(k-1) to below 2^k ms; the first
-- one also counts 0, the 32nd also all longer times.
create or replace function jobrun.stats_of(since timestamptz, until timestamptz) returns setof jobrun.job_stats
language sql stable
set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' set jit = off set enable_seqscan = off set enable_sort = off as $fn$
	with ends as (
		select r.finished_at, r.job_type, r.queue, r.status as outcome, r.run_at,
			case when r.status <> 'cancelled' or exists (select from jobrun.job_attempts a
				where a.run_id = r.id and a.claim_seq = r.claim_seq and (a.finished_at = r.finished_at) is true) then r.started_at end as started_at
		from jobrun.job_runs r
		where r.finished_at >= since and r.finished_at < until
		union all
		select a.finished_at, r.job_type, r.queue, coalesce(a.run_status, a.outcome), a.due_at, a.started_at
		from jobrun.job_attempts a cross join lateral ( -- "offset 0": rule 19 of lib/README.md
			select r.finished_at, r.claim_seq, r.job_type, r.queue from jobrun.job_runs r where r.id = a.run_id offset 0) r
		where a.finished_at >= since and a.finished_at < until
			and (r.finished_at is distinct from a.finished_at or r.claim_seq <> a.claim_seq)
	), times as (
		select date_trunc('hour', e.finished_at) as hour, e.job_type, e.queue, e.outcome,
			greatest(0, round(date_part('epoch', e.finished_at - e.started_at) * 1000000))::bigint / 1000 as run_ms,
			greatest(0, round(date_part('epoch', e.started_at - e.run_at) * 1000000))::bigint / 1000 as wait_ms,
			e.started_at is not null as ran, e.started_at is not null and e.run_at is not null as waited
		from ends e
	), cells as (
		select t.hour, t.job_type, t.queue, t.outcome, count(*) as n, sum(t.run_ms)::bigint as run_ms, sum(t.wait_ms)::bigint as wait_ms,
			case when t.ran then jobrun.bucket_of(t.run_ms) end as run_bucket,
			case when t.waited then jobrun.bucket_of(t.wait_ms) end as wait_bucket
		from times t
		group by t.hour, t.job_type, t.queue, t.outcome, run_bucket, wait_bucket
	)
	select c.hour, sum(c.n)::bigint, sum(c.run_ms)::bigint, sum(c.wait_ms)::bigint, c.job_type, c.queue, c.outcome,
		jobrun.bucket_counts(array_agg(c.run_bucket), array_agg(c.n)), jobrun.bucket_counts(array_agg(c.wait_bucket), array_agg(c.n))
	from cells c
	group by c.hour, c.job_type, c.queue, c.outcome
$fn$;

-- hours_end: the end of the last completed hour.
create or replace function jobrun.hours_end() returns timestamptz
language sql stable set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' as $fn$
	select date_trunc('hour', now() - interval '10 minutes')
$fn$;

-- sum_hours: sum up to `most` completed hours (hours in which nothing ended do not count). Returns how many. An hour is
-- complete ten minutes after its end, when the transactions that ended runs, or runners, in it are over. If another session sums
-- already, it does nothing. Hours older than sums are kept are only counted in job_totals. If the server's clock was
-- ahead, hours that are yet to come are marked as summed. This mark goes back to the end of the current hour, which may have been
-- summed in part.
create or replace function jobrun.sum_hours(most bigint default 1) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' set enable_seqscan = off set jit = off as $fn$
declare
	v_settings jobrun.settings;
	v_until    timestamptz;
	v_end      constant timestamptz := jobrun.hours_end();
	v_next     constant timestamptz := date_trunc('hour', now()) + interval '1 hour';
	v_hour     timestamptz;
	v_hours    bigint := 0;
	v_cells    jobrun.job_stats[];
begin
	select s.* into v_settings from jobrun.settings s where s.only_row for no key update skip locked;
	if greatest(v_settings.stats_until, v_settings.totals_until) > v_next then
		update jobrun.settings s set stats_until = least(s.stats_until, v_next), totals_until = least(s.totals_until, v_next)
		where s.only_row returning s.* into v_settings;
	end if;
	v_until := v_settings.stats_until;
	while v_until < v_end and v_hours < most loop
		v_hour := date_trunc('hour', least((select min(r.finished_at) from jobrun.job_runs r where r.finished_at >= v_until),
			(select min(a.finished_at) from jobrun.job_attempts a where a.finished_at >= v_until)));
		if v_hour is null or v_hour >= v_end then
			v_until := v_end;
			exit;
		end if;
		v_until := v_hour + interval '1 hour';
		v_hours := v_hours + 1;
		continue when v_hour < least(jobrun.kept_since(v_settings.keep_stats), v_settings.totals_until);
		v_cells := array(select o from jobrun.stats_of(v_hour, v_until) o);
		-- There is a row only if somebody has set stats_until back: then the old, complete sum stays.
		insert into jobrun.job_stats (hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
		select o.hour, o.n, o.run_ms, o.wait_ms, o.job_type, o.queue, o.outcome, o.run_buckets, o.wait_buckets
		from unnest(v_cells) o
		where v_hour >= jobrun.kept_since(v_settings.keep_stats)
		on conflict do nothing;
		if v_hour >= v_settings.totals_until then
			perform jobrun.add_totals(v_cells);
		end if;
	end loop;
	update jobrun.settings s set stats_until = v_until, totals_until = greatest(s.totals_until, v_until),
		claims_total = s.claims_total + c.claims, claim_ms_total = s.claim_ms_total + c.ms, claims_locked_total = s.claims_locked_total + c.locked
	from jobrun.claims_of(v_settings.totals_until, v_until) c
	where s.only_row and s.stats_until < v_until;
	return v_hours;
end
$fn$;

-- ----------------------------------------------------------------------------------------------------------- what goes

-- prune_kinds: the order in which prune_step() works: first it sums hours, then it makes and drops months of the
-- archive and removes runs, rows that belong to runs, and records.
create or replace function jobrun.prune_kinds() returns text[]
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select '{hours,months,succeeded,keyed,cancelled,dead,outputs,archived_outputs,slots,effects,runners,audit,stats}'::text[]
$fn$;

-- prune_rule: which rows of a kind are to be removed, by the settings. as_summed: as if all complete hours were summed.
create or replace function jobrun.prune_rule(kind text, as_summed boolean) returns jobrun.prune_rule
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_settings jobrun.settings;
	v_rule     jobrun.prune_rule;
	v_summed   timestamptz;
	v_alive    constant text := '(select from jobrun.job_runs r where r.id = x.run_id and r.finished_at is null)';
begin
	select s.* into v_settings from jobrun.settings s where s.only_row;
	v_summed := greatest(v_settings.stats_until, case when as_summed then jobrun.hours_end() end);
	v_rule.runs := kind in ('succeeded', 'keyed', 'cancelled', 'dead');
	v_rule.before := jobrun.kept_since(case kind
		when 'succeeded' then v_settings.keep_succeeded
		when 'keyed' then v_settings.keep_keyed
		when 'cancelled' then v_settings.keep_cancelled
		when 'dead' then v_settings.keep_dead
		when 'outputs' then v_settings.keep_output
		when 'archived_outputs' then v_settings.keep_output
		when 'slots' then v_settings.keep_slots
		when 'effects' then v_settings.keep_effects
		when 'runners' then v_settings.keep_runners
		when 'audit' then v_settings.keep_audit
		when 'stats' then v_settings.keep_stats end);
	if v_rule.runs then
		v_rule.table_name := 'job_runs';
		v_rule.at_column := 'finished_at';
		v_rule.before := least(v_rule.before, v_summed);
		-- as in job_runs_finished
		v_rule.condition := format('x.finished_at is not null and (case when x.status <> ''succeeded'' then x.status '
			'when x.idempotency_key is null or x.idempotency_key like ''cli:%%'' then ''succeeded'' else ''keyed'' end) = %L', kind);
		-- The newest success of a unique key stays as long as an older run of the key has not succeeded: once the success is
		-- removed, the older run could be started again.
		if kind in ('succeeded', 'keyed') then
			v_rule.condition := v_rule.condition || format(' and (x.unique_key is null'
				' or exists (select from jobrun.job_runs n where n.id > x.id and n.status = ''succeeded'' and %1$s)'
				' or (not exists (select from jobrun.job_runs n where n.id < x.id and n.status in (''dead'', ''cancelled'') and %1$s)'
				' and not exists (select from jobrun.job_runs n where n.id < x.id and n.finished_at is null'
				' and n.job_type = x.job_type and n.unique_key = x.unique_key)))',
				'n.job_type = x.job_type and n.unique_key = x.unique_key and n.finished_at is not null');
		end if;
	elsif kind in ('outputs', 'archived_outputs') then
		v_rule.table_name := case kind when 'outputs' then 'job_attempts' else 'job_attempts_archive' end;
		v_rule.at_column := 'finished_at';
		v_rule.condition := 'x.output is not null' || case kind when 'archived_outputs' then   -- else it goes with its month
			' and x.run_finished_at >= (select coalesce(max(m.until), ''-infinity'') from jobrun.old_months() m)' else '' end;
	elsif kind = 'slots' then            -- an old slot that was replayed may have a new run
		v_rule.table_name := 'job_slots';
		v_rule.at_column := 'slot';
		v_rule.condition := 'coalesce(x.until, x.slot) < $2 and not exists ' || v_alive;
	elsif kind = 'effects' then          -- an unfinished run may still ask for its effects
		v_rule.table_name := 'job_effects';
		v_rule.at_column := 'started_at';
		v_rule.condition := 'coalesce(x.done_at, x.started_at) < $2 and not exists ' || v_alive;
	elsif kind = 'runners' then          -- a silent runner may live: it writes its row at least once a day, or holds runs
		v_rule.table_name := 'job_runners';
		v_rule.at_column := 'started_at';
		v_rule.condition := '(x.finished_at < $2 or x.last_seen_at < least($2, now() - interval ''1 day'')) '
			'and x.id <> all (array(select r.runner_id from jobrun.job_runs r where r.status = ''running'' and r.runner_id is not null)) '
			'and (x.paused_until > now()) is not true '     -- a row in which its host is paused
			|| format('and (x.finished_at < %L) is not false', greatest(v_settings.totals_until, case when as_summed then jobrun.hours_end() end));
				-- its claims are in the sums
	elsif kind = 'audit' then
		v_rule.table_name := 'job_audit';
		v_rule.at_column := 'at';
		v_rule.condition := 'true';
	elsif kind = 'stats' then
		v_rule.table_name := 'job_stats';
		v_rule.at_column := 'hour';
		v_rule.condition := 'true';
	else
		raise exception 'there is no kind "%"; there are %', left(kind, 100), array_to_string(jobrun.prune_kinds(), ', ')
			using errcode = 'JR065';
	end if;
	return v_rule;
end
$fn$;

-- count_prunable: how many rows of a kind prune_step() would remove if it began now.
create or replace function jobrun.count_prunable(kind text) returns bigint
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' set jit = off as $fn$
declare
	v_rule jobrun.prune_rule;
	v_runs text;
	v_n    bigint;
begin
	if kind = 'hours' then
		return (select count(distinct date_trunc('hour', e.at)) from (
			select r.finished_at from jobrun.job_runs r
			where r.finished_at >= (select s.stats_until from jobrun.settings s where s.only_row) and r.finished_at < jobrun.hours_end()
			union all
			select a.finished_at from jobrun.job_attempts a
			where a.finished_at >= (select s.stats_until from jobrun.settings s where s.only_row) and a.finished_at < jobrun.hours_end()) e(at));
	elsif kind = 'months' then
		return (select count(*) from jobrun.old_months());
	end if;
	v_rule := jobrun.prune_rule(kind, true);
	if kind = 'outputs' then             -- most go with their runs
		select string_agg(format('(r.finished_at < %L and %s)', u.before, replace(u.condition, 'x.', 'r.')), ' or ') into v_runs
		from unnest('{succeeded,keyed,cancelled,dead}'::text[]) k(kind) cross join lateral jobrun.prune_rule(k.kind, true) u;
		v_rule.condition := v_rule.condition || format(' and not exists (select from jobrun.job_runs r where r.id = x.run_id and (%s))', v_runs);
	end if;
	execute format('select count(*) from jobrun.%I x where x.%I < $2 and %s', v_rule.table_name, v_rule.at_column, v_rule.condition)
		into v_n using null::timestamptz, v_rule.before;
	return v_n;
end
$fn$;

-- prune_some: remove, or archive, the first `most` rows of a kind, from `after` on: rows before that are removed already,
-- but their dead index entries may still be there and would be read again and again. Among runs it passes the index entries of those that
-- are kept longer, of which there may be any number: so it goes from day to day, and ends when this has taken 0.1 s. Returns how many
-- were removed, the next `after`, null if there are no more, and of runs how far it has come. Rows that others have locked are skipped:
-- this never waits for a lock, so it can be part of no deadlock.
create or replace function jobrun.prune_some(kind text, most bigint, inout after timestamptz, out n bigint, out come_to timestamptz)
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $fn$
declare
	v_rule   constant jobrun.prune_rule := jobrun.prune_rule(kind, false);
	v_enough constant timestamptz := clock_timestamp() + interval '0.1 s';
	v_end    timestamptz := v_rule.before;
	v_rows   tid[] := '{}';
	v_found  tid[];
	v_last   timestamptz;
begin
	if kind = 'archived_outputs' then
		select f.after, f.n into after, n from jobrun.forget_outputs(v_rule.before, most, after) f;
		return;
	end if;
	loop
		if v_rule.runs then
			v_end := least(v_rule.before, (select min(r.finished_at) from jobrun.job_runs r
				where r.finished_at >= after and r.finished_at > '-infinity') + interval '1 day');
		end if;
		execute format('select array_agg(p.tid), max(p.at) from (select x.ctid as tid, x.%1$I as at from jobrun.%2$I x
				where x.%1$I >= $1 and x.%1$I < $2 and %3$s order by x.%1$I limit $3 for update skip locked) p',
				v_rule.at_column, v_rule.table_name, v_rule.condition)
			into v_found, v_last using after, v_end, most - cardinality(v_rows);
		v_rows := v_rows || v_found;
		after := case when cardinality(v_rows) >= most then v_last when v_end < v_rule.before then v_end end;
		exit when after is null or cardinality(v_rows) >= most or clock_timestamp() > v_enough;
	end loop;
	if kind = 'outputs' then
		update jobrun.job_attempts a set output = null where a.ctid = any (v_rows);
		get diagnostics n = row_count;
	elsif v_rule.runs and (select s.archive from jobrun.settings s where s.only_row) then
		n := jobrun.archive_runs(v_rows);
	elsif v_rule.runs then
		with gone as (delete from jobrun.job_runs r where r.ctid = any (v_rows) returning r.id),
		told as (delete from jobrun.job_attempts a where a.run_id = any (array(select g.id from gone g)))
		select count(*) into n from gone;
	else
		execute format('delete from jobrun.%I x where x.ctid = any ($1)', v_rule.table_name) using v_rows;
		get diagnostics n = row_count;
	end if;
	come_to := case when v_rule.runs then coalesce(after, v_rule.before) end;
end
$fn$;

-- prune_from: where to begin with a kind of runs: where the housekeeping of today (UTC) has come to, as it has noted. What ended before
-- that was looked at, and has gone. But the first one of a day begins with the oldest run, for those that were locked, were kept for a
-- unique key, were committed late, or came by a restore.
create or replace function jobrun.prune_from(kind text) returns timestamptz
language sql stable set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' as $fn$
	select coalesce((select least((s.pruned_until ->> prune_from.kind)::timestamptz, (jobrun.prune_rule(prune_from.kind, false)).before)
		from jobrun.settings s
		where s.only_row and (s.pruned_until ->> 'day')::date = current_date and s.pruned_until ? prune_from.kind), '-infinity')
$fn$;

-- prune_step: one step of housekeeping, in a transaction of its own: remove at most `most` rows of one kind, or sum one
-- hour. Call it again with the object it returned until that says done. The object has counts (of each kind, so far),
-- done, and for the next step kind and after. Started with {"go_on": true} it begins where those before it that were started so have come
-- to (see prune_from), and notes how far it comes; with {"dry_run": true} it counts what would be removed and changes nothing.
create or replace function jobrun.prune_step(state jsonb default '{}', most bigint default 2000) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' as $fn$
declare
	v_kinds constant text[] := jobrun.prune_kinds();
	v_dry   constant boolean := coalesce((state ->> 'dry_run')::boolean, false);
	v_go_on constant boolean := coalesce((state ->> 'go_on')::boolean, false) and not v_dry;
	v_count jsonb := coalesce(state -> 'counts', '{}');
	v_kind  text := coalesce(state ->> 'kind', v_kinds[1]);
	v_after timestamptz := (state ->> 'after')::timestamptz;
	v_n     bigint := 0;
	v_to    timestamptz;
	v_notes jsonb := '{}';
begin
	if most is null or most < 1 then
		raise exception 'most is %; at least 1', most using errcode = 'JR065';
	end if;
	loop
		v_after := coalesce(v_after, case when v_go_on then jobrun.prune_from(v_kind) else '-infinity' end);
		if v_dry then
			v_n := jobrun.count_prunable(v_kind);
			v_after := null;
		elsif v_kind = 'hours' then
			v_n := jobrun.sum_hours(1);
			v_after := case when v_n > 0 then v_after end;
		elsif v_kind = 'months' then
			v_after := case when jobrun.make_months() then v_after end;
			if v_after is null then
				v_n := jobrun.drop_month();
				v_after := case when v_n > 0 then '-infinity'::timestamptz end;
			end if;
		else
			select p.after, p.n, p.come_to into v_after, v_n, v_to from jobrun.prune_some(v_kind, most, v_after) p;
			v_notes := v_notes || case when v_to is null then '{}' else jsonb_build_object(v_kind, v_to) end;
		end if;
		v_count := v_count || jsonb_build_object(v_kind, coalesce((v_count ->> v_kind)::bigint, 0) + v_n);
		if v_after is null then
			v_kind := v_kinds[array_position(v_kinds, v_kind) + 1];
		end if;
		exit when v_kind is null or v_n > 0 or v_after is not null;
	end loop;
	if v_go_on and v_notes <> '{}' then      -- last of all, so that nobody waits long for the row; not if somebody else has locked it
		perform from jobrun.settings s where s.only_row for no key update skip locked;
		if found then
			v_notes := v_notes || jsonb_build_object('day', current_date);
			update jobrun.settings s
			set pruned_until = case when s.pruned_until -> 'day' = v_notes -> 'day' then s.pruned_until || v_notes else v_notes end
			where s.only_row;
		end if;
	end if;
	return jsonb_build_object('counts', v_count, 'done', v_kind is null, 'dry_run', v_dry, 'go_on', v_go_on, 'kind', v_kind, 'after', v_after);
end
$fn$;

-- prune_again: housekeeping goes on in a minute, since it had to end before all was done: a run of jobrun.prune, unless one
-- waits already. So what is removed in a day is not bounded by a minute of each hour.
create or replace function jobrun.prune_again() returns void
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_def jobrun.job_definitions;
begin
	select d.* into v_def from jobrun.job_definitions d where d.name = 'jobrun.prune' and d.enabled;
	if found and not exists (select from jobrun.job_runs r
			where r.definition_id = v_def.id and r.finished_at is null and r.status <> 'running') then
		perform jobrun.insert_run(jobrun.new_run_of(v_def, null, interval '1 minute', null, null, null, null), 'keep');
	end if;
end
$fn$;
