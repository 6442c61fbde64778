-- claim_turns: how claim() looks for runs and takes them, turn by turn, without limits and with them.
-- claim() alone calls them, and they run with its settings: setting them again would cost each claim of one run 2 % more.

-- claim_free: runs of queues without limits, for claim(): up to n runs behind this place in the order. While others claim, too, most
-- of the first ones may be locked.
--  - A run is passed if its xmax is a transaction that had not ended when the statement began: one that the snapshot names, or one of the
--    thirty numbers after it. To try its lock takes longer, and waits for the page, which the other session writes. This is a guess: the
--    lock may be one that does not exclude ours, as that of a foreign key, or be shared by several transactions, and then xmax is a number
--    of another kind. So after 100 ms, or if it would find nothing, it tries the locks of all.
--  - If others have locked some of the rest, in a subtransaction or since the statement began, the same goes on behind them, with more
--    at a time, up to a thousand runs.
-- tids: the ctids of the runs that were taken. keyed: runs with a unique key, which are only locked. ends: nothing that can be
-- had is due behind them. priority, run_at, id: where the last turn began: if these were not enough, the rest of the claim begins there.
create or replace function jobrun.claim_free(runner_id bigint, host text, locked_until timestamptz, n integer,
	job_types text[], queues text[], priorities smallint[],
	after_priority smallint, after_run_at timestamptz, after_id bigint, paused bigint[],
	out tids tid[], out keyed bigint[], out ends boolean, out priority smallint, out run_at timestamptz, out id bigint)
language plpgsql volatile as $fn$
#variable_conflict use_column
declare
	v_runner   constant bigint := runner_id;
	v_host     constant text := host;
	v_until    constant timestamptz := locked_until;
	v_patience timestamptz := clock_timestamp() + interval '100 ms';     -- until then locked runs are passed
	v_first    integer := n + least(n / 4, 50) + 4;     -- a few more than n: some may be locked, or of a paused definition
	v_priority smallint := after_priority;
	v_run_at   timestamptz := after_run_at;
	v_id       bigint := after_id;
	v_looked   bigint := 0;
	v_turn     record;
