#!/usr/bin/env bats
# sql handlers that are stopped, fenced out, cut off or too talkative.

load ../lib/common
load ../lib/proxy
load ../lib/sql

setup() {
	common_setup
	counter
	sql_handler count <<<'update counter set n = n + 1'
	sql_handler sleep <<<"select pg_sleep(60), public.bump() /* work */"
	q "create function public.bump() returns void language sql as 'update counter set n = n + 1'"
}

# The run is taken from its runner as reclaim does it.
take_away() {
	q "update jobrun.job_runs set status = 'failed', locked_until = null, failed_at = now(), run_at = now() + interval '1 h',
			error_code = 'lost' where id = $1" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, runner_id)
			select id, claim_seq, attempts, 'lost', 'lost', runner_id from jobrun.job_runs where id = $1"
}

@test "when the claim is lost while the statement runs, its effect is rolled back" {
	sql_handler wait <<<"update counter set n = n + 1 /* work */"
	hold 'select from counter for update'
	id=$(enqueue wait)
	bg_runner -v
	wait_until 10 works
	take_away "$id"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	q_is 0 'select n from counter'
	is_fate "$id" 'failed|1|1|lost'
	q_is 1 'select count(*) from jobrun.job_attempts'
	run cat "$runner_err"
	assert_output --partial 'event=lease_lost'
	refute_output --partial 'state=succeeded'
}

@test "a claim that was lost is noticed at the heartbeat, and the statement is cancelled" {
	id=$(enqueue sleep)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 works
	take_away "$id"
	wait_runner
	does_not_work
	is_fate "$id" 'failed|1|1|lost'
	q_is 0 'select n from counter'
}

@test "heartbeats go on while a statement runs longer than the lease" {
	sql_handler long <<<'select pg_advisory_xact_lock_shared(77), public.bump() /* work */'
	hold 'select pg_advisory_xact_lock(77)'
	id=$(enqueue long)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 works
	for _ in 1 2; do
		end_lease "$id"
		wait_until 10 q_is t "select locked_until > now() + interval '50 s' from jobrun.job_runs where id = $id"
		# Another tick would take it if its lease had ended.
		jr_ok run --state-dir "$BATS_TEST_TMPDIR/other"
	done
	works
	release_holds
	wait_runner
	is_fate "$id" 'succeeded|1|1|'
	q_is 1 'select n from counter'
}

@test "a statement past its timeout is cancelled, its backend is gone, and the run has failed" {
	id=$(enqueue sleep --timeout 300ms)
	jr_ok run
	is_fate "$id" 'failed|1|1|timeout'
	q_is 'timed out after 300ms' "select last_error from jobrun.job_runs where id = $id"
	wait_until 5 does_not_work
	q_is 0 'select n from counter'
}

@test "a statement that cannot be cancelled is left behind with its connection" {
	sql_handler deaf <<-'sql'
		do $$ begin /* work */
			update counter set n = n + 1;
			loop
				begin
					perform pg_sleep(10);
				exception when query_canceled then
				end;
			end loop;
		end $$
	sql
	settings deaf <<<'{"grace": "500ms"}'
	id=$(enqueue deaf --timeout 300ms)
	jr_ok run
	is_fate "$id" 'failed|1|1|timeout'
	terminate_backends
	wait_until 5 does_not_work
	q_is 0 'select n from counter'
}

# Whoever has enqueued a run can do that: cancel() in a transaction that stays open.
@test "a run whose row somebody keeps locked is put off, uncharged, and leaves its connection to others" {
	sql_handler held <<<"select pg_advisory_xact_lock_shared(77), set_config('idle_in_transaction_session_timeout', '0', true) /* work */"
	settings held <<<'{"later": ["JR075"]}' # its own codes are for its statement
	sql_handler other <<<'select 1'
	id=$(enqueue held)
	hold 'select pg_advisory_xact_lock(77)'
	bg_runner --sql-jobs 1 --lease 6s
	wait_until 10 works
	hold "select jobrun.cancel($id)"
	printf 'commit;\n' >&"${hold_fds[0]}"
	other=$(enqueue other)
	wait_until 10 run_is "$other" succeeded
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	refute_regex "$(cat "$runner_err")" lease_lost
	q_is 'queued|0|later|sqlstate:55P03' "select r.status, r.attempts, a.outcome, a.error_code
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id where r.id = $id"
}

@test "jobrun cancel cancels the statement that runs" {
	id=$(enqueue sleep)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 works
	jr_ok cancel "$id"
	wait_runner
	is_fate "$id" 'cancelled|1|1|cancelled'
	wait_until 5 does_not_work
	q_is 0 'select n from counter'
}

@test "after TERM a statement that ends within the grace is done, and any other is released" {
	sql_handler short <<<'select pg_sleep(1), public.bump() /* work */'
	id=$(enqueue short)
	bg_runner --grace 1m
	wait_until 10 works
	kill -TERM "$runner_pid"
	wait_runner
	is_fate "$id" 'succeeded|1|1|'
	q_is 1 'select n from counter'

	id=$(enqueue sleep)
	bg_runner --grace 200ms
	wait_until 10 works
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	is_fate "$id" 'queued|0|1|released'
	wait_until 5 does_not_work
	q_is 1 'select n from counter'
}

