#!/usr/bin/env bats
# The lease: who holds a run, for how long, and whose result counts.

load ../lib/common
load ../lib/proxy
load ../lib/sql

# A handler that says when it began and lives until it is told otherwise.
long_handler() {
	handler long <<-'sh'
		echo "$JOBRUN_RUN_ID" >> "$TMPDIR/began"
		exec sleep 60
	sh
}

# lease_ends_unchanged: the stopped runner goes on and gives up the run $id: it neither renews the lease nor writes an end.
lease_ends_unchanged() {
	local lease

	lease=$(q "select locked_until from jobrun.job_runs where id = $id")
	kill -CONT "$runner_pid"
	wait_runner
	q_is "running|$lease" "select status, locked_until from jobrun.job_runs where id = $id"
	grep -q 'event=lease_lost' "$runner_err"
}

@test "a long run is heartbeaten: one attempt, however many leases it takes" {
	handler long <<<"sleep $((5 * patience)); echo done" # two leases and a half
	id=$(enqueue long)
	jr_ok run --lease $((2 * patience))s
	q_is 'succeeded|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
}

@test "heartbeats are not late while claims go on" {
	long_handler
	handler quick <<<:
	id=$(enqueue long)
	q "insert into jobrun.job_runs (job_type) select 'quick' from generate_series(1, 60000)"
	bg_runner -j 2 --lease 6s --grace 1s
	wait_until 10 test -s "$TMPDIR/began"
	# A heartbeat each 1.5 s: 4.5 s of the lease are always left. For more than a lease, seen by the server, since a client may be slow.
	# A delay of the whole machine does not make a heartbeat late.
	q "create function least_left(run_id bigint, out least_ms bigint, out still_ms bigint) language plpgsql as \$\$
		declare v_begin constant timestamptz := clock_timestamp(); v_last timestamptz;
		begin
			while clock_timestamp() < v_begin + interval '8 s' loop
				least_ms := least(least_ms, (select floor(extract(epoch from locked_until - clock_timestamp()) * 1000)
					from jobrun.job_runs where id = run_id));
				v_last := clock_timestamp();
				perform pg_sleep(0.02);
				still_ms := greatest(still_ms, floor(extract(epoch from clock_timestamp() - v_last) * 1000));
			end loop;
		end \$\$"
	IFS='|' read -r least still <<<"$(q "select least_ms, still_ms from least_left($id)")"
	echo "least: $least ms, for up to $still ms nothing moved"
	assert_between 3200 "$((least + still))" 6000
	assert_between 0 "$least" 4700
	q_is t "select count(*) filter (where status = 'succeeded') > 100 and count(*) filter (where status = 'queued') > 0
		from jobrun.job_runs where job_type = 'quick'"
	kill -TERM "$runner_pid"
	wait_runner
}

@test "another runner leaves a run alone while it is heartbeaten" {
	long_handler
	id=$(enqueue long)
	bg_runner --lease $((2 * patience))s
	wait_until 10 run_is "$id" running
	# For more than a lease.
	begin=$(now_ms)
	until [ "$(ms_since "$begin")" -gt $((2500 * patience)) ]; do
		other_host
		[ "$status" -eq 0 ]
		sleep 0.2 # enough ticks of the other one, and no more
	done
	q_is 'running|1' "select status, claim_seq from jobrun.job_runs where id = $id"
}

@test "a runner killed by SIGKILL takes its handlers with it, and the run is tried again" {
	long_handler
	id=$(enqueue long --backoff 0)
	bg_runner --lease 2s
	wait_until 10 test -s "$TMPDIR/began"
	find_handler '^sleep 60'
	kill -KILL "$runner_pid"
	wait_until 3 is_gone "$handler_pid"
	wait_until 5 lease_has_ended "$id"
	handler long <<<'exit 0'
	other_host
	other_host
	q_is 'succeeded|2|2' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
	q_is 'lost|lost' "select outcome, error_code from jobrun.job_attempts where run_id = $id"
}

@test "a runner killed by SIGKILL takes the other process groups of its handlers with it" {
	handler groups <<<'timeout 600 sh -c "echo \$\$ >\"$TMPDIR/pid\"; exec sleep 600"; exit 0'
	enqueue groups --backoff 0
	bg_runner
	wait_until 10 test -s "$TMPDIR/pid"
	kill -KILL "$runner_pid"
	wait_until 5 is_gone "$(cat "$TMPDIR/pid")"
}