begin
	loop
		with c as materialized (           -- combinations at or after the cursor, not paused, without a limit set meanwhile
			select c.job_type, c.queue, c.priority, b.bound,
				case when c.priority = v_priority then v_run_at else '-infinity' end as after_run_at, v_id as after_id
			from unnest(job_types, queues, priorities) c(job_type, queue, priority) cross join unnest('{0,1}'::smallint[]) b(bound)
			where c.priority >= v_priority
				and not exists (select from jobrun.job_queues q
					where q.name = c.queue and (q.paused_until > now() or jobrun.is_limited(q)))
				and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
		pick as materialized (             -- the first due runs of each, merged and cut; no lock yet
			select p.* from c cross join lateral (
				select r.ctid as tid, r.priority, r.run_at, r.id from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
					and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = c.bound
					and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
					and (r.xmax = '0'::xid or clock_timestamp() > v_patience or r.xmax <> all (array(
						select (o.xid % 4294967296)::text::xid
						from (select txid_current_snapshot() as taken) s cross join lateral (
							select txid_snapshot_xip(s.taken)
							union all
							select generate_series(txid_snapshot_xmax(s.taken), txid_snapshot_xmax(s.taken) + 29)) o(xid)
						where o.xid <> txid_current())))
				order by r.run_at, r.id limit v_first) p
			order by p.priority, p.run_at, p.id limit v_first),
		got as materialized (              -- n of them, locked in order and checked again, since they may have changed
			select r.ctid as tid, case when r.unique_key is not null then r.id end as keyed
			from jobrun.job_runs r
			where r.ctid = any (array(select p.tid from pick p))
				and case when r.status in ('queued', 'failed') then r.run_at <= now() end    -- which no index can answer
				and (paused = '{}' or r.definition_id is null or r.definition_id <> all (paused))
			order by r.priority, r.run_at, r.id limit n - coalesce(cardinality(claim_free.tids), 0)
			for no key update of r skip locked),
		taken as (                         -- once all are locked: of two claims at a time one gets all, not each a part
			update jobrun.job_runs r
			set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
				attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
			where r.ctid = any (array(select got.tid from got where got.keyed is null))
			returning r.ctid as tid)
		select array(select taken.tid from taken) as tids, (select array_agg(got.keyed) from got where got.keyed is not null) as keyed,
			(select count(*) from pick) as seen, l.*
		into v_turn
		from (select 1) always left join
			(select p.priority, p.run_at, p.id from pick p order by p.priority desc, p.run_at desc, p.id desc limit 1) l on true;
		tids := nullif(tids || v_turn.tids, '{}');
		keyed := v_turn.keyed;
		v_looked := v_looked + v_turn.seen;
		ends := v_turn.seen < v_first;
		if ends and tids is null and keyed is null and isfinite(v_patience) then
			v_patience := '-infinity';     -- it has found nothing: now it tries what it has passed
			v_priority := after_priority;
			v_run_at := after_run_at;
			v_id := after_id;
			continue;
		end if;
		exit when ends or keyed is not null or paused <> '{}' or cardinality(tids) >= n or v_looked >= 1000;
		v_priority := v_turn.priority;     -- others have locked some: go on behind these
		v_run_at := v_turn.run_at;
		v_id := v_turn.id;
		v_first := 4 * n + 50;             -- far enough for what four others may have locked
	end loop;
	priority := v_priority;
	run_at := v_run_at;
	id := v_id;
end
$fn$;

-- claim_turn: one turn of claim(), with limits: up to n runs of the next `batch` that are due behind this place in the order.
-- limited: queues with a limit, whose rows this transaction has locked; passed: runs that start_keyed() has left waiting.
-- lock_first: what others may have locked is locked before it counts. by_key: runs with a lock key or a definition come from one key
-- to the next, behind those of from_keys; is_last: if there are more than a thousand keys, it takes what it finds, or else nothing.
-- tids: the ctids of the runs that were taken. keyed: runs with a unique key, which are only locked. seen: how many it looked
-- at; priority, run_at, id: of the last. missed: a run that counted could not be had. keys_left: the keys at which it stopped;
-- null: there are no more.
create or replace function jobrun.claim_turn(runner_id bigint, host text, locked_until timestamptz, n integer,
	job_types text[], queues text[], priorities smallint[],
	after_priority smallint, after_run_at timestamptz, after_id bigint, batch integer, limited text[], paused bigint[], passed bigint[],
	lock_first boolean, by_key boolean, from_keys jsonb, is_last boolean,
	out tids tid[], out keyed bigint[], out seen bigint, out priority smallint, out run_at timestamptz, out id bigint,
	out missed boolean, out keys_left jsonb)
language plpgsql volatile as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_host   constant text := host;
	v_until  constant timestamptz := locked_until;
begin
	with recursive lim as materialized (  -- room left in each limited queue; its row is locked, so this is exact
		select q.name, q.max_running_per_key as per_key,
			q.max_running - (select count(*) from jobrun.job_runs r
				where r.status = 'running' and r.queue = q.name) as room,
			jobrun.rate_left(q) as starts_left
		from jobrun.job_queues q where q.name = any (limited)),
	held as materialized (             -- running of each key, in queues with a limit per key
		select r.queue, r.concurrency_key, count(*) as n
		from lim join jobrun.job_runs r on r.queue = lim.name
		where lim.per_key is not null and r.status = 'running' and r.concurrency_key is not null
		group by r.queue, r.concurrency_key),
	c as materialized (
		select c.nr, c.job_type, c.queue, c.priority, lim.room, lim.starts_left, lim.per_key,
			case when c.priority = claim_turn.after_priority then claim_turn.after_run_at else '-infinity' end as after_run_at,
			claim_turn.after_id as after_id,
			array(select h.concurrency_key from held h where h.queue = c.queue and h.n >= lim.per_key) as full_keys
		from unnest(job_types, queues, priorities) with ordinality c(job_type, queue, priority, nr)
		left join lim on lim.name = c.queue
		where c.priority >= claim_turn.after_priority and (lim.room is null or lim.room > 0) and (lim.starts_left is null or lim.starts_left > 0)
			and not exists (select from jobrun.job_queues q
				where q.name = c.queue and (q.paused_until > now() or (lim.name is null and jobrun.is_limited(q))))
			and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
	walk as (                          -- by key: from one key to the next
		select c.nr, 0 as step, (from_keys -> c.nr::text ->> 0) collate "C" as key, (from_keys -> c.nr::text ->> 1)::bigint as definition
		from c where by_key and (from_keys is null or from_keys ? c.nr::text)
		union all
		select w.nr, w.step + 1, f.key, f.definition from walk w join c on c.nr = w.nr cross join lateral (
			select coalesce(r.concurrency_key, '') as key, coalesce(r.definition_id, 0) as definition from jobrun.job_runs r
			where r.status in ('queued', 'failed') and (r.concurrency_key is not null or r.definition_id is not null)
				and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
				and (coalesce(r.concurrency_key, ''), coalesce(r.definition_id, 0)) > (coalesce(w.key, ''), coalesce(w.definition, 0))
			order by coalesce(r.concurrency_key, ''), coalesce(r.definition_id, 0), r.run_at, r.id limit 1) f
		where w.step < 1000),
	pick as materialized (
		select p.*, c.queue, c.room, c.starts_left, c.per_key,
			coalesce(c.room, c.starts_left, case when p.concurrency_key is not null then c.per_key end) is not null as counts,
			(paused = '{}' or p.definition_id is null or p.definition_id <> all (paused))
			and (p.concurrency_key is null or p.concurrency_key <> all (c.full_keys)) and p.id <> all (passed) as fit
		from c cross join unnest('{0,1}'::smallint[]) b(bound) cross join lateral (
			select r.ctid as tid, r.priority, r.run_at, r.id, r.concurrency_key, r.definition_id,
				(r.expires_at <= now()) is true as expired, r.xmax <> '0'::xid as touched
			from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
				and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = b.bound
				and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
			order by r.run_at, r.id limit batch) p
		where not (by_key and b.bound = 1)
		union all
		select p.*, c.queue, c.room, c.starts_left, c.per_key,
			coalesce(c.room, c.starts_left, case when p.concurrency_key is not null then c.per_key end) is not null, p.id <> all (passed)
		from walk w join c on c.nr = w.nr cross join lateral (
			select k.* from (
				select r.ctid as tid, r.priority, r.run_at, r.id, r.concurrency_key, r.definition_id,
					(r.expires_at <= now()) is true as expired, r.xmax <> '0'::xid as touched
				from jobrun.job_runs r
				where r.status in ('queued', 'failed') and (r.concurrency_key is not null or r.definition_id is not null)
					and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
					and coalesce(r.concurrency_key, '') = w.key and coalesce(r.definition_id, 0) = w.definition
					and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
				order by coalesce(r.concurrency_key, ''), coalesce(r.definition_id, 0), r.run_at, r.id
				limit case when w.key = '' or c.per_key is null then batch
					when lock_first then greatest(c.per_key + cardinality(passed),
						(select case when is_last then 10000 else 100000 end / count(*) from walk))
					else least(batch, c.per_key + cardinality(passed)) end) k
			where case when lock_first and w.key <> '' and c.per_key is not null and k.touched then exists (select from jobrun.job_runs r
				where r.ctid = k.tid and r.status in ('queued', 'failed') for no key update of r skip locked) else true end
			limit case when w.key = '' then batch else least(batch, c.per_key + cardinality(passed)) end) p
		where w.step > 0 and (w.definition = 0 or w.definition <> all (paused))
			and (w.key = '' or w.key <> all (c.full_keys))
		order by 2, 3, 4 limit batch),
	keyed as (                         -- n-th of its key, counting those that run
		select p.*, coalesce(h.n, 0)
			+ row_number() over (partition by p.queue, p.concurrency_key order by p.priority, p.run_at, p.id) as nth_of_key
		from pick p left join held h on h.queue = p.queue and h.concurrency_key = p.concurrency_key
		where case when not p.fit then false when lock_first and p.counts and p.touched
			then exists (select from jobrun.job_runs r
				where r.ctid = p.tid and r.status in ('queued', 'failed') for no key update of r skip locked) else true end),
	fits as materialized (             -- n-th of its queue, and n-th start, among those whose key has room
		select f.* from (
			select k.*, row_number() over w as nth_of_queue, count(*) filter (where not k.expired) over w as nth_start
			from keyed k where k.per_key is null or k.concurrency_key is null or k.nth_of_key <= k.per_key
			window w as (partition by k.queue order by k.priority, k.run_at, k.id)) f
		where (f.room is null or f.nth_of_queue <= f.room) and (f.starts_left is null or f.nth_start <= f.starts_left)),
	got as materialized (
		select r.ctid as tid, case when r.unique_key is not null then r.id end as keyed
		from fits p join jobrun.job_runs r on r.ctid = p.tid
		where r.status in ('queued', 'failed') and r.run_at <= now() and (not p.expired or r.expires_at <= now())
			and (is_last or not exists (select from walk w where w.step = 1000))
		order by p.priority, p.run_at, p.id limit n
		for no key update of r skip locked),
	taken as (
		update jobrun.job_runs r
		set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
			attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
		from got where r.ctid = got.tid and got.keyed is null
		returning r.ctid as tid, r.id, r.queue, (r.expires_at <= now()) is true as expired),
	rated as (                         -- count these starts in the window; this transaction has locked the queue's row
		update jobrun.job_queues q
		set rate_used = q.rate_limit - jobrun.rate_left(q) + t.n,
			rate_window_start = case when jobrun.rate_left(q) < q.rate_limit then q.rate_window_start else now() end
		from (select taken.queue, count(*) as n from taken where not taken.expired group by taken.queue) t
		where q.name = t.queue and q.name = any (limited) and q.rate_limit is not null
		returning q.name)
	select array(select taken.tid from taken) as tids, (select array_agg(got.keyed) from got where got.keyed is not null) as keyed,
		(select count(*) from pick) as seen, l.*,
		exists (select from fits f where f.counts and f.id not in (select taken.id from taken
			union all select got.keyed from got where got.keyed is not null)) as missed,
		(select jsonb_object_agg(w.nr, jsonb_build_array(w.key, w.definition)) from walk w where w.step = 1000) as keys_left
	into tids, keyed, seen, priority, run_at, id, missed, keys_left
	from (select 1) always left join
		(select p.priority, p.run_at, p.id from pick p order by p.priority desc, p.run_at desc, p.id desc limit 1) l on true;
end
$fn$;
