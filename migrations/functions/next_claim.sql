-- next_claim: what a claim would do now, without doing it, and which session has a run locked. It takes no lock; explain.sql says why.

-- runs_of: these runs. It becomes part of the statement that calls it. "offset 0" makes the planner find each by its id: a
-- join with a table that had no live row when it was last analysed may read all of it.
create or replace function jobrun.runs_of(ids bigint[]) returns setof jobrun.job_runs
language sql stable as $fn$
	select r.* from jobrun.job_runs r where r.id operator(pg_catalog.=) any (ids) offset 0
$fn$;

-- due_before: ids of at most `most` due runs of these job types in the queue that come before this place in the order of
-- claims (null: all), in no order. The combinations are found by a loose index scan, as in candidates().
create or replace function jobrun.due_before(
	queue text, job_types text[], priority smallint, run_at timestamptz, id bigint, most integer)
returns bigint[]
language plpgsql stable security definer
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_queue    constant text := queue;
	v_priority constant smallint := coalesce(priority, 32767::smallint);
	v_run_at   constant timestamptz := run_at;
	v_id       constant bigint := id;
	v_most     constant integer := most;
begin
	return array(
		with recursive walk as (
			select f.* from unnest(job_types) t(job_type) cross join lateral (
				select r.job_type, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound
				from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = t.job_type and r.queue = v_queue
				order by r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id limit 1) f
			union all
			select n.* from walk w cross join lateral (
				select r.job_type, r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint as bound
				from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = v_queue
					and (r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint) > (w.priority, w.bound)
				order by r.priority, least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint, r.run_at, r.id limit 1) n)
		select p.id
		from (select w.*, case when w.priority = v_priority then coalesce(v_run_at, 'infinity') else 'infinity' end as before
			from walk w where w.priority <= v_priority offset 0) w
		cross join lateral ( -- not (run_at, id) < ...: of many runs with one run_at all would be read
			(select r.id from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = v_queue and r.priority = w.priority
				and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = w.bound and r.run_at <= now() and r.run_at < w.before
			order by r.run_at, r.id limit v_most)
			union all
			(select r.id from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = v_queue and r.priority = w.priority
				and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = w.bound and r.run_at <= now() and r.run_at = w.before
				and r.id < v_id
			order by r.id limit v_most)) p
		limit v_most);
end
$fn$;

-- next_claim: what a claim that takes all that it may would do now with these runs (seen: see all_seen()): fate is starts, expired or superseded
-- (by newer); null: it stays, or does not wait. It goes through the turns of claim() and start_keyed() with runs that could
-- decide that, and writes nothing. Runs that row_holder() knows to be locked use up no limit. is_sure: false if it would have had to look at
-- more than a thousand due runs before one of them, at more than ten queues beside their own, or twenty turns.
create or replace function jobrun.next_claim(run_ids bigint[], seen jsonb)
returns table (id bigint, fate text, newer bigint, is_sure boolean)
language plpgsql stable security definer
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $fn$
#variable_conflict use_column
declare
	v_wanted   bigint[];                  -- those of run_ids that wait, and may start now
	v_most     constant integer := 1000;
	v_paused   constant bigint[] := array(select d.id from jobrun.job_definitions d where d.paused_until > now());
	v_sure     boolean := true;
	v_last     record;
	v_queue    jobrun.job_queues;
	v_open     text[] := '{}';            -- "QUEUE TYPE", not paused: of these only runs with a unique key in question count
	v_limited  text[] := '{}';
	v_names    text[];                    -- queues to look at
	v_seen     text[] := '{}';
	v_name     text;
	v_types    text[];
	v_more     bigint[];
	v_ids      bigint[] := '{}';          -- due runs that a claim may take if its limits have room
	v_started  bigint[] := '{}';
	v_gone     bigint[] := '{}';          -- superseded
	v_by       bigint[] := '{}';
	v_passed   bigint[] := '{}';
	v_turn     record;
	v_fates    record;
