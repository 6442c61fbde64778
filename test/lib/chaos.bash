# shellcheck shell=bash disable=SC2034,SC2154 # the tests read what is set here
#
# The long tests of chaos/: hosts that tick at the same time, and what they leave to be done.

# One test at a time: others would race for the same CPUs.
setup_file() {
	export BATS_NO_PARALLELIZE_WITHIN_FILE=true
}

# chaos_setup: common_setup, and what the files share: seed, seconds, PGBENCH.
chaos_setup() {
	common_setup
	seed=${CHAOS_SEED:-$$}
	seconds=${CHAOS_SECONDS:-60}
	PGBENCH=$(dirname "$JR_PSQL")/pgbench
}

# start_hosts N [COMMAND]: `COMMAND NUMBER`, or else `host NUMBER`, N times in the background; their processes are in hosts.
start_hosts() {
	local n

	hosts=()
	for n in $(seq "$1"); do
		"${2:-host}" "$n" 3>&- 4>&- &
		hosts+=("$!")
	done
}

# drained ARGUMENT...: for wait_until: one more tick with these arguments, and has each run ended?
drained() {
	"$JOBRUN" run --state-dir "$TMPDIR/last" "$@" >>"$TMPDIR/last.log" 2>&1 || true
	nothing_is_open
}
