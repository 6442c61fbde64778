#!/usr/bin/env bats
# jobrun migrate: once, however many do it at once; refused when what was applied is not what is known here.

load ../lib/common
load ../lib/pooler
load ../lib/proxy
load ../lib/upgrade
load ../lib/variant
load ../lib/web

# A program with the oldest schema, for all tests.
setup_file() {
	export OLDEST=$BATS_FILE_TMPDIR/oldest/jobrun
	oldest "$BATS_FILE_TMPDIR/oldest"
}

# A database without the schema; its version and the number of its functions as they shall become.
setup() {
	common_setup
	drop_schema
	version=$(newest "$TOP")
	number=$(functions_number "$TOP")
}

# The rows of schema_migrations, without their times.
applied() {
	q "select version, name, checksum from jobrun.schema_migrations order by name = 'functions', version"
}

@test "an empty database gets every migration and the functions, each with its time" {
	jr_ok migrate
	assert_equal "${lines[0]}" "schema jobrun: 0 -> $version, functions 0 -> $number"
	assert_regex "${lines[1]}" '^  migration 0008 baseline +[0-9]+ ms$'
	assert_regex "${lines[-1]}" "^  functions $number +[0-9]+ ms$"
	assert_equal "$stderr" ''
	q_is "$version" "select max(version) from jobrun.schema_migrations where name <> 'functions'"
	q_is "$number" "select version from jobrun.schema_migrations where name = 'functions'"
	assert_equal "$(q 'select checksum from jobrun.schema_migrations where version = 8')" \
		"$(sha256sum <"$TOP"/migrations/0008_*.sql | cut -d ' ' -f 1)"
	# Each tick reads these, and autovacuum never comes to them.
	q_is 3 "select count(*) from pg_class where relnamespace = 'jobrun'::regnamespace
		and relname in ('settings', 'schema_migrations', 'job_definitions') and relpages > 0"
}

@test "a second migrate does nothing and is silent" {
	jr_ok migrate
	jr_ok migrate
	assert_equal "$output" ''
	assert_equal "$stderr" ''
}

@test "of eight migrates at once all succeed, and each migration is applied once" {
	local pids=() pid

	for _ in 1 2 3 4 5 6 7 8; do
		run_jobrun migrate >>"$TMPDIR/out" 2>>"$TMPDIR/err" &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	assert_equal "$(cat "$TMPDIR/err")" ''
	assert_equal "$(grep -c '^  migration 0008 baseline' "$TMPDIR/out")" 1
	assert_equal "$(grep -c '^  functions' "$TMPDIR/out")" 1
	q_is 1 "select count(*) from jobrun.schema_migrations where name = 'functions'"
	q_is "$((version - 7))" "select count(*) from jobrun.schema_migrations where name <> 'functions'"
}

@test "--status says what is pending with exit status 1, and nothing is written" {
	jr migrate --status
	assert_equal "$status" 1
	assert_regex "${lines[0]}" '^0008  baseline +pending$'
	assert_regex "${lines[-1]}" "^ +$number  functions +pending$"
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
	jr_ok migrate
	jr_ok migrate --status
	assert_regex "${lines[0]}" '^0008  baseline +applied 20'
	assert_regex "${lines[-1]}" "^ +$number  functions +applied 20"
	jr_ok migrate --status --json
	assert_equal "$(jq -c '[.schema_version, .newest, .migrations[0].applied, .functions.number, .functions.newest, .functions.applied]' <<<"$output")" \
		"[$version,$version,true,$number,$number,true]"
}

@test "migrate -n says what would be done and does nothing" {
	jr_ok migrate -n
	assert_equal "${lines[0]}" "schema jobrun: 0 -> $version, functions 0 -> $number"
	assert_equal "${lines[1]}" '  would apply migration 0008 baseline'
	assert_equal "${lines[-1]}" "  would apply functions $number"
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
}

@test "migrate --print prints the SQL without a database" {
	JOBRUN_DATABASE_URL="host=/nonexistent" jr_ok migrate --print
	run_jobrun migrate --print >"$TMPDIR/sql"
	run tail -n +2 "$TMPDIR/sql"
	assert_line --partial 'create table jobrun.job_runs ('
	assert_line --partial 'create or replace function jobrun.claim('
}

