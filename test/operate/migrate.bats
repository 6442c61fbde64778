#!/usr/bin/env bats
# jobrun migrate: once, however many do it at once; refused when what was applied is not what is known here.

load ../lib/common

# A database without the schema.
setup() {
	common_setup
	q 'drop schema jobrun cascade'
}

newest() {
	find "$TOP/migrations" -name '[0-9]*.sql' | wc -l
}

@test "an empty database gets every migration, each with its time" {
	jr_ok migrate
	assert_equal "${lines[0]}" "schema jobrun: 0 -> $(newest)"
	assert_regex "${lines[1]}" '^  0001 initial +[0-9]+ ms$'
	assert_equal "$stderr" ''
	q_is "$(newest)" 'select max(version) from jobrun.schema_migrations'
	assert_equal "$(q 'select checksum from jobrun.schema_migrations where version = 1')" \
		"$(sha256sum <"$TOP"/migrations/0001_*.sql | cut -d ' ' -f 1)"
}

@test "a second time is silent" {
	jr_ok migrate
	jr_ok migrate
	assert_equal "$output" ''
	assert_equal "$stderr" ''
}

@test "eight at once: all succeed, and each migration is applied once" {
	local pids=() pid

	for _ in 1 2 3 4 5 6 7 8; do
		run_jobrun migrate >>"$TMPDIR/out" 2>>"$TMPDIR/err" &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	assert_equal "$(cat "$TMPDIR/err")" ''
	assert_equal "$(grep -c '^  0001 initial' "$TMPDIR/out")" 1
	q_is "$(newest)" 'select count(*) from jobrun.schema_migrations'
}

@test "--status says what is pending with exit status 1, and nothing is written" {
	jr migrate --status
	assert_equal "$status" 1
	assert_regex "${lines[0]}" '^0001  initial +pending$'
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
	jr_ok migrate
	jr_ok migrate --status
	assert_regex "${lines[0]}" '^0001  initial +applied 20'
	jr_ok migrate --status --json
	assert_equal "$(jq -c '[.version, .newest, .migrations[0].applied]' <<<"$output")" "[$(newest),$(newest),true]"
}

@test "-n says what would be done and does nothing" {
	jr_ok migrate -n
	assert_equal "${lines[0]}" "schema jobrun: 0 -> $(newest)"
	assert_equal "${lines[1]}" '  would apply 0001 initial'
	q_is f "select exists (select from pg_namespace where nspname = 'jobrun')"
}

@test "--print gives the SQL without a database" {
	JOBRUN_DATABASE_URL="host=/nonexistent" jr_ok migrate --print
	run_jobrun migrate --print >"$TMPDIR/sql"
	run tail -n +2 "$TMPDIR/sql"
	assert_line --partial 'create table jobrun.job_runs ('
}

