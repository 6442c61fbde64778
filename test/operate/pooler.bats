#!/usr/bin/env bats
# PgBouncer in transaction mode between the program and the server: there is no session, and nothing needs one.

load ../lib/common
load ../lib/pooler

setup() {
	common_setup
	pooler
}

@test "six runners behind a pooler do each run exactly once" {
	handler append <<<'echo "$JOBRUN_RUN_ID" >> "$TMPDIR/done"'
	q "select jobrun.enqueue('append') from generate_series(1, 300)" >/dev/null
	for i in 1 2 3 4 5 6; do
		bg_runner -j 3 --state-dir "$BATS_TEST_TMPDIR/host$i"
	done
	for pid in "${runner_pids[@]}"; do
		wait_runner "$pid"
		assert_equal "$runner_status" 0
	done
	assert_equal "$(sort -u "$TMPDIR/done" | wc -l) $(wc -l <"$TMPDIR/done")" '300 300'
	q_is 300 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
}

@test "a long run is heartbeaten, a lost one is taken back, and the commands work" {
	waiting_handler slow
	id=$(enqueue slow --backoff 0)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 run_is "$id" running
	for _ in 1 2; do
		until=$(field "$id" locked_until)
		wait_until 10 q_is t "select locked_until > coalesce(nullif('$until', '')::timestamptz, '-infinity') from jobrun.job_runs where id = $id"
	done
	kill -KILL "$runner_pid"
	touch "$TMPDIR/go"
	wait_until 10 taken_back "$id"
	q_is 'succeeded|2' "select status, claim_seq from jobrun.job_runs where id = $id"
	jr_ok show "$id"
	jr_ok status
	jr_ok migrate --status
}

@test "statements that are cancelled, many at once: what belongs to each cancel is there to its end" {
	# PgBouncer 1.18 may end by itself when a connection has reached its age while a cancel is under way.
	end_pooler
	pooler server_lifetime=3600 server_idle_timeout=3600
	printf '%s\n' 'select pg_sleep(60)' >"$JOBRUN_HANDLERS/sleep.sql"
	q "select jobrun.enqueue('sleep', timeout => '200 ms', max_attempts => 1) from generate_series(1, 60)" >/dev/null
	JR_TIMEOUT=$((100 * patience)) jr run --sql-jobs 3
	q_is 60 "select count(*) from jobrun.job_runs where status = 'dead' and error_code = 'timeout'"
	# It also ends when the one who cancels goes away too early.
	pooler_lives
}

@test "a login that the pooler or the server behind it refuses keeps its exit status" {
	handler ok <<<'exit 0'
	jr run -d "$JR_SERVER dbname=not_there"
	assert_equal "$status" 78
	assert_regex "$stderr" 'database "not_there" does not exist'
	jr run -d "$JR_SERVER dbname=$JR_DATABASE user=not_there"
	assert_equal "$status" 77
	assert_regex "$stderr" 'no such user'
}

@test "a server that is away behind the pooler exits with 75, and is reported once, and so is its return" {
	end_pooler
	own_cluster
	JR_DIRECT=${JOBRUN_DATABASE_URL% dbname=*}
	pooler
	handler ok <<<'exit 0'
	id=$(enqueue ok)
	stop_server
	jr run
	assert_equal "$status" 75
	assert_equal "${#stderr_lines[@]}" 1
	jr run
	assert_equal "$status" 75
	assert_equal "$stderr" ''
	start_server
	# For a second it remembers that the server was away.
	wait_until 10 run_jobrun list
	jr_ok run
	assert_regex "$stderr" 'database is back'
	run_is "$id" succeeded
}