@test "a migration applied with another text is exit 78 and named" {
	jr_ok migrate
	q "update jobrun.schema_migrations set checksum = repeat('0', 64) where version = 8"
	for option in '' --status -n; do
		# shellcheck disable=SC2086 # none or one
		jr migrate $option
		assert_equal "$status" 78
		assert_regex "$stderr" '^jobrun: migration 0008 baseline was applied with another text'
	done
}

@test "a schema newer than the program is exit 78, for migrate and for the rest" {
	jr_ok migrate
	q "insert into jobrun.schema_migrations (version, name, checksum) values (9999, 'later', 'x')"
	for command in migrate list status; do
		jr "$command"
		assert_equal "$status" 78
		assert_regex "$stderr" 'newer than this jobrun knows.*install a newer jobrun'
	done
	jr enqueue work
	assert_equal "$status" 78
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "a schema from before the first release is exit 78 with what to do, and stays as it is" {
	q 'create schema jobrun' "create table jobrun.schema_migrations (version integer primary key, name text not null,
		checksum text not null, applied_at timestamptz not null default now())" \
		"insert into jobrun.schema_migrations select v, 'x' || v, 'x' from generate_series(1, 7) v"
	for option in '' --status -n; do
		# shellcheck disable=SC2086 # none or one
		jr migrate $option
		assert_one_line 78 'at version 7, from before the first release.*DROP SCHEMA jobrun CASCADE;'
	done
	q_is 7 'select count(*) from jobrun.schema_migrations'
	jr list
	assert_equal "$status" 78
	assert_regex "$stderr" "type 'jobrun migrate'"
}

@test "functions of a lower number are pending, and migrate puts its own in their place" {
	needs_dump
	jr_ok migrate
	dump >"$TMPDIR/dump"
	q "update jobrun.schema_migrations set version = 0, checksum = 'x' where name = 'functions'" \
		'create or replace function jobrun.is_admin() returns boolean language sql as $$ select false $$' \
		'drop view jobrun.held_runs cascade'
	jr migrate --status
	assert_equal "$status" 1
	assert_regex "${lines[-1]}" "^ +$number  functions +pending$"
	jr list
	assert_equal "$status" 78
	assert_regex "$stderr" "functions .* number 0, this jobrun needs .*type 'jobrun migrate'"
	jr_ok migrate
	assert_equal "${lines[0]}" "schema jobrun: $version, functions 0 -> $number"
	dump | diff "$TMPDIR/dump" -
}

@test "functions and views that somebody has dropped are pending, and migrate puts them back with their grants" {
	local role=app_$JR_DATABASE

	needs_dump
	jr_ok migrate
	q "create role $role login"
	jr_ok grant enqueue "$role"
	dump >"$TMPDIR/dump"
	q 'drop function jobrun.take_new_runs cascade' 'drop view jobrun.held_runs cascade' \
		'drop function jobrun.settle_done(bigint[], bigint[], bigint, jsonb[])' 'drop function jobrun.enqueue_many, jobrun.enqueue_many_with'
	echo 1 >lines
	jr enqueue work --batch lines
	assert_one_line 78 "function jobrun.enqueue_many.* does not exist\\): type 'jobrun migrate'$"
	jr migrate --status
	assert_equal "$status" 1
	assert_regex "${lines[-1]}" "^ +$number  functions +pending$"
	jr_ok migrate -n
	assert_regex "$output" "^schema jobrun: $version, functions $number \\([0-9]+ missing\\)"
	jr_ok migrate
	assert_line --regexp "^  functions $number +[0-9]+ ms$"
	dump | diff "$TMPDIR/dump" -
	jr_ok -d "$(url_of "$role")" enqueue work --batch lines
	jr_ok migrate
	assert_output ''
	q 'drop function jobrun.need'
	jr list
	assert_one_line 78 "type 'jobrun migrate'$"
	jr_ok migrate
	jr_ok list
	q "delete from jobrun.job_grants" "drop owned by $role" "drop role $role"
}

@test "doctor of a later program misses none of its new functions in a database that is not migrated yet" {
	next "$TMPDIR/next"
	jr_ok migrate
	with "$TMPDIR/next/jobrun" jr_ok doctor schema
	with "$TMPDIR/next/jobrun" jr_ok migrate
	q 'drop function jobrun.enqueue_many'
	with "$TMPDIR/next/jobrun" jr doctor schema
	assert_equal "$status" 1
	assert_output --partial 'jobrun.enqueue_many is missing'
}

