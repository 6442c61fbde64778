#!/usr/bin/env bats
# jobrun check: a monitoring plugin. Each measure is made bad alone, and good again.

load ../lib/common

setup() {
	common_setup
	typical_handlers
	enqueue work
	jr_ok run
}

# check STATUS TEXT [ARGUMENT...]: the exit status, and a part of the first line, which is all that most systems show.
check() {
	local expected=$1 text=$2

	shift 2
	jr check "$@"
	assert_equal "$stderr" ''
	[ "$status" -eq "$expected" ] || fail "exit status $status, expected $expected: $output"
	[[ ${lines[0]} == *"$text"* ]] || fail "no \"$text\" in: $output"
}

@test "check: one line of text and numbers, a line for each measure, and all is well" {
	jr check
	assert_equal "$status" 0
	assert_equal "$stderr" ''
	# As the guidelines have it: text | label=value[unit];warning;critical;minimum ...
	assert_regex "${lines[0]}" '^JOBRUN OK: last runner seen [0-9]+m?s ago on [^ ]+; nothing waits; no dead in the last hour \| runner_age=[0-9]+s;180;300;0 oldest_due=0s;300;900;0 dead=0;0;9;0 slot_late=0s;120;600;0 expired_leases=0;0;4;0 paused=0;;;0$'
	assert_equal "${#lines[@]}" 7
	assert_line '[OK] no slot is late'
	assert_line '[OK] nothing is paused'
	jr check --json
	assert_equal "$status" 0
	assert_equal "$(jq -c '[.version, .state, .exit_status, (.measures | length)]' <<<"$output")" '[1,"OK",0,6]'
	assert_equal "$(jq -c '.measures[2]' <<<"$output")" \
		'{"label":"dead","state":"OK","value":0,"unit":null,"warning":"0","critical":"9","about":null,"text":"no dead in the last hour"}'
}

@test "check: no runner, a late run, a dead one, a late slot, an expired lease" {
	q "update jobrun.job_runners set last_seen_at = now() - interval '4 minutes'"
	check 1 'JOBRUN WARNING: last runner seen 4m'
	q "update jobrun.job_runners set last_seen_at = now() - interval '6 minutes'"
	check 2 'JOBRUN CRITICAL: last runner seen 6m'
	check 0 'JOBRUN OK' -w runner_age=1h -c runner_age=2h
	q "delete from jobrun.job_runners"
	check 2 'JOBRUN CRITICAL: no runner has been seen yet | runner_age=U '
	check 0 'JOBRUN OK: no runner has been seen yet' -w runner_age= -c runner_age=
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'h', 'x')"

	q "insert into jobrun.job_runs (job_type, run_at) values ('mail', now() - interval '6 minutes')"
	check 1 'JOBRUN WARNING: oldest due run waits for 6m'
	check 1 '(mail)' mail
	check 0 'JOBRUN OK' work
	check 2 'JOBRUN CRITICAL: oldest due' -c oldest_due=5m
	check 2 'JOBRUN CRITICAL: oldest due' -c oldest_due=@300:400 -w oldest_due=
	q "update jobrun.job_runs set status = 'running', runner_id = 7, locked_by = 'h', locked_until = now() + interval '1 minute',
		started_at = now(), attempts = 1, claim_seq = 1 where status = 'queued'"
	check 0 'JOBRUN OK' # somebody holds it
	q "update jobrun.job_runs set locked_until = now() - interval '3 minutes' where status = 'running'"
	check 1 'JOBRUN WARNING: 1 expired lease (h) |'
	q "update jobrun.job_runs set status = 'dead', finished_at = now(), locked_until = null, error_code = 'x' where status = 'running'"
	check 1 'JOBRUN WARNING: 1 dead in the last hour (mail) |'
	check 2 'JOBRUN CRITICAL: 1 dead' -c dead=0
	check 0 'JOBRUN OK' -w dead=1
	check 0 'JOBRUN OK' work
	q "update jobrun.job_runs set finished_at = now() - interval '61 minutes' where status = 'dead'"
	check 0 'JOBRUN OK'
	q "update jobrun.job_runs set finished_at = now() where status = 'dead'" \
		"insert into jobrun.job_runs (job_type, status, finished_at, error_code) select t, 'dead', now(), 'expired' from unnest('{mail,other}'::text[]) t"
	check 1 'JOBRUN WARNING: 3 dead in the last hour (mostly mail) |'
	q "insert into jobrun.job_runs (job_type, status, finished_at, error_code) values ('other', 'dead', now(), 'expired')"
	check 1 'JOBRUN WARNING: 4 dead in the last hour (mail, other) |' # mail is half of them, not most
	jr check --json
	assert_equal "$(jq -r '.measures[2].about' <<<"$output")" 'mail, other'
	q "insert into jobrun.job_runs (job_type, status, finished_at, error_code) select t, 'dead', now(), 'expired' from unnest('{c,a,b,b}'::text[]) t"
	check 1 'JOBRUN WARNING: 8 dead in the last hour (b, mail, other and others) |'
	q "delete from jobrun.job_runs where status = 'dead'"

	jr_ok define nightly --schedule '* * * * *' --type work --time-zone UTC
	q "update jobrun.job_definitions set next_slot_at = now() - interval '11 minutes' where name = 'nightly'"
	check 2 'JOBRUN CRITICAL: a slot of nightly is 11m'
	jr_ok pause --definition nightly
	check 0 'JOBRUN OK'
	check 1 'JOBRUN WARNING: 1 paused (definition nightly) |' -w paused=0
}

