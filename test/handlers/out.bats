#!/usr/bin/env bats
# JOBRUN_OUT and JOBRUN_CHECKPOINT: what a handler tells jobrun, well and badly, and what becomes of the files.

load ../lib/common

# What the run says: progress|checkpoint|result
said() {
	q "select progress, checkpoint, result from jobrun.job_runs where id = $1"
}

nothing_left() {
	[ -z "$(ls -A "$TMPDIR")" ] || {
		ls -AR "$TMPDIR"
		return 1
	}
}

@test "progress, checkpoint and result are kept with the run, and the last of each counts" {
	handler tell <<-'sh'
		echo '{"progress": {"done": 1, "of": 2}}' >> "$JOBRUN_OUT"
		echo '{"checkpoint": {"page": 7}, "progress": {"done": 2, "of": 2}}' >> "$JOBRUN_OUT"
		echo '{"result": "first"}' >> "$JOBRUN_OUT"
		printf '{"result": ["üñ", null]}' >> "$JOBRUN_OUT"
	sh
	id=$(enqueue tell)
	jr_ok run
	run_is "$id" succeeded
	assert_equal "$(said "$id")" '{"of": 2, "done": 2}|{"page": 7}|["üñ", null]'
	q_is 0 "select count(*) from jobrun.job_attempts" # nothing was printed, nothing is to be warned of
	nothing_left
}

@test "progress and checkpoint of one that failed are kept, a result is not" {
	handler tell <<<'echo "{\"progress\": 40, \"checkpoint\": [1], \"result\": 1}" >> "$JOBRUN_OUT"; exit 1'
	id=$(enqueue tell --backoff 1h)
	jr_ok run
	run_is "$id" failed
	assert_equal "$(said "$id")" '40|[1]|'
	nothing_left
}

@test "progress is seen while the handler runs" {
	handler slow <<-'sh'
		echo '{"progress": {"done": 40}}' >> "$JOBRUN_OUT"
		until [ -e "$TMPDIR/go" ]; do sleep 0.05; done
		echo '{"progress": {"done": 100}}' > "$JOBRUN_OUT"
		until [ -e "$TMPDIR/end" ]; do sleep 0.05; done
	sh
	id=$(enqueue slow)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 q_is 'running|{"done": 40}' "select status, progress from jobrun.job_runs where id = $id"
	touch "$TMPDIR/go"
	wait_until 10 q_is 'running|{"done": 100}' "select status, progress from jobrun.job_runs where id = $id"
	touch "$TMPDIR/end"
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$id" succeeded
}

@test "a checkpoint said before the runner is killed is handed to the next attempt" {
	handler work <<-'sh'
		if [ -n "$JOBRUN_CHECKPOINT" ]; then
			cat "$JOBRUN_CHECKPOINT"
			exit 0
		fi
		echo page one is done
		echo '{"checkpoint": {"page": 12345678901234567890.10}}' >> "$JOBRUN_OUT"
		exec sleep 300
	sh
	id=$(enqueue work --backoff 0s)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 q_is t "select checkpoint is not null and output is not null from jobrun.job_runs where id = $id"
	kill -KILL "$runner_pid"
	wait_runner
	wait_until 15 taken_back "$id"
	assert_equal "$(q "select output from jobrun.job_attempts where run_id = $id and outcome = 'succeeded'")" \
		'{"page": 12345678901234567890.10}'
	# So is what it had printed by then, with the attempt that was lost.
	assert_equal "$(q "select output from jobrun.job_attempts where run_id = $id and outcome = 'lost'")" 'page one is done'
	nothing_left
}

