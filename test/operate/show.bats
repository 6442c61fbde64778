#!/usr/bin/env bats
# jobrun show: all about one run.

load ../lib/common

setup() {
	common_setup
	typical_handlers
}

@test "show: fields, attempts, output of the last attempt" {
	id=$(enqueue give_up '{"to":"ada"}' --timeout 1m)
	jr run
	jr_ok show "$id"
	assert_line --regexp "^run +$id$"
	assert_line --regexp '^status +dead$'
	assert_line --regexp '^attempts +1 of 5$'
	assert_line --regexp '^timeout +1m$'
	assert_line --regexp '^error +exit 65: smtp: no such user$'
	assert_line --regexp '^payload +\{"to": "ada"\}$'
	assert_line --regexp '^ +1 dead .* exit 65: smtp: no such user$'
	assert_line 'output of the last attempt'
	assert_line 'first'
}

@test "show --json keeps numbers as they are and names every attempt" {
	id=$(enqueue again '{"n":12345678901234567890.10}' --backoff 0 --max-attempts 2)
	jr run
	jr run
	jr_ok show "$id" --json
	assert_output --partial '12345678901234567890.10'
	assert_equal "$(jq -c '[.status, .attempts, [.attempt_list[] | [.attempt, .outcome, .exit_status]]]' <<<"$output")" \
		'["dead",2,[[1,"failed",1],[2,"failed",1]]]'
}

@test "show: a plain success has its attempt too" {
	id=$(enqueue plain)
	jr_ok run
	q_is 0 "select count(*) from jobrun.job_attempts"
	jr_ok show "$id"
	assert_line --regexp '^ +1 succeeded '
	refute_line 'output of the last attempt'
}

@test "show: progress of a running run" {
	id=$(waiting_run)
	begin_attempt "$id"
	q "update jobrun.job_runs set progress = '{\"done\": 3, \"of\": 9}' where id = $id"
	jr_ok show "$id"
	assert_line --regexp '^progress +\{"of": 9, "done": 3\}$'
	jr_ok show "$id" --json
	assert_equal "$(jq -c .progress <<<"$output")" '{"of":9,"done":3}'
	end_attempt "$id" succeeded succeeded ''
}

@test "show exits with 1 for an unknown run and with 64 for what is no number" {
	for command in show logs; do
		jr "$command" 999999
		assert_equal "$status" 1
		assert_equal "$output" ''
		assert_regex "$stderr" 'there is no run 999999'
		jr "$command" 12x
		assert_equal "$status" 64
		jr "$command" 0
		assert_equal "$status" 64
	done
}

@test "show prints any payload: a word, a number, a list, and what looks like a command and is none" {
	for payload in '"word"' 3 null '[1]' '{"argv": "x"}' '{"argv": ["x"], "more": 1}'; do
		id=$(enqueue work "$payload")
		jr_ok show "$id"
		assert_line --regexp "^payload +$(sed 's/[][{}]/\\&/g' <<<"$payload")$"
	done
}

@test "show: why a waiting run waits, and no such line for one that is over" {
	over=$(enqueue work)
	jr_ok run
	waits=$(enqueue work --in 1h)
	jr_ok pause --queue mail --reason 'relay is down'
	held=$(enqueue work --queue mail)
	jr_ok show "$waits"
	assert_line --regexp '^why +waits: due [0-9-]+T[0-9:]+Z$'
	jr_ok show "$held"
	assert_line --regexp '^why +.*queue mail is paused.*relay is down$'
	assert_line --regexp '^try +jobrun resume --queue mail$'
	jr_ok show "$over"
	refute_line --regexp '^(why|try) '
	# On a terminal words are wrapped below each other; what may be copied is not.
	q "update jobrun.job_runs set last_error = 'connect to db.example.org: timed out, and nobody answers' where id = $held"
	on_terminal 60 show --no-pager "$held" | sed 's/\r$//; s/ *$//' >screen
	assert_equal "$(grep -A2 '^why' screen)" "$(printf '%-15s  %s\n' why 'never starts unless somebody acts: queue' '' 'mail is paused by jobrun until resumed:' '' 'relay is down')"
	assert_equal "$(grep -A1 '^error' screen)" "$(printf '%-15s  %s\n' error 'connect to db.example.org: timed out, and' '' 'nobody answers')"
	q "update jobrun.job_runs set last_error = E'one\ntwo' where id = $held"
	jr_ok show "$held"
	assert_equal "$(grep -A2 '^error' <<<"$output")" $'error\n  one\n  two'
}
