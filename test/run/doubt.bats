#!/usr/bin/env bats
# Lost answers: whatever COMMIT is cut, nothing is lost, nothing is done twice unnoticed, and no late result counts.

load ../lib/common
load ../lib/proxy

setup() {
	common_setup
	handler work <<-'sh'
		echo "$JOBRUN_CLAIM" >> "$TMPDIR/work.$JOBRUN_RUN_ID"
		sleep 0.3 # the handler still runs while the runner connects again
	sh
}

# work_once N: a tick through the proxy; its run ends once.
work_once() {
	local id

	id=$(enqueue work --backoff 0)
	jr run -d "$proxied" --lease 6s --max-runs 1 -v
	echo "$1: $stderr"
	assert_equal "$status" 0
	refute_regex "$stderr" 'lease_lost|outcome_refused'
	# What the cut tick has not ended, the next ones do.
	wait_until 10 ticked_to_success "$id"
	q_is 'succeeded' "select status from jobrun.job_runs where id = $id"
	# Started as often as it was claimed and not found out as too late, and never beside itself.
	assert_equal "$(sort -u "$TMPDIR/work.$id" | wc -l)" "$(wc -l <"$TMPDIR/work.$id")"
	# An answer that was lost costs no attempt: the runner reads, and goes on.
	q_is '1|1' "select attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "each COMMIT's answer is lost once: runs end once, in one attempt" {
	cut_every_commit answer work_once
}

@test "each COMMIT's request is lost once: runs end once, in one attempt" {
	cut_every_commit request work_once
}

@test "each COMMIT's answer hangs once: the deadline cuts the connection, and runs end once, in one attempt" {
	cut_every_commit hang work_once
}

@test "a server that takes connections and answers nothing ends the tick with 75" {
	proxy mute 0
	id=$(enqueue work)
	jr run -d "$proxied" --lease 2s
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: the database did not answer in time'
	run_is "$id" queued
}

# reclaim_once N: a run on its last attempt, whose lease has expired, is taken back through the proxy; somebody is told that it is dead.
reclaim_once() {
	local id

	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'gone', 'x') on conflict do nothing"
	id=$(q "insert into jobrun.job_runs (job_type, max_attempts, status, attempts, claim_seq, runner_id, locked_by, started_at, locked_until)
		values ('work', 1, 'running', 1, 1, 77, 'gone', now() - interval '1 hour', now() - interval '1 minute') returning id")
	jr run -d "$proxied" --lease 6s
	assert_regex "$1: $stderr" "run $id work is dead after 1 of 1 attempt:|not known whether 1 lost run on its last attempt went dead"
	[ "$status" -ne 0 ]
	run_is "$id" dead
}

@test "each COMMIT's answer is lost once: a run that is taken back and is dead is told of" {
	cut_every_commit answer reclaim_once
}

@test "an enqueue whose COMMIT answer is lost makes one run" {
	for mode in answer request; do
		proxy "$mode" 1
		before=$(q "select count(*) from jobrun.job_runs")
		jr enqueue -d "$proxied" work
		assert_equal "$status" 0
		assert_equal "$(q "select count(*) - $before from jobrun.job_runs")" 1
		q_is work "select job_type from jobrun.job_runs where id = $output"
		assert_file_exist "$cut_file"
	done
	q "delete from jobrun.job_runs"
}
