#!/usr/bin/env bats
# jobrun doctor, the checks of the database: each is broken once and found, with what to type.

load ../lib/common
load ../lib/doctor
load ../lib/pooler
load ../lib/variant

setup() {
	common_setup
	doctor_setup
}

# with_setting SETTING VALUE: from now on in each new session of the test's database.
with_setting() {
	q "do \$do\$ begin execute format('alter database %I set $1 = %s', current_database(), \$v\$$2\$v\$); end \$do\$"
}

# type_advice: type the line that doctor printed last, in a fresh shell.
type_advice() {
	run bash -c "PATH=$(dirname "$JOBRUN"):\$PATH; unset JOBRUN_DATABASE_URL; $(sed -n 's/^ *type: //p' <<<"$output")"
}

# a_runner HOST AGE [TYPE]: one that was seen then, and has this type (work).
a_runner() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version, job_types, started_at, last_seen_at)
		values ((select coalesce(max(id), 0) + 1 from jobrun.job_runners), 1, 1, '$1', '1', '{${3:-work}}', now() - interval '$2', now() - interval '$2')"
}

@test "doctor says which name of the database won, and after the host's checks that it does not answer" {
	DATABASE_URL=x finds connection ok "database $JR_DATABASE at .*named by JOBRUN_DATABASE_URL \(not used: DATABASE_URL\)"
	url=$JOBRUN_DATABASE_URL
	jr doctor -d "$url" connection
	assert_output --partial 'named by -d (not used: JOBRUN_DATABASE_URL)'
	DOCTOR_URL="$url dbname=no_such_database" finds connection fail 'no_such_database.*nothing is enqueued or run from here' '^pg_isready -h '
	# What to type names the database that -d named.
	drop_schema
	jr doctor -d "$url" schema
	assert_line --regexp "^ +type: jobrun -d '.*dbname='?.*$JR_DATABASE.* migrate$"
	type_advice
	assert_success
	unset JOBRUN_DATABASE_URL
	DATABASE_URL=$url jr doctor connection
	assert_output --partial 'named by DATABASE_URL'
	PGHOST=$TMPDIR PGCONNECT_TIMEOUT=1 jr doctor connection pgpass server schema types
	assert_equal "$status" 75
	assert_line --index 0 --regexp '^FAIL  connection  .*named by PGHOST:'
	assert_line --index 2 --regexp '^ok    pgpass '
	assert_line --index 3 '?     server      not checked: there is no connection; nor schema, types'
	# Where the check of the connection is not asked for, the first of those that need one says why there is none.
	PGHOST=$TMPDIR PGCONNECT_TIMEOUT=1 jr doctor pgpass server types
	assert_equal "$status" 75
	assert_output --regexp '\?     server  not checked: there is no connection: .*; nor types'
	assert_line --regexp '^ +type: '
	export JOBRUN_DATABASE_URL=$url
}

@test "doctor finds a server that cannot be written to, and timeouts with where they are set" {
	local has_idle # PostgreSQL 14 and newer

	finds server ok '^PostgreSQL [0-9]+\.[0-9]+'
	finds timeouts ok
	with_setting statement_timeout "'31s'"
	has_idle=$(q "select current_setting('server_version_num')::integer >= 140000")
	[ "$has_idle" != t ] || with_setting idle_session_timeout "'9min'"
	make_role "slow_$JR_DATABASE"
	admin "alter role \"slow_$JR_DATABASE\" in database $JR_DATABASE set idle_in_transaction_session_timeout = '1500ms'"
	with_setting default_transaction_read_only on
	terminate_backends
	DOCTOR_URL="$JOBRUN_DATABASE_URL target_session_attrs=any"
	finds timeouts warn "statement_timeout is 31s, set for database $JR_DATABASE: it ends every statement" \
		"-c 'alter database $JR_DATABASE reset statement_timeout'$"
	[ "$has_idle" != t ] ||
		finds timeouts warn 'idle_session_timeout is 9m, set for database .*without a statement' 'reset idle_session_timeout'
	DOCTOR_URL="$(url_of "slow_$JR_DATABASE") target_session_attrs=any"
	finds timeouts warn "idle_in_transaction_session_timeout is 1s 500ms, set for role slow_$JR_DATABASE in database $JR_DATABASE" \
		"alter role slow_$JR_DATABASE in database $JR_DATABASE reset idle_in_transaction_session_timeout"
}