@test "a checkpoint reaches the next attempt on another host, and there its file is as private" {
	handler steps <<-'sh'
		if [ "$JOBRUN_ATTEMPT" -gt 1 ]; then
			cat "$JOBRUN_CHECKPOINT"
			stat -c '%a %U' "$JOBRUN_CHECKPOINT"
		fi
		echo "{\"checkpoint\": $JOBRUN_ATTEMPT}" >> "$JOBRUN_OUT"
		[ "$JOBRUN_ATTEMPT" -eq 3 ]
	sh
	id=$(enqueue steps --backoff 1h)
	for host in 1 2 3; do
		mkdir "other.$host"
		q "update jobrun.job_runs set run_at = now()"
		TMPDIR=$PWD/other.$host JOBRUN_STATE_DIR=$PWD/state.$host jr_ok run
		[ -z "$(ls -A "other.$host")" ]
	done
	private="600 $(id -un)"
	assert_equal "$(printed "$id")" "
1
$private
2
$private"
	run_is "$id" succeeded
}

@test "a checkpoint that the limit of file sizes does not let the runner write puts its run off, and ends no runner" {
	handler steps <<-'sh'
		[ -z "$JOBRUN_CHECKPOINT" ] || exit 0
		{ printf '{"checkpoint": "'; head -c 100000 /dev/zero | tr '\0' x; echo '"}'; } >> "$JOBRUN_OUT"
		exit 1
	sh
	handler beside <<<'sleep 0.2'
	id=$(enqueue steps)
	jr_ok run --max-runs 1
	q "update jobrun.job_runs set run_at = now()"
	beside=$(enqueue beside)
	run --separate-stderr bash -c 'ulimit -f 50 && exec "$0" run -j 2' "$JOBRUN"
	assert_equal "$stderr" ''
	assert_equal "$status" 0
	run_is "$beside" succeeded
	assert_equal "$(field "$id" 'status, attempts, snoozes, error_code')" 'queued|1|1|cannot-start'
	assert_regex "$(field "$id" last_error)" 'JOBRUN_CHECKPOINT in .*: File too large$'
}

@test "a stderr that has reached the limit of file sizes ends no runner, and a handler that reaches it is killed as by default" {
	handler large <<<'exec head -c 100000 /dev/zero >large'
	printf '{"cwd": "%s"}\n' "$TMPDIR" >"$JOBRUN_HANDLERS/large.json"
	id=$(enqueue large --max-attempts 1)
	head -c 51200 /dev/zero >full
	run -1 bash -c 'ulimit -c 0 -f 50 && exec "$0" run -v 2>>full' "$JOBRUN"
	assert_equal "$(ended "$id")" 'dead|1|signal:XFSZ'
	run -153 bash -c 'ulimit -c 0 -f 50 && exec "$0" exec x -- sh -c "exec head -c 100000 /dev/zero >full"' "$JOBRUN"
	run -153 bash -c 'ulimit -c 0 -f 50 && exec "$0" effect x -- head -c 100000 /dev/zero >full' "$JOBRUN"
	rm "$TMPDIR/large"
}

@test "a checkpoint of null removes it" {
	handler work <<-'sh'
		echo "${JOBRUN_CHECKPOINT:+there}"
		case $JOBRUN_ATTEMPT in
		1) echo '{"checkpoint": 1}' ;;
		2) echo '{"checkpoint": null}' ;;
		esac >> "$JOBRUN_OUT"
		[ "$JOBRUN_ATTEMPT" -eq 3 ]
	sh
	id=$(q "select jobrun.enqueue('work', backoff_base => '0')")
	jr_ok run
	assert_equal "$(printed "$id")" $'\nthere'
}

