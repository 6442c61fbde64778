#!/usr/bin/env bats
# jobrun logs, and logs -f. What a runner tells at its heartbeats is written here by hand.

load ../lib/common

setup() {
	common_setup
	typical_handlers
}

# tell ID OUTPUT [DROPPED]: what it has printed so far.
tell() {
	q "update jobrun.job_runs set output = '$2', output_dropped = ${3:-0} where id = $1"
}

# follow ID: in the background; out and err are what it prints. A shell starts those with INT ignored.
follow() {
	: >out # what an earlier one has printed is not taken for its words
	(exec env --default-signal=INT "$JOBRUN" logs -f "$1") >out 2>err 3>&- &
	is_follower $!
}

# is_follower PID: what `followed` waits for, and teardown ends.
is_follower() {
	follower=$1
	runner_pids+=("$1")
}

# followed STATUS: it has ended, with that.
followed() {
	wait_runner "$follower" 15
	assert_equal "$runner_status" "$1"
}

# follower_printed TEXT: so far, to the byte.
follower_printed() {
	printf "$1" | cmp -s - out || {
		cat out
		return 1
	}
}

@test "logs: the output of an attempt, byte for byte" {
	id=$(enqueue work '{"a":1}')
	jr_ok run
	run_jobrun logs "$id" >"$TMPDIR/log"
	printf '{"a": 1}\n done\n' >"$TMPDIR/expected"
	cmp "$TMPDIR/log" "$TMPDIR/expected"
}

@test "logs: an earlier attempt by number; what was not kept is said on stderr" {
	handler again <<<'if [ "$JOBRUN_ATTEMPT" = 1 ]; then yes | head -c 1000000; else echo short; fi; exit 1'
	id=$(enqueue again --backoff 0 --max-attempts 2)
	jr run
	jr run
	jr_ok logs "$id"
	assert_equal "$output" short
	assert_equal "$stderr" ''
	jr_ok logs "$id" --attempt 1
	assert_regex "$stderr" '^jobrun: [0-9]+ bytes in the middle were not kept$'
	jr_ok logs "$id" --attempt 1 --json
	assert_equal "$(jq -c '[.attempt, .output_dropped > 900000]' <<<"$output")" '[1,true]'
	jr logs "$id" --attempt 3
	assert_equal "$status" 1
}

@test "logs and show of a running run: what it has printed so far" {
	id=$(waiting_run)
	begin_attempt "$id"
	end_attempt "$id" failed failed 'of the first
'
	begin_attempt "$id"
	jr_ok logs "$id"
	assert_equal "$output" ''
	jr_ok show "$id"
	refute_output --partial 'output'
	tell "$id" 'so far
and' 17
	jr_ok logs "$id"
	assert_equal "$output" 'so far
and'
	assert_equal "$stderr" 'jobrun: 17 bytes in the middle were not kept'
	jr_ok logs "$id" --attempt 2
	assert_equal "$output" 'so far
and'
	jr_ok logs "$id" --attempt 1
	assert_equal "$output" 'of the first'
	jr_ok logs "$id" --json
	assert_equal "$(jq -c '[.status, .attempt, .claim_seq, .output, .output_dropped]' <<<"$output")" \
		'["running",2,2,"so far\nand",17]'
	jr_ok show "$id"
	assert_output --partial $'\noutput so far\nso far\nand'
	refute_line 'output of the last attempt'
	jr_ok show "$id" --json
	assert_equal "$(jq -c '[.output, .output_dropped, .attempt_list[0].output]' <<<"$output")" '["so far\nand",17,"of the first\n"]'
	end_attempt "$id" dead dead 'of the second'
	jr_ok show "$id"
	assert_output --partial $'\noutput of the last attempt\nof the second'
	jr_ok show "$id" --json
	assert_equal "$(jq -c '[.output, .output_dropped]' <<<"$output")" '[null,null]'
}

