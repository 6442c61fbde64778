#!/usr/bin/env bats
# Of the runs of a unique key the newest wins, at its start: what two or three transactions can do to each other, step by step.

load ../lib/common

setup() {
	common_setup
	claims=0
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'h', 'x'), (8, 1, 1, 'h', 'x')"
}

# ask [MODE [ARGUMENT]]: the SQL of an enqueue with key k.
ask() {
	echo "select jobrun.enqueue('t', unique_key => 'k', on_conflict => '${1:-keep}', max_attempts => 9${2:+, $2})"
}

# new [MODE [ARGUMENT]]: prints the id.
new() {
	q "$(ask "$@")"
}

# claim_sql [N [RUNNER]]: as a runner does, of all that is due; gives ids, and of what is left out the queue.
claim_sql() {
	claims=$((claims + 1))
	echo "select coalesce(c.id::text, c.queue) from jobrun.claim(${2:-7}, 'h', ${1:-10}, '{t}', '{default}', '{100}', null, null, null,
		60000, $claims) c"
}

# claim [N [RUNNER]]: sets claimed, in one line.
claim() {
	claim_sql "$@" >"$TMPDIR/claim.sql"
	claims=$((claims + 1))
	claimed=$(q "$(<"$TMPDIR/claim.sql")" | tr '\n' ' ')
	claimed=${claimed% }
}

# ends_sql ID OUTCOME: the end of what runner 7 has claimed; a failure is due again at once.
ends_sql() {
	echo "select s.status from jobrun.settle(array[$1], array[(select claim_seq from jobrun.job_runs where id = $1)], array[7],
		array['$2'], array[0], null, null, null, null, null, null, null, null, null, null, null, clock_timestamp()) s"
}

ends() {
	q "$(ends_sql "$@")" >/dev/null
}

# started ID: claimed alone, by runner 7.
started() {
	q "select id from jobrun.claim_job(7, 'h', $1, 60000, '{t}', $((claims += 1)))" >/dev/null
	run_is "$1" running
}

# failed_once: a run with key k that waits for its retry; prints its id.
failed_once() {
	local id

	id=$(new)
	started "$id"
	ends "$id" failed
	echo "$id"
}