@test "retry_in delays the next attempt after a failure or 75, by a day at most, and never shortens it" {
	handler fail <<<'echo "{\"retry_in\": \"$(cat | tr -d \")\"}" >> "$JOBRUN_OUT"; exit 1'
	handler later <<<'echo "{\"retry_in\": \"$(cat | tr -d \")\"}" >> "$JOBRUN_OUT"; exit 75'
	for type in fail later; do
		enqueue "$type" '"2h"' --backoff 10s
		enqueue "$type" '"60d"' --backoff 10s
		enqueue "$type" '"1s"' --backoff 10m
	done
	jr_ok run
	q_is 'fail "2h" 02:00:00,fail "60d" 1 day,later "2h" 02:00:00,later "60d" 1 day' "select string_agg(concat_ws(' ', job_type, payload,
		justify_hours(date_trunc('second', run_at - a.finished_at))), ',' order by r.id) from jobrun.job_runs r join
		jobrun.job_attempts a on a.run_id = r.id where payload <> '\"1s\"'"
	q_is 't|2' "select bool_and(run_at - now() between interval '4 min' and interval '10 min'), count(*) from jobrun.job_runs
		where payload = '\"1s\"'"
}

@test "bad lines are warnings behind the output, and never a failed run" {
	handler bad <<-'sh'
		printf 'says something'
		{
			echo 'no json'
			echo '{"progres": 1}'
			printf '{"progress": "\377"}\n'
			printf '{"progress": "\000"}\n'
			echo '{"retry_in": 5}'
			echo
			echo '{"result": "good"}'
			printf '{"result": '
		} >> "$JOBRUN_OUT"
	sh
	id=$(enqueue bad)
	jr_ok run
	assert_equal "$stderr" ''
	run_is "$id" succeeded
	assert_equal "$(said "$id")" '||"good"'
	jr_ok logs "$id"
	printf '%s\n' "${lines[@]}" >logs
	assert_equal "$(grep -c '^jobrun: line . of JOBRUN_OUT: ' logs)" 6
	assert_equal "$(sed -n '/^jobrun:/!p' logs | grep -c '^says something$')" 1
	grep -q '^jobrun: line 1 of JOBRUN_OUT: not JSON' logs
	grep -qF 'jobrun: line 2 of JOBRUN_OUT: unknown member "progres": did you mean "progress"?' logs
	grep -q '^jobrun: line 4 of JOBRUN_OUT: it has a NUL byte' logs
	grep -q '^jobrun: line 8 of JOBRUN_OUT: not JSON' logs
}

@test "warnings do not take the place of the reason for which a run failed" {
	handler bad <<<'echo bad >> "$JOBRUN_OUT"; echo the reason; exit 3'
	handler quiet <<<'echo bad >> "$JOBRUN_OUT"; exit 3'
	bad=$(enqueue bad --backoff 1h)
	quiet=$(enqueue quiet --backoff 1h)
	jr_ok run
	q_is 'exit 3: the reason' "select last_error from jobrun.job_runs where id = $bad"
	q_is 'exit 3' "select last_error from jobrun.job_runs where id = $quiet"
	assert_regex "$(printed "$quiet")" '^jobrun: line 1 of JOBRUN_OUT: '
}

@test "a thousand bad lines are ten warnings and a count" {
	handler bad <<<'seq 1000 >> "$JOBRUN_OUT"'
	id=$(enqueue bad)
	jr_ok run
	assert_equal "$(printed "$id" | grep -c '^jobrun: line')" 10
	assert_equal "$(printed "$id" | tail -n 1)" 'jobrun: JOBRUN_OUT: 990 more warnings'
}

@test "100 MB in JOBRUN_OUT: the end is read, with a warning" {
	handler flood <<-'sh'
		echo '{"result": "lost"}' >> "$JOBRUN_OUT"
		yes '{"progress": {"done": 1, "text": "one of many lines that nobody can read that fast"}}' | head -c 100000000 >> "$JOBRUN_OUT"
		echo >> "$JOBRUN_OUT"
		echo '{"progress": "end"}' >> "$JOBRUN_OUT"
	sh
	id=$(enqueue flood)
	jr_ok run
	run_is "$id" succeeded
	assert_equal "$(said "$id")" '"end"||'
	assert_regex "$(printed "$id")" 'jobrun: JOBRUN_OUT: more than 4 MiB at once: only the end is read'
	nothing_left
}

