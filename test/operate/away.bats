#!/usr/bin/env bats
# No connection to the database: what people at a terminal are told meanwhile, and cron is not.

load ../lib/common

setup() {
	test_environment
	handler ok <<<'exit 0'
}

# watched COMMAND...: in the background on a terminal; its screen is the file out, its pid in the file pid.
watched() {
	rm -f pid
	TERM=xterm timeout 40 script -qfec "echo \$\$ >pid; exec $JOBRUN $*" /dev/null </dev/null >out 2>&1 3>&- 4>&- &
	watcher=$!
	runner_pids+=("$watcher")
	wait_until 5 test -s pid
}

# says REGEX: on that screen, while the command goes on; then Ctrl-C ends it.
says() {
	wait_until 8 grep -qE "$1" out
	kill -INT "$(cat pid)"
	wait_runner "$watcher"
}

@test "on a terminal a command without a connection says why it waits, how long, and how to end that" {
	for command in status run 'exec x -- true'; do
		watched "-d host=$PWD/none" "$command"
		says 'jobrun: connection to server on socket .*/none/.* failed: .*; retrying for up to [0-9]+s, Ctrl-C stops that.?$'
		assert_equal "$(grep -c 'Ctrl-C stops' out)" 1
	done
	# A server that accepts a connection and says nothing.
	mkdir mute
	python3 -c 'import os, socket, time; s = socket.socket(socket.AF_UNIX); s.bind("mute/new"); s.listen(9); os.rename("mute/new", "mute/.s.PGSQL.5432"); time.sleep(60)' 3>&- 4>&- &
	runner_pids+=($!)
	wait_until 5 test -S mute/.s.PGSQL.5432
	watched "-d host=$PWD/mute" run
	says 'jobrun: no answer from server on socket .*/mute/.s.PGSQL.5432.* yet; retrying for up to 20s, Ctrl-C stops that'
}

@test "where nothing names a database it says what to set, and nowhere else" {
	# Whatever libpq's defaults lead to here: no server, no such role, or no schema.
	for command in status run; do
		watched "$command"
		says 'nothing names a database: set JOBRUN_DATABASE_URL, or give -d'
	done
	export PGHOST=$PWD/none
	watched status
	says retrying
	refute grep -q 'nothing names' out
	unset PGHOST
	# No terminal.
	JR_TIMEOUT=1.5 jr status
	refute [ "$status" -eq 0 ]
	refute_regex "$stderr" 'retrying'
}

@test "a crontab without JOBRUN_DATABASE_URL: cron hears that nothing names a database, once, and nothing of that where something does" {
	local hint='; nothing names a database: set JOBRUN_DATABASE_URL, or give -d'

	# without this it waits for the server of libpq's defaults
	export PGSSLMODE=wrong
	jr run
	assert_one_line 78 "$hint"
	quiet run
	jr exec backup -- true
	assert_one_line 78 "$hint"
	quiet exec backup -- true
	jr list
	assert_one_line 78 "$hint"
	unset PGSSLMODE
	test_database
	JOBRUN_DATABASE_URL="$JOBRUN_DATABASE_URL dbname=no_such" jr run
	assert_one_line 78 no_such
	refute_regex "$stderr" "$hint"
}

@test "a password in a mistyped connection string is not shown while it waits" {
	watched "-d 'postgres://me:se@cret@$PWD/none'" status
	says retrying
	refute grep -q cret out
}

# quiet COMMAND...: it fails as before, and cron mails nothing.
quiet() {
	local before=$status

	jr "$@"
	assert_equal "$status" "$before"
	assert_equal "$stderr" ''
}

@test "cron hears of a refusal once, of another one at once, and once that it works again" {
	test_database
	url=$JOBRUN_DATABASE_URL
	export JOBRUN_DATABASE_URL="$url dbname=no_such"
	jr run
	assert_one_line 78 no_such
	quiet run
	jr run --max-runs 5 # another line of the crontab
	assert_one_line 78 no_such
	chmod o+w "$JOBRUN_HANDLERS"
	jr run
	assert_one_line 78 "$JOBRUN_HANDLERS"
	quiet run
	chmod o-w "$JOBRUN_HANDLERS"
	jr exec backup -- true
	assert_one_line 78 'no_such.*backup was not started'
	quiet exec backup -- true
	jr exec other -- true
	assert_equal "${#stderr_lines[@]}" 1
	run on_terminal 200 run
	assert_output --partial no_such
	JOBRUN_DATABASE_URL=$url
	jr_ok run
	assert_regex "$stderr" '^jobrun: run works again after [0-9.ms ]+$'
	jr_ok exec backup -- true
	assert_regex "$stderr" '^jobrun: backup works again after [0-9.ms ]+$'
	jr_ok run
	assert_equal "$stderr" ''
	jr_ok exec backup -- true
	assert_equal "$stderr" ''
}
