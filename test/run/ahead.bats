#!/usr/bin/env bats
# Claim ahead: while programs end quickly a claim takes more runs than there are permits. Which, and what becomes of those that cannot start.

load ../lib/common
load ../lib/proxy
load ../lib/sql

# --- which, as the claim decides it ---

# due TYPE [COLUMN=VALUE]...: a due run, behind those before it; prints its id.
due() {
	local columns=job_type values="'$1'" one

	for one in "${@:2}"; do
		columns+=", ${one%%=*}"
		values+=", '${one#*=}'"
	done
	q "insert into jobrun.job_runs ($columns) values ($values) returning id"
}

# claim N AHEAD [TYPES [QUEUES [PRIORITIES]]]: which runs a claim takes, as their places in the order in which they were made. Of the
# types only `work` is quick. The combinations are those that candidates gives: each type in each queue.
claim() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'here', 'x') on conflict do nothing"
	claims=$((${claims:-0} + 1))
	q "with due as (select distinct job_type, queue, priority from jobrun.job_runs where finished_at is null),
		c as (select array_agg(job_type) as types, array_agg(queue) as queues, array_agg(priority) as priorities from due)
		select string_agg((select count(*) from jobrun.job_runs r where r.id <= got.id)::text, ' ' order by got.ordinality)
		from c cross join lateral jobrun.claim(7, 'here', $1, c.types, c.queues, c.priorities, null, null, null, 60000, $claims,
			$2, '{work}') with ordinality got where got.id is not null"
}

# cut_at TYPE [COLUMN=VALUE]...: the extras end before such a run.
cut_at() {
	q 'truncate jobrun.job_runs, jobrun.job_attempts'
	due work >/dev/null
	due work >/dev/null
	due "$@" >/dev/null
	due work >/dev/null
	assert_equal "$(claim 1 10)" '1 2'
}

@test "the extras are the next runs in the order of claims, and no more than asked for" {
	for priority in 5 100 5 1; do
		due work priority=$priority >/dev/null
	done
	due work "run_at=$(q "select now() + interval '1 hour'")" >/dev/null
	assert_equal "$(claim 1 2)" '4 1 3'
	q_is '3|1|1' "select count(*), max(attempts), max(claim_seq) from jobrun.job_runs where status = 'running'"
	assert_equal "$(claim 1 0)" 2
}

@test "without the runs that can start there are no extras" {
	due work >/dev/null
	assert_equal "$(claim 2 5)" 1
}

@test "the extras end before a run of a type that is not quick, and the run after it waits with it" {
	cut_at other
}

@test "the extras end before a run from a queue with a limit, also if the queue is locked" {
	q "insert into jobrun.job_queues (name, max_running) values ('limited', 100)"
	cut_at work queue=limited
	hold "select from jobrun.job_queues where name = 'limited' for update"
	cut_at work queue=limited
	release_holds
	q "update jobrun.job_queues set max_running = null, rate_limit = 100, rate_period = '1 hour'"
	cut_at work queue=limited
}

@test "the extras end before a run with a lock key or a unique key" {
	q "insert into jobrun.job_queues (name, max_running_per_key) values ('default', null)"
	cut_at work concurrency_key=k
	cut_at work unique_key=k
}

@test "the extras end before a run on its last attempt" {
	cut_at work max_attempts=1
	cut_at work max_attempts=3 attempts=2 claim_seq=2
	q 'truncate jobrun.job_runs'
	due work >/dev/null
	due work max_attempts=2 >/dev/null
	assert_equal "$(claim 1 10)" '1 2'
}

@test "the extras end before a run that was lost once, whatever came after that" {
	local id

	q 'truncate jobrun.job_runs'
	due work >/dev/null
	id=$(due work status=failed attempts=2 claim_seq=2 "failed_at=$(q 'select now()')")
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($id, 1, 1, 'failed'), ($id, 2, 2, 'failed')"
	assert_equal "$(claim 1 10)" '1 2'
	q "update jobrun.job_runs set status = 'failed', locked_until = null where id = $id" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($id, 3, 3, 'failed')" \
		"update jobrun.job_attempts set outcome = 'lost' where run_id = $id and claim_seq = 1"
	due work "run_at=$(q "select now() - interval '1 hour'")" >/dev/null
	assert_equal "$(claim 1 10)" 3
	assert_equal "$(claim 1 10)" 2
}

