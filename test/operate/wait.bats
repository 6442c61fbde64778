#!/usr/bin/env bats
# jobrun wait and jobrun enqueue --wait: until it is over, then the result.

load ../lib/common

# end ID STATUS [RESULT [ERROR]]: what a runner would write.
end() {
	q "update jobrun.job_runs set status = '$2', claim_seq = 3, attempts = 3, finished_at = now(),
		result = nullif('${3:-}', '')::jsonb, last_error = nullif('${4:-}', '') where id = $1" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome)
		select $1, n, n, case when n < 3 then 'failed' else '$2' end from generate_series(1, 3) n where n < 3 or '$2' <> 'succeeded'"
}

# waiting ARGUMENT...: in the background; out and err are what it prints. It has looked at least once. It has its own application name,
# since sessions of an earlier one, and of a pooler, may still be there.
waiting() {
	local name=waiter_${#runner_pids[@]}

	(exec env --default-signal=INT PGAPPNAME="$name" "$JOBRUN" "$@") >out 2>err 3>&- 4>&- &
	waiter=$!
	runner_pids+=("$waiter") # teardown ends it
	wait_until 10 q_is t "select count(*) > 0 from pg_stat_activity
		where datname = current_database() and application_name = '$name' and query ~ 'run_status|commit'"
}

# ended_with STATUS
ended_with() {
	wait_runner "$waiter" 15
	assert_equal "$runner_status" "$1"
}

@test "wait exits with 0 when all have succeeded, and prints their results in the order of the ids" {
	a=$(enqueue work) b=$(enqueue work) c=$(enqueue work)
	end "$a" succeeded '{"rows":  1}'
	end "$b" succeeded
	end "$c" succeeded '[2]'
	jr_ok wait "$c" "$b" "$a"
	assert_equal "$output" $'[2]\n{"rows": 1}'
	assert_equal "$stderr" ''
	jr_ok wait --json "$c" "$b" "$a"
	assert_equal "$(jq -c '[.runs[] | [.id, .job_type, .status, .attempts, .max_attempts, .result]]' <<<"$output")" \
		"[[$c,\"work\",\"succeeded\",3,5,[2]],[$b,\"work\",\"succeeded\",3,5,null],[$a,\"work\",\"succeeded\",3,5,{\"rows\":1}]]"
}

@test "wait exits with 1 and a line for each run that is dead, cancelled or unknown, and still prints the other results" {
	a=$(enqueue work) b=$(enqueue send_mail) c=$(enqueue work) d=$(enqueue work)
	end "$a" succeeded '{"rows":1}'
	end "$b" dead '' $'no such user\nTraceback'
	jr_ok cancel "$c"
	end "$d" dead
	jr wait "$a" "$b" "$c" "$d" 999999
	assert_equal "$status" 1
	assert_equal "$output" '{"rows": 1}'
	assert_equal "$stderr" "jobrun: run $b (send_mail) is dead after 3 of 5 attempts: no such user; look with jobrun logs $b
jobrun: run $c (work) is cancelled
jobrun: run $d (work) is dead after 3 of 5 attempts; look with jobrun logs $d
jobrun: there is no run 999999 that you may see"
	jr wait --json "$b" 999999
	assert_equal "$status" 1
	assert_equal "$(jq -c '[.runs[] | [.id, .status, .error]]' <<<"$output")" \
		"[[$b,\"dead\",\"no such user\\nTraceback\"],[999999,null,null]]"
	# Where both go to one place the lines stand behind the document.
	"$JOBRUN" wait --json "$b" 999999 >both 2>&1 || true
	assert_equal "$(head -n -2 both | jq -c '.runs | map(.id)')" "[$b,999999]"
}

@test "wait exits with 75 when its time is over, and --timeout 0 looks once" {
	a=$(enqueue work) b=$(enqueue work)
	end "$a" succeeded '{"rows":1}'
	jr wait --timeout 0 "$a" "$b"
	assert_equal "$status" 75
	assert_equal "$output" '{"rows": 1}'
	assert_equal "$stderr" "jobrun: 1 of 2 runs is not over after 0s; one is run $b (work), which is queued"
	jr wait --timeout 300ms "$b"
	assert_equal "$status" 75
	assert_equal "$stderr" "jobrun: run $b (work) is not over after 300ms: it is queued"
	jr_ok wait --timeout 0 "$a"
}

@test "wait with wrong arguments exits with 64" {
	for arguments in '' x 0 -1 '1 2 x' '--timeout 5 1'; do
		# shellcheck disable=SC2086 # words
		jr wait $arguments
		assert_equal "$status" 64
		assert_equal "$output" ''
	done
	# shellcheck disable=SC2046
	jr wait $(seq 10001)
	assert_equal "$status" 64
	assert_regex "$stderr" '10001 ids; at most 10000'
	# shellcheck disable=SC2046
	jr wait --json $(seq 10000)
	assert_equal "$status" 1
	assert_equal "$(jq '.runs | length' <<<"$output")" 10000
}

@test "wait ends soon after the run has ended" {
	id=$(enqueue work)
	waiting wait "$id"
	end "$id" succeeded '"done"'
	ended_with 0
	assert_equal "$(cat out)" '"done"'
	assert_file_empty err
}

@test "wait goes on while a run is tried again" {
	id=$(enqueue work)
	q "update jobrun.job_runs set status = 'failed', claim_seq = 1, attempts = 1 where id = $id" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($id, 1, 1, 'failed')"
	jr wait --timeout 0 "$id"
	assert_equal "$status" 75
	assert_regex "$stderr" 'it is retrying'
}

@test "wait says nothing of a cut connection, and exits with 75 when the database stays away" {
	own_cluster
	id=$(enqueue work)
	waiting wait "$id"
	terminate_backends
	restart_server
	end "$id" succeeded '1'
	ended_with 0
	assert_file_empty err
	id=$(enqueue work)
	waiting wait "$id" --timeout 6s
	stop_server
	ended_with 75
	assert_equal "$(wc -l <err)" 1
	JR_TIMEOUT=60 jr wait "$id"
	assert_equal "$status" 75
	assert_equal "${#stderr_lines[@]}" 1
}

@test "enqueue --wait names the run when the database goes away behind the commit" {
	own_cluster
	waiting enqueue work --wait --wait-timeout 4s
	stop_server
	ended_with 75
	assert_file_empty out
	assert_equal "$(wc -l <err)" 1
	assert_regex "$(cat err)" '^jobrun: run 1 was queued, and how it ends is not known \(jobrun wait 1\): .'
}

@test "INT and TERM end wait" {
	id=$(enqueue work)
	for sig in INT TERM; do
		waiting wait "$id"
		kill "-$sig" "$waiter"
		ended_with $((128 + $(kill -l "$sig")))
	done
}

@test "enqueue --wait prints the result and nothing else" {
	handler add <<'sh'
read -r payload
echo "{\"result\": $(($(jq .a <<-end
	$payload
	end
) + 1))}" >>"$JOBRUN_OUT"
sh
	handler fail <<<'echo "no luck" >&2; exit 65'
	"$JOBRUN" enqueue add '{"a":41}' --wait >out 2>err 3>&- 4>&- &
	waiter=$!
	runner_pids+=("$waiter") # teardown ends it
	wait_until 10 q_is 1 'select count(*) from jobrun.job_runs'
	jr_ok run
	ended_with 0
	assert_equal "$(cat out)" 42
	assert_file_empty err
	"$JOBRUN" enqueue fail --wait --json >out 2>err 3>&- 4>&- &
	waiter=$!
	runner_pids+=("$waiter") # teardown ends it
	wait_until 10 q_is 2 'select count(*) from jobrun.job_runs'
	jr run
	ended_with 1
	assert_equal "$(jq -c '[.job_type, .status]' out)" '["fail","dead"]'
	assert_regex "$(cat err)" '^jobrun: run [0-9]+ \(fail\) is dead after 1 of 5 attempts: .*no luck.*; look with jobrun logs [0-9]+$'
	jr enqueue add --wait --wait-timeout 0
	assert_equal "$status" 75
	assert_equal "$output" ''
	jr_ok enqueue -n add --wait
	assert_equal "$output" 'would queue add: queue default, priority 100, due now'
}