@test "logs --attempt: of several attempts with one number the newest" {
	id=$(waiting_run)
	begin_attempt "$id"
	end_attempt "$id" queued later 'not now'
	begin_attempt "$id"
	end_attempt "$id" dead dead 'no'
	jr_ok logs "$id" --attempt 1
	assert_equal "$output" 'no'
	jr_ok retry "$id"
	begin_attempt "$id"
	tell "$id" 'again'
	jr_ok logs "$id" --attempt 1
	assert_equal "$output" 'again'
	end_attempt "$id" dead dead 'again no'
	jr_ok logs --help
	assert_output --partial 'the newest with that number'
}

@test "logs -f prints output as it comes, byte for byte, and exits with 0 when the run has succeeded" {
	id=$(waiting_run)
	begin_attempt "$id"
	tell "$id" 'one
tw'
	follow "$id"
	wait_until 10 follower_printed 'one\ntw'
	tell "$id" 'one
two
'
	wait_until 10 follower_printed 'one\ntwo\n'
	end_attempt "$id" succeeded succeeded 'one
two
three'
	followed 0
	follower_printed 'one\ntwo\nthree'
	assert_file_empty err
}

@test "logs -f: a run that waits is waited for, and its attempts follow each other" {
	id=$(waiting_run)
	follow "$id"
	wait_until 10 q_is 1 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
	begin_attempt "$id"
	tell "$id" 'first'
	wait_until 10 follower_printed 'first'
	end_attempt "$id" failed failed 'first!
'
	wait_until 10 follower_printed 'first!\n'
	# Two attempts between two looks, one of them without output.
	q 'begin' "update jobrun.job_runs set status = 'running', claim_seq = 2, attempts = 2, runner_id = 1, locked_by = 'x',
			locked_until = now(), started_at = now() where id = $id" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($id, 2, 2, 'lost')" \
		"update jobrun.job_runs set status = 'running', claim_seq = 3, attempts = 3, output = 'third' where id = $id" 'commit'
	wait_until 10 follower_printed 'first!\nthird'
	end_attempt "$id" dead dead 'third.
' 0 'exit 65: no
such user'
	followed 1
	follower_printed 'first!\nthird.\n'
	assert_equal "$(cat err)" "-- attempt 2 of 5
-- attempt 3 of 5
jobrun: run $id is dead: exit 65: no"
}

@test "logs -f of a run that is over: its last attempt, and its status" {
	id=$(waiting_run)
	begin_attempt "$id"
	end_attempt "$id" failed failed 'first'
	begin_attempt "$id"
	end_attempt "$id" succeeded succeeded 'second'
	jr_ok logs -f "$id"
	assert_equal "$output" second
	assert_equal "$stderr" ''
	id=$(waiting_run)
	jr_ok cancel "$id"
	jr logs --follow "$id"
	assert_equal "$status" 1
	assert_equal "$output" ''
	assert_equal "$stderr" "jobrun: run $id is cancelled"
	jr logs -f 999999
	assert_equal "$status" 1
	assert_regex "$stderr" 'there is no run 999999'
}

@test "logs -f: a run that is deleted meanwhile is exit 1" {
	id=$(waiting_run)
	begin_attempt "$id"
	tell "$id" 'one'
	follow "$id"
	wait_until 10 follower_printed one
	q "delete from jobrun.job_runs where id = $id"
	followed 1
	assert_regex "$(cat err)" "there is no run $id"
}

