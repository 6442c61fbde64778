#!/usr/bin/env bats
# The database goes away: handlers go on, results are kept, and nothing is called empty that is not.

load ../lib/common

@test "connections cut in mid-job: the handler goes on and its result is written" {
	handler slow <<<'sleep 3; echo done'
	id=$(enqueue slow)
	bg_runner --lease 10s
	wait_until 10 run_is "$id" running
	for _ in 1 2 3 4; do
		terminate_backends
		sleep 0.3
	done
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "an immediate server restart in mid-job: the handler goes on and its result is written" {
	own_cluster
	handler slow <<<'sleep 3; echo done'
	id=$(enqueue slow)
	bg_runner --lease 10s
	wait_until 10 run_is "$id" running
	restart_server --immediate
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "a result is kept while the server is down and written when it is back" {
	own_cluster
	handler slow <<<'sleep 1; echo done'
	id=$(enqueue slow)
	bg_runner --lease 20s
	wait_until 10 run_is "$id" running
	stop_server
	sleep 2
	start_server
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "a server that stays away: the handler is stopped inside its lease, and nothing is written" {
	own_cluster
	handler slow <<<'exec sleep 60'
	id=$(enqueue slow --backoff 0)
	bg_runner --lease 2s
	wait_until 10 run_is "$id" running
	wait_until 10 pgrep -f '^sleep 60' -P "$runner_pid" # the run is running before its handler is
	handler_pid=$(pgrep -f '^sleep 60' -P "$runner_pid")
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

@test "a server that is away is exit 75, said once, and its return is said once" {
	own_cluster
	handler ok <<<'exit 0'
	stop_server
	jr run
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: .*'
	assert_equal "${#stderr_lines[@]}" 1
	jr run
	assert_equal "$status" 75
	assert_equal "$stderr" ''
	start_server
	jr_ok run
	assert_regex "$stderr" 'database is back'
	jr_ok run
	assert_equal "$stderr" ''
}

@test "too many clients is tried again within the tick, not an error" {
	own_cluster -o max_connections=10 -o superuser_reserved_connections=0
	handler ok <<<'exit 0'
	id=$(enqueue ok)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		hold 'select 1' || break
	done 2>/dev/null
	bg_runner
	sleep 1
	is_running=0
	kill -0 "$runner_pid" && is_running=1
	release_holds
	wait_runner
	assert_equal "$is_running" 1
	assert_equal "$runner_status" 0
	run_is "$id" succeeded
}

@test "a read-only server is exit 75, and nothing is claimed" {
	own_cluster
	handler ok <<<'exit 0'
	id=$(enqueue ok)
	q "alter system set default_transaction_read_only = on" "select pg_reload_conf()"
	jr run
	assert_equal "$status" 75
	PGOPTIONS='-c default_transaction_read_only=off' q 'alter system reset default_transaction_read_only' 'select pg_reload_conf()'
	run_is "$id" queued
}
