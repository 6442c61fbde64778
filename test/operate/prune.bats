#!/usr/bin/env bats
# Housekeeping: what goes and what stays, by jobrun prune and by the built-in jobrun.prune, and that every end is counted once.

load ../lib/common

# old(STATUS, AGE, KEY): a run that ended so long ago, with the attempt that ended it if that has a row; gives its id.
setup() {
	common_setup
	q <<-'sql'
		create function public.old(status text, age interval, key text default null, output text default null) returns bigint
		language plpgsql as $$
		declare
			v_id bigint;
		begin
			insert into jobrun.job_runs (job_type, status, created_at, run_at, started_at, finished_at, attempts, claim_seq, runner_id,
				locked_by, idempotency_key)
			select 'work', old.status, now() - age, now() - age - interval '300 ms', case when n = 1 then now() - age - interval '100 ms' end,
				now() - age, n, n, n, 'there', key
			from (select case when old.status = 'cancelled' then 0 else 1 end as n) s returning id into v_id;
			insert into jobrun.job_attempts (run_id, claim_seq, attempt, started_at, finished_at, outcome, output)
			select v_id, 1, 1, now() - age - interval '100 ms', now() - age, case when old.status = 'dead' then 'failed' else old.status end,
				old.output
			where old.status = 'dead' or old.output is not null;
			return v_id;
		end $$;
	sql
}

# kept SQL...: the words of those rows that are left.
kept() {
	q "select coalesce(string_agg(idempotency_key, ' ' order by idempotency_key), '') from jobrun.job_runs"
}

# counts: what the prune before has counted, without what there was nothing of.
counts() {
	jq -c '.counts | with_entries(select(.value > 0))' <<<"$output"
}

# housekeeping: a run of jobrun.prune, now; prints its id.
housekeeping() {
	q "select id from jobrun.enqueue_definition('jobrun.prune')"
}

# slow_steps SECONDS: each step of housekeeping takes so long, does nothing, and is never the last.
slow_steps() {
	q <<-sql
		create sequence public.steps;
		create or replace function jobrun.prune_step(state jsonb default '{}', most bigint default 2000) returns jsonb
		language plpgsql as \$\$
		begin
			perform nextval('public.steps');
			perform pg_sleep($1);
			return '{"counts": {"succeeded": 1}, "done": false}'::jsonb;
		end \$\$;
	sql
}

is_stepping() {
	q_is t 'select is_called from public.steps'
}

# --- what goes ---

@test "each final state is kept for its own time, to the minute" {
	q "update jobrun.settings set keep_succeeded = '2 days', keep_keyed = '4 days', keep_cancelled = '3 days', keep_dead = '5 days'" \
		"select old('succeeded', '2 days 1 min', 'cli:gone'), old('succeeded', '2 days -1 min', 'cli:kept'),
			old('succeeded', '4 days 1 min', 'key-gone'), old('succeeded', '4 days -1 min', 'key-kept'),
			old('cancelled', '3 days 1 min', 'cancelled-gone'), old('cancelled', '3 days -1 min', 'cancelled-kept'),
			old('dead', '5 days 1 min', 'dead-gone'), old('dead', '5 days -1 min', 'dead-kept'),
			old('succeeded', '2 days 1 min'), old('succeeded', '2 days -1 min')" >/dev/null
	jr_ok prune --json
	assert_equal "$(counts)" '{"dead":1,"keyed":1,"cancelled":1,"succeeded":2}'
	assert_equal "$(jq -c '[.done, .dry_run]' <<<"$output")" '[true,false]'
	assert_equal "$(kept)" 'cancelled-kept cli:kept dead-kept key-kept'
	q_is 5 'select count(*) from jobrun.job_runs'
	q_is 1 'select count(*) from jobrun.job_attempts'
	jr_ok prune
	assert_output 'nothing to prune'
}

@test "prune says what has gone, and how long it is kept" {
	q "update jobrun.settings set keep_dead = '1 day'" "select old('dead', '2 days'), old('dead', '2 days'), old('succeeded', '8 days')" >/dev/null
	jr_ok prune -n
	assert_line --index 0 --regexp '^WHAT +WOULD GO +KEPT FOR$'
	assert_line --index 2 --regexp '^runs dead +2 1 day$'
	jr_ok prune
	assert_line --index 0 --regexp '^WHAT +GONE +KEPT FOR$'
	assert_line --index 1 --regexp '^runs succeeded +1 7 days$'
	assert_line --index 2 --regexp '^runs dead +2 1 day$'
	assert_equal "${#lines[@]}" 3
	assert_equal "$stderr" ''
}

@test "nothing unfinished ever goes, however old, nor what it needs" {
	local table

	handler work <<<'exit 1'
	q "insert into jobrun.job_runs (job_type, status, created_at, run_at, started_at, failed_at, attempts, claim_seq, runner_id, locked_by,
			locked_until, releases)
		select 'other', s, old, old, old, old, a, 1, 7, 'there', case when s = 'running' then now() + interval '1 hour' end, 1 - a
		from (select now() - interval '9 years' as old) o cross join (values ('queued', 0), ('failed', 1), ('running', 1)) v(s, a)" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at)
		select id, 1, 1, case status when 'queued' then 'released' else 'failed' end, started_at, started_at
		from jobrun.job_runs where status <> 'running'" \
		"insert into jobrun.job_effects (key, run_id, claim_seq, started_at, done_at) select 'of-' || status, id, 1, started_at, started_at from jobrun.job_runs" \
		"insert into jobrun.job_slots (definition_id, slot, outcome, run_id) select 1, now() - id * interval '1 year', 'queued', id from jobrun.job_runs" \
		"insert into jobrun.job_effects (key, started_at) values ('of-nobody', now() - interval '9 years')" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at)
		select n, 1, 1, 'there', '0', now() - interval '9 years', now() - interval '9 years' from (values (7), (8)) v(n)" \
		"update jobrun.settings set keep_succeeded = '0', keep_keyed = '0', keep_cancelled = '0', keep_dead = '0', keep_output = '0',
			keep_runners = '0', keep_slots = '0', keep_effects = '0', keep_audit = '30 days', keep_stats = '0'"
	jr_ok prune --json
	assert_equal "$(counts)" '{"effects":1,"runners":1}'
	q_is 'failed|queued|running' "select string_agg(status, '|' order by status) from jobrun.job_runs"
	q_is 2 'select count(*) from jobrun.job_attempts'
	q_is 'of-failed|of-queued|of-running' "select string_agg(key, '|' order by key) from jobrun.job_effects"
	q_is 7 'select id from jobrun.job_runners'
	q_is 3 'select count(*) from jobrun.job_slots'
}

