#!/usr/bin/env bats
# jobrun enqueue --batch: a run for each line, all or none; a bad line is named by its number.

load ../lib/common
load ../lib/pooler
load ../lib/proxy

setup() {
	common_setup
	writer=
}

teardown() {
	if [ -n "$writer" ]; then
		exec {writer}>&-
	fi
	common_teardown
}

# batch TEXT ARGUMENT...: printf's TEXT, as a file.
batch() {
	printf "$1" >lines
	shift
	jr enqueue work --batch lines "$@"
}

# queued TEXT SQL-RESULT: what the rows are.
payloads() {
	q 'select payload from jobrun.job_runs order by id' | tr '\n' ' '
}

# refused STATUS REGEX: as the last jr; nothing is queued.
refused() {
	assert_equal "$output" ''
	assert_one_line "$1" "^jobrun: $2"
	q_is 0 'select count(*) from jobrun.job_runs'
}

# stream: a batch in the background that reads what is written to descriptor $writer; out and err are what it prints.
stream() {
	mkfifo fifo
	"$JOBRUN" enqueue work --batch fifo "$@" >out 2>err 3>&- 4>&- &
	streamer=$!
	exec {writer}>fifo
}

# streamed STATUS: it has ended so. The writer's end stays open until then.
streamed() {
	wait_runner "$streamer" 20
	assert_equal "$runner_status" "$1"
}

# is_open: lines have been sent and looked at, and the transaction waits for more.
is_open() {
	q_is 1 "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'
		and query ~ 'jobrun.enqueue_lines'"
}

@test "--batch enqueues one payload per line, in order, and prints the count" {
	batch '{"n":1}\n{"n":2}\n3\n"four"\n[5]\nnull\n'
	assert_equal "$status" 0
	assert_equal "$output" 'queued 6 runs'
	assert_equal "$stderr" ''
	assert_equal "$(payloads)" '{"n": 1} {"n": 2} 3 "four" [5] null '
	q_is 6 "select count(*) from jobrun.job_runs where job_type = 'work' and queue = 'default' and status = 'queued'"
}

@test "--batch reads stdin, CRLF, blank lines, a last line without newline, and empty input" {
	jr enqueue work --batch - < <(printf '{"n":1}\r\n\r\n \t \n\n{"n":2}')
	assert_equal "$status" 0
	assert_equal "$output" 'queued 2 runs'
	assert_equal "$(payloads)" '{"n": 1} {"n": 2} '
	jr enqueue work --batch - < <(printf '1')
	assert_equal "$output" 'queued 1 run'
	for text in '' '\n' '\n\n \n'; do
		batch "$text"
		assert_equal "$status" 0
		assert_equal "$output" 'queued 0 runs'
	done
}

@test "a bad line exits with 65 and its number, wherever it is, and nothing is queued" {
	batch '{\n{"n":2}\n'
	refused 65 'lines: line 1: .*invalid input syntax for type json: .*; up to there: \{$'
	batch '{"n":1}\n\n \n{"n":x}\n{"n":5}\n{\n'
	refused 65 'lines: line 4: .*Token "x" is invalid; up to there: \{"n":x\.*$'
	batch '1\r\n2\r\n3,\r\n'
	refused 65 'lines: line 3: '
	batch '1\n2\n3,'
	refused 65 'lines: line 3: '
	jr enqueue work --batch - < <(printf '1\n\\.\n3\n')
	refused 65 'stdin: line 2: '
	jr enqueue work --batch - < <(printf '1\n2\\N\n3\n')
	refused 65 'stdin: line 2: '
	batch '1\n"line 99: 88"\n"\\u0000 line 77: "\n'
	refused 65 'lines: line 3: .*u0000'
	batch '1\n"\xff"\n'
	refused 65 'lines: line 2: .*UTF8'
	batch '1\n2\n"a\0b"\n'
	refused 65 'lines: line 3: .*0x00'
	batch '1\n' --batch /nonexistent
	refused 65 'cannot open /nonexistent: No such file'
	jr enqueue work --batch "$TMPDIR"
	refused 65 'cannot read .*: Is a directory'
}

