# shellcheck shell=bash disable=SC2034,SC2154,SC1091 # bats and the tests set and read what is not seen here
#
# What every .bats file loads: `load ../lib/common`. README.md in the folder above lists the helpers.
#
# setup gives each test a database, a handlers directory, a state directory and a TMPDIR of its own, so that tests run
# in parallel; teardown fails the test if it left a process, a row that breaks an invariant, or a sanitizer's report.

bats_require_minimum_version 1.5.0
# The libraries ask for the directory of a file 17 times, in each test. No program is needed for that.
# shellcheck disable=SC2317 # they call it
dirname() {
	echo "${1%/*}"
}
bats_load_library bats-support
bats_load_library bats-assert
bats_load_library bats-file
unset -f dirname
source "${BASH_SOURCE[0]%/*}/pg.bash"
source "${BASH_SOURCE[0]%/*}/runs.bash"

# Functions that other files of lib/ add. Teardown calls them first.
at_end=()

# A file that needs more defines its own setup and calls common_setup first; the same for teardown.
setup() {
	common_setup
}

teardown() {
	common_teardown
}

common_setup() {
	test_environment
	test_database
}

# needs_session: skip the rest of the test with POOLER=1, where the connections to the server are not the program's own.
needs_session() {
	[ -z "$JR_POOLER" ] || skip 'needs_session'
}

# major_of COMMAND...: the first number that it prints, its major version.
major_of() {
	"$@" | grep -o -m 1 '[0-9]*' | head -n 1
}

# needs_dump: skip the rest of the test if pg_dump is older than the server, which it refuses then.
needs_dump() {
	[ "$(major_of "${JR_PSQL%psql}pg_dump" --version)" -ge "$(major_of "${JR_PSQL%psql}postgres" --version)" ] || skip 'pg_dump is older than the server'
}

# Environment and directories of a test, without a database.
test_environment() {
	local name

	umask 022
	unset "${!PG@}" DATABASE_URL MAKEFLAGS MFLAGS MAKELEVEL XDG_CONFIG_HOME XDG_RUNTIME_DIR NO_COLOR COLUMNS
	for name in "${!JOBRUN_@}"; do
		unset "$name"
	done
	export LC_ALL=C.UTF-8 TZ=UTC PAGER=cat
	export HOME=$BATS_TEST_TMPDIR/home TMPDIR=$BATS_TEST_TMPDIR/tmp
	export JOBRUN_HANDLERS=$BATS_TEST_TMPDIR/handlers JOBRUN_STATE_DIR=$BATS_TEST_TMPDIR/state
	export JOBRUN_TEST_ID=$$.$BATS_SUITE_TEST_NUMBER.$RANDOM
	export ASAN_OPTIONS="exitcode=99:log_path=$BATS_TEST_TMPDIR/sanitizer"
	export UBSAN_OPTIONS="print_stacktrace=1:log_path=$BATS_TEST_TMPDIR/sanitizer"
	mkdir -p "$HOME" "$TMPDIR" "$JOBRUN_HANDLERS"
	cd "$BATS_TEST_TMPDIR" || return
	runner_pids=()
	runner_pid=
	# No test reads from the terminal by accident.
	exec </dev/null
}

common_teardown() {
	local bad=0 command

	[ -n "${BATS_TEST_COMPLETED:-}" ] || bad=1
	for command in ${at_end[0]+"${at_end[@]}"}; do
		"$command" || bad=1
	done
	end_runners
	release_holds || bad=1
	[ -z "${client_pid:-}" ] || kill "$client_pid" 2>/dev/null || true
	end_client
	if [ -n "${unpooled:-}" ]; then # of lib/pooler
		end_pooler || bad=1
	fi
	check_no_strays || bad=1
	check_sanitizer || bad=1
	if [ -n "${JR_DATABASE:-}" ]; then
		check_invariants || bad=1
	fi
	if [ "$bad" -eq 1 ]; then
		show_evidence
	fi
	drop_test_database
	drop_roles || bad=1
	[ "$bad" -eq 0 ] || return 1
}

# --- the program ---

# jr ARGUMENT...: run jobrun under a deadline; sets status, output, lines, and stderr, stderr_lines.
# JR_TIMEOUT=SECONDS changes the deadline (30, of which a slow machine has several); status is then 124.
jr() {
	run --separate-stderr run_jobrun "$@"
}

