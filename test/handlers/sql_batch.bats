#!/usr/bin/env bats
# Set-based sql handlers ("batch"): many runs in one statement and one commit, and one by one when that fails.

load ../lib/common
load ../lib/proxy
load ../lib/sql

setup() {
	common_setup
	q 'create table done (run_id bigint, n integer, xid bigint default txid_current(), of integer)'
	settings many <<<'{"batch": 50}'
	sql_handler many <<-'sql'
		insert into done (run_id, n, of)
		select (r ->> 'run_id')::bigint, (r -> 'payload' ->> 0)::integer, jsonb_array_length($1) from jsonb_array_elements($1) r
	sql
}

# enqueue_many N: payloads [1] to [N].
enqueue_many() {
	q "select jobrun.enqueue('many', jsonb_build_array(g), backoff_base => '0') from generate_series(1, $1) g" >/dev/null
}

# What was done is what succeeded, once.
exact() {
	q_is 0 "select count(*) from (select run_id from done group by run_id having count(*) > 1) d"
	q_is 0 "select count(*) from jobrun.job_runs r full join done d on d.run_id = r.id
		where r.job_type = 'many' and (r.status = 'succeeded') is distinct from (d.run_id is not null)"
}

@test "the runs of a batch are one statement, one transaction, one commit" {
	enqueue_many 50
	jr_ok run
	exact
	q_is '50|1|50' 'select count(*), count(distinct xid), min(of) from done'
	q_is '50|t' "select count(*), every(r.xmin::text::bigint = d.xid % 4294967296) from jobrun.job_runs r join done d on d.run_id = r.id"
	q_is '50|1|1' "select count(*), min(attempts), max(claim_seq) from jobrun.job_runs where status = 'succeeded'"
}

@test "a batch has no more runs than the setting says" {
	enqueue_many 120
	jr_ok run
	exact
	q_is '50' 'select max(of) from done'
	q_is '120' 'select count(*) from done'
}

@test "a batch statement gets run_id, key, attempt and payload of each run, and no settings of a single run" {
	q 'create table given (r jsonb, id text)'
	sql_handler many <<<"insert into given select r, current_setting('jobrun.run_id') from jsonb_array_elements(\$1) r"
	id=$(enqueue many '{"a": ["\u00e4", 1.50, "\"\\"]}' -k $'a "key" \\ \u00e4')
	other=$(q "select jobrun.enqueue('many', 'null')")
	jr_ok run
	q_is t "select g.r = jsonb_build_object('run_id', r.id, 'key', r.idempotency_key, 'attempt', 1, 'payload', r.payload) and g.id = ''
		from given g join jobrun.job_runs r on r.id = (g.r ->> 'run_id')::bigint where r.id = $id"
	q_is 2 'select count(*) from given'
	q_is "$(q "select install_id || '-$other' from jobrun.settings")" "select r ->> 'key' from given where r -> 'payload' = 'null'"
}

@test "rows of a batch name the runs that did not succeed, and all others have succeeded" {
	sql_handler many <<-'sql'
		with r as (select (e ->> 'run_id')::bigint as id, (e -> 'payload' ->> 0)::integer as n from jsonb_array_elements($1) e),
			i as (insert into done (run_id, n) select id, n from r where n not in (2, 3, 4, 5))
		select id, (array['later', 'Give_Up', 'GIVE UP', 'fail', 'done'])[n - 1], 'number ' || n from r where n between 2 and 6
	sql
	enqueue_many 8
	jr run --max-runs 8
	exact
	q_is 1 'select count(distinct xid) from done'
	assert_equal "$(q "select payload ->> 0, status, error_code, last_error from jobrun.job_runs order by id")" \
		'1|succeeded||
2|queued|sqlstate:JR075|number 2
3|dead|sqlstate:JR065|number 3
4|dead|sqlstate:JR065|number 4
5|failed|sqlstate:P0001|number 5
6|succeeded||
7|succeeded||
8|succeeded||'
}

