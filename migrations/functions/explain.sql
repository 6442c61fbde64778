-- explain: why a run does not start, or when the next one of a definition will. Nothing here takes a lock: a claim would
-- pass over a run that somebody has locked to explain it.

-- shell_word: a word as it is typed into a shell: in quotes unless it needs none.
create or replace function jobrun.shell_word(word text) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when word collate "C" ~ '^[A-Za-z0-9_@%+=:,./-]+$' then word
		else '''' || replace(word, '''', '''' || chr(92) || '''''') || '''' end
$fn$;

-- type_of_refused: the job type of a line of `refused`.
create or replace function jobrun.type_of_refused(line text) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select regexp_replace(split_part(line, ':', 1), '[.](sql|json)$', '')
$fn$;

-- day_of_runners: the runners of the last day, grouped: on which host, with which handlers, for which queues (null: all).
-- refused: handlers that it left out, "FILE: why". What its host has refused since, or has lost, is none of its job types any more.
-- lost: the types that the host has lost, each with the start of the last tick that had it. newest: of so many starts (null: of all).
-- No row says what `run --type` left out. So a host has lost a type if two ticks since the last one that had it look as if they were
-- of the same crontab line: the same queues or all; and half of the other job types or more, or no handler at all. And no tick like them
-- came between two that had the type: those would be of another line. A type that came once in that time is looked up in older rows,
-- as a line may come once a day. If it came only once ever, it must have had others beside it, as a line of another type looks alike,
-- or the ticks without any handler must be new, as a line of housekeeping alone looks like them.
create or replace function jobrun.day_of_runners(newest bigint)
returns table (host text, job_types text[], queues text[], permits bigint, last_seen_at timestamptz, refused text[], lost jsonb)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with seen as materialized (
		select n.host, n.job_types, n.queues, max(n.permits) as permits, max(n.last_seen_at) as last_seen_at, n.refused,
			min(n.started_at) as first_at, max(n.started_at) as last_at, array_agg(n.started_at) as starts
		from (
			(select r.* from jobrun.job_runners r where r.started_at > now() - interval '1 day' order by r.started_at desc limit newest)
			union all
			(select r.* from jobrun.job_runners r where r.lingers_until is not null and r.started_at <= now() - interval '1 day'
				and r.last_seen_at > now() - interval '1 day' limit 1000)) n
		group by n.host, n.job_types, n.queues, n.refused),
	refusals as materialized (
		select s.host, jobrun.type_of_refused(x.line) as job_type, max(s.last_seen_at) as at
		from seen s cross join unnest(s.refused) x(line) group by s.host, jobrun.type_of_refused(x.line)),
	had as materialized ( -- the types that the last tick of their host did not have
		select t.host, t.job_type, t.last_at, case when t.first_at < t.last_at then t.first_at else coalesce((
				select r.started_at from jobrun.job_runners r where r.host = t.host and r.started_at < t.first_at and t.job_type = any (r.job_types)
				order by r.started_at desc limit 1), t.first_at) end as first_at
		from (select s.host, y.job_type, min(s.first_at) as first_at, max(s.last_at) as last_at
			from seen s cross join unnest(s.job_types) y(job_type) where y.job_type not like 'jobrun.%' group by s.host, y.job_type) t
		join (select s.host, max(s.last_at) as last_at from seen s where s.job_types <> '{}' group by s.host) l
			on l.host = t.host and l.last_at > t.last_at),
	losses as materialized (
		select h.host, h.job_type, h.last_at
		from had h join seen e on e.host = h.host and e.last_at = h.last_at and h.job_type = any (e.job_types)
		join seen l on l.host = h.host and l.last_at > h.last_at and l.job_types <> '{}' and h.job_type <> all (l.job_types)
			and (l.queues is null or l.queues = e.queues)
		cross join lateral (
			select count(*) as n, count(*) filter (where o.name = any (l.job_types)) as kept
			from unnest(e.job_types) o(name) where o.name not like 'jobrun.%' and o.name <> h.job_type) o
		where (2 * o.kept >= o.n and (o.n > 0 or h.first_at < h.last_at)
				or (h.first_at < h.last_at or l.first_at > h.last_at)
					and not exists (select from unnest(l.job_types) t(name) where t.name not like 'jobrun.%'))
			and not exists (select from seen b cross join unnest(b.starts) x(at) where b.host = l.host and b.job_types = l.job_types
				and b.queues is not distinct from l.queues and x.at > h.first_at and x.at < h.last_at)
		group by h.host, h.job_type, h.last_at
		having sum((select count(*) from unnest(l.starts) x(at) where x.at > h.last_at)) >= 2)
	select s.host, case when g.types is null then s.job_types else array(select t.name from unnest(s.job_types) with ordinality t(name, nr)
			where t.name <> all (g.types) order by t.nr) end, s.queues, s.permits, s.last_seen_at, s.refused, g.lost
	from seen s cross join lateral (
		select array_agg(f.job_type) as types, jsonb_object_agg(f.job_type, f.lost_at) filter (where f.lost_at is not null) as lost
		from (select f.job_type, null::timestamptz as lost_at from refusals f where f.host = s.host and f.at > s.last_seen_at
			union all
			select l.job_type, l.last_at from losses l where l.host = s.host) f) g
$fn$;

-- runners_of_day: the same without what was lost.
create or replace function jobrun.runners_of_day(newest bigint)
returns table (host text, job_types text[], queues text[], permits bigint, last_seen_at timestamptz, refused text[])
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select n.host, n.job_types, n.queues, n.permits, n.last_seen_at, n.refused from jobrun.day_of_runners(newest) n
$fn$;

-- seen_runners: the same; with very many ticks a day only the newest count.
create or replace function jobrun.seen_runners()
returns table (host text, job_types text[], queues text[], permits bigint, last_seen_at timestamptz, refused text[])
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select n.* from jobrun.runners_of_day(2000) n
$fn$;

-- all_seen, seen_of: the same as one value, with what was lost, so that an explanation looks only once; and its rows again (of null:
-- a new look).
create or replace function jobrun.all_seen() returns jsonb
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select coalesce(jsonb_agg(to_jsonb(n)), '[]') from jobrun.day_of_runners(2000) n
$fn$;

create or replace function jobrun.seen_of(seen jsonb)
returns table (host text, job_types text[], queues text[], permits bigint, last_seen_at timestamptz, refused text[])
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select n.* from jsonb_to_recordset(coalesce(seen, jobrun.all_seen()))
		n(host text collate "C", job_types text[], queues text[], permits bigint, last_seen_at timestamptz, refused text[])
$fn$;

