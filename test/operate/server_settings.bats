#!/usr/bin/env bats
# Settings of a server, database or role that are not the usual ones: everything works as with the usual ones.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	handler work <<<'exit 0'
	handler bad <<<'exit 1'
	handler told <<<'echo "{\"result\": {\"a\": 1}, \"progress\": {\"b\": 2}}" >>"$JOBRUN_OUT"'
}

# with_setting SETTING VALUE: from now on in each new session of the test's database.
with_setting() {
	q "do \$do\$ begin execute format('alter database %I set %s = %L', current_database(), '$1', '$2'); end \$do\$"
}

# Everybody's way through the program: schema, definitions, schedules, keys, claims, results, repair, lists.
tour() {
	local keyed dead told

	q "set client_min_messages = error; drop schema jobrun cascade"
	jr_ok migrate
	jr_ok define tick --type work --schedule '*/5 * * * *'
	q "update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) - interval '1 hour' where name = 'tick'"
	keyed=$(enqueue work '{"a": "b\\c"}' -k k --unique u)
	assert_equal "$(enqueue work '{"a": "b\\c"}' -k k)" "$keyed"
	dead=$(enqueue bad --max-attempts 1)
	told=$(enqueue told)
	jr run
	assert_equal "$status" 1
	assert_equal "$(ended "$keyed")" 'succeeded|1'
	assert_equal "$(ended "$dead")" 'dead|1|exit:1'
	assert_equal "$(field "$told" 'status, result, progress')" 'succeeded|{"a": 1}|{"b": 2}'
	q_is t "select count(*) >= 1 from jobrun.job_slots where outcome in ('queued', 'coalesced')"
	reclaim_tour "$told"
	repair_tour "$dead"
	client_tour
}

# What a runner that died has left, one of them with limits of its queue.
reclaim_tour() {
	local lost

	jr_ok queue default --max-running 5
	lost=$(enqueue work --max-attempts 2)
	q "update jobrun.job_runs set status = 'running', locked_until = now() - interval '1 s', locked_by = 'gone', runner_id = 7,
		started_at = now(), claim_seq = 1, attempts = 1 where id = $lost"
	jr_ok run
	assert_equal "$(ended "$lost")" 'failed|1|lost'
}

repair_tour() {
	jr_ok retry "$1"
	jr_ok cancel "$1"
	assert_equal "$(field "$1" status)" cancelled
	jr_ok list --status dead,cancelled
	jr_ok show "$1"
	jr_ok list --json
	jr_ok slots tick
	jr_ok next tick
	jr_ok next '0 4 L * *'
	jr_ok status
	jr_ok prune
	printf '{"a": "\\\\"}\n' >lines.jsonl
	jr_ok enqueue work --batch lines.jsonl
	jr_ok exec once -- true
	jr_ok effect key -- true
	jr next '0 0 ? * *'
	assert_equal "$status" 65
	assert_regex "$stderr" '\?'
}

# A client with the same settings.
client_tour() {
	q_is t "select jobrun.enqueue('mysql', '{}') > 0"
	q_is 2 "select count(*) from jobrun.enqueue_many('work', array['{}', '{}']::jsonb[])"
	q_is t "select next_slot_at > now() - interval '2 minutes' from jobrun.job_definitions where name = 'tick'"
	q_is 3 "select count(*) from jobrun.next_slots('*/10 5,7 * * *', 'UTC', now(), 3)"
}

# The program's own transaction for handlers in SQL, with and without results.
sql_tour() {
	local one two

	sql_handler answer <<<'select 1 as result'
	settings many <<<'{"batch": 10}'
	q 'create table done (run_id bigint)'
	sql_handler many <<<"insert into done select (r ->> 'run_id')::bigint from jsonb_array_elements(\$1) r"
	one=$(enqueue answer)
	enqueue many
	two=$(enqueue many)
	jr_ok run
	assert_equal "$(field "$one" 'status, last_error')" 'succeeded|'
	assert_equal "$(field "$two" 'status, last_error')" 'succeeded|'
}

