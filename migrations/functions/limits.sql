-- limits: the limits of queues, and the pauses of a host or of everything.

-- is_limited: has the queue a limit, so that its row must be locked before runs are claimed from it?
create or replace function jobrun.is_limited(queue jobrun.job_queues) returns boolean
language sql immutable as $fn$
	select queue.max_running is not null or queue.max_running_per_key is not null or queue.rate_limit is not null
$fn$;

-- clock: clock_timestamp() as a stable function, so that what calls it can be inlined.
create or replace function jobrun.clock() returns timestamptz
language sql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select clock_timestamp()
$fn$;

-- rate_left: starts left in the current window of the queue's rate; null: no limit. A window that begins in the future was
-- written before the server's clock was set back, and is over. Not now() says that: the transaction that has just written
-- the window may have begun after this one.
create or replace function jobrun.rate_left(queue jobrun.job_queues) returns bigint
language sql stable as $fn$
	select case when queue.rate_window_start + queue.rate_period > now() and queue.rate_window_start <= jobrun.clock()
		then queue.rate_limit - queue.rate_used else queue.rate_limit end
$fn$;

-- limit_reason: why no run with this lock key (null: none) can start in the queue now; null: there is room. The caller
-- has locked the queue's row, or the queue has no limits. Volatile, so that its counts are younger than that lock.
create or replace function jobrun.limit_reason(queue jobrun.job_queues, key text) returns text
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
declare
	v_n bigint;
begin
	if jobrun.rate_left(queue) <= 0 then
		return jobrun.limit_words(queue.name, key);
	end if;
	if queue.max_running is not null then
		select count(*) into v_n from jobrun.job_runs r where r.status = 'running' and r.queue = limit_reason.queue.name;
		if v_n >= queue.max_running then
			return jobrun.limit_words(queue.name, key);
		end if;
	end if;
	if queue.max_running_per_key is not null and key is not null then
		select count(*) into v_n from jobrun.job_runs r
		where r.status = 'running' and r.queue = limit_reason.queue.name and r.concurrency_key = key;
		if v_n >= queue.max_running_per_key then
			return jobrun.limit_words(queue.name, key);
		end if;
	end if;
	return null;
end
$fn$;

-- spend_rate: count one more start in the window of the queue. The caller has locked its row.
create or replace function jobrun.spend_rate(queue jobrun.job_queues) returns void
language sql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
	update jobrun.job_queues q
	set rate_used = q.rate_limit - jobrun.rate_left(q) + 1,
		rate_window_start = case when jobrun.rate_left(q) < q.rate_limit then q.rate_window_start else now() end
	where q.name = spend_rate.queue.name and q.rate_limit is not null
$fn$;

-- is_held_back: does nothing start on this host (null: on no host), because everything is paused, or the host is? It reads
-- the one row of settings and an index that is usually empty. Without a SET clause, which would cost more than that.
create or replace function jobrun.is_held_back(host text) returns boolean
language plpgsql stable as $fn$
begin
	return exists (select from jobrun.settings s where s.only_row and s.paused_until operator(pg_catalog.>) pg_catalog.now())
		or exists (select from jobrun.job_runners n
			where n.host operator(pg_catalog.=) is_held_back.host and n.paused_until operator(pg_catalog.>) pg_catalog.now());
end
$fn$;

-- held_back: the same in words; null: it is not held back.
create or replace function jobrun.held_back(host text) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	return (select p.what || ' is paused' || case when isfinite(p.until)
			then to_char(p.until at time zone 'UTC', '" until "YYYY-MM-DD"T"HH24:MI:SS"Z"') else '' end
			|| coalesce(' by ' || p.by, '') || coalesce(': ' || p.reason, '') || ' (jobrun resume --' || p.option || ')'
		from (
			select 'everything' as what, 'all' as option, s.paused_until as until, s.paused_by as by, s.paused_reason as reason
			from jobrun.settings s where s.only_row and s.paused_until > now()
			union all
			select 'host ' || n.host, 'host ' || jobrun.shell_word(n.host), n.paused_until, n.paused_by, n.paused_reason
			from jobrun.job_runners n where n.host = held_back.host and n.paused_until > now()) p
		order by p.option like 'host%', p.until desc limit 1);
end
$fn$;