@test "a migration applied with another text is exit 78 and named" {
	jr_ok migrate
	q "update jobrun.schema_migrations set checksum = repeat('0', 64) where version = 1"
	for option in '' --status -n; do
		# shellcheck disable=SC2086 # none or one
		jr migrate $option
		assert_equal "$status" 78
		assert_regex "$stderr" '^jobrun: migration 0001 initial was applied with another text'
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

@test "without the schema every command is exit 78 and says what to type" {
	for command in 'enqueue work' list status 'show 1' 'logs 1' 'retry 1' 'cancel 1' queue grant 'pause --type work'; do
		# shellcheck disable=SC2086 # words
		jr $command
		assert_equal "$status" 78
		assert_equal "${#stderr_lines[@]}" 1
		assert_regex "$stderr" "type 'jobrun migrate'"
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
	jr -d "$JR_SERVER dbname=$JR_DATABASE user=$other" migrate
	assert_equal "$status" 77
	assert_regex "$stderr" "belongs to role \"$owner\""
	jr_ok -d "$JR_SERVER dbname=$JR_DATABASE user=$member" migrate
	q_is 0 "select count(*) from pg_proc where pronamespace = 'jobrun'::regnamespace and proowner <> '$owner'::regrole"
	q_is 0 "select count(*) from pg_class where relnamespace = 'jobrun'::regnamespace and relowner <> '$owner'::regrole"
	q 'drop schema jobrun cascade' "create schema jobrun authorization $owner"
	jr_ok migrate # as superuser
	q_is 0 "select count(*) from pg_proc where pronamespace = 'jobrun'::regnamespace and proowner <> '$owner'::regrole"
	jr_ok grant enqueue "$other"
	jr_ok -d "$JR_SERVER dbname=$JR_DATABASE user=$other" enqueue work
	q 'drop schema jobrun cascade'
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

@test "a lock held by others is waited for a short time, then exit 75; nothing is half done" {
	q 'create schema jobrun' "create table jobrun.schema_migrations (version integer primary key, name text not null,
		checksum text not null, applied_at timestamptz not null default now())"
	hold 'lock table jobrun.schema_migrations in share row exclusive mode'
	JR_TIMEOUT=60 jr migrate --lock-timeout 50ms
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: .*lock timeout'
	release_holds
	q_is 0 'select count(*) from jobrun.schema_migrations'
	jr_ok migrate
}

@test "killed in the middle: nothing is left, and the next one does it all" {
	q 'create schema jobrun' "create table jobrun.schema_migrations (version integer primary key, name text not null,
		checksum text not null, applied_at timestamptz not null default now())"
	hold 'lock table jobrun.schema_migrations in share row exclusive mode'
	"$JOBRUN" migrate --lock-timeout 30s 3>&- 4>&- &
	pid=$!
	wait_until 10 q_is 1 "select count(*) from pg_locks where database = (select oid from pg_database where datname = current_database()) and not granted and relation = 'jobrun.schema_migrations'::regclass"
	kill -KILL "$pid"
	wait "$pid" || true
	release_holds
	wait_until 10 q_is 0 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
	jr_ok migrate
	assert_equal "${lines[0]}" "schema jobrun: 0 -> $(newest)"
}

@test "definitions of earlier versions that are wrong lose their schedule, each with a line, and keep nobody from migrating" {
	for script in "$TOP"/migrations/000[1-4]_*.sql; do
		name=$(basename "$script" .sql)
		[ "$name" != 0001_initial ] || q 'create schema jobrun' "create table jobrun.schema_migrations (version integer primary key,
			name text not null, checksum text not null, applied_at timestamptz not null default now())"
		psql_bare -q1 "$(past_pooler)" -f "$script"
		q "insert into jobrun.schema_migrations values (${name%%_*}, '${name#*_}', '$(sha256sum <"$script" | cut -d ' ' -f 1)')"
	done
	q "insert into jobrun.job_definitions (name, job_type, schedule, time_zone, catch_up, queue, anchor_at, next_slot_at) values
		('all', 'a', '0 3 * * *', 'UTC', 'all', null, now(), null), ('anchor', 'a', '@every 5m', 'UTC', 'once', null, '-infinity', null),
		('fine', 'a', '0 3 * * *', 'Europe/Berlin', 'once', null, now(), now() - interval '1 day'),
		('forever', 'a', null, 'UTC', 'once', null, now(), 'infinity'), ('jobrun.prune', 'a', '0 3 * * *', 'UTC', 'once', null, now(), null),
		('never', 'a', '0 0 31 2 *', 'UTC', 'once', null, now(), now() - interval '1 day'),
		('queue', 'a', '0 3 * * *', 'UTC', 'once', 'jobrun', now(), null), ('type', 'jobrun.noop', '0 3 * * *', 'UTC', 'once', null, now(), null),
		('zone', 'a', '0 3 * * *', 'Europe/Atlantis', 'once', null, now(), now() - interval '1 day')"
	jr_ok migrate
	assert_equal "$(q "select string_agg(name, ' ' order by name) from jobrun.job_definitions where schedule is null and not enabled")" \
		'anchor never queue type zone'
	assert_equal "$(q "select string_agg(name || ' ' || catch_up, ', ' order by name) from jobrun.job_definitions
		where enabled and next_slot_at > now()")" 'all once, fine once, jobrun.prune once'
	q_is 't|t' "select enabled, next_slot_at is null from jobrun.job_definitions where name = 'forever'"
	assert_equal "${#stderr_lines[@]}" 6
	assert_equal "${stderr_lines[0]}" 'jobrun: definition "all": catch_up is "once" now: "all" needs overlap "allow"'
	assert_regex "${stderr_lines[2]}" '^jobrun: definition "never" loses its schedule and is disabled: schedule "0 0 31 2 \*" can never fire'
}
