#!/usr/bin/env bats
# What --json prints: each command's documents, compared with files. To write the files anew, and look with git diff what has
# changed: GOLDEN=write make bats T=test/cli/json.bats

load ../lib/common
load ../lib/json

# Ids and times are fixed; what waits is due in 2090. What the tests enqueue begins with id 100.
setup() {
	common_setup
	handler work <<<'exit 0'
	JSON_BEGAN=$(json_now)
	JSON_BEGAN=${JSON_BEGAN%%[.+]*} # anchor_at is cut to the second, which may be this one
	q <<-'sql'
		set session_replication_role = replica;
		alter table jobrun.job_runs alter id restart with 100;
		alter table jobrun.job_audit alter id restart with 100;
		alter table jobrun.job_definitions alter id restart with 100;
		delete from jobrun.job_definitions;
		insert into jobrun.job_grants (role, kind, job_types, queues, max_open, granted_at)
		values ('nobody here', 'enqueue', '{work}', '{mail}', 100, '2026-01-01 00:00Z');
		insert into jobrun.job_definitions (id, name, job_type, schedule, time_zone, anchor_at, next_slot_at, created_at, updated_at, timeout,
			backoff_base, backoff_cap, catch_up_grace, max_attempts, priority, queue, concurrency_key, on_dead, description, payload)
		overriding system value
		values (1, 'nightly', 'work', '30 2 * * *', 'Europe/Berlin', '2026-01-01 00:00Z', '2090-01-01 01:30Z', '2026-01-01 00:00Z',
			'2026-01-02 00:00Z', '5 min', '10 s', '1 h', '30 min', 3, 50, 'mail', 'k', 'alarm', 'the reports', '{"n": 1}'),
			(2, 'plain', 'plain', null, 'UTC', '2026-01-01 00:00Z', null, '2026-01-01 00:00Z', '2026-01-01 00:00Z', null, null, null, null,
			null, null, null, null, null, null, null);
		insert into jobrun.job_slots (definition_id, slot, until, run_id, slots, outcome, reason, runner_id)
		values (1, '2026-01-01 01:30Z', '2026-01-05 01:30Z', null, 5, 'coalesced', null, null),
			(1, '2026-01-06 01:30Z', null, 3, 1, 'queued', null, null),
			(1, '2026-01-07 01:30:00.25Z', null, null, 1, 'skipped', 'overlap: run 3', 7);
		insert into jobrun.job_queues (name, max_running, max_running_per_key, rate_limit, rate_period, paused_until, paused_reason, paused_by)
		values ('mail', 4, 2, 100, '1 min', 'infinity', 'the relay is down', 'ada');
		insert into jobrun.job_runs (id, job_type, queue, status, attempts, claim_seq, snoozes, run_at, created_at, created_by, started_at,
			failed_at, finished_at, runner_id, locked_by, locked_until, definition_id, slot, parent_id, timeout, backoff_base, backoff_cap,
			expires_at, idempotency_key, unique_key, concurrency_key, trace_context, error_code, last_error, payload, progress,
			checkpoint, result, superseded_by)
		overriding system value
		select r.id, r.job_type, r.queue, r.status, r.attempts, r.attempts, 0, coalesce(r.run_at, '2026-01-02 00:00Z'), '2026-01-01 00:00Z', 'app',
			r.started_at, case when r.error_code is not null then r.started_at + interval '1.5 s' end,
			case when r.status in ('succeeded', 'dead', 'cancelled') then r.started_at + interval '1.5 s' end,
			case when r.attempts > 0 then 7 end, case when r.attempts > 0 then 'web1' end, null::timestamptz, r.definition_id, r.slot, r.parent_id,
			r.timeout, r.timeout / 2, r.timeout * 2, r.expires_at, r.key, r.key, r.key, r.key, r.error_code, r.error, '{"to": "ada"}', r.progress,
			r.progress, r.result, r.newer
		from (values
			(1, 'work', 'mail', 'queued', 0, '2090-01-01 00:00Z'::timestamptz, null::timestamptz, null::bigint, null::timestamptz, null::bigint,
				null::interval, '2091-01-01 00:00Z'::timestamptz, 'key 1', null, null, null::jsonb, null::jsonb, null::bigint),
			(2, 'work', 'mail', 'failed', 1, '2090-01-01 00:00Z', '2026-01-02 00:00Z', null, null, 1, '1 min', '2091-01-01 00:00Z', 'key 2',
				'exit:1', E'exit 1: no luck\nat all', '{"done": 3}', null, null),
			(3, 'work', 'mail', 'succeeded', 1, null, '2026-01-03 00:00Z', 1, '2026-01-06 01:30Z', null, null, null, null, null, null, null,
				'{"sent": 12345678901234567890}', null),
			(4, 'work', 'default', 'dead', 1, null, '2026-01-04 00:00Z', null, null, null, null, null, null, 'exit:65', 'exit 65: no', null, null,
				null),
			(5, 'work', 'default', 'cancelled', 1, null, '2026-01-05 00:00Z', null, null, null, null, null, 'key 5', 'superseded', null, null,
				null, 6),
			(6, 'work', 'default', 'succeeded', 1, null, '2026-01-06 00:00Z', null, null, null, null, null, null, null, null, null, null, null))
			r(id, job_type, queue, status, attempts, run_at, started_at, definition_id, slot, parent_id, timeout, expires_at, key, error_code, error,
			progress, result, newer);
		insert into jobrun.job_attempts (run_id, claim_seq, attempt, runner_id, pid, started_at, finished_at, cpu_ms, max_rss_kb, output_dropped,
			exit_status, outcome, error_code, host, error, output)
		select r.id, 1, 1, 7, 4711, r.started_at, r.started_at + interval '1.5 s', 20, 3000, 5, 1, r.status, r.error_code, 'web1', r.last_error,
			E'first\n[5 bytes]\nlast\n'
		from jobrun.job_runs r where r.id in (2, 4, 5);
		insert into jobrun.job_audit (id, at, who, action, object, old, new, reason)
		overriding system value
		values (1, '2026-01-02 00:00Z', 'ada', 'retry', 'run 2', '{"status": "dead"}', '{"status": "queued"}', 'the relay is up');
	sql
}

