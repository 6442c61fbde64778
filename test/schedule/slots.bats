#!/usr/bin/env bats
# Did it run, and if not, why: jobrun slots, enqueue --definition, and what else tells of definitions and slots.

load ../lib/common
load ../lib/proxy
load ../lib/sql
load ../lib/web

setup() {
	common_setup
	handler report <<<'exit 0'
}

# hourly NAME [CHANGES]: a definition whose slots are each hour, the next one in half an hour.
hourly() {
	q "select jobrun.define('$1', jsonb_build_object('job_type', 'report', 'schedule', '@every 1h',
		'anchor_at', date_trunc('minute', now()) - interval '999 hours 30 minutes') || '${2:-{\}}')" >/dev/null
}

# tick NAME HOURS: that many slots have come since the last tick, the last one half an hour ago; now there is one.
tick() {
	q "update jobrun.job_definitions set next_slot_at = next_slot_at - interval '$2 hours' where name = '$1'" \
		"select count(*) from jobrun.fire()" >/dev/null
}

# shown FILTER ARGUMENT...: jobrun slots --json, through jq.
shown() {
	local filter=$1

	shift
	run_jobrun slots "$@" --json | jq -c "$filter"
}

# account NAME SLOT OUTCOME [REASON]: a slot on record, as of a tick long ago.
account() {
	q "insert into jobrun.job_slots (definition_id, slot, outcome, reason) select id, '$2', '$3', nullif('${4:-}', '')
		from jobrun.job_definitions where name = '$1'"
}

# no_run ARGUMENT...: jobrun refuses that, exit status and message first, and nothing is queued.
no_run() {
	local expected=$1 regex=$2 before

	shift 2
	before=$(q 'select count(*) from jobrun.job_runs')
	jr "$@"
	assert_equal "$output" ''
	assert_one_line "$expected" "^jobrun: .*$regex"
	q_is "$before" 'select count(*) from jobrun.job_runs'
}

# --- jobrun slots ---

@test "slots shows the next slot, and of past ones outcome, reason, run, and the run's status" {
	hourly nightly
	jr_ok slots nightly
	assert_regex "${lines[0]}" '^nightly, @every 1h, UTC: next [0-9-]+ [0-9:]+\+00:00 \(in (30m|2[89]m( [0-9]+s)?)\)$'
	assert_equal "${lines[1]}" 'no slot yet'
	assert_equal "${#lines[@]}" 2
	tick nightly 1
	id=$(q "select id from jobrun.job_runs where job_type = 'report'")
	jr_ok slots nightly
	assert_regex "${lines[1]}" '^SLOT +UNTIL +SLOTS +OUTCOME +RUN +STATUS +REASON$'
	assert_regex "${lines[2]}" "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}\+00:00 - +- queued +$id +queued +-$"
	assert_equal "${#lines[@]}" 3
	jr_ok run --job "$id"
	assert_equal "$(shown '.slots[] | [.run_id, .run_status, .outcome, .reason, .slots]' nightly)" "[$id,\"succeeded\",\"queued\",null,1]"
	q "delete from jobrun.job_runs where id = $id"
	assert_equal "$(shown '.slots[] | [.run_id, .run_status]' nightly)" "[$id,null]"
	jr_ok slots nightly
	assert_regex "${lines[2]}" "queued +$id +- +-$"
}

@test "slots knows a run that was archived" {
	hourly nightly
	tick nightly 1
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now() where job_type = 'report'" \
		"insert into jobrun.job_runs_archive select (jsonb_populate_record(null::jobrun.job_runs_archive,
			to_jsonb(r) || jsonb_build_object('archived_at', now()))).* from jobrun.job_runs r where job_type = 'report'" \
		"delete from jobrun.job_runs where job_type = 'report'"
	assert_equal "$(shown '.slots[].run_status' nightly)" '"cancelled"'
}

@test "slots names the run that caused an overlap, and status says so until a slot runs again" {
	hourly nightly
	tick nightly 2
	id=$(q "select id from jobrun.job_runs where job_type = 'report'")
	q "delete from jobrun.job_slots"
	tick nightly 1
	jr_ok slots nightly
	assert_line --regexp "skipped +- +- +overlap: run $id waits$"
	jr_ok status
	assert_line --regexp "^! definition nightly: slot .*\+00:00 was skipped, run $id waits \(jobrun slots nightly\)$"
	jr_ok status report
	assert_line --partial '! definition nightly'
	jr status other
	refute_line --partial nightly
	jr_ok cancel "$id"
	q "delete from jobrun.job_slots"
	tick nightly 1
	jr_ok status
	refute_line --partial nightly
}