@test "logs -f prints output longer than what is kept once, and reports a gap" {
	id=$(waiting_run)
	begin_attempt "$id"
	# As a runner keeps it: the first 16 KiB, a line, the last 48 KiB of the first N lines.
	keep() {
		seq -f 'line %g' "$1" >all
		if [ "$(wc -c <all)" -le 65536 ]; then
			cp all kept
			dropped=0
		else
			dropped=$(($(wc -c <all) - 65536))
			(head -c 16384 all && printf '\n[... %d bytes dropped ...]\n' "$dropped" && tail -c 49152 all) >kept
		fi
		q <<-sql
			\\set kept \`cat kept\`
			update jobrun.job_runs set output = :'kept' || e'\\n', output_dropped = $dropped where id = $id;
		sql
	}
	keep 6000
	follow "$id"
	for n in 6000 7000 8500 10000; do
		keep "$n"
		wait_until 10 cmp all out
	done
	assert_file_empty err
	keep 50000
	wait_until 10 test -s err
	assert_equal "$(cat err)" '-- more was printed than was kept; from the beginning:'
	wait_until 10 eval '[ "$(tail -n 1 out)" = "line 50000" ]'
	end_attempt "$id" succeeded succeeded ''
	followed 0
}

@test "logs -f says nothing of a cut connection, and exits with 75 when the database stays away" {
	own_cluster
	id=$(waiting_run)
	begin_attempt "$id"
	tell "$id" one
	follow "$id"
	wait_until 10 follower_printed one
	terminate_backends
	tell "$id" 'one two'
	wait_until 10 follower_printed 'one two'
	restart_server
	tell "$id" 'one two three'
	wait_until 20 follower_printed 'one two three'
	assert_file_empty err
	stop_server
	wait_until 60 is_gone "$follower"
	followed 75
	assert_equal "$(wc -l <err)" 1
}

@test "logs -f ends at once on INT or when its reader is gone" {
	id=$(waiting_run)
	begin_attempt "$id"
	tell "$id" one
	for sig in INT TERM; do
		follow "$id"
		wait_until 10 follower_printed one
		kill "-$sig" "$follower"
		followed $((128 + $(kill -l "$sig")))
	done
	: >out
	"$JOBRUN" logs -f "$id" 2>err 3>&- > >(head -c 3 >out) &
	is_follower $!
	wait_until 10 follower_printed one
	followed 0
	assert_file_empty err
	end_attempt "$id" succeeded succeeded ''
}

@test "logs -f on a terminal makes output visible, and shows progress and what it waits for" {
	id=$(waiting_run)
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $id"
	TERM=xterm timeout 60 script -qfec "$JOBRUN logs -f $id" /dev/null </dev/null >out 2>&1 3>&- &
	is_follower $!
	wait_until 10 grep -q "^-- run $id waits, due in" out
	begin_attempt "$id"
	q "update jobrun.job_runs set output = e'\\033]0;x\\007', progress = '{\"done\": 1}' where id = $id"
	wait_until 10 grep -qF '{"done": 1}' out
	q "update jobrun.job_runs set progress = '{\"done\": 2}' where id = $id"
	wait_until 10 grep -qF '{"done": 2}' out
	end_attempt "$id" failed failed 'x'
	begin_attempt "$id"
	end_attempt "$id" dead dead 'last'
	followed 1
	run tr -d '\r' <out
	refute_output --partial $'\033]'
	assert_line '\x1b]0;x\x07'
	assert_line -- '-- progress: {"done": 1}'
	assert_equal "$(grep -c progress out)" 2
	assert_line -- '-- attempt 2 of 5'
	assert_line last
	assert_line "jobrun: run $id is dead"
}

@test "logs -f excludes --attempt and --json" {
	for option in '--attempt 1' --json; do
		# shellcheck disable=SC2086 # words
		jr logs -f 1 $option
		assert_equal "$status" 64
		assert_equal "${#stderr_lines[@]}" 1
	done
}

@test "logs -f follows a run of a real handler" {
	handler work <<<'echo begun; until [ -e go ]; do sleep 0.05; done; echo ended'
	id=$(enqueue work)
	follow "$id"
	bg_runner --lease 60s --heartbeat 500ms
	wait_until 10 follower_printed 'begun\n'
	run_is "$id" running
	touch "$JOBRUN_HANDLERS/go"
	followed 0
	follower_printed 'begun\nended\n'
	wait_runner
}