@test "check: what is paused is not late, and the worst comes first" {
	local what

	q "insert into jobrun.job_queues (name) values ('slow'), ('other')" \
		"insert into jobrun.job_definitions (name, job_type) values ('nightly', 'mail')" \
		"insert into jobrun.job_runs (job_type, queue, run_at) values ('mail', 'slow', now() - interval '20 minutes')" \
		"insert into jobrun.job_runs (job_type, queue, run_at, definition_id)
		select 'mail', 'other', now() - interval '10 minutes', id from jobrun.job_definitions where name = 'nightly'"
	check 2 'JOBRUN CRITICAL: oldest due run waits for 20m'
	jr_ok pause --queue slow
	check 1 'JOBRUN WARNING: oldest due run waits for 10m'
	jr_ok pause --definition nightly
	check 0 '; nothing waits that is not paused;'
	# Another run with the same key of the index, behind those of the paused definition.
	q "insert into jobrun.job_runs (job_type, queue, run_at, concurrency_key) values ('mail', 'other', now() - interval '8 minutes', 'k')"
	check 1 'JOBRUN WARNING: oldest due run waits for 8m'
	jr_ok resume --queue slow
	for what in '--type mail' --all; do
		jr_ok pause $what
		check 0 '; nothing waits that is not paused;'
		jr_ok resume $what
	done
	q "update jobrun.job_runners set last_seen_at = now() - interval '4 minutes'"
	check 2 'JOBRUN CRITICAL: oldest due run waits for 20m'
	assert_regex "${lines[0]}" '; last runner seen 4m.* \|'
	assert_line --regexp '^\[CRITICAL\] oldest due'
	assert_line --regexp '^\[WARNING\] last runner'
}

@test "check: a job type that nobody knows is UNKNOWN, unless something is wrong anyway" {
	check 0 'JOBRUN OK' work
	check 3 'JOBRUN UNKNOWN: nothing is known of job type wrok; did you mean work?' work wrok
	jr check --json wrok
	assert_equal "$(jq -c '[.state, .exit_status, .error]' <<<"$output")" \
		'["UNKNOWN",3,"nothing is known of job type wrok; did you mean work?"]'
	q "update jobrun.job_runners set last_seen_at = now() - interval '6 minutes'"
	check 2 'JOBRUN CRITICAL: last runner seen 6m' wrok
	q "update jobrun.job_runners set last_seen_at = now()"
	# A definition, a run, or the count of runs that are long gone is enough.
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'dump')" \
		"insert into jobrun.job_runs (job_type) values ('mail')" \
		"insert into jobrun.job_totals values (now(), 1, 1, 1, 'old', 'exec', 'succeeded', '{1}', '{1}')"
	check 0 'JOBRUN OK' dump mail old
}

@test "check: every error is UNKNOWN, on stdout" {
	check 3 'JOBRUN UNKNOWN: -w: "dead" is not LABEL=RANGE' -w dead
	check 3 'JOBRUN UNKNOWN: unknown label "daed": did you mean "dead"?' -w daed=1
	check 3 'JOBRUN UNKNOWN: dead=5m: "5m" is not a whole number' -w dead=5m
	check 3 'JOBRUN UNKNOWN: unknown option' --wrong
	check 3 'JOBRUN UNKNOWN' 'Not a type'
	JOBRUN_LOG_FORMAT=bogus check 3 'JOBRUN UNKNOWN: unknown JOBRUN_LOG_FORMAT "bogus": text or json'
	run --separate-stderr "$JOBRUN" --bogus check
	assert_equal "$status $stderr" '3 '
	assert_output --partial 'JOBRUN UNKNOWN: unknown option'
	jr check --help
	assert_equal "$status" 3
	assert_line 'usage: jobrun check [OPTION...] [TYPE...]'
	JOBRUN_DATABASE_URL='host=/nowhere' check 3 'JOBRUN UNKNOWN: connection to server' --timeout 2s
	JOBRUN_DATABASE_URL='host=/nowhere' check 2 'JOBRUN CRITICAL: connection to server' --timeout 2s --unreachable critical
	jr check 'Not|a type'
	assert_regex "$output" '"Not/a type"' # the first | begins the numbers
	JOBRUN_DATABASE_URL='host=/nowhere' jr check --json --timeout 2s
	assert_equal "$status" 3
	assert_equal "$(jq -c '[.state, .exit_status, (.error | length > 10)]' <<<"$output")" '["UNKNOWN",3,true]'
	# What could not be said is unknown, too.
	run bash -c "'$JOBRUN' check >/dev/full"
	assert_equal "$status" 3
	assert_output 'jobrun: could not write to stdout: No space left on device'
}

