#!/usr/bin/env bats
# Stopping a runner: what runs may end in the grace, the rest is given back uncharged, and not for ever.

load ../lib/common

# `wait` runs until the file `go` is there, `stay` until it is stopped.
setup() {
	common_setup
	waiting_handler wait
	handler stay <<<'echo up >> "$TMPDIR/up"; exec sleep 60'
}

# start TYPE OPTION...: a runner whose one run, id, has begun.
start() {
	id=$(enqueue "$1")
	bg_runner "${@:2}"
	wait_until 10 test -s "$TMPDIR/up"
}

# status|attempts|claim_seq|releases
fate() {
	q "select status, attempts, claim_seq, releases from jobrun.job_runs where id = $1"
}

# given_back ID COLUMN OUTCOME N: as if that had happened N times before.
given_back() {
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select $1, s, 1, '$3' from generate_series(1, $4) s" \
		"update jobrun.job_runs set claim_seq = $4, $2 = $4 where id = $1"
}

@test "TERM, HUP and INT wait for the grace, then release the run uncharged" {
	for signal in TERM HUP INT; do
		rm -f "$TMPDIR/up"
		start stay --grace 700ms
		begin=$(now_ms)
		kill -"$signal" "$runner_pid"
		wait_runner
		took=$(ms_since "$begin")
		assert_equal "$runner_status" 0
		assert_between 700 "$took" 20000 # the grace is 30 s if nothing is said
		assert_equal "$(fate "$id")" 'queued|0|1|1'
		q_is released "select outcome from jobrun.job_attempts where run_id = $id"
		q_is t "select run_at <= now() from jobrun.job_runs where id = $id"
		q "select jobrun.cancel($id)" >/dev/null
	done
}

@test "a handler that ends within the grace has its result, and nothing new is claimed" {
	start wait -j 1 --grace 1m -v
	next=$(enqueue wait)
	kill -TERM "$runner_pid"
	wait_until 5 grep -q runner_signal "$runner_err"
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(fate "$id")" 'succeeded|1|1|0'
	assert_equal "$(fate "$next")" 'queued|0|0|0'
}

@test "heartbeats go on during the grace" {
	start wait --lease $((2 * patience))s --grace 1m
	kill -TERM "$runner_pid"
	until=$(q "select locked_until from jobrun.job_runs where id = $id")
	wait_until 10 q_is t "select locked_until > '$until'::timestamptz + interval '2.5 s' * $patience from jobrun.job_runs where id = $id"
	jr_ok run --state-dir "$BATS_TEST_TMPDIR/other" --lease 2s
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$(fate "$id")" 'succeeded|1|1|0'
}

@test "after TERM a handler that exits with 0 has succeeded, with 65 is dead, and with anything else is released" {
	handler exit <<-'sh'
		code=$(cat)
		trap 'exit $code' TERM
		echo up >> "$TMPDIR/up"
		while :; do sleep 0.05; done
	sh
	q "select jobrun.enqueue('exit', to_jsonb(c)) from unnest(array[0, 1, 65, 75]) c" >/dev/null
	bg_runner -j 4 --grace 0
	wait_until 10 up_is 4
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 1
	q_is '0 succeeded 1 0,1 queued 0 1,65 dead 1 0,75 queued 0 1' "select string_agg(
		concat_ws(' ', payload, status, attempts, releases), ',' order by payload) from jobrun.job_runs"
}

@test "the fourth release is charged as a failure" {
	id=$(enqueue stay)
	given_back "$id" releases released 2
	for fate in 'queued|0|3|3' 'failed|1|4|3'; do
		rm -f "$TMPDIR/up"
		bg_runner --grace 0
		wait_until 10 test -s "$TMPDIR/up"
		kill -TERM "$runner_pid"
		wait_runner
		assert_equal "$(fate "$id")" "$fate"
	done
}

@test "the second INT kills the handlers, releases their runs and exits with 130" {
	handler stubborn <<<'trap "" TERM INT; echo $$ > "$TMPDIR/pid"; exec sleep 60'
	id=$(enqueue stubborn)
	bg_runner --grace 1m -v
	wait_until 10 test -s "$TMPDIR/pid"
	kill -INT "$runner_pid"
	wait_until 5 grep -q runner_signal "$runner_err"
	kill -0 "$(cat "$TMPDIR/pid")"
	run_is "$id" running
	kill -INT "$runner_pid"
	wait_runner "$runner_pid" 5
	assert_equal "$runner_status" 130
	is_gone "$(cat "$TMPDIR/pid")"
	assert_equal "$(fate "$id")" 'queued|0|1|1'
}

@test "TERM ends a runner that holds nothing at once" {
	hold "lock table jobrun.job_runners in access exclusive mode"
	bg_runner -v
	# It waits for its row.
	wait_until 5 q_is 1 "select count(*) from pg_locks where database = (select oid from pg_database where datname = current_database()) and not granted and relation = 'jobrun.job_runners'::regclass"
	kill -TERM "$runner_pid"
	wait_until 5 grep -q runner_signal "$runner_err"
	release_holds
	wait_runner "$runner_pid" 10
	assert_equal "$runner_status" 0
}

@test "Ctrl-C on a terminal says what it waits for, and the summary what was given back" {
	# The second Ctrl-C comes while they still run.
	for _ in 1 2; do enqueue stay >/dev/null; done
	TERM=xterm timeout 30 script -qfec "echo \$\$ >pid; exec $JOBRUN run -j 2" /dev/null </dev/null >out 2>&1 3>&- 4>&- &
	runner_pids+=($!)
	wait_until 10 up_is 2
	kill -INT "$(cat pid)"
	wait_until 10 grep -q 'jobrun: finishing 2 runs, up to 30s; Ctrl-C again stops them' out
	kill -INT "$(cat pid)"
	wait_runner $!
	grep -qE '2 runs in .*: 0 succeeded, 0 retrying, 0 dead, 2 stopped and given back' out
	q "select jobrun.cancel(id) from jobrun.job_runs" >/dev/null
}

@test "TERM says what it waits for with -v, and nothing without; nothing is said where nothing runs" {
	rm -f "$TMPDIR/up"
	start stay --grace 200ms
	kill -TERM "$runner_pid"
	wait_runner
	assert_file_empty "$runner_err"
	q "select jobrun.cancel($id)" >/dev/null
	rm -f "$TMPDIR/up"
	start stay --grace 200ms -v
	kill -TERM "$runner_pid"
	wait_runner
	grep -qx 'jobrun: finishing 1 run, up to 200ms' "$runner_err"
	q "select jobrun.cancel($id)" >/dev/null
	bg_runner --for 1m -v
	wait_until 10 q_is 1 "select count(*) from jobrun.job_runners where finished_at is null"
	kill -INT "$runner_pid"
	wait_runner
	refute grep -qE 'finishing|stopping' "$runner_err"
}

@test "a run that a host cannot start, since its watchdog is gone, is given back and not charged" {
	# it ends when the watchdog has: a signal takes its time
	handler first <<-'END'
		dog=$(pgrep -P $PPID | grep -v "^$$\$")
		kill -KILL "$dog"
		while grep -qs '^State:.[^Z]' "/proc/$dog/status"; do sleep 0.02; done
	END
	handler work <<<:
	enqueue first --priority 1
	id=$(enqueue work --max-attempts 1)
	jr run -j 1
	assert_equal "$status" 75
	assert_equal "$(grep -c 'the watchdog process is gone' <<<"$stderr")" 1
	q_is 'queued|0|0' "select status, attempts, releases from jobrun.job_runs where id = $id"
	jr_ok run
	run_is "$id" succeeded
}