-- seen_here: all_seen(), with what a host says of itself: that it has handlers of these types here. Those that its runners
-- did not have, or refused last, are taken by its next tick; they are in new_types of its rows, which have is_here. A host without
-- a tick in the last day is not added: nothing says that there will be one.
create or replace function jobrun.seen_here(host text, here text[]) returns jsonb
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with seen as materialized (select n.* from jobrun.day_of_runners(2000) n),
	fresh as (
		select array(select t.name from unnest(here) t(name)
			where not exists (select from seen n where n.host = seen_here.host and t.name = any (n.job_types))) as types)
	select coalesce(jsonb_agg(case when n.host = seen_here.host
		then to_jsonb(n) || jsonb_build_object('is_here', true, 'job_types', n.job_types || w.types, 'new_types', w.types,
			'refused', array(select x.line from unnest(n.refused) x(line) where jobrun.type_of_refused(x.line) <> all (w.types)))
		else to_jsonb(n) end), '[]')
	from seen n cross join fresh w
$fn$;

-- new_on: the hosts that have a handler of this type since their last tick: see seen_here().
create or replace function jobrun.new_on(seen jsonb, job_type text) returns setof text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select distinct x.e ->> 'host' from jsonb_array_elements(seen) x(e) where x.e -> 'new_types' ? job_type
$fn$;

-- seen_by_exec: for a command of exec, which any host may start: these hosts, as if each had a handler of this type.
create or replace function jobrun.seen_by_exec(seen jsonb, job_type text) returns jsonb
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select coalesce(jsonb_agg(distinct jsonb_build_object('host', x.e ->> 'host', 'job_types', jsonb_build_array(job_type))), '[]')
	from jsonb_array_elements(seen) x(e) where x.e ->> 'host' is not null
$fn$;

-- mend_of: what a line of `refused` says is to be typed, ready for a shell; null: it says nothing.
create or replace function jobrun.mend_of(line text) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select m.part[1] || ' ' || jobrun.shell_word(m.part[2])
	from regexp_match(line, '^.*: (chmod [^ ]+|chown (?:-h )?[^ ]+) (/.+)$') m(part)
$fn$;

-- taken_types: the job types that runners of the last day take from this queue, on hosts that are not paused. Every
-- runner takes jobrun.prune.
create or replace function jobrun.taken_types(queue text, seen jsonb default null) returns text[]
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select array(select distinct t.job_type from jobrun.seen_of(seen) n cross join unnest(n.job_types) t(job_type)
		where (n.queues is null or taken_types.queue = any (n.queues) or t.job_type = 'jobrun.prune')
			and not exists (select from jobrun.job_runners p where p.host = n.host and p.paused_until > now()))
$fn$;

-- runs_of: these runs. It becomes part of the statement that calls it. "offset 0" makes the planner find each by its id: a
-- join with a table that had no live row when it was last analysed may read all of it.
create or replace function jobrun.runs_of(ids bigint[]) returns setof jobrun.job_runs
language sql stable as $fn$
	select r.* from jobrun.job_runs r where r.id operator(pg_catalog.=) any (ids) offset 0
$fn$;

-- due_before: ids of at most `most` due runs of these job types in the queue that come before this place in the order of
-- claims (null: all), in no order. The combinations are found by a loose index scan, as in candidates.sql.
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

-- some_of: up to ten of them, "1, 2, ...".
create or replace function jobrun.some_of(items text[]) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select array_to_string(items[1:10], ', ') || case when cardinality(items) > 10 then ', ...' else '' end
$fn$;

-- others_words: what a verdict adds for so many other conditions.
create or replace function jobrun.others_words(n bigint) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when n = 1 then '; 1 other condition holds it, too' when n > 1 then format('; %s other conditions hold it, too', n) else '' end
$fn$;

-- line_of: words, a point in time or none, and the rest of the words, in one line.
create or replace function jobrun.line_of(words text, at timestamptz, rest text) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select words || coalesce(' ' || to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '') || coalesce(rest, '')
$fn$;