@test "what has ended before its deadline has ended in time, though the runner was stopped at the deadline" {
	handler quick <<<'echo $$ >"$TMPDIR/$JOBRUN_RUN_ID"; until [ -e "$TMPDIR/go" ]; do sleep 0.02; done'
	timed=$(enqueue quick --timeout 8s)
	fenced=$(enqueue quick)
	bg_runner -j 2 --lease 12s
	for id in "$timed" "$fenced"; do
		wait_until 10 test -s "$TMPDIR/$id"
	done
	kill -STOP "$runner_pid"
	touch "$TMPDIR/go"
	for id in "$timed" "$fenced"; do
		wait_until 5 grep -q '^State:.*Z' "/proc/$(cat "$TMPDIR/$id")/status"
	done
	# Past the timeout of the one and the fence of the other, at five sixths of the lease; but the lease has not ended.
	wait_until 20 q_is t "select min(locked_until) < now() + interval '1.5 seconds' from jobrun.job_runs"
	kill -CONT "$runner_pid"
	wait_runner
	q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
}

@test "when a runner is stopped past its lease, the watchdog kills its handler before the lease ends" {
	handler lives <<<'echo $$ >"$TMPDIR/began"; while :; do : >"$TMPDIR/lives"; sleep 0.02; done'
	id=$(enqueue lives)
	bg_runner --lease 6s
	wait_until 10 test -s "$TMPDIR/began"
	kill -STOP "$runner_pid"
	# The handler is a zombie then: its parent cannot reap it.
	wait_until 10 grep -q '^State:.*Z' "/proc/$(cat "$TMPDIR/began")/status"
	q_is t "select to_timestamp($(stat -c %.Y "$TMPDIR/lives")) < locked_until from jobrun.job_runs where id = $id"
	lease_ends_unchanged
}

@test "after its fence a lease is not renewed, however long the runner stood still" {
	long_handler
	id=$(enqueue long)
	bg_runner --lease 12s
	wait_until 10 test -s "$TMPDIR/began"
	kill -STOP "$runner_pid"
	# The fence is two seconds before the end of the lease; the watchdog kills the handler soon after it.
	wait_until 20 q_is t "select locked_until < now() + interval '1.9 seconds' from jobrun.job_runs where id = $id"
	lease_ends_unchanged
}

@test "a late result is refused after a reclaim that nobody has claimed again" {
	late_handler once 0
	id=$(enqueue once --backoff 1h)
	late_result once "$id"
	other_host
	run_is "$id" failed
	kill -CONT "$runner_pid"
	wait_runner
	q_is 'failed|1|1|lost' "select status, attempts, claim_seq, error_code from jobrun.job_runs where id = $id"
	q_is 'lost' "select outcome from jobrun.job_attempts where run_id = $id"
	grep -q lease_lost "$runner_err"
}

@test "a late result of the old claim is refused after a refund has repeated the attempt number" {
	late_handler once 0
	id=$(enqueue once --backoff 0)
	late_result once "$id"
	first=$runner_pid
	first_err=$runner_err
	# The second claim is released: attempts goes back to 1, claim_seq does not.
	bg_runner --lease 60s --state-dir "$BATS_TEST_TMPDIR/other" --grace 0
	wait_until 10 up_is 2
	kill -TERM "$runner_pid"
	wait_runner
	q_is 'queued|1|2|1' "select status, attempts, claim_seq, releases from jobrun.job_runs where id = $id"
	q "select jobrun.pause(queue => 'default')" >/dev/null # or the first runner claims it again
	kill -CONT "$first"
	wait_runner "$first"
	q_is 'queued|1|2|1' "select status, attempts, claim_seq, releases from jobrun.job_runs where id = $id"
	q_is 'lost,released' "select string_agg(outcome, ',' order by claim_seq) from jobrun.job_attempts where run_id = $id"
	grep -q lease_lost "$first_err"
}

