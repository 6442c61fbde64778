#!/usr/bin/env bats
# jobrun pause and resume: of queues, types and definitions; what stays, what goes on, and what is said of it.

load ../lib/common

@test "in a paused queue runs wait, the tick ends with 0, and resume lets them start" {
	handler work <<<'exit 0'
	a=$(enqueue work -q mail)
	b=$(enqueue work)
	before=$(untouched "$a")
	jr_ok pause --queue mail --reason 'the relay is down'
	assert_equal "$output" 'queue mail: paused'
	assert_equal "$stderr" ''
	jr_ok run
	assert_equal "$output$stderr" ''
	run_is "$b" succeeded
	assert_equal "$(untouched "$a")" "$before"
	jr_ok queue mail
	assert_line --index 1 --regexp '^mail +0 +1 +- +1 +- +until resumed: the relay is down$'
	jr_ok resume --queue mail
	assert_equal "$output" 'queue mail: resumed'
	jr_ok resume --queue mail
	assert_equal "$output" 'queue mail: was not paused'
	jr_ok run
	run_is "$a" succeeded
	q_is 'pause|the relay is down
resume|' "select action, reason from jobrun.job_audit where object = 'queue mail' order by id"
}

@test "pause --timeout without --wait is refused, and nothing is paused" {
	jr pause --all --timeout 5s
	assert_one_line 64 'timeout goes with --wait, which is missing; a pause that ends by itself: --for 30m'
	q_is t 'select paused_until is null from jobrun.settings'
}

@test "in a paused job type running runs go on to their end, and waiting ones stay" {
	waiting_handler work
	one=$(enqueue work)
	bg_runner -j 4
	wait_until 10 up_is 1
	jr_ok pause --type work --reason 'new version'
	two=$(enqueue work)
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$one" succeeded
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $two"
	jr_ok resume --type work
	jr_ok run
	run_is "$two" succeeded
}

@test "a paused definition holds back only its own runs" {
	handler work <<<'exit 0'
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work'), ('hourly', 'work')"
	one=$(enqueue work)
	two=$(enqueue work)
	three=$(enqueue work)
	q "update jobrun.job_runs r set definition_id = d.id from jobrun.job_definitions d
		where (r.id, d.name) in (($one, 'nightly'), ($two, 'hourly'))"
	jr_ok pause --definition nightly --reason 'month end'
	assert_equal "$output" 'definition nightly: paused'
	jr_ok run -n --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" "[$two,$three]"
	jr_ok run
	run_is "$one" queued
	run_is "$two" succeeded
	run_is "$three" succeeded
	jr_ok status
	assert_line "! definition nightly: paused: month end (jobrun resume --definition nightly)"
	jr_ok resume --definition nightly
	jr_ok run
	run_is "$one" succeeded
}

@test "a paused definition holds back its runs in a limited queue too" {
	handler work <<<'exit 0'
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	jr_ok queue mail --max-running 1
	one=$(enqueue work -q mail)
	two=$(enqueue work -q mail)
	q "update jobrun.job_runs set definition_id = (select id from jobrun.job_definitions where name = 'nightly') where id = $one"
	jr_ok pause --definition nightly
	jr_ok run
	run_is "$one" queued
	run_is "$two" succeeded
}

@test "a pause with --for ends by itself" {
	handler work <<<'exit 0'
	id=$(enqueue work -q mail)
	jr_ok pause --queue mail --type work --for 2h
	assert_line --index 0 --regexp '^queue mail: paused until ([0-9-]+ )?[0-9:]+\+00:00$'
	assert_line --index 1 --regexp '^type work: paused until '
	q_is t "select paused_until between now() + interval '1 hour 58 minutes' and now() + interval '2 hours' from jobrun.job_queues"
	jr_ok run
	run_is "$id" queued
	jr_ok pause --queue mail --type work --for 1s
	wait_until 20 runs_it "$id"
	jr_ok status
	refute_output --partial paused
	jr_ok queue mail
	refute_output --partial until
	jr_ok resume --queue mail
	assert_output 'queue mail: was not paused'
}

runs_it() {
	run_jobrun run && run_is "$1" succeeded
}

