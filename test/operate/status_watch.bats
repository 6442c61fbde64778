#!/usr/bin/env bats
# jobrun status --watch: a screen that is drawn anew, and one look where there is no terminal.

load ../lib/common

setup() {
	common_setup
	typical_handlers
	export TERM=xterm NO_COLOR=1
}

screen() {
	run --separate-stderr python3 "$TOP/test/lib/screen.py" "$@"
	[ "$status" != 99 ] || echo "$stderr"
}

running_run() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'web1', 'x')" \
		"insert into jobrun.job_runs (job_type, status, runner_id, locked_by, locked_until, started_at, attempts, claim_seq, progress)
		select 'work', 'running', 7, 'web1', now() + interval '1 hour', now() - interval '90 minutes', 1, 1, p
		from unnest(array['{\"done\": 40, \"of\": 160}', '{\"page\": 7}']::jsonb[]) p"
}

@test "status --watch: without a terminal it looks once, with what runs and how far it is" {
	running_run
	enqueue other
	jr_ok status --watch
	assert_line --regexp '^other +1 +0 +0 '
	assert_line --regexp '^work +0 +0 +2 '
	assert_line --regexp '^RUNNING TYPE +TRY +HOST +FOR +PROGRESS$'
	assert_line --regexp '^ +1 work +1/5 +web1 +1h 30m +25% \(40 of 160\)$'
	assert_line --regexp '^ +2 work +1/5 +web1 +1h 30m +\{"page": 7\}$'
	jr_ok status
	refute_line --partial PROGRESS
	jr status --watch=1ms
	assert_one_line 64 '^jobrun: --watch: 1ms is too short; at least 100ms$'
	jr status --wacth
	assert_one_line 64 '^jobrun: unknown option "--wacth": did you mean "--watch"\?$'
}

@test "status --watch: each frame shows what is now, fits the terminal, and q leaves it as it was" {
	running_run
	screen 24x100 'see:every 200ms; q quits' 'see:^work +0 +0 +2 ' "run:$JOBRUN enqueue plain" 'see:^plain +1 ' \
		'size:6x60' 'see:^… [0-9]+ more lines' 'size:24x100' 'see:PROGRESS' key:q end -- "$JOBRUN" status --watch=200ms
	assert_equal "$status" 0
	assert_equal "$stderr" ''
	screen 24x100 'see:PROGRESS' signal:TERM end -- "$JOBRUN" status --watch
	assert_equal "$status" 0
	screen 24x100 'see:PROGRESS' $'key:\003' end -- "$JOBRUN" status --watch=1h
	assert_equal "$status" 0
	# Here, as in a container and behind "ssh -t", no shell could continue it.
	screen 24x100 'see:PROGRESS' $'key:\032' key:q end -- "$JOBRUN" status --watch=1h
	assert_equal "$status" 0
}

@test "status --watch: while the database is away the last frame stays, with a line that says so" {
	local server

	own_cluster
	enqueue work
	server="env -u JOBRUN_TEST_ID $TOP/scripts/pg-local $test_cluster"
	screen 24x100 'see:^work +1 ' "run:$server stop" 'see:^! no answer from the database, this is from ' 'see:^work +1 ' \
		"run:$server start" "run:$JOBRUN enqueue plain" 'see:^plain +1 ' key:q end -- "$JOBRUN" status --watch=200ms
	assert_equal "$status" 0
	assert_equal "$stderr" ''
}