@test "missed slots are one line each, and many of them one line with their number and the last" {
	hourly nightly
	tick nightly 3
	assert_equal "$(shown '[.slots[] | [.outcome, .reason]]' nightly)" \
		'[["queued",null],["coalesced","missed"],["coalesced","missed"]]'
	run on_terminal 80 slots nightly
	assert_regex "${lines[1]}" '^SLOT +OUTCOME +RUN '
	q "delete from jobrun.job_slots; update jobrun.job_runs set status = 'cancelled', finished_at = now() where job_type = 'report'"
	tick nightly 151
	jr_ok slots nightly
	assert_regex "${lines[1]}" '^SLOT +UNTIL +SLOTS +OUTCOME +RUN +STATUS +REASON$'
	assert_regex "${lines[2]}" '\+00:00 - +- queued '
	assert_regex "${lines[3]}" '^[0-9-]+ [0-9:]+\+00:00 [0-9-]+ [0-9:]+\+00:00 +150 coalesced +- +- +missed$'
	assert_equal "${#lines[@]}" 4
	assert_equal "$(shown '.slots[1] | [.slots, .run_id, .slot_until != null]' nightly)" '[150,null,true]'
}

@test "slots shows the newest twenty first, obeys --limit and --since, and mentions older ones" {
	hourly nightly '{"overlap": "allow", "catch_up": "all"}'
	tick nightly 25
	jr_ok slots nightly
	assert_equal "${#lines[@]}" 23
	assert_equal "${lines[22]}" 'older ones: --limit N, --since D'
	assert_equal "$(shown '[(.slots | length), .older, .slots[0].slot > .slots[1].slot]' nightly)" '[20,true,true]'
	assert_equal "$(shown '[(.slots | length), .older]' nightly --limit 25)" '[25,false]'
	assert_equal "$(shown '[(.slots | length), .older]' nightly --limit 3)" '[3,true]'
	assert_equal "$(shown '[(.slots | length), .older]' nightly --since 3h)" '[3,false]'
	assert_equal "$(shown '[(.slots | length), .older]' nightly --since 30d)" '[25,false]'
	jr_ok slots nightly --since 5m
	assert_equal "${lines[1]}" 'no slot within 5m'
	# Many missed ones belong to the time in which the last of them was.
	q "delete from jobrun.job_slots" "update jobrun.job_runs set status = 'cancelled', finished_at = now() where job_type = 'report'" \
		"select jobrun.define('nightly', '{\"catch_up\": \"skip\"}')" >/dev/null
	tick nightly 150
	assert_equal "$(shown '[.slots[].slots]' nightly --since 1h)" '[150]'
}

@test "the first line of slots says disabled, paused, without a schedule, or late" {
	hourly nightly '{"enabled": false}'
	tick nightly 1
	jr_ok slots nightly
	assert_regex "${lines[0]}" '^nightly, @every 1h, UTC: disabled \(jobrun define nightly --enable\), its slots are skipped; next .* \(in '
	assert_regex "${lines[2]}" ' skipped +- +- +disabled$'

	hourly weekly
	jr_ok pause --definition weekly --reason 'year end'
	tick weekly 1
	jr_ok slots weekly
	assert_regex "${lines[0]}" '^weekly, @every 1h, UTC: paused until resumed: year end, its slots are skipped; next '
	assert_regex "${lines[2]}" ' skipped +- +- +paused: year end$'
	jr_ok pause --definition weekly --for 2h
	jr_ok slots weekly
	assert_regex "${lines[0]}" ': paused until ([0-9-]+ )?[0-9:]+\+00:00, its slots'
	assert_equal "$(shown '[.enabled, .paused, .paused_reason]' weekly)" '[true,true,null]'

	q "select jobrun.define('plain', '{\"queue\": \"slow\"}')" >/dev/null
	jr_ok slots plain
	assert_equal "$output" 'plain has no schedule'
	q "update jobrun.job_definitions set next_slot_at = null where name = 'nightly'"
	jr_ok slots nightly
	assert_regex "${lines[0]}" 'there is no next slot$'

	hourly late
	q "update jobrun.job_definitions set next_slot_at = now() - interval '10 minutes' where name = 'late'"
	jr_ok slots late
	assert_regex "${lines[0]}" 'next .* \(10m.* ago\): no tick has come since; is the crontab line in place\? try: jobrun --once -v$'
	jr_ok status
	assert_line --regexp '^! definition late: slot .* has passed, and no tick has come since \(is the crontab line in place\? try: jobrun --once -v\)$'
	refute_line --partial nightly
	# A runner of exec fires nothing.
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'here', '0')"
	jr_ok slots late
	assert_regex "${lines[0]}" ': no tick has come since;'
	jr_ok status
	assert_line --regexp '^! definition late: .* no tick has come since'
	# A tick came, and it is not fired all the same.
	q "update jobrun.job_runners set job_types = '{work}' where id = 1"
	jr_ok slots late
	assert_regex "${lines[0]}" 'the ticks since then could not fire it; jobrun --once says why$'
	jr_ok status
	assert_line --regexp '^! definition late: .* and the ticks since then could not fire it'
	q "update jobrun.job_definitions set next_slot_at = now() - interval '90 seconds' where name = 'late'"
	jr_ok status
	refute_line --partial late
}

