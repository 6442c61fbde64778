#!/usr/bin/env bats
# A tick tells once, on stderr, that runs wait for a handler that no host has.

load ../lib/common

# The next tick looks again, as if five minutes were over.
look_again() {
	q "update jobrun.settings set unhandled_looked_at = now() - interval '5 minutes'"
}

# waiting TYPE [OPTION...]: a run that has been due for eleven minutes.
waiting() {
	local id

	id=$(enqueue "$@")
	q "update jobrun.job_runs set run_at = now() - interval '11 minutes' where id = $id"
}

# The next tick says nothing on stderr, although it looks.
is_silent() {
	look_again
	jr_ok run "$@"
	assert_equal "$stderr" ''
	q_is t 'select unhandled_looked_at > now() - interval '"'1 minute'"' from jobrun.settings'
}

# tells REGEX...: the next tick says one line that fits each of them.
tells() {
	local line

	look_again
	jr_ok run
	assert_equal "$output" ''
	[ "$(wc -l <<<"$stderr")" -eq $# ] || fail "not $# lines: $stderr"
	for line; do
		grep -Eqx -- "$line" <<<"$stderr" || fail "no line is '$line': $stderr"
	done
}

since='since [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z'

# nobody TYPE: the end of its line.
nobody() {
	echo "no host has a handler for $1 \(seen without it: $(hostname)\); put one on a host, or type: jobrun cancel --type $1"
}

@test "a due run has waited ten minutes for a handler that no host has: one tick says so, again after a day, and not of one that has come" {
	handler send_mail <<<'exit 0'
	enqueue sned_mail 2>/dev/null >"$TMPDIR/id"
	is_silent
	q "update jobrun.job_runs set run_at = now() - interval '11 minutes'"
	enqueue sned_mail 2>/dev/null >"$TMPDIR/id"
	# nobody looks within five minutes
	jr_ok run
	assert_equal "$stderr" ''
	tells "jobrun: 2 runs of sned_mail $since: $(nobody sned_mail); did you mean send_mail\?"
	is_silent
	# the day is over
	q "update jobrun.settings set unhandled_told = jsonb_build_object('sned_mail', now() - interval '25 hours')"
	tells "jobrun: 2 runs of sned_mail $since: .*"
	q_is '["sned_mail"]' 'select jsonb_agg(k) from jobrun.settings s, jsonb_object_keys(s.unhandled_told) k'
	# a new type appears: only that one
	waiting quite_another 2>/dev/null
	tells "jobrun: 1 run of quite_another $since: $(nobody quite_another)"
	q "update jobrun.settings set unhandled_told = '{}'" "delete from jobrun.job_runs where job_type = 'quite_another'"
	handler sned_mail <<<'exit 0'
	is_silent
	# what people would have to see in the audit is not in it
	q_is 0 "select count(*) from jobrun.job_audit where object = 'settings' and (new ? 'unhandled_told') and who <> current_user"
}

@test "nothing is told of runs that people hold back, that are due later, that another host has a handler for, or of one run alone" {
	jr_ok run
	waiting by_type
	waiting by_queue -q full
	jr_ok define by_definition --type other
	waiting --definition by_definition
	jr_ok pause --type by_type
	jr_ok pause --queue full
	jr_ok pause by_definition
	enqueue later --in 1h
	# of an hour ago, behind many other ticks
	waiting there
	q "insert into jobrun.job_runners (id, host, pid, version, job_types, permits, started_at, last_seen_at, finished_at)
		select case when n = 0 then 1 else 100 + n end, 'db2', 1, '1', case when n = 0 then '{there}' else '{jobrun.prune}' end::text[], 1, t, t, t
		from generate_series(0, 2500) n cross join lateral (select now() - interval '2 hours' + n * interval '1 s' as t) t"
	is_silent
	jr_ok resume --type by_type
	jr_ok resume --queue full
	jr_ok resume by_definition
	jr_ok pause --all
	is_silent
	jr_ok resume --all
	is_silent -n
}

@test "two ticks at once: one of them tells, and neither waits" {
	waiting gone
}