@test "the number of a bad line is right after thousands of lines and after long ones" {
	local JR_TIMEOUT=100

	seq -f '{"n":%g}' 20000 >good
	for line in 1000 1001 10001; do
		sed "${line}s/\$/}/" good >lines
		jr enqueue work --batch lines
		refused 65 "lines: line $line: "
		sed 's/.*/{"payload":&}/' good | sed "${line}s/payload/paylaod/" | head -n 10100 >lines
		jr enqueue work --batch lines --per-run
		refused 65 "lines: line $line: there is no option \"paylaod\""
	done
	jr enqueue work --batch good
	assert_equal "$status" 0
	assert_equal "$output" 'queued 20000 runs'
	# the subquery once, not for each run behind the dead entries of the refused ones
	q_is '20000|200010000|t' "select count(*), sum((payload->>'n')::bigint),
		bool_and((payload->>'n')::bigint = id + 1 - (select min(id) from jobrun.job_runs)) from jobrun.job_runs"
}

@test "a line of 1 MiB is taken, one byte more is refused, and so is a line of 2 MiB" {
	mib() {
		printf '"'
		head -c "$1" /dev/zero | tr '\0' '\t' | sed 's/\t/x/g'
		printf '"\n'
	}
	{ echo 1; mib 1048574; echo 3; mib 1048574; } >lines
	jr enqueue work --batch lines
	assert_equal "$output" 'queued 4 runs'
	q_is '1|1048576|1|1048576' "select string_agg(octet_length(payload::text)::text, '|' order by id) from jobrun.job_runs"
	q 'truncate jobrun.job_runs'
	{ echo 1; mib 1048575; } >lines
	jr enqueue work --batch lines
	refused 65 'lines: line 2: the payload has 10485[0-9]+ bytes; the limit is 1048576'
	{ echo 1; echo 2; mib 2097150; } >lines
	jr enqueue work --batch lines
	refused 65 'lines: line 3: the payload has'
	{ echo 1; echo 2; mib 2097151; echo 4; } >lines
	jr enqueue work --batch lines
	refused 65 'lines: line 3: it is longer than 2097152 bytes'
	jr enqueue work --batch - </dev/zero
	refused 65 'stdin: line 1: it is longer'
}

@test "tabs, backslashes, quotes, control characters and any script arrive unchanged" {
	cat >lines <<-'json'
		{"a":"\\ \" \/ \b \f \n \r \t \u0001 \u00fc","b":	[	1 ]	}
		"\\N"
		"\\."
		"ü → 名前 🎉"
		"\\\\t\\n"
	json
	jr enqueue work --batch lines
	assert_equal "$status" 0
	q 'select payload::text from jobrun.job_runs order by id' | jq -c . >arrived
	diff <(jq -c . lines) arrived
	# A control byte inside a string is not JSON: each in its turn is refused, and none moves the count.
	for byte in 01 08 09 0b 0c 0d 1f; do
		q 'truncate jobrun.job_runs'
		batch "1\\n\"a\\x${byte}b\"\\n3\\n"
		refused 65 'lines: line 2: '
	done
}

@test "options of --batch hold for each of its runs" {
	local summer=$(($(date +%Y) + 1))-07-01
	batch '1\n2\n' --queue bulk -p 7 --in 90s --expires 2h --max-attempts 3 --timeout 1500ms --backoff 1s,1m --lock shop
	assert_equal "$status" 0
	q_is '2|bulk|7|00:01:30|02:00:00|3|00:00:01.5|00:00:01|00:01:00|shop' "select count(*), queue, priority, run_at - created_at,
		expires_at - run_at, max_attempts, timeout, backoff_base, backoff_cap, concurrency_key from jobrun.job_runs
		group by 2, 3, 4, 5, 6, 7, 8, 9, 10"
	q 'truncate jobrun.job_runs'
	JOBRUN_RUN_ID=41 TRACEPARENT=00-ab-cd-01 batch '1\n2\n' --at "$summer 12:00" --time-zone Europe/Berlin
	q_is "2|$summer 10:00:00|41|00-ab-cd-01" "select count(*), run_at at time zone 'UTC', parent_id, trace_context
		from jobrun.job_runs group by 2, 3, 4"
	q 'truncate jobrun.job_runs'
	batch '1\n' --queue 'No Queue'
	refused 64 '--queue'
	batch '1\n' --at nonsense
	refused 64 '--at: '
	batch '1\n' --lock "$(printf '\xff')"
	refused 65 'concurrency_key: it is not UTF-8'
}

