#!/usr/bin/env bats
# jobrun retry and jobrun cancel.

load ../lib/common

setup() {
	common_setup
	handler give_up <<<'echo no; exit 65'
	handler work <<<'echo done'
	handler slow <<<'sleep 30'
}

@test "retry gives a dead run all its attempts again" {
	id=$(enqueue give_up)
	jr run
	run_is "$id" dead
	jr_ok retry "$id"
	assert_equal "$output" 'retried 1 run'
	assert_equal "$stderr" ''
	q_is 'queued|0|1|t' "select status, attempts, claim_seq, finished_at is null from jobrun.job_runs where id = $id"
	jr run
	run_is "$id" dead
	q_is 2 "select count(*) from jobrun.job_attempts where run_id = $id"
}

@test "retry: what is possible is done, the rest is named with exit 1" {
	one=$(enqueue give_up)
	two=$(enqueue work)
	jr run
	jr retry "$one" "$two" 999999
	assert_equal "$status" 1
	assert_equal "$output" 'retried 1 run'
	assert_line_of_stderr "jobrun: run $two has succeeded; to run it again: jobrun retry --force $two"
	assert_line_of_stderr 'jobrun: there is no run 999999'
	run_is "$one" queued
	run_is "$two" succeeded
}

assert_line_of_stderr() {
	printf '%s\n' "$stderr" | grep -qxF "$1" || fail "no line '$1' in: $stderr"
}

@test "retry --force runs a success again; its first attempt stays on record" {
	id=$(enqueue work)
	jr_ok run
	jr_ok retry --force "$id"
	run_is "$id" queued
	jr_ok run
	jr_ok show "$id" --json
	assert_equal "$(jq -c '[.status, (.attempt_list | length)]' <<<"$output")" '["succeeded",2]'
}

@test "retry of a running run is refused" {
	id=$(enqueue slow)
	bg_runner
	wait_until 10 run_is "$id" running
	jr retry "$id"
	assert_equal "$status" 1
	assert_regex "$stderr" "run $id is running"
	run_is "$id" running
}

@test "cancel ends a waiting run at once, and again is no error" {
	id=$(enqueue work --in 1h)
	jr_ok cancel "$id"
	assert_equal "$output" "run $id: cancelled"
	run_is "$id" cancelled
	jr_ok cancel "$id"
}

@test "cancel of a running run is seen at the next heartbeat" {
	id=$(enqueue slow)
	bg_runner --lease 4s
	wait_until 10 run_is "$id" running
	jr_ok cancel "$id"
	assert_equal "$output" "run $id: cancel requested; its runner sees it at the next heartbeat"
	wait_until 15 run_is "$id" cancelled
	wait_runner
}

@test "cancel of what has ended is exit 1 and says so" {
	id=$(enqueue work)
	jr_ok run
	jr cancel "$id" 999999
	assert_equal "$status" 1
	assert_line_of_stderr "jobrun: run $id had ended already: succeeded"
	assert_line_of_stderr 'jobrun: there is no run 999999 that you may cancel'
}

@test "one wrong id and nothing is done" {
	id=$(enqueue work)
	jr cancel "$id" 12x
	assert_equal "$status" 64
	jr cancel "$id" -- -1
	assert_equal "$status" 64
	run_is "$id" queued
}

@test "--json: a document for each id" {
	one=$(enqueue work)
	jr cancel --json "$one" 999999
	assert_equal "$status" 1
	assert_equal "$(jq -c . <<<"$output")" \
		"[{\"id\":$one,\"cancelled\":true,\"requested\":false,\"status\":\"cancelled\"},{\"id\":999999,\"cancelled\":false,\"requested\":false,\"status\":null}]"
	jr_ok retry --json "$one"
	assert_equal "$(jq -c . <<<"$output")" "[{\"id\":$one,\"retried\":true,\"status\":\"queued\"}]"
}