@test "nothing that ended in an hour that is not complete goes" {
	local hour="date_trunc('hour', now() - interval '10 minutes')"

	stay_in 10m
	q "update jobrun.settings set keep_succeeded = '0', stats_until = stats_until - interval '5 hours'" \
		"select old('succeeded', now() - $hour + interval '1 s', 'cli:before'), old('succeeded', now() - $hour, 'cli:at'),
			old('succeeded', '1 ms', 'cli:now')" >/dev/null
	jr_ok prune --json
	assert_equal "$(counts)" '{"hours":1,"succeeded":1}'
	assert_equal "$(kept)" 'cli:at cli:now'
	q_is t "select stats_until = $hour from jobrun.settings"
}

@test "hours that were summed by a clock that was ahead are summed again" {
	q "update jobrun.settings set stats_until = date_trunc('hour', now()) + interval '8 hours',
		totals_until = date_trunc('hour', now()) + interval '9 hours'"
	jr_ok prune
	q_is t "select stats_until = totals_until and stats_until between date_trunc('hour', now()) and date_trunc('hour', now()) + interval '1 hour'
		from jobrun.settings"
}

@test "a run that others refer to goes; its slot says so all the same" {
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')" \
		"select old('succeeded', '8 days')" "insert into jobrun.job_runs (job_type, parent_id) values ('work', 1)" \
		"insert into jobrun.job_slots (definition_id, slot, outcome, run_id) select id, now() - interval '8 days', 'queued', 1 from jobrun.job_definitions
		where name = 'nightly'" >/dev/null
	jr_ok prune
	q_is '2|1' 'select id, parent_id from jobrun.job_runs'
	q_is 1 'select run_id from jobrun.job_slots'
	for command in show logs retry cancel; do
		jr "$command" 1
		assert_equal "$status" 1
		[[ $stderr$output == *'no such run'* || $stderr$output == *'no run 1'* ]] || fail "$command: $output $stderr"
	done
}

@test "slots, effects, runners, audit and sums are kept for their times" {
	stay_in hour
	q "update jobrun.settings set keep_slots = '2 days', keep_effects = '3 days', keep_runners = '4 days', keep_audit = '40 days',
			keep_stats = '6 days'" \
		"insert into jobrun.job_slots (definition_id, slot, until, slots, outcome) values
			(1, now() - interval '2 days 1 min', null, 1, 'skipped'), (1, now() - interval '2 days -1 min', null, 1, 'skipped'),
			(1, now() - interval '9 days', now() - interval '2 days 1 min', 200, 'coalesced'),
			(1, now() - interval '8 days', now() - interval '2 days -1 min', 200, 'coalesced')" \
		"insert into jobrun.job_effects (key, started_at, done_at) values
			('a', now() - interval '3 days 1 min', now() - interval '3 days 1 min'), ('b', now() - interval '3 days 1 min', now() - interval '3 days -1 min'),
			('c', now() - interval '3 days 1 min', null), ('d', now() - interval '3 days -1 min', null)" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, finished_at)
		select n, 1, 1, 'there', '0', now() - interval '9 days', now() - seen, now() - finished
		from (values (1, interval '4 days 1 min', null::interval), (2, '4 days -1 min', null), (3, '4 days 1 min', '4 days 1 min'),
			(4, '4 days -1 min', '4 days -1 min')) v(n, seen, finished)" \
		"insert into jobrun.job_audit (at, action, object) values (now() - interval '40 days 1 min', 'a', 'b'), (now() - interval '40 days -1 min', 'a', 'b')" \
		"insert into jobrun.job_stats (hour, n, job_type, queue, outcome)
		select date_trunc('hour', now()) - i, 1, 'work', 'default', 'succeeded' from (values (interval '6 days 1 hour'), ('6 days -1 hour')) v(i)"
	jr_ok prune -n --json
	dry=$(counts)
	jr_ok prune --json
	assert_equal "$(counts)" '{"audit":1,"slots":2,"stats":1,"effects":2,"runners":2}'
	assert_equal "$dry" "$(counts)"
	q_is '2|200' 'select count(*), max(slots) from jobrun.job_slots'
	q_is 'b d' "select string_agg(key, ' ' order by key) from jobrun.job_effects"
	q_is '2 4' "select string_agg(id::text, ' ' order by id) from jobrun.job_runners"
	q_is 1 "select count(*) from jobrun.job_audit where action = 'a'"
	q_is 1 'select count(*) from jobrun.job_stats'
}

@test "a runner that is silent for less than a day stays, whatever the settings say" {
	q "update jobrun.settings set keep_runners = '0'" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, finished_at)
		select n, 1, 1, 'there', '0', now() - interval '9 days', now() - interval '23 hours', now() - finished
		from (values (1, null::interval), (2, '23 hours')) v(n, finished)"
	jr_ok prune --json
	assert_equal "$(counts)" '{"runners":1}'
	q_is 1 'select id from jobrun.job_runners'
}

