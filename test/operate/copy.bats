#!/usr/bin/env bats
# A restored copy does not do the work of the original unnoticed: it is told, refused where settings say so, and adopted.

load ../lib/common

# The test's database is where it belongs.
setup() {
	common_setup
	q 'set session_replication_role = replica' 'update jobrun.settings set (system_identifier, database_oid) = (select t.system_identifier, t.database_oid from jobrun.this_database() t)'
	handler work <<<'echo "$JOBRUN_KEY"'
	adopts="'jobrun migrate --adopt' if it takes the place of that one, 'jobrun migrate --adopt --cancel-waiting' if that one goes on"
}

# copied: as if it had been restored from a dump of another one.
copied() {
	q 'set session_replication_role = replica' 'update jobrun.settings set database_oid = 1'
}

@test "migrate records where the database belongs, and there nothing is said" {
	enqueue work
	jr_ok run
	assert_equal "$output$stderr" ''
	jr_ok status
	refute_output --partial copied
	drop_schema
	jr_ok migrate
	q_is t "select database_oid = (select oid from pg_database where datname = current_database())
		and system_identifier = (select system_identifier from pg_control_system()) from jobrun.settings"
	jr_ok run
	assert_equal "$stderr" ''
}

@test "a dump restored elsewhere is reported: by run and exec as rarely as an absent database, by status each time" {
	local other=copy_$JR_DATABASE original=$JOBRUN_DATABASE_URL

	needs_dump
	needs_session
	enqueue work
	admin "create database $other"
	at_end+=(drop_other)
	"${JR_PSQL%psql}pg_dump" "$(past_pooler)" | psql_bare "$JR_DIRECT dbname=$other" >/dev/null
	export JOBRUN_DATABASE_URL="$JR_DIRECT dbname=$other"
	jr_ok run
	assert_regex "$stderr" "^jobrun: this database was copied or moved here from another \(server ([0-9]+), database [0-9]+; here [0-9]+, [0-9]+\), and its runs are run here; type 'jobrun migrate --adopt' if"
	assert_equal "${#stderr_lines[@]}" 1
	for _ in 1 2 3; do
		jr_ok run
		assert_equal "$stderr" ''
		jr_ok status
		assert_line --regexp '^! database: this database was copied or moved here .*jobrun migrate --adopt --cancel-waiting'
	done
	jr_ok exec nightly -- true
	assert_regex "$stderr" 'copied or moved here'
	jr_ok exec nightly -- true
	assert_equal "$stderr" ''
	jr_ok status --json
	assert_equal "$(jq -c '[.problems[].problem]' <<<"$output")" '["copy"]'
	# What migrate brings up does not make it the original.
	q "update jobrun.schema_migrations set version = 0 where name = 'functions'"
	jr_ok migrate
	q_is t 'select jobrun.copied() is not null'
	jr_ok migrate --adopt
	assert_output 'adopted: jobrun runs the work of this database from now on'
	q_is t 'select jobrun.copied() is null'
	rm -r "$JOBRUN_STATE_DIR"
	jr_ok run
	assert_equal "$stderr" ''
	JOBRUN_DATABASE_URL=$original
}

drop_other() {
	psql_bare "$JR_DIRECT dbname=postgres" -c "drop database if exists copy_$JR_DATABASE"
}

@test "a dump restored without privileges has lost the grants, and lets everybody call each function, until migrate" {
	local other=copy_$JR_DATABASE original=$JOBRUN_DATABASE_URL shop=shop_$JR_DATABASE

	needs_dump
	needs_session
	make_role "$shop"
	jr_ok grant enqueue "$shop" --type work
	admin "create database $other"
	at_end+=(drop_other)
	"${JR_PSQL%psql}pg_dump" -x "$(past_pooler)" | psql_bare "$JR_DIRECT dbname=$other" >/dev/null
	export JOBRUN_DATABASE_URL="$JR_DIRECT dbname=$other"
	jr doctor grants
	assert_equal "$status" 1
	assert_line --regexp '^FAIL +grants +everybody may call jobrun\.'
	assert_line --partial "enqueue was granted to role $shop, but "
	jr_ok migrate
	jr_ok doctor grants
	assert_output --regexp '^ok +grants '
	jr_ok -d "$JOBRUN_DATABASE_URL user=$shop" enqueue work
	for arguments in 'enqueue other' "grant admin $shop"; do
		# shellcheck disable=SC2086 # words
		jr -d "$JOBRUN_DATABASE_URL user=$shop" $arguments
		assert_equal "$status" 77
	done
	JOBRUN_DATABASE_URL=$original
}