begin
	v_wanted := case when jobrun.is_held_back(null) then '{}' else array(select r.id from jobrun.runs_of(run_ids) r
		where r.finished_at is null and r.status in ('queued', 'failed') and (r.run_at <= now() or r.unique_key is not null)) end;
	v_names := array(select distinct r.queue from jobrun.runs_of(v_wanted) r);
	while v_names <> '{}' loop
		foreach v_name in array v_names loop
			v_seen := v_seen || v_name;
			if cardinality(v_seen) > 10 + cardinality(v_wanted) then
				return query select i.id, null::text, null::bigint, false from unnest(run_ids) i(id);
				return;
			end if;
			select q.* into v_queue from jobrun.job_queues q where q.name = v_name;
			v_types := case when v_queue.paused_until > now() then '{}' else array(
				select t.name from unnest(jobrun.taken_types(v_name, seen)) t(name)
				where not exists (select from jobrun.job_types j where j.name = t.name and j.paused_until > now())) end;
			if v_queue.name is null or not jobrun.is_limited(v_queue) then
				v_open := v_open || array(select v_name || ' ' || t.name from unnest(v_types) t(name));
				v_ids := v_ids || array(select r.id from jobrun.runs_of(v_wanted) r
					where r.queue = v_name and r.run_at <= now() and r.job_type = any (v_types));
				continue;
			end if;
			v_limited := v_limited || v_name;
			-- What stands behind it counts, too: it may be the newest of the unique key of one before it. Of a long queue only
			-- those runs behind it count.
			v_more := jobrun.due_before(v_name, v_types, null, null, null, v_most + 1);
			if cardinality(v_more) > v_most then
				v_open := v_open || array(select v_name || ' ' || t.name from unnest(v_types) t(name));
				select r.priority, r.run_at, r.id into v_last from jobrun.runs_of(v_wanted) r
				where r.queue = v_name and r.run_at <= now() and r.job_type = any (v_types)
				order by r.priority desc, r.run_at desc, r.id desc limit 1;
				v_more := case when v_last.id is null then '{}'
					else jobrun.due_before(v_name, v_types, v_last.priority, v_last.run_at, v_last.id, v_most) || v_last.id end;
			end if;
			if cardinality(v_more) > v_most then
				return query select i.id, null::text, null::bigint, false from unnest(run_ids) i(id);
				return;
			end if;
			v_ids := v_ids || v_more;
		end loop;
		-- runs with the same unique keys may be in other queues
		v_names := array(select distinct s.queue from (
				select distinct r.job_type, r.unique_key from jobrun.runs_of(v_ids || v_wanted) r
				where r.unique_key is not null) k
			cross join lateral (select r.queue from jobrun.job_runs r
				where r.job_type = k.job_type and r.unique_key = k.unique_key and r.finished_at is null and r.status <> 'running'
					and r.run_at <= now() limit v_most) s
			where s.queue <> all (v_seen));
	end loop;
	v_ids := array(select distinct i.id from (
		select x.id from unnest(v_ids) x(id) where x.id is not null
		union all
		select s.id from (
			select distinct r.job_type, r.unique_key from jobrun.runs_of(v_ids || v_wanted) r
			where r.unique_key is not null) k
		cross join lateral (select r.id, r.queue from jobrun.job_runs r
			where r.job_type = k.job_type and r.unique_key = k.unique_key and r.finished_at is null and r.status <> 'running'
				and r.run_at <= now() limit v_most) s
		where s.queue || ' ' || k.job_type = any (v_open)) i);
	with touched as materialized (         -- by a session that has ended, or has them locked; by a hundred of them at most
		select r.id, r.row_xmax from unnest(v_ids) i(id) cross join lateral (
			select s.id, s.xmax::text as row_xmax from jobrun.job_runs s where s.id = i.id and s.xmax <> '0'::xid offset 0) r),
	holders as materialized (
		select t.row_xmax from (select distinct x.row_xmax from touched x limit 100) t
		cross join lateral jobrun.row_holder(t.row_xmax::xid) h where h.words is not null)
	select array(select t.id from touched t where t.row_xmax in (select h.row_xmax from holders h)) into v_passed;

	for v_nr in 1 .. 21 loop
		v_sure := v_nr <= 20;
		exit when not v_sure;
		with here as materialized (
			select r.id, r.queue, r.priority, r.run_at, r.concurrency_key, r.unique_key, (r.expires_at <= now()) is true as expired,
				(v_paused = '{}' or r.definition_id is null or r.definition_id <> all (v_paused)) and r.id <> all (v_passed) as fit
			from jobrun.runs_of(v_ids) r
			where r.id <> all (v_started) and r.id <> all (v_gone)),
		begun as materialized (
			select r.queue, r.concurrency_key, (r.expires_at <= now()) is true as expired
			from jobrun.runs_of(v_started) r),
		lim as materialized (
			select q.name, q.max_running_per_key as per_key,
				q.max_running - b.n - (select count(*) from jobrun.job_runs r
					where r.status = 'running' and r.queue = q.name) as room,
				jobrun.rate_left(q) - b.starts as starts_left
			from jobrun.job_queues q cross join lateral (
				select count(*) as n, count(*) filter (where not begun.expired) as starts from begun where begun.queue = q.name) b
			where q.name = any (v_limited)),
		held as materialized (
			select h.queue, h.concurrency_key, count(*) as n from (
				select r.queue, r.concurrency_key from lim join jobrun.job_runs r on r.queue = lim.name
				where r.status = 'running' and r.concurrency_key is not null
				union all
				select begun.queue, begun.concurrency_key from begun where begun.concurrency_key is not null) h
			group by h.queue, h.concurrency_key),
		keyed as (
			select p.*, lim.room, lim.starts_left, lim.per_key, coalesce(h.n, 0)
				+ row_number() over (partition by p.queue, p.concurrency_key order by p.priority, p.run_at, p.id) as nth_of_key
			from here p left join lim on lim.name = p.queue
			left join held h on h.queue = p.queue and h.concurrency_key = p.concurrency_key
			where p.fit),
		fits as (
			select f.* from (
				select k.*, row_number() over w as nth_of_queue, count(*) filter (where not k.expired) over w as nth_start
				from keyed k where k.per_key is null or k.concurrency_key is null or k.nth_of_key <= k.per_key
				window w as (partition by k.queue order by k.priority, k.run_at, k.id)) f
			where (f.room is null or f.nth_of_queue <= f.room)
				and (f.starts_left is null or f.starts_left > 0 and f.nth_start <= f.starts_left))
		select coalesce(array_agg(f.id) filter (where f.unique_key is null), '{}') as ids,
			array_agg(f.id) filter (where f.unique_key is not null) as keyed
		into v_turn from fits f;
		v_started := v_started || v_turn.ids;
		exit when v_turn.keyed is null;

		with keys as materialized (
			select c.job_type, c.unique_key, case when max(c.claim_seq) > 0 then greatest(
				jobrun.newer_run(c.job_type, c.unique_key, min(c.id)),
				(select max(r.id) from jobrun.runs_of(v_started) r
					where r.job_type = c.job_type and r.unique_key = c.unique_key and r.id > min(c.id)
						and (r.expires_at <= now()) is not true)) end as newer
			from jobrun.runs_of(v_turn.keyed) c group by c.job_type, c.unique_key),
		waiting as (
			select w.*, w.id = any (v_turn.keyed) as mine, case when w.claim_seq > 0 and k.newer > w.id then k.newer end as newer
			from keys k cross join lateral (
				select r.id, r.job_type, r.unique_key, r.queue, r.concurrency_key, r.claim_seq, r.run_at <= now() as due,
					(r.expires_at <= now()) is true as expired,
					(select d.paused_until > now() from jobrun.job_definitions d where d.id = r.definition_id) is true as paused
				from jobrun.job_runs r
				where r.job_type = k.job_type and r.unique_key = k.unique_key and r.finished_at is null and r.status <> 'running'
				offset 0) w
			where w.id <> all (v_started) and w.id <> all (v_gone)),
		judged as (
			select w.*, w.mine or (w.due and not w.paused and bool_or(w.mine and not w.expired and w.newer is null)
				over (partition by w.job_type, w.unique_key, w.queue, w.concurrency_key)) as may_start
			from waiting w),
		chosen as (
			select j.*, max(case when j.may_start and not j.expired and j.newer is null then j.id end)
				over (partition by j.job_type, j.unique_key) as start
			from judged j),
		fates as (
			select c.id, case when c.id = c.start then 'started' when c.id < c.start then 'superseded' when not c.mine then null
				when c.newer is not null then 'superseded' when c.expired then 'started' end as fate,
				case when c.id < c.start then c.start else c.newer end as by
			from chosen c)
		select coalesce(array_agg(f.id) filter (where f.fate = 'started'), '{}') as started,
			coalesce(array_agg(f.id order by f.id) filter (where f.fate = 'superseded'), '{}') as gone,
			coalesce(array_agg(f.by order by f.id) filter (where f.fate = 'superseded'), '{}') as newer
		into v_fates from fates f;
		v_started := v_started || v_fates.started;
		v_gone := v_gone || v_fates.gone;
		v_by := v_by || v_fates.newer;
		v_passed := v_passed || array(select k.id from unnest(v_turn.keyed) k(id) where k.id <> all (v_fates.started));
		exit when v_wanted <@ (v_started || v_gone);
	end loop;
	return query
		select i.id, case when i.id = any (v_started) then case when r.expires_at <= now() then 'expired' else 'starts' end
				when i.id = any (v_gone) then 'superseded' end,
			v_by[array_position(v_gone, i.id)], v_sure or i.id = any (v_started) or i.id = any (v_gone)
		from unnest(run_ids) i(id)
		left join lateral (select r.expires_at from jobrun.job_runs r where r.id = i.id offset 0) r on true;
