-- explain_property: jobrun.explain() against jobrun.claim(). `check_states(seed, n)` makes n small random states, asks
-- explain() about every waiting run, and has a claim take all that it may; both are rolled back. A row for each difference.
create function pg_temp.pick(variadic words text[]) returns text language sql volatile as $fn$
	select words[1 + floor(random() * cardinality(words))::integer]
$fn$;

create function pg_temp.make_state() returns void language plpgsql as $fn$
begin
	insert into jobrun.job_runners (id, host, pid, version, permits, job_types, queues) values
		(1, 'db1', 1, 'x', 4, '{a,b}', null), (2, 'db2', 1, 'x', 4, '{c}', '{q1,q2}');
	if random() < 0.2 then -- db1 refuses its handler of b since
		insert into jobrun.job_runners (id, host, pid, version, permits, job_types, refused, last_seen_at)
		values (3, 'db1', 1, 'x', 4, '{a}', '{"b.sql: cannot trust it"}', now() + interval '1 second');
	end if;
	if random() < 0.2 then
		update jobrun.job_runners set paused_until = now() + interval '1 hour' where host = pg_temp.pick('db1', 'db2');
	elsif random() < 0.05 then
		update jobrun.settings set paused_until = now() + interval '1 hour';
	end if;
	insert into jobrun.job_definitions (name, job_type, paused_until)
	values ('d1', 'a', null), ('d2', 'b', case when random() < 0.5 then now() + interval '1 hour' end);
	insert into jobrun.job_types (name, paused_until)
	select t, now() + interval '1 hour' from unnest('{a,b,c}'::text[]) t where random() < 0.1;
	insert into jobrun.job_queues (name, paused_until, max_running, max_running_per_key, rate_limit, rate_period, rate_window_start, rate_used)
	select q, case when random() < 0.1 then now() + interval '1 hour' end, case when random() < 0.4 then floor(random() * 6) end,
		case when random() < 0.7 then floor(random() * 3) end, r.rate, case when r.rate is not null then interval '1 minute' end,
		case when random() < 0.5 then now() - interval '30 seconds' when random() < 0.5 then now() - interval '2 minutes'
			when random() < 0.5 then now() + interval '1 hour' end, floor(random() * 3)
	from unnest('{q1,q2,q3}'::text[]) q cross join lateral (select case when random() < 0.2 and q <> '' then floor(random() * 6)::bigint end as rate) r
	where random() < 0.7;
	insert into jobrun.job_runs (job_type, queue, priority, run_at, expires_at, concurrency_key, unique_key, definition_id, status,
		claim_seq, attempts, runner_id, locked_by, locked_until, started_at, finished_at)
	select pg_temp.pick('a', 'a', 'b', 'c', 'nobody'), pg_temp.pick('q1', 'q1', 'q2', 'q3'), pg_temp.pick('0', '5')::smallint,
		now() - interval '1 minute' * floor(random() * 4) + case when random() < 0.2 then interval '1 hour' else interval '0' end,
		case when random() < 0.1 then now() - interval '1 second' when random() < 0.1 then now() + interval '1 hour' end,
		case when random() < 0.4 then pg_temp.pick('k1', 'k2') end,
		case when s.status in ('failed', 'running', 'succeeded') and random() < 0.4 then pg_temp.pick('u1', 'u2') end,
		case when random() < 0.3 then (select array_agg(d.id) from jobrun.job_definitions d where d.name in ('d1', 'd2'))[1 + floor(random() * 2)::integer] end,
		s.status, case when s.status = 'queued' then 0 else 1 end, case when s.status = 'queued' then 0 else 1 end,
		case when s.status = 'running' then 1 end, case when s.status = 'running' then 'db1' end,
		case when s.status = 'running' then now() + interval '1 minute' end, case when s.status in ('running', 'succeeded') then now() end,
		case when s.status = 'succeeded' then now() end
	from generate_series(1, 5 + floor(random() * 15)::integer) g
	cross join lateral (select pg_temp.pick('queued', 'queued', 'queued', 'failed', 'failed', 'running', 'succeeded') as status where g > 0) s;
	-- commands of exec that were retried: a claim takes those that a host has a handler for
	update jobrun.job_runs set payload = '{"argv": ["x"]}', max_attempts = 1, claim_seq = 1, attempts = 0
	where status = 'queued' and random() < 0.1;
	-- a key has at most one run that was never claimed
	update jobrun.job_runs r set unique_key = u.key from (
		select distinct on (w.job_type, w.key) w.id, w.key from (
			select x.id, x.job_type, pg_temp.pick('u1', 'u2') as key from jobrun.job_runs x where x.status = 'queued' and x.claim_seq = 0 and random() < 0.5) w
		order by w.job_type, w.key, random()) u where u.id = r.id;
