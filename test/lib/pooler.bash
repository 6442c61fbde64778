# shellcheck shell=bash disable=SC2154 # the suite sets JR_DIRECT, common.bash JR_DATABASE
#
# PgBouncer in transaction mode between the program and the server: for the whole suite (POOLER=1), or for one test.

# start_pooler SERVER [NAME=VALUE]...: start one in a directory of its own before SERVER (host=...); prints how to connect
# to it. Databases and roles are the server's. Each has few connections and they are used in turn, for a short time:
# what is left in a session is met by others, and what is looked for in one is not found.
start_pooler() {
	local server=${1#host=} dir as=()

	shift
	# Not in bats' own directory, which is closed to other users; nor for longer than a socket's path may be.
	dir=$(mktemp -d "${LOCAL_PG_BASE:-/tmp}/jobrun-pool.XXXXXX")
	chmod 755 "$dir"
	pooler_settings "$dir" "${server%% *}" "$@" >"$dir/settings.ini"
	echo '"jobrun" ""' >"$dir/users"
	# It refuses to run as root.
	if [ "$(id -u)" -eq 0 ]; then
		as=(runuser -u "$(stat -c %U "${server%% *}/.s.PGSQL.5432")" --)
		chown "${as[2]}" "$dir"
	fi
	(
		cd / || return
		PATH=$PATH:/usr/sbin:/sbin
		command -v pgbouncer >/dev/null || {
			echo "no pgbouncer here: type scripts/install-packages test" >&2
			return 1
		}
		env -u JOBRUN_TEST_ID ${as[0]+"${as[@]}"} pgbouncer -q -d "$dir/settings.ini" >/dev/null 2>&1 </dev/null 3>&- 4>&- &&
			wait_for_pooler_to_listen "$dir"
	) || {
		cat "$dir/log" >&2
		rm -rf "$dir"
		return 1
	}
	echo "host=$dir user=jobrun"
}

# It goes into the background before it has written its pid.
wait_for_pooler_to_listen() {
	for _ in {1..200}; do
		[ ! -s "$1/pid" ] || [ ! -S "$1/.s.PGSQL.5432" ] || return 0
		sleep 0.05
	done
	echo "the pooler does not listen" >&2
	return 1
}

pooler_settings() {
	local dir=$1 server=$2

	shift 2
	cat <<-ini
		[databases]
		* = host=$server auth_user=jobrun
		[pgbouncer]
		listen_addr =
		listen_port = 5432
		unix_socket_dir = $dir
		pidfile = $dir/pid
		logfile = $dir/log
		auth_type = trust
		auth_file = $dir/users
		auth_query = select rolname, '' from pg_roles where rolname = \$1 and rolcanlogin
		pool_mode = transaction
		max_client_conn = 900
		default_pool_size = 10
		max_db_connections = 20
		server_round_robin = 1
		server_lifetime = ${TEST_PATIENCE:-1}
		server_idle_timeout = 1
		server_login_retry = 1
		query_wait_timeout = 15
	ini
	printf '%s\n' "${@/=/ = }"
}

# stop_pooler SERVER: what start_pooler has printed. Fails if it has ended by itself.
stop_pooler() {
	local dir=${1#host=} pid status=0

	dir=${dir%% *}
	pid=$(cat "$dir/pid" 2>/dev/null)
	if kill -TERM "${pid:-none}" 2>/dev/null; then
		wait_for_pooler "$pid" || kill -KILL "$pid"
	else
		echo "the pooler has ended by itself:" >&2
		tail -n 20 "$dir/log" >&2
		status=1
	fi
	rm -rf "$dir"
	return "$status"
}

wait_for_pooler() {
	for _ in {1..100}; do
		[ -e "/proc/$1" ] || return 0
		sleep 0.05
	done
	return 1
}

# --- one for a test alone ---

# pooler [NAME=VALUE]...: from here on the program goes through one with three connections for any number of clients: no two
# transactions of a client need meet the same one.
pooler() {
	unpooled=$JR_SERVER unpooled_url=$JOBRUN_DATABASE_URL
	JR_SERVER=$(start_pooler "$JR_DIRECT" default_pool_size=3 "$@") || return
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE"
}

pooler_lives() {
	local dir=${JR_SERVER#host=}

	kill -0 "$(cat "${dir%% *}/pid")"
}

# The teardown does it where the test has not.
end_pooler() {
	local through=$JR_SERVER

	JR_SERVER=$unpooled
	export JOBRUN_DATABASE_URL=$unpooled_url
	unpooled=
	stop_pooler "$through"
}
