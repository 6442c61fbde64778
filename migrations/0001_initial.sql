-- 0001: all tables, their rules, and the functions that enqueue, claim, cancel and retry.
--
-- Runs inside one transaction of `jobrun migrate`, which made schema jobrun and table jobrun.schema_migrations before
-- and writes the row of this migration itself. Only what PostgreSQL 12 knows.
--
-- Throughout: fixed-width columns stand first. Names and keys are collate "C": cheap to compare, and no upgrade of the
-- C library can break their indexes. No foreign keys between the hot tables: each would lock a row for each run.
-- Words of DESIGN: a run waits (queued, failed), is running, or is final (succeeded, dead, cancelled).

-- ---------------------------------------------------------------------------------------------------- rules for text

-- Job types, queues and definitions. Not ending in .sql or .json, since a handler NAME.sql would be one of NAME.
create function jobrun.is_name(name text) returns boolean
language sql immutable parallel safe as $fn$
	select name ~ '^[a-z0-9][a-z0-9_.-]{0,62}$' and name !~ '\.(sql|json)$'
$fn$;

-- ------------------------------------------------------------------------------------------------------------ settings

-- One row. install_id makes JOBRUN_KEY unique between databases. Retention is read from here and never from a payload.
create table jobrun.settings (
	only_row         boolean  primary key default true,
	install_id       uuid     not null,
	keep_succeeded   interval not null default interval '7 days',
	keep_keyed       interval not null default interval '30 days',  -- succeeded runs with an idempotency key: the key guards as long
	keep_cancelled   interval not null default interval '7 days',
	keep_dead        interval not null default interval '90 days',
	keep_output      interval not null default interval '7 days',
	keep_runners     interval not null default interval '7 days',
	keep_slots       interval not null default interval '90 days',
	keep_effects     interval not null default interval '90 days',
	keep_audit       interval not null default interval '365 days',
	keep_stats       interval not null default interval '730 days',
	archive          boolean  not null default false,               -- move finished runs to job_runs_archive instead of deleting them
	constraint settings_one_row  check (only_row),
	constraint settings_positive check (least(keep_succeeded, keep_keyed, keep_cancelled, keep_dead, keep_output, keep_runners,
		keep_slots, keep_effects, keep_audit, keep_stats) >= interval '0')
);

-- gen_random_uuid() came with PostgreSQL 13; this need only be unlike any other database's, not secret.
insert into jobrun.settings (install_id)
values (md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text || random()::text)::uuid);

-- --------------------------------------------------------------------------------------------------------- definitions

-- Defaults of a job type (the definition of its name), and optionally a schedule. A column that is null says nothing.
create table jobrun.job_definitions (
	id              bigint      generated always as identity primary key,
	anchor_at       timestamptz not null default now(),             -- @every counts from here
	next_slot_at    timestamptz,
	paused_until    timestamptz,
	created_at      timestamptz not null default now(),
	updated_at      timestamptz not null default now(),
	timeout         interval,
	backoff_base    interval,
	backoff_cap     interval,
	catch_up_grace  interval,
	max_attempts    bigint,
	priority        smallint,
	enabled         boolean     not null default true,
	name            text collate "C" not null,
	job_type        text collate "C" not null,
	schedule        text,
	time_zone       text        not null default 'UTC',
	queue           text collate "C",
	concurrency_key text collate "C",
	on_dead         text collate "C",                               -- job type to enqueue when a run goes dead
	catch_up        text collate "C" not null default 'once',
	overlap         text collate "C" not null default 'skip',
	paused_reason   text,
	description     text,
	payload         jsonb,
	constraint job_definitions_name         unique (name),
	constraint job_definitions_names        check (jobrun.is_name(name) and jobrun.is_name(job_type)),
	constraint job_definitions_queue        check (jobrun.is_name(queue)),
	constraint job_definitions_on_dead      check (jobrun.is_name(on_dead)),
	constraint job_definitions_priority     check (priority between -1000 and 1000),
	constraint job_definitions_max_attempts check (max_attempts between 1 and 2147483647),
	constraint job_definitions_durations    check (least(timeout, backoff_base, backoff_cap, catch_up_grace) >= interval '0'),
	constraint job_definitions_key          check (octet_length(concurrency_key) between 1 and 255),
	constraint job_definitions_catch_up     check (catch_up in ('once', 'skip', 'all')),
	constraint job_definitions_overlap      check (overlap in ('skip', 'allow')),
	constraint job_definitions_payload      check (pg_column_size(payload) <= 1049600)
);

create index job_definitions_next on jobrun.job_definitions (next_slot_at) where next_slot_at is not null and enabled;

-- What became of each occurrence of a schedule. More than 100 missed ones are one row: slots of them, the last at until.
create table jobrun.job_slots (
	definition_id bigint      not null,
	slot          timestamptz not null,
	until         timestamptz,
	run_id        bigint,
	slots         bigint      not null default 1,
	created_at    timestamptz not null default now(),
	outcome       text collate "C" not null,
	reason        text,
	primary key (definition_id, slot),
	constraint job_slots_outcome check (outcome in ('queued', 'skipped', 'coalesced')),
	constraint job_slots_run     check ((outcome = 'queued') = (run_id is not null)),
	constraint job_slots_count   check (slots >= 1 and (until is null or until >= slot) and (slots = 1 or until is not null))
);

-- ---------------------------------------------------------------------------------------------------------------- runs

