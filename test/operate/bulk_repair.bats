#!/usr/bin/env bats
# jobrun retry and jobrun cancel by filter: what list shows, what -n says and what is done are the same runs.

load ../lib/common

setup() {
	common_setup
	handler slow <<<'sleep 30'
}

# dead_runs N TYPE [QUEUE [ENDED]]: runs that died at their first attempt, as if a runner had written them.
dead_runs() {
	q "with r as (
		insert into jobrun.job_runs (job_type, queue, status, attempts, claim_seq, started_at, failed_at, finished_at,
			runner_id, locked_by, error_code, last_error)
		select '$2', '${3:-default}', 'dead', 1, 1, now() - interval '${4:-0}', now() - interval '${4:-0}', now() - interval '${4:-0}',
			7, 'there', 'exit:65', 'exit 65: no' from generate_series(1, $1)
		returning id, started_at, finished_at)
	insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, error, started_at, finished_at)
	select id, 1, 1, 'dead', 'exit:65', 'exit 65: no', started_at, finished_at from r"
}

# waiting_runs N TYPE [QUEUE [AGE]]: not due within a day.
waiting_runs() {
	q "insert into jobrun.job_runs (job_type, queue, run_at, created_at)
	select '$2', '${3:-default}', now() + interval '1 day', now() - interval '${4:-0}' from generate_series(1, $1)"
}

# by_status: "dead 3, queued 2"
by_status() {
	q "select string_agg(status || ' ' || n, ', ' order by status) from (
		select status, count(*) as n from jobrun.job_runs group by status) s"
}

assert_by_status() {
	assert_equal "$(by_status)" "$1"
}

# behind FILTER...: a retry that waits for what a transaction of `hold` has locked; sets retry_pid.
behind() {
	(
		close_holds
		run_jobrun retry "$@"
	) >"$TMPDIR/out" 2>"$TMPDIR/err" 3>&- &
	retry_pid=$!
	wait_until 10 q_is 1 "select count(*) from pg_stat_activity
		where datname = current_database() and wait_event_type = 'Lock'"
}

# refused WORDS ARGUMENT...: exit 64, a line with these words, and nothing is changed.
refused() {
	local before words=$1

	shift
	before=$(by_status)
	jr "$@"
	assert_equal "$status" 64
	assert_equal "$output" ''
	assert_regex "$stderr" "$words"
	assert_equal "${#stderr_lines[@]}" 1
	assert_by_status "$before"
}

@test "retry --type: the dead ones of that type, no others" {
	dead_runs 3 mail
	dead_runs 2 import
	waiting_runs 1 mail
	jr_ok retry --type mail
	assert_equal "$output" 'retried 3 runs'
	assert_equal "$stderr" ''
	assert_by_status 'dead 2, queued 4'
	q_is 'import' "select distinct job_type from jobrun.job_runs where status = 'dead'"
	jr_ok retry --type mail
	assert_equal "$output" 'retried 0 runs'
}

@test "cancel --queue: those that wait, and running ones only if it is said" {
	id=$(enqueue slow --queue night)
	bg_runner --lease 4s
	wait_until 10 run_is "$id" running
	waiting_runs 3 mail night
	waiting_runs 1 mail day
	jr_ok cancel --queue night
	assert_equal "$output" 'cancelled 3 runs'
	assert_by_status 'cancelled 3, queued 1, running 1'
	jr_ok cancel --status running,queued --reason 'too slow'
	assert_equal "$output" 'cancelled 1 run, asked 1 running one to stop'
	jr_ok cancel --status running --json
	[ "$output" = '{"cancelled":0,"requested":1,"left_alone":0}' ] || [ "$output" = '{"cancelled":0,"requested":0,"left_alone":0}' ]
	wait_until 15 run_is "$id" cancelled
	wait_runner
	# Asked again is not on record again.
	q_is 'running|{"status": "running", "cancel_requested": true}|too slow' \
		"select old ->> 'status', new, reason from jobrun.job_audit where object = 'run $id'"
}