@test "the schema alone is moved to another database, as the manual says, and goes on there with its keys and grants" {
	local other=moved_$JR_DATABASE original=$JOBRUN_DATABASE_URL id key

	needs_dump
	needs_session
	jr_ok define nightly --type work --schedule '0 3 * * *'
	jr_ok queue mail --max-running 3
	q "create role shop_$JR_DATABASE login"
	roles+=("shop_$JR_DATABASE")
	jr_ok grant enqueue "shop_$JR_DATABASE" --type work
	id=$(enqueue work)
	key=$(q "select idempotency_key from jobrun.job_runs where id = $id")
	admin "create database $other"
	at_end+=(drop_moved)
	sed -n '/^# move jobrun to another/,/^```/p' "$TOP/cmd/man/jobrun-operations.7.scd" | grep -v '^```' >move.sh
	PATH=$(dirname "$JOBRUN"):$(dirname "$JR_PSQL"):$PATH JOBRUN_DATABASE_URL=$(past_pooler) \
		NEW_DATABASE_URL="$JR_DIRECT dbname=$other" run --separate-stderr bash -e move.sh
	assert_success
	assert_equal "$stderr" ''
	# The old one starts nothing.
	jr_ok run
	run_is "$id" queued
	export JOBRUN_DATABASE_URL="$JR_DIRECT dbname=$other"
	jr_ok run
	assert_equal "$stderr" ''
	jr_ok logs "$id"
	assert_output "$key"
	jr_ok next nightly --count 1
	assert_line --partial '03:00'
	jr_ok queue
	assert_line --regexp '^mail +0 +0 +3 '
	jr_ok -d "$JOBRUN_DATABASE_URL user=shop_$JR_DATABASE" enqueue work
	jr -d "$JOBRUN_DATABASE_URL user=shop_$JR_DATABASE" enqueue other
	assert_equal "$status" 77
	export JOBRUN_DATABASE_URL=$original
}

drop_moved() {
	admin "drop database if exists moved_$JR_DATABASE"
}

@test "copies = refuse: run and exec end with 78 and nothing is claimed, fired or written; other commands go on" {
	q "update jobrun.settings set copies = 'refuse'" "select jobrun.define('nightly', '{\"job_type\": \"work\", \"schedule\": \"@hourly\"}')" \
		"update jobrun.job_definitions set next_slot_at = now() - interval '1 hour' where name = 'nightly'" >/dev/null
	copied
	id=$(enqueue work)
	for said in 1 0; do
		jr run
		assert_equal "$status" 78
		if [ "$said" = 1 ]; then # and then as rarely as an absent database
			assert_regex "$stderr" "^jobrun: this database was copied or moved here .*, and nothing is run in it; type $adopts$"
		else
			assert_equal "$stderr" ''
		fi
		jr run --for 1s
		assert_equal "$status" 78
		jr exec nightly -- touch started
		assert_equal "$status" 78
	done
	assert_file_not_exist started
	jr_ok exec --fail-open nightly -- touch started
	assert_file_exist started
	q_is '0|0' 'select (select count(*) from jobrun.job_runners), (select count(*) from jobrun.job_slots)'
	run_is "$id" queued
	jr_ok list
	jr_ok status
	jr_ok migrate --adopt
	jr_ok run
	run_is "$id" succeeded
	run q "update jobrun.settings set copies = 'maybe'"
	assert_equal "$status" 1
}