# a_runner: one that was seen just now, with what works here.
a_runner() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version, job_types) values (7, 4711, 2, 'web1', '1', '{work}')"
}

@test "--json of enqueue and wait is as documented" {
	json enqueue . enqueue work '{"n":1}' -k once --unique u --lock l -p 5 --at '2090-01-01T00:00:00Z'
	json enqueue.zone . enqueue work --at '2090-06-01 02:00' --time-zone Europe/Berlin
	json enqueue.definition . enqueue --definition nightly -n
	run bash -c "printf '1\n2\n' | '$JOBRUN' enqueue work --batch - --json"
	assert_json enqueue.batch
	json wait . wait 3 5 6
	STATUS=1 json wait.bad . wait 4 99
	STATUS=75 json wait.late . wait --timeout 0 2
	handler last <<<'exit 0'
	"$JOBRUN" enqueue last --wait --json >out 3>&- 4>&- &
	runner_pids+=($!) # teardown ends it
	wait_until 20 q_is 1 "select count(*) from jobrun.job_runs where job_type = 'last'"
	jr_ok run --type last
	wait $!
	output=$(<out)
	assert_json enqueue.wait '.id = 1'
}

@test "--json of run and try is as documented" {
	q "insert into jobrun.job_runs (job_type, run_at) values ('work', '2026-01-02 00:00Z')" 'set session_replication_role = replica' \
		"update jobrun.job_definitions set next_slot_at = '2026-01-08 01:30Z', schedule = '30 2 8 1 *', catch_up = 'all', catch_up_grace = null,
			overlap = 'allow' where name = 'nightly'" \
		"update jobrun.job_queues set paused_until = null"
	json run.dry-run . run -n
	# Otherwise the slot of half an hour ago would fire: it is within its grace.
	q 'set session_replication_role = replica' "update jobrun.job_definitions set next_slot_at = '2090-01-01 01:30Z' where name = 'nightly'"
	json run '.took_ms = "ms"' run --type work --queue default
	handler talk <<<'cat; echo; echo "{\"progress\":1}" >>"$JOBRUN_OUT"; echo "{\"result\":{\"n\":2}}" >>"$JOBRUN_OUT"'
	json try '(.took_ms, .cpu_ms, .max_rss_kb) = 1 | .path |= sub(".*/"; "")' try talk '{"n":1}'
}

@test "--json of status, list, show, logs and explain is as documented" {
	a_runner
	q "update jobrun.job_runs set finished_at = now() - interval '1 h' where id = 4" \
		"update jobrun.job_definitions set paused_until = '2090-06-01 00:00Z', paused_reason = 'audit' where name = 'nightly'" \
		"insert into jobrun.job_runs (job_type, run_at) values ('work', '2026-01-02 00:00Z')"
	json status '.jobrun_version = "v" | .database |= (.name = "db" | .server_version = "v" | .schema_version = 1 | .runner_age_ms = "ms")' status
	json list '(.runs[] | select(.id == 4)).finished_at = "then" | .runs[].took_ms = "ms" | .runs[].wait_ms |= (if . == null then . else "ms" end)' list
	json list.errors '.errors[].last_at = "then" | .errors[].first_at = "then"' list --by error
	json list.waiting . list --waiting
	json show . show 2
	json show.slot . show 3
	json logs . logs 2
	json explain '(.conditions[] | select(.condition == "runner")).text = "seen"' explain 2
	json explain.definition '(.conditions[] | select(.condition == "next")) |= (.text = "next slot" | .text_at = "later")' explain nightly
}

