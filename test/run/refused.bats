#!/usr/bin/env bats
# What a tick refuses before it claims anything: one line, the right exit status, nothing written.

load ../lib/common

setup() {
	common_setup
	handler work <<<'exit 0'
}

# refused STATUS REGEX ARGUMENT...: jobrun run is refused with one line on stderr.
refused() {
	local expected=$1 regex=$2

	shift 2
	jr run "$@"
	assert_equal "$output" ''
	assert_one_line "$expected" "^jobrun: .*$regex"
}

# made_by_another SQL: the schema as another program has made it: the checksum is its own.
made_by_another() {
	q "$1" "update jobrun.schema_migrations set checksum = repeat('0', 64) where name = 'functions'"
}

nothing_written() {
	q_is '0|0' "select (select count(*) from jobrun.job_runners), (select coalesce(sum(claim_seq), 0) from jobrun.job_runs)"
}

@test "a database without the schema is exit 78 and says what to type" {
	q "drop schema jobrun cascade"
	refused 78 "jobrun migrate"
	refused 78 "jobrun migrate" -n
}

@test "a schema that is too old is exit 78 and says what to type" {
	enqueue work
	made_by_another "update jobrun.schema_migrations set version = 1 where name <> 'functions'"
	refused 78 "version 1,.*jobrun migrate"
	nothing_written
}

@test "a schema that is too new is exit 78 and says what to do" {
	enqueue work
	made_by_another "update jobrun.schema_migrations set version = 999 where name = 'baseline'"
	refused 78 "999.*newer"
	nothing_written
}

@test "functions that are older, newer, or of another text are exit 78, and each says which side is to be changed" {
	local number

	number=$(q "select version from jobrun.schema_migrations where name = 'functions'")
	enqueue work
	made_by_another "update jobrun.schema_migrations set version = 999 where name = 'functions'"
	refused 78 "functions.* 999, newer than this jobrun knows \\($number\\): install a newer jobrun"
	q "update jobrun.schema_migrations set version = 0 where name = 'functions'"
	refused 78 "functions.* 0, this jobrun needs [0-9]+: type 'jobrun migrate'"
	q "update jobrun.schema_migrations set version = $number, checksum = 'x' where name = 'functions'"
	refused 78 "functions.* both have number $number, but their texts differ"
	q "delete from jobrun.schema_migrations where name = 'functions'"
	refused 78 "functions.*type 'jobrun migrate'"
	nothing_written
}

@test "a database that does not exist is exit 78" {
	refused 78 "no_such_database" -d "$JR_SERVER dbname=no_such_database"
}

@test "a wrong password is exit 77, and is not printed" {
	own_cluster
	data=$(dirname "$(readlink -f "$(pg_local log)")")/data
	sed -i '1i local all locked scram-sha-256' "$data/pg_hba.conf"
	q "create role locked login password 'right'" "select pg_reload_conf()"
	locked="${JOBRUN_DATABASE_URL/user=jobrun/user=locked}"
	wait_until 5 asks_for_password "$locked"
	refused 77 'locked' -d "$locked password=hunter2"
	refute_regex "$stderr" hunter2
	refused 77 'password' -d "$locked"
}

# mistyped STATUS REGEX CONNINFO: refused, and no piece of hun.ter2 is on stderr, nor in the log.
mistyped() {
	refused "$1" "$2" -d "$3"
	refute_regex "$stderr" 'hunt|hun[^t]|[^n]ter2'
	jr run -v -v --log-format json -d "$3"
	refute_regex "$stderr" 'hunt|hun[^t]|[^n]ter2'
}