@test "a slot is shown in the zone of its definition, with its offset" {
	q "select jobrun.define('berlin', '{\"schedule\": \"30 2 * * *\", \"time_zone\": \"Europe/Berlin\"}')" \
		"select jobrun.define('lord', '{\"schedule\": \"15 1 * * *\", \"time_zone\": \"Australia/Lord_Howe\"}')" \
		"select jobrun.define('west', '{\"schedule\": \"15 1 * * *\", \"time_zone\": \"America/St_Johns\"}')" >/dev/null
	account berlin '2026-03-28 01:30Z' skipped a
	account berlin '2026-03-29 01:00Z' skipped b
	account berlin '2026-10-25 00:30Z' skipped c
	account berlin '2026-10-26 01:30Z' skipped d
	account lord '2026-04-04 14:45Z' skipped a
	account lord '2026-04-05 14:45Z' skipped b
	account west '2026-01-05 04:45:07.25Z' skipped a
	assert_equal "$(TZ=Asia/Tokyo shown '[.slots[].slot_local]' berlin)" \
		'["2026-10-26T02:30:00+01:00","2026-10-25T02:30:00+02:00","2026-03-29T03:00:00+02:00","2026-03-28T02:30:00+01:00"]'
	assert_equal "$(shown '[.slots[].slot_local]' lord)" '["2026-04-06T01:15:00+10:30","2026-04-05T01:45:00+11:00"]'
	assert_equal "$(shown '[.slots[].slot_local, .slots[].slot]' west)" '["2026-01-05T01:15:07.250000-03:30","2026-01-05T04:45:07.25+00:00"]'
}

@test "slots works for a definition whose zone the server has lost" {
	hourly nightly
	tick nightly 1
	id=$(q "select id from jobrun.job_runs where job_type = 'report'")
	q "alter table jobrun.job_definitions disable trigger user; update jobrun.job_definitions set time_zone = 'Atlantis/City' where name = 'nightly'"
	for command in 'slots nightly' 'slots nightly --json' list "show $id" "show $id --json" status; do
		# shellcheck disable=SC2086 # words
		jr_ok $command
	done
	assert_equal "$(shown '.slots[0].slot_local | endswith("+00:00")' nightly)" true
}

@test "slots exits with 65 for an unknown definition and with 64 for a wrong name or option" {
	no_run 65 "there is no definition nope; 'jobrun define --list' shows them" slots nope
	no_run 65 'there is no definition nope' slots nope --json
	no_run 65 'there is no definition nope' slots nope --replay yesterday
	no_run 64 'NAME: ' slots 'No Name'
	no_run 64 'an argument is missing' slots
	no_run 64 'an argument too many' slots a b
	no_run 64 '"-1d" is negative' slots a --since -1d
	no_run 64 'limit' slots a --limit 0
	no_run 64 '--reason goes with --replay' slots a --reason why
	no_run 64 '--dry-run goes with --replay' slots a -n
	no_run 64 'replay is about one slot; --since' slots a --replay now --since 1d
	no_run 64 'replay is about one slot; --limit' slots a --replay now --limit 1
}

# --- replay ---

@test "--replay queues the run of a slot once more; its account has the new run and who did it why" {
	hourly nightly '{"payload": {"a": 1}, "queue": "slow", "priority": 7}'
	tick nightly 3
	first=$(q "select id from jobrun.job_runs where job_type = 'report'")
	slot=$(shown '.slots[2].slot_local' nightly | tr -d '"')
	jr_ok slots nightly --replay "$slot" --reason 'disk was full'
	assert_regex "$output" '^[0-9]+$'
	assert_equal "$stderr" ''
	id=$output
	assert_equal "$(field "$id" "job_type, queue, priority, payload, slot = '$slot', definition_id = (select definition_id from jobrun.job_runs where id = $first)")" \
		'report|slow|7|{"a": 1}|t|t'
	assert_equal "$(shown '.slots[2] | [.outcome, .reason, .run_id, .run_status]' nightly)" "[\"queued\",\"replayed\",$id,\"queued\"]"
	q_is 'definition nightly|disk was full' "select object, reason from jobrun.job_audit where action = 'replay'"
}

