#!/usr/bin/env bats
# The commands that look: status, list, show, logs.

load ../lib/common

setup() {
	common_setup
	handler work <<<'cat; echo " done"'
	handler plain <<<'cat >/dev/null'
	handler give_up <<<'echo first; echo "smtp: no such user" >&2; exit 65'
	handler again <<<'echo broken; exit 1'
}

# on_terminal WIDTH ARGUMENT...: what jobrun prints on a terminal, stdout and stderr together.
on_terminal() {
	local width=$1

	shift
	TERM=xterm timeout 20 script -qec "stty cols $width; $(printf '%q ' "$JOBRUN" "$@")" /dev/null </dev/null | tr -d '\r'
}

@test "list: newest first, failed shown as retrying, aligned" {
	one=$(enqueue work)
	two=$(enqueue again --backoff 1h)
	three=$(enqueue give_up)
	jr run
	four=$(enqueue work --in 90m)
	jr_ok list
	assert_regex "${lines[0]}" '^ *ID +TYPE +STATUS +TRY +WHEN +TOOK +MESSAGE$'
	assert_regex "${lines[1]}" "^ *$four +work +queued +0/5 +in 1h (30m|29m) +- +-"
	assert_regex "${lines[2]}" "^ *$three +give_up +dead +1/5 .* exit 65: smtp: no such user$"
	assert_regex "${lines[3]}" "^ *$two +again +retrying +1/5 +in [0-9]+m .* exit 1: broken$"
	assert_regex "${lines[4]}" "^ *$one +work +succeeded +1/5 "
	assert_equal "${#lines[@]}" 5
}

@test "list: filters by status, type, queue, age and number, in any branch" {
	work=$(enqueue work)
	again=$(enqueue again --backoff 1h)
	dead=$(enqueue give_up)
	jr run
	gone=$(enqueue work --queue slow)
	jr_ok cancel "$gone"
	queued=$(enqueue work --queue slow)
	q "update jobrun.job_runs set created_at = now() - interval '3 hours', finished_at = now() - interval '2 hours' where id = $work"
	q "update jobrun.job_runs set created_at = now() - interval '3 hours' where id = $dead"
	q "update jobrun.job_runs set created_at = now() - interval '3 hours' where id = $again"
	ids() {
		run_jobrun list --json "$@" | jq -c 'map(.id)'
	}
	assert_equal "$(ids)" "[$queued,$gone,$dead,$again,$work]"
	assert_equal "$(ids --limit 2)" "[$queued,$gone]"
	assert_equal "$(ids --status retrying)" "[$again]"
	assert_equal "$(ids --status failed,dead)" "[$dead,$again]"
	assert_equal "$(ids -s succeeded -s cancelled -s queued)" "[$queued,$gone,$work]"
	assert_equal "$(ids --status running)" '[]'
	assert_equal "$(ids --type work,again --limit 3)" "[$queued,$gone,$again]"
	assert_equal "$(ids --queue slow --status queued)" "[$queued]"
	assert_equal "$(ids --since 1h)" "[$queued,$gone,$dead]" # ended within the hour, or waiting and enqueued in it
	assert_equal "$(ids --since 150m --type work)" "[$queued,$gone,$work]"
	assert_equal "$(ids --since 1h --status dead,retrying,succeeded)" "[$dead]"
	assert_equal "$(run_jobrun list --json --status retrying | jq -r '.[0].status')" failed
}

@test "list: a word that is no status is exit 64 with a suggestion" {
	jr list --status runing
	assert_equal "$status" 64
	assert_regex "$stderr" 'did you mean "running"'
	jr list --status dead,,queued
	assert_equal "$status" 64
}

@test "list: nothing to show is no output when piped" {
	jr_ok list
	assert_equal "$output" ''
}

