#!/usr/bin/env bats
# Alarms: the on_dead of a definition enqueues a run when one goes dead, on every way there. And parent_id: who enqueued whom.

load ../lib/common
load ../lib/proxy
load ../lib/sql

setup() {
	common_setup
	handler give_up <<<'echo "smtp: no such user" >&2; exit 65'
	handler again <<<'exit 3'
	handler work <<<'exit 0'
	handler alarm <<<'cat >>"$TMPDIR/alarms"'
	for type in give_up again work; do
		alarm_for "$type"
	done
}

# alarm_for TYPE [ON_DEAD]: runs of this type that go dead enqueue one of that type.
alarm_for() {
	q "insert into jobrun.job_definitions (name, job_type, on_dead) values ('$1', '$1', '${2:-alarm}')"
}

# is_alarmed ID: exactly one alarm about it, and of it alone.
is_alarmed() {
	q_is "1|$1|t" "select count(*), min((payload ->> 'run_id')::bigint), bool_and(parent_id = $1)
		from jobrun.job_runs where job_type = 'alarm'"
}

no_alarms() {
	q_is 0 "select count(*) from jobrun.job_runs where job_type = 'alarm'"
}

# refuse_all: a handler of batches whose runs all give up.
refuse_all() {
	sql_handler refuse_all <<<"select (r ->> 'run_id')::bigint, 'give_up', 'no' from jsonb_array_elements(\$1) r"
	settings refuse_all <<<'{"batch": 100}'
	alarm_for refuse_all
}

@test "a run that gives up enqueues its alarm, which runs in the same tick with all the facts" {
	id=$(enqueue give_up '{"to": "ada"}' --queue mail --max-attempts 3)
	jr run
	assert_equal "$status" 1
	assert_regex "$stderr" "run $id give_up is dead"
	assert_equal "$(grep -c ' is dead ' <<<"$stderr")" 1
	is_alarmed "$id"
	q_is "succeeded|default|on_dead:$id:1" "select status, queue, idempotency_key from jobrun.job_runs where job_type = 'alarm'"
	assert_equal "$(jq -c '[.run_id, .job_type, .queue, .definition, .slot, .attempts, .max_attempts, .error_code, .error, .payload, .parent_id]' \
		"$TMPDIR/alarms")" "[$id,\"give_up\",\"mail\",\"give_up\",null,1,3,\"exit:65\",\"exit 65: smtp: no such user\",{\"to\":\"ada\"},null]"
	q_is t "select a.payload ->> 'host' = d.locked_by and (a.payload ->> 'started_at')::timestamptz = d.started_at
			and (a.payload ->> 'failed_at')::timestamptz = d.failed_at and a.created_at >= d.failed_at
		from jobrun.job_runs a join jobrun.job_runs d on d.id = a.parent_id where a.job_type = 'alarm'"
	# What the runner counted is about runs that it did, the alarm included.
	q_is '{"dead": 1, "claimed": 2, "succeeded": 1}' "select (select jsonb_object_agg(key, value) from jsonb_each(counts)
		where value <> '0' and key not in ('claims', 'claim_ms', 'claims_locked')) from jobrun.job_runners"
}

@test "a run raises no alarm before its last attempt has failed" {
	id=$(enqueue again --max-attempts 2 --backoff 0)
	jr_ok run --max-runs 1
	run_is "$id" failed
	no_alarms
	jr run
	run_is "$id" dead
	is_alarmed "$id"
	q_is 'exit:3|2' "select payload ->> 'error_code', payload ->> 'attempts' from jobrun.job_runs where job_type = 'alarm'"
}

@test "an expired run is dead without a start and raises its alarm" {
	id=$(enqueue work --expires 1ms)
	jr run
	run_is "$id" dead
	is_alarmed "$id"
	q_is expired "select payload ->> 'error_code' from jobrun.job_runs where job_type = 'alarm'"
}

@test "reclaim raises the alarm of a run that was lost with its last attempt" {
	handler work <<<'touch "$TMPDIR/began"; exec sleep 60'
	id=$(enqueue work --max-attempts 1)
	bg_runner
	wait_until 10 test -e "$TMPDIR/began"
	kill -KILL "$runner_pid"
	end_lease "$id"
	no_alarms
	other_host
	assert_equal "$status" 1
	run_is "$id" dead
	is_alarmed "$id"
	q_is lost "select payload ->> 'error_code' from jobrun.job_runs where job_type = 'alarm'"
}

