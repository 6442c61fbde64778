#!/usr/bin/env bats
# run --for: a notification of new work names its job type, priority and queue, and the runner claims it without a look.

load ../lib/common

# `wait` runs until the file `go` is there; the others are soon done.
setup() {
	common_setup
	needs_session # notifications
	waiting_handler wait
	handler nap <<<'exit 0'
	handler other <<<'exit 0'
}

# lingerer OPTION...: a runner that stays, and is told of new work.
lingerer() {
	bg_runner --for 5m -v "$@"
	wait_until 10 grep -q 'event=listening' "$runner_err"
}

stop_runner() {
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
}

# notify PAYLOAD: when the runner has looked, or claimed, because of the last one.
notify() {
	local before

	before=$(grep -c event=notified "$runner_err" || true)
	q "select pg_notify('jobrun', $1)" >/dev/null
	wait_until 5 has_heard "$before"
}

has_heard() {
	[ "$(grep -c event=notified "$runner_err")" -gt "$1" ]
}

# starts SQL: for wait_until: does a run that is enqueued now end within a second? A busy machine may be late with one.
starts() {
	local id

	id=$(q "select $1")
	wait_until 1 run_is "$id" succeeded
}

# blind: looks find nothing any more.
blind() {
	q "create or replace function jobrun.candidates(job_types text[], queues text[], most bigint, host text default null)
		returns table (job_type text, queue text, priority smallint) language sql stable as
		'select null::text, null::text, null::smallint where false'"
}

# heard SQL...: the payloads that a session receives which sends these itself, one in a line.
heard() {
	q 'listen jobrun' "$@" | sed -n 's/^Asynchronous notification "jobrun" \(with payload "\(.*\)" \)\{0,1\}received.*/<\2>/p'
}

# statements NAME: how many of lib/sql/NAME.sql has the server got?
statements() {
	server_log | grep -c -- "-- $1\$"
}

claimed_since() {
	[ "$(statements claim)" -ge $(($1 + $2)) ]
}

@test "an idle runner claims what a notification names, without a look" {
	lingerer
	wait_until 20 starts "jobrun.enqueue('nap')"
	blind
	# A runner that is not idle when it is notified would look; sooner or later it is.
	wait_until 20 starts "jobrun.enqueue('nap', queue => 'some.queue-1', priority => -7)"
	wait_until 20 starts "jobrun.enqueue_many('other', array['{}'::jsonb])"
	q "insert into jobrun.job_definitions (name, job_type, queue) values ('nightly', 'nap', 'night')"
	wait_until 20 starts "id from jobrun.enqueue_definition('nightly')"
	# What is not named is not seen by it, and nothing else was said to be there.
	id=$(q 'set jobrun.notify = off' "select jobrun.enqueue('nap')")
	wait_until 20 starts "jobrun.enqueue('nap', priority => 7)"
	run_is "$id" queued
	stop_runner
}

@test "a transaction names its first combination, and says once that there are others" {
	lingerer
	assert_equal "$(heard "select jobrun.enqueue('nap', priority => 3)")" '<nap 3 default>'
	assert_equal "$(heard "select jobrun.enqueue_many('nap', array['1', '2']::jsonb[], queue => 'q')")" '<nap 100 q>'
	assert_equal "$(heard "select jobrun.enqueue('nap') from generate_series(1, 20)")" '<nap 100 default>'
	assert_equal "$(heard "select jobrun.enqueue('nap', priority => n) from generate_series(1, 900) n")" $'<nap 1 default>\n<>'
	assert_equal "$(heard begin "select jobrun.call_runners('')" "select jobrun.enqueue('nap')" commit)" '<>'
	# What was rolled back has said nothing.
	assert_equal "$(heard begin 'savepoint a' "select jobrun.enqueue('nap', priority => 1)" 'rollback to a' \
		"select jobrun.enqueue('nap', priority => 2)" commit)" '<nap 2 default>'
	assert_equal "$(heard begin "select jobrun.enqueue('nap', priority => 1)" rollback "select jobrun.enqueue('nap', priority => 2)")" \
		'<nap 2 default>'
	assert_equal "$(heard "select jobrun.enqueue('nap', run_in => '1 h')")" ''
	wait_until 20 q_is 1 "select count(*) from jobrun.job_runs where finished_at is null"
	# A job type that is called like the other message.
	handler cancel <<<'exit 0'
	assert_equal "$(heard "select jobrun.enqueue('cancel')")" '<cancel 100 default>'
	stop_runner
	id=$(q "select id from jobrun.job_runs where job_type = 'cancel'")
	lingerer
	wait_until 10 run_is "$id" succeeded
	wait_until 10 starts "jobrun.enqueue('cancel')"
	stop_runner
}

