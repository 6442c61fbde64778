-- comments: what \d+, \dv+ and \df+ say to people. It is applied after all others.

comment on schema jobrun is 'background jobs, run by the program jobrun; see man jobrun';

-- Tables and views, then columns. A column without a relation has the same meaning wherever there is one of that name.
do $do$
declare
	v_relation text;
	v_column   text;
	v_text     text;
	v_found    name;
begin
	for v_relation, v_text in values
		('job_definitions', 'defaults for a job type, and schedules; jobrun define writes it'),
		('job_slots', 'each time at which a schedule was due, and what came of it'),
		('job_runs', 'pieces of work, from enqueue to their end; finished ones until housekeeping removes them'),
		('job_attempts', 'attempts that did not succeed, and successes with output or of a certain size; view attempts has the others, too'),
		('job_runs_archive', 'finished runs that housekeeping has moved here, by month; settings.archive'),
		('job_attempts_archive', 'the attempts of archived runs, by month of the end of the run'),
		('job_queues', 'limits and pauses of queues; a queue without a row has no limits'),
		('job_types', 'pauses of job types'),
		('job_runners', 'jobrun processes, from their start until housekeeping removes them'),
		('job_stats', 'sums of what ended, by the hour'),
		('job_effects', 'effects that are done once; see effect()'),
		('job_audit', 'who has changed what'),
		('job_grants', 'what roles may do; jobrun grant writes it'),
		('new_runs', 'a door for COPY: each row that is inserted becomes a run at once'),
		('settings', 'one row: what this installation is, and how long rows are kept'),
		('schema_migrations', 'which migrations were applied'),
		('runs', 'runs as people see them, archived ones included, without payloads and results'),
		('attempts', 'all attempts, also those that simply succeeded, without output'),
		('all_runs', 'runs and archived runs, without texts'),
		('held_runs', 'running runs, as their runners get them')
	loop
		execute format('comment on %s jobrun.%I is %L',
			case (select c.relkind from pg_catalog.pg_class c where c.oid = format('jobrun.%I', v_relation)::regclass) when 'v' then 'view' else 'table' end,
			v_relation, v_text);
	end loop;
	for v_relation, v_column, v_text in values
		-- of runs
		(null, 'id', 'a number, in the order in which they were made'),
		(null, 'run_id', 'the run'),
		(null, 'claim_seq', 'the number of the claim: one more at each claim of the run, never less'),
		(null, 'runner_id', 'the runner that holds or held it; job_runners.id'),
		(null, 'attempts', 'attempts that count'),
		(null, 'max_attempts', 'after so many attempts the run is dead'),
		(null, 'snoozes', 'how often its handler said "later"'),
		(null, 'releases', 'how often a runner gave it back when it was stopped'),
		(null, 'definition_id', 'the definition it was enqueued by; null: none'),
		(null, 'parent_id', 'the run inside which it was enqueued'),
		(null, 'run_at', 'it starts then or later'),
		(null, 'locked_by', 'the host that holds or held it'),
		(null, 'locked_until', 'the end of the lease; null: it is not running'),
		(null, 'started_at', 'when the last attempt began'),
		(null, 'finished_at', 'when it ended; null: it has not'),
		(null, 'failed_at', 'when an attempt failed last'),
		(null, 'created_at', 'when it was made'),
		(null, 'created_by', 'the role that enqueued it'),
		(null, 'expires_at', 'if it has not started by then, it ends dead'),
		(null, 'cancel_requested_at', 'somebody has asked to stop it'),
		(null, 'slot', 'the time at which the schedule was due'),
		(null, 'timeout', 'an attempt is stopped after so long; null: the default of its handler'),
		(null, 'backoff_base', 'the pause after the first failure; it doubles at each further one'),
		(null, 'backoff_cap', 'the longest pause after a failure'),
		(null, 'priority', 'smaller goes first'),
		(null, 'status', 'queued, failed (another attempt follows), running, succeeded, dead or cancelled'),
		(null, 'queue', 'the queue'),
		(null, 'job_type', 'what is to be done; the name of a handler'),
		(null, 'idempotency_key', 'enqueuing again with this key and type gives this run'),
		(null, 'unique_key', 'one run at a time with this key and type waits or runs, the newest'),
		(null, 'concurrency_key', 'the lock key: so many runs with it run at once as the queue allows, by default one'),
		(null, 'trace_context', 'a W3C traceparent, passed on to the handler'),
		(null, 'error_code', 'why it failed, as a word'),
		(null, 'payload', 'what the handler gets'),
		(null, 'progress', 'what the handler has said last of its progress'),
		(null, 'checkpoint', 'what the next attempt gets from this one'),
		(null, 'result', 'what the handler has returned'),
		(null, 'last_error', 'the message of the last failure'),
		(null, 'output', 'output of the handler, head and tail'),
		(null, 'output_dropped', 'bytes of output between head and tail that were not kept'),
		(null, 'superseded_by', 'a newer run of its unique key that took its place'),
		(null, 'is_counted', 'it counts for the limit of open runs of the role that enqueued it'),
		(null, 'archived_at', 'when it was moved to the archive'),
		-- of attempts
		(null, 'attempt', 'the number of the attempt'),
		(null, 'pid', 'the process, on its host'),
		(null, 'cpu_ms', 'processor time in ms'),
		(null, 'max_rss_kb', 'the largest resident set in KiB'),
		(null, 'exit_status', 'of the program'),
		(null, 'outcome', 'what came of it'),
		(null, 'host', 'the host'),
		(null, 'error', 'the message'),
		(null, 'run_finished_at', 'when the run ended; the month is by this'),
		-- of the others
		(null, 'name', 'the name'),
		(null, 'reason', 'why'),
		(null, 'paused_until', 'the end of the pause; infinity: until resumed; null or past: not paused'),
		(null, 'paused_reason', 'why it was paused'),
		(null, 'paused_by', 'the role that paused it'),
		('job_definitions', 'anchor_at', '@every counts from then'),
		('job_definitions', 'next_slot_at', 'when the schedule is due next; null: it has none'),
		('job_definitions', 'updated_at', 'when it was changed last'),
		('job_definitions', 'catch_up_grace', 'a slot that is later than this never starts'),
		('job_definitions', 'enabled', 'false: its slots are recorded as skipped'),
		('job_definitions', 'schedule', 'five fields, or @every; see next_slots()'),
		('job_definitions', 'time_zone', 'the zone of the schedule'),
		('job_definitions', 'on_dead', 'the job type that is enqueued when a run of it goes dead'),
		('job_definitions', 'catch_up', 'what happens to missed slots: once, skip or all'),
		('job_definitions', 'overlap', 'while an earlier run is not over: skip or allow'),
		('job_definitions', 'description', 'a note for people'),
		('job_slots', 'until', 'the last of several slots in one row'),
		('job_slots', 'slots', 'how many slots the row stands for'),
		('job_slots', 'runner_id', 'a start of jobrun exec that was left out, by this runner; null: a slot of the schedule'),
		('job_queues', 'max_running', 'at most so many runs at once; null: no limit'),
		('job_queues', 'max_running_per_key', 'at most so many runs at once with the same lock key; null: no limit'),
		('job_queues', 'rate_limit', 'at most so many starts in rate_period; null: no limit'),
		('job_queues', 'rate_period', 'see rate_limit'),
		('job_queues', 'rate_window_start', 'when the period that is counted began'),
		('job_queues', 'rate_used', 'starts in that period'),
		('job_runners', 'id', 'a number by chance'),
		('job_runners', 'permits', 'how many programs it may run at once'),
		('job_runners', 'last_seen_at', 'when it wrote last'),
		('job_runners', 'lingers_until', 'it starts new runs at once until then; null: it ends when nothing is due'),
		('job_runners', 'version', 'of the program'),
		('job_runners', 'job_types', 'what it has handlers for'),
		('job_runners', 'queues', 'the queues it takes runs from; null: all'),
		('job_runners', 'counts', 'what its runs have come to'),
		('job_runners', 'claims_void', 'claims up to this number take nothing any more'),
		('job_runners', 'refused', 'handlers that it refused, and why; null: none'),
		('job_stats', 'hour', 'the hour in which they ended, from its beginning, in UTC'),
		('job_stats', 'n', 'how many'),
		('job_stats', 'run_ms', 'the sum of their times in ms'),
		('job_stats', 'wait_ms', 'the sum of their delays in ms'),
		('job_stats', 'run_buckets', 'how many took 0 to 1 ms, 2 to 3, 4 to 7, and so on'),
		('job_stats', 'wait_buckets', 'how many were so late, as in run_buckets'),
		('job_effects', 'key', 'the name of the effect'),
		('job_effects', 'done_at', 'when it was done; null: begun, perhaps done'),
		('job_effects', 'detail', 'what was kept of it'),
		('job_audit', 'at', 'when'),
		('job_audit', 'who', 'the role'),
		('job_audit', 'action', 'what was done'),
		('job_audit', 'object', 'to what'),
		('job_audit', 'old', 'the values before'),
		('job_audit', 'new', 'the values after'),
		('job_grants', 'granted_at', 'when'),
		('job_grants', 'role', 'the role'),
		('job_grants', 'kind', 'enqueue, read, run or admin'),
		('job_grants', 'job_types', 'kind enqueue: only these types; null: all'),
		('job_grants', 'queues', 'kind enqueue: only these queues; null: all'),
		('job_grants', 'max_open', 'kind enqueue: at most so many of its runs wait or run; null: no limit'),
		('new_runs', 'nr', 'the order of the rows'),
		('new_runs', 'options', 'as the arguments of enqueue(); one object for many rows'),
		('new_runs', 'run', 'the same for this row; it overrides options'),
		('settings', 'only_row', 'true'),
		('settings', 'install_id', 'a name of this installation, part of JOBRUN_KEY'),
		('settings', 'stats_until', 'what ended before is summed in job_stats'),
		('settings', 'keep_succeeded', 'how long succeeded runs are kept'),
		('settings', 'keep_keyed', 'how long succeeded runs with an idempotency key are kept'),
		('settings', 'keep_cancelled', 'how long cancelled runs are kept'),
		('settings', 'keep_dead', 'how long dead runs are kept'),
		('settings', 'keep_output', 'how long output is kept'),
		('settings', 'keep_runners', 'how long rows of job_runners are kept'),
		('settings', 'keep_slots', 'how long rows of job_slots are kept'),
		('settings', 'keep_effects', 'how long rows of job_effects are kept'),
		('settings', 'keep_audit', 'how long rows of job_audit are kept'),
		('settings', 'keep_stats', 'how long rows of job_stats are kept'),
		('settings', 'archive', 'true: runs are moved to the archive when their time is over, not deleted'),
		('settings', 'keep_archive', 'how long months of the archive are kept; null: for ever'),
		('settings', 'system_identifier', 'the server this database belongs to; see copies'),
		('settings', 'database_oid', 'its number there'),
		('settings', 'copies', 'in a copy of this database: tell, or refuse to run anything'),
		('settings', 'unhandled_looked_at', 'when a tick last looked for runs that no host has a handler for'),
		('settings', 'unhandled_told', 'job types without a handler that a tick told, and when'),
		('schema_migrations', 'version', 'its number'),
		('schema_migrations', 'checksum', 'of its text'),
		('schema_migrations', 'applied_at', 'when'),
		('runs', 'host', 'the host that holds or held it'),
		('runs', 'archived', 'it is in the archive'),
		('held_runs', 'timeout_ms', 'in ms'),
		('held_runs', 'backoff_base_ms', 'in ms'),
		('held_runs', 'backoff_cap_ms', 'in ms'),
		('held_runs', 'expired', 'it had expired when it was claimed'),
		('held_runs', 'cancelled', 'somebody had asked to cancel it'),
		('held_runs', 'key', 'JOBRUN_KEY'),
		('held_runs', 'started_ms', 'when it was claimed, Unix time in ms'),
		('held_runs', 'slot_local', 'the slot in the zone of its definition')
	loop
		for v_found in select c.relname from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = v_column
			where c.relnamespace = 'jobrun'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition and not a.attisdropped
				and (v_relation is null or c.relname = v_relation)
		loop
			execute format('comment on column jobrun.%I.%I is %L', v_found, v_column, v_text);
		end loop;
	end loop;