@test "of several runners that reclaim at once one raises the alarm" {
	handler work <<<'touch "$TMPDIR/began"; exec sleep 60'
	id=$(enqueue work --max-attempts 1)
	bg_runner
	wait_until 10 test -e "$TMPDIR/began"
	kill -KILL "$runner_pid"
	end_lease "$id"
	for n in 1 2 3 4; do
		bg_runner --state-dir "$BATS_TEST_TMPDIR/host$n"
		pids[n]=$runner_pid
	done
	for n in 1 2 3 4; do
		wait_runner "${pids[n]}"
	done
	is_alarmed "$id"
}

@test "a late result that is refused raises no alarm" {
	late_handler work 65
	id=$(enqueue work --backoff 1h)
	late_result work "$id"
	other_host
	run_is "$id" failed
	kill -CONT "$runner_pid"
	wait_runner
	run_is "$id" failed
	no_alarms
}

@test "statements that give up, alone and in a batch, each have their alarm" {
	sql_handler refuse <<<"select 1 / (\$1 ->> 'by')::int"
	refuse_all
	alarm_for refuse
	one=$(enqueue refuse '{"by": 0}')
	q "select jobrun.enqueue('refuse_all') from generate_series(1, 30)" >/dev/null
	jr run
	q_is "31|31|31" "select count(*), count(distinct parent_id), count(*) filter (where status = 'succeeded')
		from jobrun.job_runs where job_type = 'alarm'"
	q_is 'sqlstate:22012' "select payload ->> 'error_code' from jobrun.job_runs where job_type = 'alarm' and parent_id = $one"
	q_is '31|62' "select (counts ->> 'dead')::int, (counts ->> 'claimed')::int from jobrun.job_runners"
}

@test "a run without definition or on_dead, cancelled or succeeded raises no alarm" {
	handler quiet <<<'exit 65'
	handler silent <<<'exit 65'
	q "insert into jobrun.job_definitions (name, job_type) values ('silent', 'silent')"
	enqueue quiet >/dev/null
	enqueue silent >/dev/null
	enqueue work >/dev/null
	gone=$(enqueue give_up)
	jr_ok cancel "$gone"
	jr run
	assert_by_type 'give_up cancelled, quiet dead, silent dead, work succeeded'
}

assert_by_type() {
	assert_equal "$(q "select string_agg(job_type || ' ' || status, ', ' order by id, job_type) from (
		select distinct on (job_type) * from jobrun.job_runs order by job_type, id) r" | tr , '\n' | sed 's/^ //' | sort | paste -sd, | sed 's/,/, /g')" "$1"
}

@test "a run of a definition has the alarm of that one, not of the one named as its type" {
	q "insert into jobrun.job_definitions (name, job_type, on_dead) values ('nightly', 'give_up', 'alarm')" \
		"update jobrun.job_definitions set on_dead = 'other' where name = 'give_up'"
	id=$(enqueue give_up)
	q "update jobrun.job_runs set definition_id = (select id from jobrun.job_definitions where name = 'nightly'),
		slot = '2026-01-02 03:04:05Z' where id = $id"
	jr run
	is_alarmed "$id"
	q_is 'nightly|2026-01-02T03:04:05+00:00' "select payload ->> 'definition', payload ->> 'slot' from jobrun.job_runs where job_type = 'alarm'"
}

@test "an alarm that dies raises no alarm, whatever its definition says" {
	handler alarm <<<'exit 65'
	alarm_for alarm give_up
	id=$(enqueue give_up)
	jr run
	is_alarmed "$id"
	q_is 'alarm|dead|give_up|dead' "select string_agg(job_type || '|' || status, '|' order by job_type) from jobrun.job_runs"
	# Enqueued by somebody, it is a run like any other.
	plain=$(enqueue alarm)
	jr run
	q_is "$plain" "select parent_id from jobrun.job_runs where parent_id <> $id"
}

@test "a run that was retried and died again raises its alarm again" {
	id=$(enqueue give_up)
	jr run
	jr_ok retry "$id"
	jr run
	q_is "on_dead:$id:1,on_dead:$id:2" "select string_agg(idempotency_key, ',' order by id) from jobrun.job_runs where job_type = 'alarm'"
	# Waiting for its third life, it is not dead, and the alarms stay.
	jr_ok retry "$id"
	q_is 2 "select count(*) from jobrun.job_runs where job_type = 'alarm'"
}

