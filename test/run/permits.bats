#!/usr/bin/env bats
# Permits: the handlers of all runners of one user on one host together are never more than -j.

load ../lib/common

# A handler that counts itself, and the ones beside it, in the file `seen`; and one that stays.
setup() {
	common_setup
	handler count <<-'sh'
		count() {
			flock 9
			read -r n < "$TMPDIR/n" || n=0
			echo "$((n + $1))" > "$TMPDIR/n"
			[ "$1" -lt 0 ] || echo "$((n + $1))" >> "$TMPDIR/seen"
		}
		count 1 9>> "$TMPDIR/lock"
		sleep 0.05 # time for others to run beside it
		count -1 9>> "$TMPDIR/lock"
	sh
	waiting_handler stay
	handler quick <<<'exit 0'
	echo 0 >"$TMPDIR/n"
}

@test "10 runners at once with -j 3 never have more than 3 handlers together, and use all 3" {
	q "select jobrun.enqueue('count') from generate_series(1, 120)" >/dev/null
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		bg_runner -j 3
	done
	# The database may show more for a moment: a permit is free when its handler is gone, and the outcome is written after that.
	wait_until 60 q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
	for pid in "${runner_pids[@]}"; do
		wait_runner "$pid"
		assert_equal "$runner_status" 0
	done
	assert_equal "$(wc -l <"$TMPDIR/seen")" 120
	assert_equal "$(largest "$TMPDIR/seen")" 3
	q_is 120 "select sum(claim_seq) from jobrun.job_runs"
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/runner.*.err)" ''
}

@test "without a free permit a tick ends at once, silently, and claims nothing" {
	q "select jobrun.enqueue('stay') from generate_series(1, 2)" >/dev/null
	bg_runner -j 2
	wait_until 10 up_is 2
	id=$(enqueue quick)
	jr_ok run -j 2                        # the others hold theirs until there is a file "go"
	assert_equal "$output$stderr" ''
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $id"
	q_is 1 "select count(*) from jobrun.job_runners where finished_at is not null and (counts->>'claimed')::int = 0"
	# Somebody who looks is told why nothing was done.
	jr_ok run -v -j 2
	assert_line_of_stderr 'jobrun: no free permit on this host: other runners have them all; a larger -j has more'
	run on_terminal 100 run -j 2
	assert_line --partial 'jobrun: no free permit on this host: '
	# One permit more, and it is used.
	jr_ok run -j 3
	run_is "$id" succeeded
	touch "$TMPDIR/go"
	wait_runner
}

@test "without a free permit a tick still reclaims what others have lost" {
	enqueue stay
	bg_runner -j 1
	wait_until 10 up_is 1
	id=$(enqueue quick --backoff 1h)
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'gone', 'x')" \
		"update jobrun.job_runs set status = 'running', claim_seq = 1, attempts = 1, runner_id = 1, locked_by = 'gone',
			started_at = now(), locked_until = now() - interval '1 s' where id = $id"
	jr_ok run -j 1
	q_is 'failed|1|lost' "select status, claim_seq, error_code from jobrun.job_runs where id = $id"
	touch "$TMPDIR/go"
	wait_runner
}

@test "the permits of a runner killed by SIGKILL are free at once" {
	q "select jobrun.enqueue('stay') from generate_series(1, 2)" >/dev/null
	bg_runner -j 2
	wait_until 10 up_is 2
	id=$(enqueue quick)
	jr_ok run -j 2
	run_is "$id" queued
	kill -KILL "$runner_pid"
	wait_runner
	jr_ok run -j 2
	run_is "$id" succeeded
	# The lease of 90 s would end later.
	q_is 2 "select count(*) from jobrun.job_runs where status = 'running'"
}

@test "permits are released one by one: a waiting run starts as soon as one handler has ended" {
	first=$(enqueue stay)
	second=$(enqueue quick)
	bg_runner -j 1
	wait_until 10 up_is 1
	run_is "$second" queued
	touch "$TMPDIR/go"
	wait_runner
	run_is "$first" succeeded
	run_is "$second" succeeded
}