@test "doctor finds where transactions are made read only, and the line that it prints changes that" {
	local role="reads_$JR_DATABASE" url

	make_role "$role"
	jr_ok grant read "$role"
	url=$(direct_url_of "$role")
	with_setting default_transaction_read_only on
	terminate_backends # of a pooler
	jr doctor -d "$url" connection
	assert_equal "$status" 75
	assert_output --partial 'session is read-only'
	jr doctor -d "$url" server
	assert_equal "$status" 75
	assert_output --regexp 'server  not checked: there is no connection: .*session is read-only'
	type_advice
	assert_line --partial "read only: default_transaction_read_only is on, set for database $JR_DATABASE: nothing can be"
	DOCTOR_URL="$url target_session_attrs=any"
	finds server fail '' "'begin read write; alter database $JR_DATABASE reset default_transaction_read_only; commit'$"
	admin "alter role \"$role\" in database $JR_DATABASE set default_transaction_read_only = on"
	finds server fail "set for role $role in database $JR_DATABASE: nothing"
	admin "alter role \"$role\" set default_transaction_read_only = on"
	admin "alter role \"$role\" in database $JR_DATABASE reset default_transaction_read_only"
	jr doctor -d "$DOCTOR_URL" server
	assert_output --partial "set for role $role: nothing"
	type_advice
	assert_success
	finds server fail 'set for database'
	jr doctor -d "$(direct_url_of jobrun) target_session_attrs=any" server
	type_advice
	assert_success
	finds server ok
	PGOPTIONS='-c default_transaction_read_only=on' finds server fail 'set by the connection itself \(PGOPTIONS, options=, or a pooler\)' '^$'
	PGOPTIONS='-c default_transaction_read_only=on' jr doctor -d "$url target_session_attrs=read-write" connection
	refute_output --partial 'type:'
}

@test "doctor finds settings for all roles, and the line that it prints changes them" {
	own_cluster
	q 'alter role all set default_transaction_read_only = on'
	DOCTOR_URL="$JOBRUN_DATABASE_URL target_session_attrs=any"
	finds server fail 'default_transaction_read_only is on, set for all roles: nothing' 'alter role all reset default_transaction_read_only; commit'
	jr doctor -d "$DOCTOR_URL" server
	type_advice
	assert_success
	finds server ok
	q "alter role all set statement_timeout = '12345ms'"
	finds timeouts warn 'statement_timeout is 12s 345ms, set for all roles: it ends' "-c 'alter role all reset statement_timeout'$"
	# Only a superuser can change it.
	q 'create role reads login'
	DOCTOR_URL="$JOBRUN_DATABASE_URL user=reads" finds timeouts warn 'set for all roles' '^psql -h [^ ]+ -p [0-9]+ -d jobrun -c '
	jr doctor -d "$DOCTOR_URL" timeouts
	type_advice
	assert_success
	finds timeouts ok
}

@test "doctor finds that the clocks of host and server differ" {
	finds clock ok
	"${CC:-cc}" -shared -fPIC -o "$TMPDIR/hour.so" -x c - <<-'c'
		#define _GNU_SOURCE
		#include <sys/syscall.h>
		#include <time.h>
		#include <unistd.h>
		int clock_gettime(clockid_t clock, struct timespec *now)
		{
			int status = (int)syscall(SYS_clock_gettime, clock, now);

			if (clock == CLOCK_REALTIME)
				now->tv_sec -= 3600;
			return status;
		}
	c
	ASAN_OPTIONS+=:verify_asan_link_order=0 LD_PRELOAD=$TMPDIR/hour.so jr doctor clock
	assert_line --index 0 --regexp '^warn  clock  the clock of this host is (1h|59m).* behind that of the server: '
	assert_line --index 1 --regexp 'type: timedatectl status$'
}

