#!/usr/bin/env bats
# jobrun queue: what it sets, shows and refuses. That limits hold is in run/limits.bats.

load ../lib/common

@test "queue sets what is named and nothing else, and lists it" {
	jr_ok queue mail --max-running 5
	assert_line --index 0 --regexp '^NAME +RUNNING +WAITING +MAX +PER KEY +RATE +PAUSED$'
	assert_line --index 1 --regexp '^mail +0 +0 +5 +1 +- +-$'
	jr_ok queue mail --rate 100/1m --reason 'the relay allows no more'
	assert_line --index 1 --regexp '^mail +0 +0 +5 +1 +100/1m, used 0 +-$'
	jr_ok queue mail --per-key none --max-running none
	assert_line --index 1 --regexp '^mail +0 +0 +- +- +100/1m, used 0 +-$'
	q_is '||100|00:01:00' 'select max_running, max_running_per_key, rate_limit, rate_period from jobrun.job_queues'
	jr_ok queue mail --rate none
	q_is '|' 'select rate_limit, rate_period from jobrun.job_queues'
	jr_ok queue mail --rate 5/s
	q_is '5|00:00:01' 'select rate_limit, rate_period from jobrun.job_queues'
	jr_ok queue mail --rate 1000/1d12h
	q_is '1000|36:00:00' 'select rate_limit, rate_period from jobrun.job_queues'
	q_is 'the relay allows no more|{"rate_limit": null, "rate_period": null}|{"rate_limit": 100, "rate_period": "00:01:00"}' \
		"select reason, old, new from jobrun.job_audit where object = 'queue mail' and reason is not null"
	q_is 6 "select count(*) from jobrun.job_audit where object = 'queue mail' and who = session_user"
}

@test "queue lists queues with a row and those that unfinished runs are in" {
	jr_ok queue
	assert_equal "$output" ''
	waiting_handler work
	enqueue work
	enqueue work -q other --in 1h
	id=$(enqueue work -q gone)
	jr_ok cancel "$id"
	bg_runner
	wait_until 10 running_are 1
	jr_ok queue limited --max-running 0
	jr_ok queue
	assert_equal "${#lines[@]}" 4
	assert_line --regexp '^default +1 +0 +- +1 +- +-$'
	assert_line --regexp '^limited +0 +0 +0 +1 +- +-$'
	assert_line --regexp '^other +0 +1 +- +1 +- +-$'
	jr_ok queue --json
	assert_equal "$(jq -c '[.[] | [.name, .running, .waiting, .max_running, .max_running_per_key]]' <<<"$output")" \
		'[["default",1,0,null,1],["limited",0,0,0,1],["other",0,1,null,1]]'
	jr_ok queue other --json
	assert_equal "$(jq -r '.[].name' <<<"$output")" other
	jr queue gone
	assert_equal "$status" 1
	assert_equal "$stderr" 'jobrun: queue gone has no limits, and no run is in it'
	touch "$TMPDIR/go"
	wait_runner
}

@test "queue -n shows what would change and changes nothing" {
	jr_ok queue mail --max-running 5
	jr_ok queue mail --max-running 7 --rate 3/1s -n
	assert_line --index 0 'would be:'
	assert_line --index 2 --regexp '^mail +0 +0 +7 +1 +3/1s, used 0 +-$'
	q_is '5|' 'select max_running, rate_limit from jobrun.job_queues'
	jr_ok queue new --max-running 7 -n --json
	assert_equal "$(jq -c '.[] | [.name, .max_running]' <<<"$output")" '["new",7]'
	q_is 1 'select count(*) from jobrun.job_queues'
}

@test "queue: an invalid limit exits with 64 and what to write" {
	for words in '--max-running -1' '--max-running many' '--max-running 1.5' '--per-key' '--rate 100' '--rate /1m' '--rate 100/' \
		'--rate 100/0' '--rate 100/1000' '--rate -1/1m' '--rate 100/1y' '--rate 1/400d' '--max-running 99999999999999999999'; do
		# shellcheck disable=SC2086 # words
		jr queue mail $words
		assert_equal "$status" 64
		assert_equal "${#stderr_lines[@]}" 1
	done
	jr queue mail --rate 100
	assert_equal "$stderr" 'jobrun: --rate: "100" is not N/PERIOD; write it like 100/1m, or none'
	jr queue --max-running 3
	assert_equal "$status" 64
	assert_regex "$stderr" 'which queue\?'
	jr queue Mail --max-running 3
	assert_equal "$status" 64
	jr queue mail --reason why
	assert_equal "$status" 64
	q_is 0 'select count(*) from jobrun.job_queues'
}