@test "enqueue --wait of a run that was there already: its result; with --strict exit 1" {
	id=$(enqueue work -k once)
	end "$id" succeeded '{"rows":7}'
	jr_ok enqueue work -k once --wait
	assert_equal "$output" '{"rows": 7}'
	jr enqueue work -k once --wait --strict
	assert_equal "$status" 1
	assert_equal "$output" '{"rows": 7}'
	assert_equal "$stderr" "jobrun: run $id was there already: it is succeeded"
}

@test "enqueue --wait on a terminal says the id on stderr" {
	id=$(enqueue work -k once)
	end "$id" succeeded 7
	TERM=xterm run script -qec "$JOBRUN enqueue work -k once --wait 2>&1 >out" /dev/null
	assert_equal "$status" 0
	assert_output --partial "run $id"
	assert_equal "$(cat out)" 7
}

@test "wait shows a role that may enqueue its own results only, and a reader none" {
	role=app_$JR_DATABASE
	make_role "$role"
	q "select jobrun.add_grant('enqueue', '$role')" >/dev/null
	other=$(enqueue work)
	own=$("$JOBRUN" enqueue -d "$(url_of "$role")" work)
	end "$own" succeeded '"secret"'
	end "$other" succeeded '"secret"'
	jr wait -d "$(url_of "$role")" "$own" "$other"
	assert_equal "$status" 1
	assert_equal "$output" '"secret"'
	assert_equal "$stderr" "jobrun: there is no run $other that you may see"
	q "select jobrun.drop_grant('enqueue', '$role')" "select jobrun.add_grant('read', '$role')" >/dev/null
	jr wait -d "$(url_of "$role")" "$other"
	assert_equal "$status" 0
	assert_equal "$output" ''
}

@test "wait makes a result visible on a terminal, and prints it unchanged elsewhere" {
	id=$(enqueue work)
	q "update jobrun.job_runs set status = 'succeeded', finished_at = now(), result = '\"\\u009b2J\"' where id = $id"
	jr_ok wait "$id"
	assert_output $'"\xc2\x9b2J"'
	run on_terminal 80 wait "$id"
	assert_output --partial '"\u009b2J"'
}
