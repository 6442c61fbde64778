#!/usr/bin/env bats
# jobrun as process 1 of a PID namespace: the command of a container.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	way=(unshare --pid --mount --fork --kill-child --mount-proc)
	[ "$(id -u)" -eq 0 ] || way+=(-U)
	"${way[@]}" true 2>/dev/null || skip 'this machine allows no PID namespaces'
}

# bg_first ARGUMENT...: the same as bg_jobrun, as process 1; sets first_pid, and program_pid, its child that works.
bg_first() {
	local program=$JOBRUN

	JOBRUN=${way[0]} bg_jobrun "${way[@]:1}" "$program" "$@"
	wait_until 10 pgrep -P "$runner_pid" -x jobrun-init
	first_pid=$(pgrep -P "$runner_pid")
	program_pid=$(pgrep -P "$first_pid" -x jobrun)
}

children_are() {
	[ "$(pgrep -P "$first_pid" -c)" -eq "$1" ]
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
	wait_until 10 pgrep -P "$program_pid" -f linger
	wait_until 10 children_are 1
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
	wait_until 10 pgrep -P "$program_pid" -x sleep
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

@test "the exit status of process 1 is that of the program, or says by which signal it has ended" {
	run "${way[@]}" "$JOBRUN" wait 12345
	assert_equal "$status" 1
	id=$(enqueue nobody_does_this)
	bg_first wait "$id"
	kill -KILL "$program_pid"
	wait_runner
	assert_equal "$runner_status" 137
}

@test "the watchdog kills a runner of sql handlers that stands still, also in a container" {
	sql_handler sleep <<<'select pg_sleep(60)::text, $1::jsonb'
	id=$(enqueue sleep)
	bg_first run --lease 2s
	wait_until 10 q_is 1 "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
	kill -STOP "$program_pid"
	wait_runner
	assert_equal "$runner_status" 137
}

@test "a connection string in the arguments of process 1 is seen by nobody" {
	id=$(enqueue nobody_does_this)
	bg_first -d "$JOBRUN_DATABASE_URL" wait "$id"
	wait_until 10 eval '! grep -aq wait "/proc/$first_pid/cmdline"'
	refute grep -aq dbname "/proc/$first_pid/cmdline"
}
