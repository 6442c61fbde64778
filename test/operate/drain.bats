#!/usr/bin/env bats
# jobrun pause --all, --host and --wait: what stops, what goes on, what is said of it, and when the wait is over.

load ../lib/common

@test "while everything is paused nothing starts, slots fire and wait, exec exits with 75, and resume lets all start" {
	handler work <<<'exit 0'
	handler tick <<<'exit 0'
	a=$(enqueue work)
	jr_ok define nightly --type tick --schedule '0 * * * *'
	q "update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) where name = 'nightly'"
	jr_ok pause --all --reason 'new schema'
	assert_equal "$output" 'everything: paused'
	jr_ok run
	assert_equal "$output$stderr" ''
	run_is "$a" queued
	q_is 'queued|0' "select r.status, r.claim_seq from jobrun.job_runs r join jobrun.job_slots s on s.run_id = r.id"
	q_is 0 "select count(*) from jobrun.candidates('{work,tick}', null, 10, 'anywhere')"

	jr exec backup -- touch "$TMPDIR/ran"
	assert_one_line 75 "^jobrun: backup was not started: everything is paused by $(q 'select session_user'): new schema \(jobrun resume --all\)$"
	assert_file_not_exists "$TMPDIR/ran"
	q_is 'skipped|everything is paused%' "select outcome, left(reason, 20) || '%' from jobrun.job_slots where run_id is null"
	jr run --job "$a"
	assert_one_line 75 'everything is paused'
	jr_ok run -n
	assert_equal "$output" ''
	assert_regex "$stderr" '^jobrun: everything is paused'
	jr_ok explain "$a"
	assert_line --index 0 --regexp "^$a never starts unless somebody acts: everything is paused by .* until resumed: new schema$"
	assert_line --index 1 'try: jobrun resume --all'
	jr_ok explain --json "$a"
	assert_equal "$(jq -r '[.verdict, .reason] | join(" ")' <<<"$output")" 'never all_paused'
	jr_ok status
	assert_line --regexp '^! everything: paused by .*: new schema \(jobrun resume --all\)$'
	jr_ok status --json
	assert_equal "$(jq -r '.problems[] | select(.about == "everything") | .paused_reason, .paused_until' <<<"$output")" $'new schema\nnull'

	jr_ok resume --all
	assert_equal "$output" 'everything: resumed'
	jr_ok resume --all
	assert_equal "$output" 'everything: was not paused'
	jr_ok run
	run_is "$a" succeeded
	jr_ok exec backup -- touch "$TMPDIR/ran"
	assert_file_exists "$TMPDIR/ran"
	q_is 'pause|new schema
resume|' "select action, reason from jobrun.job_audit where object = 'everything' order by id"
}

@test "a pause of everything ends by itself, holds back housekeeping and claims ahead, and leaves other pauses alone" {
	handler work <<<'exit 0'
	a=$(enqueue work)
	q "select jobrun.enqueue('jobrun.prune', queue => 'jobrun')"
	jr_ok pause --queue mail
	jr_ok pause --all --for 1h
	assert_regex "$output" '^everything: paused until ([0-9-]+ )?[0-9:]+\+00:00$'
	jr_ok run
	q_is 0 "select count(*) from jobrun.job_runs where status not in ('queued')"
	# a runner of another connection that knows its candidates already
	q "insert into jobrun.job_runners (id, host, pid, version, permits, job_types) values (7, 'db9', 1, 'x', 1, '{work}')"
	q_is 0 "select count(*) from jobrun.claim(7, 'db9', 5, '{work}', '{default}', '{100}', null, null, null, 60000, 1, 5, '{work}')"
	q_is 0 "select count(*) from jobrun.claim(7, 'db9', 0, '{work}', '{default}', '{100}', 0::smallint, now(), 0, 60000, 2, 5, '{work}')"
	jr_ok explain "$a"
	assert_line --index 0 --regexp "^$a waits: everything is paused by .* until ([0-9-]+ )?[0-9:]+\+00:00 \(in [0-9m s]+\)"
	q "update jobrun.settings set paused_until = now()"
	jr_ok run
	run_is "$a" succeeded
	q_is t "select paused_until = 'infinity' from jobrun.job_queues where name = 'mail'"
}

