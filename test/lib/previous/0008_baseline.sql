-- baseline: types, tables, indexes, rules, and the one function that CHECKs need. What else is a function, a view, a trigger or
-- a row that must be there is in functions/.
--
-- Throughout: fixed-width columns stand first. Names and keys are collate "C": cheap to compare, and no upgrade of the
-- C library can break their indexes. No foreign keys between the hot tables: each would lock a row for each run.
-- A run waits (queued, failed), is running, or is final (succeeded, dead, cancelled).

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
	stats_until      timestamptz not null,                          -- what ended before it is in job_stats
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
		keep_slots, keep_effects, keep_audit, keep_stats) >= interval '0'),
	constraint settings_stats_until check (stats_until = date_trunc('hour', stats_until at time zone 'UTC') at time zone 'UTC')
);

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
	constraint job_definitions_payload      check (pg_column_size(payload) <= 1049600),
	constraint job_definitions_next_slot    check (isfinite(next_slot_at))
);

-- Also those that are disabled: their slots are recorded as skipped.
create index job_definitions_next on jobrun.job_definitions (next_slot_at) where next_slot_at is not null;
create index job_definitions_paused on jobrun.job_definitions (paused_until) where paused_until is not null;

-- What define() did.
create type jobrun.defined as (
	name   text,
	action text,      -- created, changed, unchanged, removed
	old    jsonb,     -- as define takes it, what has no value left out; null: there was none
	new    jsonb
);

-- What a schedule says. days: bits 1 to 31, and bit 0 for L. The other masks: bit n is n. star: the field begins with "*".
-- every: all others are null.
create type jobrun.schedule_fields as (minutes bigint, hours integer, days bigint, months integer, weekdays integer,
	hours_star boolean, days_star boolean, weekdays_star boolean, every interval);

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

create index job_slots_slot on jobrun.job_slots (slot);

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
	output_dropped      bigint,                           -- with output
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
	output              text,                             -- of the running attempt, as of the last heartbeat; then in job_attempts
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
	constraint job_runs_horizon      check (run_at <= created_at + interval '101 years'),
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
		and coalesce(pg_column_size(checkpoint), 0) <= 1049600 and coalesce(pg_column_size(result), 0) <= 1049600),
	constraint job_runs_output       check (output is null or (locked_until is not null and pg_column_size(output) <= 262144))
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

-- Housekeeping walks from the oldest of a kind to the first that stays: what is kept longer must not lie in between. The kinds
-- are those of prune_step(): what succeeded goes soon, unless it has an idempotency key that somebody gave ("cli:" is what the
-- command line makes up); then the key guards as long as the run is kept.
create index job_runs_kept on jobrun.job_runs ((case
	when status <> 'succeeded' then status
	when idempotency_key is null or idempotency_key like 'cli:%' then 'succeeded'
	else 'keyed' end), finished_at) where finished_at is not null;

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
create index job_attempts_output on jobrun.job_attempts (finished_at) where output is not null;

-- Plain and without rules: what comes here has obeyed those of job_runs. A migration that adds a column there adds it here.
create table jobrun.job_runs_archive (
	like jobrun.job_runs,
	archived_at timestamptz not null default now(),
	primary key (id)
);

create index job_runs_archive_finished on jobrun.job_runs_archive (finished_at);

-- -------------------------------------------------------------------------------------------------------------- enqueue

-- What enqueue_run() answers.
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

-- new_runs: to be inserted into, best with COPY; a row is a run. options: a JSON object with arguments of enqueue by their
-- names, durations as texts ('5 minutes'); run: the same for this row, wins over options, and may have the payload as well. So
-- the lines of a file can share their options. A row of nulls alone is passed over, so that an empty line of a file may be sent
-- as one, and rows count as lines: what is wrong with one is told as "line N: ..." (COPY itself tells bad JSON in its CONTEXT).
-- How many runs are new, and how many were there before by their keys, is counted in the settings jobrun.new_runs_created and
-- jobrun.new_runs_existed of the transaction. The rows are gone at the end of the statement that brought them.
create unlogged table jobrun.new_runs (
	nr       bigint generated always as identity primary key,
	job_type text,
	payload  jsonb,
	options  jsonb,
	run      jsonb
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- The members of options and run.
create type jobrun.run_options as (
	payload jsonb, queue text, priority integer, run_in interval, run_at timestamptz, expires_in interval, max_attempts bigint,
	timeout interval, backoff_base interval, backoff_cap interval, idempotency_key text, unique_key text, on_conflict text,
	concurrency_key text, parent_id bigint, trace_context text);

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

create index job_runners_lingering on jobrun.job_runners (lingers_until) where lingers_until is not null;
create index job_runners_started on jobrun.job_runners (started_at);

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
create index job_audit_object on jobrun.job_audit (object);

create table jobrun.job_grants (
	granted_at timestamptz not null default now(),
	role       text collate "C" not null,
	kind       text collate "C" not null,
	job_types  text[],                                    -- kind enqueue: null is all
	primary key (role, kind),
	constraint job_grants_kind  check (kind in ('enqueue', 'run', 'read', 'admin')),
	constraint job_grants_types check (job_types is null or kind = 'enqueue')
);

-- What is to go of a kind: see prune_rule().
create type jobrun.prune_rule as (
	table_name text,          -- where rows of the kind are
	at_column  text,          -- their age, and the order in which they go
	condition  text,          -- which of the rows x there, that are older than $2, are of the kind
	before     timestamptz,   -- what is older goes
	runs       boolean
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
