#!/usr/bin/env bats
# What an exec handler gets, and what is kept of it: payload, environment, descriptors, output, cost.

load ../lib/common

@test "the payload arrives on stdin unchanged to the last digit, with a newline after it" {
	handler take <<<'cat > "$TMPDIR/stdin.$JOBRUN_RUN_ID"'
	for payload in '{"amount": 12345678901234567890.10}' '"\"\\ \t ünïcödé 🙂"' '[]' 'null' '1e-7' "\"'; drop table x; \$(id)\""; do
		id=$(enqueue take "$payload")
		jr_ok run
		q "select payload::text from jobrun.job_runs where id = $id" | cmp - "$TMPDIR/stdin.$id"
	done
	assert_equal "$(cat "$TMPDIR"/stdin.1)" '{"amount": 12345678901234567890.10}'
}

@test "a payload of 1 MiB arrives whole, and a handler that never reads it succeeds" {
	{
		printf '"'
		head -c 1048574 /dev/zero | tr '\0' x
		printf '"'
	} >payload
	handler count <<<'wc -c'
	handler deaf <<<'exit 0'
	handler shut <<<'exec <&-; sleep 0.2; exit 0'
	handler slow <<<'sleep 0.5; wc -c'
	handler some <<<'head -c 3 > /dev/null; sleep 0.2'
	for type in count deaf shut slow some; do
		enqueue "$type" @payload
	done
	jr_ok run -j 2
	q_is 'count succeeded 1048577,deaf succeeded,shut succeeded,slow succeeded 1048577,some succeeded' "
		select string_agg(concat_ws(' ', job_type, status, rtrim(a.output, E'\n')), ',' order by job_type)
		from jobrun.job_runs r left join jobrun.job_attempts a on a.run_id = r.id"
}

@test "a handler's environment is the runner's without its secrets, plus the variables of the run" {
	ln -s "$(readlink -f "$(type -P env)")" "$JOBRUN_HANDLERS/printenv"
	id=$(enqueue printenv --queue mail --max-attempts 7 --idempotency-key 'order 4711')
	run env -i PATH=/usr/bin:/bin HOME="$HOME" TMPDIR="$TMPDIR" FOO=bar EMPTY= JOBRUN_TEST_ID="$JOBRUN_TEST_ID" \
		LD_LIBRARY_PATH=/nowhere LD_BIND_NOW=1 PGPASSWORD=hunter2 PGAPPNAME=kept JOBRUN_RUN_ID=stale JOBRUN_CLAIM=stale \
		JOBRUN_SLOT=stale JOBRUN_DEADLINE=stale JOBRUN_OUT=stale JOBRUN_CHECKPOINT=stale DATABASE_URL=postgresql://app:hunter2@db/app \
		JOBRUN_DATABASE_URL="$JOBRUN_DATABASE_URL password=hunter2" \
		JOBRUN_HANDLERS="$JOBRUN_HANDLERS" JOBRUN_STATE_DIR="$JOBRUN_STATE_DIR" \
		"$JOBRUN" run 3>&- 4>&-
	assert_equal "$status|$output" '0|'
	assert_equal "$(printed "$id" | sed 's/jobrun-out-.*/private/' | sort)" "$(sort <<-END
		EMPTY=
		FOO=bar
		HOME=$HOME
		JOBRUN_ATTEMPT=1
		JOBRUN_CLAIM=1
		JOBRUN_HANDLERS=$JOBRUN_HANDLERS
		JOBRUN_KEY=order 4711
		JOBRUN_MAX_ATTEMPTS=7
		JOBRUN_OUT=$TMPDIR/private
		JOBRUN_QUEUE=mail
		JOBRUN_RUN_ID=$id
		JOBRUN_STATE_DIR=$JOBRUN_STATE_DIR
		JOBRUN_TEST_ID=$JOBRUN_TEST_ID
		JOBRUN_TYPE=printenv
		PATH=/usr/bin:/bin
		PGAPPNAME=kept
		TMPDIR=$TMPDIR
	END
	)"
}

@test "a handler's JOBRUN_DATABASE_URL is JOBRUN_HANDLER_DATABASE_URL, or else the runner's if that has no password" {
	handler url <<<'env | grep DATABASE_URL'
	id=$(enqueue url)
	jr_ok run
	assert_equal "$(printed "$id")" "JOBRUN_DATABASE_URL=$JOBRUN_DATABASE_URL"
	id=$(enqueue url)
	JOBRUN_HANDLER_DATABASE_URL='postgresql://app:given@db/app' jr_ok run
	assert_equal "$(printed "$id")" 'JOBRUN_DATABASE_URL=postgresql://app:given@db/app'
}

@test "JOBRUN_KEY is made of installation and run and the same on each attempt, and JOBRUN_CLAIM differs" {
	handler fail <<<'echo "$JOBRUN_ATTEMPT $JOBRUN_CLAIM $JOBRUN_KEY"; [ "$JOBRUN_ATTEMPT" -eq 3 ]'
	id=$(q "select jobrun.enqueue('fail', backoff_base => '0')")
	jr_ok run
	key=$(q "select install_id from jobrun.settings")-$id
	assert_equal "$(printed "$id")" "1 1 $key
2 2 $key
3 3 $key"
	q "update jobrun.job_runs set idempotency_key = 'mine'"
	jr_ok retry --force "$id"
	jr run
	assert_regex "$(printed "$id")" '1 4 mine'
}

