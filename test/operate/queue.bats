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
	assert_equal "$(jq -c '[.queues[] | [.name, .running, .waiting, .max_running, .max_running_per_key]]' <<<"$output")" \
		'[["default",1,0,null,1],["limited",0,0,0,1],["other",0,1,null,1]]'
	jr_ok queue other --json
	assert_equal "$(jq -r '.queues[].name' <<<"$output")" other
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
	assert_equal "$(jq -c '.queues[] | [.name, .max_running]' <<<"$output")" '["new",7]'
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

@test "queue --remove forgets limits and pause, and the runs of the queue go on without them" {
	handler work <<<'exit 0'
	jr_ok queue mail --max-running 0 --rate 5/1h
	jr_ok pause --queue mail --reason 'the relay is down'
	id=$(enqueue work -q mail)
	jr_ok run
	run_is "$id" queued
	jr_ok queue mail --remove -n
	assert_equal "$output$stderr" 'queue mail: would be removed'
	q_is 1 'select count(*) from jobrun.job_queues'
	jr_ok queue mail --remove --reason 'a better relay'
	assert_equal "$output$stderr" 'queue mail: removed'
	q_is 0 'select count(*) from jobrun.job_queues'
	q_is 'a better relay|0|the relay is down|' \
		"select reason, old ->> 'max_running', old ->> 'paused_reason', new from jobrun.job_audit where action = 'remove_queue'"
	jr_ok run
	run_is "$id" succeeded
	jr queue mail --remove
	assert_equal "$status|$output|$stderr" '1||jobrun: queue mail has no limits and no pause to remove'
	jr queue mail --remove --rate none
	assert_equal "$status" 64
	jr queue --remove
	assert_equal "$status" 64
}

@test "queue --remove keeps one run per lock key, if runs or definitions have keys or are just being enqueued with one" {
	waiting_handler work
	enqueue work -q mail --lock ann
	enqueue work -q mail --lock ann
	jr_ok queue mail --max-running 5 --per-key 2
	jr_ok queue mail --remove
	assert_equal "$output" 'queue mail: without limits, but for one run per lock key at a time: runs or definitions in it have lock keys'
	q_is '||1|' 'select max_running, rate_limit, max_running_per_key, paused_until from jobrun.job_queues'
	bg_runner -j 4
	wait_until 10 running_are 1
	jr_ok queue mail --remove
	q_is 1 'select count(*) from jobrun.job_queues'
	touch "$TMPDIR/go"
	wait_runner
	jr_ok queue mail --remove
	assert_equal "$output" 'queue mail: removed'
	# A run is brought back by people, and one is enqueued: each makes the row again.
	jr_ok retry --force 1
	q_is 1 'select count(*) from jobrun.job_queues'
	jr_ok run
	# While a transaction with a lock key is open, nobody can remove the queue.
	q 'begin' "select jobrun.enqueue('work', queue => 'mail', concurrency_key => 'bob')" \
		"select pg_sleep(0)" "\\! '$JOBRUN' queue mail --remove 2>'$TMPDIR/refused'; echo \$? >>'$TMPDIR/refused'" 'commit'
	assert_equal "$(tail -n 1 "$TMPDIR/refused")" 75
	assert_regex "$(cat "$TMPDIR/refused")" 'has enqueued a run with a lock key into queue "mail" is still open'
	q_is 1 'select count(*) from jobrun.job_queues'
	jr_ok define nightly --type work --schedule @daily --queue night --lock disk
	jr_ok queue night --remove
	assert_regex "$output" 'but for one run per lock key'
	# What only others enqueue, too: an alarm must not wait for the row.
	jr_ok define page --type work --queue pager --lock disk
	jr_ok queue pager --remove
	assert_regex "$output" 'but for one run per lock key'
}

@test "an enqueue with a lock key waits for no open change of its queue, in any isolation level" {
	local level

	jr_ok queue mail --max-running 5
	hold "set lock_timeout = '5s'; select jobrun.pause(queue => 'mail', duration => '1 hour')"
	for level in 'read committed' 'repeatable read' serializable; do
		run q "begin isolation level $level" "set local lock_timeout = '100ms'" \
			"select jobrun.enqueue('work', queue => 'mail', concurrency_key => 'ann')" 'commit'
		assert_success
	done
	release_holds
	# A change since the snapshot is no reason to try again, and leaves no dead row behind.
	q 'begin isolation level repeatable read' 'select 1' "\\! '$JOBRUN' queue mail --max-running 6" \
		"select jobrun.enqueue('work', queue => 'mail', concurrency_key => 'bob')" 'commit'
	q_is '4 6' "select (select count(*) from jobrun.job_runs) || ' ' || max_running from jobrun.job_queues"
}

@test "a foreign advisory lock keeps nobody from a queue that is there" {
	jr_ok queue mail --max-running 5
	hold "select pg_advisory_lock(1785684593, hashtext('mail')), pg_advisory_lock(1785684593, hashtext('new'))"
	enqueue work -q mail --lock ann
	# Whoever removes the queue now waits until that run is committed.
	q 'begin' "select jobrun.enqueue('work', queue => 'mail', concurrency_key => 'bob')" \
		"\\! '$JOBRUN' queue mail --remove 2>'$TMPDIR/refused'; echo \$? >>'$TMPDIR/refused'" 'commit'
	assert_equal "$(tail -n 1 "$TMPDIR/refused")" 75
	run q "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'ann')"
	assert_output --partial 'queue "new" is being removed; try again'
	q_is 'mail 2' "select string_agg(q.name || ' ' || (select count(*) from jobrun.job_runs), '') from jobrun.job_queues q"
}

@test "remove_queue refuses any isolation level but READ COMMITTED" {
	local level

	jr_ok queue mail --max-running 5
	for level in 'repeatable read' serializable; do
		run q "begin isolation level $level" "select jobrun.remove_queue('mail')"
		assert_output --partial 'jobrun.remove_queue needs READ COMMITTED'
	done
	q_is 1 'select count(*) from jobrun.job_queues'
	q_is removed "select jobrun.remove_queue('mail')"
}

# behind_removal COMMAND...: jobrun, which waits for the row of queue mail behind one who is about to remove it.
behind_removal() {
	jr_ok queue mail --max-running 5
	hold "select from jobrun.job_queues for update"
	client "select jobrun.remove_queue('mail')"
	wait_until 10 waiting_for_lock 1
	bg_jobrun "$@"
	wait_until 10 waiting_for_lock 2
	release_holds
	wait_runner
	end_client
	assert_equal "$(<"$TMPDIR/client")|$(<"$runner_err")|$runner_status" 'removed||0'
}

@test "who waits while a queue is removed pauses and limits it all the same" {
	behind_removal pause --queue mail --reason 'the relay is down'
	q_is 'mail||infinity|the relay is down' 'select name, max_running, paused_until, paused_reason from jobrun.job_queues'
	behind_removal queue mail --rate 3/1h
	q_is 'mail||3|' 'select name, max_running, rate_limit, paused_until from jobrun.job_queues'
	behind_removal resume --queue mail
	assert_regex "$(<"$runner_out")" 'not paused'
	q_is '' 'select name from jobrun.job_queues'
}