@test "what a batch statement did is kept even when it calls all runs failed" {
	sql_handler many <<-'sql'
		with i as (insert into done (run_id) select (e ->> 'run_id')::bigint from jsonb_array_elements($1) e returning run_id)
		select run_id, 'fail', null from i
	sql
	enqueue_many 3
	jr_ok run --max-runs 3
	q_is 3 'select count(*) from done'
	q_is '3|the statement returned this verdict' "select count(*), min(last_error) from jobrun.job_runs where status = 'failed' and error_code = 'sqlstate:P0001'"
}

@test "a bad payload in a batch fails its own run only" {
	enqueue_many 9
	bad=$(enqueue many '["x"]')
	jr run
	assert_equal "$status" 1
	exact
	is_fate "$bad" 'dead|1|1|sqlstate:22P02'
	q_is '9|9' 'select count(*), count(distinct xid) from done'
	q_is 1 'select max(attempts) from jobrun.job_runs'
}

@test "a commit that fails because of one payload fails that run only" {
	q 'alter table done add unique (n) deferrable initially deferred'
	enqueue_many 5
	enqueue many '[3]' >/dev/null
	jr_ok run --max-runs 6
	exact
	q_is 5 'select count(*) from done'
	q_is '3|failed|sqlstate:23505' "select payload ->> 0, status, error_code from jobrun.job_runs where status <> 'succeeded'"
}

@test "when a batch's rows cannot be understood, nothing is kept, and the error names the row" {
	local select case

	for case in "select 0, 'fail', 'x'|no run of this group has the run_id 0 " \
		"select id, 'maybe' from r|there is no verdict maybe " \
		"select id, null from r|there is no verdict null " \
		"select id from r|it has too few columns " \
		"select id, 'fail' from r union all select id, 'fail' from r|a second row for run "; do
		select=${case%%|*}
		q 'truncate done'
		sql_handler many <<-sql
			with r as (select (e ->> 'run_id')::bigint as id from jsonb_array_elements(\$1) e),
				i as (insert into done (run_id) select id from r) $select
		sql
		q "select jobrun.enqueue('many', max_attempts => 1) from generate_series(1, 3)" >/dev/null
		jr run
		q_is 0 'select count(*) from done'
		q_is '3|3' "select count(*), count(*) filter (where error_code = 'bad-answer' and status = 'dead'
			and last_error like 'row % of what the statement returned: ${case#*|}%') from jobrun.job_runs"
		q 'delete from jobrun.job_attempts' 'delete from jobrun.job_runs'
	done
}

@test "a batch's row about one run that cannot be understood costs no other run" {
	sql_handler many <<-'sql'
		with r as (select (e ->> 'run_id')::bigint as id, e -> 'payload' ->> 0 as n from jsonb_array_elements($1) e),
			i as (insert into done (run_id) select id from r)
		select id, n from r where n like 'm%'
	sql
	q "select jobrun.enqueue('many', '[1]') from generate_series(1, 5)" >/dev/null
	bad=$(enqueue many '["maybe"]')
	jr_ok run --max-runs 6
	q_is '5|1' "select count(*) filter (where status = 'succeeded' and attempts = 1), count(*) filter (where error_code = 'bad-answer')
		from jobrun.job_runs"
	run_is "$bad" failed
	q_is 5 'select count(*) from done'
}

@test "after large payloads batches are smaller, so that they fit into memory" {
	settings many <<<'{"batch": 1000}'
	q "select jobrun.enqueue('many', jsonb_build_array(g, repeat('x', 500000))) from generate_series(1, 300) g" >/dev/null
	bg_runner --sql-jobs 1
	most=0
	while ! is_gone "$runner_pid"; do
		n=$(q "select count(*) from jobrun.job_runs where status = 'running'")
		[ "$n" -le "$most" ] || most=$n
		rss=$(awk '/^VmHWM/ { print $2 }' "/proc/$runner_pid/status" 2>/dev/null || true)
	done
	wait_runner
	assert_equal "$runner_status" 0
	exact
	q_is 300 'select count(*) from done'
	[ "$most" -le 100 ]
	# A sanitizer needs much memory for itself.
	grep -q __asan_init "$JOBRUN" || [ "${rss:-0}" -lt 300000 ]
}

