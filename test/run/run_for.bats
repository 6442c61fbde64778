#!/usr/bin/env bats
# run --for: it stays, starts new runs at once, and hands over to the next one.

load ../lib/common
load ../lib/pooler

# `wait` runs until the file `go` is there; `nap` is soon done.
setup() {
	common_setup
	waiting_handler wait
	handler nap <<<'exit 0'
}

# lingerer D OPTION...: a runner that stays, and is there.
lingerer() {
	bg_runner --for "$1" -v "${@:2}"
	wait_until 10 grep -qE 'event=(listening|polling)' "$runner_err"
}

# said N PATTERN: are there so many such lines in its log, at least?
said() {
	[ "$(grep -c "$2" "$runner_err")" -ge "$1" ]
}

stop_runner() {
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
}

# one_by_one N: enqueue as often, each when the one before is done.
one_by_one() {
	for ((i = 0; i < $1; i++)); do
		echo "select jobrun.enqueue('jobrun.noop');"
		echo "do \$\$ begin
			while exists (select from jobrun.job_runs where status <> 'succeeded') loop perform pg_sleep(0.005); end loop;
		end \$\$;"
	done >script.sql
	q <script.sql >ids
	q_is "$1" "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "--for runs what is enqueued meanwhile, and prints nothing" {
	first=$(enqueue nap)
	bg_runner --for 1m
	wait_until 10 run_is "$first" succeeded
	second=$(enqueue nap)
	wait_until 10 run_is "$second" succeeded
	third=$(enqueue wait)
	wait_until 10 run_is "$third" running
	fourth=$(enqueue nap)
	wait_until 10 run_is "$fourth" succeeded
	run_is "$third" running
	touch "$TMPDIR/go"
	wait_until 10 run_is "$third" succeeded
	stop_runner
	assert_equal "$(cat "$runner_out" "$runner_err")" ''
	q_is '1|t|4' "select count(*), bool_and(finished_at is not null and lingers_until is null),
		max(counts ->> 'succeeded') from jobrun.job_runners"
}

@test "--for starts a run when its enqueue commits: twenty in a row need no poll" {
	needs_session # notifications
	lingerer 5m
	one_by_one 1
	# By polling these would take sixteen seconds at least.
	one_by_one_by 12 20
	said 20 'event=notified reason=work'
	stop_runner
}

# one_by_one_by SECONDS N
one_by_one_by() {
	q 'delete from jobrun.job_runs'
	one_by_one "$2" 3>&- &
	wait_until "$1" is_gone $!
	wait $!
}

@test "retry and resume wake a runner with --for" {
	needs_session # notifications
	handler fails <<<'exit 65'
	id=$(enqueue fails)
	jr run
	run_is "$id" dead
	q "select jobrun.pause('nap')" >/dev/null
	waits=$(enqueue nap)
	lingerer 5m
	q "select jobrun.retry($id)" >/dev/null
	wait_until 5 said 1 event=notified
	wait_until 5 q_is 2 "select claim_seq from jobrun.job_runs where id = $id and status = 'dead'"
	run_is "$waits" queued
	q "select jobrun.resume('nap')" >/dev/null
	wait_until 5 said 2 event=notified
	wait_until 5 run_is "$waits" succeeded
	kill -TERM "$runner_pid"
	wait_runner
}

@test "an enqueue notifies only while a runner with --for is there" {
	noticed='Asynchronous notification "jobrun"'
	refute_regex "$(q 'listen jobrun' "select jobrun.enqueue('nap')")" "$noticed"
	lingerer 5m
	assert_regex "$(q 'listen jobrun' "select jobrun.enqueue('nap')")" "$noticed"
	refute_regex "$(q 'listen jobrun' 'begin' "select jobrun.enqueue('nap')" 'rollback')" "$noticed"
	refute_regex "$(q 'listen jobrun' "select jobrun.enqueue('nap', run_in => '1 hour')")" "$noticed"
	stop_runner
	refute_regex "$(q 'listen jobrun' "select jobrun.enqueue('nap')")" "$noticed"
}