@test "functions of a higher number, or another text under the same one: exit 78 that says which side is older" {
	jr_ok migrate
	q 'create or replace function jobrun.is_admin() returns boolean language sql as $$ select false $$' \
		"update jobrun.schema_migrations set version = 999 where name = 'functions'"
	for command in migrate 'migrate --status' list status 'enqueue work'; do
		# shellcheck disable=SC2086 # words
		jr $command
		assert_equal "$status" 78
		assert_regex "$stderr" 'functions .* number 999, newer than this jobrun knows.*install a newer jobrun'
	done
	q "update jobrun.schema_migrations set version = $number, checksum = 'x' where name = 'functions'"
	for command in migrate 'migrate --status' list status 'enqueue work'; do
		# shellcheck disable=SC2086 # words
		jr $command
		assert_equal "$status" 78
		assert_regex "$stderr" "functions .* both have number $number, but their texts differ"
	done
	q_is f 'select jobrun.is_admin()' # it was not touched
}

@test "without the schema every command is exit 78 and says what to type" {
	for command in 'enqueue work' list status 'show 1' 'logs 1' 'retry 1' 'cancel 1' queue grant 'pause --type work'; do
		# shellcheck disable=SC2086 # words
		jr $command
		assert_one_line 78 "type 'jobrun migrate'"
	done
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
}

@test "a role that may not create is exit 77 with the GRANT to type" {
	q "create role nobody_$JR_DATABASE login"
	jr -d "$JR_SERVER dbname=$JR_DATABASE user=nobody_$JR_DATABASE" migrate
	q "drop role nobody_$JR_DATABASE"
	assert_equal "$status" 77
	assert_regex "$stderr" "GRANT CREATE ON DATABASE \"?$JR_DATABASE\"? TO \"?nobody_$JR_DATABASE\"?;"
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
}

@test "whoever migrates, what is made belongs to the owner of the schema" {
	local owner=owner_$JR_DATABASE member=member_$JR_DATABASE other=other_$JR_DATABASE role

	q "create role $owner login" "create role $member login in role $owner" "create role $other login"
	q "create schema jobrun authorization $owner"
	jr -d "$(url_of "$other")" migrate
	assert_equal "$status" 77
	assert_regex "$stderr" "^jobrun: schema jobrun belongs to role \"$owner\": migrate as this role, a member of it, or a superuser$"
	q "alter role $member noinherit"
	jr_ok -d "$(url_of "$member")" migrate
	jr_ok -d "$(url_of "$member")" migrate --status
	q_is 0 "select count(*) from pg_proc where pronamespace = 'jobrun'::regnamespace and proowner <> '$owner'::regrole"
	q_is 0 "select count(*) from pg_class where relnamespace = 'jobrun'::regnamespace and relowner <> '$owner'::regrole"
	q 'drop schema jobrun cascade' "create schema jobrun authorization $owner"
	jr_ok migrate # as superuser
	q_is 0 "select count(*) from pg_proc where pronamespace = 'jobrun'::regnamespace and proowner <> '$owner'::regrole"
	jr_ok grant enqueue "$other"
	jr_ok -d "$(url_of "$other")" enqueue work
	drop_schema
	for role in "$member" "$owner" "$other"; do
		q "drop role $role"
	done
}

@test "what default privileges give to everybody is taken back" {
	q 'alter default privileges grant select, insert on tables to public' 'alter default privileges grant usage on schemas to public'
	jr_ok migrate
	q_is f "select has_schema_privilege('public', 'jobrun', 'usage')"
	q_is '' "select relname from pg_class where relnamespace = 'jobrun'::regnamespace and relkind in ('r', 'v')
		and has_table_privilege('public', oid, 'select, insert')"
}

# Nothing is applied yet, but there is a table to write it down in.
empty_schema() {
	q 'create schema jobrun' "create table jobrun.schema_migrations (version integer not null, name text primary key,
		checksum text not null, applied_at timestamptz not null default now())"
}

@test "a lock held by others is waited for a short time, then exit 75; nothing is half done" {
	empty_schema
	hold 'lock table jobrun.schema_migrations in share row exclusive mode'
	JR_TIMEOUT=60 jr migrate --lock-timeout 50ms
	assert_equal "$status" 75
	assert_regex "$stderr" "^jobrun: .*lock timeout: held by pid [0-9]+ \\(psql, role .*, idle in transaction, since 20.*Z\\); type 'jobrun migrate' again"
	assert_equal "$(server_log | grep -c 'ERROR: .*lock timeout')" 5
	release_holds
	q_is 0 'select count(*) from jobrun.schema_migrations'
	jr_ok migrate
}