# meets N AFTER PAUSE...: does a claim of N that is still going on when `jobrun pause PAUSE` comes take nothing?
meets() {
	local n=$1 after=$2 claim claimed

	shift 2
	claim="select count(*) from jobrun.claim(7, 'db9', $n, '{work}', '{default}', '{100}', $after, 60000, 1, 5, '{work}')"
	q "$claim" >claimed 2>&1 3>&- 4>&- &
	claimed=$!
	wait_until 10 q_is 1 "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
	jr_ok pause "$@"
	q 'insert into public.go values (1)'
	wait "$claimed" || true
	run cat claimed
	assert_output --partial 'a pause began during this claim'
	jr_ok resume "$@"
	q_is 1 "begin; $claim; rollback"
	q 'delete from public.go'
}

@test "a claim that takes long and meets the beginning of a pause takes nothing" {
	a=$(enqueue work)
	q "insert into jobrun.job_runners (id, host, pid, version, permits, job_types) values (7, 'db9', 1, 'x', 1, '{work}')"
	# In the statement that takes runs, as behind the dead entries of an old snapshot: for more than a second, and until there is a row in
	# the table go. (A pause of the host would wait for this claim.)
	q 'create table public.go (n integer)' "create function public.slow() returns trigger language plpgsql as 'begin
			while clock_timestamp() < now() + interval ''1.1 s'' or not exists (select from public.go) loop perform pg_sleep(0.05); end loop;
			return new; end'" \
		"create trigger slow before update on jobrun.job_runs for each row when (new.status = 'running') execute function public.slow()"
	meets 0 '0::smallint, now(), 0' --type work # only what is claimed ahead, which is nothing of a queue with limits
	run_is "$a" queued
	jr_ok cancel "$a"
	jr_ok define nightly --type work
	a=$(enqueue --definition nightly)
	for what in --all '--queue default' '--type work' '--definition nightly'; do
		# shellcheck disable=SC2086 # words
		meets 5 'null, null, null' $what
	done
	run_is "$a" queued
}

@test "on a paused host nothing starts, also for runners that start later, and housekeeping keeps the pause" {
	here=$(hostname)
	handler work <<<'exit 0'
	jr pause --host "$here-not"
	assert_one_line 65 'no runner of host'
	jr_ok run
	jr_ok pause --host "$here" --reason 'new disk'
	assert_equal "$output" "host $here: paused"
	a=$(enqueue work)
	jr_ok run
	run_is "$a" queued
	jr exec backup -- touch "$TMPDIR/ran"
	assert_one_line 75 "^jobrun: backup was not started: host $here is paused by .*: new disk \(jobrun resume --host $here\)$"
	jr_ok explain "$a"
	assert_line --index 0 --regexp "^$a never starts unless somebody acts: host $here is paused by .* until resumed: new disk$"
	jr_ok status
	assert_line --regexp "^! host $here: paused by .*: new disk"

	# the row that has the pause is old, and stays; a second pause does not make another one
	q "update jobrun.job_runners set started_at = now() - interval '30 days', last_seen_at = now() - interval '30 days',
		finished_at = now() - interval '30 days'"
	jr_ok pause --host "$here" --for 1h --reason 'new disk'
	jr_ok prune
	q_is "$here|1" "select host, count(*) from jobrun.job_runners where paused_until is not null group by host"
	jr_ok run
	run_is "$a" queued

	# another host is not concerned; while it has a handler, this pause keeps nothing from starting
	q "insert into jobrun.job_runners (id, host, pid, version, permits, job_types) values (7, 'db9', 1, 'x', 1, '{work}')"
	jr_ok explain "$a"
	assert_line --index 0 "$a starts with the next claim"
	assert_line --regexp "^ok  host $here is paused by .* until .*; another host is not   jobrun resume --host $here$"
	q_is "$a" "begin; select id from jobrun.claim(7, 'db9', 5, '{work}', '{default}', '{100}', null, null, null, 60000, 1); rollback"
	jr_ok resume --host "$here"
	assert_equal "$output" "host $here: resumed"
	q_is 0 "select count(*) from jobrun.job_runners where paused_until is not null"
}

@test "only admins pause everything or a host, and runners cannot even write it" {
	for kind in run admin; do
		make_role "${kind}_$JR_DATABASE"
		jr_ok grant "$kind" "${kind}_$JR_DATABASE"
	done
	JOBRUN_DATABASE_URL=$(url_of "run_$JR_DATABASE") jr pause --all
	assert_equal "$status" 77
	q "insert into jobrun.job_runners (id, host, pid, version, permits) values (7, 'db9', 1, 'x', 1)"
	run q_as "run_$JR_DATABASE" "update jobrun.job_runners set paused_until = 'infinity'"
	assert_failure
	assert_output --partial 'permission denied'
	handler work <<<'exit 0'
	JOBRUN_DATABASE_URL=$(url_of "run_$JR_DATABASE") jr_ok run -n
	JOBRUN_DATABASE_URL=$(url_of "admin_$JR_DATABASE") jr_ok pause --all --host db9
	assert_equal "$output" $'host db9: paused\neverything: paused'
	q_is "admin_$JR_DATABASE|admin_$JR_DATABASE" "select s.paused_by, n.paused_by from jobrun.settings s, jobrun.job_runners n"
	JOBRUN_DATABASE_URL=$(url_of "run_$JR_DATABASE") jr_ok run
}