@test "a transaction that is to be prepared (two-phase commit) notifies nobody" {
	own_cluster -o max_prepared_transactions=2
	lingerer 5m
	run q 'begin' "select jobrun.enqueue('nap')" "prepare transaction 'loud'"
	assert_failure
	assert_output --partial 'cannot PREPARE'
	id=$(q 'begin' 'set local jobrun.notify = off' "select jobrun.enqueue('nap')" "prepare transaction 'quiet'")
	q "commit prepared 'quiet'"
	wait_until 10 run_is "$id" succeeded
	stop_runner
}

@test "many notifications cause few claims, and the last one is not lost" {
	own_cluster -o log_statement=all
	lingerer 5m
	for ((i = 0; i < 10000; i++)); do
		echo 'notify jobrun;'
	done >script.sql
	looks=$(server_log | grep -c -- '-- candidates$')
	begin=$(now_ms)
	q <script.sql
	took=$(ms_since "$begin")
	looks=$(($(server_log | grep -c -- '-- candidates$') - looks))
	echo "$looks looks in $took ms"
	assert_between 1 "$looks" $((took / 5 + 5))
	one_by_one_by 12 20
	stop_runner
}

@test "--for behind a pooler polls" {
	pooler
	lingerer 5m
	said 1 'event=polling'
	id=$(enqueue nap)
	wait_until 10 run_is "$id" succeeded
	q_is 0 "select count(*) from pg_listening_channels()"
	refute grep event=notified "$runner_err"
	stop_runner
}

@test "--for: a cancel reaches a running handler at once" {
	needs_session # notifications; behind a pooler it is seen at the heartbeat
	lingerer 5m --heartbeat 20s
	id=$(enqueue wait)
	wait_until 10 test -s "$TMPDIR/up"
	q "select jobrun.cancel($id)" >/dev/null
	wait_until 10 run_is "$id" cancelled
	said 1 'event=notified reason=cancel'
	stop_runner
}

@test "--for: many cancels cause few heartbeats, and the last one is not lost" {
	own_cluster -o log_statement=all
	lingerer 5m --heartbeat 20s
	id=$(enqueue wait)
	wait_until 10 test -s "$TMPDIR/up"
	begin=$(now_ms)
	{
		for ((i = 0; i < 3000; i++)); do
			echo 'notify jobrun, $$cancel$$;'
		done
		echo "select jobrun.cancel($id);"
	} | q >/dev/null
	wait_until 10 run_is "$id" cancelled
	took=$(ms_since "$begin")
	beats=$(server_log | grep -c -- '-- heartbeat$')
	echo "$beats heartbeats in $took ms"
	assert_between 1 "$beats" $((took / 100 + 5))
	stop_runner
}

@test "--for listens again after its connections are cut, and runs what came meanwhile" {
	needs_session # notifications
	lingerer 5m
	for n in 2 3 4; do
		terminate_backends
		id=$(enqueue nap)
		wait_until 10 said "$n" 'event=listening'
		wait_until 10 run_is "$id" succeeded
	done
	q 'notify jobrun'
	wait_until 5 said 1 event=notified
	one_by_one_by 12 20
	stop_runner
}

@test "--for exits with 75 when the server stays away" {
	own_cluster
	lingerer 5m
	stop_server
	wait_runner "$runner_pid" 30
	assert_equal "$runner_status" 75
	start_server
}

# its_row_is_gone: it has ended, and says why.
its_row_is_gone() {
	wait_runner "$runner_pid" 15
	assert_equal "$runner_status" 75
	assert_equal "$(tail -n 1 "$runner_err")" 'jobrun: somebody has deleted the row of this runner, or ended it'
}