@test "migrate waits as long for another migration's lock, and says who holds it" {
	hold 'select pg_advisory_xact_lock(117026625582446)'
	JR_TIMEOUT=60 jr migrate --lock-timeout 50ms
	assert_one_line 75 '^jobrun: .*lock timeout: held by pid [0-9]+ \(psql, role .*, idle in transaction, since 20.*Z\); type'
	release_holds
	jr_ok migrate
}

@test "a migrate that is killed in the middle leaves nothing, and the next one does it all" {
	empty_schema
	hold 'lock table jobrun.schema_migrations in share row exclusive mode'
	"$JOBRUN" migrate --lock-timeout 30s 3>&- 4>&- &
	pid=$!
	wait_until 10 q_is 1 "select count(*) from pg_locks where database = (select oid from pg_database where datname = current_database()) and not granted and relation = 'jobrun.schema_migrations'::regclass"
	kill -KILL "$pid"
	wait "$pid" || true
	release_holds
	wait_until 10 q_is 0 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
	jr_ok migrate
	assert_equal "${lines[0]}" "schema jobrun: 0 -> $version, functions 0 -> $number"
}

# --- other programs ---

@test "functions that a migration drops come back, with their grants" {
	local role=app_$JR_DATABASE

	needs_dump
	next "$TMPDIR/next"
	with "$TMPDIR/next/jobrun" jr_ok migrate
	dump >"$TMPDIR/dump"
	assert_regex "$(cat "$TMPDIR/dump")" 'colour text'
	drop_schema
	jr_ok migrate
	q "create role $role login"
	jr_ok grant run "$role"
	with "$TMPDIR/next/jobrun" jr_ok migrate
	assert_equal "${lines[0]}" "schema jobrun: $version -> $((version + 1)), functions $number -> $((number + 1))"
	handler work <<<'exit 0'
	with "$TMPDIR/next/jobrun" jr_ok -d "$(url_of "$role")" enqueue work
	with "$TMPDIR/next/jobrun" jr_ok -d "$(url_of "$role")" run
	q_is succeeded "select status from jobrun.job_runs"
	q "delete from jobrun.job_grants" "drop owned by $role" "drop role $role"
	dump | diff "$TMPDIR/dump" -
	jr list
	assert_equal "$status" 78
	assert_regex "$stderr" "at version $((version + 1)), newer than this jobrun knows \\($version\\): install a newer jobrun"
}

@test "what people have built on a view stops the migration that drops it" {
	needs_dump
	next "$TMPDIR/next"
	jr_ok migrate
	q 'create view public.mine as select id from jobrun.held_runs'
	dump >"$TMPDIR/dump"
	with "$TMPDIR/next/jobrun" jr migrate
	assert_equal "$status" 70
	assert_regex "$stderr" 'migration .* colour: cannot drop view jobrun.held_runs .*public.mine|view mine depends on'
	dump | diff "$TMPDIR/dump" -
	q 'select count(*) from public.mine' >/dev/null
	q 'drop view public.mine'
	with "$TMPDIR/next/jobrun" jr_ok migrate
}

@test "a grant that is given while migrate waits for the reader of a view waits too, and all are done" {
	local granting

	jr_ok migrate
	make_role "app_$JR_DATABASE"
	q "update jobrun.schema_migrations set version = 0 where name = 'functions'"
	hold 'select count(*) from jobrun.runs'
	bg_jobrun migrate --lock-timeout 30s
	wait_until 20 waiting_for_lock 1
	(close_holds && q "select jobrun.add_grant('enqueue', 'app_$JR_DATABASE')") >"$TMPDIR/granted" 2>&1 &
	granting=$!
	wait_until 20 waiting_for_lock 2
	release_holds
	wait "$granting" || fail "$(cat "$TMPDIR/granted")"
	wait_runner
	assert_equal "$runner_status$(cat "$runner_err")" 0
	assert_equal "$(server_log | grep -c 'deadlock detected')" 0
	jr_ok -d "$JR_SERVER dbname=$JR_DATABASE user=app_$JR_DATABASE" enqueue work
}