@test "--per-run: options in a line override those of the command" {
	local summer=$(($(date +%Y) + 1))-07-01
	cat >lines <<-json
		{"payload":{"n":1},"queue":"own","priority":-5,"run_in":"1h","idempotency_key":"k1"}
		{"payload":{"n":2},"unique_key":"u"}

		{"payload":{"n":3},"unique_key":"u","on_conflict":"replace"}
		{"payload":{"n":4},"idempotency_key":"k1"}
		{}
		{"run_at":"$summer 12:00"}
	json
	jr enqueue work --batch lines --per-run --queue common --time-zone Europe/Berlin
	assert_equal "$status" 0
	assert_equal "$output" 'queued 4 runs, 2 were there already'
	q_is '{"n": 1}:own:-5:k1: {"n": 3}:common:100::u {}:common:100:: {}:common:100::' \
		"select string_agg(concat_ws(':', payload, queue, priority, coalesce(idempotency_key, ''), coalesce(unique_key, '')), ' ' order by id)
		from jobrun.job_runs"
	q_is 1 "select count(*) from jobrun.job_runs where run_at = '$summer 10:00+00'"
	jr enqueue work --batch - --per-run --json < <(echo '{"idempotency_key":"k1"}')
	assert_equal "$output" '{"version":1,"queued":0,"existed":1}'
	jr enqueue work --batch - --per-run --strict < <(echo '{"idempotency_key":"k1"}')
	assert_equal "$status" 1
	assert_equal "$output" 'queued 0 runs'
	assert_equal "$stderr" 'jobrun: 1 run was there already'
}

@test "--per-run: unknown or senseless options exit with 65 and the number of the line" {
	for line in '{"queeu":"x"}|no option "queeu"' '5|is an object like' '[]|is an object like' '{"run_in":"5 parsecs"}|run_in: .*interval' \
		'{"run_in":"-5m"}|negative' '{"run_in":"5"}|run_in "5" has no unit; write 5s or 5m' '{"timeout":30}|must be a string' \
		'{"expires_in":" 1.5 "}|has no unit' '{"run_at":"infinity"}|never comes' '{"priority":"high"}|priority: .*integer.*high' '{"priority":"high","max_attempts":"many"}|max_attempts: .*"many"' '{"run_at":"25:99"}|run_at: .*25:99' '{"priority":5000}|range' \
		'{"queue":"No Queue"}|not a name' '{"idempotency_key":""}|0 bytes' '{"on_conflict":"what"}|on_conflict' \
		'{"payload":{"a":}}|JSON|json'; do
		printf '{}\n\n%s\n{}\n' "${line%%|*}" >lines
		jr enqueue work --batch lines --per-run
		refused 65 "lines: line 3: .*(${line#*|})"
	done
	echo '{"run_at":"2026-13-01"}' >lines
	jr enqueue work --batch lines --per-run
	refused 65 'lines: line 1: [^;]*2026-13-01[^;]*$' # no hint of the server
	jr enqueue work --batch lines --per-run --time-zone Mars/Base
	refused 65 '--time-zone: time zone "Mars/Base" is not known here; write a name of pg_timezone_names'
}

@test "a payload that is nested too deeply is refused in these words, without the server's hint" {
	{ printf '[%.0s' {1..60000}; printf ']%.0s' {1..60000}; } >deep
	jr enqueue work @deep
	refused 65 'the payload is nested too deeply$'
	jr enqueue work -n @deep
	refused 65 'the payload is nested too deeply$'
	jr define work @deep
	assert_one_line 65 '^jobrun: the payload is nested too deeply$'
	{ printf '1\n2\n'; cat deep; } >lines
	jr enqueue work --batch lines
	refused 65 'lines: line 3: the payload is nested too deeply$'
	{ printf '{}\n{"payload":'; cat deep; echo '}'; } >lines
	jr enqueue work --batch lines --per-run
	refused 65 'lines: line 2: the payload is nested too deeply$'
}

