# shellcheck shell=bash disable=SC2154 # the suite sets JR_SERVER, common.bash JR_DATABASE
#
# PgBouncer in transaction mode between the program and the server.

# pooler: from here on the program goes through it.
pooler() {
	local as=()

	command -v pgbouncer >/dev/null || skip 'pgbouncer is not installed'
	pooler=$(mktemp -d /tmp/jobrun-pool.XXXXXX) # bats' own directory is closed to other users
	chmod 777 "$pooler"
	write_settings
	# It refuses to run as root.
	if [ "$(id -u)" -eq 0 ]; then
		as=(runuser -u "$(stat -c %U "$(pg_local log)")" --)
	fi
	env -u JOBRUN_TEST_ID "${as[@]}" pgbouncer -q "$pooler/settings.ini" >"$pooler/out" 2>&1 3>&- 4>&- &
	pooler_pid=$!
	direct=$JOBRUN_DATABASE_URL
	export JOBRUN_DATABASE_URL="host=$pooler port=6432 user=jobrun dbname=$JR_DATABASE"
	wait_until 5 test -S "$pooler/.s.PGSQL.6432"
}

# For the teardown too.
end_pooler() {
	if [ -n "${pooler_pid:-}" ]; then
		pkill -INT -P "$pooler_pid" 2>/dev/null || kill -INT "$pooler_pid" 2>/dev/null || true
		wait "$pooler_pid" 2>/dev/null || true
		export JOBRUN_DATABASE_URL=$direct
	fi
	rm -rf "${pooler:-}"
	pooler_pid=
	pooler=
}

# Three connections to the server, for any number of clients: no two transactions of a client need meet the same one.
write_settings() {
	local server=${JR_SERVER#host=}

	cat >"$pooler/settings.ini" <<-ini
		[databases]
		$JR_DATABASE = host=${server%% *} dbname=$JR_DATABASE user=jobrun
		[pgbouncer]
		listen_addr =
		listen_port = 6432
		unix_socket_dir = $pooler
		auth_type = any
		pool_mode = transaction
		default_pool_size = 3
		max_client_conn = 200
	ini
	chmod 644 "$pooler/settings.ini"
}