@test "the output of attempts goes sooner; the attempts stay" {
	q "update jobrun.settings set keep_output = '1 day'" \
		"select old('succeeded', '1 day 1 min', 'a', 'long ago'), old('dead', '1 day 1 min', 'b', 'long ago'), old('dead', '1 day -1 min', 'c', 'lately')" >/dev/null
	before=$(q "select run_id, claim_seq, outcome, started_at, finished_at from jobrun.job_attempts order by 1")
	jr_ok logs 1
	assert_output 'long ago'
	jr_ok prune --json
	assert_equal "$(counts)" '{"outputs":2}'
	assert_equal "$(q "select run_id, claim_seq, outcome, started_at, finished_at from jobrun.job_attempts order by 1")" "$before"
	q_is '|lately' "select string_agg(coalesce(output, ''), '|' order by run_id) from jobrun.job_attempts where run_id > 1"
	jr_ok logs 1
	assert_output ''
	jr_ok prune --json
	assert_equal "$(counts)" '{}'
}

@test "prune takes more runs that ended in the same instant than fit into a step" {
	q "insert into jobrun.job_runs (job_type, status, finished_at) select 'work', 'cancelled', now() - interval '9 days' from generate_series(1, 5000)"
	jr_ok prune --json
	assert_equal "$(counts)" '{"cancelled":5000}'
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "prune skips rows that others hold, and takes them the next time" {
	q "select old('succeeded', '9 days', 'cli:' || i) from generate_series(1, 5) i" \
		"insert into jobrun.job_audit (at, action, object) select now() - interval '9 years', 'a', 'b' from generate_series(1, 3)" >/dev/null
	hold 'select id from jobrun.job_runs where id = 3 for update; select id from jobrun.job_audit where id = 2 for update; select only_row from jobrun.settings for update'
	q "set lock_timeout = '1 ms'" "do \$\$ declare s jsonb := '{}'; begin loop s := jobrun.prune_step(s); exit when (s ->> 'done')::boolean; end loop; end \$\$"
	assert_equal "$(kept)" 'cli:3'
	q_is 1 "select count(*) from jobrun.job_audit where action = 'a'"
	release_holds
	jr_ok prune --json
	assert_equal "$(counts)" '{"audit":1,"succeeded":1}'
}

@test "prune with archiving moves a run to job_runs_archive with all it had, and its attempts" {
	q "update jobrun.settings set archive = true" \
		"select old('dead', '91 days', 'key', 'some output')" \
		"update jobrun.job_runs set result = '{\"a\": 1}', progress = '[2]', checkpoint = '3', last_error = 'it is broken', unique_key = 'u', trace_context = 't',
			concurrency_key = 'c', parent_id = 5, slot = now(), timeout = '1 min', backoff_base = '1 s', backoff_cap = '2 s', expires_at = now(), failed_at = now(),
			error_code = 'exit:1', definition_id = 4, cancel_requested_at = now()" >/dev/null
	before=$(q "select to_jsonb(r) from jobrun.job_runs r")
	q_is 0 "select count(*) from jsonb_each('$before') e where e.value = 'null' and e.key not in ('locked_until', 'output', 'output_dropped', 'superseded_by')"
	jr_ok prune -n --json
	dry=$(counts)
	jr_ok prune --json
	assert_equal "$(counts)" '{"dead":1}'
	assert_equal "$dry" "$(counts)"
	q_is 0 'select count(*) from jobrun.job_runs'
	q_is t "select to_jsonb(r) - 'archived_at' = '$before'::jsonb from jobrun.job_runs_archive r"
	q_is 't|dead' 'select archived, status from jobrun.runs'
	q_is 1 'select count(*) from jobrun.attempts'
	jr_ok show 1
	# A run with the key may be enqueued again.
	assert_equal "$(enqueue work -k key)" 2
	q_is 1 'select count(*) from jobrun.job_attempts_archive'
	q_is '' "select attname from pg_attribute where attrelid = 'jobrun.job_runs'::regclass and attnum > 0 and not attisdropped
		except select attname from pg_attribute where attrelid = 'jobrun.job_runs_archive'::regclass and attnum > 0 and not attisdropped"
}

@test "prune --dry-run counts what prune would take, of each kind, and changes nothing" {
	local dry real more now_complete="extract(epoch from date_trunc('hour', now() - interval '10 minutes'))::bigint / 3600"

	export JR_TIMEOUT=$((100 * patience)) # each hour is a step, with a pause three times as long behind it
	q "select setseed(0.4)" "update jobrun.settings set stats_until = stats_until - interval '5 days'" \
		"select old(s, random() * interval '110 days', case i % 3 when 0 then 'cli:' || i when 1 then 'key' || i end, case when i % 2 = 0 and s <> 'cancelled' then 'output' end)
		from generate_series(1, 600) i cross join lateral (select (array['succeeded', 'cancelled', 'dead'])[1 + i % 3 * (i % 2)] as s offset 0) v" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at)
		select i, 1, 1, 'there', '0', now() - i * interval '1 day', now() - i * interval '1 day' from generate_series(1, 20) i" \
		"insert into jobrun.job_effects (key, started_at) select i, now() - i * interval '1 day' from generate_series(1, 100) i" \
		"insert into jobrun.job_slots (definition_id, slot, outcome) select 1, now() - i * interval '1 day', 'skipped' from generate_series(1, 100) i" \
		"insert into jobrun.job_audit (at, action, object) select now() - i * interval '1 day', 'a', 'b' from generate_series(1, 400) i" \
		"insert into jobrun.job_stats (hour, n, job_type, queue, outcome)
		select date_trunc('hour', now()) - i * interval '1 day', 1, 'other', 'default', 'succeeded' from generate_series(1, 800) i" \
		"insert into jobrun.job_runs_archive
		select a.*, now() from unnest('{400 days,100 days}'::interval[]) with ordinality g(age, n) cross join lateral (
			select (jsonb_populate_record(r, jsonb_build_object('id', 77777 + n, 'finished_at', now() - age))).* from jobrun.job_runs r
			where r.status = 'dead' limit 1) a" \
		"insert into jobrun.job_attempts_archive (run_id, claim_seq, attempt, outcome, finished_at, run_finished_at, output, output_dropped)
		select id, 1, 1, 'succeeded', finished_at, finished_at, 'old', 0 from jobrun.job_runs_archive" \
		"select jobrun.make_months(), jobrun.make_months()" \
		"update jobrun.settings set keep_archive = '350 days'" >/dev/null
	whole="select md5(string_agg(t, '' order by t)) from (select r::text from jobrun.job_runs r union all select a::text from jobrun.job_attempts a
		union all select r::text from jobrun.job_runners r union all select s::text from jobrun.job_slots s union all select e::text from jobrun.job_effects e
		union all select a::text from jobrun.job_audit a union all select s::text from jobrun.job_stats s union all select s::text from jobrun.settings s) t(t)"
	before=$(q "$whole")
	complete=$(q "select $now_complete")
	jr_ok prune --dry-run --json
	assert_equal "$(jq -c '.dry_run' <<<"$output")" true
	dry=$(jq -cS '.counts' <<<"$output")
	assert_equal "$(q "$whole")" "$before"
	jr_ok prune --json
	real=$(jq -cS '.counts' <<<"$output")
	assert_equal "$(jq -c 'del(.hours)' <<<"$real")" "$(jq -c 'del(.hours)' <<<"$dry")"
	# An hour may have become complete meanwhile.
	more=$(jq -n "$real.hours - $dry.hours")
	assert_between 0 "$more" "$(q "select $now_complete - $complete")"
	assert_equal "$(jq -c '[.[] | select(. == 0)]' <<<"$real")" '[]'
}

