#!/usr/bin/env bats
# A server whose lc_messages is not English.

load ../lib/common

# german: a cluster that speaks German. Only the server finds the locale, in a folder that its user can read. (In a program with LOCPATH
# glibc's setlocale leaks, which the sanitizers report.)
german() {
	[ -e "/usr/share/locale/de/LC_MESSAGES/postgres-$(major_of "${JR_PSQL%psql}postgres" --version).mo" ] || skip 'no translation of this PostgreSQL'
	server_locpath=$(mktemp -d /tmp/jobrun-locale.XXXXXX)
	at_end+=(remove_locale)
	localedef -i de_DE -f UTF-8 "$server_locpath/de_DE.UTF-8"
	chmod -R a+rX "$server_locpath"
	own_cluster -o lc_messages=de_DE.UTF-8
	run q 'select 1/0'
	assert_output --partial 'Division durch Null'
}

remove_locale() {
	rm -rf "$server_locpath"
}

@test "where the server speaks German, the error still says where a payload or a line of a batch is not JSON" {
	german
	jr enqueue work '{"a":[1,2,x]}'
	assert_one_line 65 '^jobrun: the payload is not JSON: line 1, column 11: .*ung.ltige Eingabesyntax'
	printf '%s\n' 1 '{"a": x}' >lines
	jr enqueue work --batch lines
	assert_one_line 65 '^jobrun: lines: line 2: ung.ltige Eingabesyntax .*; up to there: \{"a": x'
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "where the server speaks German, errors still name the missing grant, doctor for a lock, and the function of a trigger" {
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
