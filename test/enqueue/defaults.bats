#!/usr/bin/env bats
# A definition named like a job type gives its values to every run of that type, however it is enqueued. Per value: argument,
# definition, NAME.json (timeout, grace), built-in.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	q "select jobrun.define('mail', '{\"payload\": {\"from\": \"definition\"}, \"queue\": \"slow\", \"priority\": 7, \"max_attempts\": 3,
		\"timeout\": \"90s\", \"backoff_base\": \"2s\", \"backoff_cap\": \"1m\", \"concurrency_key\": \"one\", \"on_dead\": \"alarm\"}')" >/dev/null
}

given='queue, priority, max_attempts, timeout, backoff_base, backoff_cap, concurrency_key, payload'
defined='slow|7|3|00:01:30|00:00:02|00:01:00|one|{"from": "definition"}'
built_in='default|100|5|||||{}'

# are EXPECTED [CONDITION]: all runs, or those, have these values; there must be some.
are() {
	q_is "$1" "select distinct $given from jobrun.job_runs where ${2:-true}"
}

# --- every way in ---

@test "the enqueue command and the enqueue functions take the defaults of the definition" {
	enqueue mail
	q "select jobrun.enqueue('mail')" "select jobrun.enqueue_run('mail')" >/dev/null
	are "$defined"
	q_is 3 "select count(*) from jobrun.job_runs where definition_id is null and slot is null"
}

@test "--batch, --per-run, enqueue_many and new_runs take the defaults of the definition" {
	printf '{"n":1}\n{"n":2}\n' >payloads
	jr_ok enqueue mail --batch payloads
	q "select jobrun.enqueue_many('mail', array['{\"n\":3}', '{\"n\":4}']::jsonb[])" \
		"insert into jobrun.new_runs (job_type, payload) values ('mail', '{\"n\":5}')" >/dev/null
	q <<<$'copy jobrun.new_runs (job_type, payload) from stdin;\nmail\t{"n":6}\n\\.'
	q_is 6 "select count(distinct payload) from jobrun.job_runs"
	q_is 'slow|7|3|00:01:30|00:00:02|00:01:00|one' "select distinct queue, priority, max_attempts, timeout, backoff_base, backoff_cap, concurrency_key
		from jobrun.job_runs"
	q 'truncate jobrun.job_runs'
	# Without a payload it is the definition's.
	printf '{}\n{"idempotency_key": "k"}\n' | run_jobrun enqueue mail --batch - --per-run
	q "select jobrun.enqueue_many('mail', array[null]::jsonb[])" "insert into jobrun.new_runs (job_type) values ('mail')" >/dev/null
	are "$defined"
	q_is 4 'select count(*) from jobrun.job_runs'
}

@test "what a program or a statement enqueues inside a handler has the defaults of its definition" {
	handler outer <<<'jobrun enqueue mail >/dev/null'
	sql_handler inner <<<"select jobrun.enqueue('mail')"
	enqueue outer
	enqueue inner
	PATH=$(dirname "$JOBRUN"):$PATH jr_ok run -t outer,inner
	are "$defined" "job_type = 'mail'"
	q_is 2 "select count(*) from jobrun.job_runs where job_type = 'mail' and parent_id is not null"
}

@test "an alarm has the values of its own type" {
	q "select jobrun.define('alarm', '{\"queue\": \"alarms\", \"priority\": -5}')" >/dev/null
	handler mail <<<'exit 65'
	id=$(enqueue mail)
	jr run -t mail
	run_is "$id" dead
	q_is "alarms|-5|$id" "select queue, priority, parent_id from jobrun.job_runs where job_type = 'alarm'"
}

@test "types without a definition, and one whose definition is removed, have the built-in values" {
	enqueue post
	are "$built_in"
	q "select jobrun.undefine('mail')" 'truncate jobrun.job_runs' >/dev/null
	enqueue mail
	are "$built_in"
}

@test "a definition with another name gives no defaults to its job type" {
	q "select jobrun.define('nightly', '{\"job_type\": \"post\", \"queue\": \"night\", \"priority\": 1}')" >/dev/null
	enqueue post
	are "$built_in"
}

@test "a run of a definition has its values, and where it has none those of the definition named like its type" {
	q "select jobrun.define('nightly', '{\"job_type\": \"mail\", \"queue\": \"night\", \"max_attempts\": 9}')" >/dev/null
	enqueue --definition nightly
	are 'night|7|9|00:01:30|00:00:02|00:01:00|one|{"from": "definition"}'
}

@test "a disabled or paused definition still gives its values" {
	q "select jobrun.define('mail', '{\"enabled\": false}')" "select jobrun.pause(definition => 'mail')" >/dev/null
	enqueue mail
	are "$defined"
}

@test "queued runs keep their values when the definition changes" {
	enqueue mail
	q "select jobrun.define('mail', '{\"queue\": \"other\", \"priority\": null}')" >/dev/null
	are "$defined"
	q 'truncate jobrun.job_runs'
	enqueue mail
	are "other|100${defined#slow|7}"
}

# --- precedence ---