create table jobrun.job_runs (
	id                  bigint      generated always as identity,
	claim_seq           bigint      not null default 0,   -- rises by one at each claim and only there
	runner_id           bigint,                           -- holder; after the end the last holder, as is locked_by
	attempts            bigint      not null default 0,   -- charged ones since the last retry; charged at claim
	max_attempts        bigint      not null default 5,
	snoozes             bigint      not null default 0,   -- turns given back by "later"
	releases            bigint      not null default 0,   -- turns given back by a shutdown
	definition_id       bigint,                           -- of a scheduled run
	parent_id           bigint,                           -- the run inside which it was enqueued
	run_at              timestamptz not null default now(),
	locked_until        timestamptz,
	started_at          timestamptz,                      -- of the last claim
	finished_at         timestamptz,
	failed_at           timestamptz,                      -- of the last charged failure
	created_at          timestamptz not null default now(),
	expires_at          timestamptz,
	cancel_requested_at timestamptz,
	slot                timestamptz,
	timeout             interval,                         -- 0: none
	backoff_base        interval,
	backoff_cap         interval,
	priority            smallint    not null default 100, -- smaller first
	status              text collate "C" not null default 'queued',
	queue               text collate "C" not null default 'default',
	job_type            text collate "C" not null,
	created_by          text collate "C" not null default session_user,
	locked_by           text collate "C",                 -- hostname, for people; never identity
	idempotency_key     text collate "C",
	unique_key          text collate "C",
	concurrency_key     text collate "C",
	trace_context       text,
	error_code          text collate "C",
	payload             jsonb       not null default '{}',
	progress            jsonb,
	checkpoint          jsonb,
	result              jsonb,
	last_error          text,
	constraint job_runs_status       check (status in ('queued', 'failed', 'running', 'succeeded', 'dead', 'cancelled')),
	-- "locked_until is not null" is what every fence asks, so it must mean "running" exactly
	constraint job_runs_lease        check ((status = 'running') = (locked_until is not null)),
	constraint job_runs_holder       check (status <> 'running'
		or (runner_id is not null and locked_by is not null and started_at is not null)),
	constraint job_runs_final        check ((status in ('succeeded', 'dead', 'cancelled')) = (finished_at is not null)),
	constraint job_runs_cancel       check (status not in ('queued', 'failed') or cancel_requested_at is null),
	constraint job_runs_max_attempts check (max_attempts between 1 and 2147483647),
	constraint job_runs_attempts     check (attempts between 0 and max_attempts
		and (status not in ('queued', 'failed') or attempts < max_attempts)
		and (status <> 'running' or attempts >= 1)),
	-- each claim adds one to claim_seq and one to one of the three; only retry lowers them
	constraint job_runs_claims       check (snoozes >= 0 and releases >= 0 and claim_seq >= attempts + snoozes + releases),
	constraint job_runs_run_at       check (isfinite(run_at)),
	constraint job_runs_durations    check (least(timeout, backoff_base, backoff_cap) >= interval '0'),
	constraint job_runs_priority     check (priority between -1000 and 1000),
	constraint job_runs_job_type     check (jobrun.is_name(job_type)),
	constraint job_runs_queue        check (jobrun.is_name(queue)),
	constraint job_runs_keys         check (octet_length(idempotency_key) between 1 and 255
		and octet_length(unique_key) between 1 and 255 and octet_length(concurrency_key) between 1 and 255),
	-- CHECKs run again at every UPDATE. pg_column_size reads no TOAST; the exact limit, 1 MiB of text, is in enqueue_run().
	-- The 1 KiB is room for the header that jsonb adds to a text of exactly 1 MiB.
	constraint job_runs_payload      check (pg_column_size(payload) <= 1049600),
	constraint job_runs_sizes        check (coalesce(pg_column_size(progress), 0) <= 65536
		and coalesce(pg_column_size(checkpoint), 0) <= 1049600 and coalesce(pg_column_size(result), 0) <= 1049600)
) with (
	-- room in each page, so that a heartbeat, which changes no indexed column, stays in its page (measured: 86 % at 70, 4 % at 100)
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
	autovacuum_analyze_scale_factor = 0.05
);

-- No index may name locked_until, in its columns or its predicate: heartbeats change it.
alter table jobrun.job_runs add constraint job_runs_pkey primary key (id);

-- The claim: one range for each combination of job type, queue and priority.
create index job_runs_ready on jobrun.job_runs (job_type, queue, priority, run_at, id)
	where status in ('queued', 'failed');

-- Limits, reclaim, adopt. What looks a run up by id never says "status = 'running'": the planner would come here.
create index job_runs_running on jobrun.job_runs (queue, concurrency_key) where status = 'running';

-- Over all existing rows.
create unique index job_runs_idempotency on jobrun.job_runs (job_type, idempotency_key)
	where idempotency_key is not null;

-- A row enters this index only when it is inserted, so no transition can ever conflict. What lies behind a retry and
-- what runs is found through the second one.
create unique index job_runs_unique on jobrun.job_runs (job_type, unique_key)
	where unique_key is not null and status = 'queued' and claim_seq = 0;
create index job_runs_unfinished_keys on jobrun.job_runs (job_type, unique_key)
	where unique_key is not null and finished_at is null;

-- The overlap rule of schedules.
create index job_runs_unfinished_definition on jobrun.job_runs (definition_id)
	where definition_id is not null and finished_at is null;

-- Housekeeping, statistics of the open hour, what happened lately. New entries go to its right edge.
create index job_runs_finished on jobrun.job_runs (finished_at) where finished_at is not null;

-- Bad news among millions of good ones.
create index job_runs_dead on jobrun.job_runs (id, finished_at) where status = 'dead';