@test "batches are cut at 8 MiB of payloads, and the parts share one permit and one connection" {
	q 'alter table done add pid integer default pg_backend_pid()'
	q "select jobrun.enqueue('many', jsonb_build_array(g, repeat('x', 1000000))) from generate_series(1, 20) g" >/dev/null
	jr_ok run
	exact
	q_is '20|t' 'select count(*), max(of) <= 8 from done'
	needs_session # its connection is told by its backend
	q_is 1 'select count(distinct pid) from done'
}

# rooms_of "N BYTES"...: a tick with N runs of payloads of so many bytes each. Sets rooms: how often it asks the server to keep the memory.
rooms_of() {
	local before some
	before=$(server_log | grep -c -- '-- session_room$' || true)
	for some in "$@"; do
		q "select jobrun.enqueue('many', jsonb_build_array(g, repeat('x', ${some#* }))) from generate_series(1, ${some% *}) g" >/dev/null
	done
	jr_ok run --sql-jobs 1
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
	rooms=$(($(server_log | grep -c -- '-- session_room$' || true) - before))
}

@test "after the first transaction of a connection a large batch asks the server to keep the memory, and a larger one again" {
	own_cluster -o log_statement=all
	q 'create table done (run_id bigint, n integer, xid bigint default txid_current(), of integer)'
	rooms_of '200 10'
	assert_equal "$rooms" 0
	rooms_of '50 400'
	assert_equal "$rooms" 0
	rooms_of '50 10' '50 400'
	assert_equal "$rooms" 1
	rooms_of '300 400'
	assert_equal "$rooms" 1
	rooms_of '300 400' '200 4000'
	assert_equal "$rooms" 2
	exact
	q_is '1150|50' 'select count(*), min(of) from done'
}

@test "when one run of a batch is cancelled, it ends and the others go on one by one" {
	sql_handler many <<-'sql'
		with s as materialized (select pg_sleep(case jsonb_array_length($1) when 1 then 0 else 60 end)) /* work */
		insert into done (run_id) select (r ->> 'run_id')::bigint from jsonb_array_elements($1) r, s
	sql
	enqueue_many 4
	bg_runner --lease 60s --heartbeat 1s
	wait_until 10 works
	jr_ok cancel 2
	wait_runner
	exact
	assert_equal "$(q 'select id, status from jobrun.job_runs order by id')" $'1|succeeded\n2|cancelled\n3|succeeded\n4|succeeded'
	wait_until 5 does_not_work
}

# mixed [PAUSE [BACKOFF [TIMEOUT]]]: runs [1] to [4] are done, put off, given up and failed; the dead one has an alarm, which has no handler.
mixed() {
	sql_handler many <<-sql
		with l as materialized (select ${1:-1}) /* work */,
			r as (select (e ->> 'run_id')::bigint as id, (e -> 'payload' ->> 0)::integer as n from jsonb_array_elements(\$1) e, l),
			i as (insert into done (run_id, n) select id, n from r where n = 1)
		select id, (array['done', 'later', 'give_up', 'fail'])[n], 'number ' || n from r
	sql
	q "insert into jobrun.job_definitions (name, job_type, on_dead) values ('many', 'many', 'alarm') on conflict do nothing" \
		"select jobrun.enqueue('many', jsonb_build_array(g), backoff_base => '${2:-0}', timeout => '${3:-1h}')
			from generate_series(1, 4) g" >/dev/null
}

# Each run of the mixed ones, how its attempts ended and why, and whose alarm there is.
mixed_ends() {
	q "select string_agg(r.payload ->> 0 || ':' || coalesce(a.said, r.status), ' ' order by r.id) || ' ' || count(d.run_id)
			|| coalesce((select string_agg(' ' || split_part(idempotency_key, ':', 3) || '!', '') from jobrun.job_runs where job_type = 'alarm'), '')
		from jobrun.job_runs r left join done d on d.run_id = r.id
		left join (select run_id, string_agg(outcome || ' ' || error_code, ',' order by claim_seq) as said from jobrun.job_attempts
			group by run_id) a on a.run_id = r.id
		where r.job_type = 'many'"
}