# say SQL [N]: a further statement for the N-th `hold` (the last one), which has been made when it returns.
say() {
	local n=${2:-$((${#hold_fds[@]} - 1))}

	said=$((${said:-0} + 1))
	printf '%s;\n\\echo said %s\n' "$1" "$said" >&"${hold_fds[$n]}"
	wait_until 10 grep -qx "said $said" "$BATS_TEST_TMPDIR/hold.$n.out"
}

# Inserts of a session with "set test.stall = 'on'" stop between the draw of their id and the index, as long as somebody holds
# the lock: hold 'select pg_advisory_lock(1)'.
stalls() {
	q "create function stall() returns trigger language plpgsql as 'begin
			perform pg_advisory_xact_lock_shared(1) where current_setting(''test.stall'', true) = ''on''; return new; end'" \
		"create trigger stall before insert on jobrun.job_runs for each row execute function stall()"
}

# superseded ID BY: it has ended so, without a start of its own and without an alarm.
superseded() {
	assert_equal "$(field "$1" 'status, error_code, superseded_by, finished_at is not null')" "cancelled|superseded|$2|t"
}

@test "when a newer run of the key waits, a run that failed is not started again, but the newer one is" {
	one=$(new)
	started "$one"
	two=$(new)
	assert_not_equal "$two" "$one"
	ends "$one" failed
	before=$(field "$one" 'claim_seq, attempts, started_at')
	claim
	assert_equal "$claimed" "$two"
	superseded "$one" "$two"
	assert_equal "$(field "$one" 'claim_seq, attempts, started_at')" "$before"
	q_is 1 "select count(*) from jobrun.job_attempts where run_id = $one"
	ends "$two" succeeded
	claim
	assert_equal "$claimed" ''
}

@test "of two runs of a key in one claim the newer starts, in whatever order they are due" {
	for later in one two; do
		q "delete from jobrun.job_attempts" "delete from jobrun.job_runs"
		one=$(new)
		started "$one"
		two=$(new)
		ends "$one" failed
		q "update jobrun.job_runs set run_at = now() - interval '1 hour' where id = ${!later}"
		claim
		assert_equal "$claimed" "$two"
		superseded "$one" "$two"
		ends "$two" succeeded
	done
}

@test "a retry behind a newer run that is running or has succeeded ends and does not start" {
	for newer in running succeeded; do
		q "delete from jobrun.job_attempts" "delete from jobrun.job_runs"
		one=$(new)
		started "$one"
		two=$(new)
		started "$two"
		[ "$newer" = running ] || ends "$two" succeeded
		ends "$one" failed
		claim
		assert_equal "$claimed" ''
		superseded "$one" "$two"
		assert_equal "$(field "$one" claim_seq)" 1
		q_is 1 "select count(*) from jobrun.job_attempts where run_id = $one"
	done
}

@test "superseded runs in a claim do not use up its limit" {
	one=$(new)
	started "$one"
	two=$(new)
	started "$two"
	ends "$one" failed
	q "update jobrun.job_runs set run_at = now() - interval '1 hour' where id = $one"
	other=$(q "select jobrun.enqueue('t')") another=$(q "select jobrun.enqueue('t')")
	claim 2
	assert_equal "$claimed" "$other $another"
	superseded "$one" "$two"
}

@test "a newer run that is put off, cancelled, dead, expired, or was started before supersedes nothing" {
	one=$(new)
	started "$one"
	two=$(new keep "run_in => '30 days'")
	ends "$one" failed
	claim
	assert_equal "$claimed" "$one"
	ends "$one" failed
	q "select jobrun.cancel($two)" >/dev/null
	claim
	assert_equal "$claimed" "$one"
	two=$(new) # while one runs
	started "$two"
	ends "$two" dead
	ends "$one" failed
	claim
	assert_equal "$claimed" "$one"
	# Tried before, and waiting for people's sake; then they cancel it.
	q "select jobrun.retry($two)" "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $two" >/dev/null
	ends "$one" failed
	claim
	assert_equal "$claimed" "$one"
	q "select jobrun.cancel($two)" >/dev/null
	# Expired in the same claim, which takes it for its end alone.
	two=$(new keep "expires_in => '1 hour'")
	q "update jobrun.job_runs set created_at = now() - interval '3 hours', run_at = now() - interval '2 hours',
		expires_at = now() - interval '1 hour' where id = $two"
	ends "$one" failed
	claim
	assert_equal "$claimed" "$two $one"
	assert_equal "$(q "select expired from jobrun.held_runs where id = $two")" t
	# And so while it has not been ended yet.
	ends "$one" failed
	claim
	assert_equal "$claimed" "$one"
}

@test "an expired run that is claimed to be ended ends no other run of its key" {
	one=$(failed_once)
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $one"
	two=$(new replace "expires_in => '1 hour'")
	assert_not_equal "$two" "$one"
	q "update jobrun.job_runs set created_at = now() - interval '3 hours', run_at = now() - interval '2 hours',
		expires_at = now() - interval '1 hour' where id = $two"
	claim
	assert_equal "$claimed" "$two"
	run_is "$one" failed
	ends "$two" dead
	run_is "$one" failed
}

@test "a claim of an expired run takes that run alone, even when an older one of its key is due" {
	one=$(failed_once)
	two=$(new replace "expires_in => '1 hour'")
	q "update jobrun.job_runs set created_at = now() - interval '3 hours', run_at = now() - interval '2 hours',
		expires_at = now() - interval '1 hour' where id = $two"
	claim 1
	assert_equal "$claimed" "$two"
	run_is "$one" failed
	ends "$two" dead
	claim 1
	assert_equal "$claimed" "$one"
	ends "$one" succeeded
}

@test "when two clients keep runs of a key and the older fails, the newer starts only after both have committed" {
	stalls
	one=$(new)
	started "$one"
	hold 'select pg_advisory_lock(1)'
	client "set test.stall = 'on'; $(ask)" # it has seen nothing that waits
	wait_until 10 waiting_for_lock 1
	ends "$one" failed
	hold "$(ask)"
	assert_equal "$(grep -E '^[0-9]+$' "$BATS_TEST_TMPDIR/hold.1.out")" "$one"
	say 'select pg_advisory_unlock(1)' 0
	end_client
	two=$(<"$TMPDIR/client")
	assert_not_equal "$two" "$one"
	# It is left out, by its queue's name; and so is the older one.
	claim
	assert_equal "$claimed" default
	run_is "$two" queued
	say commit 1
	claim
	assert_equal "$claimed" "$two"
	superseded "$one" "$two"
}

@test "a retry is left out while a newer one is being started" {
	one=$(failed_once)
	two=$(new replace)
	hold "select 1 from jobrun.job_runs where id = $two for no key update"
	claim
	assert_equal "$claimed" default
	run_is "$one" failed
	say rollback
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $two"
	claim
	assert_equal "$claimed" "$one"
}

@test "a run that ran while a client waited to keep it is not kept, nor is a newer one that started meanwhile" {
	one=$(failed_once)
	hold "select 1 from jobrun.job_runs where id = $one for no key update"
	client "$(ask)"
	wait_until 10 waiting_for_lock 1
	# In the transaction that the client waits for: one runs, two starts behind it, one fails again.
	say "select id from jobrun.claim_job(7, 'h', $one, 60000, '{t}', 101)"
	say "$(ask)"
	two=$(grep -E '^[0-9]+$' "$BATS_TEST_TMPDIR/hold.0.out" | tail -n 1)
	say "select id from jobrun.claim_job(7, 'h', $two, 60000, '{t}', 102)"
	say "$(ends_sql "$one" failed)"
	say commit
	end_client
	three=$(<"$TMPDIR/client")
	[ "$three" -gt "$two" ]
	claims=102
	claim
	assert_equal "$claimed" "$three"
	superseded "$one" "$three"
	run_is "$two" running
}

@test "a stale run is not kept: behind a newer one that is running or has succeeded a new run is queued" {
	one=$(new)
	started "$one"
	two=$(new)
	started "$two"
	ends "$one" failed
	assert_equal "$(new unless_running)" "$two"
	three=$(new)
	[ "$three" -gt "$two" ]
	run_is "$one" failed
	ends "$two" succeeded
	assert_equal "$(new)" "$three"
}

@test "--replace of a run that had an attempt queues a new run, with a new JOBRUN_KEY and no checkpoint" {
	handler t <<'sh'
echo "$JOBRUN_RUN_ID $JOBRUN_KEY $(cat) $(cat "$JOBRUN_CHECKPOINT" 2>/dev/null || echo none)" >>"$TMPDIR/started"
echo '{"checkpoint": "half"}' >>"$JOBRUN_OUT"
[ -e "$TMPDIR/well" ]
sh
	one=$(enqueue t '{"v":1}' --unique k --backoff 0)
	jr_ok run --max-runs 1
	run_is "$one" failed
	jr_ok enqueue t '{"v":2}' --unique k --replace --json
	two=$(jq .id <<<"$output")
	assert_equal "$(jq -c '[.created, .replaced]' <<<"$output")" '[true,false]'
	assert_not_equal "$two" "$one"
	# That one was not tried yet.
	assert_equal "$(enqueue t '{"v":3}' --unique k --replace)" "$two"
	touch "$TMPDIR/well"
	jr_ok run
	assert_equal "$(cut -d ' ' -f 1,3- "$TMPDIR/started")" "$one {\"v\": 1} none
$two {\"v\": 3} none"
	assert_equal "$(cut -d ' ' -f 2 "$TMPDIR/started" | sort -u | wc -l)" 2
	superseded "$one" "$two"
	jr_ok list
	assert_regex "$output" "$one t +cancelled +1/5 .* superseded by run $two"
	jr_ok show "$one"
	assert_regex "$output" "status +cancelled, superseded by run $two"
	jr_ok show "$one" --json
	assert_equal "$(jq -c '[.status, .error_code, .superseded_by]' <<<"$output")" "[\"cancelled\",\"superseded\",$two]"
}

@test "three clients that replace while older runs fail do not deadlock, and the last one wins" {
	one=$(failed_once)
	hold "$(ask replace)"
	client "set deadlock_timeout = '100ms'; $(ask replace)"
	wait_until 10 waiting_for_lock 1
	two=$(grep -E '^[0-9]+$' "$BATS_TEST_TMPDIR/hold.0.out")
	say commit
	end_client
	assert_equal "$client_status" 0
	assert_equal "$(<"$TMPDIR/client")" "$two"
	started "$two"
	superseded "$one" "$two"
	ends "$two" failed
	three=$(new replace)
	claim
	assert_equal "$claimed" "$three"
	superseded "$two" "$three"
}

@test "a kept run expires no earlier than each of those that asked for it" {
	one=$(new keep "expires_in => '1 hour'")
	assert_equal "$(new keep "expires_in => '1 minute'")" "$one"
	q_is t "select expires_at > now() + interval '59 minutes' from jobrun.job_runs"
	assert_equal "$(new keep "expires_in => '2 hours'")" "$one"
	q_is t "select expires_at > now() + interval '119 minutes' from jobrun.job_runs"
	assert_equal "$(new)" "$one"
	q_is t 'select expires_at is null from jobrun.job_runs'
	assert_equal "$(new keep "expires_in => '1 hour'")" "$one"
	q_is t 'select expires_at is null from jobrun.job_runs'
	# Nothing to move: who keeps it does not wait for another who does.
	hold "$(ask)"
	q "set lock_timeout = '2s'" "$(ask keep "expires_in => '1 hour'")" >/dev/null
}

@test "of two clients that keep a run, one may move its expiry while the other waits" {
	one=$(new keep "expires_in => '1 hour'")
	hold "$(ask)"
	client "$(ask keep "expires_in => '2 hours'")"
	wait_until 10 waiting_for_lock 1
	say commit
	end_client
	assert_equal "$(<"$TMPDIR/client")" "$one"
	q_is t 'select expires_at is null from jobrun.job_runs'
}

# late_id LEVEL: an enqueue that draws its id, and inserts the row when a later one of the key has succeeded.
late_id() {
	stalls
	hold 'select pg_advisory_lock(1)'
	client "begin isolation level $1; select 1 as x \\gset
set test.stall = 'on'; $(ask); commit"
	wait_until 10 waiting_for_lock 1
	later=$(new)
	started "$later"
	ends "$later" succeeded
	say 'select pg_advisory_unlock(1)'
	end_client
	assert_equal "$client_status" 0
	late=$(<"$TMPDIR/client")
	[ "$late" -gt "$later" ]
	run_is "$late" queued
	# It is the newest, and so it is tried again.
	started "$late"
	ends "$late" failed
	claim
	assert_equal "$claimed" "$late"
}

@test "an id that was drawn before that of a run which has succeeded is drawn anew, read committed" {
	late_id 'read committed'
}

@test "an id that was drawn before that of a run which has succeeded is drawn anew, repeatable read" {
	late_id 'repeatable read'
}

@test "an id that was drawn before that of a run which has succeeded is drawn anew, serializable" {
	late_id serializable
}

@test "in repeatable read a run superseded since the snapshot raises 40001, and any other is kept" {
	one=$(failed_once)
	hold 'set transaction isolation level repeatable read; select 1'
	two=$(new replace)
	started "$two"
	superseded "$one" "$two"
	printf '\\set VERBOSITY verbose\n\\unset ON_ERROR_STOP\n' >&"${hold_fds[0]}"
	say "$(ask)"
	assert_equal "$(grep -c 'ERROR:  40001' "$BATS_TEST_TMPDIR/hold.0.out")" 1
	say rollback
	ends "$two" failed
	hold 'set transaction isolation level repeatable read; select 1'
	say "$(ask)"
	assert_equal "$(grep -cx "$two" "$BATS_TEST_TMPDIR/hold.1.out")" 1
	claim
	assert_equal "$claimed" ''
	say commit
	claim
	assert_equal "$claimed" "$two"
}

@test "--job of a superseded retry ends it, and --job of a run whose key is locked takes nothing" {
	handler t <<<'exit 0'
	one=$(failed_once)
	two=$(new replace)
	hold "select 1 from jobrun.job_runs where id = $two for share"
	jr run --job "$one"
	run_is "$one" failed
	say rollback
	jr run --job "$two"
	run_is "$two" succeeded
	superseded "$one" "$two"
	jr run --job "$one"
	superseded "$one" "$two"
}

@test "of hundreds of runs of a key that people retried one claim starts the newest that is due and ends the others" {
	q "insert into jobrun.job_runs (job_type, unique_key, status, claim_seq, attempts, max_attempts, started_at, finished_at, error_code)
			select 't', 'k', 'dead', 1, 1, 1, now(), now(), 'x' from generate_series(1, 300)" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code)
			select id, 1, 1, 'failed', 'x' from jobrun.job_runs" \
		"select from (select jobrun.retry(id) from jobrun.job_runs) r"
	newest=$(q "select max(id) from jobrun.job_runs")
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $newest" \
		"update jobrun.job_runs set queue = 'other' where id = $newest - 1"
	claim
	assert_equal "$claimed" $((newest - 2))
	q_is 297 "select count(*) from jobrun.job_runs where error_code = 'superseded' and superseded_by = $newest - 2"
	q_is 2 "select count(*) from jobrun.job_runs where id > $newest - 2 and status = 'queued'"
}

@test "--job starts the run that it names, though a newer one is due" {
	one=$(failed_once)
	two=$(new replace)
	assert_not_equal "$two" "$one"
	started "$one"
	run_is "$two" queued
}

@test "only runs that start count against a rate; superseded and skipped ones use no room" {
	jr_ok queue default --rate 2/1h
	one=$(new)
	started "$one"
	two=$(new)
	ends "$one" failed
	jr_ok queue default --rate 3/1h
	other=$(q "select jobrun.enqueue('t')")
	jr_ok queue default --max-running 1
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $one"
	hold "select 1 from jobrun.job_runs where id = $one for share"
	claim
	assert_equal "$claimed" "$other default"
	say rollback
	ends "$other" succeeded
	claim
	assert_equal "$claimed" "$two"
	superseded "$one" "$two"
	# one was the first, before the queue had a rate that counted: then two claims of it
	q_is '3' 'select rate_used from jobrun.job_queues'
}

@test "a tick asks again for a moment for runs whose key was locked, and other runs of the queue go on" {
	handler t <<<'exit 0'
	one=$(failed_once)
	two=$(new replace)
	q "select jobrun.enqueue('t') from generate_series(1, 30)" >/dev/null
	hold "select 1 from jobrun.job_runs where id = $one for share"
	bg_runner -v -j 2
	wait_until 10 grep -q queue_left_out "$runner_err"
	wait_until 10 q_is 30 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	run_is "$two" queued
	say rollback
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$two" succeeded
	superseded "$one" "$two"
	# Not for ever.
	two=$(new)
	started "$two"
	three=$(new)
	ends "$two" failed
	hold "select 1 from jobrun.job_runs where id = $two for share"
	jr_ok run
	run_is "$three" queued
}

@test "retry of a superseded run names the newer one, and --force runs it without its key" {
	one=$(failed_once)
	two=$(new replace)
	started "$two"
	for state in 'is running' 'has succeeded'; do
		jr retry "$one"
		assert_equal "$status" 1
		assert_equal "$output" ''
		assert_line_of_stderr "jobrun: run $one is superseded by run $two, which $state; to run it all the same, without its unique key: jobrun retry --force $one"
		jr retry --json "$one"
		assert_equal "$(jq -c '.runs[0] | [.id, .retried, .superseded_by]' <<<"$output")" "[$one,false,$two]"
		jr retry -n "$one" "$two"
		assert_equal "$status" 1
		assert_line_of_stderr "jobrun: run $one is superseded by run $two, which $state; to run it all the same, without its unique key: jobrun retry --force $one"
		assert_equal "$output" ''
		superseded "$one" "$two"
		ends "$two" succeeded
	done
	jr_ok retry -n --force --json "$one"
	assert_equal "$(jq -c '[.kinds[0] | .status, .count]' <<<"$output")" '["cancelled",1]'
	jr_ok retry --status cancelled
	assert_equal "$output" 'retried 0 runs'
	assert_regex "$stderr" '1 run was left alone: .*superseded'
	jr_ok retry --force "$one"
	assert_equal "$(field "$one" 'status, unique_key is null, superseded_by is null, claim_seq')" 'queued|t|t|1'
	claim
	assert_equal "$claimed" "$one"
}

@test "retry of the newest run of a key works even when older ones exist" {
	one=$(failed_once)
	two=$(new replace)
	started "$two"
	ends "$two" dead
	jr_ok retry "$one"
	assert_equal "$(field "$one" 'status, unique_key, superseded_by is null')" 'queued|k|t'
	jr_ok retry "$two"
	claim
	assert_equal "$claimed" "$two"
	superseded "$one" "$two"
	ends "$two" succeeded
	jr_ok retry --force "$two"
	assert_equal "$(field "$two" unique_key)" k
}

@test "a run that was cancelled before its first claim and retried keeps its key, and ends when a newer one starts" {
	handler sync <<<'cat'
	one=$(enqueue sync '{"n": 1}' --unique shop)
	jr_ok cancel "$one"
	jr_ok retry "$one"
	assert_equal "$(field "$one" 'status, unique_key, claim_seq, attempts')" 'queued|shop|1|0'
	two=$(enqueue sync '{"n": 2}' --unique shop --replace -p 5)
	assert_not_equal "$two" "$one"
	jr_ok run
	superseded "$one" "$two"
	run_is "$two" succeeded
	q_is 1 'select count(*) from jobrun.attempts'
	# once more, with a newer one that waits already, and a worse priority
	three=$(enqueue sync '{"n": 3}' --unique shop)
	jr_ok cancel "$three"
	four=$(enqueue sync '{"n": 4}' --unique shop -p 500)
	jr_ok retry "$three"
	jr_ok run
	superseded "$three" "$four"
	run_is "$four" succeeded
	q_is 2 'select count(*) from jobrun.attempts'
}

@test "a run that was cancelled before its first claim and retried is kept by keep and unless_running, and replace adds one" {
	one=$(new)
	jr_ok cancel "$one"
	jr_ok retry "$one"
	assert_equal "$(new keep)" "$one"
	assert_equal "$(new unless_running)" "$one"
	two=$(new replace)
	assert_not_equal "$two" "$one"
	for mode in keep unless_running replace; do
		assert_equal "$(new "$mode")" "$two"
	done
	# again and again: that does not raise its number
	jr_ok cancel "$one"
	jr_ok retry "$one"
	jr_ok retry "$one"
	assert_equal "$(field "$one" 'status, unique_key, claim_seq')" 'queued|k|1'
	claim
	assert_equal "$claimed" "$two"
	superseded "$one" "$two"
	assert_equal "$(new unless_running)" "$two"
	ends "$two" dead
	jr_ok retry "$one"
	claim
	assert_equal "$claimed" "$one"
	assert_equal "$(field "$one" 'unique_key, attempts, claim_seq')" 'k|1|2'
	ends "$one" succeeded
}

@test "of two cancelled runs of a key that are retried in bulk the newest starts, and ends the other" {
	one=$(new)
	jr_ok cancel "$one"
	two=$(new)
	jr_ok cancel "$two"
	jr_ok retry --status cancelled
	assert_equal "$output" 'retried 2 runs'
	claim
	assert_equal "$claimed" "$two"
	superseded "$one" "$two"
	ends "$two" succeeded
	jr retry "$one"
	assert_regex "$stderr" "run $one is superseded by run $two, which has succeeded"
}

@test "wait follows the run that superseded the one it was asked for" {
	one=$(failed_once)
	two=$(new replace)
	"$JOBRUN" wait "$one" >out 2>err 3>&- 4>&- &
	waiter=$!
	runner_pids+=("$waiter") # teardown ends it
	started "$two"
	superseded "$one" "$two"
	sleep 0.3 # time for wait to look once while run two is running
	ends "$two" failed
	three=$(new replace)
	started "$three"
	q "update jobrun.job_runs set result = '{\"rows\": 3}' where id = $three"
	ends "$three" succeeded
	wait_runner "$waiter" 15
	assert_equal "$runner_status" 0
	assert_equal "$(cat out)" '{"rows": 3}'
	assert_equal "$(cat err)" "jobrun: run $one was superseded by run $three, which stands for it"
	jr_ok wait --json "$one" "$three" "$one"
	assert_equal "$(jq -c '[.runs[] | [.id, .in_place_of, .status]]' <<<"$output")" \
		"[[$three,$one,\"succeeded\"],[$three,null,\"succeeded\"],[$three,$one,\"succeeded\"]]"
	# Its exit status is that of the newer one; and if that has gone, of what is left.
	four=$(new)
	started "$four"
	five=$(new)
	ends "$four" failed
	jr wait --timeout 0 "$four"
	assert_equal "$status" 75
	started "$five"
	jr wait --timeout 0 "$four"
	assert_equal "$status" 75
	assert_line_of_stderr "jobrun: run $four was superseded by run $five, which stands for it"
	assert_line_of_stderr "jobrun: run $five (t) is not over after 0s: it is running"
	ends "$five" dead
	jr wait "$four"
	assert_equal "$status" 1
	assert_line_of_stderr "jobrun: run $five (t) is dead after 1 of 9 attempts; look with jobrun logs $five"
	q "delete from jobrun.job_attempts where run_id = $five" "delete from jobrun.job_runs where id = $five"
	jr wait "$four"
	assert_equal "$status" 1
	assert_equal "$stderr" "jobrun: run $four (t) is cancelled: superseded by run $five"
}

@test "wait of a role that may only enqueue does not follow to a run of another role" {
	role=app_$JR_DATABASE
	make_role "$role"
	q "select jobrun.add_grant('enqueue', '$role')" >/dev/null
	one=$(failed_once)
	q "update jobrun.job_runs set created_by = '$role'"
	two=$(new replace)
	started "$two"
	jr wait -d "$(url_of "$role")" "$one"
	assert_equal "$status" 1
	assert_equal "$stderr" "jobrun: run $one (t) is cancelled: superseded by run $two"
}

@test "logs -f follows the run that superseded the one it was asked for" {
	handler t <<<'echo "this is $JOBRUN_RUN_ID"; [ -e "$TMPDIR/well" ]'
	one=$(enqueue t --unique k --backoff 0)
	jr_ok run --max-runs 1
	bg_jobrun logs -f "$one"
	wait_until 10 grep -q "this is $one" "$runner_out"
	two=$(enqueue t --unique k --replace)
	touch "$TMPDIR/well"
	jr_ok run
	superseded "$one" "$two"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(cat "$runner_err")" "-- run $one was superseded by run $two"
	jr_ok logs -f "$two"
	assert_equal "$(tail -n +2 "$runner_out")" "$output"
	jr_ok logs "$one"
	assert_equal "$output" "this is $one"
}

# prunable: two runs of the key, the older one not succeeded, the newer one succeeded long ago.
prunable() {
	one=$(new)
	started "$one"
	two=$(new)
	started "$two"
	ends "$two" succeeded
	q "update jobrun.settings set stats_until = date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'"
	age "$two"
}

age() {
	q "update jobrun.job_runs set created_at = now() - interval '400 days', finished_at = now() - interval '399 days' where id = $1"
}

is_there() {
	q_is 1 "select count(*) from jobrun.job_runs where id = $1"
}

@test "prune keeps the newest success of a key while an older run of it has not succeeded" {
	for archive in false true; do
		q "delete from jobrun.job_attempts" "delete from jobrun.job_runs" "update jobrun.settings set archive = $archive"
		prunable
		jr_ok prune
		is_there "$two"
		ends "$one" failed
		jr_ok prune
		is_there "$two"
		# Not the newest run of any kind: one that is no success supersedes nothing.
		three=$(new)
		started "$three"
		ends "$three" dead
		jr_ok prune
		is_there "$two"
		q "update jobrun.job_runs set status = 'failed', finished_at = null, superseded_by = null, error_code = null where id = $one"
		claim
		assert_equal "$claimed" ''
		superseded "$one" "$two"
		# A newer success supersedes in its place.
		four=$(new)
		started "$four"
		ends "$four" succeeded
		jr_ok prune -n
		jr_ok prune
		q_is 0 "select count(*) from jobrun.job_runs where id = $two"
		age "$four"
		jr_ok prune
		is_there "$four"
		# All older ones gone, or succeeded: so may this one go.
		q "delete from jobrun.job_attempts where run_id in ($one, $three)" "delete from jobrun.job_runs where id in ($one, $three)"
		jr_ok prune
		q_is 0 "select count(*) from jobrun.job_runs where id = $four"
	done
}

@test "runs without keys are pruned as before, and so are all but the newest of a key" {
	for key in null "'k'" "'k'"; do
		q "insert into jobrun.job_runs (job_type, unique_key, status, claim_seq, attempts, created_at, started_at, finished_at)
			values ('t', $key, 'succeeded', 1, 1, now() - interval '400 days', now() - interval '400 days', now() - interval '399 days')"
	done
	q "update jobrun.settings set stats_until = date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'"
	jr_ok prune
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "a run that was claimed in time, not started, and adopted later does not expire" {
	one=$(new keep "expires_in => '1 hour'")
	started "$one"
	q "update jobrun.job_runs set created_at = now() - interval '2 hours', run_at = now() - interval '2 hours',
		started_at = now() - interval '1 minute', expires_at = now() - interval '1 second'"
	q_is f 'select expired from jobrun.held_runs'
}

@test "a newer run of a paused definition does not start in the place of an older one of its unique key" {
	handler t <<<'exit 0'
	q "insert into jobrun.job_definitions (name, job_type, paused_until) values ('nightly', 't', 'infinity')" \
		"insert into jobrun.job_runs (job_type, unique_key, status, claim_seq, attempts) values ('t', 'k', 'failed', 1, 1)" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select id, 1, 1, 'failed' from jobrun.job_runs" \
		"insert into jobrun.job_runs (job_type, unique_key, definition_id) select 't', 'k', d.id from jobrun.job_definitions d where d.name = 'nightly'"
	jr_ok run
	q_is '1|succeeded 2|queued' "select string_agg(id || '|' || status, ' ' order by id) from jobrun.job_runs"
	jr_ok resume --definition nightly
	jr_ok run
	q_is '1|succeeded 2|succeeded' "select string_agg(id || '|' || status, ' ' order by id) from jobrun.job_runs"
}