# pool_mode MODE: the pooler of this test has it from now on.
pool_mode() {
	local dir=${JR_SERVER#host=}

	dir=${dir%% *}
	sed -i "s/^pool_mode = .*/pool_mode = $1/" "$dir/settings.ini"
	kill -HUP "$(cat "$dir/pid")"
}

# pooling_is TEXT: for wait_until.
pooling_is() {
	run_jobrun doctor pooler | grep -q "$1"
}

@test "doctor tells poolers of sessions, transactions and statements apart" {
	DOCTOR_URL="$JR_DIRECT dbname=$JR_DATABASE" finds pooler ok '^none'
	pooler server_round_robin=0
	finds pooler ok 'a pooler in transaction mode'
	pool_mode session
	wait_until 20 pooling_is 'each client keeps its session'
	pool_mode statement
	wait_until 20 pooling_is '^FAIL  pooler  .* statement mode: .*set pool_mode = transaction'
}

@test "doctor finds a schema that does not fit, a copy, and housekeeping that is off" {
	finds schema ok
	q 'drop function jobrun.enqueue_many'
	finds schema fail '^jobrun.enqueue_many is missing: what calls it exits with 78$' '^jobrun migrate$'
	q 'drop view jobrun.runs cascade'
	finds schema fail '^jobrun.[a-z_]+ is missing, and [0-9]+ more:' '^jobrun migrate$'
	jr_ok migrate
	finds schema ok
	finds copy ok
	finds retention ok
	q "update jobrun.settings set database_oid = 1"
	finds copy warn 'was copied or moved.*; if the original goes on, add --cancel-waiting$' '^jobrun migrate --adopt$'
	q "update jobrun.settings set copies = 'refuse'"
	finds copy fail 'nothing is run in it; if the original goes on, add --cancel-waiting$'
	jr_ok pause --definition jobrun.prune
	finds retention fail 'is paused' '^jobrun resume --definition jobrun.prune$'
	jr_ok resume --definition jobrun.prune
	jr_ok define jobrun.prune --disable
	finds retention fail 'is disabled.*tables grow' '^jobrun define jobrun.prune --enable$'
	jr_ok define jobrun.prune --enable
	q 'set session_replication_role = replica' "update jobrun.settings set stats_until = date_trunc('hour', now()) - interval '3 days', keep_dead = '9 years'" \
		"update jobrun.job_definitions set next_slot_at = '9999-01-01 00:00Z' where name = 'jobrun.prune'"
	finds retention warn 'has not gone on for 3d' 'list --type jobrun.prune'
	finds retention warn 'next slot of jobrun.prune is 9999-01-01T00:00Z'
	finds retention warn 'finished runs are kept for'
	q 'set session_replication_role = replica' "delete from jobrun.job_definitions where name = 'jobrun.prune'"
	finds retention fail 'there is no definition' '^jobrun define jobrun.prune '
	q "update jobrun.schema_migrations set version = 99 where name <> 'functions'" || q "insert into jobrun.schema_migrations (version, name, checksum) values (99, 'later', 'x')"
	finds schema fail 'newer than this jobrun knows' '^jobrun --version$'
	drop_schema
	finds schema fail 'every command exits with 78' '^jobrun migrate$'
	jr doctor schema # what to type stands in its own line alone
	assert_line --index 0 --regexp '^FAIL  schema  the schema jobrun is missing .* does not exist\): every command exits with 78$'
	assert_line --index 1 --regexp '^ +type: jobrun migrate$'
	finds retention unchecked 'the schema cannot be used'
}

@test "doctor finds too few rights, too many, and lost ones" {
	role=app_$JR_DATABASE
	make_role "$role"
	handler work <<<'exit 0'
	finds role warn 'is superuser'
	DOCTOR_URL=$(url_of "$role")
	# The role cannot grant itself anything, so what to type is for the owner of the schema.
	owner=$(q "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'jobrun'")
	finds schema fail 'permission denied.*has no rights' "^jobrun -d 'user=$owner .*dbname=$JR_DATABASE.*' grant run $role$"
	jr_ok grant enqueue "$role"
	finds role fail "role $role has the rights of enqueue, and this host has handlers" "^jobrun -d 'user=$owner .*' grant run $role$"
	finds grants unchecked 'permission denied'
	jr doctor -d "$DOCTOR_URL" role
	run bash -c "PATH=$(dirname "$JOBRUN"):\$PATH; unset JOBRUN_DATABASE_URL; $(sed -n 's/^ *type: //p' <<<"$output")"
	assert_success
	finds role ok "role $role has the rights of run"
	finds grants ok
	q "revoke execute on function jobrun.candidates from \"$role\"" "revoke insert on jobrun.job_attempts from \"$role\""
	finds grants fail "run was granted to role $role, but execute on candidates is missing, and 1 more" "^jobrun -d 'user=$owner .*' migrate$"
	jr_ok migrate
	finds grants ok
	q "alter schema jobrun owner to \"$role\""
	finds role warn 'owns the schema'
	q "do \$do\$ begin execute format('alter schema jobrun owner to %I', session_user); end \$do\$"
}

@test "doctor finds that no runner was seen, and runs that no host can do" {
	finds runner warn 'no runner has ever been seen' 'jobrun --once -v'
	q "insert into jobrun.job_runs (job_type, run_at) values ('work', now() - interval '1 hour')"
	finds runner fail 'no runner has ever been seen.*runs wait'
	finds types unchecked 'no runner was seen in the last day'
	a_runner web9 '2 hours' other
	finds runner fail 'seen 2h ago on web9'
	a_runner web9 0 other
	finds runner ok 'on web9'
	finds types fail 'a run of work in queue default has been due for 1h, and no host has a handler for work' '^jobrun handlers --check work$'
	q "update jobrun.job_runners set refused = '{work: cannot trust it}'"
	finds types fail 'host web9: refused: work: cannot trust it'
	a_runner web8 0
	finds types ok
	handler work <<<'exit 0'
	finds runner warn 'no runner of this host, .*was seen in the last day: other hosts run jobs'
	a_runner "$(hostname)" 0
	finds runner ok
}

@test "doctor finds time zones that the server has lost, and schedules that are not in the zone of this host" {
	jr_ok define nightly --type work --schedule '30 2 * * *'
	jr_ok define often --type work --schedule '*/5 * * * *'
	finds zones ok
	finds host_zone ok 'this host is in UTC'
	TZ=Europe/Berlin finds host_zone warn 'this host is in Europe/Berlin, and a schedule is in UTC: nightly:' \
		'^jobrun define nightly --time-zone Europe/Berlin$'
	TZ=/usr/share/zoneinfo/Europe/Berlin finds host_zone warn 'this host is in Europe/Berlin, and a' '^jobrun define nightly --time-zone Europe/Berlin$'
	ln -s /usr/share/zoneinfo/Asia/Tokyo local
	TZ=:$PWD/local finds host_zone warn 'this host is in Asia/Tokyo, and a'
	TZ=CET-1 finds host_zone warn 'this host is in CET-1' '^jobrun define nightly$'
	jr_ok define nightly --time-zone Europe/Berlin
	TZ=Europe/Berlin finds host_zone ok
	q 'set session_replication_role = replica' "update jobrun.job_definitions set time_zone = 'Mars/Base' where name = 'nightly'"
	finds zones fail 'does not know the time zone Mars/Base of definition nightly: its schedule does not fire' \
		'^jobrun define nightly --time-zone UTC$'
	q "delete from jobrun.job_definitions where name = 'nightly'" # the invariants read its schedule
}

# vacuumed: no row of job_audit is dead any more. While somebody in this database has an older snapshot, vacuum leaves them.
vacuumed() {
	q 'vacuum analyze jobrun.job_audit'
	q_is 0 "select n_dead_tup from pg_stat_all_tables where relname = 'job_audit' and schemaname = 'jobrun'"
}

@test "doctor finds long transactions, dead rows, bloat, and tables without autovacuum" {
	finds transactions ok
	hold 'select txid_current()'
	pid=$(q "select pid from pg_stat_activity where datname = current_database() and state = 'idle in transaction'")
	finds transactions fail "session $pid \(role .*, application psql, idle in transaction\) has been in a transaction for [0-9]+s: vacuum cannot remove" \
		"^psql \"\\\$JOBRUN_DATABASE_URL\" -c 'select pg_terminate_backend\($pid\)'$" --long 1ms
	finds transactions ok '' '' --long 1h
	release_holds
	finds autovacuum ok
	finds dead_rows ok
	q "alter table jobrun.job_audit set (autovacuum_enabled = off, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)"
	finds autovacuum fail 'off for jobrun.job_audit' "-c 'alter table jobrun.job_audit reset \(autovacuum_enabled\)'$"
	q "insert into jobrun.job_audit (who, action, object, reason) select 'x', 'x', 'x', repeat(md5(n::text), 15) from generate_series(1, 45000) n" \
		'create index audit_reason on jobrun.job_audit (reason)' 'vacuum analyze jobrun.job_audit'
	finds bloat ok
	q 'delete from jobrun.job_audit where id < (select max(id) from jobrun.job_audit)'
	wait_until 20 q_is t "select n_dead_tup > 40000 from pg_stat_all_tables where relname = 'job_audit' and schemaname = 'jobrun'"
	finds dead_rows warn 'jobrun.job_audit has about [0-9]{5} dead rows' "-c 'vacuum \(analyze\) jobrun.job_audit'$"
	wait_until 20 vacuumed
	finds dead_rows ok
	finds bloat warn 'table jobrun.job_audit takes [0-9]+ MB' "vacuum full jobrun.job_audit"
	finds bloat warn 'index jobrun.audit_reason takes [0-9]+ MB' 'reindex index concurrently jobrun.audit_reason'
}

# doctor_blames PID TEXT: for wait_until; whatever else is long.
doctor_blames() {
	run_jobrun doctor transactions --long 1h | tr -s ' \n' ' ' | grep -qE "session $1 \([^)]*\) has been in a transaction for [0-9]+s, and $2"
}

@test "doctor finds who has locked a table of jobrun, whatever else that transaction keeps, and commands that wait for it name doctor" {
	handler work <<<'exit 0'
	enqueue work
	hold 'lock table jobrun.job_queues in share mode; lock table jobrun.job_runs in share row exclusive mode'
	pid=$(q "select pid from pg_stat_activity where datname = current_database() and state = 'idle in transaction'")
	jr enqueue work
	assert_one_line 75 "^jobrun: .*lock timeout; another transaction holds the lock; 'jobrun doctor transactions --long 5s' shows which$"
	jr run --max-runtime 1s
	assert_one_line 75 "lock timeout; another transaction holds the lock; 'jobrun doctor transactions --long 5s' shows which"
	wait_until 10 q_is t "select now() - xact_start > interval '5 s' from pg_stat_activity where pid = $pid"
	finds transactions warn "session $pid \(role .*, application psql, idle in transaction\) has been in a transaction for [0-9]+s, and has a lock on jobrun.job_queues, jobrun.job_runs: .*ends with 75" \
		"^psql \"\\\$JOBRUN_DATABASE_URL\" -c 'select pg_terminate_backend\($pid\)'$" --long 1h
	release_holds
	finds transactions ok '' '' --long 1h
}

@test "doctor does not guess how long a role locks a table whose sessions it may not see" {
	make_role "sees_$JR_DATABASE"
	jr_ok grant read "sees_$JR_DATABASE"
	hold 'lock table jobrun.job_queues in share mode'
	DOCTOR_URL=$(url_of "sees_$JR_DATABASE") finds transactions unchecked 'how long transactions of other roles last' '' --long 1h
	refute_output --partial job_queues
	release_holds
}

@test "doctor finds an ALTER TABLE that waits behind a reader, and all others behind it" {
	hold 'select from jobrun.job_runs limit 1'
	client 'alter table jobrun.job_runs add column extra int'
	wait_until 10 waiting_for_lock 1
	pid=$(q "select pid from pg_locks where database = (select oid from pg_database where datname = current_database()) and not granted")
	wait_until 20 doctor_blames "$pid" 'waits for a lock on jobrun.job_runs, and others wait behind it: '
	q "select pg_terminate_backend($pid)"
	backends_are_gone "$pid"
	release_holds
	finds transactions ok '' '' --long 1h
}

@test "doctor finds prepared transactions, replication slots that nobody reads, and a server without autovacuum" {
	own_cluster -o max_prepared_transactions=2 -o wal_level=replica -o autovacuum=off
	finds transactions ok
	finds replication ok
	finds autovacuum fail '^autovacuum is off.*dead rows are never removed' "alter system set autovacuum = on"
	q begin 'select txid_current()' "prepare transaction 'it''s'"
	finds transactions fail "the prepared transaction it's of role .* old" 'rollback prepared' --long 1ms
	q "rollback prepared 'it''s'"
	q begin 'lock table jobrun.job_runs in share mode' "prepare transaction 'locks'"
	wait_until 10 q_is t "select now() - prepared > interval '5 s' from pg_prepared_xacts"
	finds transactions warn "^the prepared transaction locks of role .* is [0-9]+s old, and has a lock on jobrun.job_runs: .*ends with 75" \
		'rollback prepared .*locks' --long 1h
	restart_server
	finds transactions warn '^the prepared transaction locks of role .* has a lock on jobrun.job_runs' '' --long 1h
	q "rollback prepared 'locks'" "select pg_create_physical_replication_slot('standby', true)"
	finds replication warn 'replication slot standby is not in use.*keeps all WAL' 'pg_drop_replication_slot'
}