committed='1:succeeded 2:later sqlstate:JR075 3:dead sqlstate:JR065 4:failed sqlstate:P0001 1 1!'

# Those of a test that writes runs may wait for its lock, with all that they have written.
settles_wait() {
	q "create function public.wait() returns trigger language plpgsql as \$\$ begin
			perform pg_advisory_xact_lock_shared(78); return null; end \$\$" \
		"create trigger waits after update on jobrun.job_runs for each row when (old.locked_until is not null and new.locked_until is null)
			execute function public.wait()"
}

@test "all runs of a batch end in the transaction of its statement, whatever their verdicts, and alarms are enqueued in it" {
	mixed 1 1h
	settles_wait
	hold 'select pg_advisory_xact_lock(78)'
	bg_runner
	wait_until 10 waiting_for_lock 1
	q_is '4|0|0|0' "select count(*) filter (where status = 'running'), count(*) filter (where job_type = 'alarm'),
		(select count(*) from jobrun.job_attempts), (select count(*) from done) from jobrun.job_runs"
	release_holds
	wait_runner
	assert_equal "$runner_status" 1
	assert_equal "$(mixed_ends)" "$committed"
	q_is 7 "select count(*) from (select xmin from jobrun.job_runs where job_type = 'many' union all select xmin from jobrun.job_attempts) r
		where xmin::text::bigint = (select xid % 4294967296 from done)"
	q_is 'queued|0|1|t,failed|1|0|t' "select string_agg(concat_ws('|', status, attempts, snoozes, run_at > now()), ',' order by id)
		from jobrun.job_runs where status in ('queued', 'failed') and job_type = 'many'"
	counted '{"dead": 1, "later": 1, "failed": 1, "claimed": 4, "succeeded": 1}'
	assert_regex "$(cat "$runner_err")" 'run 3 many is dead after 1 of 5 attempts: number 3'
}

@test "a run of a batch that fails and was asked to be cancelled is cancelled" {
	mixed 'pg_advisory_xact_lock_shared(77)' 1h
	hold 'select pg_advisory_xact_lock(77)'
	bg_runner
	wait_until 10 works
	q 'update jobrun.job_runs set cancel_requested_at = now() where id in (1, 4)'
	release_holds
	wait_runner
	q_is 'succeeded,queued,dead,cancelled' "select string_agg(status, ',' order by id) from jobrun.job_runs where job_type = 'many'"
	counted '{"dead": 1, "later": 1, "claimed": 4, "cancelled": 1, "succeeded": 1}'
}

# counted COUNTS: what the runner says of the runs that it did.
counted() {
	q_is "$1" "select jsonb_object_agg(key, value) from jobrun.job_runners, jsonb_each(counts)
		where value <> '0' and key not in ('claims', 'claim_ms', 'claims_locked')"
}

# lose_one ID: it is taken away while the statement of its group works. Nothing of the group is kept.
lose_one() {
	mixed 'pg_advisory_xact_lock_shared(77)' 1h
	hold 'select pg_advisory_xact_lock(77)'
	bg_runner
	wait_until 10 works
	q "update jobrun.job_runs set status = 'failed', locked_until = null, failed_at = now(), run_at = now() + interval '1 h',
			error_code = 'lost' where id = $1" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, runner_id)
			select id, claim_seq, attempts, 'lost', 'lost', runner_id from jobrun.job_runs where id = $1"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
}

# again: the others are done again, each once.
again() {
	q "update jobrun.job_runs set run_at = now() where status = 'queued'"
	jr run
	exact
	q_is 1 "select max(n) from (select count(*) as n from jobrun.job_attempts where error_code like '%JR074' group by run_id) a"
}