@test "one line of 100 MB is a warning" {
	handler flood <<-'sh'
		{ printf '{"result": "'; head -c 100000000 /dev/zero | tr '\0' x; echo '"}'; } >> "$JOBRUN_OUT"
		echo '{"progress": 1}' >> "$JOBRUN_OUT"
	sh
	id=$(enqueue flood)
	jr_ok run
	run_is "$id" succeeded
	assert_equal "$(said "$id")" '1||'
	assert_regex "$(printed "$id")" '^jobrun: '
}

@test "results and checkpoints of 1 MiB are kept whole, larger ones are a warning" {
	handler large <<-'sh'
		{ printf '{"%s": "' "$(cat | tr -d '" ' | cut -d: -f1)"; head -c "$(sed 's/.*://' "$TMPDIR/n")" /dev/zero | tr '\0' x; echo '"}'; } >> "$JOBRUN_OUT"
	sh
	echo n:1048574 >"$TMPDIR/n"
	result=$(enqueue large '"result"')
	checkpoint=$(enqueue large '"checkpoint"')
	jr_ok run
	q_is "$result|1048576|, $checkpoint||1048576" "select string_agg(concat_ws('|', id, coalesce(length(result::text)::text, ''),
		coalesce(length(checkpoint::text)::text, '')), ', ' order by id) from jobrun.job_runs"
	echo n:1048700 >"$TMPDIR/n"
	result=$(enqueue large '"result"')
	jr_ok run
	run_is "$result" succeeded
	assert_equal "$(said "$result")" '||'
	assert_regex "$(printed "$result")" 'longer than 1 MiB'
}

@test "a text that the database cannot hold is a warning, and the outcome is still written" {
	handler hard <<-'sh'
		case $(cat) in
		1) echo '{"progress": 1e-20000}' ;;
		2) echo '{"progress": "\u0000"}' ;;
		3) echo '{"progress": "\ud800"}' ;;
		4) perl -e 'print "{\"progress\": [", join(",", (1) x 20000), "]}\n"' ;;
		5) perl -e 'print "{\"result\": [", join(",", (1) x 400000), "]}\n"' ;;
		6) perl -e 'print "{\"result\": ", "[" x 100000, "]" x 100000, "}\n"' ;;
		7) perl -e 'print "{\"result\": ", "7" x 200000, "}\n"' ;;
		8) perl -e 'print "{\"progress\": {", join(",", map { "\"k$_\": \"\"" } 1 .. 3000), "}}\n"' ;;
		9) perl -e 'print "{\"checkpoint\": [", join(",", ("1e-15999") x 8000), "]}\n"' ;; # 128 MB when it is printed
		esac >> "$JOBRUN_OUT"
	sh
	q "select jobrun.enqueue('hard', to_jsonb(n)) from generate_series(1, 9) n" >/dev/null
	jr_ok run -j 9
	q_is 'succeeded|9' "select status, count(*) from jobrun.job_runs group by 1"
	# The eighth fits.
	q_is 8 "select count(*) from jobrun.job_attempts where output like 'jobrun: line 1 of JOBRUN_OUT: %'"
	q_is 8 "select payload from jobrun.job_runs where progress is not null or result is not null
		or checkpoint is not null"
}

# in_encoding ENCODING: the test goes on in a database of its own with this encoding, until drop_encoded.
in_encoding() {
	encoded=${JR_DATABASE}_encoded
	usual=$JOBRUN_DATABASE_URL
	admin "create database $encoded template template0 encoding '$1' lc_collate 'C' lc_ctype 'C'"
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$encoded"
	jr_ok migrate
}

drop_encoded() {
	export JOBRUN_DATABASE_URL=$usual
	admin "drop database $encoded"
}