@test "TERM ends a runner whose statement is still waiting for its connection" {
	mkdir "$BATS_TEST_TMPDIR/silent"
	sql_handler never <<<'select 1'
	id=$(enqueue never)
	# Connections are counted: the runner's own goes through, the next is never answered.
	proxy silent 1
	bg_runner -v -d "$proxied" --grace 200ms
	wait_until 10 grep -q event=run_start "$runner_err"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	is_fate "$id" 'queued|0|1|released'
}

@test "runs whose statement was not sent by the end of their timeout are put off, uncharged, alone or in a batch" {
	sql_handler one <<<'select 1'
	sql_handler many <<<"select null::bigint, 'done' where false and \$1 is null"
	settings one <<<'{"timeout": "1s"}'
	settings many <<<'{"timeout": "1s", "batch": 10}'
	q "select jobrun.enqueue(t, backoff_base => '1 h') from unnest('{one,many,many}'::text[]) t" >/dev/null
	proxy silent 1
	jr_ok run -d "$proxied"
	assert_equal "$(q "select r.job_type, r.status, r.attempts, a.outcome, a.error_code
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id order by r.id")" \
		$'one|queued|0|later|timeout\nmany|queued|0|later|timeout\nmany|queued|0|later|timeout'
}

@test "after SIGKILL of the runner nothing of the statement stays, and the run is reclaimed" {
	sql_handler slow <<<"select pg_sleep(case when current_setting('jobrun.claim') = '1' then 60 else 0 end), public.bump() /* work */"
	id=$(enqueue slow --backoff 0)
	bg_runner
	wait_until 10 works
	kill -KILL "$runner_pid"
	wait_until 10 taken_back "$id"
	is_fate "$id" 'succeeded|2|2|'
	q_is 1 'select n from counter'
	terminate_backends
}

# count_once N: a tick through the proxy; its run has counted once, as each of those before.
count_once() {
	local id

	id=$(enqueue count --backoff 0)
	jr run -d "$proxied" --lease 2s --max-runs 1 -v
	echo "$1: $stderr"
	assert_equal "$status" 0
	wait_until 10 ticked_to_success "$id"
	q_is "$1" 'select n from counter'
	q_is 1 "select attempts from jobrun.job_runs where id = $id"
	q_is 0 "select count(*) from jobrun.job_attempts where run_id = $id and outcome <> 'later'"
}

@test "a COMMIT whose answer is lost makes one effect, one success, one attempt" {
	cut_every_commit answer count_once
}

@test "a COMMIT that is lost makes one effect, one success, one attempt" {
	cut_every_commit request count_once
}

@test "a COMMIT whose answer hangs makes one effect, one success, one attempt" {
	cut_every_commit hang count_once
}

# measure ID: sets peak, the most memory in MiB that a runner took that has run it.
measure() {
	hold 'select from counter for update' # keeps the runner there
	enqueue count >/dev/null
	bg_runner -j 1 --sql-jobs 1
	wait_until 60 q_is t "select finished_at is not null or status = 'failed' from jobrun.job_runs where id = $1"
	peak=$(awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$runner_pid/status")
	release_holds
	rm "$BATS_TEST_TMPDIR"/hold.*
	wait_runner
}

@test "memory is bounded with results of 100 MB, in one row or in a million" {
	local slack=10

	# A sanitizer keeps what was freed for a while, and marks what is only reserved.
	if grep -q __asan_init "$JOBRUN"; then
		export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1
		slack=60
	fi
	q 'create table seen (n integer)'
	sql_handler row <<<"with i as (insert into seen values (1) returning n) select repeat('x', 100000000) from i"
	sql_handler rows <<<"select repeat('x', 100), g from generate_series(1, 1000000) g"
	sql_handler words <<<"do \$\$ begin raise exception '%', repeat('x', 100000000); end \$\$"
	sql_handler plain <<<'select 1'
	for type in plain row rows words; do
		id=$(enqueue "$type" -p 1)
		measure "$id"
		echo "# $type: $peak MiB" >&3
		[ "$type" != plain ] || plain=$peak
		assert_between 1 "$peak" "$((plain + slack))"
	done
	assert_equal "$(q "select job_type, status, error_code from jobrun.job_runs where job_type <> 'count' order by id")" \
		$'plain|succeeded|\nrow|failed|sqlstate:54000\nrows|succeeded|\nwords|failed|sqlstate:54000'
	q_is '4|0' 'select n, (select count(*) from seen) from counter'
}

@test "a flood of notices is no result" {
	sql_handler notices <<<"do \$\$ begin for i in 1..100000 loop raise notice '%', repeat('x', 100); end loop; end \$\$"
	id=$(enqueue notices)
	jr_ok run
	is_fate "$id" 'succeeded|1|1|'
}

@test "a heartbeat between a commit and its answer loses nothing, and says nothing" {
	sql_handler slow <<<'select pg_sleep(0.9), public.bump()'
	proxy late 400
	id=$(enqueue slow)
	jr_ok run -d "$proxied" --lease 60s --heartbeat 1s
	[[ $stderr != *lease_lost* ]]
	is_fate "$id" 'succeeded|1|1|'
	q_is 1 'select n from counter'
}
