#!/usr/bin/env bats
# Overlap: which runs keep a slot of their definition from its run, by who enqueued them.

load ../lib/common

# Role app may enqueue, ops may administer; nightly is due.
setup() {
	common_setup
	stay_in hour # due() computes the last slot more than once
	app=app_$JR_DATABASE
	ops=ops_$JR_DATABASE
	make_role "$app"
	make_role "$ops"
	jr_ok grant enqueue "$app"
	jr_ok grant admin "$ops"
	handler work <<<'exit 0'
	q "select jobrun.define('nightly', '{\"job_type\": \"work\", \"schedule\": \"0 4 * * *\", \"time_zone\": \"Asia/Tokyo\"}')" >/dev/null
	due
}

# due: it fires at the next tick, for its last slot alone, whatever the time is.
due() {
	q "delete from jobrun.job_slots" "update jobrun.job_definitions set next_slot_at = (date_trunc('day', now() at time zone time_zone
		- interval '4 hours') + interval '4 hours') at time zone time_zone where name = 'nightly'"
}

# slot: fires, and says what became of the last slot.
slot() {
	q "select count(*) from jobrun.fire()" >/dev/null
	q "select concat_ws(' ', outcome, reason) from jobrun.job_slots order by slot desc limit 1"
}

# enqueued ROLE [ARGUMENTS]: a run of the definition; prints its id.
enqueued() {
	q_as "$1" "select (jobrun.enqueue_definition('nightly'${2:+, $2})).id"
}

@test "what a role enqueues that may only enqueue keeps no slot from its run, in the future, due, put off or to be retried" {
	enqueued "$app" "run_in => '99 years'"
	enqueued "$app"
	retried=$(enqueued "$app")
	put_off=$(enqueued "$app")
	q "update jobrun.job_runs set status = 'failed', claim_seq = 1, attempts = 1, run_at = now() + interval '1 year' where id = $retried" \
		"update jobrun.job_runs set claim_seq = 1, snoozes = 1, run_at = now() + interval '1 year' where id = $put_off"
	assert_equal "$(slot)" queued
	# Nor from a line of an old crontab.
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now() where slot is not null"
	jr_ok exec nightly --strict -- true
	q "delete from jobrun.job_runs"
}

@test "a run of the definition that is running keeps a slot from its run, whoever enqueued it" {
	id=$(enqueued "$app")
	begin_attempt "$id"
	assert_equal "$(slot)" "skipped overlap: run $id is running"
}

@test "a run that an admin enqueued keeps a slot from its run as soon as it is due" {
	enqueued "$ops" "run_in => '1 hour'"
	assert_equal "$(slot)" queued
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now()"
	due
	id=$(enqueued "$ops")
	assert_equal "$(slot)" "skipped overlap: run $id waits"
}

@test "a run that was put off or waits for its retry keeps a slot from its run, and the reason says until when" {
	id=$(enqueued "$ops")
	q "update jobrun.job_runs set claim_seq = 1, snoozes = 1, run_at = '2099-01-01 00:00:00.5+00' where id = $id"
	assert_equal "$(slot)" "skipped overlap: run $id waits until 2099-01-01 09:00+09:00"
	due
	q "update jobrun.job_runs set status = 'failed', snoozes = 0, attempts = 1, run_at = '2099-01-01 00:00:05+00' where id = $id"
	assert_equal "$(slot)" "skipped overlap: run $id waits until 2099-01-01 09:00:05+09:00 to be retried"
	q "update jobrun.job_runs set run_at = now() where id = $id"
	due
	assert_equal "$(slot)" "skipped overlap: run $id waits to be retried"
	q "delete from jobrun.job_runs"
}

@test "a slot that is skipped for a run enqueued after the tick's transaction began says that it waits, without a time" {
	hold 'select now()'
	assert_equal "$(slot)" queued
	id=$(q 'select id from jobrun.job_runs')
	due
	printf '%s\n' 'select count(*) from jobrun.fire();' 'commit;' >&"${hold_fds[-1]}"
	wait_until 10 q_is 1 'select count(*) from jobrun.job_slots'
	q_is "skipped|overlap: run $id waits" 'select outcome, reason from jobrun.job_slots'
}

@test "a run that an admin enqueued after the tick's transaction began keeps a slot from its run" {
	hold 'select now()'
	id=$(enqueued "$ops")
	printf '%s\n' 'select count(*) from jobrun.fire();' 'commit;' >&"${hold_fds[-1]}"
	wait_until 10 q_is 1 'select count(*) from jobrun.job_slots'
	q_is "skipped|overlap: run $id waits" 'select outcome, reason from jobrun.job_slots'
}

@test "the run of an earlier slot keeps a slot from its run, whoever fired it, also when that role is gone" {
	q "update jobrun.job_definitions set time_zone = 'UTC'" "insert into jobrun.job_runs (definition_id, job_type, slot, created_by)
		select d.id, 'work', now() - interval '3 days', 'gone' from jobrun.job_definitions d where d.name = 'nightly'"
	due
	assert_equal "$(slot)" 'skipped overlap: run 1 waits'
	q "update jobrun.job_runs set slot = null"
	due
	assert_equal "$(slot)" queued
}

@test "a dry run and jobrun exec apply the same overlap rule" {
	enqueued "$app" "run_in => '99 years'"
	jr_ok run -n
	assert_line --partial nightly
	id=$(enqueued "$ops")
	jr_ok run -n --json
	assert_equal "$(jq -c '[.runs[] | .slot // .id]' <<<"$output")" "[$id]"
	jr exec nightly --strict -- touch started
	assert_equal "$status" 75
	assert_equal "$stderr" "jobrun: nightly was not started: run $id waits"
	assert_file_not_exist started
}

@test "many waiting runs of other roles do not slow the overlap check" {
	q "insert into jobrun.job_runs (definition_id, job_type, created_by, run_at)
		select d.id, 'work', '$app', now() + interval '1 day' from jobrun.job_definitions d, generate_series(1, 20000) where d.name = 'nightly'"
	read -r found rows < <(q "select concat_ws(' ', jobrun.overlapping(d.id) is null,
			(select sum(pg_stat_get_xact_tuples_fetched(c) + pg_stat_get_xact_tuples_returned(c))
				from unnest('{jobrun.job_runs,jobrun.job_runs_unfinished_definition}'::regclass[]) c))
		from jobrun.job_definitions d where d.name = 'nightly'")
	assert_equal "$found" t
	[ "$rows" -lt 50 ] || fail "$rows rows were read"
}
