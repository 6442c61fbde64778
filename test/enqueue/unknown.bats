#!/usr/bin/env bats
# Names that nothing has: the command does its work, and warns in one line on stderr.

load ../lib/common

warning='jobrun: warning: no host has a handler for'
nobody='(no runner of the last day, nor this host)'

@test "enqueue of a type that no host has: queued all the same, with one line and the name spelt nearly so" {
	handler send_mail <<<'exit 0'
	jr_ok enqueue send_mial
	assert_equal "$stderr" "$warning send_mial $nobody; did you mean send_mail?"
	q_is 1 "select count(*) from jobrun.job_runs where job_type = 'send_mial'"
	jr_ok enqueue quite_another
	assert_equal "$stderr" "$warning quite_another $nobody"
	jr_ok enqueue send_mail
	assert_equal "$stderr" ''
	printf '{}\n{}\n' >"$TMPDIR/lines"
	jr_ok enqueue send_mial --batch "$TMPDIR/lines"
	assert_equal "$output" 'queued 2 runs'
	assert_equal "$stderr" "$warning send_mial $nobody; did you mean send_mail?"
	jr_ok enqueue send_mail --batch "$TMPDIR/lines"
	assert_equal "$stderr" ''
}

@test "a type that only another host has is known for a day; with no handler and no runner anywhere nothing is said" {
	jr_ok enqueue fax
	assert_equal "$stderr" ''
	q "insert into jobrun.job_runners (id, host, pid, version, job_types, permits, started_at, last_seen_at, finished_at, counts)
		values (1, 'db2', 1, '1', '{fax,jobrun.prune}', 1, now() - interval '23 hours', now() - interval '23 hours', now(), '{}')"
	jr_ok enqueue fax
	assert_equal "$stderr" ''
	jr_ok enqueue fxa
	assert_equal "$stderr" "$warning fxa $nobody; did you mean fax?"
	q "update jobrun.job_runners set started_at = now() - interval '25 hours', last_seen_at = now() - interval '25 hours'"
	handler send_mail <<<'exit 0'
	jr_ok enqueue fax
	assert_equal "$stderr" "$warning fax $nobody"
}

@test "a role that may only enqueue hears it too, and its enqueue is not refused for it" {
	app=app_$JR_DATABASE
	make_role "$app"
	handler send_mail <<<'exit 0'
	jr_ok grant enqueue "$app"
	jr_ok -d "$(url_of "$app")" enqueue send_mial
	assert_equal "$stderr" "$warning send_mial $nobody; did you mean send_mail?"
}

@test "define and --on-dead warn of a type that no host has, but not of a name that exec may use" {
	handler send_mail <<<'exit 0'
	jr_ok define nightly --type send_mial --schedule @daily
	assert_equal "$stderr" "$warning send_mial $nobody; did you mean send_mail?"
	jr_ok enqueue --definition nightly
	assert_equal "$stderr" "$warning send_mial $nobody; did you mean send_mail?"
	jr_ok define nightly --type send_mail --on-dead tell_us
	assert_equal "$stderr" "$warning tell_us $nobody"
	jr_ok define nightly --on-dead none
	assert_equal "$stderr" ''
	jr_ok define backup --lock disk
	assert_equal "$stderr" ''
	jr_ok define send_mial --timeout 5m
	assert_equal "$stderr" "$warning send_mial $nobody; did you mean send_mail?"
	jr_ok define --file - <<<'{"definitions": [{"name": "weekly", "job_type": "no_such", "schedule": "@weekly"}]}'
	assert_line --partial weekly
	assert_equal "$stderr" "$warning no_such $nobody
$warning send_mial $nobody; did you mean send_mail?"
	# a deployment that applies it again each time: nothing differs, so nothing is said
	jr_ok define --file - <<<'{"definitions": [{"name": "weekly", "job_type": "no_such", "schedule": "@weekly"}]}'
	assert_equal "$output$stderr" ''
}