@test "runs of two combinations that are committed together start at once" {
	lingerer -j 4
	for queue in q1 q2 q3; do
		q begin "select jobrun.enqueue('nap', queue => '$queue')" "select jobrun.enqueue('other', priority => 5)" commit >/dev/null
		wait_until 2 nothing_is_open
	done
	stop_runner
}

@test "what nobody names starts within two seconds while others are named all the time" {
	lingerer -j 4
	wait_until 20 starts "jobrun.enqueue('nap')"
	printf '%s;\n' "select jobrun.enqueue('jobrun.noop', priority => 500)" 'select pg_sleep(0.002)' >script.sql
	while cat script.sql; do :; done | become_psql "$(past_pooler)" >/dev/null &
	stream=$!
	wait_until 10 q_is t "select count(*) > 20 from jobrun.job_runs where job_type = 'jobrun.noop'"
	id=$(q 'set jobrun.notify = off' "select jobrun.enqueue('nap', queue => 'quiet')")
	wait_until 10 run_is "$id" succeeded
	q_is t "select started_at < created_at + interval '$((2 * patience)) s' from jobrun.job_runs where id = $id"
	kill -0 "$stream"
	kill "$stream"
	wait "$stream" || true
	wait_until 10 nothing_is_open
	stop_runner
}

@test "notifications that name what is not there cause few claims, and keep nothing waiting" {
	own_cluster -o log_statement=all
	lingerer
	wait_until 20 starts "jobrun.enqueue('nap')"
	claims=$(statements claim) looks=$(statements candidates) begin=$(now_ms)
	# Statements of a client: before PostgreSQL 15, what a DO block notifies is sent when the block ends.
	printf '%s;\n' "select pg_notify('jobrun', 'nap 7 default')" 'select pg_sleep(0.001)' >script.sql
	while cat script.sql; do :; done | become_psql "$(past_pooler)" >/dev/null &
	stream=$!
	wait_until 10 claimed_since "$claims" 10
	id=$(q 'set jobrun.notify = off' "select jobrun.enqueue('other')")
	wait_until 10 run_is "$id" succeeded
	wait_until 10 claimed_since "$claims" 50
	kill -0 "$stream"
	kill "$stream"
	wait "$stream" || true
	took=$(ms_since "$begin") claims=$(($(statements claim) - claims)) looks=$(($(statements candidates) - looks))
	echo "$claims claims and $looks looks in $took ms"
	q_is t "select started_at < created_at + interval '$((2 * patience)) s' from jobrun.job_runs where id = $id"
	assert_between 50 "$claims" $((took / 5 + 10))
	assert_between 10 "$looks" $((took / 5 + 10)) # one after each claim that was empty
	wait_until 20 starts "jobrun.enqueue('nap')"
	stop_runner
}