@test "--json of doctor is as documented" {
	touch "$HOME/.pgpass"
	chmod 644 "$HOME/.pgpass"
	q "update jobrun.settings set stats_until = date_trunc('hour', now())" "update jobrun.job_definitions set next_slot_at = now()"
	STATUS=1 json doctor '.checks[] |= (if .check == "pgpass" then (.text, .command) |= gsub("/[^ ]*/"; "") else . end)
		| (.checks[] | select(.check == "schema").text) |= sub("[0-9.]+$"; "v")' doctor pgpass schema retention zones --handlers /nowhere
	STATUS=75 json doctor.away '.checks[0].text = "why" | .checks[0].command |= sub(" /.*"; " DIR")' doctor -d "host=$TMPDIR" connection schema
}

@test "--json of check, stats and metrics is as documented" {
	a_runner
	q "insert into jobrun.job_stats (hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
		select stats_until - interval '1 hour', 3, 400, 5000, 'work', 'mail', 'succeeded', '{0,1,0,2}', '{0,0,0,0,3}' from jobrun.settings" \
		"update jobrun.job_attempts set started_at = now(), finished_at = now() where run_id = 2"
	json check '.measures[0].value = 1 | .measures[0].text = "seen"' check
	STATUS=3 json check.error '.error = "why"' check --timeout 1s -d host=/nowhere
	json stats . stats --by queue
	json stats.errors . stats --by error
	json metrics '.metrics |= [.[] | select(.labels.queue == "mail" and (.name | test("runs$|duration")) or .labels == {})] | .metrics |= map(if .name | test("(_late|_due|_timestamp)_seconds") then .value = 1 else . end)' metrics
}

@test "--json of define, next and slots is as documented" {
	json define.show . define nightly
	json define.list . define --list
	json define . define nightly --priority 7 --timeout 1m
	echo '{"definitions": [{"name": "nightly", "job_type": "work"}, {"name": "new", "queue": "mail"}]}' >file.json
	json define.file . define --file file.json --exact -n
	STATUS=1 json define.remove . define --remove nope plain -n
	json next '.slots[].in_ms = "ms"' next nightly --after 2027-03-27 --count 3
	json next.schedule '.slots[].in_ms = "ms"' next '@daily' --after 2027-01-01 --count 1
	json slots . slots nightly
	json slots.none . slots plain
	json slots.replay . slots nightly --replay '2026-01-06 02:30' --reason again
}

@test "--json of retry, cancel, pause, resume and queue is as documented" {
	a_runner
	json queue . queue mail
	STATUS=1 json queue.none . queue nope
	json retry.dry-run . retry --status dead,retrying -n
	STATUS=1 json retry . retry 3 4 5 99
	json retry.filter . retry --status retrying
	json cancel.dry-run . cancel --type work -n
	STATUS=1 json cancel . cancel 1 3 99
	json cancel.filter . cancel --type work
	json pause . pause --type work --queue mail --definition nightly --host web1 --all --reason 'the relay'
	json pause.end '.pauses[].paused_until = "later"' pause --queue mail --for 10d
	json resume . resume --type work --queue other
}

@test "--json of prune, migrate, grant and handlers is as documented" {
	q "update jobrun.settings set keep_audit = '30 days'" # the line of the fixture is older than that
	json prune . prune -n
	json grant . grant
	json migrate '(.schema_version, .newest, .functions.number, .functions.newest) = 1 | .migrations |= .[:1] | (.migrations[], .functions).applied_at = "then"' migrate --status
	json migrate.adopt . migrate --adopt --cancel-waiting -n
	echo '{"timeout": "5m"}' >"$JOBRUN_HANDLERS/work.json"
	echo '{}' >"$JOBRUN_HANDLERS/none.json"
	json handlers "walk(if type == \"string\" then sub(\"$JOBRUN_HANDLERS\"; \"/handlers\") else . end)" handlers
	json handlers.settings '.settings |= .[:2]' handlers --settings
}

# The commands whose --json prints nothing of its own.
silent='exec effect import report completion'

@test "each command has its documents in the tests, and each member of them is in jobrun-json(7)" {
	[ "${GOLDEN:-}" != write ] || skip 'the files are being written'
	page=$BATS_TEST_DIRNAME/../../cmd/man/jobrun-json.7.scd
	commands=$("$JOBRUN" --help | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p')
	[ "$(wc -w <<<"$commands")" -gt 20 ]
	for command in $commands; do
		[[ " $silent " != *" $command "* ]] || continue
		[ -e "$BATS_TEST_DIRNAME/golden/$command.json" ] || fail "no document of jobrun $command is compared with a file"
		grep -q "^## .*\b$command\b" "$page" || fail "jobrun-json(7) has nothing about $command"
	done
	for file in "$BATS_TEST_DIRNAME"/golden/*.json; do
		name=${file##*/}
		grep -qE "json ${name%.json}( |$)" "$BATS_TEST_FILENAME" || fail "no test makes $name"
	done
	members=$(jq -r 'def theirs: ["payload", "progress", "checkpoint", "result", "settings", "old", "new", "counts"];
		paths | select(.[:-1] | all(.[]; . as $p | theirs | index([$p]) == null)) | .[-1] | strings' \
		"$BATS_TEST_DIRNAME"/golden/*.json | sort -u)
	for member in $members; do
		grep -qF "_${member}_" "$page" || fail "jobrun-json(7) does not name $member"
	done
}
