#!/usr/bin/env bats
# Limits of queues hold, for all hosts together: max_running, --per-key, --rate.

load ../lib/common
load ../lib/sql

# add TYPE QUEUE KEY [N]: enqueue N runs with a concurrency key ('' : none); their payload is the key.
add() {
	q "select count(jobrun.enqueue('$1', to_jsonb('$3'::text), queue => '$2', concurrency_key => nullif('$3', ''))) from generate_series(1, ${4:-1})" >/dev/null
}

# witness NAME: a handler that counts how many are in the room with it, all of them and those of its key.
witness() {
	mkdir -p "$TMPDIR/room"
	handler "$1" <<-'sh'
		read -r key
		key=${key#\"}
		key=${key%\"}
		mkdir -p "$TMPDIR/room/key.$key"
		: >"$TMPDIR/room/key.$key/$JOBRUN_RUN_ID"
		set -- "$TMPDIR"/room/key.*/*
		echo "$#" >>"$TMPDIR/seen"
		set -- "$TMPDIR/room/key.$key"/*
		echo "$#" >>"$TMPDIR/seen.$key"
		sleep 0.05 # time for others to run beside it
		rm "$TMPDIR/room/key.$key/$JOBRUN_RUN_ID"
	sh
}

# host N: ticks with permits of its own, one after the other, until nothing is left.
host() {
	until nothing_is_open 2>/dev/null; do
		run_jobrun run -j 6 --state-dir "$BATS_TEST_TMPDIR/host.$1" || return
	done
}

# Four hosts at once do all there is.
four_hosts() {
	local n pids=() pid

	for n in 1 2 3 4; do
		host "$n" >"$TMPDIR/host.$n.out" 2>&1 3>&- &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "a host failed: $(cat "$TMPDIR"/host.*.out)"
	done
}

@test "max_running holds for all hosts together" {
	witness work
	jr_ok queue narrow --max-running 3
	add work narrow '' 40
	four_hosts
	q_is '40|40' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(wc -l <"$TMPDIR/seen")" 40
	assert [ "$(largest "$TMPDIR/seen")" -le 3 ]
}

# A claim that is not yet committed counts: who comes meanwhile leaves the queue out, and sees it when it asks again.
claim_in_between() {
	waiting_handler work
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')"
	hold "select from jobrun.claim(77, 'other', 2, '{work}', '{narrow}', '{100}', null, null, null, 60000, 1)"
	bg_runner -j 10 -v
	wait_until 10 grep -q 'queue_left_out.*queue=narrow' "$runner_err"
	running_are 0
	printf 'commit;\n' >&"${hold_fds[-1]}"
	wait_until 10 running_are 3
	touch "$TMPDIR/go"
	wait_runner
	q_is 0 "select count(*) from jobrun.job_runs where claim_seq > 1"
}

@test "max_running counts what another runner has claimed and not committed" {
	jr_ok queue narrow --max-running 3
	add work narrow '' 8
	claim_in_between
}

@test "the limit of a lock key counts what another runner has claimed and not committed" {
	jr_ok queue narrow --per-key 3
	add work narrow k 8
	claim_in_between
}

@test "a rate counts what another runner has claimed and not committed" {
	jr_ok queue narrow --rate 3/1h
	add work narrow '' 8
	claim_in_between
	q_is '3|1' "select rate_used, (select count(*) from jobrun.job_runs where status = 'succeeded') from jobrun.job_queues"
}

@test "a run that max_running holds back does not keep a tick, and starts when there is room" {
	waiting_handler work
	jr_ok queue narrow --max-running 2
	add work narrow '' 5
	add work default '' 1
	bg_runner -j 10
	wait_until 10 running_are 3
	waiting=$(q "select max(id) from jobrun.job_runs where status = 'queued'")
	before=$(untouched "$waiting")
	jr_ok run -j 10 --state-dir "$BATS_TEST_TMPDIR/other"
	assert_equal "$output$stderr" ''
	running_are 3
	assert_equal "$(untouched "$waiting")" "$before"
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	q_is '6|6' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
}

@test "a limit of 0 lets no run start, and --job keeps to limits too" {
	handler work <<<'exit 0'
	jr_ok queue closed --max-running 0
	add work closed '' 1
	jr_ok run
	jr run --job 1
	q_is 'queued|0' 'select status, claim_seq from jobrun.job_runs'
	jr_ok queue closed --max-running none
	jr_ok run
	run_is 1 succeeded
}

@test "--job says which limit holds the run back, and the limit of a lock key counts what exec runs" {
	waiting_handler work
	add work mail ada 2
	jr_ok define backup --queue mail --lock ada
	bg_jobrun exec backup -- sh -c 'echo up >>"$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	wait_until 10 up_is 1
	jr run --job 1
	assert_equal "$status$output" 75
	assert_equal "$stderr" 'jobrun: run 1 was not started: lock key ada is taken, 1 of 1 run in queue mail (3)'
	jr_ok queue mail --max-running 1
	jr run --job 2
	assert_equal "$status" 75
	assert_equal "$stderr" 'jobrun: run 2 was not started: queue mail is full, 1 of 1 run (3)'
	jr_ok queue mail --max-running none --rate 1/1h
	touch "$TMPDIR/go"
	wait_runner
	jr_ok run --job 1
	jr run --job 2
	assert_equal "$status" 75
	assert_regex "$stderr" '^jobrun: run 2 was not started: queue mail has started 1 of 1 in 1h, more from 20[0-9TZ:-]+$'
	run_is 2 queued
	q_is 0 "select claim_seq from jobrun.job_runs where id = 2"
}

@test "--job of a run with a unique key keeps to the limits, and waits for a locked run of its key" {
	handler work <<<'exit 0'
	jr_ok queue mail --max-running 0
	jr_ok enqueue work --queue mail --unique k
	jr run --job 1
	assert_equal "$status$stderr" '75jobrun: run 1 was not started: queue mail lets no run start: its max-running is 0'
	run_is 1 queued
	jr_ok queue mail --max-running none
	hold "select from jobrun.job_runs where id = 1 for share"
	q "insert into jobrun.job_runs (job_type, queue, unique_key, status, claim_seq, attempts, failed_at)
		values ('work', 'mail', 'k', 'failed', 1, 1, now())" "insert into jobrun.job_attempts
		(run_id, claim_seq, attempt, outcome, started_at, finished_at) values (2, 1, 1, 'failed', now(), now())" >/dev/null
	bg_runner -v --job 2
	wait_until 10 grep -q 'locked queue=mail' "$runner_err"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	q_is '1|cancelled|superseded,2|succeeded|' "select string_agg(concat_ws('|', id, status, coalesce(error_code, '')), ',' order by id) from jobrun.job_runs"
}

@test "--job waits up to five seconds for the locked row of the queue, and TERM ends that at once" {
	local before

	lock_mail
	add work mail '' 1
	bg_runner --job 1 --lease 2s
	sleep 1 # it waits all that time
	run_is 1 queued
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	run_is 1 succeeded
	assert_equal "$(cat "$runner_err")" ''

	add work mail '' 1
	hold "select jobrun.pause(queue => 'mail')"
	before=$(now_ms)
	jr run --job 2
	assert_equal "$status" 75
	assert [ "$(ms_since "$before")" -ge 5000 ]
	assert_regex "$stderr" '^jobrun: somebody else has had queue mail, or a run with the same unique key, locked for 5 s: .*; run 2 was not started$'
	bg_runner -v --job 2
	wait_until 10 grep -q 'locked queue=mail' "$runner_err"
	before=$(now_ms)
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 75
	assert [ "$(ms_since "$before")" -le 3000 ]
	assert_equal "$(tail -n 1 "$runner_err")" 'jobrun: run 2 was not started: jobrun was told to end'
	# Nor is it crowded out meanwhile when there is no permit for handlers of another kind.
	release_holds
	waiting_handler slow
	add slow default '' 1
	bg_runner -j 1
	wait_until 10 up_is 1
	printf 'select 1 from pg_sleep(0)\n' >"$JOBRUN_HANDLERS/statement.sql"
	add statement mail '' 1
	hold "select from jobrun.job_queues for update"
	bg_runner -j 1 -v --job 4
	wait_until 10 grep -q 'locked queue=mail' "$runner_err"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	run_is 4 succeeded
	touch "$TMPDIR/go"
	wait_until 10 running_are 0
	hold "select jobrun.pause(queue => 'mail')"
	# A run of another queue does not wait, nor one that is over or not there.
	add work default '' 1
	jr_ok run -v --job 5
	refute_regex "$stderr" event=locked
	for id in 1 999; do
		jr run -v --job "$id"
		assert_equal "$status" 1
		refute_regex "$stderr" event=locked
	done
}

@test "one run of a lock key at a time is the default, on all hosts together; other keys do not wait" {
	witness work
	add work default a 12
	add work default b 12
	add work default '' 12
	q_is '1' 'select max_running_per_key from jobrun.job_queues'
	four_hosts
	q_is '36|36' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(largest "$TMPDIR/seen.a")" 1
	assert_equal "$(largest "$TMPDIR/seen.b")" 1
}

@test "enqueue --lock sets the lock key that the limit counts" {
	waiting_handler work
	enqueue work --lock ada
	enqueue work --lock ada
	enqueue work --lock bob
	bg_runner -j 10
	wait_until 10 running_are 2
	jr_ok run -j 10 --state-dir "$BATS_TEST_TMPDIR/other"
	running_are 2
	q_is '1|ada|running
2|ada|queued
3|bob|running' "select id, concurrency_key, status from jobrun.job_runs order by id"
	touch "$TMPDIR/go"
	wait_runner
	nothing_is_open
}

@test "--per-key N lets N of a key run at once" {
	witness work
	jr_ok queue keyed --per-key 2
	add work keyed a 20
	add work keyed b 20
	four_hosts
	assert [ "$(largest "$TMPDIR/seen.a")" -le 2 ]
	assert [ "$(largest "$TMPDIR/seen.b")" -le 2 ]
	q_is '40|40' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
}

@test "a busy lock key holds back no run behind it, and keys are per queue" {
	waiting_handler work
	add work one k 3
	add work two k 3
	add work one other 1
	add work one '' 1
	bg_runner -j 20
	wait_until 10 running_are 4
	jr_ok run -j 20 --state-dir "$BATS_TEST_TMPDIR/other"
	q_is 'one|k|1
one|other|1
one||1
two|k|1' "select queue, concurrency_key, count(*) from jobrun.job_runs where status = 'running' group by 1, 2 order by 1, 2"
	touch "$TMPDIR/go"
	wait_runner
	nothing_is_open
}

@test "a run that an open transaction has locked delays only itself, whatever limits its queue has" {
	handler work <<<:
	jr_ok queue serial --max-running 1 --per-key none
	for key in a b c d; do
		enqueue work --queue serial --unique "$key"
	done
	hold "select jobrun.enqueue('work', queue => 'serial', unique_key => 'a')" # it keeps the first one
	jr_ok queue slow --rate 3/1h
	add work slow '' 6
	hold "select from jobrun.job_runs where id between 5 and 8 for update"
	add work keyed ann 3
	hold "select from jobrun.job_runs where id = 11 for no key update"
	jr_ok run
	q_is '2,3,4,9,10,12,13' "select string_agg(id::text, ',' order by id) from jobrun.job_runs where status = 'succeeded'"
	q_is 2 "select rate_used from jobrun.job_queues where name = 'slow'"
	# Then each starts, once, as far as the rate lets it.
	release_holds
	jr_ok run
	q_is '6,7,8' "select string_agg(id::text, ',' order by id) from jobrun.job_runs where status = 'queued'"
	q_is '10|1|3' "select count(*), max(claim_seq), (select rate_used from jobrun.job_queues where name = 'slow')
		from jobrun.job_runs where status = 'succeeded'"
}

@test "a lock key that a run holds starts no other, also if the first that waits is locked" {
	waiting_handler work
	add work keyed ann 4
	bg_runner
	wait_until 10 up_is 1
	hold "select from jobrun.job_runs where id = 2 for update"
	jr_ok run --state-dir "$BATS_TEST_TMPDIR/other"
	running_are 1
	touch "$TMPDIR/go"
	wait_runner
	q_is '1,3,4' "select string_agg(id::text, ',' order by id) from jobrun.job_runs where status = 'succeeded'"
}

@test "a run that a rate holds back stays due and uncharged, and starts in the next window" {
	handler work <<<'exit 0'
	jr_ok queue slow --rate 3/1h
	add work slow '' 5
	last=$(q 'select max(id) from jobrun.job_runs')
	before=$(untouched "$last")
	jr_ok run
	assert_equal "$output$stderr" ''
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	jr_ok run
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(untouched "$last")" "$before"
	q_is t "select run_at <= now() from jobrun.job_runs where id = $last"
	jr_ok queue slow
	assert_line --index 1 --regexp '^slow +0 +2 +- +1 +3/1h, used 3 +-$'
	q "update jobrun.job_queues set rate_window_start = rate_window_start - interval '1 hour'"
	jr_ok queue slow
	assert_line --index 1 --partial 'used 0'
	jr_ok run
	q_is 5 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
	q_is 2 'select rate_used from jobrun.job_queues'
}

# expired ARG...: enqueue a run that has expired before it could start; print its id.
expired() {
	local id

	id=$(enqueue "$@" --expires 1h)
	q "update jobrun.job_runs set expires_at = run_at where id = $id"
	echo "$id"
}

@test "expired runs use up no rate: they end, and as many as it lets start behind them" {
	handler work <<<'exit 0'
	for jobs in 1 8; do # one after the other, and in one claim
		jr_ok queue "q$jobs" --rate 2/1h
		expired work --queue "q$jobs" >ended
		for key in a b c; do
			expired work --queue "q$jobs" --unique "$jobs$key" >>ended
		done
		enqueue work --queue "q$jobs" >started
		expired work --queue "q$jobs" >>ended
		enqueue work --queue "q$jobs" --unique "$jobs" >>started
		waits=$(enqueue work --queue "q$jobs")
		jr run -j "$jobs"
		q_is "$(<ended)" "select id from jobrun.job_runs where queue = 'q$jobs' and status = 'dead' and error_code = 'expired' order by id"
		q_is "$(<started)" "select id from jobrun.job_runs where queue = 'q$jobs' and status = 'succeeded' order by id"
		q_is "queued|0" "select status, claim_seq from jobrun.job_runs where id = $waits"
		q_is 2 "select rate_used from jobrun.job_queues where name = 'q$jobs'"
	done
}

@test "one claim takes the expired runs before the last start that a rate lets, and looks at no queue whose rate is used up" {
	jr_ok queue mail --rate 1/1h
	first=$(expired work --queue mail)
	second=$(expired work --queue mail --unique a)
	start=$(enqueue work --queue mail)
	behind=$(expired work --queue mail)
	enqueue work --queue mail
	last=$(expired work --queue mail)
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')"
	claim() {
		q "begin; select c.id, c.expired from jobrun.claim(77, 'other', 9, '{work}', '{mail}', '{100}', null, null, null, 60000, 1) c order by c.id;
			select rate_used from jobrun.job_queues; $1"
	}
	assert_equal "$(claim rollback)" "$first|t
$second|t
$start|f
$behind|t
1"
	q "update jobrun.job_queues set rate_used = 1, rate_window_start = now()"
	assert_equal "$(claim rollback)" 1
	# --job is held back by such a rate, too, and an expired run uses up none
	handler work <<<'exit 0'
	jr run --job "$last"
	assert_equal "$status" 75
	q "update jobrun.job_queues set rate_used = 0"
	jr run --job "$last"
	run_is "$last" dead
	jr run --job "$second"
	run_is "$second" dead
	q_is 0 'select rate_used from jobrun.job_queues'
}

@test "a window that begins in the future, because the server's clock was set back, is over" {
	handler work <<<'exit 0'
	jr_ok queue mail --rate 1/1h
	# by claim, by the start of a unique key, and by --job
	for how in 'run' 'run --unique k' 'run --job'; do
		read -r run option key <<<"$how"
		q "update jobrun.job_queues set rate_used = 1, rate_window_start = now() + interval '2 hours'"
		jr_ok queue mail
		assert_line --index 1 --partial 'used 0'
		if [ "$option" = --unique ]; then
			id=$(enqueue work --queue mail --unique "$key")
		else
			id=$(enqueue work --queue mail)
		fi
		if [ "$option" = --job ]; then
			jr_ok "$run" --job "$id"
		else
			jr_ok "$run"
		fi
		run_is "$id" succeeded
		q_is '1|t' 'select rate_used, rate_window_start <= now() from jobrun.job_queues'
	done
}

@test "a claim counts in the window that began after its transaction" {
	handler work <<<'exit 0'
	jr_ok queue mail --rate 1/1h
	add work mail '' 2
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')"
	hold 'select now()'
	jr_ok run
	printf '%s\n' "create table public.taken as
		select c.id from jobrun.claim(77, 'other', 9, '{work}', '{mail}', '{100}', null, null, null, 60000, 1) c; commit;" >&"${hold_fds[-1]}"
	wait_until 10 q_is 0 'select count(*) from public.taken'
	q_is '1|1' "select count(*), sum(q.rate_used) from jobrun.job_runs r join jobrun.job_queues q on q.name = r.queue where r.status = 'succeeded'"
}

@test "a rate holds for all hosts together, window after window" {
	handler work <<<'exit 0'
	jr_ok queue slow --rate 4/1s
	add work slow '' 12
	# One row for each start, in the order of the claims (each locks the queue's row), with the time of its transaction.
	q 'create table public.starts (n bigint generated always as identity, at timestamptz)' \
		"create function public.note() returns trigger language plpgsql as \$\$ begin
			insert into public.starts (at) values (now()); return null; end \$\$" \
		"create trigger note after update on jobrun.job_runs for each row
			when (old.status <> 'running' and new.status = 'running') execute function public.note()"
	four_hosts
	q_is 12 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
	# A window begins with the first start that comes after the end of the last window. A start whose transaction began earlier counts in
	# the current one.
	q_is 4 "with recursive starts as (
			select row_number() over (order by n) as n, at from public.starts),
		windows as (
			select s.n, s.at as begun, 1 as used from starts s where s.n = 1
			union all
			select s.n, case when w.begun + interval '1 second' > s.at then w.begun else s.at end,
				case when w.begun + interval '1 second' > s.at then w.used + 1 else 1 end
			from windows w join starts s on s.n = w.n + 1)
		select max(used) from windows"
}

@test "queues without limits pay nothing: no row of job_queues is locked or written" {
	handler work <<<'exit 0'
	jr_ok queue free --per-key none
	jr_ok queue limited --max-running 5
	add work free '' 3
	before=$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'free'")
	limited=$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'limited'")
	jr_ok run
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'free'")" "$before"
	assert_equal "$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'limited'")" "$limited"
	# The other side of it: with a limit it is locked.
	add work limited '' 1
	jr_ok run
	[ "$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'limited'")" != "$limited" ]
	# And the row of a free queue in somebody else's hands stops nobody.
	add work free '' 1
	hold "select from jobrun.job_queues for update"
	jr_ok run
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
}

# --- a queue whose row somebody else has locked ---

# lock_mail: as people do who pause it and leave their transaction open. Its limit is not used up.
lock_mail() {
	handler work <<<'exit 0'
	jr_ok queue mail --max-running 5
	jr_ok queue limited --max-running 5
	jr_ok queue another --rate 100/1h
	hold "select jobrun.pause(queue => 'mail')"
}

@test "runs of other queues start at once beside a locked queue, and the tick ends as if that queue were full" {
	lock_mail
	add work mail '' 2
	add work limited '' 10
	add work another '' 10
	add work default '' 10
	bg_runner -j 3 -v
	wait_runner
	assert_equal "$runner_status" 0
	# It has waited for the locked queue after the others, and for five seconds.
	q_is '30|t' "select count(*), n.finished_at - max(r.finished_at) between interval '4.5 s' and interval '10 s'
		from jobrun.job_runs r, jobrun.job_runners n where r.status = 'succeeded' and r.queue <> 'mail' group by n.finished_at"
	q_is '2|0' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'queued'"
	# Nothing is said without -v.
	jr run -j 3
	assert_equal "$status$output$stderr" 0
	release_holds
	jr_ok run
	q_is 32 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
}

# times_left_out: how often a claim has found the queue locked.
times_left_out() {
	grep -c "queue_left_out.*queue=$1" "$runner_err" || true
}

# asked_more_often COUNT [QUEUE]: for wait_until.
asked_more_often() {
	[ "$(times_left_out "${2:-mail}")" -gt "$1" ]
}

@test "a locked queue is asked again while others run, and its runs start right after the lock ends" {
	lock_mail
	waiting_handler slow
	add slow default '' 1
	add work mail '' 3
	before=$(now_ms)
	bg_runner -j 3 -v
	wait_until 10 up_is 1
	wait_until 10 asked_more_often 4
	# A pause of 20 ms at the least, and one more when work is looked for.
	count=$(times_left_out mail) spent=$(ms_since "$before")
	assert [ "$count" -le "$((spent / 20 + 5))" ]
	release_holds
	released=$(q 'select now()')
	wait_until 10 q_is 3 "select count(*) from jobrun.job_runs where queue = 'mail' and status = 'succeeded'"
	q_is t "select max(started_at) < timestamptz '$released' + interval '$((2 * patience)) s' from jobrun.job_runs where queue = 'mail'"
	running_are 1
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
}

@test "during a drain a locked queue is asked several times a second, no more, and its runs start before the drain is over" {
	lock_mail
	sql_handler quick <<<'select 1'
	add quick mail '' 3
	add quick default '' 20000
	bg_runner --sql-jobs 2 -v
	wait_until 10 asked_more_often 0
	# The best of three: other tests may have taken the CPUs meanwhile.
	for _ in 1 2 3; do
		before=$(now_ms) count=$(times_left_out mail)
		wait_until 10 asked_more_often "$((count + 5))"
		count=$(($(times_left_out mail) - count)) spent=$(ms_since "$before")
		echo "# asked $count times in $spent ms" >&3
		assert [ "$count" -le "$((spent / 20))" ]
		[ "$count" -lt "$((spent / 500))" ] || break
	done
	assert [ "$count" -ge "$((spent / 500))" ]
	# The drain itself pays nothing but these.
	q_is t "select count(*) > 10 from jobrun.job_runs where queue = 'default' and status = 'succeeded'"
	release_holds
	wait_until 5 q_is 3 "select count(*) from jobrun.job_runs where queue = 'mail' and status = 'succeeded'"
	q_is t "select exists (select from jobrun.job_runs where queue = 'default' and status = 'queued')"
	kill -TERM "$runner_pid"
	wait_runner
}

@test "after its lock a queue does not start before more urgent runs of others" {
	lock_mail
	waiting_handler first
	handler count <<<'echo "$JOBRUN_QUEUE" >> "$TMPDIR/order"; sleep 0.02'
	add first default '' 1
	q "select count(jobrun.enqueue('count', queue => 'mail', priority => 200)) from generate_series(1, 20)" >/dev/null
	q "select count(jobrun.enqueue('count', queue => 'default', priority => 110)) from generate_series(1, 40)" >/dev/null
	bg_runner -j 2 -v
	wait_until 10 asked_more_often 0
	release_holds
	wait_until 20 q_is 60 "select count(*) from jobrun.job_runs where job_type = 'count' and status = 'succeeded'"
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$(head -n 40 "$TMPDIR/order" | sort | uniq -c | tr -s ' ')" ' 40 default'
}

@test "two locked queues are both asked again, whatever kind of handler their runs have" {
	lock_mail
	hold "select jobrun.pause(queue => 'limited')"
	sql_handler quick <<<'select 1'
	add work mail '' 1
	add quick limited '' 1
	bg_runner -v
	wait_until 10 asked_more_often 3
	wait_until 10 asked_more_often 2 limited
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	nothing_is_open
}

@test "after the lock of a queue ends, runs of other queues are found as before" {
	lock_mail
	waiting_handler slow
	handler open <<<'touch "$TMPDIR/open"; until [ -e "$TMPDIR/opened" ]; do sleep 0.01; done'
	add slow default '' 1
	add open default '' 1
	add slow mail '' 1
	bg_runner -j 4 -v
	wait_until 10 up_is 1
	wait_until 10 test -e "$TMPDIR/open"
	wait_until 10 asked_more_often 0
	release_holds
	touch "$TMPDIR/opened"
	wait_until 10 up_is 2
	sleep 0.3 # what the last look has found is not looked at any more
	add work default '' 1
	wait_until 5 q_is 1 "select count(*) from jobrun.job_runs where job_type = 'work' and status = 'succeeded'"
	touch "$TMPDIR/go"
	wait_runner
	nothing_is_open
}

@test "runs of a queue whose lock ends in the last seconds of a tick start in that tick" {
	lock_mail
	add work mail '' 3
	bg_runner
	wait_until 10 q_is 1 'select count(*) from jobrun.job_runners'
	sleep 1 # it has nothing else to do: these are the last five seconds of the tick
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	nothing_is_open
}

@test "a locked queue does not end the drain of another after its five seconds" {
	lock_mail
	handler slow <<<'sleep 0.5' # the drain takes six seconds, and a tick waits five for a locked queue
	add work mail '' 1
	add slow default '' 12
	bg_runner -j 1 -v
	wait_until 10 asked_more_often 0
	wait_until 30 q_is 12 "select count(*) from jobrun.job_runs where queue = 'default' and status = 'succeeded'"
	q_is t "select max(finished_at) - min(started_at) > interval '5.5 s' from jobrun.job_runs where queue = 'default'"
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	nothing_is_open
}

@test "a runner that stays (--for) asks a locked queue as long as it is locked" {
	lock_mail
	add work mail '' 1
	bg_runner --for 60s -v
	wait_until 10 grep -q queue_left_out "$runner_err"
	sleep 6 # a tick would have given up after five seconds
	release_holds
	wait_until 3 nothing_is_open
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
}
