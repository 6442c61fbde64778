#!/usr/bin/env bats
# Unique and idempotency keys, where two transactions meet: each case once, made to happen. chaos/unique.bats races them.

load ../lib/common

# say SQL: a further statement for the last `hold`.
say() {
	printf '%s\n' "$1" >&"${hold_fds[-1]}"
}

# One of the two was refused, and the other one got on.
one_got_on() {
	grep -qhE 'ERROR' "$TMPDIR/client" "$BATS_TEST_TMPDIR/hold.0.out" || return 1
	is_gone "$client_pid" || grep -qx 'done' "$BATS_TEST_TMPDIR/hold.0.out"
}

# opposite LEVEL FIRST SECOND: two transactions that ask for FIRST and SECOND in opposite order.
opposite() {
	hold "set transaction isolation level $1; set local deadlock_timeout = '100ms'; select $2"
	say '\set VERBOSITY verbose'
	client "set deadlock_timeout = '100ms'; begin isolation level $1; select $3; select $2; commit"
	wait_until 10 waiting_for_lock 1
	say "select $3; \\echo done"
	wait_until 10 one_got_on
	release_holds
	end_client
	run sed -n 's/^.*ERROR: *\([0-9A-Z]*\):.*/\1/p' "$TMPDIR/client" "$BATS_TEST_TMPDIR/hold.0.out"
	assert_output 40001
}

@test "two transactions with two new unique keys in opposite orders: one gets 40001, and neither a deadlock" {
	opposite 'read committed' "jobrun.enqueue('t', unique_key => 'a')" "jobrun.enqueue('t', unique_key => 'b')"
}

@test "two transactions with two idempotency keys in opposite orders: one gets 40001" {
	opposite 'read committed' "jobrun.enqueue('t', idempotency_key => 'a')" "jobrun.enqueue('t', idempotency_key => 'b')"
}

@test "two transactions with two new queues of lock keys in opposite orders: one gets 40001" {
	opposite 'read committed' "jobrun.enqueue('t', queue => 'a', concurrency_key => 'x')" \
		"jobrun.enqueue('t', queue => 'b', concurrency_key => 'x')"
}

@test "a new queue and then a unique key, against the opposite order: one gets 40001" {
	opposite 'read committed' "jobrun.enqueue('t', queue => 'a', concurrency_key => 'x')" "jobrun.enqueue('t', unique_key => 'b')"
}

@test "a unique key and then a new queue, against the opposite order: one gets 40001" {
	opposite 'read committed' "jobrun.enqueue('t', unique_key => 'b')" "jobrun.enqueue('t', queue => 'a', concurrency_key => 'x')"
}

@test "two transactions that replace two waiting runs in opposite orders: one gets 40001" {
	q "select jobrun.enqueue('t', unique_key => k) from unnest(array['a', 'b']) k" >/dev/null
	opposite 'read committed' "jobrun.enqueue('t', unique_key => 'a', on_conflict => 'replace')" \
		"jobrun.enqueue('t', unique_key => 'b', on_conflict => 'replace')"
}

@test "two transactions with two new unique keys in opposite orders, repeatable read: one gets 40001" {
	opposite 'repeatable read' "jobrun.enqueue('t', unique_key => 'a')" "jobrun.enqueue('t', unique_key => 'b')"
}

@test "two transactions with two new unique keys in opposite orders, serializable: one gets 40001" {
	opposite serializable "jobrun.enqueue('t', unique_key => 'a')" "jobrun.enqueue('t', unique_key => 'b')"
}

# The server ends the one who looks first: here it has asked for nothing before, and only stands in a line for "b".
@test "a transaction with its first key behind others that wait for each other gets an id or 40001" {
	q "select jobrun.enqueue('t', unique_key => k) from unnest(array['a', 'b']) k" >/dev/null
	hold "set local deadlock_timeout = '20s'; select jobrun.enqueue('t', unique_key => 'a')"
	hold "set local deadlock_timeout = '20s'; select jobrun.enqueue('t', unique_key => 'b', on_conflict => 'replace')"
	client "set deadlock_timeout = '2s'; select jobrun.enqueue('t', unique_key => 'b', on_conflict => 'replace')"
	wait_until 10 waiting_for_lock 1
	say '\set VERBOSITY verbose'
	say "select jobrun.enqueue('t', unique_key => 'a', on_conflict => 'replace'); \\echo done"
	wait_until 10 waiting_for_lock 2
	printf '\\set VERBOSITY verbose\n%s\n' "select jobrun.enqueue('t', unique_key => 'b'); \\echo done" >&"${hold_fds[0]}"
	wait_until 30 grep -qh ERROR "$TMPDIR/client" "$BATS_TEST_TMPDIR/hold.0.out" "$BATS_TEST_TMPDIR/hold.1.out"
	release_holds
	end_client
	# If the machine stands still for seconds, the others look for a deadlock too, and two are ended.
	codes=$(sed -n 's/^.*ERROR: *\([0-9A-Z]*\):.*/\1/p' "$TMPDIR/client" "$BATS_TEST_TMPDIR"/hold.?.out | sort -u)
	assert_equal "$codes" 40001
}