@test "--replay of a slot whose run is not finished is refused, of one that is, done again" {
	hourly nightly
	tick nightly 1
	id=$(q "select id from jobrun.job_runs where job_type = 'report'")
	slot=$(shown '.slots[0].slot' nightly | tr -d '"')
	no_run 65 "run $id of this slot is not finished" slots nightly --replay "$slot"
	jr_ok run --job "$id"
	jr_ok slots nightly --replay "$slot" --json
	again=$(jq .run_id <<<"$output")
	assert_equal "$(jq -c '[.definition, .reason]' <<<"$output")" '["nightly",null]'
	assert_equal "$(field "$again" "slot = '$slot'")" t
	run_is "$id" succeeded
}

@test "--replay refuses what is no slot, has not come, or is no time, in one line" {
	q "select jobrun.define('nightly', '{\"schedule\": \"30 2 * * *\", \"time_zone\": \"Europe/Berlin\"}')" \
		"select jobrun.define('plain', '{}')" >/dev/null
	no_run 65 'definition "nightly" has no slot at 2026-10-24 02:31.02:00; the one before is 2026-10-24 02:30.02:00$' slots nightly --replay '2026-10-24 02:31'
	no_run 65 'has not come yet' slots nightly --replay '2126-10-24 02:30'
	no_run 65 'has not come yet' slots nightly --replay infinity
	no_run 65 'has no slot at' slots nightly --replay '4713-01-01 BC'
	no_run 65 'definition "plain" has no slot at .*; it has no schedule$' slots plain --replay yesterday
	no_run 64 '--replay: "sometime" is not a time; write it like ' slots nightly --replay sometime
	no_run 64 '--replay: "" is not a time' slots nightly --replay ''
}

@test "--replay reads the time in the zone of the definition, whatever the zone of the caller" {
	q "select jobrun.define('nightly', '{\"schedule\": \"30 2 * * *\", \"time_zone\": \"Europe/Berlin\", \"job_type\": \"report\"}')" >/dev/null
	for zone in UTC Asia/Tokyo; do
		TZ=$zone jr_ok slots nightly --replay '2026-10-20 02:30' -n
		assert_equal "$output" 'would queue a run of nightly for 2026-10-20 02:30+02:00'
	done
	for time in '2026-10-20 02:30+02:00' '2026-10-20T00:30Z' '20 Oct 2026 02:30' '2026-10-19 20:30 America/New_York'; do
		jr_ok slots nightly --replay "$time" -n
		assert_equal "$output" 'would queue a run of nightly for 2026-10-20 02:30+02:00'
	done
	# The night in which 02:30 comes twice: it is the first one that has the slot.
	jr_ok slots nightly --replay '2026-10-25 02:30' -n
	assert_equal "$output" 'would queue a run of nightly for 2026-10-25 02:30+02:00'
	jr_ok slots nightly --replay '2026-10-25 02:30' -n --json
	assert_equal "$(jq -c '[.run_id, .slot_local]' <<<"$output")" '[null,"2026-10-25T02:30:00+02:00"]'
	q_is 0 'select count(*) from jobrun.job_slots'
	q_is 0 'select count(*) from jobrun.job_runs'
	# Where both are slots, it is what the server reads: the second.
	q "select jobrun.define('often', '{\"schedule\": \"*/30 * * * *\", \"time_zone\": \"Europe/Berlin\"}')" >/dev/null
	jr_ok slots often --replay '2026-10-25 02:30' -n
	assert_equal "$output" 'would queue a run of often for 2026-10-25 02:30+01:00'
	jr_ok slots often --replay '2026-10-25 02:30+02' -n
	assert_equal "$output" 'would queue a run of often for 2026-10-25 02:30+02:00'
	# The night in which it does not come.
	jr_ok slots nightly --replay '2026-03-29 03:00' -n
	assert_equal "$output" 'would queue a run of nightly for 2026-03-29 03:00+02:00'
}

@test "--replay of one of many missed slots: it has its own line, the others keep theirs" {
	hourly nightly '{"catch_up": "skip", "overlap": "allow"}'
	tick nightly 150
	slot=$(q "select slot + interval '40 hours' from jobrun.job_slots where slots = 149 or slots = 150")
	jr_ok slots nightly --replay "$slot"
	id=$output
	assert_equal "$(shown '[.slots[] | [.slots, .run_id]]' nightly)" "[[109,null],[1,$id],[40,null]]"
}

