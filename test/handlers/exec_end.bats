#!/usr/bin/env bats
# How an exec handler ends, what that means for its run, and what becomes of the processes it leaves.

load ../lib/common

@test "each exit status of a handler has its documented meaning" {
	handler exit <<<'exit "$(cat)"'
	q "select jobrun.enqueue('exit', to_jsonb(c), backoff_base => '1h') from generate_series(0, 255) c" >/dev/null
	jr run -j 4
	assert_equal "$status" 1
	run q "select payload, status, attempts, snoozes, error_code from jobrun.job_runs
		where concat_ws(' ', status, attempts, snoozes, error_code) <> case payload::text
			when '0' then 'succeeded 1 0'
			when '65' then 'dead 1 0 exit:65'
			when '75' then 'queued 0 1 exit:75'
			else 'failed 1 0 exit:' || payload::text end"
	assert_equal "$output" ''
	q_is 256 "select count(*) from jobrun.job_runs r left join jobrun.job_attempts a on a.run_id = r.id
		where coalesce(a.exit_status, 0) = r.payload::text::int"
}

@test "a handler ended by a signal has failed, and the signal is named" {
	handler die <<<'ulimit -c 0; kill -"$(cat)" $$; sleep 5'
	q "select jobrun.enqueue('die', to_jsonb(s), backoff_base => '1h') from unnest(array[1, 2, 3, 6, 9, 11, 13, 15, 34]) s" >/dev/null
	jr_ok run
	q_is '1 HUP,2 INT,3 QUIT,6 ABRT,9 KILL,11 SEGV,13 PIPE,15 TERM,34 34' "select string_agg(
		concat_ws(' ', payload, replace(r.error_code, 'signal:', '')), ',' order by payload)
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id
		where r.status = 'failed' and r.error_code like 'signal:%' and a.exit_status = 128 + payload::text::int"
}

@test "exit status 75 costs no attempt and waits for the backoff, longer each time" {
	handler later <<<'exit 75'
	id=$(enqueue later --backoff 10m,1h)
	delay="select extract(epoch from r.run_at - a.finished_at) from jobrun.job_runs r join jobrun.job_attempts a
		on a.run_id = r.id and a.claim_seq = r.claim_seq"
	jr_ok run
	q_is 'queued|0|1' "select status, attempts, snoozes from jobrun.job_runs where id = $id"
	q_is t "select $(q "$delay") between 300 and 600"
	jr_ok run --job "$id"
	q_is 'queued|0|2' "select status, attempts, snoozes from jobrun.job_runs where id = $id"
	q_is t "select $(q "$delay") between 600 and 1200"
	q_is 'later,later' "select string_agg(outcome, ',') from jobrun.job_attempts where run_id = $id"
}

@test "the fiftieth exit status 75 is charged as a failure" {
	handler later <<<'exit 75'
	id=$(enqueue later --backoff 1h)
	# As if it had said so 48 times.
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select $id, s, 1, 'later' from generate_series(1, 48) s" \
		"update jobrun.job_runs set claim_seq = 48, snoozes = 48"
	jr_ok run --job "$id"
	q_is 'queued|0|49|49' "select status, attempts, snoozes, claim_seq from jobrun.job_runs where id = $id"
	jr_ok run --job "$id"
	q_is 'failed|1|49|50' "select status, attempts, snoozes, claim_seq from jobrun.job_runs where id = $id"
}

# in_time SECONDS: each run was stopped at this timeout, the stubborn one after ten more seconds of grace.
in_time() {
	q_is t "select bool_and(a.finished_at - a.started_at - interval '$1 s'
		between case job_type when 'stubborn' then interval '9.5 s' else '-0.5 s' end and case job_type when 'stubborn' then interval '15 s' else '2 s' end)
		from jobrun.job_attempts a join jobrun.job_runs r on r.id = a.run_id"
}