@test "when a failed run of a batch is lost before COMMIT, nothing is kept, and the others are put off and done again" {
	lose_one 4
	assert_equal "$(mixed_ends)" '1:later sqlstate:JR074 2:later sqlstate:JR074 3:later sqlstate:JR074 4:lost lost 0'
	again
	assert_equal "$(mixed_ends)" "1:later sqlstate:JR074 2:later sqlstate:JR074,later sqlstate:JR075 3:later sqlstate:JR074,dead sqlstate:JR065 4:lost lost 1 2!"
	q_is succeeded 'select status from jobrun.job_runs where id = 1'
}

@test "when a succeeded run of a batch is lost before COMMIT, nothing is kept, and the others are put off and done again" {
	lose_one 1
	assert_equal "$(mixed_ends)" '1:lost lost 2:later sqlstate:JR074 3:later sqlstate:JR074 4:later sqlstate:JR074 0'
	again
	assert_equal "$(mixed_ends)" "1:lost lost 2:later sqlstate:JR074,later sqlstate:JR075 3:later sqlstate:JR074,dead sqlstate:JR065 4:later sqlstate:JR074,failed sqlstate:P0001 0 2!"
}

# refuse_settle WHEN SQLSTATE: settles are refused, or a commit of them.
refuse_settle() {
	q "create sequence public.refused" "create function public.refuse() returns trigger language plpgsql as \$\$ begin
			if $1 then raise exception 'not so' using errcode = '$2'; end if; return null; end \$\$" \
		"create ${3:-trigger} refuses after update on jobrun.job_runs ${3:+deferrable initially deferred} for each row
			when (old.locked_until is not null and new.locked_until is null) execute function public.refuse()"
}

@test "a settle that is refused once splits the batch, and no run is charged or put off for it" {
	mixed 1 1h
	refuse_settle "nextval('public.refused') = 4" 40001
	jr run
	assert_equal "$status" 1
	assert_equal "$(mixed_ends)" "$committed"
	exact
}

@test "a commit that is refused once splits the batch, and no run is charged or put off for it" {
	mixed 1 1h
	refuse_settle "nextval('public.refused') = 4" 40001 'constraint trigger'
	jr run
	assert_equal "$status" 1
	assert_equal "$(mixed_ends)" "$committed"
	exact
}

@test "a settle that is refused for the text of one run costs that run alone" {
	mixed 1 1h
	refuse_settle "new.last_error = 'number 4'" 22P05
	jr run
	assert_equal "$status" 1
	assert_equal "$(mixed_ends | sed 's/ 1!$//; s/ 2!$//')" \
		'1:succeeded 2:later sqlstate:JR075 3:dead sqlstate:JR065 4:dead sqlstate:22P05 1 1!'
	q_is 'not so' 'select last_error from jobrun.job_runs where id = 4'
	exact
}

@test "an alarm dates from the death of its run, not from the start of its batch" {
	mixed 'pg_sleep(0.3)' 1h
	jr run
	q_is t "select d.finished_at - d.started_at > '0.3 s' and a.created_at = d.finished_at and a.run_at = d.finished_at
		from jobrun.job_runs a join jobrun.job_runs d on d.id = a.parent_id where a.job_type = 'alarm'"
}

# locked_set TIMEOUT ARGUMENT...: a mixed set with this timeout is done, and its settle waits for its first run, which somebody has locked.
# It would wait for a sixth of the lease.
locked_set() {
	mixed 'pg_advisory_xact_lock_shared(77)' 1h "$1"
	shift
	hold 'select pg_advisory_xact_lock(77)'
	bg_runner --lease 3m --heartbeat 1s "$@"
	wait_until 10 works
	hold 'select from jobrun.job_runs where id = 1 for update'
	printf 'commit;\n' >&"${hold_fds[0]}"
	wait_until 10 settle_waits
}

settle_waits() {
	q_is 1 "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%settle_group(%'"
}