@test "--replay leaves a line of many slots as it is if the schedule has changed since, and refuses its first slot" {
	local whole day one two

	q "select jobrun.define('c1', '{\"job_type\": \"report\", \"schedule\": \"0 * * * *\"}')" \
		"update jobrun.job_definitions set next_slot_at = date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' - interval '478 hours'
			where name = 'c1'" 'select count(*) from jobrun.fire()' >/dev/null
	whole=$(q 'select slots, slot, until from jobrun.job_slots where slots > 1')
	assert_between 477 "${whole%%|*}" 502
	day=$(q "select (slot at time zone 'UTC')::date from jobrun.job_slots where slots > 1")
	jr_ok define c1 --schedule '30 2 * * *'
	jr_ok slots c1 --replay "$day 02:30"
	one=$output
	q_is "$whole" 'select slots, slot, until from jobrun.job_slots where slots > 1'
	# This one has as many, but not those.
	jr_ok define c1 --schedule '30 * * * *'
	jr_ok slots c1 --replay "$day 07:30"
	two=$output
	jr_ok define c1 --schedule '0 2,4 * * *'
	no_run 65 "slot $day 02:00.00:00 of definition \"c1\" is on record with the [0-9]+ after it as one line, .* \(jobrun enqueue --definition c1\)$" \
		slots c1 --replay "$day 02:00"
	jr_ok slots c1 --replay "$day 04:00"
	q_is "$whole" 'select slots, slot, until from jobrun.job_slots where slots > 1'
	assert_equal "$(shown '[.slots[] | select(.reason == "replayed") | .run_id]' c1)" "[$two,$output,$one]"
	# Back again: of its slots one has a run by now, which is in no line of many then.
	jr_ok define c1 --schedule '0 * * * *'
	jr_ok slots c1 --replay "$day 03:00"
	q_is "1|queued|1|queued|$((${whole%%|*} - 3))|coalesced|${whole##*|}" "select string_agg(concat_ws('|', slots, outcome, until), '|' order by slot)
		from jobrun.job_slots where slot - '$day 02:00Z' in (interval '1 hour', interval '2 hours', interval '3 hours')"
}

@test "--replay makes one run when a COMMIT or its answer is lost" {
	q "select jobrun.define('nightly', '{\"schedule\": \"30 2 * * *\", \"job_type\": \"report\"}')" >/dev/null
	for mode in answer request; do
		q 'truncate jobrun.job_runs'
		proxy "$mode" 3 # behind those of need() and of reading the time
		jr_ok slots nightly --replay '2026-10-20 02:30' -d "$proxied"
		assert_file_exists "$cut_file"
		assert_equal "$stderr" ''
		q_is "$output" 'select id from jobrun.job_runs'
	done
}

# --- enqueue --definition ---

@test "enqueue --definition: a run now, with all that the definition says" {
	q "select jobrun.define('monthly', '{\"job_type\": \"report\", \"payload\": {\"from\": \"definition\"}, \"queue\": \"slow\", \"priority\": 7,
		\"max_attempts\": 2, \"timeout\": \"90s\", \"backoff_base\": \"1s\", \"backoff_cap\": \"1m\", \"concurrency_key\": \"one\",
		\"schedule\": \"30 2 1 * *\"}')" >/dev/null
	id=$(enqueue --definition monthly)
	assert_equal "$(field "$id" "job_type, payload ->> 'from', queue, priority, max_attempts, timeout, backoff_base, backoff_cap, concurrency_key,
		run_at = created_at, slot is null, definition_id = (select id from jobrun.job_definitions where name = 'monthly'), status")" \
		'report|definition|slow|7|2|00:01:30|00:00:01|00:01:00|one|t|t|t|queued'
	id=$(enqueue --definition monthly '{"from": "here"}' --in 1h)
	assert_equal "$(field "$id" "payload ->> 'from', run_at - created_at, queue")" 'here|01:00:00|slow'
	id=$(echo '{"from": "stdin"}' | enqueue - --definition monthly --at '2126-01-02 03:04' --time-zone Asia/Tokyo)
	assert_equal "$(field "$id" "payload ->> 'from', run_at at time zone 'Asia/Tokyo'")" 'stdin|2126-01-02 03:04:00'
	id=$(JOBRUN_RUN_ID=41 TRACEPARENT=trace enqueue --definition monthly)
	assert_equal "$(field "$id" 'parent_id, trace_context')" '41|trace'
	q_is 0 'select count(*) from jobrun.job_slots'
}

