#!/usr/bin/env bats
# jobrun retry: of runs by ID, and of many by filter. What it has in common with cancel is in operate/retry_cancel.bats.

load ../lib/common

setup() {
	common_setup
	handler give_up <<<'echo no; exit 65'
	handler work <<<'echo done'
	handler slow <<<'sleep 30'
}

# behind FILTER...: a retry that waits for what a transaction of `hold` has locked; sets retry_pid.
behind() {
	(
		close_holds
		run_jobrun retry "$@"
	) >"$TMPDIR/out" 2>"$TMPDIR/err" 3>&- &
	retry_pid=$!
	wait_until 10 waiting_for_lock 1
}

@test "retry gives a dead run all its attempts again" {
	id=$(enqueue give_up)
	jr run
	run_is "$id" dead
	jr_ok retry "$id"
	assert_equal "$output" "run $id: retried"
	assert_equal "$stderr" ''
	q_is 'queued|0|1|t' "select status, attempts, claim_seq, finished_at is null from jobrun.job_runs where id = $id"
	jr run
	run_is "$id" dead
	q_is 2 "select count(*) from jobrun.job_attempts where run_id = $id"
}

@test "retry does what is possible and names the rest with exit status 1" {
	one=$(enqueue give_up)
	two=$(enqueue work)
	jr run
	three=$(enqueue work)
	jr retry "$one" "$two" 999999 "$three"
	assert_equal "$status" 1
	assert_equal "$output" "run $one: retried"$'\n'"run $three: retried"
	assert_line_of_stderr "jobrun: run $two has succeeded; to run it again: jobrun retry --force $two"
	assert_line_of_stderr 'jobrun: there is no run 999999'
	run_is "$one" queued
	run_is "$two" succeeded
}

@test "retry --force runs a success again; its first attempt stays on record" {
	id=$(enqueue work)
	jr_ok run
	jr_ok retry --force "$id"
	run_is "$id" queued
	jr_ok run
	jr_ok show "$id" --json
	assert_equal "$(jq -c '[.status, (.attempt_list | length)]' <<<"$output")" '["succeeded",2]'
}

@test "retry of a running run is refused" {
	id=$(enqueue slow)
	bg_runner
	wait_until 10 run_is "$id" running
	jr retry "$id"
	assert_equal "$status" 1
	assert_regex "$stderr" "run $id is running; to stop it first: jobrun cancel $id"
	run_is "$id" running
}

@test "retry of a run whose lease has ended says who ends it, not to cancel it" {
	id=$(enqueue work)
	begin_attempt "$id"
	end_lease "$id"
	for option in '' -n; do
		jr retry $option "$id"
		assert_equal "$status" 1
		assert_equal "$stderr" "jobrun: run $id is running and its lease has run out; the next tick of any runner takes it back: jobrun run"
	done
}

@test "retry --type takes the dead runs of that type and no others" {
	dead_runs 3 mail
	dead_runs 2 import
	queued_runs 1 mail
	jr_ok retry --type mail
	assert_equal "$output" 'retried 3 runs'
	assert_equal "$stderr" ''
	assert_by_status 'dead 2, queued 4'
	q_is 'import' "select distinct job_type from jobrun.job_runs where status = 'dead'"
	jr_ok retry --type mail
	assert_equal "$output" 'retried 0 runs'
}

@test "retry: cancelled, retrying and queued ones on request; succeeded ones with --force" {
	handler work <<<'exit 0'
	handler again <<<'exit 1'
	work=$(enqueue work)
	again=$(enqueue again --backoff 1h)
	jr_ok run
	later=$(enqueue work --in 1h)
	gone=$(enqueue work)
	jr_ok cancel "$gone"
	jr_ok retry --status cancelled,retrying,queued
	assert_equal "$output" 'retried 3 runs'
	q_is 0 "select count(*) from jobrun.job_runs where id in ($again, $later, $gone) and (run_at > now() or status <> 'queued')"
	run_is "$work" succeeded
	jr_ok retry --status succeeded --force
	assert_equal "$output" 'retried 1 run'
	run_is "$work" queued
	q_is 'succeeded' "select outcome from jobrun.job_attempts where run_id = $work"
}

