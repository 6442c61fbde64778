#!/usr/bin/env bats
# jobrun doctor, the checks of this host: each is broken once and found, with what to type.

load ../lib/common
load ../lib/doctor

setup() {
	common_setup
	doctor_setup
	handler work <<<'exit 0'
}

@test "doctor finds nothing where all is well, as a role that may only run, and writes nothing" {
	make_role "run_$JR_DATABASE"
	jr_ok grant run "run_$JR_DATABASE"
	admin "grant pg_read_all_stats to \"run_$JR_DATABASE\""
	crontab <<<"JOBRUN_DATABASE_URL=x"$'\n'"* * * * * $JOBRUN --once"
	jr_ok run
	url=$(url_of "run_$JR_DATABASE")
	rm -rf "$JOBRUN_STATE_DIR"
	JOBRUN_DATABASE_URL=$url jr doctor --json
	assert_equal "$(jq -c '[.version, (.checks | map(select(.state != "ok")))]' <<<"$output")" '[1,[]]'
	assert_equal "$status" 0
	assert_equal "$(jq '.checks | length' <<<"$output")" 24
	assert_not_exist "$JOBRUN_STATE_DIR"
	q "do \$do\$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end \$do\$"
	terminate_backends # of a pooler
	JOBRUN_DATABASE_URL="$url target_session_attrs=any" jr doctor --json
	assert_equal "$(jq -c '.checks | map(select(.state != "ok") | [.check, .state])' <<<"$output")" '[["server","fail"]]'
	assert_equal "$status" 1
}

@test "doctor needs no more than read, and says what it could not check without it" {
	make_role "read_$JR_DATABASE"
	jr_ok grant read "read_$JR_DATABASE"
	jr_ok run
	rm "$JOBRUN_HANDLERS/work"
	JOBRUN_DATABASE_URL=$(url_of "read_$JR_DATABASE") jr doctor --json
	# The role may not grant that itself, so the command is not for its connection.
	assert_regex "$(jq -r '.checks[] | select(.state == "unchecked") | .check + ": " + .text + ": " + .command' <<<"$output")" \
		"^transactions: how long transactions of other roles last: role read_$JR_DATABASE may not see it: psql -h [^ ]+ -p [0-9]+ -d $JR_DATABASE -c 'grant pg_read_all_stats to read_$JR_DATABASE'$"
	make_role "enqueue_$JR_DATABASE"
	jr_ok grant enqueue "enqueue_$JR_DATABASE"
	JOBRUN_DATABASE_URL=$(url_of "enqueue_$JR_DATABASE") jr doctor --json
	assert_equal "$(jq -r '[.checks[] | select(.text | test("permission denied")) | .state] | unique[]' <<<"$output")" unchecked
	assert_equal "$status" 0
}

@test "doctor prints for people: wrapped on a terminal, commands in one piece, the sum at the end" {
	touch "$HOME/.pgpass"
	chmod 644 "$HOME/.pgpass"
	run on_terminal 60 doctor pgpass handlers
	assert_line --index 0 --regexp '^warn  pgpass'
	assert_line "                type: chmod 600 $HOME/.pgpass"
	assert_line --index -1 '0 FAIL, 1 warn, 0 not checked, 1 ok'
	assert_equal "$(grep -v 'type:' <<<"$output" | awk 'length > 60 && NF > 4')" ''
	jr doctor pgpass
	assert_line --index 0 "warn  pgpass  $HOME/.pgpass has mode 0644, others can read it: libpq ignores it, and has no password from it"
	jr doctor pgpas
	assert_one_line 64 'unknown check "pgpas": did you mean "pgpass"'
}

@test "doctor finds a .pgpass that libpq ignores" {
	finds pgpass ok 'there is no '
	touch "$HOME/.pgpass" "$TMPDIR/other"
	chmod 640 "$HOME/.pgpass" "$TMPDIR/other"
	finds pgpass warn 'has mode 0640.*libpq ignores it' "^chmod 600 $HOME/.pgpass$"
	chmod 600 "$HOME/.pgpass"
	finds pgpass ok 'can be used'
	PGPASSFILE=$TMPDIR/other finds pgpass warn "$TMPDIR/other has mode 0640"
	DOCTOR_URL="$JOBRUN_DATABASE_URL passfile=$TMPDIR" finds pgpass warn "$TMPDIR is no plain file"
}