@test "a forged notification makes a runner claim nothing that it would not claim by itself" {
	lingerer --type nap,wait --queue default,mine
	wait_until 20 starts "jobrun.enqueue('nap')"
	kept=$(q 'set jobrun.notify = off' "select jobrun.enqueue('other')" "select jobrun.enqueue('nap', queue => 'elsewhere')" \
		"select jobrun.enqueue('foreign')")
	for named in 'other 100 default' 'nap 100 elsewhere' 'foreign 100 default' 'nap' 'nap ' ' ' 'nap 100' 'nap 100 ' \
		'nap x default' 'nap  100 default' 'nap 100  default' 'nap 100 default ' 'nap 100 Default' 'nap 99999 default' \
		'nap 99999999999999999999 default' 'nap - default' ' 100 default' 'cancel 100 default' 'nap 100 {elsewhere}' \
		'nap 100 mine,elsewhere' 'nap 100 ",elsewhere,"'; do
		notify "'$named'"
	done
	notify "repeat('x', 7900)"
	notify "'nap 100 ' || repeat('x', 7800)"
	notify "repeat('nap 100 ', 900)"
	notify "E'nap\\t100\\tdefault'"
	notify "E'nap 100 default\\n'"
	notify "E'\\u0001 \\u0002 \\u202e'"
	q_is '3|0' "select count(*), max(claim_seq) from jobrun.job_runs where id in (${kept//$'\n'/,}) and status = 'queued'"
	wait_until 20 starts "jobrun.enqueue('nap')"
	wait_until 20 starts "jobrun.enqueue('nap', queue => 'mine')"
	stop_runner
	refute grep -E 'event=claim_failed' "$runner_err"
}

# quiet: during four looks the runner claims nothing, and looks once a second or so.
quiet() {
	local claims looks begin took

	claims=$(statements claim) looks=$(statements candidates) begin=$(now_ms)
	wait_until 20 has_looked $((looks + 4))
	took=$(ms_since "$begin") claims=$(($(statements claim) - claims)) looks=$(($(statements candidates) - looks))
	echo "$claims claims and $looks looks in $took ms"
	assert_equal "$claims" 0
	assert_between 4 "$looks" $((took / 700 + 2))
}

has_looked() {
	[ "$(statements candidates)" -ge "$1" ]
}

# notified_of ARGUMENT...: enqueue a run that cannot start, sets id; wait until the runner was notified, claimed in vain, and looked again.
notified_of() {
	local before

	before=$(grep -c event=notified "$runner_err" || true)
	id=$(enqueue "$@")
	wait_until 10 has_heard "$before"
	wait_until 10 has_looked $(($(statements candidates) + 1))
}

@test "what is named and cannot start costs a claim and a look, and starts when it can" {
	own_cluster -o log_statement=all
	q "insert into jobrun.job_queues (name, max_running) values ('full', 1)"
	q "select jobrun.pause(queue => 'still')" >/dev/null
	lingerer -j 4
	wait_until 20 starts "jobrun.enqueue('nap')"
	# A queue that is paused.
	claims=$(statements claim)
	notified_of nap --queue still
	quiet
	assert_between 0 $(($(statements claim) - claims)) 1
	run_is "$id" queued
	q "select jobrun.resume(queue => 'still')" >/dev/null
	wait_until 5 run_is "$id" succeeded
	# A queue that is full.
	enqueue wait --queue full
	wait_until 10 up_is 1
	claims=$(statements claim)
	notified_of nap --queue full
	quiet
	assert_between 0 $(($(statements claim) - claims)) 3
	run_is "$id" queued
	touch "$TMPDIR/go"
	wait_until 5 run_is "$id" succeeded
	# A queue that another transaction has locked.
	hold "select from jobrun.job_queues where name = 'full' for update"
	id=$(enqueue nap --queue full)
	wait_until 20 starts "jobrun.enqueue('nap')"
	run_is "$id" queued
	release_holds
	wait_until 10 run_is "$id" succeeded
	stop_runner
}

@test "two runners that are notified at once share the work" {
	lingerer -j 1
	first=$runner_pid
	lingerer -j 2
	for ((i = 0; i < 30; i++)); do
		echo "select jobrun.enqueue('nap');"
		echo "do \$\$ begin
			while exists (select from jobrun.job_runs where status <> 'succeeded') loop perform pg_sleep(0.005); end loop;
		end \$\$;"
	done >script.sql
	q <script.sql >/dev/null 3>&- &
	wait_until 15 is_gone $!
	q_is '30|30' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
	stop_runner
	wait_until 5 starts "jobrun.enqueue('nap')"
	kill -TERM "$first"
	wait_runner "$first"
	assert_equal "$runner_status" 0
}