@test "options that contradict --batch exit with 64" {
	batch '1\n' -k key
	refused 64 '--idempotency-key .*--per-run'
	batch '1\n' --unique key
	refused 64 '--unique .*--per-run'
	batch '1\n' --wait
	refused 64 '--wait '
	batch '1\n' --replace
	refused 64 '--replace needs'
	jr enqueue work '{}' --batch lines
	refused 64 'with --batch .*"\{\}"'
	batch '1\n' --time-zone UTC
	refused 64 '--time-zone goes with --at'
}

@test "-n checks every line and queues nothing" {
	batch '1\n2\n' -n
	assert_equal "$status" 0
	assert_equal "$output" 'would queue 2 runs'
	batch '1\n2\n' -n --json
	assert_equal "$output" '{"version":1,"queued":2,"existed":0}'
	batch '1\n{\n' -n
	refused 65 'lines: line 2: '
}

@test "a bad line is reported when it is read, not when the stream ends" {
	stream
	printf '1\n2\n' >&"$writer"
	wait_until 10 is_open
	printf '{,\n' >&"$writer"
	streamed 65
	assert_regex "$(cat err)" '^jobrun: fifo: line 3: '
	rm fifo
	exec {writer}>&-
	stream --per-run
	printf '{}\n{"queue":"No Queue"}\n' >&"$writer"
	streamed 65
	assert_regex "$(cat err)" '^jobrun: fifo: line 2: queue "No Queue" is not a name'
	q_is 0 'select count(*) from jobrun.job_runs'
	rm fifo
	exec {writer}>&-
	stream
	printf '1\n{,\n' >&"$writer"
	goes_on() {
		is_gone "$streamer" || { (echo 3 >&"$writer") 2>/dev/null || true; false; } # in a subshell: a broken pipe ends it
	}
	wait_until 20 goes_on # there is never a second without a line
	streamed 65
	assert_regex "$(cat err)" '^jobrun: fifo: line 2: '
}

@test "a slow stream is waited for, and one that breaks off queues nothing" {
	stream
	printf '1\n{"n":' >&"$writer"
	wait_until 10 is_open
	printf '2}\n' >&"$writer"
	q_is 0 'select count(*) from jobrun.job_runs'
	exec {writer}>&-
	writer=
	streamed 0
	assert_equal "$(cat out)" 'queued 2 runs'
	q 'truncate jobrun.job_runs'
	for sig in INT TERM KILL; do
		rm fifo
		stream
		printf '1\n' >&"$writer"
		wait_until 10 is_open
		kill "-$sig" "$streamer" 2>/dev/null
		[ "$sig" != INT ] || kill -TERM "$streamer" # a shell starts those in the background with INT ignored
		wait_until 10 is_gone "$streamer"
		wait "$streamer" || true
		exec {writer}>&-
		writer=
		wait_until 10 q_is 0 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
		q_is 0 'select count(*) from jobrun.job_runs'
	done
}

