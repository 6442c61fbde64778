#!/usr/bin/env bats
# Pools: executables, requests and statements have permits of their own; a kind that is busy keeps no other waiting.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	counter
	waiting_handler stay
	# A statement that waits until somebody lets it go.
	sql_handler wait <<<'select pg_advisory_xact_lock(17)'
	sql_handler count <<<'update counter set n = n + 1'
}

running_is() {
	q_is "$2" "select count(*) from jobrun.job_runs where job_type = '$1' and status = 'running'"
}

@test "executables that use every permit of theirs keep no statement waiting, nor the other way round" {
	q "select jobrun.enqueue('stay') from generate_series(1, 3)" >/dev/null
	bg_runner -j 2 --sql-jobs 2
	wait_until 10 up_is 2
	id=$(enqueue count)
	wait_until 10 run_is "$id" succeeded
	running_is stay 2

	hold 'select pg_advisory_lock(17)'
	q "select jobrun.enqueue('wait') from generate_series(1, 3)" >/dev/null
	wait_until 10 running_is wait 2
	touch "$TMPDIR/go"
	wait_until 10 running_is stay 0
	id=$(enqueue stay)
	wait_until 10 run_is "$id" succeeded
	running_is wait 2
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded' or claim_seq <> 1"
}

@test "--sql-jobs holds for all runners of the host together" {
	hold 'select pg_advisory_lock(17)'
	q "select jobrun.enqueue('wait') from generate_series(1, 9)" >/dev/null
	bg_runner --sql-jobs 3
	bg_runner --sql-jobs 3
	wait_until 10 running_is wait 3
	# A tick that has no permit for the only work there is ends at once, and so do not those that hold some.
	jr_ok run --sql-jobs 3
	assert_equal "$output$stderr" ''
	running_is wait 3
	# A run is in the state running before its statement is sent.
	wait_until 10 q_is 3 "select count(*) from pg_locks where database = (select oid from pg_database where datname = current_database()) and locktype = 'advisory' and not granted"
	release_holds
	for pid in "${runner_pids[@]}"; do
		wait_runner "$pid"
		assert_equal "$runner_status" 0
	done
	q_is 9 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
}

@test "a batch is claimed at once, takes one permit, and leaves the others to single statements" {
	sql_handler visits <<<"insert into seen select (r->>'run_id')::bigint, txid_current() from jsonb_array_elements(\$1) r"
	echo '{"batch": 40}' >"$JOBRUN_HANDLERS/visits.json"
	q 'create table seen (id bigint, tx bigint)'
	q "select jobrun.enqueue('visits') from generate_series(1, 100)" \
		"select jobrun.enqueue('count') from generate_series(1, 20)" >/dev/null
	jr_ok run --sql-jobs 1
	q_is '3|100' 'select count(distinct tx), count(distinct id) from seen'
	q_is 20 'select n from counter'
	q_is 120 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
}

@test "--max-runs counts each run of a batch" {
	sql_handler visits <<<'select from jsonb_array_elements($1) limit 0'
	echo '{"batch": 40}' >"$JOBRUN_HANDLERS/visits.json"
	q "select jobrun.enqueue('visits') from generate_series(1, 100)" >/dev/null
	jr_ok run --max-runs 50
	q_is 50 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "--job runs a statement, and a single run of a handler with batch" {
	sql_handler visits <<<"select from jsonb_array_elements(\$1) limit 0"
	echo '{"batch": 40}' >"$JOBRUN_HANDLERS/visits.json"
	one=$(enqueue count --in 1h)
	two=$(enqueue visits --in 1h)
	jr_ok run --job "$one"
	jr_ok run --job "$two"
	run_is "$one" succeeded
	run_is "$two" succeeded
}

@test "--job without a free permit of its kind is exit status 75" {
	hold 'select pg_advisory_lock(17)'
	enqueue wait
	bg_runner --sql-jobs 1
	wait_until 10 running_is wait 1
	id=$(enqueue count --in 1h)
	jr run --sql-jobs 1 --job "$id"
	assert_one_line 75 "^jobrun: run $id was not started: no free permit on this host: try again later, or with a larger -j\$"
	run_is "$id" queued
	# With a permit it would not start either: then that is said.
	jr run --sql-jobs 1 --job 4711
	assert_one_line 1 '^jobrun: there is no run 4711; '
	jr_ok queue narrow --max-running 0
	id=$(enqueue count -q narrow)
	jr run --sql-jobs 1 --job "$id"
	assert_one_line 75 "^jobrun: run $id was not started: queue narrow lets no run start: its max-running is 0; try: jobrun queue narrow --max-running 1\$"
	release_holds
	wait_runner
}

@test "TERM gives a batch back: none of its effects is kept, and each run waits again" {
	sql_handler visits <<<"with w as materialized (select pg_advisory_xact_lock(17)) insert into seen select (r->>'run_id')::bigint from w, jsonb_array_elements(\$1) r"
	echo '{"batch": 40}' >"$JOBRUN_HANDLERS/visits.json"
	q 'create table seen (id bigint)'
	hold 'select pg_advisory_lock(17)'
	q "select jobrun.enqueue('visits') from generate_series(1, 30)" >/dev/null
	bg_runner --grace 100ms
	wait_until 10 running_is visits 30
	wait_until 10 q_is 1 "select count(*) from pg_locks where database = (select oid from pg_database where datname = current_database()) and locktype = 'advisory' and not granted"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is 30 "select count(*) from jobrun.job_runs where status = 'queued' and releases = 1 and attempts = 0"
	q_is 0 'select count(*) from seen'
	release_holds
	jr_ok run
	q_is 30 'select count(distinct id) from seen'
}

@test "more urgent runs go first, also among batches and single runs" {
	q 'create table seen (n serial, what text)'
	printf "insert into seen (what) values ('low')" >"$JOBRUN_HANDLERS/low.sql"
	printf "insert into seen (what) values ('urgent')" >"$JOBRUN_HANDLERS/urgent.sql"
	echo '{"batch": 1}' >"$JOBRUN_HANDLERS/low.json"
	chmod 644 "$JOBRUN_HANDLERS"/*.sql "$JOBRUN_HANDLERS"/*.json
	q "select jobrun.enqueue('low', priority => 200::smallint) from generate_series(1, 5)" \
		"select jobrun.enqueue('urgent', priority => 1::smallint) from generate_series(1, 5)" >/dev/null
	jr_ok run --sql-jobs 1
	q_is 'urgent,urgent,urgent,urgent,urgent,low,low,low,low,low' "select string_agg(what, ',' order by n) from seen"
}

@test "many types of one kind do not keep those of another from their permits" {
	for i in {1..80}; do
		printf '#!/bin/sh\nsleep 0.1\n' >"$JOBRUN_HANDLERS/ex$i"
	done
	chmod 755 "$JOBRUN_HANDLERS"/ex*
	echo 'select 1' >"$JOBRUN_HANDLERS/sq.sql"
	chmod 644 "$JOBRUN_HANDLERS/sq.sql"
	q "select jobrun.enqueue('ex' || g) from generate_series(1, 80) g" "select jobrun.enqueue('sq', priority => 200::smallint)" >/dev/null
	jr_ok run -j 1
	q_is t "select count(*) < 10 from jobrun.job_runs r join jobrun.job_runs s on s.job_type = 'sq' and r.started_at < s.started_at"
}