@test "enqueue --definition: the same key is the same run; --strict, --wait, -n and --json" {
	hourly nightly '{"queue": "slow"}'
	jr_ok enqueue --definition nightly -n
	assert_equal "$output" 'would queue report: queue slow, priority 100, due now'
	q_is 0 'select count(*) from jobrun.job_runs'
	jr_ok enqueue --definition nightly -k once --json
	id=$(jq .id <<<"$output")
	assert_equal "$(jq -c '[.created, .definition, .job_type, .queue, .idempotency_key]' <<<"$output")" '[true,"nightly","report","slow","once"]'
	jr_ok enqueue --definition nightly -k once
	assert_equal "$output" "$id"
	jr enqueue --definition nightly -k once --strict
	assert_equal "$status" 1
	assert_equal "$output" "$id"
	assert_regex "$stderr" "run $id was there already"
	jr_ok enqueue --definition nightly -n -k once
	assert_equal "$output" "would queue nothing: run $id has this key and is queued"
	handler report <<<'echo "{\"result\": 42}" >>"$JOBRUN_OUT"'
	bg_runner --for 20s
	jr_ok enqueue --definition nightly --wait --wait-timeout 20s
	assert_equal "$output" 42
}

@test "enqueue --definition refuses options that the definition sets, and an unknown definition" {
	hourly nightly
	for option in '--queue q' '--priority 1' '--expires 1h' '--max-attempts 2' '--timeout 1m' '--backoff 1s' '--unique k' \
		'--unique k --replace' '--lock k' '--batch file' '--batch file --per-run'; do
		# shellcheck disable=SC2086 # words
		no_run 64 "with --definition the run is what nightly says; to have it otherwise enqueue its type$" enqueue --definition nightly $option
	done
	no_run 64 'the only argument is PAYLOAD; "report" is one too many' enqueue --definition nightly report '{}'
	no_run 64 'the only argument is PAYLOAD; "2" is one too many' enqueue --definition nightly '{}' 2
	no_run 65 'with --definition the only argument is PAYLOAD, which is JSON, and "report" is none; leave TYPE out$' \
		enqueue --definition nightly report
	no_run 65 'the payload is not JSON: line 1, column 2' enqueue --definition nightly '{]'
	no_run 65 'the second argument is PAYLOAD, which is JSON, and "report" is none; a job type is given by --type report$' \
		define nightly report
	no_run 65 'the payload is not JSON: line 1, column 2' define nightly '{]'
	no_run 64 'exclude each other' enqueue --definition nightly --in 1m --at tomorrow
	no_run 64 '--time-zone goes with --at' enqueue --definition nightly --time-zone UTC
	no_run 64 '--definition: ' enqueue --definition 'No Name'
	no_run 65 'there is no definition "nope"' enqueue --definition nope
	no_run 64 'an argument is missing; usage: jobrun enqueue ' enqueue
	q "insert into jobrun.job_definitions (name, job_type) values ('other', 'report')"
	no_run 65 'on_dead:' enqueue --definition other -k on_dead:1:1
}

@test "enqueue --definition: a COMMIT whose answer is lost is asked for again: one run" {
	hourly nightly
	for mode in answer request; do
		q 'truncate jobrun.job_runs'
		proxy "$mode" 2
		jr_ok enqueue -d "$proxied" --definition nightly --json
		assert_file_exists "$cut_file"
		assert_equal "$(jq -c .created <<<"$output")" true
		q_is "$(jq .id <<<"$output")" 'select id from jobrun.job_runs'
	done
}

# --- who else tells of it ---

@test "list and show name definition and slot, in its zone" {
	q "select jobrun.define('nightly', '{\"schedule\": \"30 2 * * *\", \"time_zone\": \"Europe/Berlin\", \"job_type\": \"report\"}')" >/dev/null
	plain=$(enqueue report)
	run on_terminal 80 list
	assert_regex "${lines[0]}" 'WHEN$'
	now=$(enqueue --definition nightly)
	run on_terminal 80 list
	assert_regex "${lines[0]}" 'WHEN +DEFINITION$'
	jr_ok list
	assert_regex "${lines[1]}" "^ *$now report .* nightly +- +-$"
	jr_ok slots nightly --replay '2026-10-20 02:30'
	id=$output
	jr_ok list
	assert_regex "${lines[0]}" 'TOOK +DEFINITION +SLOT +MESSAGE$'
	assert_regex "${lines[1]}" "^ *$id report .* nightly +2026-10-20 02:30\+02:00 +-$"
	assert_regex "${lines[3]}" "^ *$plain report .* - +- +-$"
	assert_equal "$(run_jobrun list --json | jq -c '[.runs[] | [.definition, .slot, .slot_local]]')" \
		'[["nightly","2026-10-20T00:30:00+00:00","2026-10-20T02:30:00+02:00"],["nightly",null,null],[null,null,null]]'
	jr_ok show "$id"
	assert_line --regexp '^definition +nightly$'
	assert_line --regexp '^slot +2026-10-20 02:30\+02:00$'
	assert_equal "$(run_jobrun show "$id" --json | jq -c '[.definition, .slot, .slot_local]')" \
		'["nightly","2026-10-20T00:30:00+00:00","2026-10-20T02:30:00+02:00"]'
	jr_ok show "$plain"
	refute_line --regexp '^(definition|slot) '
	number=$(field "$id" definition_id)
	q "select jobrun.undefine('nightly')" >/dev/null
	jr_ok show "$id"
	assert_line --regexp "^definition +$number, which was removed$"
	jr_ok list
	assert_regex "${lines[1]}" "2026-10-20 00:30\+00:00 +-$"
}