@test "the tour of commands and functions works with default settings" {
	tour
	sql_tour
}

@test "the tour of commands and functions works with array_nulls = off" {
	with_setting array_nulls off
	q_is off "show array_nulls"
	tour
	sql_tour
}

@test "the tour of commands and functions works with standard_conforming_strings = off" {
	with_setting standard_conforming_strings off
	with_setting escape_string_warning on
	q_is off "show standard_conforming_strings"
	tour
	sql_tour
}

@test "transaction_timeout ends no statement of a handler and no transaction of jobrun" {
	local id

	if [ "$(q "select current_setting('server_version_num')::integer >= 170000")" != t ]; then
		skip "new in PostgreSQL 17"
	fi
	with_setting transaction_timeout 1s
	psql_options='-c transaction_timeout=0'
	sql_handler long <<<'select pg_sleep(2)'
	id=$(enqueue long)
	jr_ok run
	assert_equal "$(ended "$id")" 'succeeded|1'
	tour
	sql_tour
}

@test "a client with either setting enqueues, cancels and retries with the usual answers" {
	local setting id

	for setting in array_nulls standard_conforming_strings; do
		with_setting "$setting" off
		id=$(q "select jobrun.enqueue('mysql', '{}', idempotency_key => '$setting')")
		q_is "$id" "select jobrun.enqueue('mysql', '{}', idempotency_key => '$setting')"
		q "select jobrun.cancel($id)"
		q "select jobrun.retry($id)"
		run_is "$id" queued
		run q "select jobrun.enqueue('a.sql', '{}')"
		assert_failure
		run q "select jobrun.enqueue('work', '{}', idempotency_key => 'on_dead:1')"
		assert_failure
		q_is t "select jobrun.enqueue('work', '{}', idempotency_key => 'onxdead:$setting') > 0"
	done
}

@test "what is printed does not depend on the server's date, interval, zone and message settings" {
	local setting as_always

	jr_ok define nightly --type work --schedule '15 2 L * *' --time-zone Europe/Berlin --timeout 90s
	jr_ok enqueue work '{}' -k k
	as_always=$(printed)
	for setting in 'jit_above_cost|0' 'DateStyle|SQL, DMY' 'IntervalStyle|iso_8601' 'IntervalStyle|postgres_verbose' 'TimeZone|Pacific/Chatham' \
		'bytea_output|escape' 'extra_float_digits|-15' 'client_min_messages|error' 'client_min_messages|debug1' \
		'quote_all_identifiers|on' 'transform_null_equals|on' 'client_encoding|LATIN1' 'backslash_quote|off' 'row_security|off'; do
		with_setting "${setting%|*}" "${setting#*|}"
		assert_equal "$setting: $(printed)" "$setting: $as_always"
		q "do \$do\$ begin execute format('alter database %I reset all', current_database()); end \$do\$"
	done
}

printed() {
	run_jobrun define --json nightly
	run_jobrun next nightly --after 2026-03-28T12:00:00Z
	run_jobrun show 1 --json
	run_jobrun enqueue work '{"u": "\u20ac"}' -k k 2>&1
}

@test "each transaction that writes sets every setting that changes the meaning of a statement" {
	local setting

	for setting in 'array_nulls|off' 'standard_conforming_strings|off' 'DateStyle|SQL, DMY' 'IntervalStyle|iso_8601' 'TimeZone|Pacific/Chatham'; do
		with_setting "${setting%|*}" "${setting#*|}"
	done
	q 'create table public.seen (name text, setting text)' "create function public.see() returns trigger language plpgsql as \$\$ begin
			insert into public.seen select s.name, s.setting from pg_catalog.pg_settings s where s.name in
				('array_nulls', 'standard_conforming_strings', 'DateStyle', 'IntervalStyle', 'TimeZone');
			return null; end \$\$" \
		"create trigger sees after insert or update on jobrun.job_runs for each row execute function public.see()" \
		"create trigger sees after insert or update on jobrun.job_runners for each row execute function public.see()"
	jr_ok enqueue work '[]'
	jr_ok run
	q_is 'array_nulls=on DateStyle=ISO, YMD IntervalStyle=postgres standard_conforming_strings=on TimeZone=UTC' \
		"select string_agg(s.line, ' ' order by lower(s.line)) from (select distinct name || '=' || setting as line from public.seen) s"
}