@test "a kept run does not start before the transaction that kept it commits" {
	q 'create table state (v bigint)' 'insert into state values (1)'
	handler look <<'sh'
"$TEST_PSQL" -XAtq "$JOBRUN_DATABASE_URL" -c 'select v from state' >>"$TMPDIR/seen"
sh
	export TEST_PSQL=$JR_PSQL
	id=$(enqueue look)
	q "update jobrun.job_runs set unique_key = 'k'"
	hold "update state set v = 2; select jobrun.enqueue('look', unique_key => 'k')"
	assert_equal "$(grep -E '^[0-9]+$' "$BATS_TEST_TMPDIR/hold.0.out")" "$id"
	jr_ok run
	assert_not_exists "$TMPDIR/seen"
	run_is "$id" queued
	say 'commit; \echo done'
	wait_until 10 grep -qx 'done' "$BATS_TEST_TMPDIR/hold.0.out"
	jr_ok run
	assert_equal "$(cat "$TMPDIR/seen")" 2
}

@test "a run that was claimed while an enqueuer waited for it is not kept: a new one is queued" {
	old=$(q "select jobrun.enqueue('t', unique_key => 'k')")
	# As a claim does, and not committed yet.
	hold "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'h', '0');
		update jobrun.job_runs set status = 'running', runner_id = 7, locked_by = 'h', locked_until = now() + '1 minute',
			started_at = now(), attempts = 1, claim_seq = 1 where id = $old"
	client "select jobrun.enqueue('t', unique_key => 'k')"
	wait_until 10 waiting_for_lock 1
	say 'commit; \echo done'
	end_client
	assert_equal "$client_status" 0
	new=$(cat "$TMPDIR/client")
	[ "$new" -ne "$old" ]
	q_is "$old running,$new queued" "select string_agg(id || ' ' || status, ',' order by id) from jobrun.job_runs"
	# The running one is nobody's to lock: its heartbeat gets through.
	q "update jobrun.job_runs set locked_until = now() + '2 minutes' where id = $old"
}

@test "unless_running finds a run that goes from running to waiting and back" {
	id=$(q "select jobrun.enqueue('t', unique_key => 'k')")
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'h', '0')" \
		"update jobrun.job_runs set status = 'failed', started_at = now(), attempts = 1, claim_seq = 1, failed_at = now()" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($id, 1, 1, 'failed')"
	client "do \$\$ begin for i in 1 .. 1500 loop
		update jobrun.job_runs set status = 'running', runner_id = 7, locked_by = 'h', locked_until = now() + '1 minute' where id = $id;
		commit;
		update jobrun.job_runs set status = 'failed', locked_until = null where id = $id;
		commit;
	end loop; end \$\$"
	while kill -0 "$client_pid" 2>/dev/null; do
		q "do \$\$ begin for i in 1 .. 200 loop
			begin
				perform jobrun.enqueue('t', unique_key => 'k', on_conflict => 'unless_running');
			exception when serialization_failure then null; -- the run came and went too fast
			end;
			commit;
		end loop; end \$\$"
	done
	end_client
	assert_equal "$client_status" 0
	q_is 1 'select count(*) from jobrun.job_runs'
}

@test "in repeatable read a waiting run that the snapshot does not show raises 40001, not a unique violation" {
	hold 'set transaction isolation level repeatable read; select 1'
	q "select jobrun.enqueue('t', unique_key => 'k'), jobrun.enqueue('t', idempotency_key => 'i')" >/dev/null
	say '\set VERBOSITY verbose'
	say 'savepoint s;'
	say '\unset ON_ERROR_STOP'
	say "select jobrun.enqueue('t', unique_key => 'k');"
	say 'rollback to s;'
	say "select jobrun.enqueue('t', idempotency_key => 'i');"
	say '\echo done'
	wait_until 10 grep -qx 'done' "$BATS_TEST_TMPDIR/hold.0.out"
	assert_equal "$(grep -c 'ERROR:  40001' "$BATS_TEST_TMPDIR/hold.0.out")" 2
	q_is 2 "select count(*) from jobrun.job_runs"
}

# locked_run QUEUE: the last `hold` enqueues a run with a lock key, and commits. It may not wait long for anything.
locked_run() {
	say "set local lock_timeout = '200ms'; select jobrun.enqueue('t', queue => '$1', concurrency_key => 'x');"
	say "select 'keys ' || coalesce(current_setting('jobrun.keys', true), ''); commit; \\echo done"
	wait_until 10 grep -qx 'done' "$BATS_TEST_TMPDIR/hold.$((${#hold_pids[@]} - 1)).out"
}