@test "doctor finds handlers that are refused, and programs that cron does not find" {
	finds handlers ok '^[0-9]+ in '
	chmod go+w "$JOBRUN_HANDLERS/work"
	finds handlers fail 'work: cannot trust.*this host does not run this job type' "^chmod go-w $JOBRUN_HANDLERS/work$"
	chmod go-w "$JOBRUN_HANDLERS/work"
	echo '{"argv": ["no_such_program"]}' >"$JOBRUN_HANDLERS/argv.json"
	finds handlers fail 'argv.json.*no_such_program'
	JOBRUN_HANDLERS=$TMPDIR/none finds handlers fail 'this host runs nothing' "^mkdir -p $TMPDIR/none$"
	(
		unset JOBRUN_HANDLERS
		export XDG_CONFIG_HOME=$TMPDIR/none
		[ -e /etc/jobrun/handlers ] || finds handlers warn 'this host runs nothing' '^mkdir -p /etc/jobrun/handlers$'
	)
	rm "$JOBRUN_HANDLERS/argv.json"

	finds path ok
	mkdir "$TMPDIR/bin"
	cp "$(type -P true)" "$TMPDIR/bin/jobtool"
	handler tool <<<'#!/usr/bin/env -S A=b jobtool'
	PATH=$PATH:$TMPDIR/bin finds path fail 'tool starts jobtool, which is not in the PATH that it gets from cron, /usr/bin:/bin' '^command -v jobtool$'
	crontab <<<"PATH=/usr/bin:$TMPDIR/bin"$'\n'"* * * * * $JOBRUN --once"
	finds path ok
	crontab </dev/null
	echo "{\"env\": {\"PATH\": \"$TMPDIR/bin\"}}" >"$JOBRUN_HANDLERS/tool.json"
	finds path ok
	echo '{"argv": ["/usr/bin/env", "jobtool"]}' >"$JOBRUN_HANDLERS/other.json"
	finds path fail 'other starts jobtool'
}

@test "doctor finds directories for permits that runners refuse, and creates none" {
	finds state ok "permits are in $JOBRUN_STATE_DIR"
	assert_not_exist "$JOBRUN_STATE_DIR"
	mkdir -m 755 "$JOBRUN_STATE_DIR"
	finds state fail 'is open to others \(mode 0755\): no runner starts on this host' "^chmod 700 $JOBRUN_STATE_DIR$"
	chmod 700 "$JOBRUN_STATE_DIR"
	finds state ok
	JOBRUN_STATE_DIR=$TMPDIR/a/b finds state fail
	unset JOBRUN_STATE_DIR
	finds state ok "$HOME/.local/state/jobrun"
	assert_not_exist "$HOME/.local"
}