-- Every attempt that did not succeed, and the successes that have something to tell; view jobrun.attempts has them all.
create table jobrun.job_attempts (
	run_id         bigint      not null,
	claim_seq      bigint      not null,
	attempt        bigint      not null,
	runner_id      bigint,
	pid            bigint,
	started_at     timestamptz,
	finished_at    timestamptz not null default now(),
	cpu_ms         bigint,
	max_rss_kb     bigint,
	output_dropped bigint      not null default 0,
	exit_status    integer,
	outcome        text collate "C" not null,
	error_code     text collate "C",
	host           text collate "C",
	error          text,
	output         text,
	primary key (run_id, claim_seq),
	constraint job_attempts_outcome check (outcome in ('succeeded', 'failed', 'dead', 'later', 'released', 'cancelled', 'lost')),
	constraint job_attempts_numbers check (claim_seq >= 1 and attempt >= 1 and output_dropped >= 0)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index job_attempts_finished on jobrun.job_attempts (finished_at);

-- Plain and without rules: what comes here has obeyed those of job_runs. A migration that adds a column there adds it here.
create table jobrun.job_runs_archive (
	like jobrun.job_runs,
	archived_at timestamptz not null default now(),
	primary key (id)
);

create index job_runs_archive_finished on jobrun.job_runs_archive (finished_at);

-- ------------------------------------------------------------------------------------------------- limits, pauses, hosts

-- A queue needs a row only when it is limited, paused, or has runs with a concurrency key.
create table jobrun.job_queues (
	rate_window_start   timestamptz,
	paused_until        timestamptz,                      -- infinity: until resumed
	rate_period         interval,
	max_running         bigint,
	max_running_per_key bigint  default 1,
	rate_limit          bigint,
	rate_used           bigint  not null default 0,       -- claims since rate_window_start; a release gives nothing back
	name                text collate "C" primary key,
	paused_reason       text,
	paused_by           text collate "C",
	constraint job_queues_names  check (jobrun.is_name(name)),
	constraint job_queues_limits check (least(max_running, max_running_per_key, rate_limit) >= 0 and rate_used >= 0),
	constraint job_queues_rate   check ((rate_limit is null) = (rate_period is null) and rate_period > interval '0')
) with (fillfactor = 50);

create table jobrun.job_types (
	paused_until  timestamptz,
	name          text collate "C" primary key,
	paused_reason text,
	paused_by     text collate "C",
	constraint job_types_name check (jobrun.is_name(name))
) with (fillfactor = 50);

-- One row for each jobrun process. The id is the runner's own random number, so that a repeated insert is harmless.
create table jobrun.job_runners (
	id            bigint      primary key,
	pid           bigint      not null,
	places        bigint      not null,
	started_at    timestamptz not null default now(),
	last_seen_at  timestamptz not null default now(),
	finished_at   timestamptz,
	lingers_until timestamptz,                            -- with --for: worth a NOTIFY until then
	host          text collate "C" not null,
	version       text collate "C" not null,
	job_types     text[]      not null default '{}',
	queues        text[],                                 -- null: all
	counts        jsonb       not null default '{}',      -- runs by outcome
	constraint job_runners_times check (finished_at is null or finished_at >= started_at)
) with (fillfactor = 50);

-- ---------------------------------------------------------------------------------------- statistics, effects, audit, roles

-- Completed hours, written by housekeeping before anything of them is pruned. Buckets count by powers of two of ms.
create table jobrun.job_stats (
	hour        timestamptz not null,
	n           bigint      not null,
	run_ms      bigint      not null default 0,           -- sum over n
	wait_ms     bigint      not null default 0,
	job_type    text collate "C" not null,
	queue       text collate "C" not null,
	outcome     text collate "C" not null,
	run_buckets  bigint[]   not null default '{}',
	wait_buckets bigint[]   not null default '{}',
	primary key (hour, job_type, queue, outcome),
	constraint job_stats_numbers check (n >= 0 and run_ms >= 0 and wait_ms >= 0),
	constraint job_stats_hour    check (hour = date_trunc('hour', hour at time zone 'UTC') at time zone 'UTC')
);

create table jobrun.job_effects (
	run_id     bigint,
	claim_seq  bigint,
	started_at timestamptz not null default now(),
	done_at    timestamptz,
	key        text collate "C" primary key,
	detail     jsonb,
	constraint job_effects_key check (octet_length(key) between 1 and 255)
);

create index job_effects_started on jobrun.job_effects (started_at);

create table jobrun.job_audit (
	id     bigint      generated always as identity primary key,
	at     timestamptz not null default now(),
	who    text collate "C" not null default session_user,
	action text collate "C" not null,
	object text collate "C" not null,
	old    jsonb,
	new    jsonb,
	reason text
);

create index job_audit_at on jobrun.job_audit (at);

create table jobrun.job_grants (
	granted_at timestamptz not null default now(),
	role       text collate "C" not null,
	kind       text collate "C" not null,
	job_types  text[],                                    -- kind enqueue: null is all
	primary key (role, kind),
	constraint job_grants_kind  check (kind in ('enqueue', 'run', 'read', 'admin')),
	constraint job_grants_types check (job_types is null or kind = 'enqueue')
);

-- Storage settings that PostgreSQL 12 does not know.
do $do$
begin
	if current_setting('server_version_num')::integer >= 130000 then
		alter table jobrun.job_runs set (autovacuum_vacuum_insert_scale_factor = 0.1);
		alter table jobrun.job_attempts set (autovacuum_vacuum_insert_scale_factor = 0.1);
	end if;
end
$do$;

-- --------------------------------------------------------------------------------------------------------------- views

-- The runs for people: "retrying" instead of "failed", no payload, result, output or error text.
create view jobrun.runs with (security_barrier) as
select r.id, r.job_type, r.queue, r.priority, case r.status when 'failed' then 'retrying' else r.status end as status,
	r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq, r.error_code, r.locked_by as host, r.runner_id,
	r.locked_until, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at, r.cancel_requested_at,
	r.definition_id, r.slot, r.parent_id, r.idempotency_key, r.unique_key, r.concurrency_key, r.timeout, r.backoff_base, r.backoff_cap,
	false as archived
from jobrun.job_runs r
union all
select r.id, r.job_type, r.queue, r.priority, r.status,
	r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases, r.claim_seq, r.error_code, r.locked_by, r.runner_id,
	r.locked_until, r.created_at, r.created_by, r.started_at, r.failed_at, r.finished_at, r.expires_at, r.cancel_requested_at,
	r.definition_id, r.slot, r.parent_id, r.idempotency_key, r.unique_key, r.concurrency_key, r.timeout, r.backoff_base, r.backoff_cap,
	true
from jobrun.job_runs_archive r;

-- All attempts that ended: the rows of job_attempts, and from the run the plain success that needed none.
create view jobrun.attempts with (security_barrier) as
select a.run_id, a.claim_seq, a.attempt, a.outcome, a.error_code, a.exit_status, a.host, a.pid, a.runner_id,
	a.started_at, a.finished_at, a.cpu_ms, a.max_rss_kb, a.output_dropped
from jobrun.job_attempts a
union all
select r.id, r.claim_seq, r.attempts, r.status, null, null, r.locked_by, null, r.runner_id, r.started_at, r.finished_at, null, null, 0
from jobrun.job_runs r
where r.status = 'succeeded'
	and not exists (select from jobrun.job_attempts a where a.run_id = r.id and a.claim_seq = r.claim_seq)
union all
select r.id, r.claim_seq, r.attempts, r.status, null, null, r.locked_by, null, r.runner_id, r.started_at, r.finished_at, null, null, 0
from jobrun.job_runs_archive r
where r.status = 'succeeded'
	and not exists (select from jobrun.job_attempts a where a.run_id = r.id and a.claim_seq = r.claim_seq);

-- Running rows as a runner gets them. claim(), claim_job() and adopt.sql all give these columns, in this order.
create view jobrun.held_runs as
select r.id, r.claim_seq, r.job_type, r.queue, r.priority, r.run_at, r.attempts, r.max_attempts, r.snoozes, r.releases,
	(extract(epoch from r.timeout) * 1000)::bigint      as timeout_ms,
	(extract(epoch from r.backoff_base) * 1000)::bigint as backoff_base_ms,
	(extract(epoch from r.backoff_cap) * 1000)::bigint  as backoff_cap_ms,
	r.expires_at is not null and r.expires_at <= now()  as expired,
	r.cancel_requested_at is not null                   as cancelled,
	coalesce(r.idempotency_key, (select s.install_id::text from jobrun.settings s) || '-' || r.id) as key,
	to_char(r.slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as slot,
	r.checkpoint::text as checkpoint,
	r.trace_context,
	r.payload::text    as payload
from jobrun.job_runs r
where r.locked_until is not null;

-- ------------------------------------------------------------------------------------------------------ does it fit?

-- The schema's version, if it lies between the two; else JR078 with what to do.
create function jobrun.need(min_version integer, max_version integer) returns integer
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_version constant integer := coalesce((select max(m.version) from jobrun.schema_migrations m), 0);
begin
	if v_version < min_version then
		raise exception 'schema jobrun is at version %, this jobrun needs %: type ''jobrun migrate''', v_version, min_version
			using errcode = 'JR078';
	elsif v_version > max_version then
		raise exception 'schema jobrun is at version %, newer than this jobrun knows (%): install a newer jobrun',
			v_version, max_version using errcode = 'JR078';
	end if;
	return v_version;
end
$fn$;

-- ------------------------------------------------------------------------------------------------------------- enqueue

-- May the session's user do what only people in charge may? session_user: inside these functions current_user is the owner.
create function jobrun.is_admin() returns boolean
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select pg_has_role(session_user, n.nspowner, 'member')
		or exists (select from jobrun.job_grants g join pg_roles o on o.rolname = g.role
			where g.kind = 'admin' and pg_has_role(session_user, o.oid, 'member'))
	from pg_namespace n where n.nspname = 'jobrun'
$fn$;

-- The three below raise JR065, bad data, with the argument's name and what is wrong with it.
create function jobrun.check_name(argument text, name text) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if jobrun.is_name(name) is distinct from true then
		raise exception '% "%" is not a name: up to 63 of a-z, 0-9, "_", "." and "-", beginning with a letter or digit, not ending in .sql or .json',
			argument, coalesce(left(name, 100), '') using errcode = 'JR065';
	end if;
end
$fn$;

create function jobrun.check_duration(argument text, duration interval) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if duration < interval '0' then
		raise exception '% "%" is negative; durations count forward', argument, duration using errcode = 'JR065';
	elsif not isfinite(duration) or duration > interval '100 years' then
		raise exception '% "%" is too long; at most 100 years', argument, duration using errcode = 'JR065';
	end if;
end
$fn$;

create function jobrun.check_key(argument text, key text) returns void
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	if octet_length(key) not between 1 and 255 then
		raise exception '% has % bytes; from 1 to 255 are possible', argument, octet_length(key) using errcode = 'JR065';
	end if;
end
$fn$;

-- lock_waiting: the run, locked to the end of the caller's transaction, if it still waits; else nulls, and nothing locked.
-- The lock keeps claims off the run until the caller commits, so that the run sees what the caller wrote. To wait for it is to
-- wait for a claim, and what was claimed meanwhile would stay locked in the hands of the caller, who may take hours to commit:
-- no heartbeat would get through. So the lock is taken in a subtransaction and given back with it.
create function jobrun.lock_waiting(run_id bigint, to_change boolean) returns jobrun.job_runs
language plpgsql volatile set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run jobrun.job_runs;
begin
	if to_change then
		select r.* into v_run from jobrun.job_runs r where r.id = run_id for no key update;
	else
		select r.* into v_run from jobrun.job_runs r where r.id = run_id for share;
	end if;
	if v_run.status in ('queued', 'failed') then
		return v_run;
	end if;
	raise exception 'run % does not wait any more', run_id using errcode = 'JR001';
exception when sqlstate 'JR001' then
	return null;
end
$fn$;

create type jobrun.enqueued as (
	id        bigint,
	created   boolean,      -- false: it was there before, by its idempotency key or its unique key
	replaced  boolean,      -- true: it waited and was changed
	status    text,
	job_type  text,
	queue     text,
	priority  smallint,
	run_at    timestamptz
);

-- enqueue_run: one run, in the caller's transaction; says also whether the run is new. enqueue() is the same with the id alone.
--  payload .. backoff_cap   null: what the definition of the job type's name says, else the built-in default
--  run_in, run_at           one of the two; the past means now
--  expires_in               counts from the time it is due; a run that could not start until then goes dead unstarted
--  idempotency_key          the same run again as long as that one exists, whatever has become of it
--  unique_key, on_conflict  if a run with the key waits: keep it, replace its payload, priority and time, or (unless_running)
--                           keep it and be content with one that runs, too
-- Bad data raises JR065. In REPEATABLE READ and SERIALIZABLE it may raise 40001, as any write may.
create function jobrun.enqueue_run(
	job_type        text,
	payload         jsonb       default null,
	queue           text        default null,
	priority        integer     default null,
	run_in          interval    default null,
	run_at          timestamptz default null,
	expires_in      interval    default null,
	max_attempts    bigint      default null,
	timeout         interval    default null,
	backoff_base    interval    default null,
	backoff_cap     interval    default null,
	idempotency_key text        default null,
	unique_key      text        default null,
	on_conflict     text        default 'keep',
	concurrency_key text        default null,
	parent_id       bigint      default null,
	trace_context   text        default null)
returns jobrun.enqueued
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_type     constant text := enqueue_run.job_type;
	v_idem     constant text := enqueue_run.idempotency_key;
	v_unique   constant text := enqueue_run.unique_key;
	v_conflict constant text := coalesce(enqueue_run.on_conflict, 'keep');
	v_def      jobrun.job_definitions;
	v_payload  jsonb;
	v_queue    text;
	v_priority bigint;
	v_attempts bigint;
	v_key      text;
	v_due      timestamptz;
	v_id       bigint;
	v_run      jobrun.job_runs;
	v_created  boolean := false;
	v_replaced boolean := false;
begin
	perform jobrun.check_name('job type', v_type);
	if v_type like 'jobrun.%' and not jobrun.is_admin() then
		raise exception 'job type "%": names that begin with "jobrun." are reserved', v_type using errcode = 'JR065';
	end if;

	select d.* into v_def from jobrun.job_definitions d where d.name = v_type;
	v_payload  := coalesce(enqueue_run.payload, v_def.payload, '{}');
	v_queue    := coalesce(enqueue_run.queue, v_def.queue, 'default');
	v_priority := coalesce(enqueue_run.priority, v_def.priority, 100);
	v_attempts := coalesce(enqueue_run.max_attempts, v_def.max_attempts, 5);
	v_key      := coalesce(enqueue_run.concurrency_key, v_def.concurrency_key);

	if octet_length(v_payload::text) > 1048576 then
		raise exception 'the payload has % bytes; the limit is 1048576', octet_length(v_payload::text) using errcode = 'JR065';
	elsif pg_column_size(v_payload) > 1049600 then
		raise exception 'the payload takes % bytes as jsonb, its text %; the limit is 1048576 for both',
			pg_column_size(v_payload), octet_length(v_payload::text) using errcode = 'JR065';
	elsif v_priority not between -1000 and 1000 then
		raise exception 'priority % is out of range; from -1000 to 1000, smaller first', v_priority using errcode = 'JR065';
	elsif v_attempts not between 1 and 2147483647 then
		raise exception 'max_attempts % is out of range; at least 1', v_attempts using errcode = 'JR065';
	elsif v_conflict not in ('keep', 'replace', 'unless_running') then
		raise exception 'on_conflict "%" is not one of keep, replace, unless_running', left(v_conflict, 100) using errcode = 'JR065';
	elsif enqueue_run.run_in is not null and enqueue_run.run_at is not null then
		raise exception 'run_in and run_at exclude each other' using errcode = 'JR065';
	elsif not isfinite(enqueue_run.run_at) or enqueue_run.run_at > now() + interval '100 years' then
		raise exception 'run_at "%" never comes; at most 100 years from now', enqueue_run.run_at using errcode = 'JR065';
	end if;
	perform jobrun.check_name('queue', v_queue);
	perform jobrun.check_duration('run_in', enqueue_run.run_in);
	perform jobrun.check_duration('expires_in', enqueue_run.expires_in);
	perform jobrun.check_duration('timeout', enqueue_run.timeout);
	perform jobrun.check_duration('backoff_base', enqueue_run.backoff_base);
	perform jobrun.check_duration('backoff_cap', enqueue_run.backoff_cap);
	perform jobrun.check_key('idempotency_key', v_idem);
	perform jobrun.check_key('unique_key', v_unique);
	perform jobrun.check_key('concurrency_key', v_key);
	perform jobrun.check_key('trace_context', enqueue_run.trace_context);
	v_due := greatest(now(), coalesce(enqueue_run.run_at, now() + enqueue_run.run_in, now()));

	-- A limit per key needs a queue row to lock. The look saves the row lock that even a do-nothing insert may wait for.
	if v_key is not null and not exists (select from jobrun.job_queues q where q.name = v_queue) then
		insert into jobrun.job_queues (name) values (v_queue) on conflict do nothing;
	end if;

	-- Each statement below has a snapshot of its own. A turn that finds nothing and then cannot insert has met a run that
	-- was committed in between: the next turn sees it.
	for turn in 1 .. 10 loop
		if v_idem is not null then
			select r.* into v_run from jobrun.job_runs r where r.job_type = v_type and r.idempotency_key = v_idem;
			if found then
				if v_run.payload <> v_payload then
					raise notice 'run % has this idempotency key and another payload; it stays as it is', v_run.id;
				end if;
				exit;
			end if;
		end if;

		if v_unique is not null then
			select r.id into v_id from jobrun.job_runs r
			where r.job_type = v_type and r.unique_key = v_unique and r.finished_at is null and r.status in ('queued', 'failed')
			order by r.claim_seq, r.id limit 1;
			if found then
				v_run := jobrun.lock_waiting(v_id, v_conflict = 'replace');
				continue when v_run.id is null;
				if v_conflict = 'replace' then
					update jobrun.job_runs r
					set payload = v_payload, priority = v_priority, run_at = v_due,
						expires_at = coalesce(v_due + enqueue_run.expires_in, r.expires_at)
					where r.id = v_id returning r.* into v_run;
					v_replaced := true;
				end if;
				exit;
			end if;
			if v_conflict = 'unless_running' then
				select r.* into v_run from jobrun.job_runs r
				where r.job_type = v_type and r.unique_key = v_unique and r.finished_at is null and r.status = 'running'
				order by r.id desc limit 1;
				exit when found;
			end if;
		end if;

		insert into jobrun.job_runs as r (job_type, payload, queue, priority, run_at, expires_at, max_attempts, timeout,
			backoff_base, backoff_cap, idempotency_key, unique_key, concurrency_key, parent_id, trace_context)
		values (v_type, v_payload, v_queue, v_priority, v_due, v_due + enqueue_run.expires_in, v_attempts,
			coalesce(enqueue_run.timeout, v_def.timeout), coalesce(enqueue_run.backoff_base, v_def.backoff_base),
			coalesce(enqueue_run.backoff_cap, v_def.backoff_cap), v_idem, v_unique, v_key, enqueue_run.parent_id,
			enqueue_run.trace_context)
		on conflict do nothing
		returning r.id into v_id;
		v_created := found;
		exit when v_created;
	end loop;

	if v_created then
		return (v_id, true, false, 'queued', v_type, v_queue, v_priority, v_due)::jobrun.enqueued;
	elsif v_run.id is null then
		raise exception 'runs with key "%" come and go too fast; try again', coalesce(v_unique, v_idem)
			using errcode = 'serialization_failure';
	end if;
	return (v_run.id, false, v_replaced, v_run.status, v_run.job_type, v_run.queue, v_run.priority, v_run.run_at)::jobrun.enqueued;
end
$fn$;

-- enqueue: see enqueue_run. Returns the id.
create function jobrun.enqueue(
	job_type        text,
	payload         jsonb       default null,
	queue           text        default null,
	priority        integer     default null,
	run_in          interval    default null,
	run_at          timestamptz default null,
	expires_in      interval    default null,
	max_attempts    bigint      default null,
	timeout         interval    default null,
	backoff_base    interval    default null,
	backoff_cap     interval    default null,
	idempotency_key text        default null,
	unique_key      text        default null,
	on_conflict     text        default 'keep',
	concurrency_key text        default null,
	parent_id       bigint      default null,
	trace_context   text        default null)
returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_run jobrun.enqueued;
begin
	v_run := jobrun.enqueue_run(job_type, payload, queue, priority, run_in, run_at, expires_in, max_attempts, timeout, backoff_base,
		backoff_cap, idempotency_key, unique_key, on_conflict, concurrency_key, parent_id, trace_context);
	return v_run.id;
end
$fn$;

-- ------------------------------------------------------------------------------------------------- cancel, retry, status

-- cancel: a waiting run ends here, a running one is asked to (its runner sees it at the next heartbeat; no status change).
-- Returns what is so now: cancelled, requested; succeeded or dead when it had ended before; null when there is no such run.
create function jobrun.cancel(id bigint) returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_status text;
begin
	select r.status into v_status from jobrun.job_runs r where r.id = cancel.id for no key update;
	if v_status in ('queued', 'failed') then
		update jobrun.job_runs r set status = 'cancelled', finished_at = now(), error_code = 'cancelled'
		where r.id = cancel.id;
		return 'cancelled';
	elsif v_status = 'running' then
		update jobrun.job_runs r set cancel_requested_at = now() where r.id = cancel.id and r.cancel_requested_at is null;
		return 'requested';
	end if;
	return v_status;
end
$fn$;

-- retry: makes a run due now with all its attempts before it; claim_seq goes on. Returns retried; running (refused); succeeded
-- (refused without force); null when there is no such run.
create function jobrun.retry(id bigint, force boolean default false) returns text
language plpgsql volatile security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_column
declare
	v_status text;
begin
	begin
		select r.status into v_status from jobrun.job_runs r where r.id = retry.id for no key update;
		if v_status = 'running' then           -- the lock is given back: it would keep heartbeats out
			raise exception 'run % is running', id using errcode = 'JR001';
		end if;
	exception when sqlstate 'JR001' then
		return 'running';
	end;
	if v_status is null or (v_status = 'succeeded' and force is not true) then
		return v_status;
	end if;

	-- The plain success lives in the run row alone, which is about to forget it.
	insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, host, runner_id, started_at, finished_at)
	select r.id, r.claim_seq, r.attempts, 'succeeded', r.locked_by, r.runner_id, r.started_at, r.finished_at
	from jobrun.job_runs r where r.id = retry.id and r.status = 'succeeded'
	on conflict do nothing;

	update jobrun.job_runs r
	set status = 'queued', run_at = now(), attempts = 0, snoozes = 0, releases = 0,
		finished_at = null, cancel_requested_at = null, result = null, progress = null,
		-- a run that had expired would only expire again
		expires_at = case when r.expires_at > now() then r.expires_at end,
		-- of a success the next attempt would have nothing left to do
		checkpoint = case when r.status <> 'succeeded' then r.checkpoint end,
		-- cancelled before its first claim: with its key it would enter job_runs_unique, where another may stand by now
		unique_key = case when r.status in ('queued', 'failed') or r.claim_seq > 0 then r.unique_key end
	where r.id = retry.id;
	return 'retried';
end
$fn$;

-- run_status: what has become of these runs. No row for an id that does not exist.
create function jobrun.run_status(ids bigint[])
returns table (id bigint, job_type text, status text, attempts bigint, max_attempts bigint, run_at timestamptz,
	finished_at timestamptz, error_code text)
language sql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
	select r.id, r.job_type, r.status, r.attempts, r.max_attempts, r.run_at, r.finished_at, r.error_code
	from jobrun.job_runs r where r.id = any (ids) order by r.id
$fn$;

-- --------------------------------------------------------------------------------------------------------------- claim

-- is_limited: must the queue's row be locked before runs are claimed from it?
create function jobrun.is_limited(queue jobrun.job_queues) returns boolean
language sql immutable as $fn$
	select queue.max_running is not null or queue.max_running_per_key is not null or queue.rate_limit is not null
$fn$;

-- rate_left: claims left in the fixed window of the queue; null: no limit.
create function jobrun.rate_left(queue jobrun.job_queues) returns bigint
language sql stable as $fn$
	select case when queue.rate_window_start + queue.rate_period > now() then queue.rate_limit - queue.rate_used
		else queue.rate_limit end
$fn$;

-- claim: at most n due runs for a runner, best first (priority, run_at, id). Expired runs are claimed too, for settle to end them.
--
--  1. The runner knows which combinations of job type, queue and priority have due runs (combos.sql) and passes them as three
--     parallel arrays, with the last run it claimed as cursor, so that no dead index entry is walked twice.
--  2. Limited queues are locked first, in order of name, by a statement of its own: what follows has a younger snapshot, so
--     its counts are exact. If there is none, the usual case, nothing is locked: that is the whole check.
--  3. Each combination gives its first due runs from one index range; they are merged and cut.
--  4. Only the cut is locked (SKIP LOCKED), looked at again, and turned into running.
--
-- Every statement of a volatile function has its own snapshot only in READ COMMITTED: anything else is refused.
-- force_generic_plan: planned once a connection without a named prepared statement; the joins are by ctid, so that no
-- statistics, however wrong, can make them anything but nested loops.
create function jobrun.claim(
	runner_id bigint, host text, n integer, job_types text[], queues text[], priorities smallint[],
	after_priority smallint, after_run_at timestamptz, after_id bigint, lease_ms bigint)
returns setof jobrun.held_runs
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
#variable_conflict use_column
declare
	v_runner   constant bigint := runner_id;
	v_host     constant text := host;
	v_until    constant timestamptz := now() + lease_ms * interval '1 millisecond';
	v_batch    constant integer := 2 * n + 50;          -- some spare, in case others hold the first ones
	v_priority smallint := coalesce(after_priority, -32768);
	v_run_at   timestamptz := coalesce(after_run_at, '-infinity');
	v_id       bigint := coalesce(after_id, 0);
	v_limited  text[];
	v_ids      bigint[];
	v_new      bigint[];
	v_seen     integer;
	v_looked   integer := 0;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.claim needs READ COMMITTED' using errcode = 'feature_not_supported';
	elsif n is null or n <= 0 then
		return;
	end if;

	v_limited := array(select l.name from (
		select q.name from jobrun.job_queues q where q.name = any (queues) and jobrun.is_limited(q)
		order by q.name for no key update) l);

	if v_limited = '{}' then
		with c as materialized (           -- not behind the cursor, not paused, no limit set meanwhile
			select c.job_type, c.queue, c.priority,
				case when c.priority = v_priority then v_run_at else '-infinity' end as after_run_at, v_id as after_id
			from unnest(job_types, queues, priorities) c(job_type, queue, priority)
			where c.priority >= v_priority
				and not exists (select from jobrun.job_queues q
					where q.name = c.queue and (q.paused_until > now() or jobrun.is_limited(q)))
				and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
		pick as materialized (             -- the first due runs of each, merged and cut; no lock yet
			select p.* from c cross join lateral (
				select r.ctid as tid, r.priority, r.run_at, r.id from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
					and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
				order by r.run_at, r.id limit v_batch) p
			order by p.priority, p.run_at, p.id limit v_batch),
		got as materialized (              -- n of them, locked in order; looked at again, since they may have changed
			select r.ctid as tid from pick p join jobrun.job_runs r on r.ctid = p.tid
			where r.status in ('queued', 'failed') and r.run_at <= now()
			order by p.priority, p.run_at, p.id limit n
			for no key update of r skip locked),
		taken as (
			update jobrun.job_runs r
			set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
				attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
			from got where r.ctid = got.tid
			returning r.id)
		select array_agg(taken.id) into v_ids from taken;
	end if;

	-- With limits; and without, in the rare case that all the first ones were held by others: on behind them, until something is
	-- found. A saturated key or a locked row must not hide what lies behind it.
	while v_ids is null or (v_limited <> '{}' and cardinality(v_ids) < n) loop
		with lim as materialized (         -- room left in each limited queue; its row is locked, so this is exact
			select q.name, q.max_running_per_key as per_key,
				least(jobrun.rate_left(q), q.max_running - (select count(*) from jobrun.job_runs r
					where r.status = 'running' and r.queue = q.name)) as room
			from jobrun.job_queues q where q.name = any (v_limited)),
		held as materialized (             -- running of each key, in queues with a limit per key
			select r.queue, r.concurrency_key, count(*) as n
			from lim join jobrun.job_runs r on r.queue = lim.name
			where lim.per_key is not null and r.status = 'running' and r.concurrency_key is not null
			group by r.queue, r.concurrency_key),
		c as materialized (
			select c.job_type, c.queue, c.priority, lim.room, lim.per_key,
				case when c.priority = v_priority then v_run_at else '-infinity' end as after_run_at, v_id as after_id,
				array(select h.concurrency_key from held h where h.queue = c.queue and h.n >= lim.per_key) as full_keys
			from unnest(job_types, queues, priorities) c(job_type, queue, priority)
			left join lim on lim.name = c.queue
			where c.priority >= v_priority and (lim.room is null or lim.room > 0)
				and not exists (select from jobrun.job_queues q
					where q.name = c.queue and (q.paused_until > now() or (lim.name is null and jobrun.is_limited(q))))
				and not exists (select from jobrun.job_types t where t.name = c.job_type and t.paused_until > now())),
		pick as materialized (
			select p.*, c.queue, c.room, c.per_key from c cross join lateral (
				select r.ctid as tid, r.priority, r.run_at, r.id, r.concurrency_key from jobrun.job_runs r
				where r.status in ('queued', 'failed') and r.job_type = c.job_type and r.queue = c.queue and r.priority = c.priority
					and r.run_at <= now() and (r.run_at, r.id) > (c.after_run_at, c.after_id)
					and (r.concurrency_key is null or r.concurrency_key <> all (c.full_keys))
				order by r.run_at, r.id limit v_batch) p
			order by p.priority, p.run_at, p.id limit v_batch),
		keyed as (                         -- n-th of its key, counting those that run
			select p.*, coalesce(h.n, 0)
				+ row_number() over (partition by p.queue, p.concurrency_key order by p.priority, p.run_at, p.id) as nth_of_key
			from pick p left join held h on h.queue = p.queue and h.concurrency_key = p.concurrency_key),
		fits as materialized (             -- n-th of its queue, among those whose key has room
			select f.* from (
				select k.*, row_number() over (partition by k.queue order by k.priority, k.run_at, k.id) as nth_of_queue
				from keyed k where k.per_key is null or k.concurrency_key is null or k.nth_of_key <= k.per_key) f
			where f.room is null or f.nth_of_queue <= f.room),
		got as materialized (
			select r.ctid as tid from fits p join jobrun.job_runs r on r.ctid = p.tid
			where r.status in ('queued', 'failed') and r.run_at <= now()
			order by p.priority, p.run_at, p.id limit n - coalesce(cardinality(v_ids), 0)
			for no key update of r skip locked),
		taken as (
			update jobrun.job_runs r
			set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = v_until, started_at = now(),
				attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
			from got where r.ctid = got.tid
			returning r.id, r.queue),
		rated as (                         -- the window is paid for by the transaction that holds the queue's row
			update jobrun.job_queues q
			set rate_used = t.n + case when q.rate_window_start + q.rate_period > now() then q.rate_used else 0 end,
				rate_window_start = case when q.rate_window_start + q.rate_period > now() then q.rate_window_start else now() end
			from (select taken.queue, count(*) as n from taken group by taken.queue) t
			where q.name = t.queue and q.name = any (v_limited) and q.rate_limit is not null
			returning q.name)
		select array(select taken.id from taken), (select count(*) from pick), l.priority, l.run_at, l.id
		into v_new, v_seen, v_priority, v_run_at, v_id
		from (select 1) always left join
			(select p.priority, p.run_at, p.id from pick p order by p.priority desc, p.run_at desc, p.id desc limit 1) l on true;
		v_ids := nullif(v_ids || v_new, '{}');
		v_looked := v_looked + v_seen;
		exit when v_seen < v_batch or v_looked >= 10000;
	end loop;

	return query select h.* from jobrun.held_runs h where h.id = any (v_ids) order by h.priority, h.run_at, h.id;
end
$fn$;

-- claim_job: this one run, whatever its run_at, whether paused or not, if it waits, nobody holds it, its type is among those the host
-- has and its queue's limits have room. Zero rows otherwise.
create function jobrun.claim_job(runner_id bigint, host text, job_id bigint, lease_ms bigint, job_types text[])
returns setof jobrun.held_runs
language plpgsql volatile
set search_path = pg_catalog, jobrun, pg_temp set plan_cache_mode = force_generic_plan as $fn$
#variable_conflict use_column
declare
	v_runner constant bigint := runner_id;
	v_host   constant text := host;
	v_queue  jobrun.job_queues;
	v_run    jobrun.job_runs;
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'jobrun.claim_job needs READ COMMITTED' using errcode = 'feature_not_supported';
	end if;
	select q.* into v_queue from jobrun.job_queues q
	where q.name = (select r.queue from jobrun.job_runs r where r.id = job_id) and jobrun.is_limited(q) for no key update;
	select r.* into v_run from jobrun.job_runs r
	where r.id = job_id and r.finished_at is null and r.status in ('queued', 'failed') and r.job_type = any (job_types)
	for no key update skip locked;
	if not found
		or jobrun.rate_left(v_queue) <= 0
		or v_queue.max_running <= (select count(*) from jobrun.job_runs r where r.status = 'running' and r.queue = v_queue.name)
		or v_queue.max_running_per_key <= (select count(*) from jobrun.job_runs r
			where r.status = 'running' and r.queue = v_queue.name and r.concurrency_key = v_run.concurrency_key)
	then
		return;
	end if;
	update jobrun.job_queues q
	set rate_used = 1 + case when q.rate_window_start + q.rate_period > now() then q.rate_used else 0 end,
		rate_window_start = case when q.rate_window_start + q.rate_period > now() then q.rate_window_start else now() end
	where q.name = v_queue.name and q.rate_limit is not null;
	update jobrun.job_runs r
	set status = 'running', runner_id = v_runner, locked_by = v_host, locked_until = now() + lease_ms * interval '1 millisecond',
		started_at = now(), attempts = r.attempts + 1, claim_seq = r.claim_seq + 1
	where r.id = job_id;
	return query select h.* from jobrun.held_runs h where h.id = job_id;
end
$fn$;

-- Nobody may call anything unless it is granted; tables and views are private by default. Whoever may write tables needs
-- is_name() as well, since CHECKs call it; whoever may claim needs is_limited() and rate_left().
revoke all on all functions in schema jobrun from public;
