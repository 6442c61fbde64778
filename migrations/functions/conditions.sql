-- conditions: what a waiting run needs to start, each in words and with what to type. It takes no lock; explain.sql says why.

-- shell_word: a word as it is typed into a shell: in quotes unless it needs none.
create or replace function jobrun.shell_word(word text) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select case when word collate "C" ~ '^[A-Za-z0-9_@%+=:,./-]+$' then word
		else '''' || replace(word, '''', '''' || chr(92) || '''''') || '''' end
$fn$;

-- mend_of: what a line of `refused` says is to be typed, ready for a shell; null: it says nothing.
create or replace function jobrun.mend_of(line text) returns text
language sql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select m.part[1] || ' ' || jobrun.shell_word(m.part[2])
	from regexp_match(line, '^.*: (chmod [^ ]+|chown (?:-h )?[^ ]+) (/.+)$') m(part)
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

-- explain_copy: this database is a copy in which settings let nothing run: a line only then. See check_copy().
create or replace function jobrun.explain_copy()
returns table (condition text, state text, never boolean, reason text, words text, at timestamptz, rest text, command text)
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_copied constant text := case when (select s.copies = 'refuse' from jobrun.settings s) then jobrun.copied() end;
begin
	if v_copied is not null then
		return query select 'copy', 'no', true, 'copied', v_copied || ', and nothing is run in it', null::timestamptz,
			'; if the original goes on working, type ''jobrun migrate --adopt --cancel-waiting'' instead', 'jobrun migrate --adopt';
	end if;
end
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
	return query select c.* from jobrun.explain_copy() c;
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