@test "retry of thousands works in transactions of 1,000, in order of id" {
	dead_runs 2500 mail
	jr_ok retry --type mail
	assert_equal "$output" 'retried 2500 runs'
	q_is '1|1000
1001|2000
2001|2500' 'select min(id), max(id) from jobrun.job_runs group by xmin::text order by 1'
	q_is '2500|2500' 'select count(*), count(distinct object) from jobrun.job_audit'
	# The oldest are due first.
	q_is t 'select bool_and(run_at >= before) from (select run_at, lag(run_at) over (order by id) as before from jobrun.job_runs) r'
	jr_ok cancel --type mail --limit 1500
	assert_equal "$output" 'cancelled 1500 runs'
	q_is 1000 "select max(id) from jobrun.job_runs where status = 'queued'"
}

@test "retry by filter leaves out runs that die or come after it began" {
	dead_runs 3 mail
	hold 'select from jobrun.job_runs where id = 1 for update'
	behind --type mail
	dead_runs 2 mail
	release_holds
	wait "$retry_pid"
	assert_equal "$(cat "$TMPDIR/out")" 'retried 3 runs'
	assert_by_status 'dead 2, queued 3'
}

@test "retry by filter leaves out runs that changed meanwhile, and counts them" {
	dead_runs 3 mail
	hold 'select jobrun.retry(2)'
	behind --type mail
	# shellcheck disable=SC2154 # of hold
	printf 'commit;\n' >&"${hold_fds[0]}"
	wait "$retry_pid"
	assert_equal "$(cat "$TMPDIR/out")" 'retried 2 runs'
	assert_equal "$(cat "$TMPDIR/err")" 'jobrun: 1 run was left alone: changed meanwhile, superseded by a newer one, or not for this role to change'
	q_is '3|3' 'select count(*), count(distinct object) from jobrun.job_audit'
}

@test "a retry that fails in the middle says how far it came, and a second one does the rest" {
	dead_runs 2500 mail
	hold 'select from jobrun.job_runs where id = 1700 for update'
	behind --type mail
	terminate_backends
	failed=0
	wait "$retry_pid" || failed=$?
	release_holds
	assert_equal "$failed" 75
	assert_equal "$(cat "$TMPDIR/out")" 'retried 1000 runs'
	assert_regex "$(cat "$TMPDIR/err")" '^jobrun: stopped after 1000 of 2500 runs.*; the same command again does the rest: '
	assert_by_status 'dead 1500, queued 1000'
	jr_ok retry --type mail
	assert_equal "$output" 'retried 1500 runs'
	q_is '2500|2500' 'select count(*), count(distinct object) from jobrun.job_audit'
}

@test "a retry with --limit that stops half way says with what limit the rest is done" {
	dead_runs 2500 mail
	q "create function public.refuse() returns trigger language plpgsql as \$\$ begin raise 'not now' using errcode = '53000'; end \$\$" \
		"create trigger refuses before update on jobrun.job_runs for each row when (old.id = 2100) execute function public.refuse()"
	jr retry --type mail --limit 1500 # 2100 is in the second thousand
	q 'drop trigger refuses on jobrun.job_runs'
	assert_equal "$status" 75
	assert_equal "$output" 'retried 1000 runs'
	assert_regex "$stderr" '^jobrun: stopped after 1000 of 1500 runs; the same command with --limit 500 does the rest: '
	jr_ok retry --type mail --limit 500
	assert_by_status 'dead 1000, queued 1500'
	q_is 1000 "select max(id) from jobrun.job_runs where status = 'dead'"
}

# A role that may only enqueue can keep its runs locked, by cancel() in a transaction that stays open.
@test "retry and cancel by filter pass over runs that others keep locked, and do all others" {
	dead_runs 2500 mail
	hold 'select jobrun.cancel(1)'
	hold 'select jobrun.cancel(2100)'
	jr retry --type mail
	assert_equal "$status" 75
	assert_equal "$output" 'retried 2498 runs'
	assert_equal "$stderr" 'jobrun: passed over 2 of 2500 runs that other sessions keep locked; the same command again does the rest'
	jr cancel --type mail
	assert_equal "$output" 'cancelled 2498 runs'
	jr retry --type mail --status dead,cancelled --limit 500
	assert_equal "$status" 75
	assert_equal "$output" 'retried 499 runs'
	assert_regex "$stderr" '; the same command with --limit 1 does the rest$'
	release_holds
	jr_ok retry --type mail --status dead,cancelled --limit 1
	run_is 2100 queued
}