@test "one locked row costs only its own run; all others go on" {
	waiting_handler slow
	handler quick <<<'exit 0'
	held=$(enqueue slow --backoff 0)
	beside=$(enqueue slow --backoff 0)
	bg_runner --lease 6s -j 3
	wait_until 10 up_is 2
	hold "select from jobrun.job_runs where id = $held for update"
	for _ in 1 2 3 4 5 6 7 8; do
		enqueue quick
	done
	wait_until 10 q_is 8 "select count(*) from jobrun.job_runs where job_type = 'quick' and status = 'succeeded'"
	# Nobody may reclaim a row that is locked, not even after its lease.
	wait_until 10 lease_has_ended "$held"
	other_host
	q_is 'running|1' "select status, claim_seq from jobrun.job_runs where id = $held"
	release_holds
	touch "$TMPDIR/go"
	wait_runner
	wait_until 10 ticked_to_success "$held"
	q_is 2 "select claim_seq from jobrun.job_runs where id = $held"
	# The heartbeats of the other one went on: one claim was enough, though it took longer than its lease.
	q_is 'succeeded|1' "select status, claim_seq from jobrun.job_runs where id = $beside"
}

@test "a locked row of the runner costs no lease and does not keep the tick from its end" {
	handler slow <<<"sleep $((3 * patience))" # longer than the lease
	id=$(enqueue slow)
	bg_runner --lease $((2 * patience))s
	wait_until 10 run_is "$id" running
	hold 'update jobrun.job_runners set version = version'
	wait_runner
	release_holds
	q_is 'succeeded|1' "select status, claim_seq from jobrun.job_runs where id = $id"
}

@test "a short lock does not cost the run: the heartbeat that met it is repeated before the next one is due" {
	waiting_handler slow
	id=$(enqueue slow)
	# A heartbeat each 3 s; one that found the row locked is repeated after 1 s.
	bg_runner --lease 12s
	wait_until 10 up_is 1
	hold "select from jobrun.job_runs where id = $id for update"
	seen=$(q 'select last_seen_at from jobrun.job_runners')
	ends=$(field "$id" locked_until)
	# The runner notes each heartbeat in its own row, too. This one has not renewed the lease.
	wait_until 10 q_is t "select last_seen_at > '$seen' from jobrun.job_runners"
	met=$(q 'select last_seen_at from jobrun.job_runners')
	assert_equal "$(field "$id" locked_until)" "$ends"
	release_holds
	wait_until 10 q_is t "select locked_until > '$ends' from jobrun.job_runs where id = $id"
	q_is t "select locked_until - interval '12 s' - '$met' < interval '2.5 s' from jobrun.job_runs where id = $id"
	touch "$TMPDIR/go"
	wait_runner
	q_is 'succeeded|1' "select status, claim_seq from jobrun.job_runs where id = $id"
}

@test "cancel reaches the handler at the next heartbeat" {
	long_handler
	id=$(enqueue long)
	bg_runner --lease 8s # a heartbeat each 2 s
	wait_until 10 test -s "$TMPDIR/began"
	jr_ok cancel "$id"
	wait_runner
	q_is 'cancelled|cancelled' "select status, error_code from jobrun.job_runs where id = $id"
	q_is t "select finished_at - cancel_requested_at < interval '3.5 s' from jobrun.job_runs where id = $id"
	q_is cancelled "select outcome from jobrun.job_attempts where run_id = $id"
}

# seen_before_a_cancel STATEMENT ARGUMENTS: run it so that it takes its snapshot, and then waits until somebody has asked to
# cancel the run $id. Its answer is in late.out.
seen_before_a_cancel() {
	local text slow

	text=$(<"$TOP/lib/sql/$1.sql")
	slow=$(sed -E '0,/[[:space:]]g\(id, claim_seq[^)]*\)/s//& cross join lateral (select pg_advisory_xact_lock_shared(1) offset 0) l/' <<<"$text")
	assert_not_equal "$slow" "$text"
	hold 'select pg_advisory_xact_lock(1)'
	become_psql "$(past_pooler)" -c "prepare late as $slow" -c "execute late($2)" >late.out &
	late=$!
	wait_until 10 waiting_for_lock 1
	q "update jobrun.job_runs set cancel_requested_at = clock_timestamp() where id = $id"
	release_holds
	wait "$late"
}