-- explain_handler: the first condition: has a runner of the last day a handler of this type, and does it take this queue?
create or replace function jobrun.explain_handler(job_type text, queue text, seen jsonb default null)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with refusals as ( -- the newest of each host, unless a later runner of it has the handler
		select distinct on (n.host) n.host, x.line
		from jobrun.seen_of(seen) n cross join unnest(n.refused) x(line)
		where jobrun.type_of_refused(x.line) = explain_handler.job_type
			and not exists (select from jobrun.seen_of(seen) l
				where l.host = n.host and l.last_seen_at > n.last_seen_at and explain_handler.job_type = any (l.job_types))
		order by n.host, n.last_seen_at desc),
	refused as ( -- mend: if it is to be typed where the caller is
		select string_agg(format('; host %s: refused: %s', f.host, f.line), '' order by f.host) as words,
			min(jobrun.mend_of(f.line)) filter (where exists (select from jsonb_array_elements(seen) x(e)
				where x.e ->> 'host' = f.host and x.e -> 'is_here' = 'true')) as mend
		from (select * from refusals order by host limit 5) f),
	lost as ( -- the host that had it last
		select format(': host %s had one until %s, and its ticks since have not', l.host,
			to_char(l.until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) as words
		from (select x.e ->> 'host' as host, (x.e -> 'lost' ->> explain_handler.job_type)::timestamptz as until
			from jsonb_array_elements(coalesce(seen, jobrun.all_seen())) x(e)) l
		where l.until is not null order by l.until desc, l.host limit 1),
	fresh as (select min(h.host) as host from jobrun.new_on(seen, explain_handler.job_type) h(host)),
	kept as ( -- a host takes the type that had it in its last tick
		select count(*) > 0 as any from jobrun.seen_of(seen) n
		where explain_handler.job_type = any (n.job_types)
			and (n.queues is null or explain_handler.queue = any (n.queues) or explain_handler.job_type = 'jobrun.prune')
			and n.host not in (select h.host from jobrun.new_on(seen, explain_handler.job_type) h(host))),
	hosts as (
		select n.host, bool_or(explain_handler.job_type = any (n.job_types)) as has,
			bool_or(explain_handler.job_type = any (n.job_types)
				and (n.queues is null or explain_handler.queue = any (n.queues) or explain_handler.job_type = 'jobrun.prune')) as takes
		from jobrun.seen_of(seen) n group by n.host),
	h as (
		select jobrun.some_of(array_agg(h.host order by h.host) filter (where h.takes)) as takes,
			jobrun.some_of(array_agg(h.host order by h.host) filter (where h.has and not h.takes)) as has,
			jobrun.some_of(array_agg(h.host order by h.host) filter (where not h.has
				and h.host not in (select f.host from refusals f))) as has_not, count(*) as n
		from hosts h)
	select 'handler', case when h.takes is null then 'no' when k.any then 'ok' else '?' end, h.takes is null,
		case when h.takes is not null and k.any then null when h.takes is not null then 'new_handler'
			when h.n = 0 then 'no_runner' when h.has is not null then 'not_for_queue' when e.words is not null then 'refused'
			else 'no_handler' end,
		case when h.takes is not null and not k.any
				then format('host %s has had a handler for %s only since its last tick, and the next one takes it', w.host, explain_handler.job_type)
			when h.takes is not null then format('handler for %s: on %s', explain_handler.job_type, h.takes)
			when h.n = 0 then 'no runner was seen in the last day'
			when h.has is not null then format('no host that has a handler for %s takes queue %s', explain_handler.job_type, explain_handler.queue)
			else format('no host has a handler for %s', explain_handler.job_type)
				|| case when e.words is null then coalesce((select l.words from lost l), '') else '' end end,
		null::timestamptz, case when h.takes is null then coalesce(' (seen without it: ' || h.has_not || ')', '')
			else coalesce('; not on ' || h.has_not, '') || coalesce('; not from this queue on ' || h.has, '') end || coalesce(e.words, ''),
		case when h.takes is not null and k.any then null when h.n = 0 or h.takes is not null then 'jobrun --once -v'
			when h.has is not null then 'jobrun run --queue ' || explain_handler.queue
			when e.words is null then 'jobrun handlers --check ' || jobrun.shell_word(explain_handler.job_type)
			else coalesce(e.mend, 'jobrun handlers --check') end
	from h cross join refused e cross join kept k cross join fresh w
$fn$;

-- explain_hosts: everything is paused, and the paused hosts that would take this type from this queue: a line only if
-- there are some. Those keep a run from starting only if no other host would take it.
create or replace function jobrun.explain_hosts(job_type text, queue text, seen jsonb default null)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	with hosts as (
		select distinct n.host from jobrun.seen_of(seen) n
		where explain_hosts.job_type = any (n.job_types)
			and (n.queues is null or explain_hosts.queue = any (n.queues) or explain_hosts.job_type = 'jobrun.prune')),
	pauses as (
		select h.host, p.*, bool_and(p.until is not null) over () as are_all, bool_or(p.until is null or isfinite(p.until)) over () as ends
		from hosts h left join lateral (
			select n.paused_until as until, n.paused_by as by, n.paused_reason as reason from jobrun.job_runners n
			where n.host = h.host and n.paused_until > now() order by n.paused_until desc limit 1) p on true)
	select p.kind, case when p.held then 'no' else 'ok' end, p.held and not p.ends, case when p.held then p.kind || '_paused' end,
		p.name || ' is paused' || coalesce(' by ' || p.by, '') || ' until' || case when isfinite(p.until) then '' else ' resumed' end,
		case when isfinite(p.until) then p.until end,
		coalesce(': ' || p.reason, '') || case when p.held then '' else '; another host is not' end,
		'jobrun resume --' || p.option
	from (
		select 1 as nr, 'all' as kind, 'everything' as name, 'all' as option, s.paused_until as until, s.paused_by as by,
			s.paused_reason as reason, true as held, isfinite(s.paused_until) as ends
		from jobrun.settings s where s.paused_until > now()
		union all
		(select 2, 'host', 'host ' || h.host, 'host ' || jobrun.shell_word(h.host), h.until, h.by, h.reason, h.are_all, h.ends
		from pauses h where h.until is not null order by h.until, h.host limit 10)) p
	order by p.nr, p.until, p.name
$fn$;

-- explain_pauses: the pauses of a type, a queue and a definition (null: none).
create or replace function jobrun.explain_pauses(job_type text, queue text, definition_id bigint)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select p.kind, case when w.is_paused then 'no' else 'ok' end, w.is_paused and not isfinite(p.until),
		case when w.is_paused then p.kind || '_paused' end,
		format('%s %s is ', p.kind, p.name) || case when w.is_paused then 'paused' || coalesce(' by ' || p.by, '') || ' until'
			|| case when isfinite(p.until) then '' else ' resumed' end else 'not paused' end,
		case when w.is_paused and isfinite(p.until) then p.until end,
		case when w.is_paused then coalesce(': ' || p.reason, '') end,
		case when w.is_paused then format('jobrun resume --%s %s', p.kind, p.name) end
	from (
		select 1 as nr, 'type' as kind, explain_pauses.job_type as name, t.paused_until as until, t.paused_by as by, t.paused_reason as reason
		from (select 1) o left join jobrun.job_types t on t.name = explain_pauses.job_type
		union all
		select 2, 'queue', explain_pauses.queue, q.paused_until, q.paused_by, q.paused_reason
		from (select 1) o left join jobrun.job_queues q on q.name = explain_pauses.queue
		union all
		select 3, 'definition', d.name, d.paused_until, null, d.paused_reason
		from jobrun.job_definitions d where d.id = explain_pauses.definition_id) p
	cross join lateral (select (p.until > now()) is true as is_paused) w
	order by p.nr
$fn$;

-- explain_limits: the limits of the queue, as claim() counts them, without the runs that come before.
create or replace function jobrun.explain_limits(queue text, key text)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_name   constant text := queue;
	v_key    constant text := key;
	v_queue  jobrun.job_queues;
	v_ids    text[];
	v_n      bigint;
	v_full   boolean;
	v_ms     bigint;
	v_period text;
begin
	select q.* into v_queue from jobrun.job_queues q where q.name = v_name;
	v_n := (select count(*) from jobrun.job_runs r where r.status = 'running' and r.queue = v_name);
	v_ids := array(select r.id::text from jobrun.job_runs r where r.status = 'running' and r.queue = v_name limit 11);
	v_full := (v_n >= v_queue.max_running) is true;
	return query select 'max_running', case when v_full then 'no' else 'ok' end, coalesce(v_queue.max_running = 0, false),
		case when v_full then 'queue_full' end,
		case when v_queue.max_running is null then format('queue %s: %s run, no limit', v_name, v_n)
			when v_queue.max_running = 0 then format('queue %s lets no run start: its max-running is 0', v_name)
			when v_full then format('queue %s is full, %s of %s run', v_name, v_n, v_queue.max_running)
			else format('queue %s has room, %s of %s run', v_name, v_n, v_queue.max_running) end,
		null::timestamptz, case when v_ids <> '{}' then ' (' || jobrun.some_of(v_ids) || ')' end,
		case when v_full then format('jobrun queue %s --max-running %s', v_name, v_n + 1) end;

	if v_queue.rate_limit is not null then
		v_n := v_queue.rate_limit - jobrun.rate_left(v_queue);
		v_full := v_n >= v_queue.rate_limit;
		v_ms := (extract(epoch from v_queue.rate_period) * 1000)::bigint;
		v_period := case when v_ms % 3600000 = 0 then v_ms / 3600000 || 'h' when v_ms % 60000 = 0 then v_ms / 60000 || 'm'
			when v_ms % 1000 = 0 then v_ms / 1000 || 's' else v_ms || 'ms' end;
		return query select 'rate', case when v_full then 'no' else 'ok' end, v_queue.rate_limit = 0, case when v_full then 'rate_used' end,
			case when v_queue.rate_limit = 0 then format('queue %s lets no run start: its rate is 0/%s', v_name, v_period)
				else format('queue %s has started %s of %s in %s', v_name, v_n, v_queue.rate_limit, v_period)
					|| case when v_full then ', more from' else '' end end,
			case when v_full and v_queue.rate_limit > 0 then v_queue.rate_window_start + v_queue.rate_period end, null,
			case when v_full then format('jobrun queue %s --rate %s/%s', v_name, v_n + 1, v_period) end;
	end if;

	if v_key is not null then
		v_n := (select count(*) from jobrun.job_runs r where r.status = 'running' and r.queue = v_name and r.concurrency_key = v_key);
		v_ids := array(select r.id::text from jobrun.job_runs r
			where r.status = 'running' and r.queue = v_name and r.concurrency_key = v_key limit 11);
		v_full := (v_n >= v_queue.max_running_per_key) is true;
		return query select 'lock_key', case when v_full then 'no' else 'ok' end, coalesce(v_queue.max_running_per_key = 0, false),
			case when v_full then 'key_taken' end,
			case when v_queue.max_running_per_key is null then format('lock key %s: %s run, no limit', v_key, v_n)
				when v_queue.max_running_per_key = 0 then format('queue %s lets no run with a lock key start: its per-key is 0', v_name)
				else format('lock key %s is %s, %s of %s run in queue %s', v_key, case when v_full then 'taken' else 'free' end, v_n,
					v_queue.max_running_per_key, v_name) end,
			null::timestamptz, case when v_ids <> '{}' then ' (' || jobrun.some_of(v_ids) || ')' end,
			-- One at once is what a lock key is for: then no second one is offered.
			case when v_full then case when v_queue.max_running_per_key = 1 then 'jobrun show ' || v_ids[1]
				else format('jobrun queue %s --per-key %s', v_name, v_n + 1) end end;
	end if;
end
$fn$;

-- limit_words, pause_words: the first limit, or pause, that holds back, as explain() says it; null: none.
create or replace function jobrun.limit_words(queue text, key text) returns text
language sql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select coalesce((select jobrun.line_of(l.words, l.at, l.rest) from jobrun.explain_limits(limit_words.queue, limit_words.key) l
		where l.state = 'no' limit 1), format('queue %s was full', limit_words.queue))
$fn$;

create or replace function jobrun.pause_words(job_type text, queue text, definition_id bigint) returns text
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select jobrun.line_of(p.words, p.at, p.rest)
	from jobrun.explain_pauses(pause_words.job_type, pause_words.queue, pause_words.definition_id) p where p.state = 'no' limit 1
$fn$;

-- explain_locks: has another transaction locked the run, another waiting run of its unique key, or its queue, if that has
-- limits? A claim leaves the run out then.
create or replace function jobrun.explain_locks(run_id bigint)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp set enable_seqscan = off as $fn$
	with r as materialized (
		select r.id, r.queue, r.job_type, r.unique_key, r.xmax as row_xmax from jobrun.job_runs r where r.id = explain_locks.run_id),
	held as (
		select 1 as nr, 'run_locked' as reason, 'has this run locked' as what, h.* from r cross join lateral jobrun.row_holder(r.row_xmax) h
		union all
		select 2, 'run_locked', format('has run %s of its unique key locked', s.id), h.* from r cross join lateral (
			select s.id, s.xmax as row_xmax from jobrun.job_runs s
			where s.job_type = r.job_type and s.unique_key = r.unique_key and s.finished_at is null and s.status <> 'running' and s.id <> r.id
			limit 20) s cross join lateral jobrun.row_holder(s.row_xmax) h
		union all
		select 3, 'queue_locked', format('has queue %s locked', q.name), h.* from r join jobrun.job_queues q on q.name = r.queue
		cross join lateral jobrun.row_holder(q.xmax) h where jobrun.is_limited(q)),
	first as (select h.* from held h where h.words is not null order by h.nr limit 1)
	select 'lock', case when f.words is null then 'ok' else 'no' end, false, f.reason,
		coalesce(f.words || ' ' || f.what, 'no other transaction has it locked'), null::timestamptz, null,
		case when f.pid is not null then format('psql "$JOBRUN_DATABASE_URL" -c ''select pg_terminate_backend(%s)''', f.pid) end
	from (select 1) o left join first f on true
$fn$;

-- command_line: the command of a run of exec as a line that can be pasted into a shell; null: it is none.
create or replace function jobrun.command_line(payload jsonb) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when jsonb_typeof(payload -> 'argv') = 'array' and payload = jsonb_build_object('argv', payload -> 'argv') then
		(select string_agg(case when w.nr = 1 and w.word like '%=%' and jobrun.shell_word(w.word) = w.word then '''' || w.word || ''''
				else jobrun.shell_word(w.word) end, ' ' order by w.nr) -- the first word A=1 would set a variable
			from jsonb_array_elements_text(payload -> 'argv') with ordinality w(word, nr)) end
$fn$;

-- explain_command: for a run of exec that people have retried, in place of explain_handler(): the next exec of its name starts
-- it, as exec_claim() says, if it finds nothing in the way. The program may be known in part, or not to the caller.
create or replace function jobrun.explain_command(run_id bigint)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_def     jobrun.job_definitions;
	v_line    text := jobrun.command_line((select t.payload from jobrun.run_texts(run_id) t));
	v_overlap text;
	v_n       bigint;
begin
	select d.* into v_def from jobrun.job_runs r join jobrun.job_definitions d on d.id = r.definition_id where r.id = run_id;
	if v_def.id is null then
		return query select 'handler', 'no', true, 'no_definition', 'the definition of this command was removed, so no jobrun exec takes it',
			null::timestamptz, null, 'jobrun cancel ' || run_id;
		return;
	end if;
	v_line := format('jobrun exec %s -- %s', v_def.name, case when v_line is null or v_line like '% ...' then 'CMD' else v_line end);
	return query select 'handler', 'no', false, 'command', format('the next ''jobrun exec %s'' starts it, in place of a new run', v_def.name),
		null::timestamptz, null, v_line;
	if not v_def.enabled then
		return query select 'enabled', 'no', true, 'disabled', format('definition %s is disabled', v_def.name), null::timestamptz, null,
			format('jobrun define %s --enable', v_def.name);
	end if;
	v_overlap := case when v_def.overlap = 'skip' then jobrun.overlapping(v_def.id, true) end;
	if v_overlap is not null then
		return query select 'overlap', 'no', false, 'overlap', v_overlap || ', and nothing starts beside it', null::timestamptz, null,
			format('jobrun define %s --overlap allow', v_def.name);
	end if;
	v_n := (select count(*) from (select from jobrun.job_runs r
		where r.definition_id = v_def.id and r.finished_at is null and jobrun.is_retried_command(r) and r.id < run_id limit 1000) o);
	if v_n > 0 then
		return query select 'before', 'no', false, 'turn', format(case when v_n = 1 then '%s retried run of %s comes' else '%s retried runs of %s come' end
			|| ' before it', v_n, v_def.name), null::timestamptz, null, v_line;
	end if;
end
$fn$;

-- explain_conditions: all rows of explain() but the verdict, for a waiting run. never: it stays so unless somebody acts.
-- taken: null, or what taken_types() says of its queue: then only what a verdict needs is looked up.
create or replace function jobrun.explain_conditions(run_id bigint, seen jsonb, taken text[] default null)
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_run   record;
	v_newer bigint;
	v_n     bigint;
	v_seen  timestamptz;
	v_late  boolean;
	v_whose text;
begin
	select r.id, r.job_type, r.queue, r.priority, r.run_at, r.status, r.attempts, r.max_attempts, r.snoozes, r.error_code, r.expires_at,
		r.claim_seq, r.unique_key, r.concurrency_key, r.definition_id, r.run_at > now() as is_later,
		(r.expires_at <= now()) is true as is_expired, jobrun.is_retried_command(r) as is_command into v_run
	from jobrun.job_runs r where r.id = explain_conditions.run_id;
	if v_run.is_command then
		-- A host that has a handler of this name takes it, too.
		v_run.is_command := v_run.job_type <> all (jobrun.taken_types(v_run.queue, seen));
	end if;
	if v_run.is_command then
		return query select c.* from jobrun.explain_command(v_run.id) c;
		return query select p.* from jobrun.explain_hosts(v_run.job_type, v_run.queue, jobrun.seen_by_exec(seen, v_run.job_type)) p;
		select coalesce(d.queue, 'exec'), d.concurrency_key into v_run.queue, v_run.concurrency_key
		from (select 1) o left join jobrun.job_definitions d on d.id = v_run.definition_id;
	elsif taken is null or v_run.job_type <> all (taken) or jobrun.is_held_back(null) then
		return query select h.* from jobrun.explain_handler(v_run.job_type, v_run.queue, seen) h;
		return query select p.* from jobrun.explain_hosts(v_run.job_type, v_run.queue, seen) p;
	end if;
	return query select p.* from jobrun.explain_pauses(v_run.job_type, v_run.queue, v_run.definition_id) p;
	return query select 'due', case when v_run.is_later then 'no' else 'ok' end, false,
		case when not v_run.is_later then null when v_run.status = 'failed' then 'backoff' when v_run.snoozes > 0 then 'put_off' else 'later' end,
		case when v_run.is_later then 'due' else 'due since' end, v_run.run_at,
		case when not v_run.is_later then null when v_run.status = 'failed'
				then format(', after attempt %s of %s failed', v_run.attempts, v_run.max_attempts) || coalesce(': ' || v_run.error_code, '')
			when v_run.snoozes > 0 then ', put off by its handler ' || case v_run.snoozes when 1 then 'once' else v_run.snoozes || ' times' end end,
		case when v_run.is_later then 'jobrun retry ' || v_run.id end;
	return query select 'expiry', case when v_run.is_expired then 'no' else 'ok' end, false,
		case when v_run.is_expired then 'expired' end,
		case when v_run.expires_at is null then 'does not expire' when v_run.is_expired then 'expired' else 'expires' end,
		v_run.expires_at, null, case when v_run.is_expired then 'jobrun retry ' || v_run.id end;
	return query select l.* from jobrun.explain_locks(v_run.id) l;
	return query select l.* from jobrun.explain_limits(v_run.queue, v_run.concurrency_key) l;
	if v_run.is_command then
		return;
	end if;
	if v_run.unique_key is not null then
		v_newer := case when v_run.claim_seq > 0 then jobrun.newer_run(v_run.job_type, v_run.unique_key, v_run.id) end;
		return query select 'unique_key', case when v_newer is null then 'ok' else 'no' end, false,
			case when v_newer is not null then 'superseded' end,
			case when v_newer is not null then format('run %s of unique key %s is newer', v_newer, v_run.unique_key)
				else format('unique key %s: ', v_run.unique_key)
					|| coalesce('run ' || jobrun.newer_run(v_run.job_type, v_run.unique_key, v_run.id, true)
						|| ' is newer, and ends this one if it starts first', 'no newer run') end,
			null::timestamptz, null, case when v_newer is not null then 'jobrun show ' || v_newer end;
	end if;
	if taken is not null then
		return query select 'before', 'ok', false, null, 'other due runs come before it in queue ' || v_run.queue, null::timestamptz, null, null;
		return;
	end if;
	v_n := cardinality(jobrun.due_before(v_run.queue, jobrun.taken_types(v_run.queue, seen), v_run.priority, v_run.run_at, v_run.id, 1001));
	return query select 'before', 'ok', false, null, case when v_n > 1000 then '>1000' when v_n = 0 then 'no' else v_n::text end
		|| case when v_n = 1 then ' due run comes' else ' due runs come' end || ' before it in queue ' || v_run.queue,
		null::timestamptz, null, null;
	return query select 'permits', '?', false, case when bool_and(p.n >= p.permits) then 'permits_taken' else 'unknown' end,
			case when bool_and(p.n >= p.permits) then 'its hosts seem to have no free permit' else 'free permits: only the host knows' end,
			null::timestamptz,
			' (' || string_agg(format('%s on %s, where %s run', p.permits, p.host, p.n), '; ' order by p.host) || ')', null
		from (select h.*, (select count(*) from jobrun.job_runs r where r.status = 'running' and r.locked_by = h.host) as n
			from (select n.host, max(n.permits) as permits from jobrun.seen_of(seen) n
				where v_run.job_type = any (n.job_types) group by n.host order by n.host limit 5) h) p having count(*) > 0;
	v_seen := coalesce((select max(n.last_seen_at) from jobrun.seen_of(seen) n where v_run.job_type = any (n.job_types)),
		(select l.last_seen_at from (select n.last_seen_at from jobrun.job_runners n order by n.started_at desc limit 1) l));
	v_late := (v_seen > now() - interval '5 minutes') is not true;
	-- Others may come: those of another host, or of a line with other types.
	v_whose := case when exists (select from jobrun.seen_of(seen) n where n.job_types <> '{}' and n.last_seen_at > v_seen)
		then ' with a handler for ' || v_run.job_type else '' end;
	return query select 'runner', case when v_late then 'no' else 'ok' end, false, case when v_late then 'no_tick' end,
		case when v_seen is null then 'no runner was ever seen' when v_late then format('no runner%s was seen since', v_whose)
			else 'the last runner was seen' end,
		v_seen, null, case when v_late then 'jobrun --once -v' end;
end
$fn$;

-- explain_verdict: the rows of explain() for a waiting run, of which next_claim() has said this. taken: see explain_conditions().
create or replace function jobrun.explain_verdict(
	run_id bigint, fate text, newer bigint, is_sure boolean, seen jsonb, taken text[] default null)
returns table (condition text, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_key    constant text := (select r.unique_key from jobrun.job_runs r where r.id = run_id);
	v_line   record;
	v_rows   jsonb := '[]';
	v_held   boolean := false;
	v_locked boolean := false;
	v_state  text;
	v_why    jsonb;
	v_others bigint;
begin
	for v_line in select c.* from jobrun.explain_conditions(run_id, seen, taken) c loop
		if v_line.condition = 'unique_key' and explain_verdict.fate = 'superseded' then
			v_line.state := 'no';
			v_line.reason := 'superseded';
			v_line.words := format('run %s of unique key %s is newer', explain_verdict.newer, v_key);
			v_line.command := 'jobrun show ' || explain_verdict.newer;
		elsif v_line.condition = 'before' and explain_verdict.fate is null and not v_held then
			v_line.state := case when explain_verdict.is_sure then 'no' else '?' end;
			v_line.reason := 'turn';
			v_line.words := v_line.words || case when explain_verdict.is_sure then '; its limits leave no further room' else '' end;
			v_line.command := 'jobrun run --job ' || run_id;
		end if;
		v_held := v_held or v_line.state = 'no';
		v_locked := v_locked or v_line.condition = 'lock' and v_line.state = 'no';
		v_rows := v_rows || to_jsonb(v_line);
	end loop;
	select c.c into v_why from jsonb_array_elements(v_rows) with ordinality c(c, nr)
	where (c.c ->> 'state' = 'no' or c.c ->> 'reason' = 'turn') and c.c ->> 'condition' <> 'runner'
	order by (c.c ->> 'never')::boolean desc, c.c ->> 'condition' = 'lock' desc, c.c ->> 'reason' = 'command', c.nr limit 1;
	v_others := (select count(distinct c.c ->> 'condition') - 1 from jsonb_array_elements(v_rows) c(c)
		where c.c ->> 'state' = 'no' and c.c ->> 'condition' <> 'runner' and (c.c ->> 'reason' <> 'command' or c.c = v_why));
	-- What a claim would do decides: a run may start in the place of an older one of its key.
	v_state := case when not v_locked and explain_verdict.fate = 'starts' then 'starts' when not v_locked and explain_verdict.fate is not null then 'ends'
		when (v_why ->> 'never')::boolean then 'never' else 'waits' end;
	if v_state = 'starts' then
		v_why := null;
		select c.c into v_why from jsonb_array_elements(v_rows) with ordinality c(c, nr)
		where c.c ->> 'condition' = 'runner' and c.c ->> 'state' = 'no' or c.c ->> 'condition' = 'handler' and c.c ->> 'state' = '?'
			or c.c ->> 'reason' = 'permits_taken'
		order by c.nr limit 1;
	elsif v_state = 'ends' then
		select c.c into v_why from jsonb_array_elements(v_rows) c(c)
		where c.c ->> 'condition' = case explain_verdict.fate when 'expired' then 'expiry' else 'unique_key' end;
	end if;
	return query
		select 'verdict', v_state, coalesce(v_why ->> 'reason', 'next_claim'),
			case v_state when 'starts' then 'starts with the next claim' || coalesce('; but ' || (v_why ->> 'words'), '')
				when 'ends' then 'ends with the next claim, without a start: ' || (v_why ->> 'words')
				when 'never' then 'never starts unless somebody acts: ' || (v_why ->> 'words')
				else 'waits: ' || (v_why ->> 'words') end,
			(v_why ->> 'at')::timestamptz, coalesce(v_why ->> 'rest', '') || case when v_state in ('waits', 'never') then jobrun.others_words(v_others) else '' end,
			v_why ->> 'command'
		union all
		select r.condition, r.state, r.reason, r.words, r.at, coalesce(r.rest, ''), r.command
		from jsonb_to_recordset(v_rows) r(condition text, state text, reason text, words text, at timestamptz, rest text, command text);
end
$fn$;

-- explain: why the run stands where it does. The first row is the verdict, the others are the conditions of a claim, in
-- its order. No row: no such run, or one that the caller may not see.
--  condition  verdict, handler, all, host, type, queue, definition, due, expiry, lock, max_running, rate, lock_key, unique_key, before,
--             permits, runner
--  state      of a condition: ok, no, ? (not known here); of the verdict: starts (with the next claim), ends (with the next
--             claim, without a start), waits, never (unless somebody acts), or the status of the run
--  reason     a fixed word, see the manual; of the verdict: that of the condition that decides
--  words, at, rest   the line for people, with a point in time in it or none
--  command    what changes it
-- host, here: the host of the caller, and the job types that it has handlers for: see seen_here().
create or replace function jobrun.explain(id bigint, host text default null, here text[] default null)
returns table (condition text, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_id     constant bigint := id;
	v_run    record;
	v_next   record;
	v_seen   jsonb;
begin
	select r.*, (r.status in ('queued', 'failed')) as waits into v_run from jobrun.all_runs r where r.id = v_id;
	if v_run.id is null or not (jobrun.may('read', 'run', 'admin') or v_run.created_by = jobrun.caller()) then
		return;
	end if;
	if not v_run.waits then
		return query
			select 'verdict', v_run.status, coalesce(v_run.error_code, v_run.status),
				case v_run.status
				when 'running' then format('is running on %s since', v_run.locked_by)
				when 'cancelled' then case when v_run.superseded_by is not null
					then format('was superseded by run %s of its unique key', v_run.superseded_by) else 'was cancelled' end
				when 'dead' then 'is dead: ' || coalesce((select t.last_error from jobrun.run_texts(v_id) t), v_run.error_code, 'no reason is known')
				else v_run.status end,
				case when v_run.status = 'running' then v_run.started_at else v_run.finished_at end,
				case when v_run.status <> 'running' then ''
					when v_run.locked_until > now() then format(', lease for %ss more', floor(extract(epoch from v_run.locked_until - now())))
						|| case when v_run.cancel_requested_at is not null then ', cancel requested' else '' end
					else ', its lease has run out: the next tick of any runner takes it back as lost, and it is ' || case
						when v_run.cancel_requested_at is not null then 'cancelled'
						when v_run.attempts >= v_run.max_attempts then format('dead: that was attempt %s of %s', v_run.attempts, v_run.max_attempts)
						else 'tried again' end
					end,
				case when v_run.status = 'succeeded' then null
					when v_run.status <> 'running' then 'jobrun retry ' || coalesce(v_run.superseded_by, v_id)
					when v_run.locked_until <= now() then 'jobrun run'
					when v_run.cancel_requested_at is null then 'jobrun cancel ' || v_id end;
		return;
	end if;

	v_seen := jobrun.seen_here(explain.host, explain.here);
	select n.* into v_next from jobrun.next_claim(array[v_id], v_seen) n;
	return query select v.* from jobrun.explain_verdict(v_id, v_next.fate, v_next.newer, v_next.is_sure, v_seen) v;
end
$fn$;

-- next_waiting: the next waiting runs of these job types and queues (null: of all), in the order in which they will start: due
-- ones by priority, then those that are due later; each with the verdict of explain(). What is the same for many is looked up once.
-- host, here: as for explain().
create or replace function jobrun.next_waiting(
	job_types text[], queues text[], most bigint, host text default null, here text[] default null)
returns table (id bigint, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $fn$
#variable_conflict use_column
declare
	v_most constant bigint := most;
	v_ids  bigint[];
	v_seen jsonb := jobrun.seen_here(next_waiting.host, next_waiting.here);
begin
	if not jobrun.may('read', 'run', 'admin') then
		raise exception using errcode = '42501', message = 'permission denied: what waits is for roles that may read, run or administer';
	end if;
	v_ids := array(
		select f.id
		from (select w.* from jobrun.waiting_heads() w where (next_waiting.job_types is null or w.job_type = any (next_waiting.job_types))
			and (next_waiting.queues is null or w.queue = any (next_waiting.queues)) offset 0) w
		cross join lateral (
			select r.id, r.priority, r.run_at from jobrun.job_runs r
			where r.status in ('queued', 'failed') and r.job_type = w.job_type and r.queue = w.queue and r.priority = w.priority
				and least(num_nonnulls(r.concurrency_key, r.definition_id), 1)::smallint = w.bound
			order by r.run_at, r.id limit v_most) f
		order by f.run_at > now(), case when f.run_at <= now() then f.priority end, f.run_at, f.id limit v_most);
	return query
		with taken as materialized (
			-- but for those that are new: of them explain_handler() says more
			select q.queue, array(select t.name from unnest(jobrun.taken_types(q.queue, v_seen)) t(name)
				where not exists (select from jobrun.new_on(v_seen, t.name))) as types
			from (select distinct r.queue from jobrun.runs_of(v_ids) r) q)
		select n.id, v.state, v.reason, v.words, v.at, v.rest, v.command
		from jobrun.next_claim(v_ids, v_seen) n
		cross join lateral (select r.queue from jobrun.job_runs r where r.id = n.id offset 0) r
		join taken t on t.queue = r.queue
		cross join lateral (select x.* from jobrun.explain_verdict(n.id, n.fate, n.newer, n.is_sure, v_seen, t.types) x limit 1) v
		order by array_position(v_ids, n.id);
end
$fn$;

-- slots_words: a slot, and how many more.
create or replace function jobrun.slots_words(slot timestamptz, time_zone text, more bigint) returns text
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select 'its slot of ' || jobrun.slot_text(slot, time_zone) || case when more > 0 then format(' and %s more', more) else '' end
$fn$;

-- explain_late: of a definition that is enabled and not paused, whose zone the server knows: the slot that fires next (null: none),
-- and what the next tick does with those that are due before it (''), as due_slots() decides.
create or replace function jobrun.explain_late(definition jobrun.job_definitions, out fires_at timestamptz, out rest text)
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_fields constant jobrun.schedule_fields := jobrun.parse_schedule(definition.schedule);
	v_zone   constant text := definition.time_zone;
	v_anchor constant timestamptz := definition.anchor_at;
	v_due    record;
	v_until  timestamptz;
	v_n      bigint;
begin
	select d.* into v_due from jobrun.due_slots(definition, v_fields, now()) d;
	fires_at := coalesce(v_due.fires_from, jobrun.next_slot(v_fields, v_zone, now(), v_anchor));
	rest     := '';
	if v_due.held_from is not null then
		v_n  := jobrun.count_slots(v_fields, v_zone, v_anchor, v_due.held_from, v_due.held_until);
		rest := format('; the next tick skips %s: %s', jobrun.slots_words(v_due.held_from, v_zone, v_n),
			jobrun.pause_reason(definition, v_due.held_from));
	end if;
	v_until := coalesce(v_due.fires_from - interval '1 microsecond', now());
	if v_due.first_at <= v_until then
		v_n  := jobrun.count_slots(v_fields, v_zone, v_anchor, v_due.first_at, v_until);
		rest := rest || format(case when v_due.missed = 'coalesced' then '; the next tick coalesces %s with it (catch-up once)'
				when definition.catch_up = 'skip' and v_due.fires_from is not null then '; the next tick skips %s: only the last one fires (catch-up skip)'
				when definition.catch_up_grace is not null then '; the next tick skips %s: later than the catch-up grace'
				when definition.catch_up = 'skip' then '; the next tick skips %s: more than 5m late (catch-up skip)'
				else '; the next tick skips %s: the last hundred fire (catch-up all)' end,
			jobrun.slots_words(v_due.first_at, v_zone, v_n));
	end if;
end
$fn$;

-- explain_definition: why the definition does or does not make runs, and what a run of it would meet. Rows as of
-- explain(). The verdict is fires, never (unless somebody acts), paused, or manual (it has no schedule). Of slots that are
-- late it says what the next tick does with them, which may be to skip them. Without a schedule it is about the next start
-- by hand: a command of exec that is typed on this host, or a run that is enqueued. Further conditions: enabled, next (a
-- slot to come, or that the server does not know the zone), overlap, past (a slot, newest first; reason: its outcome), and
-- without a schedule the limits of its queue. A definition of jobrun exec needs no handler. No row: no such definition.
create or replace function jobrun.explain_definition(name text, host text default null, here text[] default null)
returns table (condition text, state text, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $fn$
#variable_conflict use_column
declare
	v_name    constant text := name;
	v_host    constant text := host;
	v_def     record;
	v_seen    constant jsonb := jobrun.seen_here(host, here);
	v_hosts   jsonb;                     -- as v_seen: those that may start it
	v_overlap text;
	v_lost    text;                      -- the server does not know its time zone
	v_next    record;                    -- as of explain_late()
	v_late    boolean;
	v_rows    jsonb;                     -- the conditions of a start, in the order in which exec_claim() asks
	v_held    jsonb;                     -- those that a run of its next slot, or the next start by hand, would meet
	v_but     jsonb;                     -- the first of them
	v_words   text;
	v_by_hand boolean;                   -- no schedule
	v_by_exec boolean;                   -- and no known handler: it is most likely of jobrun exec
	v_queue   text;                      -- of the runs that it makes
	v_key     text;
begin
	select d.*, coalesce(d.queue, t.queue, 'default') as its_queue, coalesce(d.concurrency_key, t.concurrency_key) as its_key,
		(d.paused_until > now()) is true as is_paused into v_def
	from jobrun.job_definitions d left join jobrun.job_definitions t on t.name = d.job_type where d.name = v_name;
	if v_def.id is null or not jobrun.may('read', 'run', 'admin') then
		return;
	end if;
	v_lost := case when v_def.schedule is not null then jobrun.lost_zone(v_def.time_zone) end;
	select v_def.next_slot_at as fires_at, '' as rest into v_next;
	if v_lost is null and v_def.enabled and not v_def.is_paused and v_def.next_slot_at <= now() then
		select l.* into v_next from jobrun.job_definitions d cross join lateral jobrun.explain_late(d) l where d.id = v_def.id;
	end if;
	v_late := v_next.fires_at < now() - interval '2 minutes';
	v_by_hand := v_def.schedule is null;
	v_by_exec := v_by_hand and exists (select from jobrun.explain_handler(v_def.job_type, v_def.its_queue, v_seen) h
		where h.reason in ('no_handler', 'no_runner'));
	v_queue := v_def.its_queue;
	v_key := v_def.its_key;
	v_hosts := v_seen;
	if v_by_exec then
		v_queue := coalesce(v_def.queue, 'exec'); -- as exec_claim() chooses them
		v_key := v_def.concurrency_key;
		-- If the pause of this host holds it back, no other host helps who types the command here.
		v_hosts := jobrun.seen_by_exec(jsonb_build_object('host', v_host)
			|| case when exists (select from jobrun.job_runners n where n.host = v_host and n.paused_until > now()) then '[]' else v_seen end,
			v_def.job_type);
	end if;
	v_overlap := case when v_def.overlap = 'skip' then jobrun.overlapping(v_def.id, v_by_exec) end;
	v_rows := (
		select jsonb_agg(to_jsonb(c) order by c.nr)
		from (
			select u.*, row_number() over () as nr
			from (
				select h.* from jobrun.explain_hosts(v_def.job_type, v_queue, v_hosts) h
				union all
				-- A run that is enqueued by hand starts all the same.
				select 'enabled', case when v_def.enabled or v_by_hand and not v_by_exec then 'ok' else 'no' end, not v_def.enabled,
					case when not v_def.enabled and (v_by_exec or not v_by_hand) then 'disabled' end,
					case when v_def.enabled then 'enabled' when v_by_hand and not v_by_exec then 'disabled, which holds back no run enqueued by hand'
						else 'disabled' end, null, '', case when not v_def.enabled then format('jobrun define %s --enable', v_name) end
				union all
				select p.* from jobrun.explain_pauses(v_def.job_type, v_queue, v_def.id) p
				union all
				select h.* from jobrun.explain_handler(v_def.job_type, v_queue, v_seen) h where not v_by_exec or not jobrun.is_of_exec(v_name)
				union all
				select 'overlap', case when v_overlap is null or v_by_hand and not v_by_exec then 'ok' else 'no' end, false,
					case when v_overlap is not null and (v_by_exec or not v_by_hand) then 'overlap' end,
					case when v_def.overlap <> 'skip' then 'runs may overlap'
						when v_overlap is null and v_by_exec then 'no run of it is running'
						when v_overlap is null then 'no run of it is unfinished'
						when v_by_exec then v_overlap || ', and nothing starts beside it'
						when v_by_hand then v_overlap || ', which holds back no run enqueued by hand'
						else v_overlap || ', so a slot now would be skipped' end, null, '',
					case when v_overlap is not null and (v_by_exec or not v_by_hand) then format('jobrun define %s --overlap allow', v_name) end
				union all
				select l.* from jobrun.explain_limits(v_queue, v_key) l where v_by_hand) u) c);
	v_held := (
		select jsonb_agg(c.c order by (c.c ->> 'never')::boolean desc, c.c ->> 'condition' = 'handler' desc, c.nr)
		from jsonb_array_elements(v_rows) with ordinality c(c, nr)
		where c.c ->> 'state' = 'no' and case when v_by_hand then not (v_by_exec and c.c ->> 'condition' = 'handler')
			else c.c ->> 'condition' <> 'overlap' and v_def.enabled and not v_def.is_paused and v_lost is null
				and v_next.fires_at is not null and ((c.c ->> 'at')::timestamptz > v_next.fires_at) is not false end);
	v_but := v_held -> 0;
	if v_by_hand then
		v_words := case v_but ->> 'condition' when 'enabled' then format('definition %s is disabled', v_name) else v_but ->> 'words' end;
		return query select 'verdict',
			case when (v_but ->> 'never')::boolean then 'never' when right(v_but ->> 'reason', 7) = '_paused' then 'paused' else 'manual' end,
			coalesce(v_but ->> 'reason', 'no_schedule'),
			case when not v_by_exec then 'has no schedule: it fires only by hand' || coalesce('; but ' || v_words, '')
				else format('has no schedule, and no host was seen with a handler for %s: ''jobrun exec %s'' starts ', v_def.job_type, v_name)
					|| coalesce('nothing: ' || v_words, 'it') end,
			(v_but ->> 'at')::timestamptz, coalesce(v_but ->> 'rest', '')
				|| jobrun.others_words((select count(distinct c.c ->> 'condition') - 1 from jsonb_array_elements(v_held) c(c))),
			case when v_but is not null then v_but ->> 'command' when not v_by_exec then 'jobrun enqueue --definition ' || v_name end;
	elsif v_def.enabled and v_lost is not null then
		return query select 'verdict', 'never', 'zone_lost', 'never fires unless somebody acts: ' || v_lost, null::timestamptz, '',
			format('jobrun define %s --time-zone UTC', v_name);
	else
		return query select 'verdict',
			case when not v_def.enabled or v_def.is_paused and not isfinite(v_def.paused_until) or v_next.fires_at is null then 'never'
				when v_def.is_paused then 'paused' else 'fires' end,
			case when not v_def.enabled then 'disabled' when v_def.is_paused then 'definition_paused'
				when v_next.fires_at is null then 'no_slot' when v_late then 'late_slot' when v_next.fires_at > now() and v_next.rest <> '' then 'skipped_slot'
				else coalesce(v_but ->> 'reason', 'next_slot') end,
			case when not v_def.enabled then 'never fires unless somebody acts: it is disabled, and its slots are skipped'
				when v_def.is_paused and not isfinite(v_def.paused_until) then 'never fires unless somebody acts: it is paused until resumed'
				when v_def.is_paused then 'fires no slot before its pause ends' when v_next.fires_at is null then 'never fires again: its schedule has no further slot'
				when v_late then 'fires with the next tick: no tick has fired its slot of' else 'fires' end,
			case when not v_def.enabled then null when v_def.is_paused then nullif(v_def.paused_until, 'infinity') else v_next.fires_at end,
			case when v_def.enabled and v_def.is_paused then coalesce(': ' || v_def.paused_reason, '')
				else coalesce('; but ' || jobrun.line_of(v_but ->> 'words', (v_but ->> 'at')::timestamptz, v_but ->> 'rest'), '') || v_next.rest end,
			case when not v_def.enabled then format('jobrun define %s --enable', v_name)
				when v_def.is_paused then 'jobrun resume --definition ' || v_name
				when v_late or v_next.rest <> '' then 'jobrun --once -v' else v_but ->> 'command' end;
	end if;
	return query select r.condition, r.state, r.reason, r.words, r.at, coalesce(r.rest, ''), r.command
		from jsonb_to_recordset(v_rows) r(condition text, state text, reason text, words text, at timestamptz, rest text, command text);
	if v_lost is not null then
		return query select 'next', 'no', 'zone_lost', v_lost, null::timestamptz, '', format('jobrun define %s --time-zone UTC', v_name);
	elsif not v_by_hand then
		return query select 'next', 'ok', null, 'next slot ' || jobrun.slot_text(n.slot, v_def.time_zone), n.slot, '', null
			from jobrun.next_slots(v_def.schedule, v_def.time_zone, now(), 3, v_def.anchor_at) n(slot);
	end if;
	return query select 'past', case s.outcome when 'queued' then 'ok' else 'no' end, s.outcome,
			format('slot %s%s: %s', jobrun.slot_text(date_trunc('second', s.slot), v_def.time_zone),
				case when s.slots > 1 then format(' and %s more', s.slots - 1) else '' end,
				case s.outcome when 'queued' then 'run ' || s.run_id else s.outcome || ', ' || coalesce(s.reason, 'no reason is recorded') end),
			null::timestamptz, '', case when s.outcome <> 'queued' and s.runner_id is null
				then format('jobrun slots %s --replay %s', v_name, to_char(s.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) end
		from (select o.* from jobrun.job_slots o where o.definition_id = v_def.id order by o.slot desc limit 5) s;
end
$fn$;
