#!/usr/bin/env bats
# jobrun exec: a line of an old crontab with lease, history and overlap rule, that is otherwise as it was.

load ../lib/common
load ../lib/proxy

# started FILE: CMD has written its process number there.
started() {
	wait_until 10 test -s "$1"
	cmd_pid=$(cat "$1")
}

# jr_127 ARGUMENT...: jr that exits with 127, which bats else takes for a mistake of the test.
jr_127() {
	run -127 --separate-stderr run_jobrun "$@"
}

last_run() {
	q "select max(id) from jobrun.job_runs"
}

# became EXPECTED: status and error_code of the last run.
became() {
	q_is "$1" "select status, error_code from jobrun.job_runs order by id desc limit 1"
}

# ------------------------------------------------------------------------------------------------- the line as it was

@test "exec passes on CMD's output unchanged and records it, and adds nothing" {
	jr exec nightly -- sh -c 'echo out; echo err >&2; printf "no newline"'
	assert_equal "$status" 0
	assert_equal "$output" $'out\nno newline'
	assert_equal "$stderr" 'err'
	became 'succeeded|'
	q_is 't|t' "select output like '%out' || chr(10) || '%', output like '%err%' from jobrun.job_attempts"
	jr_ok logs "$(last_run)"
	assert_line 'out'
	q_is 'exec|1' 'select queue, max_attempts from jobrun.job_runs'
	q_is 'nightly|nightly|skip' "select name, job_type, overlap from jobrun.job_definitions where name = 'nightly'"
	# Of a job type that happens to have this name nothing changes.
	enqueue nightly >/dev/null
	q_is 'default|5' "select queue, max_attempts from jobrun.job_runs where status = 'queued'"
}

@test "exec passes on the status of a CMD that failed, its run is dead at once, and nothing is printed" {
	local code

	for code in 1 2 64 65 75 77 78 126 255; do
		jr exec fails -- sh -c "exit $code"
		assert_equal "$status" "$code"
		assert_equal "$stderr" ''
		became "dead|exit:$code"
	done
	q_is '1|1' "select max(attempts), max(claim_seq) from jobrun.job_runs"
	jr exec fails -- sh -c 'kill -SEGV $$'
	assert_equal "$status" 139
	assert_equal "$stderr" ''
	became 'dead|signal:SEGV'
}

@test "exec --ok-exit: a listed exit status is a success, and is passed on" {
	jr exec ok --ok-exit 1,024 -- sh -c 'exit 1'
	assert_equal "$status" 1
	assert_equal "$stderr" ''
	became 'succeeded|'
	jr exec ok --ok-exit 1 --ok-exit 24 -- sh -c 'exit 24'
	assert_equal "$status" 24
	became 'succeeded|'
	jr_ok exec ok --ok-exit 1 -- true
	became 'succeeded|'
	jr exec ok --ok-exit 1 -- sh -c 'exit 2'
	assert_equal "$status" 2
	became 'dead|exit:2'
	jr exec ok --ok-exit 137 -- sh -c 'kill -KILL $$'
	assert_equal "$status" 137
	became 'dead|signal:KILL'
	for list in x 256 -1 1,two 1.5; do
		jr exec ok "--ok-exit=$list" -- true
		assert_equal "$status" 64
		assert_regex "$stderr" '^jobrun: [^'$'\n'']*--ok-exit[^'$'\n'']*$'
	done
}