# jr that must succeed.
jr_ok() {
	jr "$@"
	if [ "$status" -ne 0 ]; then
		fail "jobrun $*: exit status $status
stdout: $output
stderr: $stderr"
	fi
}

run_jobrun() {
	timeout -k 5 "${JR_TIMEOUT:-$((30 * patience))}" "$JOBRUN" "$@" 3>&- 4>&-
}

# on_terminal WIDTH ARGUMENT...: run jobrun on a terminal; stdout and stderr come together.
on_terminal() (
	width=$1
	shift
	set -o pipefail
	TERM=xterm timeout $((20 * patience)) script -qec "stty cols $width; $(printf '%q ' "$JOBRUN" "$@")" /dev/null </dev/null | tr -d '\r'
)

# assert_one_line STATUS REGEX: jr has ended with this status, and has written one line to stderr, which matches.
assert_one_line() {
	assert_equal "$status" "$1"
	assert_equal "${#stderr_lines[@]}" 1
	assert_regex "$stderr" "$2"
}

# assert_line_of_stderr LINE: jr has written it to stderr, perhaps among others.
assert_line_of_stderr() {
	printf '%s\n' "$stderr" | grep -qxF "$1" || fail "no line '$1' in: $stderr"
}

# assert_between LEAST NUMBER MOST: both ends are allowed. Of `[ A ] && [ B ]` in the middle of a test nothing fails when A does.
assert_between() {
	[ "$2" -ge "$1" ] || fail "$2 is less than $1"
	[ "$2" -le "$3" ] || fail "$2 is more than $3"
}

# enqueue ARGUMENT...: prints the id, for id=$(enqueue ...).
enqueue() {
	run_jobrun enqueue "$@"
}

# handler NAME <<'sh': make an executable handler; /bin/sh unless the text begins with #!.
handler() {
	local text

	text=$(cat)
	[[ $text == '#!'* ]] || text=$'#!/bin/sh\n'$text
	printf '%s\n' "$text" >"$JOBRUN_HANDLERS/$1.new"
	chmod 755 "$JOBRUN_HANDLERS/$1.new"
	# Renamed, so that a runner never meets half a file or one that is open for writing (ETXTBSY).
	mv "$JOBRUN_HANDLERS/$1.new" "$JOBRUN_HANDLERS/$1"
}

# --- runners in the background ---

# bg_runner ARGUMENT...: start `jobrun run ARGUMENT...`; sets runner_pid, and runner_out and
# runner_err, the files with what it prints.
bg_runner() {
	bg_jobrun run "$@"
}