end
$fn$;

-- row_holder: the session that has the row with this xmax locked, in words; null: none. A lock that several sessions share
-- is not seen: its number means something else, and nothing here can tell which it is.
create or replace function jobrun.row_holder(row_xmax xid, out pid integer, out words text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if row_xmax = '0'::xid then
		return;
	end if;
	select l.pid, format('process %s of the server (%s)', l.pid, concat_ws(', ', a.usename, nullif(a.application_name, ''),
		'in a transaction since ' || to_char(a.xact_start at time zone 'UTC', 'HH24:MI:SS') || ' UTC')) into pid, words
	from pg_locks l left join pg_stat_activity a on a.pid = l.pid
	where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted and l.transactionid = row_xmax limit 1;
	-- Perhaps it was taken inside a savepoint that was released: then its number has no lock of its own. The number has 32 bits
	-- of 64; the rest is such that it lies nearest to the snapshot's end. It may lie behind that: the end is the last
	-- transaction that has finished, and this one has not.
	if words is null then
		words := (select 'a session of the server' from (select txid_snapshot_xmax(txid_current_snapshot()) as next) s
			cross join lateral (select (s.next >> 32 << 32) + row_xmax::text::bigint as at) f
			cross join lateral (select f.at + case when f.at > s.next + 2147483648 then -4294967296
				when f.at < s.next - 2147483648 then 4294967296 else 0 end as at) x
			where case when x.at > 0 then txid_status(x.at) = 'in progress' end);
	end if;
end
$fn$;