@test "a mistyped connection string prints no piece of its password, and says what may be wrong" {
	local password

	mistyped 78 'invalid percent-encoded token: "\*\*\*" \(is the connection string right\?' 'postgres://me:hun%ter2@127.0.0.1/db'
	mistyped 78 'invalid port number: "\*\*\*"|invalid integer value "\*\*\*" for connection option "port"' 'postgres://me:hun/ter2@127.0.0.1/db'
	mistyped 78 'invalid port number: "\*\*\*"|invalid integer value "\*\*\*" for connection option "port"' 'postgres://me:hunter2'
	mistyped 78 'missing "=" after "\*\*\*" in connection info string' 'host=127.0.0.1 password hunter2'
	mistyped 78 'missing "=" after "\*\*\*" in connection info string' 'host=127.0.0.1 password=hun "ter2'
	mistyped 78 'invalid connection option "\*\*\*"' 'host=127.0.0.1 pasword=hunter2'
	mistyped 78 'invalid sslmode value: "\*\*\*"' 'host=127.0.0.1 sslmode=hunter2'
	mistyped 78 'database "\*\*\*" does not exist|no such database: \*\*\*' "$JR_SERVER dbname=postgres//me:hunter2@db/x"
	for password in hun@ter2 hun:ter2 'hun/ter2'; do
		mistyped 78 'database "\*\*\*" does not exist|no such database: \*\*\*' "$JR_SERVER dbname=postgres:/me:$password@db"
	done
}

asks_for_password() {
	! psql_bare "$1 password=wrong" -c 'select 1'
}

@test "a role without rights is exit 77" {
	q "create role nobody_$$ login"
	refused 77 'permission' -d "$JR_SERVER dbname=$JR_DATABASE user=nobody_$$"
	q "drop role nobody_$$"
}

@test "a server that is not there is exit 75" {
	enqueue work
	refused 75 "$BATS_TEST_TMPDIR" -d "host=$BATS_TEST_TMPDIR dbname=x"
	nothing_written
}

@test "an invalid connection string exits with 78 at once and is not retried" {
	for conninfo in 'host=x nonsense' 'nonsense=1' 'postgresql://[bad' service=none 'host=x port=1,2'; do
		JR_TIMEOUT=5 refused 78 '' -d "$conninfo"
	done
	PGSERVICEFILE=$PWD/none JR_TIMEOUT=5 refused 78 'service file .* not found' -d service=x
	printf '[x]\nhost\n' >services
	PGSERVICEFILE=$PWD/services JR_TIMEOUT=5 refused 78 'syntax error in service file .*, line 2' -d service=x
	printf '[x]\nservice=y\n' >services
	PGSERVICEFILE=$PWD/services JR_TIMEOUT=5 refused 78 'nested service specifications not supported' -d service=x
}

@test "unknown options, job types and bad values are exit 64" {
	enqueue work
	refused 64 '--no-such-option' --no-such-option
	refused 64 'wrok.*work' --type wrok
	refused 64 '--jobs' -j 0
	refused 64 '--jobs' -j many
	refused 64 '--max-runs' --max-runs -1
	refused 64 '--grace' --grace -5s
	refused 64 '--max-runtime' --max-runtime 10
	refused 64 '--job' --job 0
	refused 64 'argument' surplus
	refused 64 '--log-format' --log-format xml
	nothing_written
}

@test "a lease that its heartbeat cannot keep is exit 78" {
	refused 78 'heartbeat' --lease 10s --heartbeat 10s
	refused 78 'lease' --lease 100ms
	nothing_written
}

@test "a handlers directory that is missing or empty is exit 78" {
	refused 78 "mkdir -p $BATS_TEST_TMPDIR/none" --handlers "$BATS_TEST_TMPDIR/none"
	mkdir "$BATS_TEST_TMPDIR/empty"
	refused 78 "$BATS_TEST_TMPDIR/empty" --handlers "$BATS_TEST_TMPDIR/empty"
	nothing_written
}

@test "a directory, or one above it, that others can write to is exit 78 with the chmod to type" {
	for mode in 777 775; do
		chmod "$mode" "$JOBRUN_HANDLERS"
		refused 78 "chmod go-w $JOBRUN_HANDLERS\$"
	done
	chmod 755 "$JOBRUN_HANDLERS"
	mkdir -p above/between
	cp -r "$JOBRUN_HANDLERS" above/between/handlers
	chmod 777 above
	refused 78 "chmod go-w $BATS_TEST_TMPDIR/above\$" --handlers "$BATS_TEST_TMPDIR/above/between/handlers"
	# A sticky one is fine above.
	chmod 1777 above
	jr_ok run --handlers above/between/handlers
}