@test "define does not warn of what exec uses, however its name is spelt, and with its history pruned" {
	handler song <<<'exit 0'
	jr_ok exec long -- true
	jr_ok define long --description nightly
	assert_equal "$stderr" ''
	echo '{"definitions": [{"name": "long", "job_type": "long", "description": "nightly"}]}' >"$TMPDIR/file"
	jr_ok define --file "$TMPDIR/file"
	assert_equal "$stderr" ''
	q 'delete from jobrun.job_audit'
	sed -i s/nightly/daily/ "$TMPDIR/file"
	jr_ok define --file "$TMPDIR/file"
	assert_equal "$stderr" "$warning long $nobody; did you mean song?"
	q "insert into jobrun.job_totals (job_type, queue, outcome, last_hour, n, run_ms, wait_ms, run_buckets, wait_buckets)
		values ('long', 'exec', 'succeeded', date_trunc('hour', now()), 1, 1, 1, '{}', '{}')"
	sed -i s/daily/weekly/ "$TMPDIR/file"
	jr_ok define --file "$TMPDIR/file"
	assert_equal "$stderr" ''
	# A run that is enqueued, or due by a schedule, does need a handler.
	jr_ok enqueue long
	assert_equal "$stderr" "$warning long $nobody; did you mean song?"
	jr_ok define long --schedule @daily
	assert_equal "$stderr" "$warning long $nobody; did you mean song?"
}

@test "pause and queue of a name that nothing has do their work, and ask what was meant" {
	handler send_mail <<<'exit 0'
	enqueue send_mail -q mail
	jr_ok run
	jr_ok pause --queue mail --type send_mail
	assert_equal "$stderr" ''
	jr_ok pause --queue mial --type send_mial --for 1h
	assert_equal "$stderr" 'jobrun: warning: queue mial is not known so far; did you mean mail?
jobrun: warning: type send_mial is not known so far; did you mean send_mail?'
	q_is 1 "select count(*) from jobrun.job_types where name = 'send_mial' and paused_until > now()"
	jr_ok queue mali --max-running 3
	assert_line --regexp '^mali +0 +0 +3'
	assert_regex "$stderr" 'warning: queue mali is not known so far; did you mean ma[il]{2}|mial\?'
	jr_ok queue mali --max-running 4
	assert_equal "$stderr" ''
	jr queue nothing_like_it
	assert_equal "$status" 1
	assert_regex "$stderr" 'queue nothing_like_it has no limits, and no run is in it'
}

@test "enqueue -n says what holds the run back, as explain does, and nothing when nothing does" {
	handler work <<<'exit 0'
	jr_ok run
	jr_ok enqueue work -n
	assert_equal "$output$stderr" 'would queue work: queue default, priority 100, due now'
	jr_ok queue mail --max-running 0 --rate 1/1h
	jr_ok pause --type work --reason 'new version'
	jr_ok pause --queue mail --for 1h
	me=$(q 'select session_user')
	jr_ok enqueue work -q mail -n
	assert_equal "${lines[0]}" 'would queue work: queue mail, priority 100, due now'
	assert_equal "${lines[1]}" "!   type work is paused by $me until resumed: new version   jobrun resume --type work"
	assert_regex "${lines[2]}" "^!   queue mail is paused by $me until .* \(in (1h|5?[0-9]m.*)\)   jobrun resume --queue mail$"
	assert_equal "${lines[3]}" '!   queue mail lets no run start: its max-running is 0   jobrun queue mail --max-running 1'
	assert_equal "${#lines[@]}" 4
	jr_ok enqueue work -q mail -n --json
	assert_equal "$(jq -r .queue <<<"$output")" mail
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "enqueue -n by a role that may only enqueue works" {
	app=app_$JR_DATABASE
	make_role "$app"
	jr_ok grant enqueue "$app"
	jr_ok -d "$(url_of "$app")" enqueue work -n
	assert_equal "$output$stderr" 'would queue work: queue default, priority 100, due now'
}

@test "list, retry and cancel that find nothing name the job types, queues and definitions that nothing has" {
	local command

	handler send_mail <<<'exit 0'
	jr_ok define nightly --type send_mail --schedule @yearly
	enqueue send_mail >/dev/null
	jr_ok run
	for command in 'list' 'retry' 'cancel' 'retry -n' 'cancel -n'; do
		# shellcheck disable=SC2086 # words
		jr_ok $command --type send_mial,send_mail --queue defautl
		assert_equal "$stderr" "jobrun: warning: type send_mial is not known so far; did you mean send_mail?
jobrun: warning: queue defautl is not known so far; did you mean default?"
		# shellcheck disable=SC2086 # words
		jr_ok $command --definition nigtly,nightly
		assert_equal "$stderr" 'jobrun: warning: definition nigtly is not known so far; did you mean nightly?'
		# shellcheck disable=SC2086 # words
		jr_ok $command --type send_mail --since 1ms
		assert_equal "$stderr" ''
	done
}