@test "--for exits with 75 when its row is gone: as soon as something is due, and the next runner starts that" {
	lingerer 5m --heartbeat 20s
	q 'delete from jobrun.job_runners'
	id=$(enqueue nap)
	its_row_is_gone
	lingerer 5m
	wait_until 10 run_is "$id" succeeded
	stop_runner
}

@test "--for exits with 75 when its row is gone or ended, even if nothing is due, and finishes what it holds" {
	lingerer 5m --lease 4s
	q 'delete from jobrun.job_runners'
	its_row_is_gone
	lingerer 5m --lease 4s
	q 'update jobrun.job_runners set finished_at = now(), lingers_until = null'
	its_row_is_gone
	id=$(enqueue wait)
	lingerer 5m --lease 4s
	wait_until 10 test -s "$TMPDIR/up"
	q 'delete from jobrun.job_runners'
	next=$(enqueue nap)
	touch "$TMPDIR/go"
	its_row_is_gone
	run_is "$id" succeeded
	run_is "$next" queued
}

@test "a tick that holds a run when its row goes exits with 75; --job and exec, which claim nothing more, do not" {
	enqueue wait
	bg_runner --lease 4s
	tick=$runner_pid tick_err=$runner_err
	wait_until 10 up_is 1
	job=$(enqueue wait --in 1h)
	bg_runner --lease 4s --job "$job"
	one=$runner_pid
	bg_jobrun exec --lease 4s x -- sh -c 'until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	wait_until 10 up_is 2
	wait_until 10 q_is 3 "select count(*) from jobrun.job_runs where status = 'running'"
	q 'delete from jobrun.job_runners'
	old=$(q 'select now()')
	# By then each has renewed its lease twice.
	wait_until 20 q_is t "select min(locked_until) > '$old'::timestamptz + interval '6.5 s' from jobrun.job_runs"
	touch "$TMPDIR/go"
	wait_runner "$tick"
	assert_equal "$runner_status" 75
	assert_equal "$(cat "$tick_err")" 'jobrun: somebody has deleted the row of this runner, or ended it'
	wait_runner "$one"
	assert_equal "$runner_status" 0
	wait_runner
	assert_equal "$runner_status$(cat "$runner_err")" 0
	q_is 'succeeded|3' 'select min(status), count(*) from jobrun.job_runs'
}

# stand_in STATEMENT: pg_backend_pid() is this, until `make_way`.
stand_in() {
	q "alter function pg_catalog.pg_backend_pid() rename to pg_backend_pid_as_it_is" \
		"create function pg_catalog.pg_backend_pid() returns integer language plpgsql as \$\$ begin $1; end \$\$"
}

make_way() {
	q 'drop function pg_catalog.pg_backend_pid()' 'alter function pg_catalog.pg_backend_pid_as_it_is() rename to pg_backend_pid'
}

@test "--for listens although the server has refused at first to say whose session it is" {
	needs_session # notifications
	stand_in "raise exception 'not now' using errcode = '53200'"
	bg_runner --for 5m --lease 4s -v
	wait_until 10 grep -q 'event=polling reason="not now"' "$runner_err"
	id=$(enqueue nap)
	wait_until 10 run_is "$id" succeeded
	make_way
	wait_until 10 grep -q event=listening "$runner_err"
	q 'notify jobrun'
	wait_until 5 said 1 'event=notified reason=work'
	stop_runner
}

@test "--for polls, and asks no more, when the server refuses for good to say whose session it is" {
	stand_in "raise exception 'never' using errcode = '42501'"
	bg_runner --for 5m --lease 4s -v
	wait_until 10 grep -q 'event=polling reason=never' "$runner_err"
	make_way
	wait_until 10 q_is t "select last_seen_at > started_at + interval '2 s' from jobrun.job_runners"
	assert_equal "$(grep -cE 'event=(polling|listening)' "$runner_err")" 1
	stop_runner
}