@test "exec records CMD as an array, and show prints it so that it can be pasted into a shell" {
	local words=('sh' '-c' 'for a; do printf "<%s>" "$a"; done' '--flag=a b' "it's" '' '*' $'two\nlines' '\' 'äö' '%') id line

	jr_ok exec words -- "${words[@]}"
	id=$(last_run)
	q_is "$(printf '<%s>' "${words[@]}")" "select '<' || string_agg(w, '><' order by nr) || '>'
		from jobrun.job_runs, jsonb_array_elements_text(payload -> 'argv') with ordinality a(w, nr) where id = $id"
	jr exec words -- /bin/echo x=y 'a  b' "it's" '$HOME' $'\e[31m'
	jr_ok show "$(last_run)"
	assert_line --regexp "^command +/bin/echo x=y 'a  b' 'it'\\\\''s' '\\\$HOME' '\\\\x1[bB]\\[31m'\$"
	refute_line --regexp '^payload'
	jr exec words -- /bin/echo x=y 'a  b' "it's" '$HOME'
	jr_ok show "$(last_run)"
	line=$(sed -n 's/^command *//p' <<<"$output")
	assert_equal "$(sh -c "$line")" "x=y a  b it's \$HOME"
	jr_127 exec words -- a=b
	jr_ok show "$(last_run)"
	assert_line --regexp "^command +'a=b'\$"
}

@test "exec records at most 10000 bytes of the words of CMD" {
	jr_ok exec long -- true "$(printf 'ä%.0s' {1..6000})" more
	q_is 't|...' "select length(payload::text) between 4900 and 5100, payload #>> '{argv,-1}' from jobrun.job_runs"
	jr_ok exec long -- true $'\xff\xfe'
	q_is '["true", "��"]' "select payload -> 'argv' from jobrun.job_runs order by id desc limit 1"
}

@test "exec --mail-on-failure prints nothing about a success, and all about a failure, at its end" {
	jr_ok exec quiet --mail-on-failure -- sh -c 'echo out; echo err >&2'
	assert_equal "$output$stderr" ''
	q_is 't' "select output like '%out%' from jobrun.job_attempts"
	jr exec quiet --mail-on-failure --ok-exit 3 -- sh -c 'echo out; exit 3'
	assert_equal "$status" 3
	assert_equal "$output$stderr" ''
	jr exec quiet --mail-on-failure -- sh -c 'echo out; echo err >&2; exit 3'
	assert_equal "$status" 3
	assert_equal "$(sort <<<"$output")" $'err\nout'
	assert_regex "$stderr" "^jobrun: quiet failed, run $(last_run): exit 3: (out|err)\$"
	run --separate-stderr bash -c "'$JOBRUN' exec quiet --mail-on-failure -- sh -c 'echo out; exit 65' >/dev/full"
	assert_equal "$status" 65
	assert_regex "$stderr" "^jobrun: could not write to stdout: No space left on device; look: jobrun logs $(last_run)"
	jr exec quiet --mail-on-failure -- false
	assert_equal "$status" 1
	assert_equal "$stderr" "jobrun: quiet failed, run $(last_run): exit 1"
	jr exec quiet --mail-on-failure --timeout 2s -- sh -c 'echo begun; sleep 60'
	assert_equal "$status" 124
	assert_equal "$output" begun
	jr_ok pause --definition quiet
	jr_ok exec quiet --mail-on-failure -- sh -c 'echo out; exit 3'
	assert_equal "$output$stderr" ''
}

@test "exec --mail-on-failure prints head and tail of much output, and what was dropped" {
	jr exec much --mail-on-failure -- sh -c 'echo first; yes | head -c 2000000; echo last; exit 1'
	assert_equal "$status" 1
	assert_line --index 0 first
	assert_line last
	assert_line --regexp '^\[\.\.\. [0-9]+ bytes dropped \.\.\.\]$'
	[ "${#output}" -lt 300000 ]
}

@test "exec exits with 127 or 126 and a line when CMD cannot be started, and records it" {
	printf 'echo hi\n' >plain
	printf '#!/no/such/interpreter\n' >broken
	chmod 755 broken
	echo 'echo from here' >here
	chmod 755 here
	jr_127 exec x -- no-such-command --flag
	assert_equal "$stderr" 'jobrun: cannot start no-such-command: no such command'
	became 'dead|cannot-start'
	jr_127 exec x -- /no/such
	jr exec x -- ./plain
	assert_equal "$status" 126
	assert_regex "$stderr" '^jobrun: cannot start ./plain: Permission denied$'
	jr exec x -- "$PWD"
	assert_equal "$status" 126
	jr exec x -- ./broken
	assert_equal "$status" 126
	# Not from the directory that one happens to be in.
	jr_127 exec x -- here
	assert_equal "$output" ''
}

@test "exec runs a script without an interpreter line with sh, and searches PATH" {
	mkdir bin none
	printf 'echo "$0 <$1> <$2>"\n' >bin/tool
	chmod 755 bin/tool
	PATH=$PWD/none:$PWD/bin:$PATH jr exec x -- tool 'a b' c
	assert_equal "$status" 0
	assert_equal "$output" "$PWD/bin/tool <a b> <c>"
}

@test "CMD has the caller's environment, directory, umask, stdin and descriptors, plus JOBRUN_ variables" {
	export PGPASSWORD=secret LD_LIBRARY_PATH=/nowhere DATABASE_URL='postgres://u:p@h/d' EMPTY='' LINES2=$'two\nlines'
	env | grep -v ^_= | sort >before
	run_jobrun exec x -- env | grep -v ^_= | sort >after
	run -1 diff before after
	refute_output --regexp '^<'
	refute_line --regexp '^> (JOBRUN_DEADLINE|JOBRUN_SLOT|JOBRUN_CHECKPOINT)='
	assert_line "> JOBRUN_RUN_ID=$(last_run)"
	assert_line '> JOBRUN_TYPE=x'
	assert_line '> JOBRUN_CLAIM=1'
	run grep -vE '^(> JOBRUN_[A-Z_]+=.*|[0-9,]+[acd][0-9,]+|---)$' <<<"$output"
	assert_output ''

	mkdir deep
	umask 027
	echo 'a line' >input
	exec 7>seven
	run --separate-stderr bash -c 'cd deep && "$0" exec x -- sh -c "pwd; umask; cat; echo seven >&7" <../input' "$JOBRUN"
	exec 7>&-
	assert_equal "$status" 0
	assert_equal "$output" "$PWD/deep
0027
a line"
	assert_equal "$(cat seven)" seven
}

@test "exec --timeout sets JOBRUN_DEADLINE to the end" {
	jr_ok exec x --timeout 1h -- sh -c 'echo $((JOBRUN_DEADLINE - $(date +%s)))'
	assert_between 3591 "$output" 3600
}

@test "a signal that the caller ignores stays ignored" {
	# Long enough for TERM to come, if it were to come.
	cat >cmd <<-'sh'
		kill -HUP $PPID
		kill -INT $PPID
		kill -HUP $$
		kill -INT $$
		for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done
		echo alive
	sh
	run --separate-stderr bash -c 'trap "" HUP INT; exec "$0" exec x -- sh cmd' "$JOBRUN"
	assert_equal "$status" 0
	assert_equal "$output" alive
}

@test "much output arrives whole at a slow reader, and its head and tail are kept" {
	run_jobrun exec big -- sh -c 'echo first; seq 1 1500000; echo last' | {
		sleep 1 # nobody reads for so long, and all pipes and buffers fill
		cat >got
	}
	{
		echo first
		seq 1 1500000
		echo last
	} | cmp - got
	q_is 't|t|t' "select output like 'first%', output like '%last' || chr(10), output_dropped > 8000000 from jobrun.job_attempts"
	became 'succeeded|'
}

@test "a reader that has had enough ends CMD as it would without jobrun" {
	run bash -c '"$0" exec x -- yes | head -n 1; exit "${PIPESTATUS[0]}"' "$JOBRUN"
	assert_equal "$status" 141
	assert_output y
	became 'dead|signal:PIPE'
}

@test "a full disk or a closed stdout does not end CMD; what it printed is recorded" {
	run --separate-stderr bash -c '"$0" exec full -- sh -c "echo one; sleep 0.2; echo two; exit 3" >/dev/full' "$JOBRUN"
	assert_one_line 3 'output_lost .*fd=1 error="No space left'
	became 'dead|exit:3'
	jr_ok logs "$(last_run)"
	assert_output $'one\ntwo'
	run --separate-stderr bash -c '"$0" exec closed -- echo one >&-' "$JOBRUN"
	assert_equal "$status" 0
	assert_regex "$stderr" 'output_lost .*fd=1 error="Bad file'
	became 'succeeded|'
}

@test "a reader that never reads does not keep a timed-out CMD's run open" {
	mkfifo pipe
	exec {reader}<>pipe
	bg_jobrun exec x --timeout 500ms --grace 200ms -- sh -c 'seq 1 1000000 >pipe' # fills it, outside of what jobrun passes on
	wait_runner
	assert_equal "$runner_status" 124
	"$JOBRUN" exec x --timeout 500ms --grace 200ms -- seq 1 1000000 >pipe 3>&- &
	runner_pid=$!
	runner_pids+=("$runner_pid")
	wait_runner
	assert_equal "$runner_status" 124
	exec {reader}<&-
	became 'dead|timeout'
}

@test "what CMD leaves in the background ends with it, and does not hold the line" {
	jr exec x -- sh -c 'sleep 1000 & echo $! >child; echo done'
	assert_equal "$status" 0
	assert_equal "$output" 'done'
	wait_until 3 is_gone "$(cat child)"
}

# ---------------------------------------------------------------------------------------------- options and their ends

@test "exec --timeout 0 lifts the timeout of the definition" {
	jr_ok define x --timeout 1h
	jr_ok exec x -- sh -c 'echo "${JOBRUN_DEADLINE:-none}"'
	refute_output none
	jr_ok exec x --timeout 0 -- sh -c 'echo "${JOBRUN_DEADLINE:-none}"'
	assert_output none
}

@test "exec --timeout sends TERM, then KILL after the grace, and exits with 124" {
	# Time for the shell to set its trap.
	jr exec x --timeout 2s -- sh -c 'trap "echo term; exit 0" TERM; while :; do sleep 0.05; done'
	assert_equal "$status" 124
	assert_equal "$output" 'term'
	assert_regex "$stderr" "(^|"$'\n'")jobrun: x failed, run $(last_run): timed out after 2s: (term|Terminated)\$" # the shell's own word
	became 'dead|timeout'
	jr exec x --timeout 300ms --grace 200ms -- sh -c 'trap "" TERM; while :; do sleep 0.05; done'
	assert_equal "$status" 124
	assert_equal "$stderr" "jobrun: x failed, run $(last_run): timed out after 300ms"
	became 'dead|timeout'
	q "insert into jobrun.job_definitions (name, job_type, timeout) values ('defined', 'defined', '300 ms')"
	jr exec defined -- sleep 60
	assert_equal "$status" 124
	assert_equal "$stderr" "jobrun: defined failed, run $(last_run): timed out after 300ms"
}

@test "cpu time, memory, host and process are recorded" {
	jr_ok exec busy -- sh -c 'echo $$ >pid; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo x'
	q_is "t|t|$(cat pid)" "select cpu_ms > 0, host is not null, pid from jobrun.job_attempts"
}

@test "a usage error says where the command goes" {
	jr exec nightly true
	assert_equal "$status" 64
	assert_regex "$stderr" 'the command goes behind "--"'
	jr exec nightly --
	assert_equal "$status" 64
	jr exec 'Not A Name' -- true
	assert_equal "$status" 64
	jr exec jobrun.prune -- true
	assert_equal "$status" 64
	q_is 0 "select count(*) from jobrun.job_runs"
}

# ------------------------------------------------------------------------------------------------------------- overlap

@test "of eight execs of one name at once, also of a new name, one runs and the others exit with 0 silently" {
	local i

	for i in 1 2 3 4 5 6 7 8; do
		bg_jobrun exec same -- sh -c 'echo $$ >>started; until [ -e go ]; do sleep 0.05; done'
	done
	wait_until 20 ended_but_one
	touch go
	for i in "${runner_pids[@]}"; do
		wait_runner "$i"
		assert_equal "$runner_status" 0
	done
	assert_equal "$(wc -l <started)" 1
	assert_equal "$(cat runner.*.err runner.*.out)" ''
	q_is '1|1' "select (select count(*) from jobrun.job_runs), (select count(*) from jobrun.job_definitions where name = 'same')"
}

ended_but_one() {
	local pid left=0

	[ -s started ] || return
	for pid in "${runner_pids[@]}"; do
		is_gone "$pid" || left=$((left + 1))
	done
	[ "$left" -eq 1 ]
}

@test "an exec that overlaps is silent; --strict exits with 75 and a line, -v prints a line; another name runs" {
	bg_jobrun exec x -- sh -c 'echo $$ >pid; exec sleep 60'
	started pid
	jr exec x -- touch second
	assert_equal "$status" 0
	assert_equal "$output$stderr" ''
	jr exec x --strict -- touch second
	assert_equal "$status" 75
	assert_equal "$stderr" "jobrun: x was not started: run $(last_run) is running"
	assert_equal "${#stderr_lines[@]}" 1
	jr exec -v x -- touch second
	assert_equal "$status" 0
	assert_regex "$stderr" "jobrun: x was not started: run $(last_run) is running"
	jr exec y -- echo other
	assert_equal "$output" other
	assert_file_not_exist second
	# With "allow" it runs beside itself.
	q "update jobrun.job_definitions set overlap = 'allow' where name = 'x'"
	jr_ok exec x -- touch second
	assert_file_exist second
	kill "$runner_pid"
	wait_runner
}

@test "an exec does not start beside a run of its name whose definition was removed meanwhile" {
	bg_jobrun exec backup -- sleep 60
	wait_until 5 q_is 1 "select count(*) from jobrun.job_runs where status = 'running'"
	id=$(last_run)
	jr_ok define --remove backup
	jr exec --strict backup -- true
	assert_one_line 75 "run $id is running"
	jr_ok exec other -- true
	jr_ok cancel "$id"
	wait_runner
	jr_ok exec --strict backup -- true
	run_is "$((id + 2))" succeeded
}

@test "a paused or disabled exec is not started, silently; --strict says why" {
	jr_ok exec x -- true
	q "update jobrun.job_definitions set paused_until = 'infinity', paused_reason = 'moving house' where name = 'x'"
	jr exec x -- touch second
	assert_equal "$status" 0
	assert_equal "$output$stderr" ''
	jr exec --strict x -- touch second
	assert_equal "$status" 75
	assert_equal "$stderr" 'jobrun: x was not started: definition x is paused until resumed: moving house'
	q "update jobrun.job_definitions set paused_until = null, enabled = false where name = 'x'"
	jr exec --strict x -- touch second
	assert_equal "$status" 75
	assert_equal "$stderr" 'jobrun: x was not started: disabled'
	assert_file_not_exist second
}

# ------------------------------------------------------------------------------------------ limits of its queue and key

# busy NAME: a command of this definition runs, until the file go is there.
busy() {
	rm -f "up.$1"
	bg_jobrun exec "$1" -- sh -c "echo \$\$ >up.$1; until [ -e go ]; do sleep 0.05; done"
	wait_until 10 test -s "up.$1"
}

# running: the ids of what runs.
running() {
	q "select string_agg(id::text, ', ' order by id) from jobrun.job_runs where status = 'running'"
}

# refused NAME REASON: it is not started, silently unless people ask why, and each time is on record.
refused() {
	local before

	before=$(q "select count(*) from jobrun.job_slots")
	jr exec "$1" -- touch "ran.$1"
	assert_equal "$status$output$stderr" 0
	jr exec "$1" --strict -- touch "ran.$1"
	assert_equal "$status$output" 75
	assert_equal "$stderr" "jobrun: $1 was not started: $2"
	jr exec -v "$1" -- touch "ran.$1"
	assert_equal "$status$output" 0
	assert_line_of_stderr "jobrun: $1 was not started: $2"
	assert_file_not_exist "ran.$1"
	q_is "$((before + 3))" "select count(*) from jobrun.job_slots"
	q_is "3|skipped|${3:-$2}" "select count(*), outcome, reason from (
		select * from jobrun.job_slots where definition_id = (select id from jobrun.job_definitions where name = '$1')
		order by slot desc limit 3) s group by outcome, reason"
}

