#!/usr/bin/env bats
# jobrun list: which runs, in which order, and how they look on a terminal.

load ../lib/common

setup() {
	common_setup
	typical_handlers
}

@test "list: newest first, failed shown as retrying, aligned" {
	one=$(enqueue work)
	two=$(enqueue again --backoff 1h)
	three=$(enqueue give_up)
	jr run
	four=$(enqueue work --in 90m)
	jr_ok list
	assert_regex "${lines[0]}" '^ *ID +TYPE +STATUS +TRY +WHEN +TOOK +DEFINITION +SLOT +MESSAGE$'
	assert_regex "${lines[1]}" "^ *$four +work +queued +0/5 +in 1h (30m|29m) +- +- +- +-"
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
		run_jobrun list --json "$@" | jq -c '.runs | map(.id)'
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
	assert_equal "$(run_jobrun list --json --status retrying | jq -r '.runs[0].status')" retrying
}

@test "list: an unknown status exits with 64 and a suggestion" {
	jr list --status runing
	assert_equal "$status" 64
	assert_regex "$stderr" 'did you mean "running"'
	jr list --status dead,,queued
	assert_equal "$status" 64
}

@test "list prints nothing when it is piped and has nothing to show" {
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