@test "a connection cut during a batch exits with 75 at once, and nothing is queued" {
	stream
	printf '1\n' >&"$writer"
	wait_until 10 is_open
	terminate_backends
	streamed 75
	assert_equal "$(wc -l <err)" 1
	assert_regex "$(cat err)" '; nothing was queued$'
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "a batch waits for a key that another transaction holds, but not for ever" {
	hold "select jobrun.enqueue('work', idempotency_key => 'k')"
	jr enqueue work --batch - --per-run < <(printf '{}\n{"idempotency_key":"k"}\n')
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: stdin: line 2: .*lock timeout.*; nothing was queued$'
	release_holds
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "when the answer to a batch's COMMIT is lost, the exit status says whether it was queued" {
	proxy answer 2 # the first one is that of need()
	jr_ok enqueue -d "$proxied" work --batch - < <(seq 5)
	assert_file_exists "$cut_file"
	assert_equal "$output" 'queued 5 runs'
	assert_equal "$stderr" ''
	q_is 5 'select count(*) from jobrun.job_runs'
	q 'truncate jobrun.job_runs'
	proxy request 2
	jr enqueue -d "$proxied" work --batch - < <(seq 5)
	assert_file_exists "$cut_file"
	refused 75 'lost the connection to the database at the end; nothing was queued'
}

@test "a role that may enqueue can run a batch; any other role exits with 77" {
	role=app_$JR_DATABASE
	make_role "$role"
	q "select jobrun.add_grant('enqueue', '$role', '{work}')" >/dev/null
	theirs=$(url_of "$role")
	jr_ok enqueue -d "$theirs" work --batch - < <(seq 5)
	assert_equal "$output" 'queued 5 runs'
	q_is "$role" 'select distinct created_by from jobrun.job_runs'
	q 'truncate jobrun.job_runs'
	jr enqueue -d "$theirs" play --batch - < <(seq 5)
	refused 77 ".*may not enqueue job type \"play\"; jobrun grant enqueue $role --type work,play"
	q "select jobrun.drop_grant('enqueue', '$role')" "drop owned by $role" >/dev/null
	jr enqueue -d "$theirs" work --batch - < <(seq 5)
	assert_equal "$status" 77
}

@test "a batch works through a pooler in transaction mode" {
	pooler
	seq -f '{"n":%g}' 10500 >lines
	jr_ok enqueue work --batch lines
	assert_equal "$output" 'queued 10500 runs'
	sed -i '10400s/.*/x/' lines
	jr enqueue work --batch lines
	assert_equal "$status" 65
	assert_regex "$stderr" 'lines: line 10400: '
	jr_ok enqueue -n work --batch - < <(seq 5)
	jr_ok enqueue work --batch - < <(seq 5)
	q_is 10505 'select count(*) from jobrun.job_runs'
}

@test "a batch on a terminal shows its progress, and removes that line at the end" {
	mkfifo fifo
	TERM=xterm script -qfec "stty -opost; $JOBRUN enqueue work --batch fifo" /dev/null </dev/null >out 2>&1 3>&- 4>&- &
	streamer=$!
	exec {writer}>fifo
	told() {
		echo 1 >&"$writer"
		grep -q 'lines, [0-9]* per second' out
	}
	wait_until 20 told
	exec {writer}>&-
	writer=
	streamed 0
	assert_regex "$(tail -n 1 out)" $'\r\033\\[Kqueued [0-9]+ runs'
}

@test "enqueue_lines: a null is an empty line, an error has its number, and without one no line is blamed" {
	q_is '2|0' "select * from jobrun.enqueue_lines('work', '{1,null,\"{\\\"a\\\": 2}\"}', '{\"queue\": \"bulk\"}')"
	q_is '1|1' "select * from jobrun.enqueue_lines('work', '{\"{\\\"idempotency_key\\\": \\\"k\\\"}\",null,\"{\\\"idempotency_key\\\": \\\"k\\\"}\"}', per_run => true)"
	q_is '{"a": 2}|1|bulk|{}|1|default' "select string_agg(concat_ws('|', payload, run, queue), '|' order by id) from (
		select id, payload, 1 as run, queue from jobrun.job_runs where payload <> '1') r"
	fails() {
		run q "$1"
		assert_failure
		assert_regex "$output" "ERROR:  $2"
	}
	fails "select jobrun.enqueue_lines('work', '{1,null,x,2}')" 'line 3: invalid input syntax for type json: Token "x" is invalid; up to there: x'
	fails "select jobrun.enqueue_lines('work', array['1', '\xff']::bytea[])" 'line 2: invalid byte sequence'
	fails "select jobrun.enqueue_lines('work', '{1}', '{\"queue\": \"No Queue\"}')" 'queue "No Queue" is not a name'
	fails "select jobrun.enqueue_lines('No Type', '{1}')" 'job type "No Type" is not a name'
	fails "select jobrun.enqueue_lines('work', '{1}', '[]')" 'options are no object'
	fails "select jobrun.enqueue_lines('work', array[convert_to(to_json(repeat('x', 1048576))::text, 'UTF8')])" 'line 1: the payload has 10485[0-9]+ bytes'
	q_is 3 'select count(*) from jobrun.job_runs'
}

@test "any client that may enqueue can COPY to new_runs" {
	q <<-'sql'
		copy jobrun.new_runs (job_type, payload) from stdin;
		work	{"n": 1}
		play	{"n": 2}
		\.
	sql
	q_is 'play|work' "select string_agg(job_type, '|' order by job_type) from jobrun.job_runs"
}