@test "filters together: status, type, queue and since all hold" {
	dead_runs 1 mail night '3 hours'
	dead_runs 2 mail night
	dead_runs 4 mail day
	dead_runs 8 import night
	waiting_runs 16 mail night
	jr_ok retry --status dead --type mail --queue night --since 2h
	assert_equal "$output" 'retried 2 runs'
	jr_ok retry -s dead -t mail,import -q night
	assert_equal "$output" 'retried 9 runs'
	q_is 'mail|day|4' "select job_type, queue, count(*) from jobrun.job_runs where status = 'dead' group by 1, 2"
}

@test "--since is when a run ended, and if it has not, when it was enqueued" {
	dead_runs 1 mail default '1 hour'
	q "update jobrun.job_runs set created_at = now() - interval '9 days'"
	waiting_runs 1 mail default '9 days'
	waiting_runs 1 mail default '1 hour'
	jr_ok list --since 2h --json
	assert_equal "$(jq -c 'map(.id)' <<<"$output")" '[3,1]'
	jr_ok retry --since 2h
	assert_equal "$output" 'retried 1 run'
	jr_ok cancel --since 2h
	assert_equal "$output" 'cancelled 1 run'
	run_is 3 cancelled
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

@test "--limit takes the newest, as list shows them" {
	dead_runs 10 mail
	jr_ok list -s dead --limit 3 --json
	assert_equal "$(jq -c 'map(.id)' <<<"$output")" '[10,9,8]'
	jr_ok retry -s dead --limit 3 -n --json
	assert_equal "$(jq -c . <<<"$output")" '[{"job_type":"mail","status":"dead","runs":3}]'
	jr_ok retry -s dead --limit 3
	assert_equal "$output" 'retried 3 runs'
	q_is '{8,9,10}' "select array_agg(id order by id) from jobrun.job_runs where status = 'queued'"
	jr_ok retry -s dead --limit 100
	assert_equal "$output" 'retried 7 runs'
}

@test "-n: a table of what would be done, and nothing is" {
	dead_runs 3 mail
	dead_runs 2 import
	waiting_runs 4 mail
	jr_ok retry --since 1h -n
	assert_equal "${lines[0]}" 'TYPE   STATUS RUNS'
	assert_equal "${lines[1]}" 'import dead      2'
	assert_equal "${lines[2]}" 'mail   dead      3'
	assert_equal "${#lines[@]}" 3
	jr_ok cancel --type mail --dry-run --json
	assert_equal "$(jq -c . <<<"$output")" '[{"job_type":"mail","status":"queued","runs":4}]'
	jr_ok cancel --type nothing -n
	assert_equal "$output" ''
	assert_by_status 'dead 5, queued 4'
	q_is 0 'select count(*) from jobrun.job_audit'
}

@test "-n with ids: what cannot be done is named as it would be" {
	dead_runs 2 mail
	waiting_runs 1 import
	jr retry -n 1 2 3 99
	assert_equal "$status" 1
	assert_equal "${lines[1]}" 'import queued    1'
	assert_equal "${lines[2]}" 'mail   dead      2'
	assert_equal "$stderr" 'jobrun: there is no run 99'
	jr cancel -n 1 3
	assert_equal "$status" 1
	assert_equal "${lines[1]}" 'import queued    1'
	assert_equal "$stderr" 'jobrun: run 1 had ended already: dead'
	jr_ok cancel 3
	jr_ok cancel -n 3 # again would be no error
	assert_equal "$output" ''
	assert_by_status 'cancelled 1, dead 2'
	q_is 1 'select count(*) from jobrun.job_audit'
}

@test "what list shows is what -n counts and what is taken, for any filter" {
	local filter shown counted

	for type in mail import; do
		for queue in day night; do
			dead_runs 2 "$type" "$queue"
			dead_runs 1 "$type" "$queue" '5 hours'
			waiting_runs 2 "$type" "$queue"
			waiting_runs 1 "$type" "$queue" '5 hours'
		done
	done
	q "update jobrun.job_runs set created_at = now() - interval '1 day' where status = 'dead'"
	jr_ok cancel --type import --queue day
	for filter in '-s dead' '-s dead --since 1h' '-s cancelled,dead -t import' '-s queued -q day,night --since 4h' \
		'-s queued,dead,cancelled --since 4h --limit 7' '-s retrying' '-s dead -q night --limit 2' '-s cancelled --since 1h'; do
		# shellcheck disable=SC2086 # words
		shown=$(run_jobrun list $filter --limit 1000 --json | jq -c 'map(.id) | sort')
		# shellcheck disable=SC2086
		[[ $filter != *--limit* ]] || shown=$(run_jobrun list $filter --json | jq -c 'map(.id) | sort')
		# shellcheck disable=SC2086
		counted=$(run_jobrun retry $filter -n --json | jq '[.[].runs] | add // 0')
		assert_equal "$filter: $counted" "$filter: $(jq length <<<"$shown")"
		q 'delete from jobrun.job_audit'
		q 'create table kept as table jobrun.job_runs'
		# shellcheck disable=SC2086
		jr_ok retry $filter
		assert_equal "$filter: $(q "select coalesce(json_agg(substr(object, 5)::bigint order by substr(object, 5)::bigint), '[]') from jobrun.job_audit" | jq -c .)" \
			"$filter: $shown"
		q "update jobrun.job_runs r set status = k.status, attempts = k.attempts, run_at = k.run_at, finished_at = k.finished_at
			from kept k where k.id = r.id" 'drop table kept'
	done
}

@test "everything is on record: who, when, what it was, what it is, why" {
	dead_runs 1 mail
	waiting_runs 1 mail
	q 'create role ada login superuser'
	JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE user=ada" jr_ok retry --status dead --reason 'the mail server is back'
	jr_ok cancel 2 --reason 'no more of these'
	jr_ok retry 2
	q_is 'ada|retry|run 1|{"status": "dead", "attempts": 1}|{"status": "queued"}|the mail server is back|t
jobrun|cancel|run 2|{"status": "queued", "attempts": 0}|{"status": "cancelled"}|no more of these|t
jobrun|retry|run 2|{"status": "cancelled", "attempts": 0}|{"status": "queued"}||t' \
		"select who, action, object, old, new, reason, at between now() - interval '1 minute' and now() from jobrun.job_audit order by id"
	jr_ok show 2
	assert_line --regexp '^WHEN +WHO +DID +BEFORE +REASON$'
	assert_line --regexp '^(now|.* ago) +jobrun +cancel +queued +no more of these$'
	assert_line --regexp '^(now|.* ago) +jobrun +retry +cancelled +-$'
	jr_ok show 2 --json
	assert_equal "$(jq -c '[.audit[] | [.who, .action, .old.status, .new.status, .reason]]' <<<"$output")" \
		'[["jobrun","cancel","queued","cancelled","no more of these"],["jobrun","retry","cancelled","queued",null]]'
	q 'drop role ada'
}

@test "a reason that is too long is exit 65, and nothing is done" {
	dead_runs 2 mail
	jr retry --status dead --reason "$(printf '%01001d' 1)"
	assert_equal "$status" 65
	assert_by_status 'dead 2'
}

@test "IDs and filters exclude each other, neither is a question, and what makes no sense is refused" {
	dead_runs 2 mail
	waiting_runs 1 mail
	refused 'exclude each other' retry 1 --status dead
	refused 'exclude each other' retry 1 --limit 1
	refused 'exclude each other' cancel 3 --type mail -n
	refused 'which runs. jobrun retry ID' retry
	refused 'which runs. jobrun cancel ID' cancel
	refused 'which runs' cancel --limit 5 --reason why
	refused 'jobrun cancel --status running' retry --status dead,running
	refused 'add --force' retry --status succeeded
	refused 'add --status succeeded' retry --type mail --force
	refused 'have ended already' cancel --status dead
	refused 'have ended already' cancel --status queued,succeeded
	refused 'did you mean "dead"' retry --status daed
	refused 'limit' retry --status dead --limit 0
}

@test "thousands are done in transactions of 1,000, in order of id" {
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

@test "what dies or comes after it began is not meant" {
	dead_runs 3 mail
	hold 'select from jobrun.job_runs where id = 1 for update'
	behind --type mail
	dead_runs 2 mail
	release_holds
	wait "$retry_pid"
	assert_equal "$(cat "$TMPDIR/out")" 'retried 3 runs'
	assert_by_status 'dead 2, queued 3'
}

@test "what was changed meanwhile is left alone, and counted" {
	dead_runs 3 mail
	hold 'select jobrun.retry(2)'
	behind --type mail
	# shellcheck disable=SC2154 # of hold
	printf 'commit;\n' >&"${hold_fds[0]}"
	wait "$retry_pid"
	assert_equal "$(cat "$TMPDIR/out")" 'retried 2 runs'
	assert_equal "$(cat "$TMPDIR/err")" 'jobrun: 1 run was left alone: changed meanwhile, or not for this role to change'
	q_is '3|3' 'select count(*), count(distinct object) from jobrun.job_audit'
}

@test "a failure in the middle says how far it came, and the same again does the rest" {
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

@test "progress on a terminal only" {
	dead_runs 2500 mail
	run timeout 20 script -qec "$(printf '%q ' "$JOBRUN" retry --type mail)" /dev/null
	assert_output --partial '1000 of 2500 runs'
	assert_output --partial 'retried 2500 runs'
}

@test "two bulk retries at once, and runners: each run is retried once and done once" {
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

@test "cancel against runners: each run is done or cancelled, never both, never lost" {
	q "insert into jobrun.job_runs (job_type) select 'jobrun.noop' from generate_series(1, 4000)"
	bg_runner --state-dir "$BATS_TEST_TMPDIR/a"
	first=$runner_pid
	bg_runner --state-dir "$BATS_TEST_TMPDIR/b"
	wait_until 10 q_is t "select exists (select from jobrun.job_runs where status = 'succeeded')"
	jr_ok cancel --type jobrun.noop --json
	cancelled=$(jq .cancelled <<<"$output")
	wait_runner "$first"
	wait_runner
	q_is "$cancelled" "select count(*) from jobrun.job_runs where status = 'cancelled' and claim_seq = 0"
	q_is "$((4000 - cancelled))" "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
	q_is "$cancelled" 'select count(*) from jobrun.job_audit'
}

@test "kind read: list and show without texts; it can repair nothing" {
	dead_runs 1 mail
	q 'create role watcher login' "select jobrun.add_grant('read', 'watcher')"
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE user=watcher"
	jr_ok list --json
	assert_equal "$(jq -c 'map([.id, .status, .error_code, .last_error])' <<<"$output")" '[[1,"dead","exit:65",null]]'
	jr_ok list
	refute_output --partial 'exit 65: no'
	jr_ok show 1
	assert_line --regexp '^error code +exit:65$'
	refute_output --partial 'exit 65: no'
	refute_output --partial payload
	jr_ok show 1 --json
	assert_equal "$(jq -c '[.status, .payload, .last_error, .attempt_list[0].error, .attempt_list[0].outcome]' <<<"$output")" \
		'["dead",null,null,null,"dead"]'
	jr_ok retry --status dead -n
	assert_equal "${lines[1]}" 'mail dead      1'
	for command in 'retry 1' 'retry --status dead' 'cancel 1' 'logs 1'; do
		# shellcheck disable=SC2086 # words
		jr $command
		assert_equal "$command: $status" "$command: 77"
		refute_regex "$stderr" 'does the rest'
	done
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE"
	run_is 1 dead
	q "select jobrun.drop_grant('read', 'watcher')" 'drop role watcher' >/dev/null
}