@test "--for goes on beyond its time until the next runner is there" {
	lingerer 1s
	first=$runner_pid first_err=$runner_err
	# Due when its time is over. The next one has to be there five seconds after that.
	id=$(q "select jobrun.enqueue('nap', run_at => started_at + interval '1.1 s') from jobrun.job_runners where pid = $first")
	wait_until 10 run_is "$id" succeeded
	lingerer 5m
	wait_runner "$first"
	assert_equal "$runner_status" 0
	grep 'event=linger_end reason="another runner goes on"' "$first_err"
	q_is t "select a.finished_at >= b.started_at from jobrun.job_runners a, jobrun.job_runners b
		where a.pid = $first and b.pid = $runner_pid"
	id=$(enqueue nap)
	wait_until 10 run_is "$id" succeeded
	q_is 1 "select counts -> 'succeeded' from jobrun.job_runners where pid = $first"
	stop_runner
}

@test "--for does not hand over to a runner that does less, is ending, or is on another host, and ends five seconds after its time" {
	lingerer 1s --queue default,other
	q "insert into jobrun.job_runners (id, pid, permits, host, version, started_at, finished_at, lingers_until, job_types, queues)
		select n, 1, 1, case n when 1 then 'elsewhere' else host end, version,
			started_at + case n when 2 then interval '-1 s' else '1 s' end, case n when 3 then started_at + interval '1 s' end,
			case n when 4 then now() + interval '5.5 s' when 5 then null else now() + interval '1 min' end,
			case n when 6 then job_types[2:] else job_types end, case n when 7 then '{other}' else queues end
		from jobrun.job_runners, generate_series(1, 7) n"
	wait_runner
	assert_equal "$runner_status" 0
	grep 'event=linger_end reason="the time is over"' "$runner_err"
	q_is t "select finished_at > started_at + interval '5 s' from jobrun.job_runners where pid = $runner_pid"
	# The same without what is wrong with each.
	lingerer 1s --queue default,other
	q "insert into jobrun.job_runners (id, pid, permits, host, version, started_at, lingers_until, job_types, queues)
		select 8, 1, 1, host, version, started_at + interval '1 s', now() + interval '1 min', job_types || '{more}', null
		from jobrun.job_runners where pid = $runner_pid"
	wait_runner
	grep 'event=linger_end reason="another runner goes on"' "$runner_err"
}

@test "after the hand-over a runner finishes what it holds, and nobody is notified for its sake" {
	id=$(enqueue wait)
	lingerer 4s
	first=$runner_pid
	wait_until 10 test -s "$TMPDIR/up"
	lingerer 5m
	# Drawn in: nine seconds were announced.
	wait_until 10 q_is t "select lingers_until < least(now(), started_at + interval '8.9 s') from jobrun.job_runners where pid = $first"
	kill -0 "$first"
	stop_runner
	refute_regex "$(q 'listen jobrun' "select jobrun.enqueue('nap')")" 'Asynchronous'
	touch "$TMPDIR/go"
	wait_runner "$first"
	assert_equal "$runner_status" 0
	run_is "$id" succeeded
	q_is 1 "select count(*) from jobrun.job_runs where status = 'queued'"
}

@test "TERM ends a runner with --for at once, and one that still holds a run blocks no other" {
	lingerer 5m
	kill -TERM "$runner_pid"
	wait_runner "$runner_pid" 5
	assert_equal "$runner_status" 0
	lingerer 5m --grace 1m
	id=$(enqueue wait)
	wait_until 10 test -s "$TMPDIR/up"
	kill -TERM "$runner_pid"
	wait_until 5 q_is t "select lingers_until <= now() from jobrun.job_runners where pid = $runner_pid"
	touch "$TMPDIR/go"
	wait_runner "$runner_pid" 5
	assert_equal "$runner_status" 0
	run_is "$id" succeeded
}