@test "copies = refuse: explain and list --waiting say that nothing starts here, and what to type" {
	local here='this database was copied or moved here from another \(.*\), and nothing is run in it; if the original goes on working, type .jobrun migrate --adopt --cancel-waiting. instead'

	jr_ok run
	jr_ok define nightly --type work --schedule @hourly
	jr_ok define by_hand --type work
	jr_ok exec command -- true
	id=$(enqueue work)
	later=$(enqueue work --in 1h)
	ran=$(enqueue work)
	begin_attempt "$ran"
	q "update jobrun.job_runs set locked_until = now() where id = $ran"
	# In a copy that only tells, all is as in the original.
	copied
	for copies in tell refuse; do
		q 'set session_replication_role = replica' "update jobrun.settings set copies = '$copies'"
		jr_ok explain "$id"
		if [ "$copies" = tell ]; then
			assert_line --index 0 "$id starts with the next claim"
			refute_output --partial copied
			jr_ok explain nightly
			assert_line --index 0 --regexp '^nightly fires '
			jr_ok explain "$ran"
			assert_line --index 1 'try: jobrun run'
			jr_ok list --waiting
			refute_output --partial copied
			continue
		fi
		assert_line --index 0 --regexp "^$id never starts unless somebody acts: $here$"
		assert_line --index 1 'try: jobrun migrate --adopt'
		assert_line --index 2 --regexp "^!   $here   jobrun migrate --adopt$"
		jr_ok explain "$later"
		assert_line --index 0 --regexp "^$later never starts unless somebody acts: $here; 1 other condition holds it, too$"
		jr_ok explain "$ran"
		assert_line --index 0 --regexp "^$ran is running on .*, its lease has run out: nothing takes it back, since $here$"
		assert_line --index 1 'try: jobrun migrate --adopt'
		jr_ok explain nightly
		assert_line --index 0 --regexp "^nightly never fires unless somebody acts: $here$"
		assert_line --index 1 'try: jobrun migrate --adopt'
		jr_ok explain by_hand
		assert_line --index 0 --regexp "^by_hand has no schedule: it fires only by hand; but $here$"
		assert_line --index 1 'try: jobrun migrate --adopt'
		jr_ok explain command
		assert_line --index 0 --regexp "^command has no schedule, and .*: 'jobrun exec command' starts nothing: $here$"
		jr_ok list --waiting
		assert_equal "$(grep -c " never: .*, and nothing is run in it" <<<"$output")" 2
		jr_ok list --waiting --json
		assert_equal "$(jq -c '[.runs[].why | [.verdict, .reason, .command]] | unique' <<<"$output")" '[["never","copied","jobrun migrate --adopt"]]'
	done
	# What else keeps it from starting does not come first.
	q 'set session_replication_role = replica' 'delete from jobrun.job_runners'
	jr_ok explain "$id"
	assert_line --index 1 'try: jobrun migrate --adopt'
	jr_ok migrate --adopt
	jr_ok run
	run_is "$id" succeeded
}

@test "a tick of a copy that finds nothing to do says nothing, and does not take the warning for outdated" {
	q "select jobrun.define('nightly', '{\"job_type\": \"work\", \"schedule\": \"@yearly\"}')" >/dev/null
	jr_ok run # the look for runs without a handler, too, is due every five minutes only
	copied
	for copies in refuse tell; do
		q 'set session_replication_role = replica' "update jobrun.settings set copies = '$copies'"
		jr_ok run
		assert_equal "$output$stderr" ''
	done
	enqueue work --in 1h
	jr_ok run
	assert_regex "$stderr" 'copied or moved here'
	jr_ok cancel --type work
	jr_ok run
	assert_equal "$stderr" ''
	enqueue work --in 1h
	jr_ok run
	assert_equal "$stderr" ''
	# One that stays may find something later.
	rm -r "$JOBRUN_STATE_DIR"
	jr_ok cancel --type work
	jr_ok run --for 1s
	assert_regex "$stderr" 'copied or moved here'
}