@test "a functions file that fails changes nothing and is named" {
	local broken=$TMPDIR/broken

	needs_dump
	jr_ok migrate
	dump >"$TMPDIR/dump"
	applied >"$TMPDIR/applied"
	next "$broken"
	echo 'create or replace function jobrun.broken() returns nonsense language sql as $$ select 1 $$;' \
		>>"$broken/migrations/functions/repair.sql"
	variant "$broken"
	with "$broken/jobrun" jr migrate
	assert_one_line 70 "^jobrun: functions $((number + 1)): repair: .*nonsense"
	dump | diff "$TMPDIR/dump" -
	applied | diff "$TMPDIR/applied" -
	drop_schema
	with "$broken/jobrun" jr migrate
	assert_equal "$status" 70
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
}

@test "a migration that fails also rolls back those before it" {
	local broken=$TMPDIR/broken

	needs_dump
	jr_ok migrate
	dump >"$TMPDIR/dump"
	next "$broken"
	echo 'alter table jobrun.nonsense add column colour text;' \
		>"$broken/migrations/$(printf '%04d' $((version + 2)))_nonsense.sql"
	variant "$broken"
	with "$broken/jobrun" jr migrate
	assert_equal "$status" 70
	assert_regex "$stderr" "^jobrun: migration $(printf '%04d' $((version + 2))) nonsense: .*jobrun.nonsense"
	dump | diff "$TMPDIR/dump" -
	q_is "$version" "select max(version) from jobrun.schema_migrations where name <> 'functions'"
}

@test "tables without their rows, as from a dump of the schema alone, are refused with what to type" {
	jr_ok migrate
	for what in 'delete from jobrun.schema_migrations' 'drop table jobrun.schema_migrations'; do
		q "$what"
		for arguments in '' -n --status; do
			# shellcheck disable=SC2086 # words
			jr migrate $arguments
			assert_one_line 78 '^jobrun: schema jobrun has tables, but table schema_migrations does not say how they were made .*: save what you need of it, type DROP SCHEMA jobrun CASCADE; and migrate again$'
		done
	done
	drop_schema
	jr_ok migrate
}

# --- the oldest schema ---

@test "an audit that was kept for less than 30 days is kept for 30, and that is said" {
	with "$OLDEST" jr_ok migrate
	q "update jobrun.settings set keep_audit = '1 day'"
	jr_ok migrate
	assert_equal "$stderr" 'jobrun: the audit is kept for 30 days at least: keep_audit was 1 day'
	q_is '30 days' 'select keep_audit from jobrun.settings'
}

@test "a database of the oldest schema becomes the same as a new one, and keeps its rows" {
	local columns

	needs_dump
	jr_ok migrate
	dump >"$TMPDIR/dump"
	drop_schema
	with "$OLDEST" jr_ok migrate
	q "insert into jobrun.job_definitions (name, job_type, schedule) values ('nightly', 'nightly', '0 3 * * *')" >/dev/null
	q "select jobrun.enqueue('work')" >/dev/null
	q "update jobrun.settings set keep_dead = '1 day'" "update jobrun.job_definitions set enabled = false where name = 'jobrun.prune'"
	mapfile -t columns < <(columns_of settings job_definitions job_runs)
	rows "${columns[@]}" >"$TMPDIR/rows"
	jr_ok migrate
	dump | diff "$TMPDIR/dump" -
	rows "${columns[@]}" | diff "$TMPDIR/rows" -
	q_is t 'select database_oid is not null and jobrun.copied() is null from jobrun.settings'
	handler work <<<'exit 0'
	jr_ok run
	q_is succeeded 'select status from jobrun.job_runs'
}

@test "what the oldest schema has archived is in the archive, until its last month is older than it is kept" {
	with "$OLDEST" jr_ok migrate
	q "insert into jobrun.job_runs (job_type, status, created_at, run_at, started_at, finished_at, attempts, claim_seq, runner_id, locked_by)
		select 'work', 'dead', at, at, at, at, 1, 1, 1, 'there' from unnest('{2023-05-05,2024-02-03 12:00}'::timestamptz[]) at" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, finished_at, output)
		select id, 1, 1, 'dead', finished_at, 'its output' from jobrun.job_runs" \
		"insert into jobrun.job_runs_archive select r.*, now() from jobrun.job_runs r" 'delete from jobrun.job_runs'
	jr_ok migrate
	jr_ok logs 1
	assert_output 'its output'
	q_is 0 'select count(*) from jobrun.job_attempts'
	q_is '-infinity|2024-03-01 00:00:00+00' "set timezone = 'UTC'; select since, until from jobrun.archive_months()"
	jr_ok retry 2
	q_is '1 2' "select string_agg(id::text, ' ' order by id) from jobrun.runs"
	q "update jobrun.settings set keep_archive = now() - '2024-02-20'" >/dev/null
	jr_ok prune
	refute_output --partial months
	q "update jobrun.settings set keep_archive = '1 year'" >/dev/null
	jr_ok prune
	q_is 0 'select count(*) from jobrun.job_runs_archive'
}