@test "what is paused is left out of the extras, and does not end them" {
	local id

	q "insert into jobrun.job_queues (name, paused_until) values ('stopped', 'infinity')" \
		"insert into jobrun.job_types (name, paused_until) values ('other', 'infinity')"
	id=$(q "insert into jobrun.job_definitions (name, job_type, paused_until) values ('paused', 'work', 'infinity') returning id")
	due work >/dev/null
	due work queue=stopped >/dev/null
	due other >/dev/null
	due work "definition_id=$id" >/dev/null
	due work >/dev/null
	assert_equal "$(claim 1 10)" '1 5'
}

@test "a run of a paused definition does not hide the one behind it that ends the extras" {
	local id

	id=$(q "insert into jobrun.job_definitions (name, job_type, paused_until) values ('paused', 'work', 'infinity') returning id")
	q "insert into jobrun.job_queues (name, max_running) values ('limited', 100)"
	due work >/dev/null
	due work queue=limited "definition_id=$id" >/dev/null
	due work queue=limited concurrency_key=k >/dev/null
	due work >/dev/null
	assert_equal "$(claim 1 10)" 1
	assert_equal "$(claim 1 10)" '3 4'
}

@test "a locked run is no extra, and does not end them" {
	due work >/dev/null
	id=$(due work)
	due work >/dev/null
	hold "select from jobrun.job_runs where id = $id for update"
	assert_equal "$(claim 1 10)" '1 3'
	release_holds
}

# --- what the runner does with them ---

# A program that ends at once, but for the payloads that have a part of their own. The same program is the type actor, whose runs are never
# claimed ahead in these tests, since there are fewer than eight: so the runs behind one are claimed together with it.
acting_handler() {
	handler work <<-'sh'
		read -r payload
		echo "$JOBRUN_RUN_ID" >>"$TMPDIR/started"
		case $payload in
		*slow*) sleep 0.06 ;;
		*term*) kill -TERM "$PPID"; echo up >>"$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done ;;
		*kill*) kill -KILL "$PPID"; exec sleep 60 ;;
		*wait*) echo up >>"$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done ;;
		*cancel*) "$JOBRUN_PROGRAM" cancel "$(cat "$TMPDIR/victim")" >/dev/null; sleep 0.6 ;;
		esac
	sh
	cp "$JOBRUN_HANDLERS/work" "$JOBRUN_HANDLERS/actor"
}

# runs N PAYLOAD [TYPE]: enqueue them, and print their ids.
runs() {
	q "select jobrun.enqueue('${3:-work}', '\"$2\"') from generate_series(1, $1)"
}

# extras PAYLOAD: 40 quick runs, one with this payload, the actor, and 3 behind it, whose ids are in the array extras. The quick ones run
# the smallest program there is. It writes nothing: that one has run shows only in its row.
extras() {
	acting_handler
	cp "$(type -P true)" "$JOBRUN_HANDLERS/work.new"
	mv "$JOBRUN_HANDLERS/work.new" "$JOBRUN_HANDLERS/work"
	runs 40 quick >/dev/null
	actor=$(runs 1 "$1" actor)
	mapfile -t extras < <(runs 3 quick)
}

# with_extras PAYLOAD ARGUMENT...: start a runner that claims the actor and the extras together. It does so unless quick runs take longer
# than 33 ms on average, so on a busy machine it is tried again. If the function behind_them is defined, it enqueues what is to wait
# behind them.
with_extras() {
	local tries

	for tries in 1 2 3 4 5; do
		extras "$1"
		! declare -F behind_them >/dev/null || behind_them
		bg_runner -j 1 -v "${@:2}"
		wait_until 60 q_is t "select claim_seq > 0 from jobrun.job_runs where id = $actor"
		[ "$(q "select count(*) from jobrun.job_runs where id between ${extras[0]} and ${extras[2]} and claim_seq > 0")" -lt 3 ] || return 0
		kill -KILL "$runner_pid" 2>/dev/null || true
		wait_runner
		nothing_is_left # or it would write to a file
		q 'truncate jobrun.job_runs, jobrun.job_attempts'
		rm -f "$TMPDIR"/{up,started}
	done
	! programs_are_slow || skip 'programs take longer than 33 ms here'
	fail 'nothing was claimed ahead'
}