@test "a run that is cancelled while its batch is settled ends, and the others are neither charged nor put off" {
	locked_set 1h
	jr_ok cancel 4
	wait_until 20 run_is 4 cancelled
	release_holds
	wait_runner
	assert_equal "$runner_status" 1
	assert_equal "$(mixed_ends)" '1:succeeded 2:later sqlstate:JR075 3:dead sqlstate:JR065 4:cancelled cancelled 1 1!'
	counted '{"dead": 1, "later": 1, "claimed": 4, "cancelled": 1, "succeeded": 1}'
	assert_equal "$(grep -c lease_lost "$runner_err")" 0
}

@test "a settle that takes half of the timeout splits the batch, and no run is charged for it" {
	locked_set 16s -v
	wait_until 20 grep -q group_split "$runner_err"
	release_holds
	wait_runner
	assert_equal "$(mixed_ends)" "$committed"
}

# Whoever has enqueued a run can do that: cancel() in a transaction that stays open.
@test "a batch of which somebody keeps a run locked is split in time: the others succeed, and that one is put off" {
	sql_handler many <<-'sql'
		with l as materialized (select pg_advisory_xact_lock_shared(77)) /* work */
		insert into done (run_id) select (r ->> 'run_id')::bigint from jsonb_array_elements($1) r, l
	sql
	enqueue_many 4
	q "update jobrun.job_runs set backoff_base = '1 hour'" # or the runner may try it again
	hold 'select pg_advisory_xact_lock(77)'
	bg_runner --lease 6s
	wait_until 10 works
	hold 'select jobrun.cancel(3)'
	printf 'commit;\n' >&"${hold_fds[0]}"
	wait_until 20 q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
	wait_until 20 does_not_work
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	refute_regex "$(cat "$runner_err")" lease_lost
	exact
	q_is 'queued|0|later|sqlstate:55P03' "select r.status, r.attempts, a.outcome, a.error_code
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id where r.id = 3"
}

# cut_settle MODE: the COMMIT of a mixed set is cut. Sets status and the like.
cut_settle() {
	mixed 1 1h
	proxy "settle-$1" 1
	jr run -d "$proxied" --lease "${2:-6s}"
	assert_file_exist "$cut_file"
	refute_regex "$stderr" 'lease_lost'
	wait_until 20 mixed_has_ended
}

mixed_has_ended() {
	q_is 0 "select count(*) from jobrun.job_runs where job_type = 'many' and (status = 'running' or claim_seq = 0)"
}

# told: as if nothing had been lost.
told() {
	assert_equal "$status" 1
	assert_equal "$(mixed_ends)" "$committed"
	counted '{"dead": 1, "later": 1, "failed": 1, "claimed": 4, "succeeded": 1}'
	assert_line_of_stderr 'jobrun: run 3 many is dead after 1 of 5 attempts: number 3'
	exact
}

@test "when the COMMIT of a batch is lost, all its runs are put off" {
	cut_settle request
	assert_equal "$status" 0
	assert_equal "$(mixed_ends)" '1:later sqlstate:08007 2:later sqlstate:08007 3:later sqlstate:08007 4:later sqlstate:08007 0'
	counted '{"later": 4, "claimed": 4}'
	exact
}

@test "when the answer to a batch's COMMIT is lost, all runs have ended with it, and each end is logged with its reason" {
	cut_settle answer
	told
}

@test "when a batch's COMMIT is not answered until the lease is over, all runs have ended with it and nothing was lost" {
	cut_settle hang 3s
	told
}

is_past() {
	[ "$(now_ms)" -ge "$1" ]
}

@test "when neither COMMIT nor heartbeats are answered and the runner gives up the lease, all runs of the batch have ended" {
	mixed 1 1h
	proxy settle-hang 1
	bg_runner -d "$proxied" --lease 3s
	wait_until 10 mixed_has_ended
	hold 'lock table jobrun.job_runs'
	wait_until 10 is_past $(($(now_ms) + 3000))
	release_holds
	wait_runner
	status=$runner_status stderr=$(cat "$runner_err")
	told
	refute_regex "$stderr" 'lease_lost'
}