@test "status shows every pause: until when, by whom, why, and how to end it" {
	jr_ok pause --queue mail --type b,a --for 2h --reason 'the relay is down'
	jr_ok pause --type c
	jr_ok status
	me=$(q 'select session_user')
	assert_line --regexp "^! a: paused until ([0-9-]+ )?[0-9:]+\+00:00 by $me: the relay is down \(jobrun resume --type a\)$"
	assert_line --regexp "^! queue mail: paused until ([0-9-]+ )?[0-9:]+\+00:00 by $me: the relay is down \(jobrun resume --queue mail\)$"
	assert_line "! c: paused by $me (jobrun resume --type c)"
	jr_ok status --json
	assert_equal "$(jq -c '[.problems[] | [.about, .problem, .paused_by, .paused_reason, .paused_until == null]]' <<<"$output")" \
		"[[\"a\",\"paused\",\"$me\",\"the relay is down\",false],[\"b\",\"paused\",\"$me\",\"the relay is down\",false],[\"c\",\"paused\",\"$me\",null,true],[\"queue mail\",\"paused\",\"$me\",\"the relay is down\",false]]"
	jr_ok queue mail --json
	assert_equal "$(jq -c '.queues[] | [.paused_reason, .paused_by]' <<<"$output")" "[\"the relay is down\",\"$me\"]"
	jr_ok pause --type x --json
	assert_equal "$(jq -c . <<<"$output")" \
		'{"version":1,"pauses":[{"kind":"type","name":"x","paused":true,"paused_until":null,"paused_reason":null,"known":false}]}'
	jr_ok resume --type x --type y --json
	assert_equal "$(jq -c . <<<"$output")" \
		'{"version":1,"pauses":[{"kind":"type","name":"x","paused":false,"was_paused":true},{"kind":"type","name":"y","paused":false,"was_paused":false}]}'
}

@test "a pause with an empty reason has none" {
	handler work <<<'exit 0'
	id=$(enqueue work)
	jr_ok pause --queue default --type work --reason '' # as of --reason "$WHY"
	q_is '2' "select count(*) from jobrun.job_audit where action = 'pause' and reason is null and new ->> 'reason' is null"
	jr_ok queue default
	assert_line --index 1 --regexp ' until resumed$'
	jr_ok status
	assert_line --regexp '^! queue default: paused by [^ ]+ \(jobrun resume --queue default\)$'
	jr_ok explain "$id"
	assert_line --partial 'queue default is paused by'
	refute_line --regexp 'until resumed: '
}

@test "control characters in a reason move no cursor" {
	jr_ok pause --queue mail --reason $'\e[2J\nworse'
	jr_ok status
	assert_line --partial '\x1b[2J\x0aworse'
	jr_ok queue mail
	assert_line --partial '\x1b[2J\x0aworse'
}

@test "pause and resume are all or nothing" {
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	jr pause --queue mail --definition nightly,weekly
	assert_equal "$status" 65
	assert_equal "$stderr" 'jobrun: there is no definition "weekly"'
	q_is 0 'select count(*) from jobrun.job_queues'
	jr_ok pause --queue mail --definition nightly --type a
	jr resume --queue mail --definition weekly
	assert_equal "$status" 65
	q_is t "select paused_until > now() from jobrun.job_queues"
	jr_ok resume --queue mail --definition nightly --type a
	assert_equal "$output" 'queue mail: resumed
type a: resumed
definition nightly: resumed'
}

@test "pause without a name is exit 64, and so is what is no name" {
	for command in pause resume; do
		jr "$command"
		assert_equal "$status" 64
		assert_equal "$stderr" 'jobrun: name what: --type TYPE, --queue QUEUE, --definition NAME, --host HOST, or --all'
		jr "$command" --reason 'no name'
		assert_equal "$status" 64
		jr "$command" --queue 'No Name'
		assert_equal "$status" 64
		jr "$command" mail
		assert_equal "$status" 64
	done
	jr pause --queue mail --for 0
	assert_equal "$status" 64
	jr pause --queue mail --reason "$(printf '%1001s' x)"
	assert_equal "$status" 65
	q_is 0 'select count(*) from jobrun.job_queues'
}

@test "pause -n and resume -n say what would be and do nothing" {
	jr_ok pause --queue mail -n
	assert_equal "$output" 'queue mail: would be paused'
	q_is 0 'select count(*) from jobrun.job_queues'
	jr_ok pause --queue mail
	jr_ok resume --queue mail -n
	assert_equal "$output" 'queue mail: would be resumed'
	q_is 't|1' "select paused_until > now(), (select count(*) from jobrun.job_audit) from jobrun.job_queues"
}