@test "the limits of its queue and its lock key keep it from starting; each such start is on record" {
	jr_ok define a --lock nas --queue night
	jr_ok define b --lock nas --queue night
	jr_ok define c --lock nas # another queue
	busy a
	refused b "lock key nas is taken, 1 of 1 run in queue night ($(running))"
	jr_ok exec --strict c -- true
	jr_ok queue night --per-key 2
	jr_ok exec --strict b -- true

	jr_ok define d --queue night
	jr_ok queue night --max-running 1
	refused d "queue night is full, 1 of 1 run ($(running))"
	refused b "queue night is full, 1 of 1 run ($(running))"
	jr_ok queue night --max-running none --rate 2/1h
	jr_ok exec --strict d -- true
	jr_ok exec --strict d -- true
	refused d "queue night has started 2 of 2 in 1h, more from $(q "select to_char((rate_window_start + rate_period) at time zone 'UTC',
		'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from jobrun.job_queues where name = 'night'")"
	q_is 2 "select rate_used from jobrun.job_queues where name = 'night'"
	refused a "run $(q "select id from jobrun.job_runs where status = 'running'") is running" \
		"overlap: run $(q "select id from jobrun.job_runs where status = 'running'") is running"
	touch go
	wait_runner
}

@test "exec uses queue exec unless the definition names another, and its limit counts all execs and runs" {
	jr_ok queue exec --max-running 2
	busy a
	busy b
	refused c "queue exec is full, 2 of 2 run ($(running))"
	handler work <<<'true'
	id=$(enqueue work -q exec)
	jr_ok run
	run_is "$id" queued
	touch go
	wait_until 10 running_are 0
	jr_ok exec --strict c -- true
	# A pause is asked there, too, and with a pause comes a row.
	jr_ok pause --queue exec --reason 'moving house'
	refused c "queue exec is paused by $(q 'select session_user') until resumed: moving house"
	q_is 't' "select bool_and(runner_id is not null and slot < created_at + interval '1 second') from jobrun.job_slots"
	wait_runner
}

@test "exec with a lock key in a new queue makes the row that counts it" {
	jr_ok define a --lock nas
	q 'delete from jobrun.job_queues' # as define makes it, too
	busy a
	q_is 'exec|1' 'select name, max_running_per_key from jobrun.job_queues'
	q_is 'exec|nas' 'select queue, concurrency_key from jobrun.job_runs'
	check_invariants
	touch go
	wait_runner
}

# twenty: lines at the same moment, of as many names, or all of name x.
twenty() {
	local i

	for i in {1..20}; do
		bg_jobrun exec --strict "${1:-x$i}" -- sh -c 'echo up >>"$TMPDIR/up"; until [ -e go ]; do sleep 0.1; done'
	done
	wait_until 25 up_is 20
	touch go
	for i in "${runner_pids[@]}"; do
		wait_runner "$i"
		assert_equal "$runner_status" 0
	done
	assert_equal "$(cat runner.*.err)" ''
	q_is 0 'select count(*) from jobrun.job_slots'
}

@test "twenty execs at once all start, and lock no queue without a limit" {
	jr_ok queue exec --per-key none
	hold "select from jobrun.job_queues for update"
	twenty
}

@test "twenty execs at once in a limited queue all start when there is room" {
	jr_ok queue exec --max-running 20
	twenty
}

@test "twenty execs at once of a definition that allows overlap all start" {
	jr_ok define x --overlap allow
	twenty x
}

@test "ten execs at a time never exceed a limit, even with a client that locks the queue" {
	local round i

	jr_ok queue exec --max-running 2
	jr_ok queue keyed --per-key 1
	# Time for others between the count and the commit.
	q "create function slow() returns trigger language plpgsql as \$\$ begin perform pg_sleep(0.1); return new; end \$\$" \
		"create trigger slow before insert on jobrun.job_runs for each row execute function slow()"
	jr_ok define k1 --overlap allow --queue keyed --lock k
	jr_ok define k2 --overlap allow --queue keyed --lock k
	cat >cmd <<-'sh'
		mkdir -p "$TMPDIR/room.$1"
		: >"$TMPDIR/room.$1/$$"
		ls "$TMPDIR/room.$1" | wc -l >>"$TMPDIR/seen.$1"
		sleep 0.2 # time for others to begin, if they may
		rm "$TMPDIR/room.$1/$$"
	sh
	for round in 1 2 3; do
		hold "select from jobrun.job_queues for update"
		for i in 1 2 3 4 5; do
			bg_jobrun exec --strict "x$i" -- sh cmd exec
			bg_jobrun exec --strict "k$((i % 2 + 1))" -- sh cmd keyed
		done
		sleep 0.3 # time for some of them to find the lock
		release_holds
		for i in "${runner_pids[@]}"; do
			wait_runner "$i"
			[ "$runner_status" -eq 0 ] || [ "$runner_status" -eq 75 ] || fail "status $runner_status"
		done
		cat runner.*.err >>said
		runner_pids=()
	done
	assert [ "$(largest "$TMPDIR/seen.exec")" -le 2 ]
	assert_equal "$(largest "$TMPDIR/seen.keyed")" 1
	# Each was started or is on record with a reason, except those that gave up on the lock after five seconds.
	uncounted=$(grep -c 'locked for 5 s' said || true)
	assert_between 0 "$uncounted" 10
	q_is "$((30 - uncounted))" 'select (select count(*) from jobrun.job_runs) + (select count(*) from jobrun.job_slots)'
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
}

@test "exec waits five seconds for a locked queue, then exits with 75 and a line, or with --fail-open runs without a record" {
	local before

	jr_ok queue night --max-running 5
	jr_ok define x --queue night
	hold "select jobrun.pause(queue => 'night')"
	bg_jobrun exec --lease 2s x -- echo ran
	sleep 1 # it waits all that time
	running_are 0
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(cat "$runner_out")" ran
	assert_equal "$(cat "$runner_err")" ''

	hold "select jobrun.pause(queue => 'night')"
	bg_jobrun exec --fail-open x -- echo ran
	before=$(now_ms)
	jr exec --lease 2s x -- touch ran
	assert_equal "$status" 75
	assert [ "$(ms_since "$before")" -ge 5000 ]
	assert [ "$(ms_since "$before")" -le 15000 ]
	assert_equal "$stderr" "jobrun: somebody else has had queue night locked for 5 s: end that transaction (pg_stat_activity shows its xact_start), then try again; x was not started"
	assert_file_not_exist ran
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(cat "$runner_out")" ran
	assert_regex "$(cat "$runner_err")" '^jobrun: somebody else has had queue night locked .*; x runs without a record$'
	# Nobody has counted, so nothing is on record; and nothing is left.
	q_is '1|0' "select (select count(*) from jobrun.job_runs), (select count(*) from jobrun.job_slots)"
	# Another queue does not wait.
	jr_ok exec y -- true
}

@test "exec waits five seconds for a locked definition, then exits with 75 and a line" {
	jr_ok exec x -- true
	hold "select from jobrun.job_definitions for update"
	bg_jobrun exec x -- echo ran
	sleep 1 # it waits all that time
	assert_equal "$(cat "$runner_out")" ''
	release_holds
	wait_runner
	assert_equal "$runner_status$(cat "$runner_out")" 0ran
	hold "select from jobrun.job_definitions for update"
	jr exec x -- touch ran
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: somebody else has had definition x locked for 5 s: .*; x was not started$'
	assert_file_not_exist ran
}

@test "exec waits five seconds for a definition that somebody is just making, then exits with 75 and a line" {
	hold "insert into jobrun.job_definitions (name, job_type) values ('x', 'x')"
	bg_jobrun exec x -- touch ran
	sleep 1.5 # longer than one lock_timeout: it asks again
	assert_file_not_exist ran
	release_holds
	wait_runner
	assert_equal "$runner_status$(cat "$runner_err")" 0
	assert_file_exist ran
	hold "insert into jobrun.job_definitions (name, job_type) values ('y', 'y')"
	jr exec y -- touch never
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: somebody else has had definition y locked for 5 s: .*; y was not started$'
	assert_file_not_exist never
}

@test "exec does not exit with 0 when its claim took nothing for an unknown reason" {
	q "create function ended() returns trigger language plpgsql as \$\$ begin new.finished_at := now(); return new; end \$\$" \
		"create trigger ended before insert on jobrun.job_runners for each row execute function ended()"
	jr exec x -- touch ran
	assert_equal "$status" 75
	assert_equal "$stderr" 'jobrun: somebody has deleted the row of this runner, or ended it; x was not started'
	assert_file_not_exist ran
	jr_ok exec --fail-open x -- touch ran
	assert_file_exist ran
}

@test "TERM ends exec's wait for a locked queue at once" {
	local before

	jr_ok queue exec --max-running 5
	hold "select from jobrun.job_queues for update"
	bg_jobrun exec -v x -- touch ran
	wait_until 10 grep -q 'locked queue=exec' "$runner_err"
	before=$(now_ms)
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 143
	assert [ "$(ms_since "$before")" -le 3000 ]
	assert_file_not_exist ran
}

@test "exec reads its definition again after waiting for a lock" {
	jr_ok queue night --max-running 5
	jr_ok queue day --max-running 0
	jr_ok define x --queue night
	# While it waits for one queue it is moved to another.
	hold "select from jobrun.job_queues where name = 'night' for update"
	bg_jobrun exec -v --strict x -- true
	wait_until 10 grep -q 'locked queue=night' "$runner_err"
	jr_ok define x --queue day
	wait_runner
	assert_equal "$runner_status" 75
	assert_equal "$(grep '^jobrun' "$runner_err")" 'jobrun: x was not started: queue day lets no run start: its max-running is 0'
	release_holds
	# And in the middle of a claim, which here stands still at the row of a new queue.
	jr_ok define x --queue new --lock k
	q "delete from jobrun.job_queues where name = 'new'"
	hold "insert into jobrun.job_queues (name) values ('new')"
	bg_jobrun exec -v --strict x -- true
	wait_until 10 waiting_for_lock 1
	q "update jobrun.job_definitions set queue = 'day' where name = 'x'"
	release_holds
	wait_runner
	assert_equal "$runner_status" 75
	assert_equal "$(grep '^jobrun' "$runner_err")" 'jobrun: x was not started: queue day lets no run start: its max-running is 0'
	q_is 0 "select count(*) from jobrun.job_runs"
}

@test "a run that was retried is counted where its definition is now" {
	jr exec x -- false
	jr_ok retry -s dead --definition x
	jr_ok queue night --max-running 0
	jr_ok define x --queue night --lock k
	refused x "queue night lets no run start: its max-running is 0"
	jr_ok queue night --max-running 1
	jr_ok exec --strict x -- true
	q_is '1|night|k|succeeded' "select id, queue, concurrency_key, status from jobrun.job_runs"
}

# skip_once N: a start through the proxy that is left out is on record once.
skip_once() {
	jr exec -d "$proxied" x --lease 2s --strict -- touch ran
	assert_equal "$status" 75
	assert_equal "$stderr" 'jobrun: x was not started: disabled'
	q_is "$1" 'select count(*) from jobrun.job_slots'
}

@test "each COMMIT or its answer is lost once: a start that is left out is recorded once" {
	jr_ok define x --disable
	cut_every_commit answer skip_once
	q 'delete from jobrun.job_slots'
	cut_every_commit request skip_once
	assert_file_not_exist ran
}

@test "a retried run of exec waits for the next exec of its name, which takes it and starts" {
	local a b

	jr exec retried -- false
	a=$(last_run)
	jr exec retried -- false
	b=$(last_run)
	jr_ok retry -s dead --definition retried
	jr_ok exec --strict retried --timeout 1m -- sh -c 'echo ran; exit 0'
	assert_output ran
	jr exec --strict retried -- sh -c 'exit 3'
	assert_equal "$status" 3
	jr_ok exec --strict retried -- true
	q_is "$a|succeeded|2
$b|dead|2
$((b + 1))|succeeded|1" "select id, status, claim_seq from jobrun.job_runs order by id"
	q_is 't' "select payload = jsonb_build_object('argv', array['sh', '-c', 'echo ran; exit 0']) from jobrun.job_runs where id = $a"
	# what somebody has enqueued is work of others
	jr_ok enqueue --definition retried
	jr exec --strict retried -- true
	assert_equal "$status" 75
	# also when it looks like it
	jr_ok define retried --max-attempts 1
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now(), error_code = 'cancelled' where status = 'queued'"
	id=$(enqueue --definition retried '{"argv": ["theirs"]}')
	handler retried <<<'exit 65'
	jr run
	assert_equal "$status" 1
	jr_ok retry "$id"
	jr exec --strict retried -- true
	assert_equal "$status" 75
	q_is 'queued|theirs' "select status, payload #>> '{argv,0}' from jobrun.job_runs where id = $id"
}

@test "exec takes no permit and waits for none" {
	handler slow <<<'echo $$ >"$TMPDIR/slow"; exec sleep 60'
	enqueue slow >/dev/null
	bg_runner -j 1
	started "$TMPDIR/slow"
	jr exec x -- echo ran
	assert_equal "$status" 0
	assert_equal "$output" ran
	q_is 'running|1' "select status, count(*) from jobrun.job_runs where job_type = 'slow' group by status"
}

@test "exec starts CMD and nothing else: no handler, no schedule" {
	handler other <<<'true'
	id=$(enqueue other)
	q "insert into jobrun.job_definitions (name, job_type, schedule) values ('due', 'other', '* * * * *')"
	q "update jobrun.job_definitions set next_slot_at = date_trunc('minute', now()) - interval '1 minute' where name = 'due'"
	jr_ok exec x -- true
	run_is "$id" queued
	q_is 0 "select count(*) from jobrun.job_slots"
	jr_ok run
	q_is t "select count(*) > 0 from jobrun.job_slots"
}

@test "exec -v prints the run's id" {
	jr_ok exec -v x -- true
	assert_regex "$stderr" "run=$(last_run) "
}

# -------------------------------------------------------------------------------------------------------- its early end

@test "TERM, INT and HUP reach CMD, and the run is dead, not queued" {
	local sig

	for sig in TERM INT HUP; do
		rm -f pid
		# What a shell starts in the background would have INT ignored.
		bg_exec_with_int x -- sh -c 'trap "echo got it; exit 3" TERM; echo $$ >pid; while :; do sleep 0.05; done'
		started pid
		kill -s "$sig" "$runner_pid"
		wait_runner
		assert_equal "$runner_status" 3
		assert_equal "$(cat "$runner_out")" 'got it'
		refute_regex "$(cat "$runner_err")" jobrun
		became 'dead|stopped'
	done
	q_is 'stopped: jobrun was told to end' "select distinct last_error from jobrun.job_runs"
	jr_ok exec x -- true
}

bg_exec_with_int() {
	local n=${#runner_pids[@]}

	runner_out=$BATS_TEST_TMPDIR/runner.$n.out
	runner_err=$BATS_TEST_TMPDIR/runner.$n.err
	env --default-signal=INT "$JOBRUN" exec "$@" >"$runner_out" 2>"$runner_err" 3>&- 4>&- &
	runner_pid=$!
	runner_pids+=("$runner_pid")
}

@test "a CMD that does not mind TERM is killed after the grace; one that ends well has succeeded" {
	bg_jobrun exec x --grace 300ms -- sh -c 'trap "" TERM; echo $$ >pid; while :; do sleep 0.05; done'
	started pid
	kill "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 137
	became 'dead|stopped'
	bg_jobrun exec x -- sh -c 'trap "exit 0" TERM; echo $$ >pid2; while :; do sleep 0.05; done'
	started pid2
	kill "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	became 'succeeded|'
}

@test "jobrun cancel stops a CMD of exec" {
	bg_jobrun exec x --lease 2s -- sh -c 'echo $$ >pid; exec sleep 60'
	started pid
	jr_ok cancel "$(last_run)"
	wait_runner
	assert_equal "$runner_status" 143
	assert_equal "$(cat runner.*.err)" "jobrun: x failed, run $(last_run): cancelled while it ran"
	became 'cancelled|cancelled'
}

@test "after SIGKILL of jobrun exec CMD is gone at once, and the next tick calls its run dead" {
	bg_jobrun exec x -- sh -c 'echo $$ >pid; exec sleep 60'
	started pid
	kill -KILL "$runner_pid"
	wait_until 3 is_gone "$cmd_pid"
	jr exec --strict x -- true
	assert_equal "$status" 75
	end_lease "$(last_run)"
	handler other <<<'true'
	wait_until 10 lost_by_tick
	became 'dead|lost'
	jr_ok exec x -- echo again
	assert_equal "$output" again
}

lost_by_tick() {
	run_jobrun run >/dev/null 2>&1
	q_is 0 "select count(*) from jobrun.job_runs where status = 'running'"
}

@test "the next exec of any name calls a lost run dead, and says so" {
	bg_jobrun exec x --lease 2s -- sh -c 'echo $$ >pid; exec sleep 60'
	started pid
	kill -KILL "$runner_pid"
	wait_until 10 q_is t "select locked_until < now() from jobrun.job_runs"
	jr exec x -- echo again
	assert_equal "$status" 0
	assert_equal "$output" again
	assert_regex "$stderr" '^jobrun: run [0-9]+ x is dead after 1 of 1 attempt: '
	q_is 'dead|succeeded' "select string_agg(status, '|' order by id) from jobrun.job_runs"
}

# ------------------------------------------------------------------------------------------------- without a database

@test "exec without a database exits with 75 and a line, as rarely as run does; --fail-open runs CMD" {
	own_cluster
	stop_server
	# What run said hides nothing of a command that is started once a night.
	handler other <<<'exit 0'
	jr run
	assert_equal "$status" 75
	jr exec x -- touch ran
	assert_one_line 75 '^jobrun: connection to server.*; x was not started$'
	bg_jobrun exec y -- touch ran
	jr exec x -- touch ran
	assert_equal "$status" 75
	assert_equal "$stderr" ''
	wait_runner
	assert_equal "$runner_status" 75
	assert_regex "$(cat "$runner_err")" '; y was not started$'
	assert_file_not_exist ran
	# Nobody wants it any more.
	bg_jobrun exec --fail-open x -- touch ran
	kill "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 143
	assert_file_not_exist ran

	rm -rf "$JOBRUN_STATE_DIR"
	jr exec --fail-open x -- sh -c 'echo out; echo err >&2; env | grep JOBRUN_RUN_ID; exit 5'
	assert_equal "$status" 5
	assert_equal "$output" 'out'
	assert_regex "${stderr_lines[0]}" '^jobrun: connection to server.*; x runs without a record$'
	assert_equal "${stderr_lines[1]}" err
	assert_equal "${#stderr_lines[@]}" 2
	start_server
	jr_ok exec x -- true
	assert_regex "$stderr" '^jobrun: the database is back; x had no record for [0-9]'
	jr_ok exec x -- true
	assert_equal "$stderr" ''
}

@test "exec exits with 78 without a schema and 77 without a grant; --fail-open runs CMD, and says so as rarely" {
	role=exec_$JR_DATABASE
	make_role "$role"
	as_role=$(url_of "$role")
	jr exec -d "$as_role" x -- touch ran
	assert_equal "$status" 77
	assert_regex "$stderr" '; x was not started$'
	jr exec -d "$as_role" --fail-open y -- sh -c 'exit 4'
	assert_equal "$status" 4
	assert_regex "$stderr" '^jobrun: .*; y runs without a record$'
	jr exec -d "$as_role" --fail-open y -- sh -c 'exit 4'
	assert_equal "$status" 4
	assert_equal "$stderr" ''
	jr_ok grant run "$role"
	jr_ok exec -d "$as_role" x -- true
	became 'succeeded|'
	jr_ok grant --revoke run "$role" || true
	q "drop schema jobrun cascade"
	jr exec x -- touch ran
	assert_equal "$status" 78
	assert_regex "$stderr" 'migrate'
	jr exec --fail-open y -- sh -c 'exit 4'
	assert_equal "$status" 4
	assert_regex "$stderr" 'migrate.*; y runs without a record$'
	assert_file_not_exist ran
}

@test "when the database goes away while CMD runs, CMD is stopped inside its lease, and exec exits with 75 and a line" {
	own_cluster
	bg_jobrun exec x --lease 2s -- sh -c 'echo $$ >pid; exec sleep 60'
	started pid
	stop_server
	wait_until 3 is_gone "$cmd_pid"
	wait_runner "$runner_pid" 40
	assert_equal "$runner_status" 75
	run cat "$runner_err"
	assert_regex "$output" '^jobrun: x was stopped: its run [0-9]+ is lost, since the database did not answer in time'
	assert_equal "${#lines[@]}" 1
	start_server
	handler other <<<'true'
	wait_until 10 lost_by_tick
	became 'dead|lost'
}

@test "exec --mail-on-failure prints what CMD has printed when the database goes away and CMD is stopped" {
	own_cluster
	bg_jobrun exec x --mail-on-failure --lease 2s -- sh -c 'echo said; echo $$ >pid; exec sleep 60'
	started pid
	stop_server
	wait_runner "$runner_pid" 40
	assert_equal "$runner_status" 75
	assert_equal "$(cat "$runner_out")" said
	assert_regex "$(cat "$runner_err")" '^jobrun: x was stopped: its run [0-9]+ is lost, since the database did not answer in time'
}

@test "with --fail-open CMD goes on to its end, and its status counts" {
	own_cluster
	bg_jobrun exec x --lease 2s --fail-open -- sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.05; done; echo end; exit 7'
	started pid
	stop_server
	sleep 4 # two leases
	touch go
	wait_runner "$runner_pid" 40
	assert_equal "$runner_status" 7
	assert_equal "$(cat "$runner_out")" end
	run cat "$runner_err"
	assert_regex "$output" '^jobrun: the result of run [0-9]+ could not be written in time; it will be called lost$'
}

@test "with --fail-open a database that comes back gets the result, or is told nothing when the run was called lost" {
	own_cluster
	bg_jobrun exec x --lease 2s --fail-open -- sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.05; done; exit 7'
	started pid
	stop_server
	sleep 3 # longer than the lease
	start_server
	wait_until 10 q_is t "select locked_until > now() from jobrun.job_runs"
	touch go
	wait_runner
	assert_equal "$runner_status" 7
	became 'dead|exit:7'

	rm pid go
	bg_jobrun exec -v y --lease 2s --fail-open -- sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.05; done; exit 7'
	started pid
	q "update jobrun.job_runs set locked_until = now() - interval '1 minute' where status = 'running';
		update jobrun.job_runs set status = 'dead', locked_until = null, finished_at = now(), error_code = 'lost', runner_id = null where status = 'running'" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, host, runner_id, started_at, finished_at)
		select id, 1, 1, 'lost', 'lost', 'h', 1, started_at, now() from jobrun.job_runs where job_type = 'y'"
	wait_until 10 grep -q lease_lost "$runner_err"
	run is_gone "$cmd_pid"
	assert_failure
	touch go
	wait_runner
	assert_equal "$runner_status" 7
	assert_equal "$(grep '^jobrun: ' "$runner_err")" "jobrun: y ended with 7 without a record: its run $(last_run) was called lost before that"
	became 'dead|lost'
}

@test "exec survives connections that are cut while CMD runs" {
	bg_jobrun exec x --lease 10s -- sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.05; done; exit 7'
	started pid
	for _ in 1 2 3; do
		terminate_backends
		sleep 0.3 # time for a new connection, which is cut as well
	done
	touch go
	wait_runner
	assert_equal "$runner_status" 7
	assert_equal "$(cat "$runner_err")" ''
	became 'dead|exit:7'
}

# exec_once N: an exec through the proxy; CMD is started once, and its end is on record.
exec_once() {
	rm -f ran
	jr exec -d "$proxied" "cut-$1" --lease 6s --strict -- sh -c 'echo $$ >>ran; sleep 0.3; exit 9'
	echo "$1: $status $stderr"
	assert_equal "$status" 9
	assert_equal "$stderr" ''
	assert_equal "$(wc -l <ran)" 1
	q_is 'dead|exit:9|1|1' "select status, error_code, attempts, claim_seq from jobrun.job_runs where job_type = 'cut-$1'"
}

@test "each COMMIT's answer is lost once: CMD is started once and its end is recorded" {
	cut_every_commit answer exec_once
}

@test "each COMMIT's request is lost once: CMD is started once and its end is recorded" {
	cut_every_commit request exec_once
}

@test "each COMMIT's answer hangs once: CMD is started once and its end is recorded" {
	cut_every_commit hang exec_once
}

@test "a start that is left out and finds a run of others lost says so, and has the status of what is left out" {
	handler work <<<'exit 0'
	jr_ok define line --type line
	jr_ok pause --definition line
	for strict in '' --strict; do
		id=$(waiting_run work)
		q "update jobrun.job_runs set max_attempts = 1 where id = $id"
		begin_attempt "$id"
		q "update jobrun.job_runs set locked_until = now() where id = $id"
		jr exec $strict line -- true
		assert_regex "$stderr" "run $id .*is dead"
		assert_equal "$status" "$([ -z "$strict" ] && echo 0 || echo 75)"
	done
	assert_regex "$stderr" 'line was not started: '
}