@test "a handler past its timeout gets TERM, then KILL after the grace, and whatever its exit, it has timed out" {
	local timeout

	handler sleeps <<<'exec sleep 600'
	handler polite <<<'trap "exit 0" TERM; echo $$ > "$TMPDIR/polite"; while :; do sleep 0.05; done'
	handler stubborn <<<'trap "" TERM; echo $$ > "$TMPDIR/stubborn"; exec sleep 600'
	for timeout in 1 4 16; do # on a slow machine they may not have set their traps by the first
		q 'truncate jobrun.job_runs, jobrun.job_attempts'
		rm -f "$TMPDIR/polite" "$TMPDIR/stubborn"
		for type in sleeps polite stubborn; do
			enqueue "$type" --timeout "${timeout}s" --backoff 1h
		done
		JR_TIMEOUT=$((60 * patience)) jr_ok run -j 3
		[ ! -e "$TMPDIR/polite" ] || [ ! -e "$TMPDIR/stubborn" ] || ! in_time "$timeout" || break
	done
	in_time "$timeout"
	q_is 'polite failed 1 timeout 0,sleeps failed 1 timeout 143,stubborn failed 1 timeout 137' "select string_agg(
		concat_ws(' ', job_type, status, attempts, r.error_code, exit_status), ',' order by job_type)
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id"
	q_is t "select bool_and(last_error like 'timed out after ${timeout}s%') from jobrun.job_runs"
	is_gone "$(cat "$TMPDIR/stubborn")"
}

