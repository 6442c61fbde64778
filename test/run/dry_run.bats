#!/usr/bin/env bats
# run -n shows what a runner would start now, by the rules of its claim, and changes nothing. DRY_SEED repeats what failed.

load ../lib/common

# shown ARGUMENT...: the ids that -n shows, in its order: "1 2 3".
shown() {
	jr_ok run -n --json "$@"
	jq -r '[.runs[].id] | join(" ")' <<<"$output"
}

# many N ARGUMENT...: enqueue N runs; prints their ids.
many() {
	local n=$1 ids=()

	shift
	while ((n-- > 0)); do
		ids+=("$(enqueue "$@")")
	done
	echo "${ids[*]}"
}

# held_by_another TYPE QUEUE [OPTION...]: a run that a runner with nothing else to do holds until it is told to end.
held_by_another() {
	handler "$1" <<<'exec sleep 60'
	enqueue "$1" -q "$2" "${@:3}"
	bg_runner --type "$1" --queue "$2" --max-runs 1 --state-dir "$BATS_TEST_TMPDIR/other"
	wait_until 10 q_is 1 "select count(*) from jobrun.job_runs where status = 'running'"
}

# contents: of every table of the schema, its rows and which transactions wrote them; of each sequence, where it is.
contents() {
	q "$(q "select string_agg(format('select %L, md5(string_agg(t.xmin::text || t::text, E''\n'' order by t.ctid)) from jobrun.%I t', relname, relname), ' union all ')
		from pg_class where relnamespace = 'jobrun'::regnamespace and relkind = 'r'")" \
		"select sequencename, last_value from pg_sequences where schemaname = 'jobrun' order by 1"
}

@test "no run that a full queue, a lock key, a rate or a pause keeps" {
	held_by_another hold full
	handler work <<<'exit 0'
	handler stopped <<<'exit 0'
	jr_ok queue full --max-running 1
	jr_ok queue keyed --per-key 1
	jr_ok queue rated --rate 2/1h
	jr_ok pause --queue still --type stopped
	jr_ok define nightly -t work
	jr_ok pause --definition nightly
	many 3 work -q full
	many 2 work -q still
	many 2 stopped
	enqueue --definition nightly
	free=$(enqueue work -p 200)
	keyed=$(enqueue work -q keyed --lock a)
	enqueue work -q keyed --lock a
	another=$(enqueue work -q keyed --lock b)
	rated=$(many 4 work -q rated | cut -d ' ' -f 1,2)
	assert_equal "$(shown)" "$keyed $another $rated $free"
	# What `run` does then is that.
	jr_ok run --max-runs 5
	q_is "$(tr ' ' '\n' <<<"$keyed $another $rated $free" | sort -n)" "select id from jobrun.job_runs where status = 'succeeded' order by id"
	# The rate is spent now, the keys are not.
	assert_equal "$(shown)" "$((keyed + 1))"
}

@test "of the runs of a unique key the newest is shown, which ends the others" {
	# It failed when the newer one was queued already.
	handler work <<<'[ ! -e "$TMPDIR/tried" ] || exit 0; touch "$TMPDIR/tried"; "$JOBRUN" enqueue work --unique k >"$TMPDIR/newer"; exit 1'
	enqueue work --unique k --backoff 0
	JOBRUN=$JOBRUN jr_ok run --max-runs 1
	newer=$(cat "$TMPDIR/newer")
	assert_equal "$(shown)" "$newer"
	q_is 'failed|queued' "select string_agg(status, '|' order by id) from jobrun.job_runs"
	jr_ok run
	run_is "$newer" succeeded
	q_is 1 "select count(*) from jobrun.job_runs where superseded_by = $newer"
}