@test "a step of one kind does not walk over what stays" {
	local kind statistics step first second

	q "insert into jobrun.job_runs (job_type, status, finished_at, idempotency_key)
		select 'work', 'cancelled', now() - interval '8 days 1 hour', 'k' || i from generate_series(1, 20000) i" \
		"insert into jobrun.job_runs (job_type, status, started_at, finished_at, attempts, claim_seq, runner_id, locked_by, idempotency_key)
		select 'work', 'succeeded', now(), now() - interval '8 days 1 hour', 1, 1, 1, 'there', 'key' || i from generate_series(1, 20000) i" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, finished_at)
		select id, claim_seq, 1, 'succeeded', finished_at from jobrun.job_runs where status = 'succeeded'" \
		"update jobrun.settings set keep_cancelled = '100 days'"
	# With no statistics and with them.
	for statistics in none all; do
		q "select old('succeeded', '8 days', null, 'some') from generate_series(1, 5)" >/dev/null
		[ "$statistics" = none ] || q 'analyze jobrun.job_runs' 'analyze jobrun.job_attempts'
		for kind in succeeded dead outputs; do
			step="explain (analyze, buffers, format json) select jobrun.prune_some('$kind', 1000, '-infinity')"
			read -r first second < <(q "$step" "$step" | jq -r '.[0].Plan | ."Shared Hit Blocks" + ."Shared Read Blocks"' | paste -sd ' ')
			# The session has read its catalogs with the first.
			[ "$first" -lt 3000 ] && [ "$second" -lt 400 ] || fail "$kind: $first, then $second buffers"
		done
	done
	q_is 0 "select count(*) from jobrun.job_runs where status = 'succeeded' and idempotency_key is null"
}

# prune_hourly: housekeeping as runners do it.
prune_hourly() {
	housekeeping >/dev/null
	jr_ok run
}

@test "jobrun.prune goes on where it has come to, without a look at what is kept longer; once a day it looks at everything" {
	local step whole rest

	stay_in hour
	handler other <<<'exit 0'
	q "insert into jobrun.job_runs (job_type, status, started_at, finished_at, attempts, claim_seq, runner_id, locked_by, idempotency_key)
		select 'work', 'succeeded', now(), now() - interval '8 days' + i * interval '1 s', 1, 1, 1, 'there', 'key' || i from generate_series(1, 20000) i" \
		"select old('succeeded', '8 days', 'cli:1')" >/dev/null
	prune_hourly
	q_is 20000 "select count(*) from jobrun.job_runs where job_type = 'work'"
	q_is 'cancelled 7|dead 90|keyed 30|succeeded 7' "select string_agg(e.key || ' ' || extract(day from now() - e.value::timestamptz), '|' order by e.key)
		from jobrun.settings s, jsonb_each_text(s.pruned_until) e where e.key <> 'day'"
	# From the oldest row on, and as it goes on; both after the session has read its catalogs.
	step="explain (analyze, buffers, format json) select jobrun.prune_some('succeeded', 1000, least(jobrun.prune_from('succeeded'),"
	read -r _ whole rest < <(q "$step '-infinity'))" "$step '-infinity'))" "$step 'infinity'))" |
		jq -r '.[0].Plan | ."Shared Hit Blocks" + ."Shared Read Blocks"' | paste -sd ' ')
	[ "$((rest + 50))" -lt "$whole" ] || fail "$rest buffers instead of $whole"
	# What comes before that later is not seen, until the next day, or if people prune.
	q "select old('succeeded', '8 days', 'cli:2')" >/dev/null
	prune_hourly
	q_is 1 "select count(*) from jobrun.job_runs where idempotency_key = 'cli:2'"
	q "update jobrun.settings set pruned_until = pruned_until || '{\"day\": \"2001-01-01\"}'"
	prune_hourly
	q_is 0 "select count(*) from jobrun.job_runs where idempotency_key = 'cli:2'"
	q "select old('succeeded', '8 days', 'cli:3'), old('succeeded', '6 days', 'cli:4')" >/dev/null
	jr_ok prune --json
	assert_equal "$(counts)" '{"succeeded":1}'
	# If runs are to be kept for less time, the rest of them goes now; if for more, they stay.
	q "update jobrun.settings set keep_succeeded = '5 days'"
	prune_hourly
	q_is 0 "select count(*) from jobrun.job_runs where idempotency_key = 'cli:4'"
	q "update jobrun.settings set keep_succeeded = '9 days'" "select old('succeeded', '8 days', 'cli:5')" >/dev/null
	prune_hourly
	q_is 1 "select count(*) from jobrun.job_runs where idempotency_key = 'cli:5'"
	q_is 9 "select extract(day from now() - (pruned_until ->> 'succeeded')::timestamptz) from jobrun.settings"
}