# The timeouts of these tests are for jobrun, not for the test's own questions.
no_timeouts='-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0'

@test "the server's own timeouts do not end jobrun's transactions" {
	handler slow <<<'sleep 0.5' # longer than each of these timeouts
	with_setting idle_in_transaction_session_timeout 250ms
	with_setting lock_timeout 1ms
	with_setting statement_timeout 250ms
	psql_options=$no_timeouts
	enqueue slow
	enqueue work
	jr_ok run
	assert_equal "$stderr" ''
	q_is 'succeeded|2' "select status, count(*) from jobrun.job_runs group by 1"
}

@test "a sql handler's end waits for a lock on its run, whatever the server's own lock_timeout and statement_timeout are" {
	local id

	needs_session "the settings of a session are the pooler's"
	sql_handler one <<<'select pg_sleep(1.5)'
	with_setting lock_timeout 1ms
	with_setting statement_timeout 2s
	psql_options=$no_timeouts
	id=$(enqueue one)
	# Its statement must not take longer than the server's statement_timeout, so the lock is taken as soon as it has begun.
	q 'create table public.go (n integer)'
	client "begin;
		do \$\$ begin while not exists (select from jobrun.job_runs where id = $id and status = 'running') loop perform pg_sleep(0.01); end loop; end \$\$;
		select from jobrun.job_runs where id = $id for update;
		do \$\$ begin while not exists (select from public.go) loop perform pg_sleep(0.05); end loop; end \$\$;"
	wait_until 10 q_is 1 "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
	bg_runner
	wait_until 20 waiting_for_lock 1
	sleep 2.2 # the server's statement_timeout is over: the end of the run has waited longer
	q 'insert into public.go values (1)'
	end_client
	assert_equal "$client_status" 0
	wait_runner
	assert_equal "$(ended "$id")" 'succeeded|1'
}

@test "default_transaction_read_only gives one clear line and exit status 75" {
	with_setting default_transaction_read_only on
	for dry in '' -n; do
		jr run $dry
		assert_one_line 75 'read-only'
	done
}

@test "idle_session_timeout is reported once with what to type, and long handlers and --for go on" {
	local id

	if [ "$(q "select current_setting('server_version_num')::integer >= 140000")" != t ]; then
		skip "new in PostgreSQL 14"
	fi
	needs_session "it is the pooler's session that is cut"
	handler slow <<<'sleep 1.5' # idle for five times as long as the server allows
	with_setting idle_session_timeout 300ms
	id=$(enqueue slow)
	jr_ok run
	assert_equal "${#stderr_lines[@]}" 1
	assert_regex "$stderr" 'idle_session_timeout is 300 ms: .*ALTER ROLE CURRENT_USER SET idle_session_timeout = 0$'
	assert_equal "$(ended "$id")" 'succeeded|1'
	jr_ok run
	assert_equal "$stderr" ''
	bg_runner --for 5m
	wait_until 10 q_is 1 "select count(*) from jobrun.job_runners where lingers_until > now()"
	sleep 1 # idle for three times as long as the server allows
	id=$(enqueue work)
	wait_until 10 run_is "$id" succeeded
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(cat "$runner_err")" ''
	with_setting idle_session_timeout 1h
	jr_ok run
	assert_equal "$stderr" ''
}

@test "idle_session_timeout in other units is understood" {
	local value

	if [ "$(q "select current_setting('server_version_num')::integer >= 140000")" != t ]; then
		skip "new in PostgreSQL 14"
	fi
	needs_session "it is the pooler's session that is cut"
	for value in 14d 90min 20001 0; do
		with_setting idle_session_timeout "$value"
		jr_ok run
		assert_equal "$stderr" ''
	done
}
