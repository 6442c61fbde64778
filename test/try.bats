#!/usr/bin/env bats
# jobrun try: a handler here and now, and its verdict in words.

load lib/common

# No test has a database unless it makes one.
setup() {
	test_environment
	JR_DATABASE=
	hold_pids=()
	hold_fds=()
}

# tried STATUS REGEX...: the exit status, and lines of stdout, each "NAME  VALUE" with one blank for the gap.
tried() {
	local expected=$1 regex

	assert_equal "$status" "$expected"
	shift
	sed 's/  */ /g' <<<"$output" >"$TMPDIR/lines"
	for regex in "$@"; do
		grep -qE "^$regex\$" "$TMPDIR/lines" || fail "no line $regex in:
$output
$stderr"
	done
}

no_line() {
	refute_regex "$output" "(^|"$'\n'")$1 "
}

@test "exit 0 is done: the payload is on stdin, what is printed comes on stderr, and no database is needed" {
	handler hello <<<'echo "Hello, $(cat)"; echo there >&2'
	export PGHOST=$BATS_TEST_TMPDIR/nowhere PGCONNECT_TIMEOUT=2
	jr try hello '{"name":"Ada"}'
	tried 0 'verdict done' 'because exit status 0 means: done' 'run would be succeeded' "handler exec $JOBRUN_HANDLERS/hello"
	assert_equal "$stderr" 'Hello, {"name":"Ada"}
there'
	no_line error
	unset PGHOST
	jr try hello
	tried 0
	assert_equal "${stderr_lines[0]}" 'Hello, {}'
	jr try hello --json
	assert_equal "$status" 0
	jq -e '.verdict == "done" and .run_would_be == "succeeded" and .error == null and .exit_status == 0
		and .output == "Hello, {}\nthere\n" and .type == "hello" and .kind == "exec" and .duration_ms >= 0' <<<"$output"
}

@test "the payload comes from stdin or a file too" {
	handler show <<<'cat'
	echo '[1]' >"$TMPDIR/payload"
	jr try show "@$TMPDIR/payload"
	tried 0
	assert_equal "$stderr" '[1]'
	jr try show - <"$TMPDIR/payload"
	tried 0
	assert_equal "$stderr" '[1]'
}

@test "exit 75 is later, exit 65 is give up, anything else is a failure that is charged" {
	handler work <<<'echo reason; exit "$(cat)"'
	jr try work 75
	tried 1 'verdict later' 'because exit status 75 means: not now' 'error code exit:75' 'error exit 75: reason' \
		'run would be queued again, in 5s to 10s \(attempt not charged\)'
	jr try work 65
	tried 1 'verdict give up' 'because exit status 65 means: give up.*' 'error code exit:65' 'run would be dead'
	jr try work 1
	tried 1 'verdict fail' 'because exit status 1 means: failed' 'error code exit:1' \
		'run would be failed, tried again in 5s to 10s as attempt 2 of 5'
	jr try work 75 --json
	assert_equal "$status" 1
	jq -e '.verdict == "later" and .exit_status == 75 and .error_code == "exit:75" and .error == "exit 75: reason"' <<<"$output"
}

@test "the pause grows with the attempt, and the last one is the end" {
	handler work <<<'echo "attempt $JOBRUN_ATTEMPT of $JOBRUN_MAX_ATTEMPTS"; exit 1'
	jr try work --attempt 3
	tried 1 'run would be failed, tried again in 20s to 40s as attempt 4 of 5'
	assert_equal "$stderr" 'attempt 3 of 5'
	jr try work --attempt 5
	tried 1 'verdict fail' 'run would be dead: attempt 5 was the last'
	jr try work --attempt 6
	assert_equal "$status" 64
}

@test "a handler that is killed by a signal or by its timeout has failed" {
	handler work <<<'kill -SEGV $$'
	jr try work
	tried 1 'verdict fail' 'because being killed by signal SEGV means: failed' 'error code signal:SEGV' 'error killed by SIGSEGV'
	handler slow <<<'trap "exit 0" TERM; while :; do sleep 0.05; done'
	jr try slow --timeout 200ms
	tried 1 'verdict fail' 'because a timeout means: .*' 'error code timeout' 'error timed out after 200ms.*'
	handler deadline <<<'echo "$((JOBRUN_DEADLINE - $(date +%s)))"'
	jr try deadline --timeout 100s
	assert_regex "$stderr" '^(99|100)$'
}