@test "a step of jobrun.prune notes how far it has come, and waits for nobody who has locked the settings" {
	local expected state='{"go_on": true, "kind": "succeeded"}'

	stay_in hour
	q "select old('succeeded', d * interval '1 day', 'key' || d) from unnest('{29,20,10}'::integer[]) d" \
		"select old('succeeded', '9 days', 'cli:9'), old('succeeded', '8 days', 'cli:8')" >/dev/null
	# Each begins where the one before has come to.
	for expected in '9 1 9' '8 1 8'; do
		assert_equal "$(q "select extract(day from now() - (s.s ->> 'after')::timestamptz) || ' ' || (s.s -> 'counts' ->> 'succeeded')
			from (select jobrun.prune_step('$state', 1) as s offset 0) s" "select extract(day from now() - (pruned_until ->> 'succeeded')::timestamptz)
			from jobrun.settings" | paste -sd ' ')" "$expected"
	done
	q 'update jobrun.settings set pruned_until = default'
	hold 'select only_row from jobrun.settings for update'
	q "set lock_timeout = '1 ms'" "select jobrun.prune_step('$state')" >/dev/null
	release_holds
	q_is '{}' 'select pruned_until from jobrun.settings'
}

@test "a step that takes long to pass what is kept longer ends after a day of it, and the next one goes on there" {
	local expected state='{"kind": "succeeded"}'

	q "select old('succeeded', d * interval '1 day', 'key' || d) from unnest('{29,20,10}'::integer[]) d" "select old('succeeded', '8 days')" >/dev/null
	# Each look at a row takes longer than a step may take.
	q "create or replace function jobrun.prune_rule(kind text, as_summed boolean) returns jobrun.prune_rule language sql as \$\$
		select row('job_runs', 'finished_at', 'case when pg_sleep(0.15) is not null then x.idempotency_key is null end', now() - interval '7 days', true)::jobrun.prune_rule \$\$"
	for expected in '28|0' '19|0' '9|0'; do
		state=$(q "select jobrun.prune_step('$state')")
		q_is "$expected" "select extract(day from now() - (s ->> 'after')::timestamptz), s -> 'counts' ->> 'succeeded' from (select '$state'::jsonb) v(s)"
	done
	q_is 1 "select jobrun.prune_step('$state') -> 'counts' ->> 'succeeded'"
}

# --- sums ---

@test "an hour is summed once, by type, queue and outcome, with times and buckets" {
	stay_in 10m
	q "update jobrun.settings set stats_until = date_trunc('hour', now()) - interval '8 hours'" \
		"insert into jobrun.job_runs (job_type, queue, status, run_at, started_at, finished_at, attempts, claim_seq, runner_id, locked_by)
		select t, q, s, at - run - wait, case when n = 1 then at - run end, at, n, n, 1, 'there'
		from (select t, q, s, date_trunc('hour', now()) - interval '5 hours' + offs as at, ran * interval '1 ms' as run, waited * interval '1 ms' as wait,
				case when s = 'cancelled' then 0 else 1 end as n
			from (values ('a', 'x', 'succeeded', interval '0', 0, 0), ('a', 'x', 'succeeded', '59 min 59.999999 s', 1, 2), ('a', 'x', 'succeeded', '1 s', 3, 4),
				('a', 'x', 'succeeded', '2 s', 1023, 1024), ('a', 'x', 'dead', '3 s', 7, 8), ('a', 'y', 'succeeded', '4 s', 1, 1), ('b', 'x', 'cancelled', '5 s', 9, 9),
				('b', 'x', 'succeeded', '1 hour', 5000000000, 0)) v(t, q, s, offs, ran, waited)) w" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at)
		select id, 1, 1, 'failed', started_at, finished_at from jobrun.job_runs where status = 'dead'" \
		"insert into jobrun.job_runs (id, job_type, queue, status, attempts, releases, claim_seq) overriding system value values (100, 'c', 'z', 'failed', 3, 0, 4)" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at)
		select 100, i, 1, (array['failed', 'later', 'lost', 'released'])[i], at, at + i * interval '1 s'
		from generate_series(1, 4) i, lateral (select date_trunc('hour', now()) - interval '5 hours' as at) v" \
		"update jobrun.job_runs set attempts = 2, snoozes = 1, releases = 1 where id = 100"
	q_is 2 'select jobrun.sum_hours(10)'
	diff - <(q "select job_type, queue, outcome, extract(epoch from hour - date_trunc('hour', now()))::integer / 3600, n, run_ms, wait_ms, run_buckets, wait_buckets
		from jobrun.job_stats order by hour, job_type, queue, outcome") <<-'text'
		a|x|dead|-5|1|7|8|{0,0,1}|{0,0,0,1}
		a|x|succeeded|-5|4|1027|1030|{2,1,0,0,0,0,0,0,0,1}|{1,1,1,0,0,0,0,0,0,0,1}
		a|y|succeeded|-5|1|1|1|{1}|{1}
		b|x|cancelled|-5|1|0|0|{}|{}
		c|z|failed|-5|1|1000|0|{0,0,0,0,0,0,0,0,0,1}|{}
		c|z|later|-5|1|2000|0|{0,0,0,0,0,0,0,0,0,0,1}|{}
		c|z|lost|-5|1|3000|0|{0,0,0,0,0,0,0,0,0,0,0,1}|{}
		c|z|released|-5|1|4000|0|{0,0,0,0,0,0,0,0,0,0,0,1}|{}
		b|x|succeeded|-4|1|5000000000|0|{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1}|{1}
	text
	q_is 0 'select jobrun.sum_hours(10)'
	q_is "t" "select stats_until = date_trunc('hour', now() - interval '10 minutes') from jobrun.settings"
	# Set back by hand: the sums that were made of all of it stay.
	q 'delete from jobrun.job_runs where id = 1' "update jobrun.settings set stats_until = stats_until - interval '10 hours'"
	q_is 2 'select jobrun.sum_hours(10)'
	q_is 4 "select n from jobrun.job_stats where job_type = 'a' and queue = 'x' and outcome = 'succeeded'"
	q 'delete from jobrun.job_attempts'  'delete from jobrun.job_runs'
}

# back HOURS: all that has happened so far was so many hours ago, and that was not summed yet; and some minutes more, so that the first end
# falls on a full hour and all ends are in one hour.
back() {
	local i

	i=$(q "select $1 * interval '1 hour' + v.first - date_trunc('hour', v.first) from (select least(
		(select min(finished_at) from jobrun.job_runs), (select min(finished_at) from jobrun.job_attempts))) v(first)")
	q "update jobrun.job_runs set created_at = created_at - i, run_at = run_at - i, started_at = started_at - i, finished_at = finished_at - i from (select interval '$i' as i) v" \
		"update jobrun.job_attempts set started_at = started_at - i, finished_at = finished_at - i from (select interval '$i' as i) v" \
		"update jobrun.settings set stats_until = date_trunc('hour', least(stats_until, now() - $1 * interval '1 hour' - interval '1 hour'))"
}