@test "more built-in runs than permits are all done in one tick" {
	q "select jobrun.enqueue('jobrun.noop') from generate_series(1, 20)" >/dev/null
	jr_ok run -j 2
	q_is 20 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "a built-in run needs no permit: it is done while others hold them all" {
	first=$(enqueue stay)
	bg_runner -j 1 --type stay
	wait_until 10 up_is 1
	second=$(enqueue quick)
	third=$(q "select jobrun.enqueue('jobrun.noop')")
	jr_ok run -j 1
	run_is "$third" succeeded
	run_is "$second" queued
	fourth=$(q "select jobrun.enqueue('jobrun.noop')")
	jr_ok run --job "$fourth" -j 1
	run_is "$fourth" succeeded
	touch "$TMPDIR/go"
	wait_runner
	run_is "$first" succeeded
}

@test "runners with different state directories do not share permits" {
	enqueue stay
	bg_runner -j 1
	wait_until 10 up_is 1
	id=$(enqueue quick)
	jr_ok run -j 1 --state-dir "$BATS_TEST_TMPDIR/other"
	run_is "$id" succeeded
	touch "$TMPDIR/go"
	wait_runner
}

@test "runners of different databases in one state directory do not share permits" {
	enqueue stay
	bg_runner -j 1
	wait_until 10 up_is 1
	other=${JR_DATABASE}_other
	admin "create database $other template jr_template"
	run_jobrun -d "$JR_SERVER dbname=$other" enqueue quick
	jr_ok run -d "$JR_SERVER dbname=$other" -j 1 --json
	admin "drop database $other"
	assert_equal "$(jq .succeeded <<<"$output")" 1
	touch "$TMPDIR/go"
	wait_runner
}

@test "a state directory that nothing can be written to is refused with what to type, and doctor finds it" {
	unshare -m true 2>/dev/null || skip 'needs a mount namespace'
	mkdir -m 700 "$JOBRUN_STATE_DIR"
	read_only() {
		run --separate-stderr unshare -m sh -c \
			'mount -t tmpfs -o ro,mode=700 none "$JOBRUN_STATE_DIR" && exec "$0" "$@"' "$JOBRUN" "$@"
	}
	read_only run
	assert_one_line 78 "^jobrun: cannot use $JOBRUN_STATE_DIR/[0-9a-f]+.permits: Read-only file system; name another directory with --state-dir$"
	read_only doctor state
	assert_equal "$status" 1
	assert_line "FAIL  state  cannot write to the state directory $JOBRUN_STATE_DIR: Read-only file system; name another with --state-dir: no runner starts on this host"
}

@test "runners of different users do not share permits" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	user=61234
	dir=$(mktemp -d /tmp/jobrun-permits.XXXXXX)
	chmod 755 "$dir"
	mkdir -m 1777 "$dir/tmp"
	cp -r "$JOBRUN_HANDLERS" "$dir/handlers"
	install -m 755 "$JOBRUN" "$dir/jobrun"
	enqueue stay
	bg_runner -j 1
	wait_until 10 up_is 1
	id=$(enqueue quick)
	# Where its state is by itself: /run/lock and /tmp, since it has no home.
	run env -u JOBRUN_STATE_DIR TMPDIR="$dir/tmp" setpriv --reuid $user --regid $user --clear-groups \
		"$dir/jobrun" run -j 1 --handlers "$dir/handlers" 3>&- 4>&-
	touch "$TMPDIR/go"
	wait_runner
	rm -rf "$dir" "/run/lock/jobrun-$user" "/tmp/jobrun-$user"
	assert_equal "$status|$output" '0|'
	run_is "$id" succeeded
}

# Two accounts of this test alone, and a place that ada can reach.
two_accounts() {
	[ "$(id -u)" -eq 0 ] || skip 'only root can be two accounts'
	ada=$((70000 + BATS_SUITE_TEST_NUMBER * 2)) eve=$((70001 + BATS_SUITE_TEST_NUMBER * 2))
	dir=$(mktemp -d /tmp/jobrun-permits.XXXXXX)
	chmod 755 "$dir"
	mkdir -m 1777 "$dir/tmp"
	install -d -o $ada "$dir/home"
	mkdir "$dir/handlers"
	install -m 755 "$JOBRUN" "$dir/jobrun"
	JOBRUN_HANDLERS=$dir/handlers waiting_handler stay
	JOBRUN_HANDLERS=$dir/handlers handler quick <<<'exit 0'
	at_end+=(remove_accounts)
}

remove_accounts() {
	rm -rf "$dir" /run/lock/jobrun-{"$ada","$eve"} /tmp/jobrun-{"$ada","$eve"}
}

as() {
	setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

as_ada() {
	env -u JOBRUN_STATE_DIR -u JOBRUN_HANDLERS HOME="$dir/home" TMPDIR="$dir/tmp" setpriv --reuid $ada --regid $ada \
		--clear-groups timeout -k 5 30 "$dir/jobrun" run --handlers "$dir/handlers" "$@" 3>&- 4>&-
}

@test "a state directory that another account made is skipped, which -v reports, and stops no runner" {
	two_accounts
	as $eve mkdir /run/lock/jobrun-$ada /tmp/jobrun-$ada
	id=$(enqueue quick)
	run --separate-stderr as_ada
	assert_equal "$status|$output|$stderr" '0||'
	run_is "$id" succeeded
	assert_equal "$(stat -c '%a %u' "$dir/home/.local/state/jobrun")" "700 $ada"
	run --separate-stderr as_ada -v
	assert_regex "$stderr" "event=state_passed_over reason=\"state directory /run/lock/jobrun-$ada belongs to user $eve, "
	assert_regex "$stderr" "event=state_passed_over reason=\"state directory /tmp/jobrun-$ada belongs to user $eve, "
	assert_regex "$stderr" "event=state_directory path=$dir/home/.local/state/jobrun"
	# Nothing of theirs is left when nothing can be made at home either.
	chown 0 "$dir/home"
	rm -rf "$dir/home/.local"
	id=$(enqueue quick)
	run --separate-stderr as_ada
	assert_equal "$status" 78
	assert_regex "$stderr" '^jobrun: there is no directory for the permits of this host; name one of your own with --state-dir'
	run_is "$id" queued
	install -d -m 700 -o $ada "$dir/state"
	run --separate-stderr as_ada --state-dir "$dir/state"
	assert_equal "$status|$stderr" '0|'
	run_is "$id" succeeded
}

@test "runners share permits before and after a directory of another account is gone" {
	two_accounts
	as $eve mkdir /run/lock/jobrun-$ada /tmp/jobrun-$ada
	enqueue stay
	as_ada -j 1 >"$BATS_TEST_TMPDIR/first" 2>&1 &
	first=$!
	wait_until 10 q_is 1 "select count(*) from jobrun.job_runs where status = 'running'"
	rmdir /run/lock/jobrun-$ada /tmp/jobrun-$ada
	id=$(enqueue quick)
	run as_ada -j 1
	assert_equal "$status|$output" '0|'
	run_is "$id" queued
	assert_equal "$(stat -c %u /run/lock/jobrun-$ada)" $ada # which the second one made
	run as_ada -j 2
	run_is "$id" succeeded
	touch "$dir/tmp/go"
	wait "$first"
	assert_equal "$(cat "$BATS_TEST_TMPDIR/first")" ''
}