# catches_int PID: does the process handle SIGINT (2)?
catches_int() {
	local mask

	mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
	[ $((0x$mask & 2)) -ne 0 ]
}

@test "--wait ends when nothing has run for longer than a claim may be on its way; at --timeout it is 75" {
	waiting_handler work
	one=$(enqueue work)
	bg_runner
	wait_until 10 up_is 1
	jr pause --type work --wait --timeout 0
	assert_one_line 75 "^jobrun: 1 run is not over after 0s; one is run $one \(work\) on [^ ]+; the pause stays$"
	jr_ok queue mail --max-running 3
	jr pause --queue mail --wait --timeout 0
	assert_one_line 75 '^jobrun: nothing runs, but a claim may still be on its way: wait for more than 0s; the pause stays$'
	env --default-signal=INT "$JOBRUN" pause --all --wait >out 2>err 3>&- 4>&- &
	waits=$!
	wait_until 10 grep -q paused out
	wait_until 10 catches_int "$waits"
	kill -INT "$waits"
	wait_runner "$waits"
	assert_equal "$runner_status" 130
	grep -qx "jobrun: the wait has ended, the pause has not; 'jobrun resume' with the same --all, --host, --type, --queue or --definition ends it" err
	q_is infinity 'select paused_until from jobrun.settings'
	# a run whose lease has ended is nobody's work
	q "insert into jobrun.job_runners (id, host, pid, version, permits) values (9, 'db9', 1, 'x', 1)"
	q "insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, locked_until, started_at)
		values ('lost', 'running', 1, 1, 9, 'db9', now() - interval '1 s', now() - interval '1 h')"
	began=$(now_ms)
	(sleep 1; touch "$TMPDIR/go") 3>&- 4>&- &
	jr_ok pause --all --wait
	assert_equal "$output" 'everything: paused'
	assert_regex "$stderr" '^run [0-9]+ \(lost\) on db9: its lease has ended, so nobody works on it; a tick takes it back$'
	assert_between 5900 "$(ms_since "$began")" $((20000 * patience))
	run_is "$one" succeeded
	wait_runner "$runner_pid"
}

@test "on a terminal --wait shows who runs, and each end" {
	waiting_handler work
	one=$(enqueue work)
	bg_runner
	wait_until 10 up_is 1
	TERM=xterm timeout $((60 * patience)) script -qefc "stty cols 80; $(printf %q "$JOBRUN") pause --host $(hostname) --wait" /dev/null </dev/null >screen 2>&1 3>&- 4>&- &
	terminal=$!
	runner_pids+=("$terminal")
	wait_until 10 grep -q ' runs since ' screen
	touch "$TMPDIR/go"
	wait_runner
	wait_runner "$terminal"
	assert_equal "$runner_status" 0
	run tr -d '\r' <screen
	assert_line --index 0 "host $(hostname): paused"
	assert_line --index 1 --regexp "^run $one \(work\) on [^ ]+ runs since ([0-9-]+ )?[0-9:]+\+00:00 \((now|[0-9]+s ago)\)$"
	assert_line --index 2 --regexp "^run $one \(work\) on [^ ]+ is over$"
	assert_line --index 3 'nothing runs'
}

@test "--wait sees a run of a claim that was on its way when the pause began" {
	(
		wait_until 10 q_is infinity 'select paused_until from jobrun.settings'
		sleep 0.5
		q "insert into jobrun.job_runners (id, host, pid, version, permits) values (7, 'db9', 1, 'x', 1)" \
			"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, locked_until, started_at)
				values ('late', 'running', 1, 1, 7, 'db9', now() + interval '1 h', now())"
	) 3>&- 4>&- &
	late=$!
	jr pause --all --wait --timeout 6s
	assert_one_line 75 '^jobrun: 1 run is not over after 6s; one is run [0-9]+ \(late\) on db9; the pause stays$'
	wait "$late"
}