# ends: everything that ended, by outcome: sums, and what is not summed.
ends() {
	q "select string_agg(outcome || ' ' || n, ', ' order by outcome) from (select outcome, sum(n) as n from (
		select outcome, n from jobrun.job_stats union all
		select o.outcome, o.n from jobrun.settings s, jobrun.stats_of(s.stats_until, now()) o) a group by outcome) b"
}

@test "bucket k of the sums is that of 2^(k-1) ms to below 2^k; the first has 0, the last all above" {
	q_is 't|1|32' "select bool_and(jobrun.bucket_of((2 ^ (k - 1))::bigint) = k and jobrun.bucket_of((2 ^ k)::bigint - 1) = k),
		jobrun.bucket_of(0), jobrun.bucket_of(9223372036854775807) from generate_series(1, 32) k"
}

@test "what runners and people have done is counted once, whenever it is summed and pruned" {
	handler flaky <<'sh'
[ "$JOBRUN_ATTEMPT" -ge 3 ] || exit 1
echo done
sh
	handler broken <<<'exit 65'
	handler busy <<<'exit 75'
	handler fine <<<'exit 0'
	for type in flaky broken fine fine; do
		enqueue "$type" >/dev/null
	done
	enqueue busy --backoff 1h >/dev/null
	id=$(enqueue fine --in 1h)
	wait_until 20 run_all_due
	jr_ok cancel "$id"
	q_is 1 "select count(*) from jobrun.job_runs where status = 'queued'" # busy
	expected='cancelled 1, dead 1, failed 2, later 1, succeeded 3'
	assert_equal "$(ends)" "$expected"
	back 3
	assert_equal "$(ends)" "$expected"
	q "update jobrun.settings set keep_succeeded = '0', keep_cancelled = '0', keep_dead = '0'"
	jr_ok prune --json
	assert_equal "$(counts)" '{"dead":1,"hours":1,"cancelled":1,"succeeded":3}'
	assert_equal "$(ends)" "$expected"
	q_is 1 'select count(*) from jobrun.job_attempts'
}

run_all_due() {
	q "update jobrun.job_runs set run_at = now() where status = 'failed'"
	jr run
	q_is 0 "select count(*) from jobrun.job_runs where status = 'failed'"
}

@test "a run that is cancelled in a long transaction ended when it was cancelled, not when that began" {
	id=$(enqueue other)
	q "do \$\$ begin
			perform pg_sleep(0.01), jobrun.cancel($id);
			assert (select finished_at > now() from jobrun.job_runs);
		end \$\$"
}

@test "a run that was retried counts as each end it had" {
	handler work <<<'[ -e "$TMPDIR/good" ] || exit 65'
	enqueue work >/dev/null
	enqueue work >/dev/null
	jr run
	back 5
	q_is 1 'select jobrun.sum_hours(5)'
	assert_equal "$(ends)" 'dead 2'
	touch "$TMPDIR/good"
	jr_ok retry 1 2
	assert_equal "$(ends)" 'dead 2'
	jr_ok run
	assert_equal "$(ends)" 'dead 2, succeeded 2'
	# Before its hour is summed: forced, it was a success and is one again.
	jr_ok retry 1 --force
	assert_equal "$(ends)" 'dead 2, succeeded 2'
	jr_ok run
	assert_equal "$(ends)" 'dead 2, succeeded 3'
	back 3
	jr_ok prune
	assert_equal "$(ends)" 'dead 2, succeeded 3'
}

@test "sums older than they are kept are not made" {
	q "update jobrun.settings set stats_until = stats_until - interval '100 days', keep_stats = '50 days', keep_succeeded = '90 days'" \
		"select old('succeeded', '80 days'), old('succeeded', '20 days')" >/dev/null
	jr_ok prune -n --json
	dry=$(counts)
	jr_ok prune --json
	assert_equal "$(counts)" '{"hours":2}'
	assert_equal "$dry" "$(counts)"
	q_is 1 'select count(*) from jobrun.job_stats'
}

