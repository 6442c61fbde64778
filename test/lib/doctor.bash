# shellcheck shell=bash disable=SC2154 # common.bash and bats set what is read here
# For tests of jobrun doctor.

# crontab(1) of this test prints what the function crontab gets; housekeeping is due within the hour, not in 9999.
doctor_setup() {
	mkdir -p "$TMPDIR/doctor"
	PATH=$TMPDIR/doctor:$PATH
	crontab </dev/null
	q 'set session_replication_role = replica' \
		"update jobrun.job_definitions set next_slot_at = now() + interval '1 hour'" \
		"update jobrun.settings set stats_until = date_trunc('hour', now())"
}

# crontab: the caller's crontab is stdin; empty: there is none.
crontab() {
	cat >"$TMPDIR/doctor/lines"
	if [ -s "$TMPDIR/doctor/lines" ]; then
		printf '#!/bin/sh\ncat "%s"\n' "$TMPDIR/doctor/lines"
	else
		printf '#!/bin/sh\necho "no crontab for you" >&2\nexit 1\n'
	fi >"$TMPDIR/doctor/crontab.new"
	chmod 755 "$TMPDIR/doctor/crontab.new"
	mv "$TMPDIR/doctor/crontab.new" "$TMPDIR/doctor/crontab"
}

# finds CHECK STATE [TEXT [COMMAND [OPTION...]]]: the check has a finding of this state, with "text: consequence" and a command that
# match; or ok, and no other. DOCTOR_URL is another way to the database.
finds() {
	local check=$1 state=$2 text=${3:-} command=${4:-}

	shift $(($# < 4 ? $# : 4))
	JOBRUN_DATABASE_URL=${DOCTOR_URL:-$JOBRUN_DATABASE_URL} jr doctor --json "$check" "$@"
	jq -e --arg state "$state" --arg text "$text" --arg command "$command" '.checks | if $state == "ok" then all(.state == "ok") else . end
		and any(.state == $state and (.text + ": " + (.consequence // "") | test($text)) and ((.command // "") | test($command)))' \
		<<<"$output" >/dev/null || fail "no finding $state '$text' '$command' of $check in:
$output
$stderr"
	assert_equal "$status" "$(jq -r 'if any(.checks[]; .state == "fail") then 1 else 0 end' <<<"$output")"
}
