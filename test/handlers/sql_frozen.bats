#!/usr/bin/env bats
# The transaction of a sql handler whose runner stands still, or is dead.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	counter
	q "create function public.bump() returns void language sql as 'update counter set n = n + 1'"
}

# A server that does not look whether the connection stands goes on to the end of the statement.
needs_check() {
	[ "$(q 'show server_version_num')" -ge 140000 ] || skip 'PostgreSQL 14'
}

# hold_row STATEMENT: a runner, whose statement has locked a row and waits; sets id, runner_pid, and backend: the process
# that works for it.
hold_row() {
	sql_handler hold <<<"select public.bump(), $1 /* work */"
	id=$(enqueue hold --backoff 0)
	bg_runner --lease 6s
	wait_until 10 works
	backend=$(q "select pid from pg_stat_activity where datname = current_database() and state = 'active'
		and query like '%/* work */%' and pid <> pg_backend_pid()")
	[ -n "$backend" ]
}

# At the first attempt.
sleep_long="pg_sleep(case when current_setting('jobrun.claim') = '1' then 60 else 0 end)"

# Until release_holds.
hold_row_till_released() {
	hold 'select pg_advisory_xact_lock(11)'
	hold_row 'pg_advisory_xact_lock(11)'
}

# Nothing is left of the transaction, its row is free, and another runner does it all.
rolled_back_and_done_again() {
	wait_until 10 q_is 0 "select count(*) from pg_stat_activity where pid = $backend and xact_start is not null"
	assert_equal "$(q 'select n from counter for update nowait')" 0
	wait_until 10 other_host_succeeds
	is_fate "$id" 'succeeded|2|2|'
	q_is lost "select outcome from jobrun.job_attempts where run_id = $id"
	q_is 1 'select n from counter'
}

other_host_succeeds() {
	other_host
	run_is "$id" succeeded
}

@test "the server notices while a statement runs that its runner was killed, and rolls back" {
	needs_check
	hold_row "$sleep_long"
	kill -KILL "$runner_pid"
	rolled_back_and_done_again
}

@test "the watchdog kills a runner that is stopped, and the server rolls back" {
	needs_check
	hold_row "$sleep_long"
	kill -STOP "$runner_pid"
	rolled_back_and_done_again
	wait_runner
	assert_equal "$runner_status" 137
}

@test "the server ends the idle transaction of a runner that is stopped with its watchdog" {
	hold_row_till_released
	watchdog=$(pgrep -x jobrun-watchdog -P "$runner_pid")
	kill -STOP "$watchdog" "$runner_pid"
	release_holds
	rolled_back_and_done_again
	kill -CONT "$watchdog" "$runner_pid"
	wait_runner
	is_fate "$id" 'succeeded|2|2|'
	q_is 1 'select n from counter'
}

@test "the server rolls back when a runner is killed while its transaction is idle" {
	hold_row_till_released
	kill -STOP "$runner_pid"
	release_holds
	wait_until 10 q_is 0 "select count(*) from pg_stat_activity where pid = $backend and state = 'active'"
	kill -KILL "$runner_pid"
	rolled_back_and_done_again
}

end_waits() {
	q_is 1 "select count(*) from pg_stat_activity where pid = $backend and wait_event_type = 'Lock' and query like '%jobrun.settle_%'"
}

# $1: what NAME.json says.
killed_while_its_end_waits() {
	needs_check
	settings hold <<<"$1"
	hold 'select pg_advisory_xact_lock(11)'
	sql_handler hold <<<"update counter set n = n + 1 where pg_advisory_xact_lock(11)::text = '' /* work */"
	id=$(enqueue hold --backoff 0)
	bg_runner --lease 30s # the end waits for a sixth of it
	wait_until 10 works
	backend=$(q "select pid from pg_stat_activity where datname = current_database() and query like '%/* work */%' and pid <> pg_backend_pid()")
	hold "select from jobrun.job_runs where id = $id for update"
	printf 'commit;\n' >&"${hold_fds[0]}"
	wait_until 10 end_waits
	kill -KILL "$runner_pid"
	wait_until 10 q_is 0 "select count(*) from pg_stat_activity where pid = $backend and xact_start is not null"
	assert_equal "$(q 'select n from counter for update nowait')" 0
	release_holds
	end_lease "$id"
	wait_until 20 other_host_succeeds
	q_is 1 'select n from counter'
}

@test "the server rolls back when a runner is killed while the end of its run waits for a lock" {
	killed_while_its_end_waits '{}'
}

@test "the server rolls back when a runner is killed while the end of its batch waits for a lock" {
	killed_while_its_end_waits '{"batch": 5}'
}

@test "a runner that goes on is not killed for a lease that it has lost" {
	sql_handler deaf <<-'sql'
		do $$ begin /* work */
			loop
				begin
					perform pg_sleep(30);
				exception when query_canceled then
				end;
			end loop;
		end $$
	sql
	waiting_handler other
	id=$(enqueue deaf)
	other=$(enqueue other)
	bg_runner --lease 5s -v
	wait_until 10 works
	wait_until 10 up_is 1
	hold "select from jobrun.job_runs where id = $id for update"
	wait_until 10 grep -q 'event=lease_lost' "$runner_err"
	sleep 2 # the rest of the lease is over, and the watchdog would have killed the runner
	touch "$TMPDIR/go"
	wait_until 10 run_is "$other" succeeded
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	terminate_backends
}

@test "the limits of the transaction are parts of the lease, and the session's own in jobrun try" {
	sql_handler ask <<-'sql'
		select to_jsonb(current_setting('idle_in_transaction_session_timeout') || ' ' ||
			coalesce(current_setting('client_connection_check_interval', true), '-'))
	sql
	id=$(enqueue ask)
	jr_ok run --lease 30s
	run field "$id" "result"
	assert_output --regexp '^"15s (3s|-)"$'
	jr_ok try ask '{}'
	[[ $output == *'"0 '* ]]
}