@test "several prunes at once beside runners do not deadlock, and lose and repeat nothing" {
	local i pids=()

	export JR_TIMEOUT=$((100 * patience)) # so much for each of them
	handler work <<<'exit 0'
	handler fails <<<'exit 1'
	q "update jobrun.settings set stats_until = stats_until - interval '130 days', keep_succeeded = '1 hour', keep_keyed = '2 hours', keep_cancelled = '1 hour',
			keep_dead = '3 hours', keep_output = '0'" \
		"select setseed(0.1)" \
		"select old(s, random() * interval '3 days', case i % 3 when 0 then 'cli:' || i when 1 then 'key' || i end, case when i % 2 = 0 and s <> 'cancelled' then 'output' end)
		from generate_series(1, 12000) i cross join lateral (select (array['succeeded', 'cancelled', 'dead'])[1 + i % 3 * (i % 2)] as s offset 0) v" \
		"select jobrun.enqueue((array['work', 'jobrun.noop', 'fails'])[1 + i % 3], max_attempts => 2, backoff_base => '0') from generate_series(1, 120) i" >/dev/null
	begun=$(q 'select now()')
	bg_runner -j 4
	bg_runner -j 4
	for i in 1 2 3 4; do
		run_jobrun prune --json >"pruned.$i" 2>"pruned.$i.err" &
		pids+=($!)
	done
	# People who retry and cancel what is about to go.
	for i in 1 2 3 4 5 6 7 8; do
		q "select count(jobrun.retry(id, true)) from (select id from jobrun.job_runs where status in ('succeeded', 'dead') order by random() limit 50) r" >/dev/null
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	for i in "${runner_pids[@]}"; do
		wait_runner "$i"
	done
	run cat pruned.*.err
	assert_output ''
	refute [ "$(server_log | grep -c deadlock)" -gt 0 ]
	jr run # what was retried
	jr_ok prune
	q_is 0 "select count(*) from jobrun.job_runs where finished_at < now() - interval '4 hours'"
	# All that there was and all that has ended since, which is still there.
	q_is 12000 "select (select sum(n) from jobrun.job_stats) + (select sum(o.n) from jobrun.settings s, jobrun.stats_of(s.stats_until, now()) o)
		- (select sum(o.n) from jobrun.stats_of('$begun', now()) o)"
}

# --- the built-in ---

@test "jobrun.prune is claimed by every runner, whatever its types and queues" {
	handler other <<<'exit 0'
	q "select old('succeeded', '8 days')" >/dev/null
	id=$(housekeeping)
	jr_ok run -n --type other --queue other --json
	assert_equal "$(jq -c '.runs | map(.job_type)' <<<"$output")" '["jobrun.prune"]'
	jr_ok run --type other --queue other
	run_is "$id" succeeded
	q_is '1|0' \
		"select result ->> 'succeeded', (select sum(e.value::int) from jsonb_each_text(result - 'done' - 'succeeded') e) from jobrun.job_runs where id = $id"
	q_is 1 'select count(*) from jobrun.job_runs'
	# Its queue is no way in for others.
	q "insert into jobrun.job_runs (job_type, queue) values ('other', 'default')"
	jr_ok run --type other --queue other
	q_is queued "select status from jobrun.job_runs where job_type = 'other'"
}

@test "jobrun.prune takes nobody's permit, and --max-runs does not count it" {
	handler slow <<<'while [ ! -e "$TMPDIR/end" ]; do sleep 0.05; done'
	handler work <<<'exit 0'
	enqueue slow >/dev/null
	bg_runner -j 1
	wait_until 10 run_is 1 running
	id=$(housekeeping)
	jr_ok run -j 1
	run_is "$id" succeeded
	touch "$TMPDIR/end"
	wait_runner
	id=$(housekeeping)
	bg_runner --for 5m --max-runs 1
	wait_until 10 run_is "$id" succeeded
	id=$(enqueue work)
	wait_runner
	run_is "$id" succeeded
}

@test "jobrun.prune: retention comes from the settings alone" {
	handler other <<<'exit 0'
	q "select old('dead', '8 days')" >/dev/null
	id=$(q "select id from jobrun.enqueue_definition('jobrun.prune', '{\"keep_dead\": \"0\", \"dead\": \"0s\", \"counts\": {\"dead\": 7}, \"kind\": \"dead\"}')")
	jr_ok run
	q_is 0 "select result ->> 'dead' from jobrun.job_runs where id = $id"
	q_is 1 "select count(*) from jobrun.job_runs where status = 'dead'"
}

@test "jobrun.prune ends by itself before its time is over, and says that there is more" {
	handler other <<<'exit 0'
	slow_steps 0.1
	id=$(housekeeping)
	q "update jobrun.job_runs set timeout = '8 s' where id = $id"
	jr_ok run
	run_is "$id" succeeded
	q_is false "select result ->> 'done' from jobrun.job_runs where id = $id"
}

@test "jobrun.prune that had to end before all was done goes on a minute later, however many did so, and not after that" {
	handler other <<<'exit 0'
	slow_steps 0.1
	housekeeping >/dev/null
	housekeeping >/dev/null
	q "update jobrun.job_runs set timeout = '8 s'"
	jr_ok run
	q_is '2|1|0' "select count(*) filter (where status = 'succeeded'),
			count(*) filter (where status = 'queued' and run_at between created_at + interval '59 s' and created_at + interval '61 s'),
			count(slot)
		from jobrun.job_runs where job_type = 'jobrun.prune'"
	q <<-'sql'
		create or replace function jobrun.prune_step(state jsonb default '{}', most bigint default 2000) returns jsonb
		language sql as $$ select jsonb '{"counts": {}, "done": true}' $$;
		update jobrun.job_runs set run_at = now() where status = 'queued';
	sql
	jr_ok run
	q_is 'succeeded 3' "select string_agg(distinct status, ',') || ' ' || count(*) from jobrun.job_runs where job_type = 'jobrun.prune'"
}