# forbid_alarms: the server refuses them.
forbid_alarms() {
	q "create function no_alarms() returns trigger language plpgsql as \$\$ begin
			raise exception 'not on my watch' using hint = 'ask Ada';
		end \$\$" \
		"create trigger no_alarms before insert on jobrun.job_runs for each row when (new.job_type = 'alarm') execute function no_alarms()"
}

# refusal ID TYPE: what its runner says then.
refusal() {
	echo "jobrun: run $1 is dead, and its alarm could not be enqueued: not on my watch; ask Ada; no \"alarm\" tells of it;" \
		"to name another alarm: jobrun define $2 --on-dead TYPE"
}

@test "an alarm that cannot be enqueued costs nothing: the run is dead, its siblings are settled, and the runner says why" {
	forbid_alarms
	id=$(enqueue give_up)
	work=$(enqueue work)
	jr run
	assert_equal "$status" 1
	assert_regex "$stderr" "run $id give_up is dead"
	assert_equal "$(grep -cxF "$(refusal "$id" give_up)" <<<"$stderr")" 1
	assert_equal "$(grep -c alarm <<<"$stderr")" 1
	run_is "$id" dead
	run_is "$work" succeeded
	q_is 'dead' "select outcome from jobrun.job_attempts where run_id = $id"
	no_alarms
	server_log | grep -q "WARNING:  run $id is dead, and its alarm could not be enqueued: not on my watch"
}

@test "of alarms that cannot be enqueued, the first ten are said, also of a batch and whatever notices the role wants" {
	needs_session "the settings of a session are the pooler's"
	forbid_alarms
	refuse_all
	q "alter database $JR_DATABASE set client_min_messages = 'error'" "select jobrun.enqueue('refuse_all') from generate_series(1, 12)" >/dev/null
	jr run
	assert_equal "$status" 1
	assert_equal "$(grep -c 'its alarm could not be enqueued' <<<"$stderr")" 10
	assert_equal "$(grep -cxF "$(refusal 1 refuse_all)" <<<"$stderr")" 1
	assert_line_of_stderr "jobrun: and 2 more warnings: the server's log has the reasons"
}

@test "exec says that the alarm of its command could not be enqueued" {
	forbid_alarms
	alarm_for nightly
	jr exec nightly -- sh -c 'exit 3'
	assert_equal "$status" 3
	assert_equal "$stderr" "$(refusal 1 nightly)"
}

@test "that an alarm could not be enqueued is said when the answer to the COMMIT is lost, and once if the result is sent again" {
	forbid_alarms
	refuse_all
	id=$(enqueue refuse_all)
	proxy settle-answer 1
	jr run -d "$proxied"
	assert_file_exist "$cut_file"
	assert_equal "$status" 1
	assert_equal "$(grep -cxF "$(refusal "$id" refuse_all)" <<<"$stderr")" 1
	# The session ends inside its first COMMIT.
	q 'create sequence public.ends' \
		"create function public.end_session() returns trigger language plpgsql as \$\$ begin
			if nextval('public.ends') = 1 then perform pg_terminate_backend(pg_backend_pid()), pg_sleep(5); end if;
			return null;
		end \$\$" \
		"create constraint trigger end_session after update on jobrun.job_runs deferrable initially deferred for each row
			when (new.status = 'dead') execute function public.end_session()"
	id=$(enqueue give_up)
	jr run
	assert_equal "$status" 1
	assert_equal "$(grep -cxF "$(refusal "$id" give_up)" <<<"$stderr")" 1
	q_is 2 'select last_value from public.ends'
}

@test "a statement of a handler cannot warn people in jobrun's name" {
	sql_handler warn <<<"select public.warn()"
	q "create function public.warn() returns int language plpgsql as \$\$ begin raise warning 'mine' using errcode = 'JR001'; return 1; end \$\$"
	enqueue warn >/dev/null
	jr_ok run
	assert_equal "$stderr" ''
}

@test "an alarm with a lock key does not wait for somebody who is the first in its queue" {
	handler page <<<'exit 0'
	q "update jobrun.job_definitions set on_dead = 'page' where name = 'give_up'"
	jr_ok define page --queue pager --lock phone
	hold "set lock_timeout = '5s'; select jobrun.enqueue('work', queue => 'pager', concurrency_key => 'x')"
	id=$(enqueue give_up)
	jr run
	assert_equal "$status" 1
	q_is "succeeded|pager|$id" "select status, queue, parent_id from jobrun.job_runs where job_type = 'page'"
}