@test "texts that the encoding of the database lacks are left out, and the outcome is written" {
	handler fails <<<'echo "{\"progress\": \"日\", \"checkpoint\": \"本\"}" >> "$JOBRUN_OUT"; echo 日本; exit 1'
	handler works <<<'echo "{\"progress\": \"日\", \"result\": \"本\"}" >> "$JOBRUN_OUT"; echo 日本; until [ -e "$TMPDIR/end" ]; do sleep 0.05; done'
	in_encoding LATIN1
	# What cannot be written of one costs no other its checkpoint.
	handler odd <<<'until [ -e "$TMPDIR/go" ]; do echo 日本; sleep 0.05; done'
	handler plain <<<'echo "{\"checkpoint\": 7}" >> "$JOBRUN_OUT"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	enqueue odd
	enqueue plain
	bg_runner -j 2 --lease 60s --heartbeat 1s
	wait_until 10 q_is 7 "select checkpoint from jobrun.job_runs where job_type = 'plain' and status = 'running'"
	touch "$TMPDIR/go"
	wait_runner
	enqueue fails --max-attempts 1
	enqueue works
	bg_runner -j 2 --lease 60s --heartbeat 1s
	wait_until 10 q_is t "select locked_until - started_at > '61 s' from jobrun.job_runs where job_type = 'works'" # a heartbeat
	touch "$TMPDIR/end"
	wait_runner
	found=$(q 'select job_type, status, claim_seq from jobrun.job_runs order by id offset 2')
	drop_encoded
	assert_equal "$found" $'fails|dead|1\nworks|succeeded|1'
}

@test "an escape in JSON that a database in SQL_ASCII cannot convert is left out of an outcome, and refused in a payload with 65" {
	handler fails <<<'echo "{\"progress\": \"\u20ac\", \"checkpoint\": \"\u20ac\"}" >>"$JOBRUN_OUT"; exit 1'
	handler works <<<'echo "{\"result\": \"\u20ac\"}" >>"$JOBRUN_OUT"'
	in_encoding SQL_ASCII
	enqueue fails --max-attempts 1
	enqueue works
	jr run
	ran=$status
	found=$(q 'select job_type, status, claim_seq from jobrun.job_runs order by id')
	jr enqueue works '{"price": "\u20ac"}'
	drop_encoded
	assert_one_line 65 '^jobrun: conversion between UTF8 and SQL_ASCII is not supported$'
	assert_equal "$ran $found" $'1 fails|dead|1\nworks|succeeded|1'
}

@test "a line is taken if it fits as jsonb: 60,000 small numbers do" {
	handler count <<<'perl -e '"'"'print "{\"result\": [", join(",", (1) x 60000), "]}\n"'"'"' >>"$JOBRUN_OUT"'
	id=$(enqueue count)
	jr_ok run
	q_is '60000|720008' "select jsonb_array_length(result), pg_column_size(result || '[]') from jobrun.job_runs where id = $id"
}

@test "a result keeps its numbers to the last digit" {
	handler count <<<'echo "{\"result\": {\"a\": 123456789012345678901234567890.10, \"b\": 9223372036854775808, \"c\": 1e-30}}" >> "$JOBRUN_OUT"'
	id=$(enqueue count)
	jr_ok run
	q_is '{"a": 123456789012345678901234567890.10, "b": 9223372036854775808, "c": 0.000000000000000000000000000001}' \
		"select result from jobrun.job_runs where id = $id"
}