@test "doctor finds what starts runners, what is wrong with it, and what it could not read" {
	crontab </dev/null
	finds cron warn 'nothing runs on this host' "printf '%s.n' .*'\* \* \* \* \* .*--once'.* crontab -$"
	# The line that it writes is one of cron, and names this database.
	command=$(jq -r '.checks[0].command' <<<"$output")
	sh -c "${command% | crontab -}" | tail -n 4 >lines
	assert_equal "$(cat lines)" "JOBRUN_DATABASE_URL=$JOBRUN_DATABASE_URL
JOBRUN_HANDLERS=$JOBRUN_HANDLERS
JOBRUN_STATE_DIR=$JOBRUN_STATE_DIR
* * * * * $(readlink -f "$JOBRUN") --once"
	jr doctor --json -d "$JOBRUN_DATABASE_URL" cron
	command=$(jq -r '.checks[0].command' <<<"$output")
	assert_regex "$(sh -c "${command% | crontab -}" | tail -n 1)" "^\* \* \* \* \* $(readlink -f "$JOBRUN") -d '.*dbname=.*$JR_DATABASE.*' --once$"
	# cron ends a command at a "%".
	jr doctor --json -d "$JOBRUN_DATABASE_URL application_name=100%" cron
	command=$(jq -r '.checks[0].command' <<<"$output")
	assert_regex "$(sh -c "${command% | crontab -}")" "[^0-9]100\\\\%"
	jr doctor --json -d "$JOBRUN_DATABASE_URL password=s3cret" cron
	refute_output --partial s3cret
	# With these lines alone, in another directory and with an option instead of a variable, its runners have the same handlers.
	mkdir "it's here"
	cp "$JOBRUN_HANDLERS/work" "it's here/work"
	JOBRUN_HANDLERS='' JOBRUN_STATE_DIR='' jr doctor --json --handlers "it's here" --state-dir state cron
	command=$(jq -r '.checks[0].command' <<<"$output")
	sh -c "${command% | crontab -}" | tail -n 4 >lines
	assert_equal "$(sed -n 2,3p lines)" "JOBRUN_HANDLERS=$PWD/it's here"$'\n'"JOBRUN_STATE_DIR=$PWD/state"
	mapfile -n 3 -t variables <lines
	q "select jobrun.enqueue('work')" >/dev/null
	run -0 env -i -C / HOME="$HOME" PATH=/usr/bin:/bin "${variables[@]}" /bin/sh -c "$(sed -n '4s/^\* \* \* \* \* //p' lines)"
	q_is succeeded "select status from jobrun.job_runs where job_type = 'work'"
	# What has its default needs no line.
	mkdir -p "$HOME/.config/jobrun"
	cp -r "$JOBRUN_HANDLERS" "$HOME/.config/jobrun/handlers"
	JOBRUN_HANDLERS='' JOBRUN_STATE_DIR='' jr doctor --json cron
	refute_output --regexp 'JOBRUN_(HANDLERS|STATE_DIR)'
	rm -r "$HOME/.config"
	crontab <<<"* * * * * $JOBRUN check"
	finds cron warn 'nothing runs on this host'
	crontab <<-EOF
		* * * * * $JOBRUN exec sync -- /opt/sync/run --all
		* * * * * $JOBRUN -d x enqueue report '{"kind": "run"}'
	EOF
	finds cron warn 'nothing runs on this host'
	crontab <<<"* * * * * $JOBRUN run --for 59s"
	finds cron warn 'your crontab names no database, and this shell does' '^crontab -e$'
	crontab <<<"JOBRUN_DATABASE_URL=x"$'\n'"* * * * * $JOBRUN run --for 59s"
	finds cron ok "^your crontab starts $JOBRUN: $"
	crontab <<<"* * * * * JOBRUN_DATABASE_URL=postgresql://ada:s3cret@h/jobrun $JOBRUN --once -d postgresql://ada:s3cret@h/jobrun"
	finds cron ok "^your crontab starts $JOBRUN: $"
	refute_output --partial s3cret
	crontab <<<"* * * * * jobrun_nowhere/jobrun --once -d x"
	finds cron fail 'starts jobrun_nowhere/jobrun, which is no program here'
	crontab <<<"PATH=/nowhere"$'\n'"* * * * * jobrun --once -d x"
	finds cron fail 'starts jobrun, which is not in its PATH: nothing starts; write /.*jobrun' '^crontab -e$'
	printf '#!/bin/sh\necho "crontab: you may not" >&2; exit 1\n' >"$TMPDIR/doctor/crontab"
	finds cron unchecked 'your crontab: crontab -l: crontab: you may not'
	printf '#!/bin/sh\nsleep 60\n' >"$TMPDIR/doctor/crontab"
	finds cron unchecked 'did not end within'
	crontab </dev/null
	mkdir -p "$HOME/.config/systemd/user/timers.target.wants"
	printf '[Timer]\nOnCalendar=minutely\n' >"$HOME/.config/systemd/user/jobs.timer"
	printf '[Service]\nEnvironment=JOBRUN_DATABASE_URL=x\nExecStart=%s --once\n' "$JOBRUN" >"$HOME/.config/systemd/user/jobs.service"
	finds cron fail 'timer jobs.timer of systemd --user is not enabled' '^systemctl --user enable --now jobs.timer$'
	ln -s ../jobs.timer "$HOME/.config/systemd/user/timers.target.wants/"
	finds cron ok "timer jobs.timer of systemd --user starts $JOBRUN: $"
	rm "$JOBRUN_HANDLERS/work" "$HOME/.config/systemd/user/jobs.timer"
	finds cron ok 'this host has no handlers'
}

@test "of each check of doctor there is a test that breaks what it looks at" {
	local check

	jr doctor --json
	jq -r '.checks[].check' <<<"$output" | sort -u >checks
	assert_equal "$(wc -l <checks)" 24
	while read -r check; do
		grep -qE "finds $check (warn|fail)|\^(warn|FAIL)  $check" "$TOP"/test/operate/doctor*.bats || fail "no test breaks $check"
	done <checks
}