@test "when a batch's COMMIT is answered late and a run is claimed again, it starts after that, and nothing is lost" {
	sql_handler many <<-'sql'
		select (e ->> 'run_id')::bigint, 'fail', 'once' from jsonb_array_elements($1) e where (e ->> 'attempt')::integer = 1
	sql
	proxy late 2000
	enqueue_many 3
	bg_runner -d "$proxied" --lease 20s --heartbeat 4s --for 60s -v
	wait_until 10 all_failed_once
	enqueue many '[4]' >/dev/null # which is news
	wait_until 20 all_succeeded
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(grep -c lease_lost "$runner_err")" 0
	q_is '3|2|2' "select count(*), min(attempts), max(claim_seq) from jobrun.job_runs where id <= 3"
}

all_failed_once() {
	q_is 3 "select count(*) from jobrun.job_attempts where outcome = 'failed'"
}

all_succeeded() {
	q_is 4 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "when one claim of a batch is lost, the others have their effect and completion" {
	sql_handler many <<-'sql'
		with l as materialized (select pg_advisory_xact_lock_shared(77)) /* work */
		insert into done (run_id) select (r ->> 'run_id')::bigint from jsonb_array_elements($1) r, l
	sql
	hold 'select pg_advisory_xact_lock(77)'
	enqueue_many 4
	bg_runner
	wait_until 10 works
	q "update jobrun.job_runs set status = 'failed', locked_until = null, failed_at = now(), run_at = now() + interval '1 h',
			error_code = 'lost' where id = 3" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, runner_id)
			select id, claim_seq, attempts, 'lost', 'lost', runner_id from jobrun.job_runs where id = 3"
	release_holds
	wait_runner
	exact
	q_is '1,2,4' "select string_agg(run_id::text, ',' order by run_id) from done"
	# The commit was refused for the lost claim, and the statement was not to blame: the others were put off, not tried one by one.
	q_is 3 "select count(*) from jobrun.job_attempts where outcome = 'later' and error_code = 'sqlstate:JR074'"
	is_fate 3 'failed|1|1|lost'
}

@test "TERM releases all runs of a batch" {
	sql_handler many <<<'select pg_sleep(60) from jsonb_array_elements($1) /* work */'
	enqueue_many 5
	bg_runner --grace 200ms
	wait_until 10 works
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is '5|5' "select count(*), count(*) filter (where status = 'queued' and attempts = 0) from jobrun.job_runs"
	wait_until 5 does_not_work
}

all_finished() {
	run_jobrun run --lease 2s
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
}

@test "when the COMMIT of a batch or its answer is lost, each effect happens once" {
	for mode in answer request hang; do
		for n in 2 3; do
			proxy "$mode" "$n"
			enqueue_many 10
			jr run -d "$proxied" --lease 2s
			wait_until 20 all_finished
			exact
			q_is 1 'select max(attempts) from jobrun.job_runs'
			assert_file_exist "$cut_file"
		done
	done
	q_is 60 'select count(*) from done'
}

@test "when the runner's connection is cut behind the answer to a claim, the batch starts, and each run has one attempt" {
	proxy after-claim 1
	enqueue_many 120
	jr run -d "$proxied" --lease 6s
	assert_equal "$status" 0
	assert_file_exist "$cut_file"
	exact
	q_is '120|1|1' 'select count(*), max(attempts), max(claim_seq) from jobrun.job_runs'
	q_is 120 'select count(*) from done'
}

@test "when a batch's connection is cut while it works, all runs have failed and nothing is kept" {
	sql_handler many <<-'sql'
		with i as (insert into done (run_id) select (r ->> 'run_id')::bigint from jsonb_array_elements($1) r)
		select pg_terminate_backend(pg_backend_pid())
	sql
	enqueue_many 3
	jr_ok run --max-runs 3
	q_is '3|0' "select count(*) filter (where status = 'failed' and error_code = 'sqlstate:57P01'), (select count(*) from done)
		from jobrun.job_runs"
}

# ends_alone ID STATUS: it is tried now, due or not, and has this status then. The server may not be there yet.
ends_alone() {
	jr run --job "$1"
	run_is "$1" "$2"
}

@test "when one run of a batch costs the connection, the others go one by one" {
	own_cluster # a backend that crashes takes the others of its server along
	q 'create table done (run_id bigint, n integer)'
	sql_handler many <<-'sql'
		with r as materialized (select (e ->> 'run_id')::bigint as id, (e -> 'payload' ->> 0)::integer as n from jsonb_array_elements($1) e)
		insert into done (run_id, n) select id, n from r where n <> 3 or public.crash()
	sql
	q "create function public.crash() returns boolean language plpgsql as \$\$ begin
		execute 'copy (select 1) to program ''kill -9 \$PPID; sleep 1'''; return true; end \$\$"
	enqueue_many 5
	jr_ok run --max-runs 5
	wait_until 10 exact
	# As long as the server is not back (16 and newer take a moment) the answer is "later", which is not charged.
	q_is 0 "select count(*) from jobrun.job_runs where status = 'queued' and attempts > 0"
	for id in $(q "select id from jobrun.job_runs where status <> 'succeeded' and payload ->> 0 <> '3'"); do
		wait_until 20 ends_alone "$id" succeeded
	done
	id=$(q "select id from jobrun.job_runs where payload ->> 0 = '3'")
	run_is "$id" failed || wait_until 20 ends_alone "$id" failed
	wait_until 10 exact
	# The server may go down under a second one, if that was sent before the server saw the crash.
	q_is '4|t|sqlstate:08006' "select count(*) filter (where status = 'succeeded'), sum(attempts) <= 6,
		max(error_code) filter (where payload ->> 0 = '3') from jobrun.job_runs"
}

@test "when one run of a batch never ends, it alone is charged with the timeout" {
	sql_handler many <<-'sql'
		with r as materialized (select (e ->> 'run_id')::bigint as id, (e -> 'payload' ->> 0)::integer as n from jsonb_array_elements($1) e)
		insert into done (run_id, n) select id, n from r where n <> 1 or (select true from pg_sleep(60))
	sql
	for timeout in 1s 4s 16s; do # on a slow machine the others may not be done by the first
		q 'truncate jobrun.job_runs, jobrun.job_attempts, done'
		q "select jobrun.enqueue('many', jsonb_build_array(g), backoff_base => '0', timeout => '$timeout', max_attempts => 2)
			from generate_series(1, 5) g" >/dev/null
		JR_TIMEOUT=$((60 * patience)) jr run
		assert_equal "$status" 1
		! q_is 4 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1" || break
	done
	exact
	q_is '1|dead|timeout' "select payload ->> 0, status, error_code from jobrun.job_runs where status <> 'succeeded'"
	q_is 4 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
}

@test "a run of a batch that does nothing writes at most 900 bytes of WAL" {
	local from

	own_cluster -o autovacuum=off # no write-ahead log of other tests, nor of autovacuum
	sql_handler idle <<<'select where false'
	settings idle <<<'{"batch": 1000}'
	q "insert into jobrun.job_runs (job_type) select 'idle' from generate_series(1, 10000)" 'vacuum jobrun.job_runs' 'checkpoint'
	from=$(q 'select pg_current_wal_insert_lsn()')
	jr_ok run
	q_is 10000 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	from=$(q "select (pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$from') / 10000)::integer")
	echo "$from bytes"
	[ "$from" -le 900 ]
}

@test "slow statements do not keep quick ones waiting for more connections" {
	sql_handler slow <<<'select pg_advisory_xact_lock_shared(77)'
	sql_handler quick <<<'select 1'
	hold 'select pg_advisory_xact_lock(77)'
	q "insert into jobrun.job_runs (job_type, priority) select 'slow', 1 from generate_series(1, 3)" \
		"insert into jobrun.job_runs (job_type) select 'quick' from generate_series(1, 20)"
	bg_runner --sql-jobs 4
	wait_until 20 q_is 20 "select count(*) from jobrun.job_runs where job_type = 'quick' and status = 'succeeded'"
	q_is 3 "select count(*) from jobrun.job_runs where job_type = 'slow' and status = 'running'"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	nothing_is_open
}