# nothing_is_left: wait until no process of the test is left. Whoever looks must not carry the mark.
nothing_is_left() (
	id=$JOBRUN_TEST_ID
	unset JOBRUN_TEST_ID
	wait_until 10 no_marked_processes "$id"
)

# programs_are_slow: does a program as small as the quick ones take so long here that none is claimed ahead?
programs_are_slow() {
	local begin i

	begin=$(now_ms)
	for ((i = 0; i < 40; i++)); do
		"$(type -P true)"
	done
	[ "$(ms_since "$begin")" -gt $((40 * 33 / 2)) ] # a runner does more than this shell
}

# given_back N: so many runs were claimed, not started, not charged, and have no attempt.
given_back() {
	q_is "$1" "select count(*) from jobrun.job_runs r where status = 'queued' and claim_seq > 0 and attempts = 0 and releases = 0
		and not exists (select from jobrun.job_attempts a where a.run_id = r.id)"
}

started() {
	grep -qx "$1" "$TMPDIR/started"
}

@test "of 300 quick runs each starts once, in order with one permit, and many are claimed together" {
	acting_handler
	runs 300 quick >/dev/null
	jr_ok run -j 1
	assert_equal "$(cat "$TMPDIR/started")" "$(q 'select id from jobrun.job_runs order by id')"
	assert_by_status 'succeeded 300'
	q_is '1|1' 'select max(claim_seq), max(attempts) from jobrun.job_runs'
	# Runs that are claimed together have the same start. Where programs take too long, none are.
	[ "$(q 'select count(distinct started_at) from jobrun.job_runs')" -lt 150 ] || programs_are_slow
}

@test "before eight runs of a job type have ended nothing is claimed ahead" {
	acting_handler
	runs 7 quick >/dev/null
	runs 1 term >/dev/null
	runs 3 quick >/dev/null
	bg_runner -j 1
	wait_until 20 up_is 1
	touch "$TMPDIR/go"
	wait_runner
	q_is 3 "select count(*) from jobrun.job_runs where status = 'queued' and claim_seq = 0"
}

@test "of a job type whose programs take 50 ms and more nothing is claimed ahead" {
	acting_handler
	runs 8 slow >/dev/null
	runs 1 term >/dev/null
	runs 3 quick >/dev/null
	bg_runner -j 1
	wait_until 20 up_is 1
	touch "$TMPDIR/go"
	wait_runner
	q_is 3 "select count(*) from jobrun.job_runs where status = 'queued' and claim_seq = 0"
}

@test "at TERM what was claimed ahead is given back at once, uncharged, while the started run is waited for" {
	with_extras term
	wait_until 20 up_is 1
	wait_until 10 given_back 3
	run_is "$actor" running
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$actor" succeeded
	assert_equal "$(grep -c 'event=unstarted' "$runner_err")" 3
	# And they start later, as if nothing had been.
	jr_ok run
	q_is '44|1|0' "select count(*), max(attempts), max(releases) from jobrun.job_runs where status = 'succeeded'"
}

@test "a runner whose --max-runtime is over starts nothing more: what it has claimed ahead is given back" {
	acting_handler
	runs 6000 quick >/dev/null
	touch "$TMPDIR/started"
	# A busy machine needs longer until programs are claimed ahead.
	for ms in 700 700 700 1500 3000 6000; do
		[ "$ms" -eq 700 ] || [ ! -s unstarted ] || break
		jr run -j 1 -v --max-runtime "${ms}ms"
		assert_equal "$status" 0
		running_are 0
		q_is "$(wc -l <"$TMPDIR/started")" "select count(*) from jobrun.job_runs where status = 'succeeded'"
		grep 'event=unstarted' <<<"$stderr" >>unstarted || true
	done
	q_is 0 "select count(*) from jobrun.job_runs where attempts > 1 or releases > 0"
	q_is 0 "select count(*) from jobrun.job_attempts"
	[ -s unstarted ]
}