@test "an argument overrides the definition, value by value" {
	values=(-q fast -p 1 --max-attempts 1 --timeout 1m --backoff '1s,2s' --lock two)
	enqueue mail '{"from": "argument"}' "${values[@]}"
	echo '{"from": "argument"}' | run_jobrun enqueue mail --batch - "${values[@]}"
	echo '{"payload": {"from": "argument"}, "queue": "fast", "priority": 1, "max_attempts": 1, "timeout": "1m", "backoff_base": "1s",
		"backoff_cap": "2s", "concurrency_key": "two"}' | tr -d '\n' | run_jobrun enqueue mail --batch - --per-run
	q "select jobrun.enqueue('mail', '{\"from\": \"argument\"}', queue => 'fast', priority => 1, max_attempts => 1, timeout => '1m',
			backoff_base => '1s', backoff_cap => '2s', concurrency_key => 'two')" \
		"select jobrun.enqueue_many('mail', array['{\"from\": \"argument\"}']::jsonb[], queue => 'fast', priority => 1, max_attempts => 1,
			timeout => '1m', backoff_base => '1s', backoff_cap => '2s', concurrency_key => 'two')" >/dev/null
	are 'fast|1|1|00:01:00|00:00:01|00:00:02|two|{"from": "argument"}'
	q_is 5 'select count(*) from jobrun.job_runs'

	for value in 'q fast queue fast' 'p 1 priority 1' '-max-attempts 1 max_attempts 1' '-timeout 0 timeout 00:00:00' \
		'-backoff 1s backoff_base 00:00:01' '-lock two concurrency_key two'; do
		q 'truncate jobrun.job_runs'
		read -r option argument column expected <<<"$value"
		id=$(enqueue mail "-$option" "$argument")
		assert_equal "$column: $(field "$id" "$column")" "$column: $expected"
		q_is 6 "select (queue = 'slow')::integer + (priority = 7)::integer + (max_attempts = 3)::integer + (timeout = '90s')::integer
			+ (backoff_base = '2s')::integer + (backoff_cap = '1m')::integer + (concurrency_key = 'one')::integer from jobrun.job_runs"
	done
}

# seconds: how much time the handler got, to the minute; "none" without a deadline.
time_of() {
	jr_ok run
	jr_ok logs "$1"
	echo "$output"
}

@test "the timeout is the argument's, else the definition's, else that of NAME.json, else none" {
	handler mail <<'sh'
[ -n "$JOBRUN_DEADLINE" ] || { echo none; exit; }
echo $(((JOBRUN_DEADLINE - $(date +%s) + 30) / 60)) minutes
sh
	handler post <"$JOBRUN_HANDLERS/mail"
	assert_equal "$(time_of "$(enqueue post)")" none
	settings mail <<<'{"timeout": "30m"}'
	settings post <<<'{"timeout": "30m"}'
	assert_equal "$(time_of "$(enqueue post)")" '30 minutes'
	q "select jobrun.define('mail', '{\"timeout\": \"60m\"}')" >/dev/null
	assert_equal "$(time_of "$(enqueue mail)")" '60 minutes'
	assert_equal "$(time_of "$(enqueue mail --timeout 90m)")" '90 minutes'
	assert_equal "$(time_of "$(enqueue mail --timeout 0)")" none
	# The definition's "0: no limit" is a value, too; null is none.
	q "select jobrun.define('mail', '{\"timeout\": \"0\"}')" >/dev/null
	assert_equal "$(time_of "$(enqueue mail)")" none
	q "select jobrun.define('mail', '{\"timeout\": null}')" >/dev/null
	assert_equal "$(time_of "$(enqueue mail)")" '30 minutes'
}

@test "the pause before the next attempt is the definition's, and max_attempts ends it" {
	q "select jobrun.define('mail', '{\"backoff_base\": \"0\", \"on_dead\": null}')" >/dev/null
	handler mail <<<'exit 1'
	id=$(enqueue mail)
	for _ in 1 2 3; do
		jr run
	done
	q_is 'dead|3' "select status, attempts from jobrun.job_runs where id = $id"
}

@test "a definition with a lock key runs its type one at a time, in its queue" {
	handler mail <<'sh'
mkdir "$TMPDIR/room" || exit 1
sleep 0.1 # time for another run to begin, if it may
rmdir "$TMPDIR/room"
sh
	for _ in 1 2 3; do
		enqueue mail
	done
	until [ "$(q "select count(*) from jobrun.job_runs where finished_at is null and job_type = 'mail'")" -eq 0 ]; do
		jr run -j 4
	done
	q_is '3|1' "select count(*), max(attempts) from jobrun.job_runs where status = 'succeeded'"
	q_is 1 "select count(*) from jobrun.job_queues where name = 'slow'"
}

@test "a run that is kept because of its unique key stays as it was queued" {
	id=$(enqueue mail --unique k)
	q "select jobrun.define('mail', '{\"queue\": \"other\"}')" >/dev/null
	assert_equal "$(enqueue mail --unique k)" "$id"
	are "$defined"
}

# --- what a definition may say ---

@test "the rules of a definition hold whoever writes the row" {
	for changes in '"priority": 1001' '"max_attempts": 0' '"queue": "No Queue"' '"timeout": "-1s"' '"queue": "jobrun"' '"nonsense": 1'; do
		run q "select jobrun.define('mail', '{$changes}')"
		[ "$status" -ne 0 ] || fail "taken: $changes"
	done
	for change in 'priority = 1001' 'max_attempts = 0' "queue = 'No Queue'" "timeout = '-1s'" "queue = 'jobrun'"; do
		run q "update jobrun.job_definitions set $change where name = 'mail'"
		[ "$status" -ne 0 ] || fail "taken: $change"
	done
	enqueue mail
	are "$defined"
}