end
$do$;

-- Functions for applications. Each name has one signature.
do $do$
declare
	v_name text;
	v_text text;
begin
	for v_name, v_text in values
		('enqueue', 'queue a run in this transaction; returns its id. With idempotency_key: the run that has it already'),
		('enqueue_many', 'queue a run for each payload; returns their ids in that order'),
		('enqueue_definition', 'queue a run with the values of a definition, now; returns id and created'),
		('run_status', 'status, result and error of these runs, as far as the caller may see them'),
		('in_place_of', 'for each run the one that decides its result: itself, or the newest that superseded it'),
		('cancel', 'cancelled: it will not start; requested: it is running and will be stopped; else how it had ended; null: no such run'),
		('retry', 'run a finished run again, or a waiting one now; with payload: with that one'),
		('pause', 'nothing new starts of a job type, queue or definition, on a host, or at all; returns the end of the pause'),
		('resume', 'end a pause; returns whether there was one'),
		('next_slots', 'the next times of a schedule in a time zone'),
		('set_queue', 'change the limits of a queue; null: no limit'),
		('remove_queue', 'forget the limits and the pause of a queue'),
		('replay', 'run a slot of a schedule again; returns the id of the run'),
		('effect', 'true until the effect with this key is committed: do it in this transaction'),
		('define', 'make or change a definition; members of changes are columns of job_definitions'),
		('undefine', 'remove a definition; its runs stay'),
		('explain', 'why a run stands where it does: the verdict, then each condition of a start'),
		('explain_definition', 'why a definition does not fire, its next slots, and why the last ones did not run'),
		-- for the program jobrun
		('effect_begin', 'for jobrun effect'), ('effect_claim', 'for jobrun effect'), ('effect_done', 'for jobrun effect'),
		('effect_end', 'for jobrun effect'), ('effect_look', 'for jobrun effect'), ('effect_undo', 'for jobrun effect'),
		('enqueue_lines', 'for jobrun enqueue --batch'), ('enqueue_run', 'for jobrun enqueue'),
		('other_types', 'for jobrun enqueue: is this job type known?'), ('tell_unhandled', 'for jobrun run: runs that no host has a handler for'),
		('need', 'does the schema fit the program?')
	loop
		execute format('comment on function jobrun.%I is %L', v_name, v_text);
	end loop;
end
$do$;