@test "--max-runs counts starts: what was claimed ahead is never more than what is left" {
	acting_handler
	runs 200 quick >/dev/null
	jr_ok run -j 3 --max-runs 50
	assert_equal "$(wc -l <"$TMPDIR/started")" 50
	assert_by_status 'queued 150, succeeded 50'
	q_is 0 "select count(*) from jobrun.job_runs where status = 'queued' and claim_seq > 0"
}

@test "a runner that stays goes on when what --max-runs counted was given back" {
	with_extras wait --for 30s --max-runs 44
	wait_until 20 given_back 3
	# When the actor has ended nothing is due, and the runner waits.
	q "update jobrun.job_runs set run_at = now() + interval '3 seconds' where status = 'queued'"
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	q_is '44|1' "select count(*), max(attempts) from jobrun.job_runs where status = 'succeeded'"
}

@test "while programs are claimed ahead, statements are claimed, too" {
	handler work <<<:
	sql_handler statement <<<'select 1 where $1 is not null'
	runs 2000 quick >/dev/null
	q "insert into jobrun.job_runs (job_type) select 'statement' from generate_series(1, 100)"
	bg_runner -j 1
	wait_until 60 q_is 100 "select count(*) from jobrun.job_runs where job_type = 'statement' and status = 'succeeded'"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	# Not only when all programs have ended.
	q_is t "select bool_or(w.finished_at is null or w.finished_at > s.last) and min(w.finished_at) < s.last from jobrun.job_runs w,
		(select max(finished_at) as last from jobrun.job_runs where job_type = 'statement') s where w.job_type = 'work' group by s.last"
}

@test "what has waited for a permit for a second is given back, and an idle host starts it" {
	q 'create table public.waits (ms bigint)' "create function public.note() returns trigger language plpgsql as \$\$ begin
			insert into public.waits values (extract(epoch from now() - old.started_at) * 1000); return null; end \$\$" \
		"create trigger note after update on jobrun.job_runs for each row
			when (old.status = 'running' and new.status = 'queued') execute function public.note()"
	with_extras wait
	wait_until 20 up_is 1
	wait_until 10 given_back 3
	# The second begins when the claim is sent, and that may be before its transaction begins.
	assert_between 300 "$(q 'select max(ms) from public.waits')" 4000
	other_host -j 1
	q_is '3|2|1' "select count(*), max(claim_seq), max(attempts) from jobrun.job_runs where status = 'succeeded' and id > $actor"
	run_is "$actor" running
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$(grep -c 'no permit was free in time' "$runner_err")" 3
}

@test "what has waited for a permit for a second is given back also while there is no connection" {
	proxy silent 1000000
	with_extras wait -d "$proxied"
	end_proxies
	wait_until 20 up_is 1
	wait_until 20 are_given_back 3
	run_is "$actor" running
	touch "$TMPDIR/go"
}

# are_given_back N: their runner says so.
are_given_back() {
	[ "$(grep -c 'event=unstarted .*no permit was free in time' "$runner_err")" -eq "$1" ]
}

@test "when their runner is killed the extras are lost and charged once, never the last attempt, and not claimed ahead again" {
	behind_them() {
		last=$(q "select jobrun.enqueue('work', '1', max_attempts => 1)")
		behind=$(runs 1 quick)
		q "update jobrun.job_runs set backoff_base = '1 hour'"
	}
	with_extras kill --lease 2s
	wait_runner
	q_is 4 "select count(*) from jobrun.job_runs where status = 'running' and id >= $actor"
	q_is '0|0' "select claim_seq, attempts from jobrun.job_runs where id = $last"
	wait_until 20 lease_has_ended "$actor"
	other_host
	q_is 'failed|1|lost' "select distinct status, attempts, error_code from jobrun.job_runs where id between $actor and ${extras[2]}"
	q_is 4 "select count(*) from jobrun.job_attempts where outcome = 'lost' and run_id >= $actor"
	assert_equal "$(cat "$TMPDIR/started")" "$actor"
	q_is 0 "select count(*) from jobrun.job_attempts where outcome <> 'lost'"
	# Two extras would be claimed ahead with the first, were they not lost before.
	q "update jobrun.job_runs set run_at = now() - interval '1 hour' where status = 'failed' and id > $actor"
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'here', 'x')"
	q_is "${extras[0]}" "select id from jobrun.claim(7, 'here', 1, '{work}', '{default}', '{100}', null, null, null, 60000, 1, 10, '{work}')"
	[ -n "$behind" ]
}