@test "--definition selects the same runs for list, cancel and retry" {
	hourly nightly
	hourly weekly
	plain=$(enqueue report)
	one=$(enqueue --definition nightly)
	two=$(enqueue --definition weekly)
	three=$(enqueue --definition nightly)
	assert_equal "$(run_jobrun list --definition nightly --json | jq -c '.runs | map(.id)')" "[$three,$one]"
	assert_equal "$(run_jobrun list --definition nightly,weekly --status queued --json | jq -c '.runs | map(.id)')" "[$three,$two,$one]"
	assert_equal "$(run_jobrun list --definition nope --json | jq -c .runs)" '[]'
	assert_equal "$(run_jobrun cancel --definition nightly -n --json | jq -c '.kinds | map(.count)')" '[2]'
	jr_ok cancel --definition nightly
	assert_equal "$output" 'cancelled 2 runs'
	run_is "$plain" queued
	run_is "$two" queued
	for status in cancelled succeeded,cancelled cancelled,queued,dead; do
		assert_equal "$(run_jobrun list --definition nightly --status "$status" --json | jq -c '.runs | map(.id)')" "[$three,$one]"
	done
	jr_ok retry --definition nightly,weekly --status cancelled
	assert_equal "$output" 'retried 2 runs'
	jr retry 1 --definition nightly
	assert_equal "$status" 64
	assert_regex "$stderr" 'IDs do not go with --status'
	jr list --definition 'No Name'
	assert_equal "$status" 64
}

@test "a handler gets the slot in the zone of its schedule, on both nights when clocks change, and in UTC without that zone" {
	handler report <<<'echo "$JOBRUN_SLOT $JOBRUN_SLOT_LOCAL"'
	q "select jobrun.define('report', '{\"schedule\": \"30 * * * *\", \"time_zone\": \"Europe/Berlin\"}')" >/dev/null
	for at in '2025-03-30 03:30' '2025-10-26 02:30+02:00' '2025-10-26 02:30+01:00'; do
		jr_ok slots report --replay "$at"
	done
	jr_ok run
	jr_ok slots report --replay '2025-11-01 00:30'
	q 'set session_replication_role = replica' "update jobrun.job_definitions set time_zone = 'Gone/Away'"
	jr_ok run
	assert_equal "$(q "select rtrim(output, E'\\n') from jobrun.job_attempts order by run_id")" '2025-03-30T01:30:00Z 2025-03-30T03:30:00+02:00
2025-10-26T00:30:00Z 2025-10-26T02:30:00+02:00
2025-10-26T01:30:00Z 2025-10-26T02:30:00+01:00
2025-10-31T23:30:00Z 2025-10-31T23:30:00+00:00'
}

