#!/usr/bin/env bats
# jobrun try: a handler here and now, and its verdict in words.

load ../lib/common
load ../lib/web

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

@test "try: the handler gets the payload on stdin, its output goes to stderr, and no database is needed" {
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
		and .output == "Hello, {}\nthere\n" and .job_type == "hello" and .kind == "exec" and .took_ms >= 0' <<<"$output"
}

@test "try takes the payload from stdin or from a file" {
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

@test "try --attempt: the pause grows with the attempt, and the last attempt is the end" {
	handler work <<<'echo "attempt $JOBRUN_ATTEMPT of $JOBRUN_MAX_ATTEMPTS"; exit 1'
	jr try work --attempt 3
	tried 1 'run would be failed, tried again in 20s to 40s as attempt 4 of 5'
	assert_equal "$stderr" 'attempt 3 of 5'
	jr try work --attempt 5
	tried 1 'verdict fail' 'run would be dead: attempt 5 was the last'
	jr try work --attempt 6
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: --attempt 6 of --max-attempts 5 cannot be'
	jr try work --attempt 99 --max-attempts 100
	tried 1 'run would be failed, tried again in 30m to 1h as attempt 100 of 100'
	assert_equal "$stderr" 'attempt 99 of 100'
	jr try work --attempt 1 --max-attempts 1
	tried 1 'run would be dead: attempt 1 was the last'
	jr try work --attempt 101 --max-attempts 101
	assert_equal "$status" 64
}

@test "a handler that is killed by a signal or by its timeout has failed" {
	handler work <<<'kill -SEGV $$'
	jr try work
	tried 1 'verdict fail' 'because being killed by signal SEGV means: failed' 'error code signal:SEGV' 'error killed by SIGSEGV'
	handler slow <<<'trap "exit 0" TERM; while :; do sleep 0.05; done'
	jr try slow --timeout 200ms
	tried 1 'verdict fail' 'because a timeout means: .*' 'error code timeout' 'error timed out after 200ms.*'
	handler deadline <<<'echo "$JOBRUN_DEADLINE"'
	before=$(date +%s)
	jr try deadline --timeout 100s
	assert_between $((before + 100)) "$stderr" $(($(date +%s) + 100))
}

@test "output is made visible on a terminal, unless --raw, and is as it is elsewhere" {
	handler loud <<<"printf 'a\\033[2Jb\\302\\233c\\342\\200\\256\\n'"
	run on_terminal 80 try loud
	assert_line 'a\x1b[2Jb\x9bc\u{202e}'
	run on_terminal 80 try --raw loud
	assert_line $'a\e[2Jb\xc2\x9bc\u202e'
	for raw in '' --raw; do
		jr try $raw loud
		assert_equal "$stderr" $'a\e[2Jb\xc2\x9bc\u202e'
	done
}

@test "a document on a terminal moves no cursor of it, and is the same document" {
	handler loud <<<"printf 'a\\302\\233b\\342\\200\\256\\177'"
	jr try loud --json
	assert_regex "$output" $'"a\xc2\x9bb\u202e\x7f"'
	run on_terminal 80 try loud --json
	assert_line --partial '"output":"a\u009bb\u202e\u007f"'
	printf 'exit 0\n' >"$JOBRUN_HANDLERS/"$'x\u202ey'
	chmod 755 "$JOBRUN_HANDLERS/"$'x\u202ey'
	run on_terminal 80 handlers --json
	assert_output --partial '"x\u202ey: not a job type'
	refute_output --partial $'\u202e'
}

@test "a handler that cannot be started has failed" {
	handler work <<<'exit 0'
	echo '{"cwd": "none"}' >"$JOBRUN_HANDLERS/work.json"
	jr try work
	tried 1 'verdict fail' 'because it could not be started, .*' 'error code cannot-start' 'error cannot start .*: changing to its directory: .*'
	no_line cpu
}

@test "the environment is that of a run that is made up, and --key sets its key" {
	handler env <<<'env | grep ^JOBRUN_ | grep -vE "TEST_ID|_OUT=" | sort; pwd -P'
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

@test "try: an impossible payload exits with 65, and nothing is started" {
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

@test "try: a payload that is not JSON exits with 65 and its position, and nothing is started" {
	handler work <<<'echo started'
	for payload in '{bad' '' '[1,]' '"x' '{} {}' "'a'" '{"a": "\u0000"}' $'"\xff"'; do
		jr try work "$payload"
		assert_equal "$status" 65
		assert_equal "$output" ''
		assert_regex "$stderr" '^jobrun: the payload is not JSON: line 1, column [1-9][0-9]*: .'
		refute_regex "$stderr" started
	done
	jr try work $'{"a": 1,\n "b": tru}'
	assert_regex "$stderr" '^jobrun: the payload is not JSON: line 2, column 9: '
	jr try work --checkpoint '{bad'
	assert_equal "$status" 65
	assert_regex "$stderr" '^jobrun: the checkpoint is not JSON: line 1, column 4: '
}

@test "try passes the payload's text on unchanged, whatever its numbers and spaces" {
	handler show <<<'cat; cat "$JOBRUN_CHECKPOINT"'
	for text in '{ "a" :1.10, "a":2}' 123456789012345678901234567890.50 1e999 '[-1e-999]' '[ null ]'; do
		jr try show "$text" --checkpoint "$text"
		tried 0
		assert_equal "$stderr" "$text
$text"
	done
	printf '[%.0s' {1..3000} >"$TMPDIR/deep"
	printf ']%.0s' {1..3000} >>"$TMPDIR/deep"
	jr try show "@$TMPDIR/deep" --checkpoint 1
	tried 0
}

@test "an unknown type is exit 64 with the nearest one, a refused handler exit 78 with what mends it" {
	handler work <<<'exit 0'
	handler other <<<'exit 0'
	jr try wrok
	assert_equal "$status" 64
	assert_equal "$stderr" "jobrun: unknown job type on this host: \"wrok\": did you mean \"work\"? (looked in $JOBRUN_HANDLERS; jobrun handlers lists them)"
	jr try something_else
	assert_equal "$status" 64
	assert_regex "$stderr" "looked in $JOBRUN_HANDLERS; jobrun handlers lists them"
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
	rm -f "$TMPDIR/out" "$TMPDIR/err" # or the "ready" of an earlier one is found
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

@test "try applies lists and limits of NAME.json, and finds a program by argv" {
	handler work <<<'exit "$(cat)"'
	echo '{"later": [3, 4], "give_up": [9]}' >"$JOBRUN_HANDLERS/work.json"
	jr try work 4
	tried 1 'verdict later' 'because exit status 4 means: not now \("later" in its settings\)'
	jr try work 9
	tried 1 'verdict give up' 'because exit status 9 means: .* \("give_up" in its settings\)'
	jr try work 75
	tried 1 'verdict fail' 'because exit status 75 means: failed'
	handler work <<<'exec sleep 60'
	echo '{"timeout": "100ms"}' >"$JOBRUN_HANDLERS/work.json"
	jr try work
	tried 1 'error code timeout' 'error timed out after 100ms'
	echo '{"argv": ["/bin/sh", "-c", "echo $0; cat", "name"]}' >"$JOBRUN_HANDLERS/by_argv.json"
	jr try by_argv '[7]'
	tried 0 'verdict done' "handler exec $JOBRUN_HANDLERS/by_argv.json"
	assert_equal "$stderr" 'name
[7]'
	echo '{"timeot": "1s"}' >"$JOBRUN_HANDLERS/work.json"
	jr try work
	assert_equal "$status" 78
	assert_regex "$stderr" 'work.json:1:2: .*timeot.*"timeout"'
}

@test "what a handler says in JOBRUN_OUT is shown, and asks for a longer pause" {
	handler tell <<-'sh'
		[ -z "${JOBRUN_CHECKPOINT:-}" ] || cat "$JOBRUN_CHECKPOINT"
		echo '{"progress": {"done": 1}, "checkpoint": [1, 2]}' >>"$JOBRUN_OUT"
		echo '{"result": 12345678901234567890123}' >>"$JOBRUN_OUT"
		echo '{"retry_in": "5m"}' >>"$JOBRUN_OUT"
		exit "$(cat)"
	sh
	jr try tell 0 --checkpoint '{"page": 7}'
	tried 0 'progress {"done":1}' 'checkpoint \[1,2\]' 'result .*12345678901234567890123.*'
	assert_equal "$stderr" '{"page": 7}'
	jr try tell 75
	tried 1 'run would be queued again, in 5m \(attempt not charged\)'
	assert_equal "$stderr" ''
	jr try tell 1 --json
	jq -e '.progress.done == 1 and .checkpoint == [1, 2] and (.run_would_be | contains("in 5m as attempt 2 of 5"))' <<<"$output"
	handler wrong <<<'echo nonsense >>"$JOBRUN_OUT"'
	jr try wrong
	tried 0 'warning line 1 of JOBRUN_OUT: .*'
	assert_equal "$stderr" ''
	# Nothing is left of the two files.
	assert_equal "$(find "$TMPDIR" -name 'jobrun*')" ''
}

@test "try http: the answer gives the verdict and is shown" {
	web
	http_handler ok "$web/echo"
	jr try ok '{"a": 1}'
	tried 0 'handler http .*/ok.json' 'verdict done' 'because the answer has a status that is expected' 'output' ' {"a": 1}'
	assert_equal "$(requests '[.body, .headers["jobrun-run"]] | join(" ")')" '{"a": 1} 0'
	http_handler busy "$web/status/429?retry_after=120&body=slow+down"
	jr try busy
	tried 1 'verdict later' 'because HTTP status 429 means: not now' 'error code http:429' \
		'run would be queued again, in 2m \(attempt not charged\)' 'error HTTP 429 .*slow down'
	http_handler bad "$web/status/400"
	jr try bad --json
	assert_equal "$status" 1
	jq -e '.verdict == "give up" and .error_code == "http:400" and .kind == "http" and .cpu_ms == null' <<<"$output"
	http_handler lost "$web/drop"
	jr try lost
	tried 1 'verdict fail' 'because there was no good answer \(libcurl says GOT_NOTHING\), which means: failed' 'error code curl:GOT_NOTHING'
	http_handler slow "$web/hang" '' '"timeout": "200ms"'
	jr try slow
	tried 1 'verdict fail' 'error code timeout' 'error timed out after 200ms'
}

# With a database, as everything from here on.

statement() {
	cat >"$JOBRUN_HANDLERS/$1.sql"
}

@test "try sql: the statement runs in the database, and everything is rolled back" {
	test_database
	q 'create table counter (n int)' 'insert into counter values (1)'
	statement count <<<'update counter set n = n + ($1 ->> '"'by'"')::int returning to_jsonb(n)'
	jr try count '{"by": 41}'
	tried 0 'handler sql .*/count.sql' 'verdict done' 'because no error, including deferred checks; .*' 'result 42'
	q_is 1 'select n from counter'
	q_is 0 'select count(*) from jobrun.job_runs'
	jr try count '{"by": "x"}'
	tried 1 'verdict give up' 'because SQLSTATE 22P02 means: give up.*' 'error code sqlstate:22P02'
	jr try count '{"by": '
	assert_equal "$status" 65
	jr try count '{"by": 1e999}'
	tried 1 'verdict give up' 'error code sqlstate:22.*'
	statement missing <<<'select * from nothing'
	jr try missing
	tried 1 'verdict fail' 'error code sqlstate:42P01' 'run would be failed, tried again in 5s to 10s as attempt 2 of 5'
	statement slow <<<'select pg_sleep(60)'
	jr try slow --timeout 200ms
	tried 1 'verdict fail' 'error code timeout'
	q_is 0 "select count(*) from pg_stat_activity where datname = current_database() and query like '%pg_sleep%' and pid <> pg_backend_pid() and state = 'active'"
}

@test "try sql: a constraint that is checked at COMMIT is reported" {
	test_database
	q 'create table parent (id int primary key)' \
		'create table child (id int references parent deferrable initially deferred)'
	statement orphan <<<'insert into child select 7 where $1 is not null'
	jr try orphan
	tried 1 'verdict fail' 'because SQLSTATE 23503 means: failed' 'error code sqlstate:23503'
	q_is 0 'select count(*) from child'
}

@test "try sql: the settings of its run are there, and jobrun.effect works" {
	test_database
	statement ask <<-'sql'
		select jsonb_build_array(current_setting('jobrun.key'), current_setting('jobrun.attempt'),
			current_setting('jobrun.run_id'), jobrun.effect('once'), jobrun.effect('once'))
	sql
	jr try ask -k mine --attempt 2
	tried 0 'result \["mine","2","",true,false\]'
	q_is 0 'select count(*) from jobrun.job_effects'
}

@test "try sql: a handler with batch is tried with one run" {
	test_database
	echo '{"batch": 10}' >"$JOBRUN_HANDLERS/many.json"
	statement many <<-'sql'
		select (r ->> 'run_id')::bigint, 'give_up', 'no page' from jsonb_array_elements($1) r where not r -> 'payload' ? 'page'
	sql
	jr try many '{"page": 1}'
	tried 0 'verdict done'
	jr try many
	tried 1 'verdict give up' 'because the statement said give_up' 'error no page'
	statement many <<<"select (r ->> 'run_id')::bigint, r ->> 'payload', 'so' from jsonb_array_elements(\$1) r"
	jr try many '"later"'
	tried 1 'verdict later' 'because the statement said later' 'run would be queued again.*'
	jr try many '"fail"'
	tried 1 'verdict fail' 'because the statement said fail'
	jr try many '"done"'
	tried 0 'verdict done'
}

@test "try sql without a server is later, or reports what the connection said" {
	statement one <<<'select 1'
	jr try one -d "host=$BATS_TEST_TMPDIR/nowhere dbname=x connect_timeout=2"
	tried 1 'verdict later' 'error code sqlstate:08.*'
}

@test "jobrun effect and jobrun enqueue in a handler that is tried work as from a shell" {
	test_database
	handler work <<-sh
		"$JOBRUN" effect "\$JOBRUN_KEY" -- echo sent && "$JOBRUN" enqueue other
	sh
	jr try work
	tried 0
	assert_regex "$stderr" '^sent
jobrun try: try-[0-9a-f]+ is not marked
1
jobrun: warning: no host has a handler for other .*$'
	q_is 0 'select count(*) from jobrun.job_effects'
	q_is t 'select parent_id is null from jobrun.job_runs'
}