@test "retry --json and cancel --json by filter count what others keep locked, also if that is all" {
	dead_runs 2 mail
	hold 'select jobrun.cancel(1)'
	jr retry --type mail --json
	assert_equal "$status" 75
	assert_equal "$output" '{"version":1,"retried":1,"left_alone":0,"passed_over":1}'
	jr retry --type mail --json
	assert_equal "$status" 75
	assert_equal "$output" '{"version":1,"retried":0,"left_alone":0,"passed_over":1}'
	release_holds
	hold 'select jobrun.cancel(2)'
	jr cancel --type mail --json
	assert_equal "$status" 75
	assert_equal "$output" '{"version":1,"cancelled":0,"requested":0,"left_alone":0,"passed_over":1}'
	assert_equal "$stderr" 'jobrun: passed over 1 of 1 run that other sessions keep locked; the same command again does the rest'
	release_holds
}

@test "retry shows progress on a terminal only" {
	dead_runs 2500 mail
	run on_terminal 80 retry --type mail
	assert_output --partial '1000 of 2500 runs'
	assert_output --partial 'retried 2500 runs'
}

@test "with two bulk retries and runners at once each run is retried once and done once" {
	dead_runs 3000 jobrun.noop
	run_jobrun retry --status dead --json >"$TMPDIR/one" 2>/dev/null 3>&- &
	one=$!
	run_jobrun retry --type jobrun.noop --json >"$TMPDIR/two" 2>/dev/null 3>&- &
	two=$!
	bg_runner --state-dir "$BATS_TEST_TMPDIR/a"
	first=$runner_pid
	bg_runner --state-dir "$BATS_TEST_TMPDIR/b"
	wait "$one"
	wait "$two"
	wait_runner "$first"
	wait_runner
	jr_ok run
	assert_equal "$(jq -s 'map(.retried) | add' "$TMPDIR/one" "$TMPDIR/two")" 3000
	q_is 'succeeded|2|3000' 'select status, claim_seq, count(*) from jobrun.job_runs group by 1, 2'
	q_is '3000|3000' 'select count(*), count(distinct object) from jobrun.job_audit'
}

@test "retry --payload replaces the payload of one run, checked as by enqueue, and the audit has size and digest" {
	local id other

	typical_handlers
	id=$(enqueue give_up '{"n": 1, "card": "4711"}')
	other=$(enqueue give_up)
	jr run
	q "update jobrun.job_runs set checkpoint = '{\"done\": 1}' where id = $id"
	refused() {
		jr retry "$@"
		assert_equal "$status" "$expected"
		assert_equal "$(field "$id" "payload ->> 'n', status")" '1|dead'
	}
	expected=64 refused "$id" "$other" --payload '{}'
	expected=64 refused --status dead --payload '{}'
	expected=65 refused "$id" --payload '{"n": 2'
	assert_regex "$stderr" 'line 1'
	{ printf '"'; head -c 1048575 /dev/zero | tr '\0' x; printf '"'; } >big
	expected=65 refused "$id" --payload @big
	assert_regex "$stderr" '1048577 bytes|longer than 1048576'
	expected=65 refused "$id" --payload @absent
	run q "select jobrun.retry($id, payload => to_jsonb(repeat('x', 1048575)))"
	assert_output --partial 'ERROR:  the payload has 1048587 bytes; the limit is 1048576'
	jr_ok retry "$id" --payload - --reason 'a wrong number' <<<'{"n": 2}'
	assert_equal "$output" "run $id: retried"
	assert_equal "$(field "$id" "payload, status, attempts, checkpoint is null")" '{"n": 2}|queued|0|t'
	q_is "24|8|$(printf '{"n": 2}' | sha256sum | cut -c1-64)|a wrong number" \
		"select old ->> 'payload_bytes', new ->> 'payload_bytes', new ->> 'payload_sha256', reason from jobrun.job_audit where object = 'run $id' and action = 'retry'"
	q_is 0 "select count(*) from jobrun.job_audit where to_jsonb(job_audit)::text like '%4711%'"
	jr_ok show "$id"
	assert_line --regexp 'retry, new payload +dead +a wrong number$'
	# Without it the payload and the checkpoint stay.
	q "update jobrun.job_runs set checkpoint = '{\"done\": 1}' where id = $id"
	jr_ok retry "$id"
	assert_equal "$(field "$id" "payload, checkpoint")" '{"n": 2}|{"done": 1}'
	q_is retried "select jobrun.retry($id, payload => 'null')"
	assert_equal "$(field "$id" payload)" null
	begin_attempt "$id"
	jr retry "$id" --payload '{}'
	assert_equal "$status" 1
	assert_equal "$(field "$id" "payload, status")" 'null|running'
	end_attempt "$id" dead dead x
}
