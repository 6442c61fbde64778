-- seen: the runners of the last day: their hosts, handlers and queues. It takes no lock; explain.sql says why.

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

-- taken_types: the job types that runners of the last day take from this queue, on hosts that are not paused. Every
-- runner takes jobrun.prune.
create or replace function jobrun.taken_types(queue text, seen jsonb default null) returns text[]
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select array(select distinct t.job_type from jobrun.seen_of(seen) n cross join unnest(n.job_types) t(job_type)
		where (n.queues is null or taken_types.queue = any (n.queues) or t.job_type = 'jobrun.prune')
			and not exists (select from jobrun.job_runners p where p.host = n.host and p.paused_until > now()))
$fn$;