@test "in repeatable read and serializable a queue that was removed since the snapshot raises 40001 for a lock key" {
	for level in 'repeatable read' serializable; do
		jr_ok queue "${level%% *}" --max-running 5
		hold "set transaction isolation level $level; select count(*) from jobrun.job_queues"
		jr_ok queue "${level%% *}" --remove
		say '\set VERBOSITY verbose'
		say '\unset ON_ERROR_STOP'
		say "select jobrun.enqueue('t', queue => '${level%% *}', concurrency_key => 'x');"
		say '\echo done'
		wait_until 10 grep -qx 'done' "$BATS_TEST_TMPDIR/hold.$((${#hold_pids[@]} - 1)).out"
		assert_equal "$(grep -c 'ERROR:  40001' "$BATS_TEST_TMPDIR/hold.$((${#hold_pids[@]} - 1)).out")" 1
	done
	q_is '0|0' "select (select count(*) from jobrun.job_queues), (select count(*) from jobrun.job_runs)"
}

@test "a queue that was made or changed since the snapshot, or is locked, does not disturb a lock key in repeatable read" {
	jr_ok queue old --rate 5/1m
	jr_ok queue locked --per-key 1
	hold "select from jobrun.job_queues where name = 'locked' for update"
	for queue in new old locked; do
		hold 'set transaction isolation level repeatable read; select count(*) from jobrun.job_queues'
		q "update jobrun.job_queues set rate_used = rate_used + 1 where name = 'old'"
		jr_ok queue new --per-key 1
		locked_run "$queue"
	done
	q_is 'locked new old' "select string_agg(queue, ' ' order by queue) from jobrun.job_runs"
	# None of them made a queue, so none counts as a key, which would take a subtransaction.
	assert_equal "$(grep -hc '^keys $' "$BATS_TEST_TMPDIR"/hold.[123].out | tr '\n' ' ')" '1 1 1 '
}

@test "a client that inserts rows itself cannot break the unique key" {
	q "insert into jobrun.job_runs (job_type, unique_key) values ('t', 'k')"
	run psql_bare -v VERBOSITY=verbose "$(past_pooler)" -c "insert into jobrun.job_runs (job_type, unique_key) values ('t', 'k')"
	assert_failure
	assert_output --partial 'ERROR:  23505'
	assert_output --partial job_runs_unique
	# enqueue finds what it inserted, and the other way round.
	old=$(q "select id from jobrun.job_runs")
	q_is "$old" "select jobrun.enqueue('t', unique_key => 'k')"
	q_is t "select jobrun.enqueue('u', unique_key => 'k') > $old"
	run psql_bare "$(past_pooler)" -c "insert into jobrun.job_runs (job_type, unique_key) values ('u', 'k')"
	assert_failure
	q "insert into jobrun.job_runs (job_type, idempotency_key) values ('t', 'i')"
	run psql_bare "$(past_pooler)" -c "insert into jobrun.job_runs (job_type, idempotency_key) values ('t', 'i')"
	assert_failure
	# A run that is on its way does not hold the next one up.
	handler t <<<'exit 1'
	jr_ok run --job "$old"
	q_is failed "select status from jobrun.job_runs where id = $old"
	q "insert into jobrun.job_runs (job_type, unique_key) values ('t', 'k')"
	q_is 2 "select count(*) from jobrun.job_runs where unique_key = 'k' and job_type = 't' and status in ('queued', 'failed')"
}

@test "more keys than enqueue_run counts, in opposite orders through new_runs: one gets 40001" {
	sixty='from generate_series(1, 60) i'
	hold "insert into jobrun.new_runs (job_type, run) select 't', jsonb_build_object('unique_key', 'a' || i) $sixty"
	say '\set VERBOSITY verbose'
	client "set deadlock_timeout = '100ms'; begin;
		insert into jobrun.new_runs (job_type, run) select 't', jsonb_build_object('unique_key', 'b' || i) $sixty;
		insert into jobrun.new_runs (job_type, run) values ('t', '{\"unique_key\": \"a1\"}'); commit"
	wait_until 10 waiting_for_lock 1
	say "set local deadlock_timeout = '100ms'; insert into jobrun.new_runs (job_type, run) values ('t', '{\"unique_key\": \"b1\"}'); \echo done"
	wait_until 10 one_got_on
	release_holds
	end_client
	run sed -n 's/^.*ERROR: *\([0-9A-Z]*\):.*/\1/p' "$TMPDIR/client" "$BATS_TEST_TMPDIR/hold.0.out"
	assert_output 40001
}