@test "a file that a handler puts in place of JOBRUN_OUT is not read, and a warning says so" {
	printf '{"result": "of somebody else"}\n' >"$TMPDIR/secret"
	chmod 600 "$TMPDIR/secret"
	# The runner has seen the first file when its progress can be read.
	body='echo "{\"progress\": 1}" >"$JOBRUN_OUT"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done; rm "$JOBRUN_OUT"'
	handler link <<<"$body; ln -s \"\$TMPDIR/secret\" \"\$JOBRUN_OUT\""
	handler move <<<"$body; cp \"\$TMPDIR/secret\" \"\$TMPDIR/new\"; mv \"\$TMPDIR/new\" \"\$JOBRUN_OUT\""
	handler fifo <<<"$body; mkfifo \"\$JOBRUN_OUT\""
	handler directory <<<"$body; mkdir \"\$JOBRUN_OUT\""
	handler gone <<<"$body"
	for type in link move fifo directory gone; do
		enqueue "$type"
	done
	bg_runner -j 5 --lease 60s --heartbeat 1s
	wait_until 15 q_is 5 "select count(*) from jobrun.job_runs where progress is not null"
	touch "$TMPDIR/go"
	wait_runner
	q_is 'succeeded|5|0' "select status, count(*), count(result) from jobrun.job_runs group by 1"
	q_is 5 "select count(*) from jobrun.job_attempts where output like 'jobrun: JOBRUN_OUT: it was removed or replaced: %'"
	rm "$TMPDIR/go"
	assert_equal "$(ls -A "$TMPDIR")" secret
}

@test "what a handler makes instead of JOBRUN_OUT is not read unless it is a plain file, and nothing of it is left" {
	printf '{"result": "of somebody else"}\n' >"$TMPDIR/secret"
	handler link <<<'ln -s "$TMPDIR/secret" "$JOBRUN_OUT"'
	handler fifo <<<'mkfifo "$JOBRUN_OUT"'
	handler directory <<<'mkdir -p "$JOBRUN_OUT/in"; touch "$JOBRUN_OUT/in/file"'
	handler never <<<'[ ! -e "$JOBRUN_OUT" ]'
	handler gone <<<'echo "{\"result\": 1}" >"$JOBRUN_OUT"; rm "$JOBRUN_OUT"'
	handler anew <<<'umask 077; echo "{\"result\": 7}" >"$JOBRUN_OUT"'
	handler more <<<'umask 0; echo "{\"result\": 7}" >>"$JOBRUN_OUT"'
	for type in link fifo directory never gone anew more; do
		enqueue "$type"
	done
	jr_ok run
	q_is 'succeeded|7' "select status, count(*) from jobrun.job_runs group by 1"
	q_is 'anew|7;more|7' "select string_agg(job_type || '|' || result, ';' order by job_type) from jobrun.job_runs where result is not null"
	q_is 'directory,fifo,link' "select string_agg(r.job_type, ',' order by r.job_type) from jobrun.job_attempts a
		join jobrun.job_runs r on r.id = a.run_id
		where a.output like 'jobrun: JOBRUN_OUT: it is not a plain file that can be read: %'"
	q_is 3 "select count(*) from jobrun.job_attempts"
	assert_equal "$(ls -A "$TMPDIR")" secret
}

@test "writing JOBRUN_OUT with > instead of >> works" {
	handler anew <<-'sh'
		for i in 1 2 3 10; do
			echo "{\"progress\": $i}" > "$JOBRUN_OUT"
			sleep 0.1 # time for the runner to read the file in between, or not
		done
		echo '{"result": 1}' > "$JOBRUN_OUT"
	sh
	id=$(enqueue anew)
	jr_ok run
	assert_equal "$(said "$id")" '||1' # what is overwritten before anybody has read it has not been said
	assert_equal "$(printed "$id")" ''
}

@test "one handler does not see the file of another one's attempt afterwards, and nothing is left after the tick" {
	handler look <<<'echo >"$JOBRUN_OUT"; ls "${JOBRUN_OUT%/*}" | wc -l; stat -c %a "${JOBRUN_OUT%/*}"'
	id=$(enqueue look)
	enqueue look
	jr_ok run -j 1
	q_is 2 "select count(*) from jobrun.job_attempts where output = E'1\n700\n'"
	nothing_left
}

