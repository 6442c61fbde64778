-- claim: turn waiting runs into running runs of a runner, within limits and pauses.

-- candidates: the combinations (job_type, queue, priority) that have a due run now, best priority first, for the claim.
-- queues: null for all; most: how many to return. None on a host that is held back.
-- A loose index scan: one probe of job_runs_ready for each combination, however many runs it has and however far ahead
-- they are due; two if it has both free runs and bound ones, which have a lock key or a definition. Paused and full
-- combinations are left out, so that they do not count as work. The list ends after about `most`, and only between two
-- priorities: all combinations left out have a worse priority, so the order of claims stays exact.
-- A function for the sake of its plan: it is made when a connection first finds that runs wait, and kept, and it takes
-- ten times as long as the look itself. The settings are those of claim.
create or replace function jobrun.candidates(job_types text[], queues text[], most bigint, host text default null)
returns table (job_type text, queue text, priority smallint)
language plpgsql stable
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $fn$
#variable_conflict use_column
begin
	if jobrun.is_held_back(candidates.host) then
		return;
	end if;
	return query
	with recursive walk as (
		select f.* from unnest(candidates.job_types) t(job_type) cross join lateral (
			select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
			from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = t.job_type
			order by r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id limit 1) f
		union all
		select n.* from walk w cross join lateral (
			select r.job_type, r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound, r.run_at
			from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = w.job_type
				and (r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint) > (w.queue, w.priority, w.bound)
			order by r.queue, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id limit 1) n
	), combinations as (
		select w.job_type, w.queue, w.priority, min(w.run_at) as run_at from walk w group by w.job_type, w.queue, w.priority
	), due as (
		select w.job_type, w.queue, w.priority, count(*) over (order by w.priority) as so_far,
			min(w.priority) over () as best
		from combinations w
		left join jobrun.job_queues q on q.name = w.queue
		left join jobrun.job_types t on t.name = w.job_type
		where w.run_at <= now()
			and (candidates.queues is null or w.queue = any (candidates.queues))
			and (q.paused_until is null or q.paused_until <= now())
			and (t.paused_until is null or t.paused_until <= now())
			and (q.rate_limit is null or jobrun.rate_left(q) > 0)
			and (q.max_running is null or q.max_running >
				(select count(*) from jobrun.job_runs r where r.status = 'running' and r.queue = q.name))
	)
	select job_type, queue, priority from due
	where so_far <= candidates.most or priority = best
	order by priority, job_type, queue;
end
$fn$;

-- check_pauses: for a claim that took long, behind the dead index entries of an old snapshot: an error if a pause that began
-- meanwhile holds back one of the runs that it has taken. Who waits for a pause (pause --wait) waits for such a claim as long as
-- a usual one takes, not longer. Volatile, so that its snapshot is younger than those of the claim.
create or replace function jobrun.check_pauses(tids tid[], host text) returns void
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
begin
	if jobrun.is_held_back(check_pauses.host) or exists (
		select from jobrun.job_runs r
		left join jobrun.job_queues q on q.name = r.queue
		left join jobrun.job_types t on t.name = r.job_type
		left join jobrun.job_definitions d on d.id = r.definition_id
		where r.ctid = any (tids) and (q.paused_until > now() or t.paused_until > now() or d.paused_until > now()))
	then
		raise exception 'a pause began during this claim' using errcode = 'serialization_failure';
	end if;
end
$fn$;

-- may_claim: may this claim of a runner still take runs? Each claim has a number, higher than that of the one before.
-- It may not if the runner has given up the claim (claims_void) or has ended, or if its row is gone. The row of the
-- runner stays locked, so that the runner cannot give up the claim before it has ended: either its runs are visible
-- then, or it takes nothing.
create or replace function jobrun.may_claim(runner_id bigint, claim_number bigint) returns boolean
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	perform from jobrun.job_runners n
	where n.id = may_claim.runner_id and n.finished_at is null and n.claims_void < may_claim.claim_number
	for share;
	return found;
end
$fn$;