@test "jobrun.prune is cancelled between two steps; heartbeats go on meanwhile" {
	handler other <<<'exit 0'
	slow_steps 0.05
	id=$(housekeeping)
	bg_runner --lease 60s --heartbeat 500ms
	wait_until 10 is_stepping
	until=$(q "select locked_until from jobrun.job_runs where id = $id")
	wait_until 10 q_is t "select locked_until > '$until' from jobrun.job_runs where id = $id"
	jr_ok cancel "$id"
	wait_runner
	run_is "$id" cancelled
}

@test "jobrun.prune is given back when its runner is stopped, and when its connection is lost" {
	handler other <<<'exit 0'
	slow_steps 0.05
	id=$(housekeeping)
	bg_runner --grace 0s
	wait_until 10 is_stepping
	kill "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'queued|1|0' "select status, releases, snoozes from jobrun.job_runs where id = $id"
	q 'drop sequence public.steps'
	slow_steps 1000
	bg_runner
	wait_until 10 is_stepping
	q "select pg_terminate_backend(pid) from pg_stat_activity where query like '%prune_step%' and datname = current_database() and state = 'active' and pid <> pg_backend_pid()" >/dev/null
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'queued|1|1|later' "select r.status, r.releases, r.snoozes, a.outcome from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id and a.claim_seq = r.claim_seq
		where r.id = $id"
}

@test "jobrun.prune is ended at once in the middle of a long step" {
	handler other <<<'exit 0'
	slow_steps 1000
	id=$(housekeeping)
	# The step takes far longer than all these deadlines, and so does the grace: only the second INT can have ended it.
	bg_runner -v --grace 10m
	wait_until 30 is_stepping
	kill -INT "$runner_pid"
	wait_until 30 grep -q event=runner_signal "$runner_err" # two at once would be one
	kill -INT "$runner_pid"
	wait_runner
	q_is queued "select status from jobrun.job_runs where id = $id"
	wait_until 30 q_is 0 "select count(*) from pg_stat_activity where query like '%prune_step%' and datname = current_database() and state = 'active' and pid <> pg_backend_pid()"
}

@test "jobrun.prune that the server refuses is a failed run" {
	handler other <<<'exit 0'
	q "create or replace function jobrun.prune_step(state jsonb default '{}', most bigint default 2000) returns jsonb
		language plpgsql as 'begin raise exception ''not today''; end'"
	id=$(housekeeping)
	jr_ok run
	q_is 'failed|sqlstate:P0001|not today (P0001, PL/pgSQL function jobrun.prune_step(jsonb,bigint) line 1 at RAISE)' "select status, error_code, last_error from jobrun.job_runs where id = $id"
	q 'drop function jobrun.prune_step(jsonb, bigint)' 'update jobrun.job_runs set run_at = now()'
	jr_ok run
	q_is 'failed|cannot-start' "select status, error_code from jobrun.job_runs where id = $id"
}

@test "jobrun.prune is scheduled hourly, in a queue of its own, one at a time" {
	q_is 'jobrun.prune|jobrun|1000|skip|t' "select job_type, queue, priority, overlap, enabled from jobrun.job_definitions where name = 'jobrun.prune'"
	handler other <<<'exit 0'
	q "select old('succeeded', '8 days')" "update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) where name = 'jobrun.prune'" >/dev/null
	jr_ok try jobrun.prune
	q_is 1 'select count(*) from jobrun.job_runs'
	assert_output --partial '"succeeded":1'
}

# --- the command ---

@test "prune --max-runtime stops when the time is over, and says so" {
	slow_steps 0.2
	jr_ok prune --max-runtime 1ms --json
	assert_equal "$(jq -c .done <<<"$output")" false
	jr_ok prune --max-runtime 1ms
	assert_line 'stopped at --max-runtime; there is more to remove'
}

@test "prune that fails on the way says what had gone before" {
	q "create function no() returns trigger language plpgsql as 'begin raise exception ''not this one''; end'" \
		"create trigger no before delete on jobrun.job_audit for each statement execute function no()" \
		"insert into jobrun.job_audit (at, action, object) values (now() - interval '9 years', 'a', 'b')" "select old('succeeded', '8 days')" >/dev/null
	jr prune
	assert_not_equal "$status" 0
	assert_equal "${#stderr_lines[@]}" 1
	[[ $stderr == *'not this one'*'1 row had gone before'* ]] || fail "$stderr"
	assert_output ''
}

@test "prune_step refuses nonsense with an error" {
	for state in '{"kind": "users"}' '{"kind": "hours; drop table x"}'; do
		run psql_bare -v VERBOSITY=sqlstate "$(past_pooler)" -c "select jobrun.prune_step('$state')"
		assert_output --regexp '^ERROR: +JR065$'
	done
	run psql_bare -v VERBOSITY=sqlstate "$(past_pooler)" -c "select jobrun.prune_step(most => 0)"
	assert_output --regexp '^ERROR: +JR065$'
	jr prune now
	assert_equal "$status" 64
}

@test "prune and migrate --adopt wait for a locked table as briefly as other commands, and then end with 75" {
	hold 'lock table jobrun.settings in access exclusive mode'
	"$JOBRUN" prune --max-runtime 1s >"$TMPDIR/prune" 2>&1 &
	prune=$!
	"$JOBRUN" migrate --adopt >"$TMPDIR/adopt" 2>&1 &
	adopt=$!
	wait_until 10 waiting_for_lock 2
	wait_until 20 waiting_for_lock 0
	results=()
	for pid in $prune $adopt; do
		result=0
		wait "$pid" || result=$?
		results+=("$result")
	done
	assert_equal "${results[*]}" '75 75'
	assert_regex "$(<"$TMPDIR/prune")" '^jobrun: .*lock timeout; another transaction holds the lock'
	assert_regex "$(<"$TMPDIR/adopt")" '^jobrun: .*lock timeout; another transaction holds the lock'
}