@test "--for takes back runs that others have lost" {
	id=$(enqueue wait --backoff 0)
	bg_runner --lease 2s
	dies=$runner_pid
	wait_until 10 test -s "$TMPDIR/up"
	lingerer 5m --lease 2s
	wait_until 5 q_is t "select last_seen_at > started_at from jobrun.job_runners where pid = $runner_pid"
	kill -KILL "$dies"
	touch "$TMPDIR/go"
	wait_until 15 q_is 'succeeded|2' "select status, claim_seq from jobrun.job_runs where id = $id"
	stop_runner
	q_is 1 "select counts -> 'reclaimed' from jobrun.job_runners where pid = $runner_pid"
}

@test "--for says when lost runs are not taken back, and when they are again; then its exit status is 0" {
	id=$(enqueue wait --backoff 0)
	bg_runner --lease 2s
	wait_until 10 test -s "$TMPDIR/up"
	kill -KILL "$runner_pid"
	touch "$TMPDIR/go"
	wait_until 10 q_is t "select locked_until < now() from jobrun.job_runs where id = $id"
	hold 'lock table jobrun.job_runs in exclusive mode'
	bg_runner --for 5m --lease 2s
	wait_until 30 grep -q '^jobrun: .*lock' "$runner_err"
	release_holds
	wait_until 15 grep -qx 'jobrun: lost runs are taken back again' "$runner_err"
	wait_until 15 q_is 'succeeded|2' "select status, claim_seq from jobrun.job_runs where id = $id"
	stop_runner
	assert_equal "$(grep -cx 'jobrun: lost runs are taken back again' "$runner_err")" 1
}

@test "--for waits for a permit when none is free" {
	needs_session # notifications
	id=$(enqueue wait)
	bg_runner -j 1 --max-runs 1
	wait_until 10 test -s "$TMPDIR/up"
	next=$(enqueue nap)
	lingerer 5m -j 1
	q 'notify jobrun' 'notify jobrun'
	kill -0 "$runner_pid"
	run_is "$next" queued
	touch "$TMPDIR/go"
	wait_until 10 run_is "$next" succeeded
	stop_runner
}

@test "--for ends after --max-runs" {
	lingerer 5m --max-runs 2
	enqueue nap
	enqueue wait
	wait_until 10 q_is t 'select lingers_until < now() from jobrun.job_runners'
	touch "$TMPDIR/go"
	wait_runner "$runner_pid" 10
	assert_equal "$runner_status" 0
	q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	q_is t 'select finished_at is not null and lingers_until is null from jobrun.job_runners'
}

@test "--for on a terminal shows that it waits" {
	TERM=xterm timeout 30 script -qfec "$JOBRUN run --for 1m --max-runs 1" /dev/null </dev/null >out 2>&1 3>&- &
	shown=$!
	wait_until 10 grep -q 'waiting for work' out
	enqueue nap
	wait "$shown"
	grep -q '1 runs\? in .*: 1 succeeded' out
}

@test "--for is refused with options that contradict it" {
	for wrong in '--for 10s --job 1' '--for 10s --once' '--for 20m --max-runtime 19m' '--for 999ms' '--for 25h' '--for x'; do
		# shellcheck disable=SC2086
		jr run $wrong
		assert_equal "$status" 64
		assert_equal "${#stderr_lines[@]}" 1
	done
	jr_ok run --for 10s -n
	jr_ok run --for 20m --max-runtime 0 -n
	q_is 0 'select count(*) from jobrun.job_runners'
}

@test "the benchmark of the latency runs and prints its table" {
	run --separate-stderr timeout $((100 * patience)) "$TOP/scripts/bench/latency" 3
	assert_equal "$status" 0
	assert_line --regexp '^jobrun +3( +[0-9.]+){6}$'
	assert_line --regexp '^floor +3( +-){3}( +[0-9.]+){3}$'
	if command -v pgbouncer; then
		assert_line --regexp '^polling +3( +[0-9.]+){6}$'
	fi
}