@test "check gives up when its time is over, whatever the server does" {
	hold 'lock table jobrun.job_runs in access exclusive mode'
	check 3 'JOBRUN UNKNOWN: ' --timeout 1s
	check 2 'JOBRUN CRITICAL: ' --timeout 1s --unreachable critical
	release_holds
	check 0 'JOBRUN OK'
	# A server that takes connections and says nothing.
	perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 9) or die; sleep 60' \
		"$TMPDIR/.s.PGSQL.5432" 3>&- 4>&- &
	wait_until 10 test -S "$TMPDIR/.s.PGSQL.5432"
	JOBRUN_DATABASE_URL="host=$TMPDIR" check 3 'JOBRUN UNKNOWN: ' --timeout 1s
	JOBRUN_DATABASE_URL="host=$TMPDIR" jr check --json --timeout 1s --unreachable warning
	assert_equal "$status" 1
	assert_equal "$(jq -c '[.version, .state]' <<<"$output")" '[1,"WARNING"]'
	kill $!
}

@test "check: who may read sees all, who may not is told" {
	local role=check_$JR_DATABASE

	make_role "$role"
	JOBRUN_DATABASE_URL=$(url_of "$role") jr check
	assert_equal "$status" 3
	assert_regex "${lines[0]}" '^JOBRUN UNKNOWN: .*permission denied'
	jr_ok grant read "$role"
	JOBRUN_DATABASE_URL=$(url_of "$role") jr check
	assert_equal "$status" 0
	assert_regex "${lines[0]}" '^JOBRUN OK: '
}

@test "check asks what waits for the next exec only where a run may be one, not for each queue" {
	q "select jobrun.enqueue('work', queue => 'of' || i, concurrency_key => 'key') from generate_series(1, 20) i" \
		"update jobrun.job_runs set run_at = now() - interval '1 hour' where status = 'queued'" >/dev/null
	q "set track_functions = 'all'" "do \$\$ begin
		assert (select count(*) from jobrun.oldest_due()) = 20;
		assert (select due from jobrun.late_counts(null)) = '20';
		assert coalesce(pg_stat_get_xact_function_calls('jobrun.waiting_commands'::regproc), 0) = 0, 'it asked'; end \$\$"
}

@test "a retried run of exec waits for its next line, and no alarm is raised: not by status, doctor, check or a tick" {
	local id

	jr exec nightbackup -- false
	jr_ok run
	id=$(q "select max(id) from jobrun.job_runs")
	jr_ok retry "$id"
	q "update jobrun.job_runs set run_at = now() - interval '20 minutes'" "update jobrun.settings set unhandled_looked_at = '-infinity'"
	jr_ok run
	assert_equal "$stderr" ''
	jr_ok status
	assert_line --regexp '^nightbackup +1 '
	refute_line --regexp '^!.*nightbackup'
	jr doctor
	refute_output --partial nightbackup
	check 0 'JOBRUN OK: last runner seen'
	# what somebody has enqueued waits for a handler, also behind it, and of the same definition
	jr_ok enqueue --definition nightbackup
	q "update jobrun.job_runs set queue = 'exec', run_at = now() - interval '19 minutes' where claim_seq = 0" \
		"update jobrun.settings set unhandled_looked_at = '-infinity'"
	check 2 'JOBRUN CRITICAL: oldest due run waits for 19m'
	jr_ok status
	assert_line --partial '! nightbackup: 1 due, and no runner'
	jr doctor
	assert_line --regexp '^FAIL.* a run of nightbackup in queue exec has been due for 19m'
	jr_ok run
	assert_regex "$stderr" 'nightbackup ha(s|ve) waited since .*: no host has a handler'
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now(), error_code = 'cancelled' where claim_seq = 0"
	check 0 'JOBRUN OK'
	# a runner that has a handler of this name takes it, and is late
	q "update jobrun.job_runners set job_types = job_types || '{nightbackup}'"
	check 2 'JOBRUN CRITICAL: oldest due run waits for 20m'
	q "update jobrun.job_runners set job_types = array_remove(job_types, 'nightbackup')"
	check 0 'JOBRUN OK'
	# nobody takes it without the definition
	jr_ok define --remove nightbackup
	check 2 'JOBRUN CRITICAL: oldest due run waits for 20m'
}
