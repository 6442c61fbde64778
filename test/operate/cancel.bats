#!/usr/bin/env bats
# jobrun cancel: of runs by ID, and of many by filter. What it has in common with retry is in operate/retry_cancel.bats.

load ../lib/common

setup() {
	common_setup
	handler work <<<'echo done'
	handler slow <<<'sleep 30'
}

@test "cancel ends a waiting run at once, and again is no error" {
	id=$(enqueue work --in 1h)
	jr_ok cancel "$id"
	assert_equal "$output" "run $id: cancelled"
	run_is "$id" cancelled
	jr_ok cancel "$id"
}

@test "cancel of a run that waits for its next attempt: it took what the last attempt took, or nothing if none began" {
	handler fails <<<'exit 1'
	id=$(enqueue fails --backoff 1h)
	jr_ok --once
	run_is "$id" failed
	q "update jobrun.job_runs set started_at = now() - interval '30 minutes', failed_at = now() - interval '29 minutes 58 seconds'
		where id = $id"
	jr_ok cancel "$id"
	assert_equal "$(run_jobrun list --json | jq -c '[.runs[] | {status, took_ms}]')" '[{"status":"cancelled","took_ms":2000}]'
	run_jobrun show "$id" | grep -Eq '^took +2s$'
	jr_ok retry "$id"
	jr_ok cancel "$id"
	assert_equal "$(run_jobrun list --json | jq -c '[.runs[] | {status, took_ms}]')" '[{"status":"cancelled","took_ms":null}]'
	run ! grep -q '^took' <<<"$(run_jobrun show "$id")"
}

@test "cancel of a running run is seen at the next heartbeat" {
	id=$(enqueue slow)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 run_is "$id" running
	jr_ok cancel "$id"
	assert_equal "$output" "run $id: cancel requested; its runner stops it at the next heartbeat; if that runner is gone, the first tick after the lease ends it"
	wait_until 15 run_is "$id" cancelled
	wait_runner
}

@test "cancel of a run whose runner is gone promises no heartbeat, and the next tick ends the run" {
	id=$(enqueue work)
	begin_attempt "$id"
	end_lease "$id"
	jr_ok cancel "$id"
	assert_equal "$output" "run $id: cancel requested; its runner stops it at the next heartbeat; if that runner is gone, the first tick after the lease ends it"
	jr_ok run
	run_is "$id" cancelled
}

@test "cancel of a run that has ended exits with 1 and says so" {
	id=$(enqueue work)
	jr_ok run
	jr cancel "$id" 999999
	assert_equal "$status" 1
	assert_line_of_stderr "jobrun: run $id had ended already: succeeded"
	assert_line_of_stderr 'jobrun: there is no run 999999 that you may cancel'
}

@test "cancel with one wrong id does nothing" {
	id=$(enqueue work)
	jr cancel "$id" 12x
	assert_equal "$status" 64
	jr cancel "$id" -- -1
	assert_equal "$status" 64
	run_is "$id" queued
}

@test "cancel --queue takes waiting runs, and running ones only if asked to" {
	id=$(enqueue slow --queue night)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 run_is "$id" running
	queued_runs 3 mail night
	queued_runs 1 mail day
	jr_ok cancel --queue night
	assert_equal "$output" 'cancelled 3 runs'
	assert_by_status 'cancelled 3, queued 1, running 1'
	jr_ok cancel --status running,queued --reason 'too slow'
	assert_equal "$output" 'cancelled 1 run, asked 1 running one to stop'
	jr_ok cancel --status running --json
	[ "$output" = '{"version":1,"cancelled":0,"requested":1,"left_alone":0,"passed_over":0}' ] ||
		[ "$output" = '{"version":1,"cancelled":0,"requested":0,"left_alone":0,"passed_over":0}' ]
	wait_until 15 run_is "$id" cancelled
	wait_runner
	# Asked again is not on record again.
	q_is 'running|{"status": "running", "cancel_requested": true}|too slow' \
		"select old ->> 'status', new, reason from jobrun.job_audit where object = 'run $id'"
}

@test "cancel against runners: each run is done or cancelled, never both, never lost" {
	q "insert into jobrun.job_runs (job_type) select 'jobrun.noop' from generate_series(1, 4000)"
	bg_runner --state-dir "$BATS_TEST_TMPDIR/a"
	first=$runner_pid
	bg_runner --state-dir "$BATS_TEST_TMPDIR/b"
	wait_until 10 q_is t "select exists (select from jobrun.job_runs where status = 'succeeded')"
	jr_ok cancel --type jobrun.noop --json
	cancelled=$(jq .cancelled <<<"$output")
	wait_runner "$first"
	wait_runner
	q_is "$cancelled" "select count(*) from jobrun.job_runs where status = 'cancelled' and claim_seq = 0"
	q_is "$((4000 - cancelled))" "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
	q_is "$cancelled" 'select count(*) from jobrun.job_audit'
}
