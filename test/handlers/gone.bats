#!/usr/bin/env bats
# A handler whose files go, or become such that they are refused, after the runner has read the directory.

load ../lib/common

# count_told REGEX: how many lines of the runner that stays are about it?
count_told() {
	grep -cE "^jobrun: not used any more: $1" "$runner_err" || true
}

# untouched ID...: they wait as if nobody had claimed them.
untouched() {
	for id in "$@"; do
		assert_equal "$(ended "$id")" 'queued|0'
	done
	q_is 0 "select count(*) from jobrun.job_attempts where outcome <> 'succeeded'"
}

# comes_and_goes FILE TYPE: FILE, without which TYPE cannot run, is removed while a runner stays, and comes back.
comes_and_goes() {
	local file=$1 type=$2 before while_gone other

	cp -a "$file" kept
	handler other <<<'exit 0'
	bg_runner --for 5m
	before=$(enqueue "$type")
	wait_until 15 run_is "$before" succeeded
	rm "$file"
	while_gone=$(enqueue "$type" --max-attempts 1)
	wait_until 15 grep -q 'not used any more' "$runner_err"
	other=$(enqueue other)
	wait_until 15 run_is "$other" succeeded
	untouched "$while_gone"
	assert_equal "$(count_told "$type: .*$file: No such file or directory$")" 1
	cp -a kept "$file"
	wait_until 15 run_is "$while_gone" succeeded
	kill "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(wc -l <"$runner_err")" 1
	q_is 1 "select attempts from jobrun.job_runs where id = $while_gone"
}

@test "a handler that is removed while a runner stays costs its runs nothing, and is used again when it is back" {
	handler work <<<'exit 0'
	comes_and_goes "$JOBRUN_HANDLERS/work" work
}

@test "a program that argv names may go and come back while a runner stays" {
	printf '#!/bin/sh\nexit 0\n' >work.sh
	chmod 755 work.sh
	printf '{"argv": ["%s"]}' "$PWD/work.sh" >"$JOBRUN_HANDLERS/work.json"
	comes_and_goes "$PWD/work.sh" work
}

@test "an interpreter of a #! line may go and come back while a runner stays" {
	cp /bin/true interpreter
	handler work <<<"#!$PWD/interpreter"
	comes_and_goes "$PWD/interpreter" work
}

@test "of a handler that removes itself, what is claimed already goes back uncharged, and the tick ends" {
	handler work <<<'echo >>"$TMPDIR/done"; [ "$(wc -l <"$TMPDIR/done")" -lt 12 ] || rm -f "$JOBRUN_HANDLERS/work"'
	q "select jobrun.enqueue('work') from generate_series(1, 100)" >/dev/null
	jr run -j 1
	assert_one_line 0 "^jobrun: not used any more: work: cannot use $JOBRUN_HANDLERS/work: No such file or directory$"
	q_is 0 "select count(*) from jobrun.job_runs where (status, attempts) not in (('succeeded', 1), ('queued', 0))"
	q_is "$(wc -l <"$TMPDIR/done")" "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "a handler that others can write to meanwhile is not started, and its runs wait uncharged" {
	handler opener <<<'chmod 777 "$JOBRUN_HANDLERS/work"'
	handler work <<<'touch "$TMPDIR/worked"'
	enqueue opener --priority 1
	id=$(enqueue work)
	jr run -j 1
	assert_one_line 0 "^jobrun: not used any more: work: cannot trust .*: chmod go-w $JOBRUN_HANDLERS/work$"
	untouched "$id"
	assert_file_not_exist "$TMPDIR/worked"
}

@test "run --job says that the handler is gone, and its run waits uncharged" {
	handler work <<<'exit 0'
	jr_ok queue mail --max-running 1
	id=$(enqueue work --queue mail)
	hold "select from jobrun.job_queues where name = 'mail' for update"
	bg_runner --job "$id"
	wait_until 15 q_is 1 "select count(*) from jobrun.job_runners" # it has read the directory
	rm "$JOBRUN_HANDLERS/work"
	release_holds
	wait_runner || true
	assert_equal "$runner_status" 75
	assert_equal "$(cat "$runner_err")" \
		"jobrun: run $id was not started: work: cannot use $JOBRUN_HANDLERS/work: No such file or directory"
	untouched "$id"
}

@test "the statement of a NAME.sql is the one that the runner has read when it started, also when the file is gone" {
	printf 'select 1\n' >"$JOBRUN_HANDLERS/work.sql"
	bg_runner --for 5m
	before=$(enqueue work)
	wait_until 15 run_is "$before" succeeded
	rm "$JOBRUN_HANDLERS/work.sql"
	after=$(enqueue work)
	wait_until 15 run_is "$after" succeeded
}
