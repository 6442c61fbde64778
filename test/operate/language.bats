#!/usr/bin/env bats
# A server whose lc_messages is not English.

load ../lib/common

# german: a cluster that speaks German, if this machine has what is needed for it.
german() {
	local share

	share=$(dirname "$(dirname "$(readlink -f "$(command -v locale)")")")/share
	[ -e "$share/i18n/locales/de_DE" ] || skip 'no package locales'
	compgen -G "$share/locale/de/LC_MESSAGES/postgres-*.mo" >/dev/null || skip 'no translation of PostgreSQL'
	# Where the user that runs the server can read it.
	LOCPATH=$(mktemp -d /tmp/jobrun-locale.XXXXXX)
	export LOCPATH
	at_end+=(remove_locale)
	localedef -i de_DE -f UTF-8 "$LOCPATH/de_DE.UTF-8"
	chmod -R a+rX "$LOCPATH"
	own_cluster -o lc_messages=de_DE.UTF-8
	run q 'select 1/0'
	assert_output --partial 'Division durch Null'
}

remove_locale() {
	rm -rf "$LOCPATH"
}

@test "where the server speaks German, what is no JSON has its place, in a payload and in a batch" {
	german
	jr enqueue work '{"a":[1,2,x]}'
	assert_one_line 65 '^jobrun: the payload is not JSON: line 1, column 11: .*ung.ltige Eingabesyntax'
	printf '%s\n' 1 '{"a": x}' >lines
	jr enqueue work --batch lines
	assert_one_line 65 '^jobrun: lines: line 2: ung.ltige Eingabesyntax .*; up to there: \{"a": x'
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "where the server speaks German, a missing right names its grant, a lock doctor, and a trigger its function" {
	german
	q 'create role app login' 'create role reader login'
	run_jobrun grant read reader
	jr -d "$JOBRUN_DATABASE_URL user=app" enqueue work
	assert_one_line 77 '^jobrun: permission denied: keine Berechtigung .*; the owner of the schema or an admin types: jobrun grant enqueue app$'
	jr -d "$JOBRUN_DATABASE_URL user=reader" cancel 1
	assert_one_line 77 '^jobrun: permission denied: keine Berechtigung .*: jobrun grant admin reader$'
	hold 'lock table jobrun.job_runs in share mode'
	jr enqueue work
	assert_one_line 75 "^jobrun: .*; another transaction holds the lock; 'jobrun doctor transactions --long 5s' shows which$"
	release_holds
	q "create function public.mine() returns trigger language plpgsql as \$fn\$ begin raise exception 'not on my watch'; end \$fn\$" \
		"create trigger mine before insert on jobrun.job_runs for each row execute function public.mine()"
	jr enqueue work
	assert_one_line 70 '^jobrun: not on my watch \(P0001, PL/pgSQL-Funktion public\.mine\(\) Zeile 1 bei RAISE\)$'
}