# bg_jobrun ARGUMENT...: the same for any command.
bg_jobrun() {
	local n=${#runner_pids[@]}

	(
		close_holds # or it would inherit the scripts of `hold`
		exec "$JOBRUN" "$@"
	) >"$BATS_TEST_TMPDIR/runner.$n.out" 2>"$BATS_TEST_TMPDIR/runner.$n.err" 3>&- 4>&- &
	runner_pid=$!
	runner_out=$BATS_TEST_TMPDIR/runner.$n.out
	runner_err=$BATS_TEST_TMPDIR/runner.$n.err
	runner_pids+=("$runner_pid")
}

# wait_runner [PID [SECONDS]]: wait for its end; sets runner_status. Fails if it has not ended by then.
wait_runner() {
	local pid=${1:-$runner_pid} seconds=${2:-30}

	wait_until "$seconds" is_gone "$pid" || return
	runner_status=0
	wait "$pid" 2>/dev/null || runner_status=$?
}

# is_gone PID: a zombie counts as gone, whoever has to reap it; that may happen between the two looks.
is_gone() {
	! kill -0 "$1" 2>/dev/null || grep -qs '^State:[[:space:]]*Z' "/proc/$1/status" || [ ! -e "/proc/$1" ]
}

# find_handler REGEX: wait until the runner in the background has a child with such a command line; sets handler_pid. A run is
# in the state running before its handler is.
find_handler() {
	wait_until 10 pgrep -f "$1" -P "$runner_pid" || return
	handler_pid=$(pgrep -f "$1" -P "$runner_pid")
}

# Runners are killed, not asked to end: the rows that they leave must be right, too.
end_runners() {
	local pid

	for pid in ${runner_pids[0]+"${runner_pids[@]}"}; do
		kill -KILL "$pid" 2>/dev/null || continue
		kill -CONT "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	runner_pids=()
}

# --- waiting ---

# Deadlines are for a machine that starts a program in a millisecond or two. TEST_PATIENCE=N makes them N times as long.
patience=${TEST_PATIENCE:-1}

# wait_until SECONDS COMMAND...: try until it succeeds, every 50 ms at first, then less often, since a try is a process or
# more; fails when the time is over. Each try counts for at most half a second, so that a busy machine gets about as many tries as any
# other; but after four times the seconds it fails.
wait_until() {
	local seconds=$(($1 * patience)) tries=0 waited_us=0 began_us=${EPOCHREALTIME/[.,]/}
	local looked_us=$began_us now_us

	shift
	until "$@" >/dev/null 2>&1; do
		now_us=${EPOCHREALTIME/[.,]/}
		waited_us=$((waited_us + (now_us - looked_us < 500000 ? now_us - looked_us : 500000)))
		looked_us=$now_us
		if [ "$waited_us" -ge $((seconds * 1000000)) ] || [ $((now_us - began_us)) -ge $((seconds * 4000000)) ]; then
			echo "not within ${seconds}s: $*" >&2
			return 1
		fi
		if [ $((++tries)) -le 10 ]; then
			sleep 0.05
		else
			sleep 0.2
		fi
	done
}

# stay_in UNIT: wait for the next month, hour or ten minutes (10m), by UTC, if this one ends soon. For a test that computes times from the
# clock several times, and expects all of them in the same one. (An hour is complete ten minutes after its end.) It waits for a minute at most.
stay_in() {
	local end now=$EPOCHSECONDS soon=$((20 * patience))

	[ "$soon" -le 60 ] || soon=60
	case $1 in
	month) end=$(date -ud "$(date -u +%Y-%m-01) 1 month" +%s) ;;
	hour) end=$(((now / 3600 + 1) * 3600)) ;;
	10m) end=$(((now / 600 + 1) * 600)) ;;
	*) fail "stay_in: no unit '$1'" ;;
	esac
	# A sleep: there is nothing to look at but the clock.
	[ $((end - now)) -gt "$soon" ] || sleep $((end - now))
}

# now_ms: milliseconds, for measuring. ms_since BEGIN: how many have passed since then.
now_ms() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

ms_since() {
	echo $(($(now_ms) - $1))
}

# --- what teardown looks at ---

# Processes with this test's mark in their environment. The shells of bats do not have it, since they were not started with it.
marked_processes() {
	local id=$1

	grep -lzsxF "JOBRUN_TEST_ID=$id" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||'
}

no_marked_processes() {
	[ -z "$(marked_processes "$1")" ]
}

# No process of this test may outlive it by more than three seconds. A watchdog needs some time to kill handlers.
check_no_strays() {
	local id=${JOBRUN_TEST_ID:-} strays

	[ -n "$id" ] || return 0
	unset JOBRUN_TEST_ID # what looks for the mark must not carry it
	if wait_until 3 no_marked_processes "$id" 2>/dev/null; then
		return 0
	fi
	strays=$(marked_processes "$id")
	echo "processes left behind:"
	# shellcheck disable=SC2086 # a list of numbers
	ps -o pid,ppid,pgid,stat,etime,args -p "${strays//$'\n'/,}" || true
	# shellcheck disable=SC2086
	kill -KILL $strays 2>/dev/null || true
	return 1
}

check_sanitizer() {
	local report found=0

	for report in "$BATS_TEST_TMPDIR"/sanitizer.*; do
		[ -s "$report" ] || continue
		# Not a report: LeakSanitizer was looking for leaks when teardown killed the runner.
		grep -qv '^==[0-9]*==Unable to get registers from thread [0-9]*[.]$' "$report" || continue
		found=1
		head -n 60 "$report"
	done
	return "$found"
}

show_evidence() {
	local file

	for file in "$BATS_TEST_TMPDIR"/runner.*.err; do
		if [ -s "$file" ]; then
			echo "--- ${file##*/}"
			tail -n 30 "$file"
		fi
	done
	if [ -n "${JR_DATABASE:-}" ]; then
		echo "--- server log"
		server_log | tail -n 30
		if [ -n "$JR_POOLER" ]; then
			echo "--- pooler"
			pooler_log | tail -n 30
		fi
	fi
}