@test "a sticky directory, as /tmp, is refused where handlers or what they start are, without a chmod, which would break it" {
	chmod 1777 "$JOBRUN_HANDLERS"
	refused 78 "cannot trust $JOBRUN_HANDLERS: everybody can write to it: use a directory of your own, such as one in ~/.config/jobrun\$"
	jr doctor
	assert_output --partial 'use a directory of your own'
	refute_output --partial 'chmod go-w'
	chmod 755 "$JOBRUN_HANDLERS"
	mkdir open
	chmod 1777 open
	cp /bin/sh open/tool
	handler work <<<"#!$PWD/open/tool"
	refused 78 "cannot trust $PWD/open: everybody can write to it: use a directory of your own, [^:]*\$"
}

@test "a handler that others can write to is refused with the chmod to type, and its runs are left to others" {
	id=$(enqueue work)
	for mode in 777 775; do
		chmod "$mode" "$JOBRUN_HANDLERS/work"
		refused 78 "chmod go-w $JOBRUN_HANDLERS/work\$"
	done
	# Beside a good one it is passed over: said once, then rarely, since cron mails each word; always under -v.
	handler good <<<'exit 0'
	good=$(enqueue good)
	jr_ok run
	assert_regex "$stderr" "chmod go-w $JOBRUN_HANDLERS/work"
	assert_regex "$stderr" 'jobrun: run works again after'
	assert_equal "${#stderr_lines[@]}" 2
	jr_ok run
	assert_equal "$output$stderr" ''
	run_is "$good" succeeded
	# Another one is news, and all are said again.
	handler worse <<<'exit 0'
	chmod 777 "$JOBRUN_HANDLERS/worse"
	jr_ok run
	assert_equal "${#stderr_lines[@]}" 2
	assert_regex "$stderr" "jobrun: not used: worse: .*chmod go-w $JOBRUN_HANDLERS/worse"
	rm "$JOBRUN_HANDLERS/worse"
	jr_ok run -v
	assert_regex "$stderr" "chmod go-w $JOBRUN_HANDLERS/work"
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $id"
	refused 78 "chmod go-w $JOBRUN_HANDLERS/work" --type work
}

@test "a script that nobody may execute is refused with the chmod to type" {
	chmod -x "$JOBRUN_HANDLERS/work"
	refused 78 "chmod \\+x $JOBRUN_HANDLERS/work\$"
}

@test "a handler or state directory of another user is refused" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	chown 61234 "$JOBRUN_HANDLERS/work"
	refused 78 "chown 0 $JOBRUN_HANDLERS/work"
	chown 0 "$JOBRUN_HANDLERS/work"
	chown 61234 "$JOBRUN_STATE_DIR"
	refused 78 "chown 0 $JOBRUN_STATE_DIR"
	nothing_written
}

@test "a symbolic link is judged at both ends" {
	mkdir elsewhere
	mv "$JOBRUN_HANDLERS/work" elsewhere/it
	ln -s "$BATS_TEST_TMPDIR/elsewhere/it" "$JOBRUN_HANDLERS/work"
	id=$(enqueue work)
	chmod 777 elsewhere/it
	refused 78 "chmod go-w $BATS_TEST_TMPDIR/elsewhere/it\$"
	chmod 755 elsewhere/it
	chmod 777 elsewhere
	refused 78 "chmod go-w $BATS_TEST_TMPDIR/elsewhere\$"
	chmod 755 elsewhere
	jr_ok run
	run_is "$id" succeeded
	rm elsewhere/it
	refused 78 'work'
}

@test "a state directory that others can look into is refused with the chmod to type" {
	mkdir -m 755 "$JOBRUN_STATE_DIR"
	refused 78 "chmod 700 $JOBRUN_STATE_DIR"
	rmdir "$JOBRUN_STATE_DIR"
	ln -s "$TMPDIR" "$JOBRUN_STATE_DIR"
	refused 78 "$JOBRUN_STATE_DIR"
	nothing_written
}
