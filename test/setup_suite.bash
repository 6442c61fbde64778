# One private cluster and one migrated template database for the whole run. Each test copies the template.
#
# Exported for the tests: TOP, JOBRUN, JR_CLUSTER, JR_PSQL, and two ways to connect (host=... user=...): JR_SERVER, for the
# program, and JR_DIRECT, for the test itself. With POOLER=1 the first goes through PgBouncer (JR_POOLER says so); else
# both are the same.

# shellcheck disable=SC1091 # it is checked by itself
# shellcheck disable=SC1091 # beside this file
source "${BASH_SOURCE[0]%/*}/lib/pooler.bash"

setup_suite() {
	TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
	JOBRUN=$(readlink -m "${JOBRUN:-$TOP/build/jobrun}")
	JR_CLUSTER=$BATS_SUITE_TMPDIR/pg
	JR_PSQL=$("$TOP/scripts/pg-local" "$JR_CLUSTER" programs)/psql
	export TOP JOBRUN JR_CLUSTER JR_PSQL
	# Inside a test it would be too late for this one.
	export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-120}
	[ -x "$JOBRUN" ] || {
		echo "no program $JOBRUN: type make" >&2
		return 1
	}
	# An open descriptor 3 in the server would keep bats waiting for it.
	JR_DIRECT=$("$TOP/scripts/pg-local" "$JR_CLUSTER" start 3>&- 4>&- | sed 's/ dbname=.*//')
	JR_SERVER=$JR_DIRECT
	JR_POOLER=
	export JR_DIRECT JR_SERVER JR_POOLER
	make_template
	if [ -n "${POOLER:-}" ]; then
		JR_POOLER=$(start_pooler "$JR_DIRECT") || return
		JR_SERVER=$JR_POOLER
	fi
}

# Nobody connects to the template once it is made. Housekeeping never comes by itself in it: a run of it would get into the way
# of tests at one minute of each hour. Nothing is recorded of where it belongs, or each test would have a copy.
make_template() {
	local server=$JR_DIRECT

	"$JR_PSQL" -XAtq "$server dbname=postgres" -c 'create database jr_template'
	env -u JOBRUN_DATABASE_URL "$JOBRUN" -d "$server dbname=jr_template" migrate >"$BATS_SUITE_TMPDIR/migrate.log" 2>&1 || {
		cat "$BATS_SUITE_TMPDIR/migrate.log" >&2
		return 1
	}
	"$JR_PSQL" -XAtq "$server dbname=jr_template" -c 'set session_replication_role = replica' \
		-c "update jobrun.job_definitions set next_slot_at = '9999-01-01'" \
		-c "update jobrun.settings set system_identifier = null, database_oid = null" # and nothing in the audit
	"$JR_PSQL" -XAtq "$server dbname=postgres" -c 'alter database jr_template allow_connections false'
}

teardown_suite() {
	[ -z "${JR_POOLER:-}" ] || stop_pooler "$JR_POOLER"
	"$TOP/scripts/pg-local" "$JR_CLUSTER" stop --remove 3>&- 4>&-
}