@test "--replay takes the JOBRUN_SLOT of @every, also with the fractions of an anchor from before they were cut off" {
	handler report <<<'echo "$JOBRUN_SLOT"'
	q "insert into jobrun.job_definitions (name, schedule) values ('report', '@every 1h')" \
		"update jobrun.job_definitions set anchor_at = now() - interval '90 minutes' where name = 'report'"
	for fraction in 0 0.25; do
		q 'set session_replication_role = replica' "update jobrun.job_definitions set anchor_at = anchor_at + interval '$fraction seconds',
			next_slot_at = next_slot_at + interval '$fraction seconds' where name = 'report'"
		tick report 1
		jr_ok run
		slot=$(q "select rtrim(output, E'\\n') from jobrun.job_attempts order by run_id desc limit 1")
		q_is t "select slot = '$slot' from jobrun.job_runs order by id desc limit 1"
		jr_ok slots report --replay "$slot"
		jr_ok run
	done
	assert_regex "$slot" '^[-0-9]+T[:0-9]+\.250000Z$'
	q_is 4 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "exec, sql and http handlers get the slot of a scheduled run, and none for other runs" {
	web
	handler report <<<'echo "slot=${JOBRUN_SLOT-none} ${JOBRUN_SLOT_LOCAL-none}"'
	sql_handler statement <<<"select to_jsonb(current_setting('jobrun.slot', true)), current_setting('jobrun.run_id')"
	http_handler hook "$web/ok"
	for type in report statement hook; do
		q "select jobrun.define('$type-daily', '{\"schedule\": \"30 2 * * *\", \"time_zone\": \"Europe/Berlin\", \"job_type\": \"$type\"}')" >/dev/null
		jr_ok slots "$type-daily" --replay '2026-10-20 02:30'
		declare "with_$type=$output" "without_$type=$(enqueue --definition "$type-daily")"
	done
	JOBRUN_SLOT=stale JOBRUN_SLOT_LOCAL=stale jr_ok run
	jr_ok logs "$with_report"
	assert_equal "$output" 'slot=2026-10-20T00:30:00Z 2026-10-20T02:30:00+02:00'
	jr_ok logs "$without_report"
	assert_equal "$output" 'slot=none none'
	q_is '"2026-10-20T00:30:00Z"' "select result from jobrun.job_runs where id = $with_statement"
	q_is '""' "select result from jobrun.job_runs where id = $without_statement"
	assert_equal "$(requests '[.headers["jobrun-run"], .headers["jobrun-slot"]]' | sort)" \
		"$(printf '["%s","2026-10-20T00:30:00Z"]\n["%s",null]\n' "$with_hook" "$without_hook" | sort)"
}

# --- starts of exec that were left out ---

@test "a start of exec that was left out stands among the slots, and is taken for one by nobody" {
	local left_out

	hourly nightly
	tick nightly 2
	jr_ok exec nightly -- touch ran
	assert_file_not_exist ran
	jr_ok slots nightly
	assert_line --index 2 --regexp '^[0-9-]{10} [0-9:]{8}\+00:00 - +- skipped +- - +overlap: run 1 waits$'
	assert_line --index 3 --partial queued
	assert_equal "$(shown '[.slots[] | [.outcome, .reason, .runner_id != null]]' nightly)" \
		'[["skipped","overlap: run 1 waits",true],["queued",null,false],["coalesced","missed",false]]'
	jr_ok define --list
	assert_line --regexp '^nightly .* queued: run 1 *$'
	jr_ok status
	refute_output --partial 'was skipped'
	left_out=$(q 'select slot from jobrun.job_slots where runner_id is not null')
	no_run 65 'a start of `jobrun exec nightly` was left out, which is no slot' slots nightly --replay "$left_out"
	no_run 65 'no slot at' slots nightly --replay "${left_out%.*}+00"
	# The clock was ahead: of the slots what has not come yet is forgotten, of the starts nothing, and neither is a problem.
	q "update jobrun.job_slots set slot = slot + interval '1 day' where runner_id is not null"
	jr_ok status
	refute_output --partial 'yet to come'
	jr_ok define nightly --restart
	q_is 1 'select count(*) from jobrun.job_slots where runner_id is not null'
}

@test "a start of exec that was left out does not count as the last slot" {
	hourly nightly
	tick nightly 2
	jr_ok exec nightly -- true
	# The rules of the zone have changed, or somebody has written it: ten minutes after a slot.
	q "delete from jobrun.job_slots where outcome = 'queued'" \
		"update jobrun.job_definitions set updated_at = now() - interval '2 days', next_slot_at = next_slot_at - interval '50 minutes'
		where name = 'nightly'" \
		"update jobrun.job_runs set status = 'cancelled', finished_at = now()"
	q_is queued "select outcome from jobrun.fire()"
}

@test "a start of exec that was left out is recorded once per runner, and never at the time of a slot" {
	hourly every
	q "select jobrun.define('nightly', '{\"schedule\": \"0 * * * *\"}')" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, started_at) select i, 1, 1, 'h', 'x', '2026-01-01 02:00Z' from generate_series(1, 2) i" \
		"update jobrun.job_runners set started_at = d.anchor_at + interval '1000 hours' from jobrun.job_definitions d where d.name = 'every'" \
		"select jobrun.record_start(d, r, 'full') from jobrun.job_definitions d, (values (1), (2), (1), (2)) v(r) where d.name = 'every'" >/dev/null
	q_is '1|00:00:00.000001
2|00:00:00.000002' "select runner_id, slot - (anchor_at + interval '1000 hours') from jobrun.job_slots
		join jobrun.job_definitions d on d.id = definition_id order by slot"
	q "delete from jobrun.job_slots; update jobrun.job_runners set started_at = '2026-01-01 02:00Z'" \
		"select jobrun.record_start(d, r, 'full') from jobrun.job_definitions d, (values (2), (1), (1), (2)) v(r) where d.name = 'nightly'" >/dev/null
	q_is '2|02:00:00.000001
1|02:00:00.000002' "select runner_id, slot at time zone 'UTC' - date '2026-01-01' from jobrun.job_slots order by slot"
}