-- start_keyed: the rest of a claim for its candidates that have a unique key. These runs wait, and this transaction has
-- locked them. Of the runs of a key the newest wins when it starts:
--  - All waiting runs of the key are locked. If another session has locked one, the candidate is left out this time: an
--    enqueue keeps that run, and the next start must see what the enqueue commits; or another claim is about to start it.
--  - A run that was claimed before (a retry) does not start if a newer one of its key is running or has succeeded. A
--    newer one that waits does not count, since it may never start.
--  - The newest of the others starts, and older waiting ones end as superseded. or_newer: a newer due run of the same
--    queue and lock key, and of no paused definition, may start in the place of a candidate that would start; without it,
--    with a thousand retries of a key, each claim would start some of them and read all. Expired runs are claimed so that
--    settle can end them, which does not count as a start.
-- Its snapshot must be younger than the locks of the candidates, so that it sees what earlier lockers have committed.
-- started: ids; tids: their ctids; left_out: queues of the candidates left out. limited: queues whose rows are locked,
-- for their rates.
-- It runs with the rights of the owner, so that the audit can tell the runs it ends from runs that people end by hand.
create or replace function jobrun.start_keyed(run_ids bigint[], runner_id bigint, host text, locked_until timestamptz, limited text[],
	or_newer boolean, out started bigint[], out tids tid[], out left_out text[])
language plpgsql volatile security definer
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_host   constant text := host;
	v_until  constant timestamptz := locked_until;
	v_old    bigint[];       -- the runs that end, and the run that supersedes each
	v_by     bigint[];
begin
	with keys as materialized (            -- of the candidates; newer: the newest run that has taken the place of a retry among them
		select c.job_type, c.unique_key,
			case when max(c.claim_seq) > 0 then jobrun.newer_run(c.job_type, c.unique_key, min(c.id)) end as newer
		from jobrun.job_runs c where c.id = any (run_ids) group by c.job_type, c.unique_key),
	waiting as materialized (              -- with these keys; the candidates are among them
		select w.*, w.id = any (run_ids) as mine, case when w.claim_seq > 0 and k.newer > w.id then k.newer end as newer from keys k
		cross join lateral (
			select r.ctid as tid, r.id, r.job_type, r.unique_key, r.queue, r.concurrency_key, r.claim_seq, r.run_at <= now() as due,
				(r.expires_at <= now()) is true as expired,
				(select d.paused_until > now() from jobrun.job_definitions d where d.id = r.definition_id) is true as paused
			from jobrun.job_runs r
			where r.job_type = k.job_type and r.unique_key = k.unique_key and r.finished_at is null and r.status <> 'running'
			offset 0) w),                  -- "offset 0" forces one index scan per key, whatever the statistics say
	locked as materialized (               -- if their key has not changed meanwhile
		select r.id from waiting w join jobrun.job_runs r on r.ctid = w.tid
		where case when r.status in ('queued', 'failed') then r.unique_key = w.unique_key end     -- which no index can answer
		for no key update of r skip locked),
	judged as materialized (
		select w.*, bool_and(w.id in (select l.id from locked l)) over (partition by w.job_type, w.unique_key) as whole,
			w.mine or (or_newer and w.due and not w.paused and bool_or(w.mine and not w.expired and w.newer is null)
				over (partition by w.job_type, w.unique_key, w.queue, w.concurrency_key)) as may_start
		from waiting w),
	chosen as (                            -- what starts of each key; null: none
		select j.*, max(case when j.may_start and not j.expired and j.newer is null then j.id end)
			over (partition by j.job_type, j.unique_key) as start
		from judged j),
	fates as materialized (
		select c.id, c.queue, case when not c.whole then case when c.mine then 'left out' end
			when c.id = c.start then 'started' when c.id < c.start then 'superseded' when not c.mine then null
			when c.newer is not null then 'superseded' when c.expired then 'started' end as fate,
			case when c.id < c.start then c.start else c.newer end as by
		from chosen c)
	select array(select f.id from fates f where f.fate = 'started'), array(select distinct f.queue from fates f where f.fate = 'left out'),
		array_agg(f.id order by f.id) filter (where f.fate = 'superseded'), array_agg(f.by order by f.id) filter (where f.fate = 'superseded')
	into started, left_out, v_old, v_by
	from fates f;

	update jobrun.job_runs r
	set status = 'cancelled', finished_at = clock_timestamp(), error_code = 'superseded', superseded_by = e.by
	from unnest(v_old, v_by) e(id, by) where r.id = any (array[e.id]);
	with taken as (
		update jobrun.job_runs r
		set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
			attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
		where r.id = any (started)
		returning r.ctid as tid)
	select array(select taken.tid from taken) into tids;
	update jobrun.job_queues q
	set rate_used = q.rate_limit - jobrun.rate_left(q) + t.n,
		rate_window_start = case when jobrun.rate_left(q) < q.rate_limit then q.rate_window_start else now() end
	from (
		select r.queue, count(*) as n from jobrun.job_runs r
		where r.id = any (started) and (r.expires_at <= now()) is not true group by r.queue) t
	where q.name = t.queue and q.name = any (limited) and q.rate_limit is not null;
