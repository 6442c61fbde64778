#!/usr/bin/env bats
# From one version to the next: the program of the version before, in test/lib/previous.tar.xz, and this one, as it will be released.

load ../lib/common
load ../lib/pooler
load ../lib/proxy
load ../lib/upgrade
load ../lib/variant
load ../lib/web

# Both programs, for all tests.
setup_file() {
	export BEFORE=$BATS_FILE_TMPDIR/before/jobrun RELEASED=$BATS_FILE_TMPDIR/released/jobrun
	previous "$BATS_FILE_TMPDIR/before"
	released "$BATS_FILE_TMPDIR/released" "$BATS_FILE_TMPDIR/before"
}

# A database of the version before; the version and the number of the functions as they shall become.
setup() {
	common_setup
	JOBRUN=$RELEASED
	drop_schema
	with "$BEFORE" jr_ok migrate
	version=$(newest "$TOP")
	number=$(functions_number "$BATS_FILE_TMPDIR/released")
}

@test "a database of the version before becomes the same as a new one, and keeps its rows" {
	local columns

	needs_dump
	with "$BEFORE" jr_ok define nightly --schedule '0 3 * * *'
	with "$BEFORE" jr_ok enqueue work
	q "update jobrun.settings set keep_dead = '1 day'" "update jobrun.job_definitions set enabled = false where name = 'jobrun.prune'"
	mapfile -t columns < <(columns_of settings job_definitions job_runs)
	rows "${columns[@]}" >"$TMPDIR/rows"
	jr_ok migrate
	q_is "$version $number" "select max(version) filter (where name <> 'functions') || ' ' || max(version) filter (where name = 'functions')
		from jobrun.schema_migrations"
	rows "${columns[@]}" | diff "$TMPDIR/rows" -
	dump >"$TMPDIR/dump"
	drop_schema
	jr_ok migrate
	dump | diff - "$TMPDIR/dump"
}

@test "the version before starts nothing after migrate, and says what to do" {
	handler work <<<'exit 0'
	with "$BEFORE" jr_ok enqueue work
	jr_ok migrate
	with "$BEFORE" jr run
	assert_equal "$status" 78
	assert_regex "$stderr" 'newer than .*install a newer jobrun'
	q_is queued 'select status from jobrun.job_runs'
	jr_ok run
	q_is succeeded 'select status from jobrun.job_runs'
}

# What a runner calls after a claim, and its handlers for it: arguments with their names, and results.
after_claim() {
	q 'set search_path = pg_catalog' "select p.proname || '(' || pg_get_function_arguments(p.oid) || '): ' || pg_get_function_result(p.oid)
		from pg_proc p where p.pronamespace = 'jobrun'::regnamespace and p.proname in ('settle', 'settle_done', 'settle_group', 'raise_alarm', 'prune_step', 'effect',
			'effect_begin', 'effect_claim', 'effect_done', 'effect_undo', 'effect_end', 'effect_look') order by 1"
}

@test "functions that a runner of the version before calls after a claim keep their signature" {
	after_claim >"$TMPDIR/before.txt"
	jr_ok migrate
	after_claim >"$TMPDIR/after.txt"
	assert_regex "$(cat "$TMPDIR/before.txt")" 'settle_done\(run_ids bigint'
	run grep -vxFf "$TMPDIR/after.txt" "$TMPDIR/before.txt"
	assert_output ''
}

@test "this program works with the schema of the version before until somebody migrates" {
	local role=app_$JR_DATABASE command

	handler work <<<'echo done'
	handler fails <<<'exit 65'
	echo 'select 1' >"$JOBRUN_HANDLERS/add.sql"
	for command in 'define work --schedule @daily' 'queue mail --max-running 3' 'enqueue work' 'enqueue add' 'enqueue work --in 1h' 'enqueue fails'; do
		# shellcheck disable=SC2086 # words
		jr_ok $command
	done
	jr run
	assert_equal "$status" 1
	run_is 1 succeeded
	run_is 2 succeeded
	run_is 4 dead
	for command in list 'show 1' 'logs 1' 'wait 1' 'explain 3' 'slots work' 'next work' 'retry 4' 'cancel 3' 'pause --type work' 'resume --type work' \
		'pause --all' 'resume --all' prune 'exec old -- true' 'effect once -- true'; do
		# shellcheck disable=SC2086 # words
		jr_ok $command
	done
	# What only shows may need more, and says so.
	for command in status stats metrics "report -o $TMPDIR/page.html"; do
		# shellcheck disable=SC2086 # words
		jr $command
		[ "$status" -eq 0 ] || assert_one_line 78 "type 'jobrun migrate'"
	done
	q "create role $role login"
	jr_ok grant run "$role"
	q 'delete from jobrun.job_grants' "drop owned by $role" "drop role $role"
	jr migrate --status
	assert_equal "$status" 1
	assert_regex "${lines[-1]}" "^ +$number  functions +pending$"
	with "$BEFORE" jr_ok status # nobody has migrated
}

@test "results of a runner of the version before are accepted when migrate comes while it holds exec, sql and http runs" {
	migrate_under "$BEFORE" "$JOBRUN"
	assert_equal "$(cat "$runner_err")" ''
	assert_equal "$runner_status" 0
}

@test "a runner of the version before that lost the answer to a claim before migrate came runs them or gives them back, so that each runs once" {
	handler work <<<'echo "$JOBRUN_RUN_ID" >>"$TMPDIR/began"'
	q "insert into jobrun.job_definitions (id, name, job_type) overriding system value values (77, 'nightly', 'work')"
	with "$BEFORE" enqueue work
	with "$BEFORE" enqueue work
	q "update jobrun.job_runs set definition_id = 77, slot = now() where id = 2"
	proxy answer-last 2
	with "$BEFORE" bg_runner -d "$proxied" --lease 60s -j 2
	wait_until 10 test -e "$cut_file"
	q_is 2 "select count(*) from jobrun.job_runs where status = 'running' and claim_seq = 1"
	kill -STOP "$runner_pid" # it tries to connect for ten seconds, and a migration may take longer
	jr_ok migrate
	proxy_again
	kill -CONT "$runner_pid"
	wait_runner
	jr_ok run -j 1
	assert_equal "$(sort "$TMPDIR/began")" $'1\n2'
	q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
}

# stays ARGUMENT...: a runner that is told of new work.
stays() {
	bg_runner --for 5m -v "$@"
	wait_until 10 grep -q event=listening "$runner_err"
}

# is_told: enqueue one more run; was the runner notified? Not if a look was due anyway, so this is for wait_until.
is_told() {
	enqueue work >/dev/null
	wait_until 1 grep -q event=notified "$runner_err"
}

# told_of_work: it was told of new work, and has done it.
told_of_work() {
	wait_until 20 is_told
	wait_until 20 nothing_is_open
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
}

@test "a runner with --for is told of new work by a schema that is older or newer than itself" {
	needs_session # notifications
	handler work <<<'exit 0'
	stays
	told_of_work
	with "$BEFORE" stays
	jr_ok migrate
	told_of_work
}

@test "what a runner of the version before held when it was killed is taken back after migrate, and charged as lost" {
	handler work <<<'[ "$JOBRUN_ATTEMPT" -gt 1 ] || exec sleep 60'
	id=$(with "$BEFORE" enqueue work --backoff 0)
	with "$BEFORE" bg_runner
	wait_until 20 run_is "$id" running
	kill -KILL "$runner_pid"
	jr_ok migrate
	end_lease "$id"
	jr_ok run
	q_is 'succeeded|2|lost' "select status, claim_seq, (select outcome from jobrun.job_attempts) from jobrun.job_runs"
}
