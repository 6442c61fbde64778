#!/usr/bin/env bats
# jobrun as process 1 of a PID namespace: the command of a container.

load ../lib/common

setup() {
	common_setup
	way=(unshare --pid --mount --fork --kill-child --mount-proc)
	[ "$(id -u)" -eq 0 ] || way+=(-U)
	"${way[@]}" true 2>/dev/null || skip 'this machine allows no PID namespaces'
}

# bg_first ARGUMENT...: the same as bg_jobrun, as process 1; sets first_pid, too.
bg_first() {
	local program=$JOBRUN

	JOBRUN=${way[0]} bg_jobrun "${way[@]:1}" "$program" "$@"
	wait_until 10 pgrep -P "$runner_pid"
	first_pid=$(pgrep -P "$runner_pid")
}

zombies_are() {
	[ "$(pgrep -P "$first_pid" -r Z -c)" -eq "$1" ]
}

@test "orphans of handlers are reaped while process 1 stays, and no handler loses its exit status by that" {
	handler leave <<-'sh'
		(setsid sh -c 'until [ -e "$TMPDIR/go" ]; do sleep 0.05; done' >/dev/null 2>&1 </dev/null &)
		exit 3
	sh
	handler linger <<-'sh'
		for i in 1 2 3 4 5; do
			(setsid true &)
		done
		until [ -e "$TMPDIR/end" ]; do sleep 0.05; done
		exit 4
	sh
	q "select jobrun.enqueue('leave', backoff_base => '1h') from generate_series(1, 8)" >/dev/null
	id=$(enqueue linger --backoff 1h)
	bg_first run --for 60s -j 2
	wait_until 10 q_is 8 "select count(*) from jobrun.job_runs where error_code = 'exit:3'"
	touch "$TMPDIR/go"
	# All that is left is the watchdog and the handler that runs.
	wait_until 10 pgrep -P "$first_pid" -f linger
	wait_until 10 zombies_are 0
	wait_until 10 eval '[ "$(pgrep -P "$first_pid" -c)" -eq 2 ]'
	touch "$TMPDIR/end"
	wait_until 10 run_is "$id" failed
	assert_equal "$(ended "$id")" 'failed|1|exit:4'
	kill -TERM "$first_pid"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(cat "$runner_err")" ''
}

@test "TERM ends a runner that is process 1 as any other: it waits, then gives the run back" {
	handler work <<<'exec sleep 600'
	id=$(enqueue work)
	bg_first run --for 60s --grace 1s
	wait_until 10 pgrep -P "$first_pid" -x sleep
	kill -TERM "$first_pid"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(ended "$id")" 'queued|0|released'
}

@test "TERM and INT end any other command that is process 1" {
	local signal

	id=$(enqueue nobody_does_this)
	for signal in TERM INT; do
		bg_first wait "$id"
		wait_until 10 q_is 1 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
		kill -"$signal" "$first_pid"
		wait_runner "$runner_pid" 5
		assert_equal "$runner_status" $((128 + $(kill -l "$signal")))
		wait_until 10 q_is 0 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
	done
}