@test "an extra for which a cancel was asked is not started, and ends cancelled" {
	export JOBRUN_PROGRAM=$JOBRUN
	behind_them() {
		echo "${extras[1]}" >"$TMPDIR/victim"
	}
	# A heartbeat tells of it, within half a second, before the extras have waited for too long.
	with_extras cancel --lease 2s
	wait_runner
	assert_equal "$runner_status" 0
	run_is "${extras[1]}" cancelled
	q_is 1 "select claim_seq from jobrun.job_runs where id = ${extras[1]}"
	q_is 0 "select count(*) from jobrun.job_attempts where run_id = ${extras[1]} and outcome <> 'cancelled'"
	run_is "${extras[0]}" succeeded
	run_is "${extras[2]}" succeeded
}

@test "what was claimed ahead is heartbeaten like what runs" {
	q "create table public.renewed (id bigint)" "create function public.renewed() returns trigger language plpgsql as \$\$
		begin insert into public.renewed values (new.id); return null; end \$\$" \
		"create trigger renewed after update on jobrun.job_runs for each row
			when (old.locked_until < new.locked_until and old.claim_seq = new.claim_seq) execute function public.renewed()"
	# A busy machine may give them back before it has sent a heartbeat.
	for _ in 1 2 3; do
		rm -f "$TMPDIR/up" "$TMPDIR/go"
		with_extras wait --lease 2s
		wait_until 20 given_back 3
		touch "$TMPDIR/go"
		wait_runner
		renewed=$(q "select count(distinct id) from public.renewed where id >= $actor")
		[ "$renewed" -lt 4 ] || break
	done
	assert_equal "$renewed" 4
}

# --- an urgent run in the middle ---

# urgent_ms: how long the run of type urgent waited for its claim.
urgent_ms() {
	q "select floor(extract(epoch from started_at - created_at) * 1000) from jobrun.job_runs where job_type = 'urgent'"
}

@test "in the middle of a long drain that claims ahead an urgent run starts soon" {
	acting_handler
	handler urgent <<<:
	runs 30000 quick >/dev/null
	bg_runner -j 2
	wait_until 20 q_is t "select count(*) > 200 from jobrun.job_runs where status = 'succeeded'"
	enqueue urgent '{}' -p -1
	wait_until 20 q_is succeeded "select status from jobrun.job_runs where job_type = 'urgent'"
	assert_between 0 "$(urgent_ms)" $((4000 * patience))
	kill -TERM "$runner_pid"
	wait_runner
	q_is t "select count(*) > 1000 from jobrun.job_runs where status = 'queued'"
}

@test "in the middle of a long drain of batches an urgent run starts soon, also while a snapshot is held" {
	sql_handler batch <<<"select null::bigint, ''::text, ''::text where (select true from pg_sleep(0.05)) is null" # five seconds of work, at least
	settings batch <<<'{"batch": 50}'
	handler urgent <<<:
	hold 'select 1 from jobrun.job_runs; select txid_current()'
	q "insert into jobrun.job_runs (job_type) select 'batch' from generate_series(1, 10000)"
	bg_runner -j 2 --sql-jobs 2
	wait_until 20 q_is t "select count(*) > 200 from jobrun.job_runs where status = 'succeeded'"
	enqueue urgent '{}' -p -1
	wait_until 20 q_is succeeded "select status from jobrun.job_runs where job_type = 'urgent'"
	assert_between 0 "$(urgent_ms)" 11000
	kill -TERM "$runner_pid"
	wait_runner
	release_holds
}