end
$fn$;

-- claim_ahead: up to `ahead` runs behind this one, in the order and from the combinations of a claim. They end before the
-- first due run that must not be taken before it can start:
--  - of a job type that is not in ahead_types, or from a queue with a limit, which counts what runs;
--  - with a lock key or a unique key, since of these the newest starts, and starting is what decides;
--  - on its last attempt, or lost before: the extras are lost when their runner is killed, and that is to cost each run
--    one attempt at most, and never its last.
-- Each combination gives no more than `ahead` runs, so runs of paused definitions are left out after that. The rest is
-- as in claim. Returns their ctids.
create or replace function jobrun.claim_ahead(runner_id bigint, host text, locked_until timestamptz,
	job_types text[], queues text[], priorities smallint[],
	after_priority smallint, after_run_at timestamptz, after_id bigint, ahead integer, ahead_types text[])
returns tid[]
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_host   constant text := host;
	v_until  constant timestamptz := locked_until;
	v_paused constant bigint[] := array(select d.id from jobrun.job_definitions d where d.paused_until > now());
	v_tids   tid[];
begin
	with c as materialized (           -- combinations at or after that run, not paused
		select c.job_type, c.queue, c.priority,
			case when c.priority = claim_ahead.after_priority then claim_ahead.after_run_at else '-infinity' end as after_run_at,
			claim_ahead.after_id as after_id,
			c.job_type = any (ahead_types) and not exists (select from jobrun.job_queues q
				where q.name = c.queue and jobrun.is_limited(q)) as quick
		from unnest(job_types, queues, priorities) c(job_type, queue, priority)
		where c.priority >= claim_ahead.after_priority
			and not exists (select from jobrun.job_queues q where q.name = c.queue and q.paused_until > now())
			and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
	pick as materialized (             -- the next due runs of each, merged and cut; one is enough to end them
		select p.*, c.quick and p.plain as plain_and_quick from c cross join unnest('{0,1}'::smallint[]) b(bound) cross join lateral (
			select r.ctid as tid, r.priority, r.run_at, r.id, r.claim_seq, r.definition_id,
				r.concurrency_key is null and r.unique_key is null and r.attempts + 1 < r.max_attempts as plain
			from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
				and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = b.bound
				and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
			order by r.run_at, r.id limit case when c.quick or v_paused <> '{}' then ahead else 1 end) p
		order by p.priority, p.run_at, p.id limit ahead),
	judged as materialized (           -- does it qualify, and all before it? Every attempt that was lost has its row.
		select p.*, bool_and(p.plain_and_quick and not case when p.claim_seq > 0
				then exists (select from jobrun.job_attempts a where a.run_id = p.id and a.outcome = 'lost') else false end)
			over (order by p.priority, p.run_at, p.id) as fits
		from pick p
		where v_paused = '{}' or p.definition_id is null or p.definition_id <> all (v_paused)),
	got as materialized (              -- locked in order; whoever has claimed one meanwhile has raised its claim_seq
		select r.ctid as tid
		from judged p join jobrun.job_runs r on r.ctid = p.tid
		where p.fits and r.status in ('queued', 'failed') and r.run_at <= now() and r.claim_seq = p.claim_seq
		order by p.priority, p.run_at, p.id
		for no key update of r skip locked),
	taken as (
		update jobrun.job_runs r
		set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
			attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
		from got where r.ctid = got.tid
		returning r.ctid as tid)
	select array(select taken.tid from taken) into v_tids;
	return v_tids;
end
$fn$;

-- moved_runs: the ctids of what this transaction has claimed for the runner, but for these: a trigger that people have added has written
-- these runs once more.
create or replace function jobrun.moved_runs(runner_id bigint, tids tid[]) returns tid[]
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
begin
	return array(select r.ctid from jobrun.job_runs r
		where r.status = 'running' and r.runner_id = moved_runs.runner_id and r.started_at = now() and r.ctid <> all (tids));
end
$fn$;

-- claim: at most n due runs for a runner, best first (priority, run_at, id). Expired runs are claimed, too, so that
-- settle can end them; they use up no rate. But if the rate of their queue is used up, they stay until the next window.
--
--  1. The runner knows which combinations of job type, queue and priority have due runs (candidates.sql) and passes them as three
--     parallel arrays, with the last run it claimed as cursor, so that no dead index entry is walked twice.
--  2. The runner's row is locked: a claim that the runner has given up takes nothing (may_claim).
--  3. Limited queues are locked next, in order of name, by a statement of its own. The statements after it have a younger
--     snapshot, so their counts are exact. Usually no queue has limits, and nothing is locked. A queue whose row another
--     session has locked is left out, so that the other queues need not wait; a row with only its queue, after the runs,
--     tells the runner to ask again.
--  4. Each combination gives its first due runs from two index ranges: free ones, and bound ones, which have a lock key or a
--     definition. They are merged and cut to a few more than n.
--  5. Only these n are locked (SKIP LOCKED), checked again, and turned into running. While others claim, too, most of them
--     may be locked: claim_free says how those are passed.
--  6. Those with a unique key are only locked; start_keyed starts them, ends them, or leaves them out this time. Other runs
--     are taken in the place of those left out; if there are none, their queue is returned as in 3. When so many are left out
--     that this claim would take long, it ends, and the next one goes on behind them, as in 7.
--  7. If these were not enough, or there are limits, further turns look at more runs (claim_turn). When a full lock key or a paused
--     definition has many runs before the others, they go by key: the first due runs of each key that has room, and the
--     free ones. So no number of such runs hides those after them, nor slows a claim down. If there are more than a
--     thousand keys, the turns go on in order, so that no key is preferred; only after a hundred thousand runs they go
--     by key again, a thousand keys a turn and a hundred thousand at most. If there is more behind what they have looked at,
--     as when another session has locked more runs than that, one row after all others says where the next claim goes on: it
--     has no id and no queue, and priority, run_at and, as claim_seq, the id of the last run that was looked at.
--  8. A run that another session has locked uses up no limit: nothing runs. If one had a place within the limits of its queue and
--     was not to be had, the turn is repeated, once a claim, and from there on a run is locked before it counts. Only those are
--     locked that anybody has ever locked as they are now (xmax): of the others the row need not be written. By key, up to a
--     hundred thousand of a turn are tried, an equal part for each key; in the last turns, ten thousand. That takes time, so such
--     turns count for more. Claims do not meet here: one that holds the row of a queue with limits is alone in it.
--  9. When there were n, which may be 0, up to `ahead` more follow, as claim_ahead says; all come in order.
--
-- What was taken is read by ctid: to find it by id takes four times as long. Nobody else can move these rows before this transaction
-- ends, and nothing here does. If a trigger that people have added does, moved_runs finds them.
--
-- Every statement of a volatile function has its own snapshot only in READ COMMITTED: anything else is refused.
-- force_generic_plan: the function is planned once per connection without a named prepared statement. Joins are by
-- ctid, or runs are read by an array of their ctids, so that even wrong statistics give nested loops, and a plan made
-- while the table was empty does not read all of it. enable_sort is off so that a step from one key to the next reads
-- job_runs_bound, which has the keys in order. When the planner expects few runs, it takes reading and sorting all runs of the
-- combination to be as cheap.
create or replace function jobrun.claim(
	runner_id bigint, host text, n integer, job_types text[], queues text[], priorities smallint[],
	after_priority smallint, after_run_at timestamptz, after_id bigint, lease_ms bigint, claim_number bigint,
	ahead integer default 0, ahead_types text[] default '{}')
returns setof jobrun.held_runs
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off set enable_sort = off as $fn$
#variable_conflict use_column
declare
	v_runner   constant bigint := runner_id;
	v_host     constant text := host;
	v_until    constant timestamptz := now() + lease_ms * interval '1 millisecond';
	v_batch    integer := 2 * n + 50;     -- the next turn looks at so many
	v_paused   constant bigint[] := array(select d.id from jobrun.job_definitions d where d.paused_until > now());
	v_priority smallint := coalesce(after_priority, -32768);
	v_run_at   timestamptz := coalesce(after_run_at, '-infinity');
	v_id       bigint := coalesce(after_id, 0);
	v_limited  text[];
	v_left_out text[] := '{}';
	v_tids     tid[];                     -- ctids of the runs that it has taken
	v_busy     text[] := '{}';            -- queues of runs that start_keyed has left out
	v_keyed    bigint[];                  -- locked runs that start_keyed is to start
	v_passed   bigint[] := '{}';          -- those of them that it has not started
	v_kept     integer := 0;              -- turns in which it has left out some; by key they count tenfold
	v_started  record;
	v_turn     record;
	v_try      boolean := false;          -- others have locked runs that counted: lock first, then count
	v_looked   bigint := 0;
	v_by_key   boolean := false;
	v_many     boolean := false;          -- there are more keys than a turn looks at,
	v_last     boolean := false;          -- and in order nothing was found
	v_from     jsonb;                     -- by key: the last key of each combination in the turn before; null: the first turn
	v_ends     boolean := false;
	v_more     boolean := false;          -- not all that is due was looked at
	v_read     bigint;
	v_moved    tid[];
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.claim needs READ COMMITTED' using errcode = 'invalid_transaction_state';
	elsif n is null or n < 0 or not jobrun.may_claim(v_runner, claim_number) or jobrun.is_held_back(v_host) then
		return;
	end if;
	v_limited := array(select q.name from jobrun.job_queues q where q.name = any (queues) and jobrun.is_limited(q) and n > 0);
	if v_limited <> '{}' then
		v_left_out := v_limited;
		v_limited := array(select l.name from (
			select q.name from jobrun.job_queues q where q.name = any (v_limited) and jobrun.is_limited(q)
			order by q.name for no key update skip locked) l);
		v_left_out := array(select l.name from unnest(v_left_out) l(name) where l.name <> all (v_limited));
	end if;

	if n = 0 then
		v_tids := jobrun.claim_ahead(v_runner, v_host, v_until, job_types, queues, priorities, v_priority, v_run_at, v_id, ahead, ahead_types);
	elsif v_limited = '{}' then
		select f.* into v_tids, v_keyed, v_ends, v_priority, v_run_at, v_id
		from jobrun.claim_free(v_runner, v_host, v_until, n, job_types, queues, priorities, v_priority, v_run_at, v_id, v_paused) f;
	end if;

	-- With limits, or if the first ones were not enough: go on until runs are found.
	loop
		if v_keyed is not null then
			select s.* into v_started from jobrun.start_keyed(v_keyed, v_runner, v_host, v_until, v_limited, true) s;
			v_tids := nullif(v_tids || v_started.tids, '{}');
			v_keyed := array(select k.id from unnest(v_keyed) k(id) where k.id <> all (v_started.started));
			v_ends := v_ends and v_keyed = '{}';
			v_passed := v_passed || v_keyed;
			v_busy := v_busy || v_started.left_out;
			v_kept := v_kept + case when v_keyed = '{}' then 0 when v_by_key then 10 else 1 end;
			if v_keyed <> '{}' and (v_kept >= 50 or cardinality(v_passed) >= 1000
				or v_looked >= case when v_last then 200000 else 100000 end)
			then
				v_ends := true;           -- enough for one claim: the next one goes on behind them, in their queue, too
				v_more := true;
				v_busy := '{}';
				if not v_last then
					select r.priority, r.run_at, r.id into v_priority, v_run_at, v_id from (
						select r.priority, r.run_at, r.id from jobrun.job_runs r where r.id = any (v_keyed) offset 0) r
					order by r.priority desc, r.run_at desc, r.id desc limit 1;
				end if;
			end if;
		end if;
		exit when v_ends or cardinality(v_tids) >= n;
		select t.* into v_turn from jobrun.claim_turn(v_runner, v_host, v_until, n - coalesce(cardinality(v_tids), 0),
			job_types, queues, priorities, v_priority, v_run_at, v_id, v_batch, v_limited, v_paused, v_passed, v_try, v_by_key, v_from, v_last) t;
		v_tids := nullif(v_tids || v_turn.tids, '{}');
		v_keyed := v_turn.keyed;
		if v_turn.keys_left is not null and not v_last then      -- this turn has taken nothing
			v_many := true;
			v_by_key := false;
			continue;
		end if;
		v_looked := v_looked + v_turn.seen * case when v_try then 2 else 1 end
			+ case when v_turn.keys_left is null then 0 when v_try then 10000 else 1000 end;
		v_ends := case when v_last then v_turn.keys_left is null or v_looked >= 200000
			else v_turn.seen < v_batch or v_by_key and v_looked >= 100000 end;
		v_more := v_last and v_more or v_turn.seen >= v_batch;
		if v_turn.missed and not v_try and coalesce(cardinality(v_tids), 0) + coalesce(cardinality(v_keyed), 0) < n then
			v_try := true;                -- repeat it: what others have locked must not use up a limit
			v_ends := false;
			continue;
		elsif v_keyed is not null then    -- repeat it without the runs that start_keyed does not start
			continue;
		elsif v_last then
			v_from := v_turn.keys_left;
			continue;
		end if;
		v_priority := v_turn.priority;
		v_run_at := v_turn.run_at;
		v_id := v_turn.id;
		v_batch := case when v_try then greatest(v_batch, least(2 * v_batch, 10000)) else 2 * v_batch end;
		v_last := v_looked >= 100000;
		v_more := v_more and (v_ends or not v_last or v_try);     -- the last turns try only some of each key
		v_by_key := v_last or v_looked >= 1000 and not v_many;
	end loop;
	if v_tids is null or cardinality(v_tids) < n then
		v_left_out := array(select distinct o.name from unnest(v_left_out || v_busy) o(name));
	elsif n > 0 and ahead > 0 then
		select v_tids || jobrun.claim_ahead(v_runner, v_host, v_until, job_types, queues, priorities, l.priority, l.run_at, l.id,
			ahead, ahead_types) into v_tids
		from (select 1) always left join (
			select t.* from (select r.priority, r.run_at, r.id from jobrun.job_runs r where r.ctid = any (v_tids) offset 0) t
			order by t.priority desc, t.run_at desc, t.id desc limit 1) l on true;
	end if;

	if clock_timestamp() > now() + interval '1 second' then
		perform jobrun.check_pauses(v_tids, v_host);
	end if;
	return query select h.* from jobrun.held_runs h where h.tid = any (v_tids) order by h.priority, h.run_at, h.id;
	get diagnostics v_read = row_count;
	if v_read < cardinality(v_tids) then
		v_moved := jobrun.moved_runs(v_runner, v_tids);
		return query select h.* from jobrun.held_runs h where h.tid = any (v_moved) order by h.priority, h.run_at, h.id;
	end if;
	if v_left_out <> '{}' then
		return query select l.* from unnest(v_left_out) o(name)
			cross join lateral jsonb_populate_record(null::jobrun.held_runs, jsonb_build_object('queue', o.name)) l;
	end if;
	if v_ends and (v_more or v_from is not null) and coalesce(cardinality(v_tids), 0) < n then
		return query select l.* from jsonb_populate_record(null::jobrun.held_runs,
			jsonb_build_object('priority', v_priority, 'run_at', v_run_at, 'claim_seq', v_id)) l;
	end if;
end
$fn$;
