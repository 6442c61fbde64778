#!/usr/bin/env bats
# Log lines: whatever goes wrong, no payload, output, password, header or URL is in them, in either format.

load ../lib/common
load ../lib/web

setup() {
	common_setup
	web
	handler work <<-'sh'
		cat
		echo CANARY-output >&2
		printf '%s\n' '{"result": {"a": "CANARY-result"}}' '{"checkpoint": "CANARY-checkpoint"}' CANARY-line >"$JOBRUN_OUT"
	sh
	handler fails <<<'cat; echo CANARY-output >&2; exit 1'
	printf '%s\n' "select (\$1 ->> 'a')::integer" >"$JOBRUN_HANDLERS/query.sql"
	printf '%s\n' "select (r ->> 'payload')::integer from jsonb_array_elements(\$1) r" >"$JOBRUN_HANDLERS/bulk.sql"
	echo '{"batch": 10}' >"$JOBRUN_HANDLERS/bulk.json"
	printf 'whsec_CANARYsecretCANARYsecretCANARYsecret' >"$JOBRUN_HANDLERS/secret"
	printf '%s/status/404?CANARY-ping' "$web" >"$JOBRUN_HANDLERS/url"
	chmod 600 "$JOBRUN_HANDLERS/secret" "$JOBRUN_HANDLERS/url"
	http_handler hook "$web/status/500" '"headers": {"Authorization": "Bearer CANARY-header"}, "secret": "file:secret"'
	chmod 600 "$JOBRUN_HANDLERS/hook.json"
	http_handler away 'http://127.0.0.1:1/CANARY-path'
	printf '{"ping": "file:url", "ping_start": true, "env": {"TOKEN": "CANARY-token"}}\n' >"$JOBRUN_HANDLERS/work.json"
	printf '{"argv": ["true"], "wrong": "CANARY-value"}\n' >"$JOBRUN_HANDLERS/refused.json"
	# What is written of these runs, and the run of a slot, break a rule: the server quotes the row.
	q "alter table jobrun.job_runs add check (result is null), add check (job_type <> 'slot')"
	export JOBRUN_DATABASE_URL="$JOBRUN_DATABASE_URL password=CANARY-password"
}

# say_nothing EVENT...: the lines of $stderr; these events are among them.
say_nothing() {
	local event

	for event in "$@"; do
		grep -qE "(event=|\"event\":\")$event\>" <<<"$stderr" || fail "no $event: $stderr"
	done
	refute grep -E 'CANARY-(password|header|ping|path|token)|CANARYsecret' <<<"$stderr"
	refute grep -E 'CANARY' <<<"$(grep -E '^(<.>)?[0-9]{4}-.* event=|"event":' <<<"$stderr")"
}

@test "nothing of a payload, an output, a password, a header or a URL is logged, as text and as JSON, also on errors" {
	for format in text json; do
		for type in work fails query bulk bulk hook away; do
			q "select jobrun.enqueue('$type', '{\"a\": \"CANARY-payload\"}')" >/dev/null
		done
		q "insert into jobrun.job_definitions (name, job_type, payload, schedule)
			values ('slot_$format', 'slot', '{\"a\": \"CANARY-payload\"}', '* * * * *')" \
			"update jobrun.job_definitions set next_slot_at = now() - interval '1 minute' where name = 'slot_$format'"
		jr -vv --log-format "$format" run
		say_nothing run_start run_end outcome_refused fired ping_failed variable_left_out out_warnings group_split
		jr -vv --log-format "$format" exec --ping "$web/status/404?CANARY-ping" --ping-start backup -- cat <<<CANARY-input
		say_nothing run_end ping_failed
	done
	# A statement that fails as a whole: the claim.
	q "alter table jobrun.job_runs add check (status <> 'running')" "select jobrun.enqueue('fails', '{\"a\": \"CANARY-payload\"}')" >/dev/null
	jr -vv run
	say_nothing claim_failed
}

@test "a database that is away, refuses or has a wrong address: no password in the words either" {
	for url in 'host=/nowhere password=CANARY-password' 'postgresql://u:CANARY-password@[h/db' 'host=h password=CANARY-password port' \
		'postgresql://nobody:CANARY-password@127.0.0.1:1/db' 'host=h password=CANARY-password port=CANARY'; do
		for command in status 'run -v' '-v --log-format json run'; do
			# shellcheck disable=SC2086 # words
			JOBRUN_DATABASE_URL=$url jr $command
			assert [ "$status" -gt 1 ]
			refute grep CANARY-password <<<"$stderr$output"
		done
	done
}

@test "with stderr at the journal each line has its priority, and only there" {
	enqueue work >/dev/null
	mkfifo pipe
	cat pipe >got &
	exec 5>pipe
	JOURNAL_STREAM=$(stat -Lc '%d:%i' /dev/fd/5) run_jobrun -v run 2>&5 || true
	JOURNAL_STREAM=1:2 run_jobrun -v run 2>&5 || true
	exec 5>&-
	wait $!
	refute grep -qE '^<6>[^0-9]' got
	assert grep -qE '^<6>.* event=run_end ' got
	assert grep -qE '^<4>.* warn event=outcome_refused ' got
	assert grep -qE '^[0-9].* event=' got
}