@test "a run that is cancelled between the snapshot of a heartbeat and its lock is renewed, and the heartbeat tells of it; its progress is written" {
	long_handler
	id=$(enqueue long)
	bg_runner --grace 0 --lease 1h --heartbeat 15m # no heartbeat of its own meanwhile
	wait_until 10 test -s "$TMPDIR/began"
	held="'{$id}', '{1}', $(field "$id" runner_id)"
	lease=$(field "$id" locked_until)
	seen_before_a_cancel heartbeat "$held, 7200000"
	assert_equal "$(<late.out)" "$id|1|renewed|t|f"
	q_is t "select locked_until > '$lease' from jobrun.job_runs where id = $id"
	seen_before_a_cancel progress "$held, array['{\"progress\": 7}'], '{null}', '{null}', '{null}'"
	assert_equal "$(<late.out)" "$id|1|f"
	assert_equal "$(field "$id" progress)" 7
	kill -TERM "$runner_pid"
	wait_runner
	run_is "$id" cancelled
}

@test "a run that succeeds although cancel was asked for has succeeded" {
	handler trap <<<'trap "exit 0" TERM; echo up > "$TMPDIR/up"; while :; do sleep 0.05; done'
	id=$(enqueue trap)
	bg_runner --lease 8s
	wait_until 10 test -s "$TMPDIR/up"
	jr_ok cancel "$id"
	wait_runner
	run_is "$id" succeeded
}

@test "a run with a cancel request that is lost is cancelled, not tried again" {
	long_handler
	id=$(enqueue long --backoff 0)
	bg_runner --lease 2s
	wait_until 10 test -s "$TMPDIR/began"
	kill -KILL "$runner_pid"
	jr_ok cancel "$id"
	end_lease "$id"
	other_host
	run_is "$id" cancelled
	[ "$(wc -l <"$TMPDIR/began")" -eq 1 ]
}

@test "a poison run that kills its runner is dead after exactly max_attempts" {
	handler poison <<<'echo x >> "$TMPDIR/tries"; kill -KILL $PPID; sleep 5'
	id=$(enqueue poison --max-attempts 3 --backoff 0)
	for _ in 1 2 3; do
		bg_runner --lease 2s
		wait_runner
		[ "$runner_status" -eq 137 ]
		end_lease "$id"
	done
	other_host
	assert_equal "$status" 1
	assert_regex "$stderr" "run $id poison is dead after 3 of 3 attempts"
	q_is 'dead|3|3' "select status, attempts, claim_seq from jobrun.job_runs where id = $id"
	[ "$(wc -l <"$TMPDIR/tries")" -eq 3 ]
}

@test "a lease or heartbeat for which the arithmetic does not hold is refused" {
	handler ok <<<'exit 0'
	jr run --lease 1s
	assert_equal "$status" 78
	assert_regex "$stderr" 'lease'
	jr run --lease 10s --heartbeat 5s
	assert_equal "$status" 78
	assert_regex "$stderr" 'heartbeat'
	q_is 0 "select count(*) from jobrun.job_runners"
}

@test "the name of the server is looked up once, not for the connections of sql handlers and of housekeeping" {
	"${CC:-cc}" -shared -fPIC -o "$TMPDIR/count.so" -x c - -ldl <<-'c'
		#define _GNU_SOURCE
		#include <dlfcn.h>
		#include <netdb.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
		{
			int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
			void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
			FILE *file = node != NULL && strcmp(node, "localhost") == 0 ? fopen(getenv("LOOK_UPS"), "a") : NULL;

			if (file != NULL) {
				fputs("look-up\n", file);
				fclose(file);
			}
			memcpy(&real, &symbol, sizeof(real));
			return real(node, service, hints, found);
		}
	c
	tcp
	sql_handler add <<<'select 1'
	enqueue add
	q "select jobrun.enqueue_definition('jobrun.prune')"
	export LOOK_UPS=$TMPDIR/look_ups
	ASAN_OPTIONS+=:verify_asan_link_order=0 LD_PRELOAD=$TMPDIR/count.so \
		jr -d "host=localhost port=$tcp_port user=jobrun dbname=$JR_DATABASE" run
	assert_success
	q_is 'add,jobrun.prune' "select string_agg(job_type, ',' order by job_type) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(cat "$LOOK_UPS")" look-up
}