end
$fn$;

create function pg_temp.check_state() returns setof text language plpgsql as $fn$
declare
	v_said  jsonb;
	v_taken jsonb;
	v_found text[];
	v_state text;
	v_differ text[];
	v_here   text[] := case when random() < 0.3 then '{a,nobody}' end;   -- a handler that is new on db1
begin
	begin
		perform pg_temp.make_state();
		select string_agg(t.line, E'\n') into v_state from (
			select 'run ' || jsonb_strip_nulls(to_jsonb(r) - '{payload,created_at,timeout,locked_by,runner_id,created_by}'::text[])::text from jobrun.job_runs r
			union all select 'queue ' || jsonb_strip_nulls(to_jsonb(q))::text from jobrun.job_queues q) t(line);
		select coalesce(jsonb_object_agg(r.id, e.state || case when e.state = 'ends' then ' ' || e.reason else '' end), '{}') into v_said
		from jobrun.job_runs r cross join lateral (select x.* from jobrun.explain(r.id, 'db1', v_here) x where x.condition = 'verdict') e
		where r.status in ('queued', 'failed');
		-- All at once they get the same verdicts as one by one, but for words that only explain() looks up.
		v_differ := array(select format('run %s: explain says %s %s, next_waiting %s %s', e.id, e.state, e.reason, w.state, w.reason)
			from (select r.id, x.state, x.reason from jobrun.job_runs r cross join lateral (select x.* from jobrun.explain(r.id, 'db1', v_here) x limit 1) x
				where r.status in ('queued', 'failed')) e
			full join jobrun.next_waiting(null, null, 1000, 'db1', v_here) w on w.id = e.id
			where (w.state, w.reason) is distinct from (e.state, e.reason) and not (e.state = 'starts' and w.state = 'starts'));
		select coalesce(jsonb_object_agg(t.id, case when t.expired then 'ends expired' else 'starts' end), '{}') into v_taken
		from (select array_agg(c.job_type) as job_types, array_agg(c.queue) as queues, array_agg(c.priority) as priorities
			from (select distinct r.job_type, r.queue, r.priority from jobrun.job_runs r where r.status in ('queued', 'failed')
				and ((r.job_type = 'a' or r.job_type = any (v_here)
						or r.job_type = 'b' and not exists (select from jobrun.job_runners n where n.refused is not null)) and not jobrun.is_held_back('db1')
					or r.job_type = 'c' and r.queue in ('q1', 'q2') and not jobrun.is_held_back('db2'))) c) c
		-- one claim for both hosts, or for the one that is not paused
		cross join lateral jobrun.claim(1, case when not jobrun.is_held_back('db1') then 'db1' else 'db2' end, 1000, c.job_types, c.queues, c.priorities, null, null, null, 60000, 1) t
		where t.id is not null;
		select v_taken || coalesce(jsonb_object_agg(r.id, 'ends superseded'), '{}') into v_taken
		from jobrun.job_runs r where r.superseded_by is not null;
		v_found := array(select format('run %s: explain says %s, the claim %s: %s', s.key, s.value, coalesce(v_taken ->> s.key, 'leaves it'), r)
			from jsonb_each_text(v_said) s join jobrun.job_runs r on r.id = s.key::bigint
			where case when v_taken ? s.key then v_taken ->> s.key <> s.value else s.value not in ('waits', 'never') end)
			|| array(select format('explain does not know run %s, which was taken', t.key) from jsonb_each(v_taken) t where not v_said ? t.key)
			|| v_differ;
		if v_found <> '{}' then
			raise notice '%', v_state;
		end if;
		raise exception 'roll back' using errcode = 'JR001';
	exception when sqlstate 'JR001' then
		null;
	end;
	return query select * from unnest(v_found);
	return query select s.value from jsonb_each_text(v_said) s;
end
$fn$;

create function pg_temp.check_states(seed double precision, n integer) returns table (line text, times bigint) language plpgsql as $fn$
declare
	v_lines text[] := '{}';
begin
	perform setseed(seed);
	for v_nr in 1 .. n loop
		v_lines := v_lines || array(select format('%s', c) from pg_temp.check_state() c);
	end loop;
	return query select l.l, count(*) from unnest(v_lines) l(l) group by l.l;
end
$fn$;