@test "on a terminal the message is cut to its width and hostile text is harmless" {
	handler evil <<<"printf '\\033]0;owned\\007\\302\\233 %0200d' 1; exit 65"
	id=$(enqueue evil)
	jr run
	run on_terminal 80 list
	assert_line --partial 'evil'
	refute_output --partial $'\033]'
	while read -r line; do
		line=$(sed 's/\x1b\[[0-9;]*m//g' <<<"$line")
		[ "${#line}" -le 80 ] || fail "too long: $line"
	done <<<"$output"
	run on_terminal 80 logs "$id"
	refute_output --partial $'\033]'
	assert_output --partial '\x1b]0;owned\x07'
	run on_terminal 80 show "$id"
	refute_output --partial $'\033]'
	# Not on a terminal: bytes as they were kept.
	jr_ok logs "$id"
	assert_output --partial $'\033]0;owned\007'
}

@test "colours only on a terminal, and not with NO_COLOR" {
	id=$(enqueue give_up)
	jr run
	run on_terminal 120 list
	assert_output --partial $'\033['
	NO_COLOR=1 run on_terminal 120 list
	refute_output --partial $'\033['
	jr_ok list
	refute_output --partial $'\033['
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

@test "no such run is exit 1, no number exit 64" {
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

@test "status: a line for each job type and what needs a look" {
	enqueue work
	enqueue again --backoff 1h
	enqueue give_up
	jr run
	enqueue work --in 1h
	enqueue other
	jr_ok status
	assert_regex "${lines[0]}" "^jobrun .*, database $JR_DATABASE \(PostgreSQL [0-9.]+\), schema [0-9]+, last runner seen .* on .*, 0 running$"
	assert_regex "${lines[1]}" '^TYPE +QUEUED +RETRYING +RUNNING +DEAD +DONE 24H +OLDEST DUE +LAST OK$'
	assert_line --regexp '^again +0 +1 +0 +0 +0 +- +-$'
	assert_line --regexp '^give_up +0 +0 +0 +1 +0 +- +-$'
	assert_line --regexp '^other +1 +0 +0 +0 +0 +[0-9]+m?s +-$'
	assert_line --regexp '^work +1 +0 +0 +0 +1 +- +(now|[0-9]+s ago)$'
	assert_line '! give_up: 1 dead in 24h (jobrun list --status dead --type give_up)'
	jr_ok status work
	refute_line --partial give_up
	jr_ok status --json
	assert_equal "$(jq -c '[.types[] | [.job_type, .queued, .dead]]' <<<"$output")" \
		'[["again",0,0],["give_up",0,1],["other",1,0],["work",1,0]]'
	assert_equal "$(jq -c '[.problems[] | [.about, .problem]]' <<<"$output")" '[["give_up","dead"]]'
}

@test "status: runs that nobody can run, or that nobody comes for, are named" {
	q "select jobrun.enqueue('resize')" >/dev/null
	enqueue work
	jr_ok run
	enqueue work
	q "update jobrun.job_runs set run_at = now() - interval '1 hour' where status = 'queued'"
	q "update jobrun.job_runners set last_seen_at = now() - interval '30 minutes', started_at = now() - interval '30 minutes',
		finished_at = now() - interval '30 minutes'"
	jr_ok status
	assert_line --partial '! resize: 1 due, and no runner of the last 24h has this type'
	assert_line --partial 'jobrun handlers says what this host has, and what is wrong)'
	assert_line --partial '! work: 1 due for more than 5 minutes, and no runner has been seen in that time'
}

@test "status of a type that has nothing to show is exit 1, what there is of others is shown" {
	enqueue work
	jr status wrok
	assert_equal "$status" 1
	assert_equal "${#lines[@]}" 1
	assert_equal "$stderr" "jobrun: no runs of type wrok in the last 24h; 'jobrun list --type wrok' has older ones"
	jr status wrok work other
	assert_equal "$status" 1
	assert_line --regexp '^work +1 '
	assert_equal "${#stderr_lines[@]}" 2
	jr status wrok --json
	assert_equal "$status" 1
	assert_equal "$(jq -c .types <<<"$output")" '[]'
}

@test "status of an empty database" {
	jr_ok status
	assert_regex "$output" ', no runner yet, 0 running$'
	assert_equal "${#lines[@]}" 1
	jr_ok status --json
	assert_equal "$(jq -c '[.types, .problems]' <<<"$output")" '[[],[]]'
}