@test "of definitions with late slots only those that would fire are shown, each with the first slot that does" {
	local role=run_$JR_DATABASE hour line

	handler work <<<'exit 0'
	make_role "$role"
	jr_ok grant run "$role"
	# Slots 60, 36 and 12 hours ago.
	stay_in hour
	hour=$(q "select extract(hour from now() at time zone 'UTC' - interval '60 hours')")
	for line in 'all --catch-up all --overlap allow' gone 'grace --catch-up-grace 1h' once paused recorded 'skip --catch-up skip'; do
		# shellcheck disable=SC2086 # words
		jr_ok define $line --type work --schedule "0 $hour * * *" --time-zone UTC
	done
	q "update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) - interval '60 hours' where job_type = 'work'" \
		"insert into jobrun.job_slots (definition_id, slot, outcome, reason)
			select id, date_trunc('hour', now()) - interval '12 hours', 'skipped', 'missed' from jobrun.job_definitions where name = 'recorded'" \
		'set session_replication_role = replica' "update jobrun.job_definitions set paused_until = now() - interval '1 hour' where name = 'paused'" \
		"update jobrun.job_definitions set time_zone = 'Europe/Gone' where name = 'gone'"
	JOBRUN_DATABASE_URL=$(url_of "$role") jr_ok run -n --json
	shown=$(jq -r '.runs | sort_by(.definition)[] | [.definition, .slot, .run_at] | join(" ")' <<<"$output")
	jr_ok run -n
	assert_line --regexp ' +- +12h( [0-9]+m)? once$'
	jr_ok run
	assert_equal "$(q "select concat_ws(' ', d.name, to_json(min(s.slot)) #>> '{}', to_json(min(s.slot)) #>> '{}')
		from jobrun.job_definitions d join jobrun.job_slots s on s.definition_id = d.id where s.outcome = 'queued' group by d.name order by d.name")" "$shown"
	assert_regex "$shown" $'^all [^\n]*\nonce [^\n]*$'
}

@test "an expired run would be claimed to end it, and is shown as expired" {
	handler work <<<'exit 0'
	old=$(enqueue work --expires 1h)
	new=$(enqueue work)
	q "update jobrun.job_runs set run_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' where id = $old"
	jr_ok run -n
	assert_regex "${lines[1]}" "^ *$old +work .* expired +2h"
	assert_regex "${lines[2]}" "^ *$new +work .* 1/[0-9]+ "
	jr_ok run -n --json
	assert_equal "$(jq -c '.runs | map([.id, .attempt, .expired])' <<<"$output")" "[[$old,1,true],[$new,1,false]]"
}

@test "not more than 100, and not more than --max-runs" {
	handler work <<<'exit 0'
	q "select count(jobrun.enqueue('work')) from generate_series(1, 120)" >/dev/null
	assert_equal "$(shown)" "$(seq -s ' ' 1 100)"
	assert_equal "$(shown --max-runs 3)" '1 2 3'
}

# --- the same as run ---

# pick VARIABLE WORD...: one of the words. (In a subshell RANDOM has no seed.)
pick() {
	local words=("${@:2}")

	printf -v "$1" %s "${words[RANDOM % ${#words[@]}]}"
}

# mixed SEED: limits, lock keys, rates, pauses and unique keys, and runs of all sorts in them.
mixed() {
	local type queue priority lock key in runs=()

	RANDOM=$1
	jr_ok queue narrow --max-running $((RANDOM % 5))
	jr_ok queue keyed --per-key $((RANDOM % 2 + 1))
	jr_ok queue both --max-running 3 --per-key 1
	jr_ok queue slow --rate $((RANDOM % 4 + 1))/1h
	jr_ok define nightly -t a
	retried
	jr_ok pause --queue still
	((RANDOM % 3)) || jr_ok pause --type c
	((RANDOM % 3)) || jr_ok pause --definition nightly
	for _ in {1..60}; do
		pick type a b c none
		pick queue free narrow keyed both slow still default
		pick priority 1 2 2 100
		pick lock null null "'x'" "'y'" "'z'"
		pick key null null null "'u'" "'k'"
		pick in 0 0 0 0 1h
		runs+=("('$type', '$queue', $priority, $lock, $key, interval '$in')")
	done
	q "select count(jobrun.enqueue(type, queue => queue, priority => priority, concurrency_key => lock, unique_key => key, run_in => run_in))
		from (values $(IFS=, && echo "${runs[*]}")) v(type, queue, priority, lock, key, run_in)" >/dev/null
	q "update jobrun.job_runs set definition_id = (select id from jobrun.job_definitions where name = 'nightly')
		where id % 7 = 0 and unique_key is null"
}

# Of three unique keys, runs that have failed when others were queued already.
retried() {
	local key queue

	handler b <<<'until [ -e "$TMPDIR/go" ]; do sleep 0.05; done; exit 1'
	for key in u v w; do
		enqueue b --unique "$key" --backoff 0
	done
	bg_runner -j 64 --max-runs 3
	wait_until 20 q_is 3 "select count(*) from jobrun.job_runs where status = 'running'"
	for key in u v w; do
		pick queue default narrow keyed
		enqueue b --unique "$key" -q "$queue"
	done
	touch "$TMPDIR/go"
	wait_runner
	q_is 'failed,failed,failed,queued,queued,queued' "select string_agg(status, ',' order by id) from jobrun.job_runs"
}

nothing_more_starts() {
	jr_ok run --state-dir "$BATS_TEST_TMPDIR/third"
	assert_equal "$(running)" "$1"
}

running() {
	q "select string_agg(id::text, ' ' order by priority, run_at, id) from jobrun.job_runs where status = 'running'"
}

# as_run_does SEED: what -n shows is what a runner with a permit for each starts, some running already.
as_run_does() {
	local before what n

	echo "# DRY_SEED=$1"
	mixed "$1"
	for name in a b c; do
		handler "$name" <<<'exec sleep 600'
	done
	bg_runner -j 64 --max-runs 3
	wait_until 20 q_is 3 "select count(*) from jobrun.job_runs where status = 'running'"
	before=$(running)
	what=$(shown)
	assert_equal "$(running)" "$before"
	n=$(wc -w <<<"$what")
	assert [ "$n" -gt 5 ]
	bg_runner -j 64 --state-dir "$BATS_TEST_TMPDIR/second"
	wait_until 20 q_is $((3 + n)) "select count(*) from jobrun.job_runs where status = 'running'"
	q_is "$what" "select string_agg(id::text, ' ' order by priority, run_at, id) from jobrun.job_runs
		where status = 'running' and id <> all (string_to_array('$before', ' ')::bigint[])"
	nothing_more_starts "$(running)"
	assert_equal "$(shown)" ''
}

@test "a mixed set: what it shows is what run starts (seed 1)" {
	as_run_does 1
}

@test "a mixed set: what it shows is what run starts (seed 2)" {
	as_run_does 2
}

@test "a mixed set: what it shows is what run starts (any seed)" {
	as_run_does "${DRY_SEED:-$((BASHPID % 30000))}"
}

# --- it writes nothing ---

@test "nothing is written, whatever it has claimed" {
	handler a <<<'exit 0'
	handler c <<<'exit 0'
	mixed 7
	jr_ok define nightly --schedule '* * * * *' --time-zone UTC
	q "update jobrun.job_definitions set next_slot_at = now() - interval '1 minute'" \
		"update jobrun.job_runs set expires_at = run_at where id % 3 = 0"
	before=$(contents)
	for _ in 1 2 3; do
		jr_ok run -n --json
		assert [ "$(jq '.runs | length' <<<"$output")" -gt 10 ]
	done
	id=$(jq '[.runs[].id // empty][0]' <<<"$output")
	jr_ok run -n --job "$id"
	assert_equal "$(contents)" "$before"
	# Nor is a transaction left, or a lock.
	q_is 0 "select count(*) from pg_locks l join pg_class c on c.oid = l.relation
		where c.relnamespace = 'jobrun'::regnamespace and l.pid <> pg_backend_pid()
			and l.database = (select oid from pg_database where datname = current_database())"
}

# A runner may end while -n has the last runs locked; then they are left to the next one.
@test "beside a runner: nothing is lost, and nothing started twice" {
	handler work <<<'echo "$JOBRUN_RUN_ID" >>"$TMPDIR/ran"'
	jr_ok queue narrow --max-running 50
	q "select count(jobrun.enqueue('work', queue => q)) from generate_series(1, 150), unnest('{narrow,wide}'::text[]) q" >/dev/null
	bg_runner -j 4
	while kill -0 "$runner_pid" 2>/dev/null; do
		jr_ok run -n
	done
	wait_runner
	assert_equal "$runner_status" 0
	jr_ok run
	q_is 'succeeded|300|300' "select status, count(*), sum(attempts) from jobrun.job_runs group by 1"
	assert_equal "$(sort -u "$TMPDIR/ran" | wc -l)" 300
}

# --- locked by somebody else ---

@test "a queue that is locked for long costs 5 s, and the others are shown" {
	handler work <<<'exit 0'
	jr_ok queue narrow --max-running 9
	enqueue work -q narrow
	free=$(enqueue work)
	hold "select from jobrun.job_queues where name = 'narrow' for update"
	jr_ok -v run -n --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" "[$free]"
	assert_regex "$stderr" 'queue_left_out queue=narrow'
	release_holds
	assert_equal "$(shown)" "$((free - 1)) $free"
}

@test "a queue that is locked for a moment is asked again" {
	handler work <<<'exit 0'
	jr_ok queue narrow --max-running 9
	id=$(enqueue work -q narrow)
	hold "select from jobrun.job_queues where name = 'narrow' for update"
	bg_jobrun -v run -n --json
	wait_until 10 grep -q queue_left_out "$runner_err"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(jq -c '.runs | map(.id)' "$runner_out")" "[$id]"
}

# --- --job ---

# as_run STATUS ARGUMENT...: -n says what run says, and ends as it does. Last, since run may do something.
as_run() {
	local said

	jr run -n "${@:2}"
	assert_equal "$status $output" "$1 "
	said=$stderr
	jr run "${@:2}"
	assert_equal "$status" "$1"
	assert_equal "$(sed -E 's/ \((now|[0-9]+s ago)\)//' <<<"$stderr")" "$(sed -E 's/ \((now|[0-9]+s ago)\)//' <<<"$said")" # a second may lie between
	assert [ -n "$said" ]
}

@test "--job: what keeps the run is said as run says it" {
	held_by_another hold full --lock a
	handler work <<<'exit 0'
	id=$(enqueue work -q full --lock a)
	jr_ok queue full --max-running 1
	as_run 75 --job "$id"
	assert_equal "$stderr" "jobrun: run $id was not started: queue full is full, 1 of 1 run ($(q "select id from jobrun.job_runs where status = 'running'"))"
	jr_ok queue full --max-running none --per-key 1
	as_run 75 --job "$id"
	assert_regex "$stderr" "run $id was not started: lock key a is taken, 1 of 1 run in queue full"
	jr_ok queue full --per-key none --rate 1/1h
	first=$(enqueue work -q full)
	assert_equal "$(shown --job "$first")" "$first"
	jr_ok run --job "$first"
	as_run 75 --job "$id"
	assert_regex "$stderr" "run $id was not started: queue full has started 1 of 1 in 1h, more from 20"
	jr_ok queue full --rate none
	assert_equal "$(shown --job "$id")" "$id"
	run_is "$id" queued
}

@test "--job: a run that cannot be claimed is said as run says it" {
	handler work <<<'exit 0'
	handler other <<<'exit 0'
	as_run 1 --job 4711
	assert_equal "$stderr" "jobrun: there is no run 4711; 'jobrun list' shows the newest"
	id=$(enqueue work)
	as_run 1 --job "$id" --type other
	assert_equal "$stderr" "jobrun: run $id was not started: --type leaves it out, or it was taken by somebody else"
	jr_ok run
	as_run 1 --job "$id"
	assert_regex "$stderr" "^jobrun: run $id was not started: it succeeded"
	foreign=$(enqueue wrok)
	as_run 1 --job "$foreign"
	assert_regex "$stderr" "^jobrun: run $foreign was not started: .*wrok.*did you mean \"work\"\?"
	bad=$(enqueue other)
	chmod 777 "$JOBRUN_HANDLERS/other"
	jr run --job "$bad"
	assert_equal "$status" 1
	assert_regex "$stderr" "run $bad was not started: .*other.*chmod"
	hold "select from jobrun.job_runs where id = $bad for update"
	chmod 755 "$JOBRUN_HANDLERS/other"
	jr run --job "$bad"
	assert_regex "$stderr" "run $bad was not started: process [0-9]+ of the server .* has this run locked; try: psql .* -c"
}

@test "--job: a pause does not keep it" {
	handler work <<<'exit 0'
	jr_ok pause --type work --queue default
	id=$(enqueue work --in 1h)
	assert_equal "$(shown)" ''
	assert_equal "$(shown --job "$id")" "$id"
}

@test "--job: a locked queue is asked for 5 s, and then said as run says it" {
	handler work <<<'exit 0'
	jr_ok queue narrow --max-running 9
	id=$(enqueue work -q narrow)
	hold "select from jobrun.job_queues where name = 'narrow' for update"
	as_run 75 --job "$id"
	assert_regex "$stderr" "somebody else has had queue narrow, or a run with the same unique key, locked for 5 s: .*; run $id was not started"
}

# --- where it may not be done ---

@test "a copy of a database is told, or refused, as run does it" {
	handler work <<<'exit 0'
	id=$(enqueue work)
	q 'set session_replication_role = replica' "update jobrun.settings set copies = 'refuse', database_oid = 1"
	jr run -n
	assert_equal "$status" 78
	assert_regex "$stderr" 'copied or moved here .*nothing is run in it'
	q 'set session_replication_role = replica' "update jobrun.settings set copies = 'tell'"
	jr_ok run -n
	assert_regex "$output" "$id +work"
	assert_regex "$stderr" 'copied or moved here .*and its runs are run here'
	run_is "$id" queued
}