@test "a handler that cannot be started has failed, and the reason is written down" {
	printf 'MZ\0 for another system' >"$JOBRUN_HANDLERS/foreign"
	printf '\177ELF nonsense' >"$JOBRUN_HANDLERS/broken"
	chmod 755 "$JOBRUN_HANDLERS"/*
	for type in foreign broken; do
		enqueue "$type" --backoff 1h
	done
	jr_ok run -j 1
	q_is 2 "select count(*) from jobrun.job_runs where (status, attempts, error_code) = ('failed', 1, 'cannot-start')"
	q_is t "select bool_and(last_error like '%' || job_type || '%') from jobrun.job_runs"
	assert_regex "$(q "select last_error from jobrun.job_runs where job_type = 'foreign'")" 'Exec format error.*#!'
	assert_regex "$(q "select outcome || error from jobrun.job_attempts a join jobrun.job_runs r on r.id = a.run_id
		where job_type = 'foreign'")" 'failedcannot start'
}

@test "a handler that closes stdout and stderr is waited for, and its exit counts" {
	handler shut <<<'exec >&- 2>&-; sleep 0.7; touch "$TMPDIR/done"; exit 3'
	id=$(enqueue shut --backoff 1h)
	jr_ok run
	assert_file_exist "$TMPDIR/done"
	assert_equal "$(ended "$id")" 'failed|1|exit:3'
}

@test "handlers that exit at once are all counted" {
	ln -s "$(readlink -f "$(type -P true)")" "$JOBRUN_HANDLERS/true"
	q "select jobrun.enqueue('true') from generate_series(1, 200)" >/dev/null
	jr_ok run -j 8
	# What was claimed ahead and not started within a second was claimed once more; no attempt counts for that.
	q_is '200|200|0' "select count(*) filter (where status = 'succeeded'), sum(attempts), (select count(*) from jobrun.job_attempts) from jobrun.job_runs"
}

# keeps_nobody_waiting ID: the attempt ended within five seconds. The start and end of jobrun itself are left out: on a slow machine they
# take long.
keeps_nobody_waiting() {
	q_is t "select finished_at - started_at < interval '5 s' from jobrun.job_runs where id = $1"
}

@test "a grandchild that holds the pipe keeps nobody waiting, and is killed" {
	handler parent <<<'echo before; sleep 60 & echo $! > "$TMPDIR/pid"; exit 0'
	id=$(enqueue parent)
	jr_ok run
	keeps_nobody_waiting "$id"
	is_gone "$(cat "$TMPDIR/pid")"
	q_is 'succeeded|before' "select r.status, rtrim(a.output, E'\n') from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id
		where r.id = $id"
}

@test "a handler that ends before its timeout has its result, though its last output is waited for until after it" {
	handler parent <<-'sh'
		sleep 60 &
		sleep 0.7 # half a second later its output is over, and a second after its start the timeout
		exit "$(cat)"
	sh
	for _ in {1..5}; do # a slow machine may not be done by the timeout
		good=$(enqueue parent 0 --timeout 1s --max-attempts 1)
		bad=$(enqueue parent 65 --timeout 1s --max-attempts 1)
		jr run -j 2
		[ "$(ended "$good") $(ended "$bad")" != 'succeeded|1 dead|1|exit:65' ] || break
	done
	assert_equal "$(ended "$good") $(ended "$bad")" 'succeeded|1 dead|1|exit:65'
}

@test "a process that was forked twice is killed with its handler, even if it ignores TERM" {
	handler fork <<-'sh'
		( ( trap '' TERM HUP; echo up > "$TMPDIR/up"; exec sleep 60 >/dev/null 2>&1 ) & echo $! > "$TMPDIR/pid" )
		until [ -e "$TMPDIR/up" ]; do sleep 0.02; done
	sh
	id=$(enqueue fork)
	jr_ok run
	run_is "$id" succeeded
	is_gone "$(cat "$TMPDIR/pid")"
}

@test "a handler that is stopped takes the other process groups of its session with it" {
	handler nice <<<'timeout 600 sh -c "echo \$\$ >\"$TMPDIR/nice\"; exec sleep 600"; exit 0'
	handler deaf <<-'bash'
		#!/bin/bash
		set -m
		(trap '' TERM; echo "$BASHPID" >"$TMPDIR/deaf"; while :; do sleep 1; done) &
		wait
	bash
	echo '{"grace": "300ms"}' >"$JOBRUN_HANDLERS/deaf.json"
	for name in nice deaf; do
		id=$(enqueue "$name" --timeout 1s --backoff 1h)
		JR_TIMEOUT=30 jr_ok run
		assert_equal "$(ended "$id")" 'failed|1|timeout'
		is_gone "$(cat "$TMPDIR/$name")"
	done
}

@test "a process in a session of its own survives its handler (a documented limit) and keeps nobody waiting" {
	handler escape <<<'setsid sh -c "echo \$\$ > \"$TMPDIR/pid\"; exec sleep 60" & until [ -s "$TMPDIR/pid" ]; do sleep 0.02; done'
	id=$(enqueue escape)
	jr_ok run
	keeps_nobody_waiting "$id"
	run_is "$id" succeeded
	kill -KILL "$(cat "$TMPDIR/pid")"
}

@test "a handler that kills its whole group has only failed" {
	handler group <<<'kill -KILL 0; sleep 5'
	id=$(enqueue group --backoff 1h)
	jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|signal:KILL'
}

@test "a handler that stops itself is ended by its timeout" {
	handler stop <<<'kill -STOP $$; exit 0'
	id=$(enqueue stop --timeout 500ms --backoff 1h)
	JR_TIMEOUT=20 jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|timeout'
}

@test "orphans that process 1 never reaps are no reason to wait or to complain" {
	unshare -p -f --mount-proc true 2>/dev/null || skip 'needs a PID namespace'
	handler leaves <<<'sleep 60 & exit 0'
	id=$(enqueue leaves)
	# shellcheck disable=SC2016 # Perl's variables
	run --separate-stderr unshare -p -f --mount-proc perl -e \
		'my $p = fork; if (!$p) { exec @ARGV or die } waitpid $p, 0; exit $? >> 8' "$JOBRUN" run
	assert_equal "$status" 0
	assert_equal "$stderr" ''
	run_is "$id" succeeded
}