@test "the next runner removes the files of a killed runner, and not those of a living one" {
	handler wait <<<'touch "$JOBRUN_OUT"; echo "$JOBRUN_OUT" > "$TMPDIR/path.$JOBRUN_RUN_ID"; until [ -e "$TMPDIR/end" ]; do sleep 0.05; done; echo "{\"result\": 1}" >> "$JOBRUN_OUT"'
	handler quick <<<'exit 0'
	killed=$(enqueue wait --max-attempts 1)
	bg_runner
	wait_until 10 test -s "$TMPDIR/path.$killed"
	kill -KILL "$runner_pid"
	wait_runner
	path=$(cat "$TMPDIR/path.$killed")
	assert_file_exist "$path"
	living=$(enqueue wait --max-attempts 1)
	bg_runner --job "$living"
	wait_until 10 test -s "$TMPDIR/path.$living"
	enqueue quick
	jr run --type quick
	assert_file_not_exist "$path"
	assert_file_not_exist "${path%/*}"
	assert_file_exist "$(cat "$TMPDIR/path.$living")"
	touch "$TMPDIR/end"
	wait_runner
	run_is "$living" succeeded
	assert_equal "$(said "$living")" '||1'
	[ -z "$(find "$TMPDIR" -name 'jobrun-out-*')" ]
}

@test "nested folders beside JOBRUN_OUT are removed at the end, or after a killed runner by the next one" {
	handler litter <<-'sh'
		cd "${JOBRUN_OUT%/*}"
		mkdir -p a/b/c locked/in
		touch a/file a/b/c/file locked/in/file
		ln -s "$TMPDIR" a/link
		chmod 000 locked
		echo up >>"$TMPDIR/up"
		until [ -e "$TMPDIR/go" ]; do sleep 0.05; done
	sh
	enqueue litter
	bg_runner # its lease outlasts this test, so no tick takes the run back
	wait_until 10 up_is 1
	kill -KILL "$runner_pid"
	wait_runner
	find "$TMPDIR" -path '*/a/b/c/file' | grep -q .
	touch "$TMPDIR/go"
	for _ in {1..20}; do # a slow machine may not have done it in the time that a sweep has
		id=$(enqueue litter)
		jr_ok run --job "$id"
		run_is "$id" succeeded
		[ -n "$(find "$TMPDIR" -name 'jobrun-out-*')" ] || break
	done
	assert_equal "$(ls -A "$TMPDIR" | paste -sd' ')" 'go up'
}

@test "where no directory for the files can be made, programs are refused, and their runs are left to other hosts" {
	handler work <<<'touch "$JOBRUN_HANDLERS/../ran"'
	echo 'select to_jsonb(7)' >"$JOBRUN_HANDLERS/statement.sql"
	id=$(enqueue work --backoff 1h)
	statement=$(enqueue statement)
	TMPDIR=/no/such/directory jr run
	assert_one_line 0 '^jobrun: not used: work: the directory for JOBRUN_OUT cannot be made in /no/such/directory: No such file or directory; set TMPDIR '
	q_is 'queued|0|0|0' "select status, attempts, snoozes, claim_seq from jobrun.job_runs where id = $id"
	run_is "$statement" succeeded
	TMPDIR=/no/such/directory jr try work
	assert_one_line 78 'set TMPDIR'
	assert_file_not_exist ran
	jr_ok run
	run_is "$id" succeeded
}

@test "without a directory for the files nothing is started, and the run is not charged" {
	handler work <<<'touch "$JOBRUN_HANDLERS/../ran"'
	mkdir goes
	TMPDIR=$PWD/goes bg_runner --for 60s -v
	wait_until 10 grep -q event=linger_start "$runner_err"
	rmdir goes
	id=$(enqueue work --backoff 1h)
	wait_until 10 q_is 'queued|0|1' "select status, attempts, snoozes from jobrun.job_runs where id = $id"
	q_is t "select error like 'could not make a directory for JOBRUN_OUT in $PWD/goes: %' from jobrun.job_attempts"
	assert_file_not_exist ran
}