@test "a view on the archive of the oldest schema stops the migration, which names it" {
	with "$OLDEST" jr_ok migrate
	q 'create view public.old_runs as select id from jobrun.job_runs_archive'
	jr migrate
	refute [ "$status" -eq 0 ]
	assert_regex "$stderr" 'job_runs_archive is made anew, and views read it: (public[.])?old_runs'
	q 'select id from public.old_runs'
	q_is 8 "select max(version) from jobrun.schema_migrations where name <> 'functions'"
	q 'drop view public.old_runs'
	jr_ok migrate
}

@test "several migrates at once bring up a database of the oldest schema once, and all succeed" {
	local pids=() pid

	with "$OLDEST" jr_ok migrate
	for _ in 1 2 3 4; do
		run_jobrun migrate >>"$TMPDIR/out" 2>>"$TMPDIR/err" &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	assert_equal "$(cat "$TMPDIR/err")" ''
	assert_equal "$(grep -c "^  functions $number .* ms$" "$TMPDIR/out")" 1
}

# --- the next program ---

@test "results of this runner are accepted when a later program's migrate changes tables, views and signatures" {
	next "$TMPDIR/next"
	jr_ok migrate
	migrate_under "$JOBRUN" "$TMPDIR/next/jobrun"
	assert_equal "$runner_status" 0
}

# The server's connections of the pooler.
connections() {
	q "select string_agg(pid::text, ' ' order by pid) from pg_stat_activity where datname = current_database() and application_name <> 'psql'
		and pid <> pg_backend_pid() and backend_type = 'client backend'"
}

@test "results are accepted when a later program's migrate comes through PgBouncer, whose connections keep their plans" {
	local before

	next "$TMPDIR/next"
	pooler server_lifetime=3600 server_idle_timeout=3600 default_pool_size=2
	jr_ok migrate
	handler work <<<'exit 0'
	echo 'select 1' >"$JOBRUN_HANDLERS/add.sql"
	for _ in 1 2 3; do
		enqueue work
		enqueue add
		jr_ok run
	done
	q_is 6 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	q 'truncate jobrun.job_runs'
	before=$(connections)
	migrate_under "$JOBRUN" "$TMPDIR/next/jobrun"
	for _ in 1 2 3; do
		with "$TMPDIR/next/jobrun" enqueue work
		with "$TMPDIR/next/jobrun" enqueue add
		with "$TMPDIR/next/jobrun" jr_ok run
	done
	q_is 6 "select count(*) from jobrun.job_runs where status = 'succeeded' and job_type in ('work', 'add')"
	# The connection of a statement that has waited for migrate too long is given up. Another has kept its plans.
	run grep -wE "${before// /|}" <<<"$(connections)"
	assert_success
	end_pooler
}

# held_runs has one more column than it knows.
@test "a runner that lost the answer to a claim before a later program's migrate came runs them or gives them back, so that each runs once" {
	next "$TMPDIR/next"
	jr_ok migrate
	handler work <<<'echo "$JOBRUN_RUN_ID" >>"$TMPDIR/began"'
	q "insert into jobrun.job_definitions (id, name, job_type) overriding system value values (77, 'nightly', 'work')"
	enqueue work
	enqueue work
	q "update jobrun.job_runs set definition_id = 77, slot = now() where id = 2"
	proxy answer-last 2
	bg_runner -d "$proxied" --lease 60s -j 2
	wait_until 10 test -e "$cut_file"
	q_is 2 "select count(*) from jobrun.job_runs where status = 'running' and claim_seq = 1"
	kill -STOP "$runner_pid" # it tries to connect for ten seconds, and a migration may take longer
	with "$TMPDIR/next/jobrun" jr_ok migrate
	proxy_again
	kill -CONT "$runner_pid"
	wait_runner
	with "$TMPDIR/next/jobrun" jr_ok run -j 1
	assert_equal "$(sort "$TMPDIR/began")" $'1\n2'
	q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
}
