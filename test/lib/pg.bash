# shellcheck disable=SC2034 # the tests read what is set here
# The database of a test: create it from the template, query it (q), disturb it on purpose, drop it.
#
# JR_DATABASE is its name, test_cluster the pg-local directory of its cluster. The test's own statements go to the server directly,
# even when the program goes through a pooler.

test_database() {
	JR_DATABASE=t$BATS_SUITE_TEST_NUMBER
	test_cluster=$JR_CLUSTER
	hold_pids=()
	hold_fds=()
	hold_backends=()
	own_cluster_started=
	roles=()
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE"
	# The ticks of the test do not look for runs without a handler: somebody has just done so.
	psql_bare "$JR_DIRECT dbname=postgres" -c "create database $JR_DATABASE template jr_template" -c "\\connect $JR_DATABASE" \
		-c 'set session_replication_role = replica' -c 'update jobrun.settings set unhandled_looked_at = now()'
}

# psql without the wrapper that Debian puts before it. It does not carry the test's mark.
psql_bare() {
	(become_psql "$@")
}

# become_psql ARGUMENT... &: psql in the background. $! is its own process, so kill ends it and not a shell around it. psql_options:
# settings for every psql of the test from here on, as in "-c statement_timeout=0".
become_psql() {
	exec env -u JOBRUN_TEST_ID ${psql_options:+"PGOPTIONS=$psql_options"} "$JR_PSQL" -XAtqw -v ON_ERROR_STOP=1 "$@" 3>&- 4>&-
}

admin() {
	psql_bare "$JR_DIRECT dbname=postgres" -c "$1"
}

# past_pooler: the program's database, directly.
past_pooler() {
	local at=$JOBRUN_DATABASE_URL

	[[ $at != "$JR_SERVER "* ]] || at="$JR_DIRECT ${at#"$JR_SERVER "}"
	echo "$at"
}

# q SQL...: print the rows, columns divided by |. Without arguments: a script from stdin. As superuser.
q() {
	local arguments=() sql

	for sql in "$@"; do
		arguments+=(-c "$sql")
	done
	psql_bare "$(past_pooler)" ${arguments[0]+"${arguments[@]}"}
}

# q_is EXPECTED SQL: for wait_until and assertions.
q_is() {
	local found

	found=$(q "$2") || return
	[ "$found" = "$1" ] || {
		echo "found '$found', not '$1': $2" >&2
		return 1
	}
}

# waiting_for_lock N: do so many sessions of the test's database wait for a lock?
waiting_for_lock() {
	q_is "$1" "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
}

# is_alone: no session but this one is in the test's database, so its counters are complete.
is_alone() {
	[ "$(q "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
		and backend_type = 'client backend'")" -eq 0 ]
}

# make_role NAME [WORDS]: a role that may log in. Roles are the cluster's, and tests run in parallel: a name ends in that of the
# test's database. Teardown drops it.
make_role() {
	roles+=("$1")
	psql_bare "$JR_DIRECT dbname=postgres" -v name="$1" <<<"create role :\"name\" login ${2:-}"
}

# url_of ROLE: the program's way to the test's database as that role. direct_url_of ROLE: the way past a pooler, in which SET ROLE and
# temporary tables would meet another client.
url_of() {
	echo "$JR_SERVER dbname=$JR_DATABASE user=$1"
}

direct_url_of() {
	echo "$JR_DIRECT dbname=$JR_DATABASE user=$1"
}

# q_as ROLE SQL...: the same as q, as that role.
q_as() {
	local arguments=() role=$1 sql

	shift
	for sql; do
		arguments+=(-c "$sql")
	done
	psql_bare "$(direct_url_of "$role")" "${arguments[@]}"
}

# Called after the database is dropped: objects in it may belong to the roles.
drop_roles() {
	local role failed=0

	for role in ${roles[0]+"${roles[@]}"}; do
		psql_bare "$JR_DIRECT dbname=postgres" -v name="$role" <<<'drop role if exists :"name"' || failed=1
	done
	roles=()
	return "$failed"
}

