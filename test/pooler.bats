#!/usr/bin/env bats
# PgBouncer in transaction mode between the program and the server: there is no session, and nothing needs one.

load lib/common

setup() {
	common_setup
	command -v pgbouncer >/dev/null || skip 'pgbouncer is not installed'
	pooler=$(mktemp -d /tmp/jobrun-pool.XXXXXX) # bats' own directory is closed to other users
	chmod 777 "$pooler"
	write_settings
	# It refuses to run as root.
	as=()
	if [ "$(id -u)" -eq 0 ]; then
		as=(runuser -u "$(stat -c %U "$(pg_local log)")" --)
	fi
	env -u JOBRUN_TEST_ID "${as[@]}" pgbouncer -q "$pooler/settings.ini" >"$pooler/out" 2>&1 3>&- 4>&- &
	pooler_pid=$!
	direct=$JOBRUN_DATABASE_URL
	export JOBRUN_DATABASE_URL="host=$pooler port=6432 user=jobrun dbname=$JR_DATABASE"
	wait_until 5 test -S "$pooler/.s.PGSQL.6432"
}

teardown() {
	if [ -n "${pooler_pid:-}" ]; then
		pkill -INT -P "$pooler_pid" 2>/dev/null || kill -INT "$pooler_pid" 2>/dev/null || true
		wait "$pooler_pid" 2>/dev/null || true
		export JOBRUN_DATABASE_URL=$direct
	fi
	rm -rf "${pooler:-}"
	common_teardown
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

@test "six runners behind a pooler do each run exactly once" {
	handler append <<<'echo "$JOBRUN_RUN_ID" >> "$TMPDIR/done"'
	q "select jobrun.enqueue('append') from generate_series(1, 300)" >/dev/null
	for i in 1 2 3 4 5 6; do
		bg_runner -j 3 --state-dir "$BATS_TEST_TMPDIR/host$i"
	done
	for pid in "${runner_pids[@]}"; do
		wait_runner "$pid"
		assert_equal "$runner_status" 0
	done
	assert_equal "$(sort -u "$TMPDIR/done" | wc -l) $(wc -l <"$TMPDIR/done")" '300 300'
	q_is 300 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
}

@test "a long run is heartbeaten, a lost one is taken back, and the commands work" {
	handler slow <<<'sleep 3'
	id=$(enqueue slow --backoff 0)
	bg_runner --lease 2s
	wait_until 10 run_is "$id" running
	kill -KILL "$runner_pid"
	sleep 2
	jr_ok run --lease 2s
	q_is 'succeeded|2' "select status, claim_seq from jobrun.job_runs where id = $id"
	jr_ok show "$id"
	jr_ok status
	jr_ok migrate --status
}