@test "a handler that cannot be started has failed" {
	handler work <<<'#!/no/such/interpreter'
	jr try work
	tried 1 'verdict fail' 'because it could not be started, .*' 'error code cannot-start' 'error cannot start .*interpreter.*'
	no_line cpu
}

@test "the environment is that of a run that is made up, and --key sets its key" {
	handler env <<<'env | grep ^JOBRUN_ | grep -v TEST_ID | sort; pwd -P'
	jr try env --key 'order 4711'
	assert_equal "$stderr" "JOBRUN_ATTEMPT=1
JOBRUN_CLAIM=0
JOBRUN_HANDLERS=$JOBRUN_HANDLERS
JOBRUN_KEY=order 4711
JOBRUN_MAX_ATTEMPTS=5
JOBRUN_QUEUE=default
JOBRUN_RUN_ID=0
JOBRUN_STATE_DIR=$JOBRUN_STATE_DIR
JOBRUN_TYPE=env
$(readlink -f "$JOBRUN_HANDLERS")"
	handler key <<<'echo "$JOBRUN_KEY"'
	jr try key
	first=$stderr
	assert_regex "$first" '^try-[0-9a-f]{16}$'
	jr try key
	[ "$stderr" != "$first" ]
}

@test "a payload that cannot be is exit 65, and nothing is started" {
	handler work <<<'echo started'
	head -c 1048577 /dev/zero | tr '\0' 1 >"$TMPDIR/long"
	printf '{"a":"\0"}' >"$TMPDIR/nul"
	for payload in "@$TMPDIR/long" "@$TMPDIR/nul" "@$TMPDIR/none"; do
		jr try work "$payload"
		assert_equal "$status" 65
		assert_equal "$output" ''
		refute_regex "$stderr" started
		assert_equal "${#stderr_lines[@]}" 1
	done
}

@test "an unknown type is exit 64 with the nearest one, a refused handler exit 78 with what mends it" {
	handler work <<<'exit 0'
	handler other <<<'exit 0'
	jr try wrok
	assert_equal "$status" 64
	assert_regex "$stderr" '"wrok".*work'
	jr try 'Not A Type'
	assert_equal "$status" 64
	chmod 777 "$JOBRUN_HANDLERS/work"
	jr try work
	assert_equal "$status" 78
	assert_equal "$output" ''
	assert_regex "$stderr" "^jobrun: work: .*chmod go-w $JOBRUN_HANDLERS/work\$"
	jr try other --handlers "$BATS_TEST_TMPDIR/none"
	assert_equal "$status" 78
	jr try
	assert_equal "$status" 64
	jr try other '{}' more
	assert_equal "$status" 64
}

# bg_try ARGUMENT...: in the background; sets try_pid. wait_try: its end; sets status and output.
bg_try() {
	"$JOBRUN" try "$@" >"$TMPDIR/out" 2>"$TMPDIR/err" 3>&- 4>&- &
	try_pid=$!
	runner_pids+=("$try_pid")
	wait_until 10 grep -q ready "$TMPDIR/err"
}

wait_try() {
	wait_runner "$try_pid"
	status=$runner_status
	output=$(cat "$TMPDIR/out")
}

@test "TERM stops the handler: exit 0 counts, anything else would be given back" {
	handler kind <<<'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done'
	bg_try kind
	kill -TERM "$try_pid"
	wait_try
	tried 0 'verdict done'
	handler other <<<'echo ready; exec sleep 60'
	bg_try other
	kill -INT "$try_pid"
	wait_try
	tried 1 'verdict interrupted' 'error code released' 'run would be queued again, at once \(attempt not charged\)'
}

@test "a second INT kills a handler that does not mind, and is exit 130" {
	handler stubborn <<<'trap "" TERM INT; echo ready; while :; do sleep 0.05; done'
	bg_try stubborn
	# Two signals may arrive as one: another is sent until it has ended.
	wait_until 20 is_gone_or_interrupted "$try_pid"
	wait_try
	tried 130 'verdict interrupted'
}

is_gone_or_interrupted() {
	is_gone "$1" || ! kill -INT "$1"
}

@test "a handler that is killed with its jobrun leaves nothing" {
	handler work <<<'echo ready; sleep 60; echo late'
	bg_try work
	kill -KILL "$try_pid"
	wait_runner "$try_pid"
	wait_until 5 no_marked_processes_but_bats
}

no_marked_processes_but_bats() (
	id=$JOBRUN_TEST_ID
	unset JOBRUN_TEST_ID
	no_marked_processes "$id"
)