# hold SQL: run it in a transaction of its own that stays open until release_holds; sets hold_pid.
hold() {
	local hold_fd n=${#hold_pids[@]}
	local fifo=$BATS_TEST_TMPDIR/hold.$n
	local answer=$BATS_TEST_TMPDIR/hold.$n.out

	rm -f "$fifo" "$answer" # of one that was released
	mkfifo "$fifo"
	become_psql "$(past_pooler)" <"$fifo" >"$answer" 2>&1 &
	hold_pid=$!
	hold_pids+=("$hold_pid")
	exec {hold_fd}>"$fifo"
	hold_fds+=("$hold_fd")
	printf 'select pg_backend_pid() \\gset\nbegin;\n%s;\n\\echo held :pg_backend_pid\n' "$1" >&"$hold_fd"
	wait_until 10 grep -q '^held [0-9]*$' "$answer" || {
		cat "$answer"
		return 1
	}
	hold_backends+=("$(sed -n 's/^held //p' "$answer")")
}

# Roll all of them back. The end of psql is not the end of its transaction: the server's process keeps its locks until it notices.
release_holds() {
	local pid

	for pid in ${hold_pids[0]+"${hold_pids[@]}"}; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	close_holds
	hold_fds=()
	hold_pids=()
	if [ -n "${hold_backends[0]-}" ]; then
		# One that waits for another would not notice. A server that is away has none.
		q "select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and pid in ($(IFS=, && echo "${hold_backends[*]}"))" >/dev/null 2>&1 || true
		backends_are_gone "${hold_backends[@]}" || return
		hold_backends=()
	fi
}

# backends_are_gone PID...: wait until these processes of the server have ended, and with them their transactions and locks.
backends_are_gone() {
	local pid

	for pid; do
		wait_until 10 is_gone "$pid" || return
	done
}

# close_holds: close the ends of their scripts that this shell writes to.
close_holds() {
	local fd

	for fd in ${hold_fds[0]+"${hold_fds[@]}"}; do
		exec {fd}>&-
	done
}

# client SQL: a script in the background, for what waits for a lock. Its answers, errors with their SQLSTATE, are in $TMPDIR/client.
client() {
	printf '%s\n' "$1" | become_psql -v VERBOSITY=verbose "$(past_pooler)" >"$TMPDIR/client" 2>&1 &
	client_pid=$!
}

# Wait for its end; sets client_status. Teardown does it after release_holds, or the client would wait for them.
end_client() {
	client_status=0
	[ -n "${client_pid:-}" ] || return 0
	wait "$client_pid" || client_status=$?
	client_pid=
}

# drop_schema: as if nobody had ever typed jobrun migrate.
drop_schema() {
	q 'set client_min_messages = error' 'drop schema jobrun cascade'
}

# --- disturbing the server ---

# Cut every other connection to the test's database, and wait until they are gone, so that nobody gets a connection of a pooler that is
# about to end.
terminate_backends() {
	local pids

	pids=$(q "select case when pg_terminate_backend(pid) then pid end from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid()")
	# shellcheck disable=SC2086 # a list of numbers
	backends_are_gone $pids
}

# own_cluster [-o NAME=VALUE]...: from here on the test's database is in a cluster that it may restart and stop.
own_cluster() {
	release_holds
	drop_test_database
	test_cluster=$BATS_TEST_TMPDIR/pg
	own_cluster_started=1
	JOBRUN_DATABASE_URL=$(pg_local start "$@")
	export JOBRUN_DATABASE_URL
	JR_DATABASE=jobrun
	run_jobrun migrate >/dev/null
	q 'set session_replication_role = replica' "update jobrun.job_definitions set next_slot_at = '9999-01-01'" # as in the template
}

# restart_server [--immediate], stop_server, start_server: only after own_cluster.
restart_server() {
	need_own_cluster && pg_local restart "$@" >/dev/null
}

stop_server() {
	need_own_cluster && pg_local stop
}

start_server() {
	need_own_cluster && pg_local start >/dev/null
}

need_own_cluster() {
	[ -n "$own_cluster_started" ] || fail "own_cluster comes first: other tests use the shared one"
}

# The server does not have the test's mark: teardown stops it by its directory. server_locpath: LOCPATH for the server alone.
pg_local() {
	local command=$1

	shift
	env -u JOBRUN_TEST_ID ${server_locpath:+"LOCPATH=$server_locpath"} "$TOP/scripts/pg-local" "$test_cluster" "$command" "$@" 3>&- 4>&-
}

# The test's part of the server's log.
server_log() {
	grep -a " $JR_DATABASE " "$(pg_local log)" || true
}

# The test's part of the suite's pooler's.
pooler_log() {
	local dir=${JR_POOLER#host=}

	grep -a ": $JR_DATABASE/" "${dir%% *}/log" || true
}

# --- the end ---

# Rows of invariants.sql are complaints. A test that removed the schema or stopped its server has none to check.
check_invariants() {
	local complaints

	if [ -n "$own_cluster_started" ] && ! pg_local status >/dev/null; then
		return 0
	fi
	complaints=$(q <<-sql
		select to_regclass('jobrun.job_runs') is not null as there \gset
		\if :there
		-- a table that had no live row when it was last analysed is planned for one: nested loops over 20,000 take minutes
		set enable_nestloop = off;
		\i '$TOP/test/lib/invariants.sql'
		;
		\endif
	sql
	) || return
	[ -z "$complaints" ] || {
		echo "broken invariants:"
		echo "$complaints"
		return 1
	}
}

drop_test_database() {
	if [ -n "${own_cluster_started:-}" ]; then
		pg_local stop --remove
	elif [ -n "${JR_DATABASE:-}" ]; then
		psql_bare "$JR_DIRECT dbname=postgres" >/dev/null \
			-c "select pg_terminate_backend(pid) from pg_stat_activity where datname = '$JR_DATABASE'" \
			-c "drop database if exists $JR_DATABASE"
	fi
	own_cluster_started=
	JR_DATABASE=
}