@test "--adopt keeps runs and their keys, --cancel-waiting cancels what waits, asks what ran to end, and gives other keys" {
	waiting=$(enqueue work)
	later=$(enqueue work --in 1h)
	ran=$(enqueue work)
	begin_attempt "$ran"
	before=$(q 'select install_id from jobrun.settings')
	copied
	jr_ok migrate --adopt -n
	assert_output --partial 'would be adopted'
	jr_ok migrate --adopt --cancel-waiting -n
	assert_line 'would be cancelled: 2 waiting runs; would be asked to end: 1 running run'
	q_is t 'select jobrun.copied() is not null'
	jr_ok migrate --adopt
	q_is "$before" 'select install_id from jobrun.settings'
	run_is "$waiting" queued
	q_is 'adopt|settings|1' "select action, object, old ->> 'database_oid' from jobrun.job_audit"
	copied
	q 'truncate jobrun.job_audit'
	jr_ok migrate --adopt --cancel-waiting
	assert_line 'cancelled: 2 waiting runs; asked to end: 1 running run'
	assert_not_equal "$(q 'select install_id from jobrun.settings')" "$before"
	run_is "$later" cancelled
	q "update jobrun.job_runs set locked_until = now() where id = $ran"
	jr_ok run
	run_is "$ran" cancelled
	q_is 1 "select count(*) from jobrun.job_audit where action <> 'truncate'"
	# In the original it does nothing.
	id=$(enqueue work --in 1h)
	jr_ok migrate --adopt --cancel-waiting
	assert_output 'this database is no copy, nothing to adopt'
	run_is "$id" queued
	jr_ok migrate --adopt
	assert_output ''
	copied
	jr_ok migrate --adopt --cancel-waiting --json
	assert_equal "$(jq -c . <<<"$output")" '{"version":1,"adopted":true,"cancelled":1,"requested":0}'
}

@test "an identifier that cannot be read: the database's oid alone tells, and nothing fails" {
	local owner=owner_$JR_DATABASE

	needs_session
	make_role "$owner"
	q 'set client_min_messages = error' 'drop schema jobrun cascade' "create schema jobrun authorization $owner" \
		'revoke execute on function pg_control_system() from public'
	jr_ok migrate
	q_is t 'select system_identifier is null and database_oid is not null and jobrun.copied() is null from jobrun.settings'
	q "update jobrun.job_definitions set next_slot_at = '9999-01-01'"
	jr_ok -d "$(url_of "$owner")" run
	assert_equal "$stderr" ''
	copied
	enqueue work --in 1h
	jr_ok -d "$(url_of "$owner")" run
	assert_regex "$stderr" '\(server unknown, database 1; here unknown, [0-9]+\)'
	drop_schema
}

@test "admin and the owner may adopt, run is told of a copy, and enqueue can do neither" {
	local kind

	copied
	for kind in enqueue run admin; do
		make_role "${kind}_$JR_DATABASE"
		jr_ok grant "$kind" "${kind}_$JR_DATABASE"
	done
	jr -d "$JR_SERVER dbname=$JR_DATABASE user=enqueue_$JR_DATABASE" migrate --adopt
	assert_equal "$status" 77
	jr -d "$JR_SERVER dbname=$JR_DATABASE user=run_$JR_DATABASE" migrate --adopt
	assert_equal "$status" 77
	enqueue work --in 1h
	jr_ok -d "$JR_SERVER dbname=$JR_DATABASE user=run_$JR_DATABASE" run
	assert_regex "$stderr" 'copied or moved here'
	jr_ok -d "$JR_SERVER dbname=$JR_DATABASE user=admin_$JR_DATABASE" migrate --adopt
	q_is "admin_$JR_DATABASE" "select who from jobrun.job_audit where action = 'adopt'"
}

@test "wrong words are exit 64" {
	for words in '--cancel-waiting' '--adopt --status' '--adopt --print'; do
		# shellcheck disable=SC2086 # words
		jr migrate $words
		assert_equal "$status" 64
	done
}