@test "no definition names what is jobrun's own as its alarm" {
	jr define give_up --on-dead jobrun.prune
	assert_equal "$status" 65
	assert_regex "$stderr" 'on_dead "jobrun.prune": job types that begin with "jobrun." are reserved'
}

@test "an alarm has the defaults of its own definition, and nobody's payload" {
	q "insert into jobrun.job_definitions (name, job_type, queue, priority, max_attempts, payload) values ('alarm', 'alarm', 'urgent', 1, 2, '{\"x\": 1}')"
	id=$(enqueue give_up)
	jr run
	q_is "urgent|1|2|$id|f" "select queue, priority, max_attempts, payload ->> 'run_id', payload ? 'x' from jobrun.job_runs where job_type = 'alarm'"
}

@test "a payload of 1 MiB and an error that is long: the alarm is there, without the payload" {
	handler give_up <<<"cat >/dev/null; printf '%01000000d' 1; printf '%03000d\\303\\251\\n' 2; exit 65"
	{
		printf '"'
		head -c 1048574 /dev/zero | tr '\0' '"' | sed 's/"/x/g'
		printf '"'
	} >"$TMPDIR/payload"
	id=$(enqueue give_up @"$TMPDIR/payload")
	jr run
	run_is "$id" dead
	is_alarmed "$id"
	q_is 'f|t' "select payload ? 'payload', length(payload ->> 'error') > 1000 from jobrun.job_runs where job_type = 'alarm'"
}

# nested LEVELS RUN_IN
nested() {
	q "select jobrun.enqueue('give_up', (repeat('[', $1) || repeat(']', $1))::jsonb, run_in => $2)"
}

@test "a payload that is nested as deep as the server takes: the alarm is there, without the payload" {
	local least=1000 most=100000 middle

	while [ $((most - least)) -gt 1 ]; do
		middle=$(((least + most) / 2))
		if nested "$middle" "'1 day'" >/dev/null 2>&1; then
			least=$middle
		else
			most=$middle
		fi
	done
	id=$(nested "$least" null)
	jr run
	assert_equal "$status" 1
	refute_regex "$stderr" 'could not be enqueued'
	is_alarmed "$id"
}

@test "a dead run's payload that just fits into the alarm is in it" {
	head -c 900000 /dev/zero | tr '\0' x | jq -Rc . >"$TMPDIR/payload"
	id=$(enqueue give_up @"$TMPDIR/payload")
	jr run
	q_is 't' "select octet_length(payload ->> 'payload') = 900000 from jobrun.job_runs where job_type = 'alarm' and parent_id = $id"
}

@test "parent_id: what a program enqueues has its run as parent" {
	handler parent <<<'"$JOBRUN" enqueue work >/dev/null'
	id=$(enqueue parent)
	jr_ok run
	q_is "$id" "select parent_id from jobrun.job_runs where job_type = 'work'"
}

@test "parent_id: what a statement enqueues has its run as parent, in this transaction and no other" {
	sql_handler parent <<<"select to_jsonb(jobrun.enqueue('work', \$1))"
	id=$(enqueue parent '{"n": 1}')
	other=$(enqueue parent)
	jr_ok run --sql-jobs 1
	q_is "$id,$other" "select string_agg(parent_id::text, ',' order by parent_id) from jobrun.job_runs where job_type = 'work'"
	enqueue work --in 1h >/dev/null
	q_is 1 "select count(*) from jobrun.job_runs where job_type = 'work' and parent_id is null"
	# Said by the statement, it is that.
	sql_handler parent <<<"select to_jsonb(jobrun.enqueue('work', \$1, parent_id => 1))"
	enqueue parent '{"n": 2}' >/dev/null
	jr_ok run
	q_is 1 "select parent_id from jobrun.job_runs where payload = '{\"n\": 2}' and job_type = 'work'"
}

@test "nobody can take an alarm's place by enqueueing its key before" {
	id=$(enqueue give_up)
	jr enqueue alarm -k "on_dead:$id:1"
	assert_equal "$status" 65
	assert_regex "$stderr" 'reserved'
	run q "insert into jobrun.new_runs (job_type, run) values ('alarm', '{\"idempotency_key\": \"on_dead:$id:1\"}')"
	assert_failure
	jr run
	is_alarmed "$id"
}