@test "JOBRUN_CHECKPOINT is set on an attempt after one that left a checkpoint" {
	handler step <<-'sh'
		echo "${JOBRUN_CHECKPOINT+there}"
		echo '{"checkpoint": 1}' >> "$JOBRUN_OUT"
		exit "$((2 - JOBRUN_ATTEMPT))"
	sh
	id=$(q "select jobrun.enqueue('step', backoff_base => '0')")
	jr_ok run
	assert_equal "$(printed "$id")" $'\nthere'
}

@test "JOBRUN_DEADLINE is set for a run with a timeout, to the second at which it ends" {
	handler deadline <<<'echo "$JOBRUN_DEADLINE"'
	id=$(enqueue deadline --timeout 100s)
	before=$(date +%s)
	jr_ok run
	# It began in between.
	assert_between $((before + 100)) "$(printed "$id")" $(($(date +%s) + 100))
}

@test "a handler starts in the handlers directory, with descriptors 0 to 2, no arguments and signals as they come by default" {
	handler place <<<'pwd -P; echo "$# arguments"; ps -o pid=,pgid=,sid= -p $$ | xargs; echo $$'
	printf '#!/bin/ls /proc/self/fd\n' >"$JOBRUN_HANDLERS/fds"
	chmod 755 "$JOBRUN_HANDLERS/fds"
	handler signals <<<'exec grep -E "^Sig(Blk|Ign)" /proc/self/status'
	place=$(enqueue place)
	signals=$(enqueue signals)
	fds=$(enqueue fds)
	jr_ok run -j 1 7<"$BATS_TEST_FILENAME" 200<"$BATS_TEST_FILENAME"
	printed "$place" >"$TMPDIR/says"
	assert_equal "$(sed -n 1,2p "$TMPDIR/says")" "$(readlink -f "$JOBRUN_HANDLERS")
0 arguments"
	# 32 and 33 belong to the C library, which lets nobody reset them.
	assert_equal "$(printed "$signals" | awk '/^Sig/ { sub(/180000000$/, "000000000"); print $1 $2 }' | paste -sd' ')" \
		'SigBlk:0000000000000000 SigIgn:0000000000000000'
	# The leader of a session and of a group of its own.
	pid=$(tail -n 1 "$TMPDIR/says")
	assert_equal "$(sed -n 3p "$TMPDIR/says")" "$pid $pid $pid"
	# Descriptor 3 is ls's own.
	assert_equal "$(printed "$fds" | sed -n '/^\/proc/,$p' | paste -sd' ')" '/proc/self/fd: 0 1 2 3'
}

@test "stdout and stderr are kept in the order in which they came" {
	handler talk <<<'echo one; echo two >&2; echo three; echo four >&2'
	id=$(enqueue talk)
	jr_ok run
	assert_equal "$(printed "$id")" "one
two
three
four"
}

@test "10 MB of output are read to the end and kept as head and tail, with what was dropped counted" {
	handler flood <<<'seq 1500000'
	id=$(enqueue flood)
	jr_ok run
	total=$(seq 1500000 | wc -c)
	q_is "succeeded|$((total - 16384 - 49152))|t|t|t" "select r.status, a.output_dropped, a.output like E'1\n2\n3\n%',
		a.output like E'%\n1499999\n1500000\n', octet_length(a.output) between 65536 and 65736
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id where r.id = $id"
	assert_regex "$(printed "$id" | grep dropped)" "^\[\.\.\. $((total - 65536)) bytes dropped \.\.\.\]"
}

@test "NUL and bytes that are no UTF-8 are made fit for a text column, in output and in the error" {
	handler dirt <<<'printf "a\000b\377c\355\240\200d \303\274\n"; exit 1'
	id=$(enqueue dirt --backoff 1h)
	jr_ok run
	text=$'a\uFFFDb\uFFFDc\uFFFD\uFFFD\uFFFDd ü'
	assert_equal "$(printed "$id")" "$text"
	q_is "exit 1: $text" "select last_error from jobrun.job_runs where id = $id"
	handler noise <<<'head -c 300000 /dev/urandom; exit 1'
	id=$(enqueue noise --backoff 1h)
	jr_ok run
	run_is "$id" failed
}

@test "an error text that is too long is clipped on a character boundary" {
	handler long <<<'for i in 1 2 3 4 5 6 7 8 9 10; do printf "%0500d" 7 | sed "s/0/ü/g"; done; exit 1'
	id=$(enqueue long --backoff 1h)
	jr_ok run
	q_is 'failed|t' "select status, octet_length(last_error) between 1000 and 2048 from jobrun.job_runs where id = $id"
}

@test "the cost of an attempt is recorded; a plain success has no row of its own, but is in the view" {
	handler burn <<<'timeout 0.4 sh -c "while :; do :; done"; head -c 300M /dev/zero | tail -n 1 >/dev/null; exit 1'
	handler small <<<'exit 1'
	handler plain <<<'exit 0'
	burn=$(enqueue burn --backoff 1h)
	small=$(enqueue small --backoff 1h)
	plain=$(enqueue plain)
	jr_ok run
	q_is t "select cpu_ms between 100 and 20000 and max_rss_kb between 300000 and 900000 and pid > 1 and exit_status = 1
		and host = '$(hostname)' and finished_at >= started_at from jobrun.job_attempts where run_id = $burn"
	# A child begins with the memory of jobrun: what is no more than that is not known.
	q_is t "select max_rss_kb is null from jobrun.job_attempts where run_id = $small"
	q_is 0 "select count(*) from jobrun.job_attempts where run_id = $plain"
	q_is '1|1|succeeded' "select claim_seq, attempt, outcome from jobrun.attempts where run_id = $plain"
}
