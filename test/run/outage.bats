#!/usr/bin/env bats
# The database goes away: handlers go on, results are kept, and nothing is called empty that is not.

load ../lib/common

@test "when connections are cut in mid-job, the handler goes on and its result is written" {
	waiting_handler slow
	id=$(enqueue slow)
	bg_runner --lease 60s
	wait_until 10 up_is 1
	for _ in 1 2 3 4; do
		terminate_backends
		sleep 0.3 # time for a new connection, which is cut as well
	done
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "after an immediate server restart in mid-job the handler goes on and its result is written" {
	own_cluster
	waiting_handler slow
	id=$(enqueue slow)
	bg_runner --lease 60s
	wait_until 10 up_is 1
	restart_server --immediate
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "a result is kept while the server is down and written when it is back" {
	own_cluster
	waiting_handler slow
	id=$(enqueue slow)
	bg_runner --lease 60s
	wait_until 10 up_is 1
	find_handler 'handlers/slow'
	stop_server
	touch "$TMPDIR/go"
	wait_until 10 test ! -e "/proc/$handler_pid" # the runner has reaped it, so it has the result
	start_server
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "when the server stays away, the handler is stopped inside its lease, and nothing is written" {
	own_cluster
	handler slow <<<'exec sleep 60'
	id=$(enqueue slow --backoff 0)
	bg_runner --lease 2s
	wait_until 10 run_is "$id" running
	find_handler '^sleep 60'
	stop_server
	wait_until 3 is_gone "$handler_pid"
	wait_runner "$runner_pid" 30
	assert_equal "$runner_status" 75
	start_server
	run_is "$id" running
	handler slow <<<'exit 0'
	jr_ok run --lease 2s
	jr_ok run --lease 2s
	q_is 'succeeded|2' "select status, claim_seq from jobrun.job_runs where id = $id"
}

@test "a runner that is told to end while it waits for a connection exits with 75 and the reason, exec as its command would" {
	handler ok <<<'exit 0'
	mkdir "$TMPDIR/away"
	bg_runner -v -d "host=$TMPDIR/away"
	wait_until 5 grep -q db_lost "$runner_err"
	kill -TERM "$runner_pid"
	wait_runner "$runner_pid" 5
	assert_equal "$runner_status" 75
	assert_regex "$(grep -v event= "$runner_err")" "^jobrun: connection to server on socket \"$TMPDIR/away/.* failed: No such file or directory[^"$'\n'"]*$"
	bg_jobrun exec -v -d "host=$TMPDIR/away" x -- true
	wait_until 5 grep -q db_lost "$runner_err"
	kill -TERM "$runner_pid"
	wait_runner "$runner_pid" 5
	assert_equal "$runner_status" 143
}

@test "a server that is away exits with 75, and is reported once, and so is its return" {
	own_cluster
	handler ok <<<'exit 0'
	stop_server
	jr run
	assert_one_line 75 '^jobrun: .*'
	jr run
	assert_equal "$status" 75
	assert_equal "$stderr" ''
	start_server
	jr_ok run
	assert_regex "$stderr" 'database is back'
	jr_ok run
	assert_equal "$stderr" ''
}

@test "'too many clients' is retried within the tick and is no error" {
	own_cluster -o max_connections=10 -o superuser_reserved_connections=0
	handler ok <<<'exit 0'
	id=$(enqueue ok)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		hold 'select 1' || break
	done 2>/dev/null
	bg_runner
	sleep 1 # nobody tells from outside that it tries; after this it still does
	is_running=0
	kill -0 "$runner_pid" && is_running=1
	release_holds
	wait_runner
	assert_equal "$is_running" 1
	assert_equal "$runner_status" 0
	run_is "$id" succeeded
}

@test "a read-only server exits with 75, and nothing is claimed" {
	own_cluster
	handler ok <<<'exit 0'
	id=$(enqueue ok)
	q "alter system set default_transaction_read_only = on" "select pg_reload_conf()"
	jr run
	assert_equal "$status" 75
	PGOPTIONS='-c default_transaction_read_only=off' q 'alter system reset default_transaction_read_only' 'select pg_reload_conf()'
	run_is "$id" queued
}

# become_standby: the test's own cluster, started with wal_level=replica, goes on as a standby that has no primary.
become_standby() {
	local data

	data=$(q 'show data_directory')
	stop_server
	touch "$data/standby.signal"
	chown --reference="$data" "$data/standby.signal"
	start_server
}

@test "a standby is refused with 75 and what to type, and commands that only read can ask for it" {
	own_cluster -o wal_level=replica
	handler ok <<<'exit 0'
	become_standby
	jr run
	assert_one_line 75 'session is read-only; the server is a standby.*: name the primary in the connection string.*PGTARGETSESSIONATTRS=any$'
	jr list -d "host=$BATS_TEST_TMPDIR,${JOBRUN_DATABASE_URL#host=}"
	assert_one_line 75 '; none of these hosts takes writes now: one of them has to be the primary'
	PGTARGETSESSIONATTRS=any jr_ok list
	PGTARGETSESSIONATTRS=any jr enqueue work
	assert_one_line 75 'read-only transaction; the server is a standby.*: name the primary'
	q 'select pg_promote()'
}

@test "a server that does not take writes yet is asked again, and the tick works when it is promoted" {
	own_cluster -o wal_level=replica
	handler ok <<<'exit 0'
	id=$(enqueue ok)
	become_standby
	bg_runner -v
	wait_until 10 grep -q db_lost "$runner_err"
	q 'select pg_promote()'
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$id" succeeded
}
