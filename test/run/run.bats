#!/usr/bin/env bats
# The tick: what is claimed, in which order, when it ends, and what it says.

load ../lib/common
load ../lib/sql

# A handler that writes the id of its run into the file `ran`.
writer() {
	handler "$1" <<<'echo "$JOBRUN_RUN_ID" >> "$TMPDIR/ran"'
}

# The ids in the file `ran`, in one line.
ran() {
	[ ! -e "$TMPDIR/ran" ] || paste -sd' ' "$TMPDIR/ran"
}

# What was written to the server's log since line $1.
log_since() {
	tail -n "+$(($1 + 1))" "$(pg_local log)"
}

@test "an idle tick is one connection, one transaction and one row, and prints nothing" {
	own_cluster -o log_statement=all -o log_connections=on
	writer work
	before=$(wc -l <"$(pg_local log)")
	jr_ok run
	log_since "$before" >"$TMPDIR/log"
	assert_equal "$output$stderr" ''
	assert_equal "$(grep -c 'connection authorized' "$TMPDIR/log")" 1
	assert_equal "$(grep -cE '(execute|statement)[^:]*: (-- )?begin' "$TMPDIR/log")" 1
	q_is '1|t|0' "select count(*), bool_and(finished_at is not null), sum((counts->>'claimed')::int) from jobrun.job_runners"
	q_is 0 "select count(*) from jobrun.job_runs"
}

# sent NAME: how many of lib/sql/NAME.sql has the server got?
sent() {
	server_log | grep -c -- "execute <unnamed>: -- $1\$"
}

@test "a claim that brings fewer runs than there are permits is the last one: a look comes when one has ended" {
	own_cluster -o log_statement=all
	handler work <<<'exit 0'
	q "select jobrun.enqueue('work') from generate_series(1, 3)" >/dev/null
	jr_ok run -j 8
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
	assert_equal "$(sent claim)" 1
	assert_between 1 "$(sent candidates)" 8 # besides that of runner_start: after each end, or a second
}

# Whether such a claim comes between is chance, so there are six rounds; a busy machine may be slow in one of them.
@test "what ended statements have enqueued starts at once, not a second later, although such a claim came between" {
	sql_handler first <<<"select jobrun.enqueue('work') where \$1 is not null"
	sql_handler long <<<'select pg_sleep(1.3) where $1 is not null'
	handler work <<<'exit 0'
	for _ in {1..6}; do
		q "select jobrun.enqueue('first') from generate_series(1, 4)" \
			"select jobrun.enqueue('long', priority => 200) from generate_series(1, 2)" >/dev/null
		jr_ok run -j 8 --sql-jobs 4
	done
	q_is '24|t' "select count(*), count(*) filter (where started_at - created_at < interval '$((700 * patience)) ms') >= 20
		from jobrun.job_runs where job_type = 'work'"
}

@test "what is enqueued after such a claim starts within two seconds, while the first handler runs" {
	waiting_handler wait
	handler work <<<'exit 0'
	first=$(enqueue wait)
	bg_runner -j 8
	wait_until 10 up_is 1
	for options in '' '--queue other --priority 7'; do
		# shellcheck disable=SC2086 # words
		id=$(enqueue work $options)
		wait_until 10 run_is "$id" succeeded
		q_is t "select started_at < created_at + interval '$((2 * patience)) s' from jobrun.job_runs where id = $id"
	done
	run_is "$first" running
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
}

@test "only what a runner without claims writes of itself does not wait for the disk" {
	handler work <<<'exit 0'
	q "create table public.waits (n serial, finished boolean, waits text)" \
		"create function note() returns trigger language plpgsql as \$\$ begin
			insert into public.waits (finished, waits) values (new.finished_at is not null, current_setting('synchronous_commit'));
			return new; end \$\$" \
		"create trigger note before insert or update on jobrun.job_runners for each row execute function note()" \
		"grant all on public.waits, public.waits_n_seq to public"
	jr_ok run
	q_is 'true off' "select string_agg(finished || ' ' || waits, ',' order by n) from public.waits"
	q "truncate public.waits"
	id=$(enqueue work --in 1h)
	jr_ok run
	# Something waits, so the first request does not say goodbye; but nothing is due.
	q_is 'false off,true off' "select string_agg(finished || ' ' || waits, ',' order by n) from public.waits"
	jr_ok cancel "$id"
	q "truncate public.waits"
	enqueue work
	jr_ok run
	# The goodbye may give runs back, so it waits.
	q_is 'false off,true on' "select string_agg(finished || ' ' || waits, ',' order by n) from public.waits"
	q "truncate public.waits"
	# Without its row a runner claims nothing: one that stays must not lose it.
	jr_ok run --for 1s
	q_is 'on' "select waits from public.waits where not finished limit 1"
}

@test "a first request that is repeated does not end the runner, nor does a late copy of the first" {
	{
		echo "prepare start as $(cat "$BATS_TEST_DIRNAME/../../lib/sql/runner_start.sql");"
		# two copies that may end the runner, a repeat, and one more copy, which comes late
		for counts in "'{\"claimed\": 0}'" "'{}'" null "'{}'"; do
			echo "execute start (7, 'h', 1, '1', '{work}', null, 1, null, 64, $counts, null, '20s', null);"
		done
		echo "execute start (7, 'other', 1, '1', '{work}', null, 1, null, 64, '{}', null, '20s', null);"
	} >script.sql
	assert_equal "$(q <script.sql | awk -F'|' '{ print $(NF - 1) }' | paste -sd' ')" 't t f f'
	q_is '1|h|f|{"claimed": 0}' "select count(*) over (), host, finished_at is not null, counts from jobrun.job_runners"
}

@test "in a schema that another program has made, the first request writes nothing and gives no row" {
	local of

	{
		echo "prepare start as $(cat "$BATS_TEST_DIRNAME/../../lib/sql/runner_start.sql");"
		for of in baseline functions; do
			of=$(q "select checksum from jobrun.schema_migrations where name = '$of'")
			echo "execute start (7, 'h', 1, '1', '{work}', null, 1, null, 64, null, null, '20s', '$of');"
		done
	} >script.sql
	assert_equal "$(q <script.sql | grep -c '|7|')" 1
	q_is 1 "select count(*) from jobrun.job_runners"
}

@test "the first request never reads the whole table of runs, whatever its statistics say" {
	q "insert into jobrun.job_runs (job_type, status, run_at, started_at, finished_at, attempts, claim_seq, runner_id, locked_by)
		select 'work', 'succeeded', now(), now(), now(), 1, 1, 1, 'h' from generate_series(1, 10000)"
	{
		echo "prepare start as $(cat "$BATS_TEST_DIRNAME/../../lib/sql/runner_start.sql");"
		for state in 'select' "insert into jobrun.job_runs (job_type, run_at) select 'work', now() + interval '1 day' from generate_series(1, 20000)"; do
			for analyse in 'select' 'analyze jobrun.job_runs'; do
				echo "$state; $analyse; explain (costs off) execute start (7, 'h', 1, '1', '{work,other}', null, 1, null, 64, null, null, '20s', null);"
				state='select'
			done
		done
	} >script.sql
	q <script.sql >plans
	assert_equal "$(grep -c 'job_runs_ready on job_runs r' plans)" 4
	run grep -E 'Seq Scan on job_runs|Bitmap Heap Scan on job_runs|Sort' plans
	assert_failure
}

@test "a tick with something to do says goodbye when it is done" {
	writer work
	jr_ok define slot --type work --schedule '@every 1h'
	q "update jobrun.job_definitions set anchor_at = now() - interval '90 min' where name = 'slot'"
	for due in "update jobrun.job_definitions set next_slot_at = anchor_at + interval '1 h' where name = 'slot'" \
		"select jobrun.enqueue('work')"; do
		q "$due" >/dev/null
		jr_ok run
		q_is '1|t' "select (n.counts ->> 'claimed')::int, n.finished_at > n.started_at from jobrun.job_runners n
			order by n.started_at desc limit 1"
	done
}

@test "jobrun --once is jobrun run" {
	writer work
	id=$(enqueue work)
	jr_ok --once
	assert_equal "$output$stderr" ''
	run_is "$id" succeeded
}

@test "a tick drains the queue, with what its handlers enqueue meanwhile" {
	writer child
	handler parent <<<'echo "$JOBRUN_RUN_ID" >> "$TMPDIR/ran"; "$JOBRUN" enqueue child > /dev/null'
	q "select jobrun.enqueue('parent') from generate_series(1, 5)" >/dev/null
	jr_ok run -j 2
	q_is 'child|5|parent|5' "select string_agg(job_type || '|' || n, '|' order by job_type) from (
		select job_type, count(*) as n from jobrun.job_runs where status = 'succeeded' group by job_type) t"
	assert_equal "$(sort -u "$TMPDIR/ran" | wc -l)" 10
}

# The lock key of the run that waits is held by a run of another host, so the last claim takes nothing.
@test "a tick whose last claim takes nothing still does what its last handler has enqueued" {
	handler locked <<<'exit 0'
	handler work <<<'exit 0'
	handler first <<<"sleep 1.5; $JOBRUN enqueue work >/dev/null"
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')" \
		"select jobrun.enqueue('locked', concurrency_key => 'k')" \
		"update jobrun.job_runs set status = 'running', attempts = 1, claim_seq = 1, runner_id = 77, locked_by = 'other',
			locked_until = now() + interval '1 hour', started_at = now()" >/dev/null
	enqueue locked --lock k
	enqueue first --priority 1
	jr_ok run -j 1
	q_is 'succeeded' "select status from jobrun.job_runs where job_type = 'work'"
}

@test "a failed run is tried again in the same tick once it is due" {
	handler flaky <<<'[ "$JOBRUN_ATTEMPT" -ge 3 ]'
	id=$(enqueue flaky --backoff 0)
	jr_ok run
	assert_equal "$output$stderr" ''
	q_is 'succeeded|3|3|' "select status, attempts, claim_seq, error_code from jobrun.job_runs where id = $id"
	q_is '1 failed exit:1,2 failed exit:1' "select string_agg(concat_ws(' ', attempt, outcome, error_code), ',' order by claim_seq)
		from jobrun.job_attempts where run_id = $id"
}

@test "the backoff doubles up to its cap, drawn from its upper half" {
	handler fail <<<'exit 1'
	id=$(enqueue fail --backoff 100s,150s)
	delay="extract(epoch from run_at - failed_at) from jobrun.job_runs where id = $id and status = 'failed'"
	jr_ok run
	q_is t "select $(q "select $delay") between 50 and 100"
	# Not due: the tick leaves it alone, and only --job takes it.
	jr_ok run
	q_is 1 "select attempts from jobrun.job_runs where id = $id"
	jr_ok run --job "$id"
	q_is t "select $(q "select $delay") between 75 and 150"
}

@test "a run that goes dead is said once, with the command to look, and the exit status is 1" {
	handler doomed <<<'echo something; echo "no such customer" >&2; exit 3'
	id=$(enqueue doomed --max-attempts 2 --backoff 0)
	jr run
	assert_equal "$status" 1
	assert_equal "$output" ''
	assert_regex "$stderr" "^jobrun: run $id doomed is dead after 2 of 2 attempts: exit 3: no such customer"
	assert_regex "$stderr" "jobrun show $id"
	assert_equal "$(grep -c 'is dead' <<<"$stderr")" 1
	q_is 'dead|2|exit:3' "select status, attempts, error_code from jobrun.job_runs where id = $id"
	jr_ok run
	assert_equal "$output$stderr" ''
}

# full_pipe: make a pipe that takes nothing more.
full_pipe() {
	mkfifo pipe
	exec {reader}<>pipe
	! dd if=/dev/zero of=pipe oflag=nonblock bs=4096 2>/dev/null || fail 'the pipe takes everything'
}

@test "a stderr that nobody reads does not stop a runner, nor its heartbeats" {
	handler slow <<<'touch "$TMPDIR/begun"; sleep 5; touch "$TMPDIR/still"; sleep 2' # longer than its lease
	handler bad <<<'until [ -e "$TMPDIR/begun" ]; do sleep 0.05; done; echo much; exit 1'
	slow=$(enqueue slow)
	bad=$(enqueue bad --max-attempts 1)
	enqueue sloww # there is no handler for it, which is said, too
	full_pipe
	"$JOBRUN" run -v -j 2 --lease 4s 2>pipe 3>&- 4>&- &
	runner_pid=$!
	runner_pids+=("$runner_pid")
	wait_until 20 test -e "$TMPDIR/still"
	kill -TERM "$runner_pid" # with -v it says what it waits for
	wait_runner
	exec {reader}<&-
	assert_equal "$runner_status" 1
	run_is "$bad" dead
	q_is 'succeeded|1' "select status, claim_seq from jobrun.job_runs where id = $slow"
}

@test "of more than ten dead runs in a tick ten are named and the rest is counted" {
	handler doomed <<<'exit 65'
	q "select jobrun.enqueue('doomed') from generate_series(1, 13)" >/dev/null
	jr run
	assert_equal "$status" 1
	assert_equal "$(grep -c 'is dead after' <<<"$stderr")" 10
	assert_regex "$stderr" '3 more runs are dead'
}

@test "output of a handler cannot play with the terminal of who reads about a dead run" {
	handler evil <<<'printf "\033[2Jboo\n"; exit 65'
	enqueue evil
	jr run
	assert_equal "$status" 1
	refute_regex "$stderr" $'\e'
	assert_regex "$stderr" 'boo'
}

@test "--json is one document that counts what happened" {
	handler exit <<<'exit "$(cat)"'
	q "select jobrun.enqueue('exit', to_jsonb(c), backoff_base => '1h') from unnest(array[0, 0, 1, 65, 75]) c" >/dev/null
	jr run --json
	assert_equal "$status" 1
	assert_equal "${#lines[@]}" 1
	assert_equal "$(jq -c '[.exit_status, .claimed, .succeeded, .retrying, .dead, .later, .released, .cancelled, .reclaimed]' <<<"$output")" \
		'[1,5,2,1,1,1,0,0,0]'
}

@test "-v logs a start and an end for each run, and --log-format json is one object a line" {
	writer work
	id=$(enqueue work '{"password": "hunter2"}')
	jr_ok run -v --log-format json
	for line in "${stderr_lines[@]}"; do
		jq -e 'type == "object"' <<<"$line" >/dev/null || fail "not an object: $line"
	done
	assert_equal "$(jq -c "select(.event == \"run_start\" or .event == \"run_end\") | [.event, .run, .type]" <<<"$stderr" | paste -sd' ')" \
		"[\"run_start\",$id,\"work\"] [\"run_end\",$id,\"work\"]"
	refute_regex "$stderr" hunter2
	enqueue work '{"password": "hunter2"}'
	jr_ok run -v
	assert_regex "$stderr" 'event=run_start run=[0-9]+ type=work'
	refute_regex "$stderr" hunter2
}

@test "runs start by priority, then by due time, then by id" {
	writer work
	last=$(enqueue work --priority 200)
	second=$(enqueue work)
	third=$(enqueue work)
	older=$(enqueue work)
	first=$(enqueue work --priority -5)
	q "update jobrun.job_runs set run_at = now() - interval '1 min'" \
		"update jobrun.job_runs set run_at = now() - interval '1 hour' where id in ($older, $last)"
	jr_ok run -j 1
	assert_equal "$(ran)" "$first $older $second $third $last"
}

@test "types that this host does not have are never claimed" {
	writer work
	foreign=$(enqueue foreign --priority -100)
	id=$(enqueue work)
	jr_ok run
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $foreign"
	run_is "$id" succeeded
}

@test "--type and --queue claim only runs of that type and queue" {
	writer a
	writer b
	a=$(enqueue a)
	b=$(enqueue b)
	b_mail=$(enqueue b --queue mail)
	a_mail=$(enqueue a --queue mail)
	jr_ok run --type b --queue mail
	assert_equal "$(ran)" "$b_mail"
	jr_ok run --queue mail
	assert_equal "$(ran)" "$b_mail $a_mail"
	jr_ok run --type a
	assert_equal "$(ran)" "$b_mail $a_mail $a"
	run_is "$b" queued
}

@test "paused queues and types are not claimed, and do not keep the tick" {
	writer a
	writer b
	a=$(enqueue a --queue mail)
	b=$(enqueue b)
	c=$(enqueue a)
	q "insert into jobrun.job_queues (name, paused_until) values ('mail', 'infinity')" \
		"insert into jobrun.job_types (name, paused_until) values ('b', now() + interval '1 hour')"
	jr_ok run
	assert_equal "$(ran)" "$c"
	q_is '0|0' "select (select claim_seq from jobrun.job_runs where id = $a), (select claim_seq from jobrun.job_runs where id = $b)"
	q "update jobrun.job_queues set paused_until = now()" "delete from jobrun.job_types"
	jr_ok run
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "a run due later does not keep the tick, and is not claimed" {
	writer work
	later=$(enqueue work --in 1h --priority -100)
	now=$(enqueue work)
	JR_TIMEOUT=10 jr_ok run
	assert_equal "$(ran)" "$now"
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $later"
}

@test "an expired run is dead without having been started" {
	writer work
	id=$(enqueue work --expires 1h)
	q "update jobrun.job_runs set expires_at = now() - interval '1 second'"
	jr run
	assert_equal "$status" 1
	assert_equal "${stderr_lines[0]}" "jobrun: run $id work is dead: expired before it could start"
	jr wait "$id"
	assert_one_line 1 "^jobrun: run $id \(work\) is dead: expired before it could start; look with jobrun logs $id\$"
	q_is 'dead|expired' "select status, error_code from jobrun.job_runs where id = $id"
	assert_equal "$(ran)" ''
}

@test "--job runs one run, due later or not, and shows its output" {
	handler talk <<<'echo "it says $JOBRUN_RUN_ID"; echo more >&2'
	id=$(enqueue talk --in 1h)
	other=$(enqueue talk)
	jr_ok run --job "$id"
	assert_regex "$output$stderr" "it says $id"
	assert_regex "$output$stderr" "more"
	run_is "$id" succeeded
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $other"
}

@test "--job makes output visible on a terminal, unless --raw, and shows it as it is elsewhere" {
	handler loud <<<"printf 'a\\033[2Jb\\302\\233c\\n'"
	for _ in 1 2 3; do
		enqueue loud
	done
	run on_terminal 80 run --job 1
	assert_output 'a\x1b[2Jb\x9bc'
	run on_terminal 80 run --job 2 --raw
	assert_output $'a\e[2Jb\xc2\x9bc'
	jr_ok run --job 3
	assert_equal "$stderr" $'a\e[2Jb\xc2\x9bc'
	q_is 3 "select count(*) from jobrun.job_attempts where output = E'a\\x1b[2Jb\\u009bc\\n'"
	jr run --raw
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: --raw goes with --job: the output of other runs is not shown'
}

@test "--job says when the run will be tried again, and why" {
	handler silent <<<'exit "$(cat)"'
	id=$(enqueue silent 3 --backoff 1h --max-attempts 2)
	for option in '' --json; do
		jr_ok run --job "$id" $option
		assert_regex "$stderr" "^jobrun: run $id silent is due again in [0-9]+m( [0-9]+s)?, after 1 of 2 attempts: exit 3\$"
		q "update jobrun.job_runs set attempts = 0"
	done
	q "update jobrun.job_runs set attempts = 1"
	jr run --job "$id"
	assert_equal "$status" 1
	refute_regex "$stderr" 'due again'
	id=$(enqueue silent 75 --backoff 1h)
	jr_ok run --job "$id"
	assert_regex "$stderr" "^jobrun: run $id silent is due again in [0-9]+m( [0-9]+s)?, after 0 of 5 attempts: exit 75\$"
	enqueue silent 3 --backoff 1h
	id=$(enqueue silent 0)
	jr_ok run --job "$id"
	assert_equal "$stderr" ''
	jr_ok run
	assert_equal "$stderr" ''
}

@test "--job of a run that does not wait, or does not exist, is exit status 1" {
	writer work
	id=$(enqueue work)
	jr_ok run
	for it in "$id" 4711; do
		jr run --job "$it"
		assert_one_line 1 "^jobrun: .*run ${it}[ ;]"
	done
	assert_equal "$(ran)" "$id"
}

@test "--max-runs limits how many runs a tick claims" {
	writer work
	q "select jobrun.enqueue('work') from generate_series(1, 5)" >/dev/null
	jr_ok run -j 2 --max-runs 3
	q_is '3|2' "select sum(claim_seq), count(*) filter (where status = 'queued') from jobrun.job_runs"
}

@test "after --max-runtime nothing is claimed, and running handlers are waited for" {
	handler slow <<<'sleep 1; echo "$JOBRUN_RUN_ID" >> "$TMPDIR/ran"'
	q "select jobrun.enqueue('slow') from generate_series(1, 20)" >/dev/null
	jr_ok run -j 1 --max-runtime 3s
	done=$(wc -l <"$TMPDIR/ran")
	assert_between 1 "$done" 4
	q_is "$done|$done|$((20 - done))" "select sum(claim_seq), count(*) filter (where status = 'succeeded'),
		count(*) filter (where status = 'queued') from jobrun.job_runs"
}

# awaits_term PID: it has a signalfd with TERM, and TERM is blocked. The shell blocks TERM too for a moment before it becomes
# jobrun, and so does jobrun itself while it forks. Only root may look at its descriptors; others see it sleep.
awaits_term() {
	grep -qsE '^SigBlk:.*[4-7c-f]...$' "/proc/$1/status" || return
	if ls "/proc/$1/fdinfo" >/dev/null 2>&1; then
		grep -qsE '^sigmask:.*[4-7c-f]...$' "/proc/$1"/fdinfo/*
	else
		grep -q '^Name:.*jobrun' "/proc/$1/status" && grep -q '^State:.*S' "/proc/$1/status"
	fi
}

@test "--splay waits before it connects, and a signal ends the waiting" {
	writer work
	id=$(enqueue work)
	bg_runner --splay 10m
	wait_until 30 awaits_term "$runner_pid"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is 0 "select count(*) from jobrun.job_runners"
	jr_ok run --splay 200ms
	run_is "$id" succeeded
}

@test "-n shows what would be claimed and writes nothing" {
	writer work
	second=$(enqueue work)
	first=$(enqueue work --priority 1)
	enqueue work --in 1h
	enqueue foreign
	before=$(q "select count(*), max(xmin::text::bigint) from jobrun.job_runs")
	for option in -n --dry-run; do
		jr_ok run "$option" --json
		assert_equal "$(jq -c '[.runs[].id]' <<<"$output")" "[$first,$second]"
	done
	jr_ok run -n
	assert_regex "$output" "$first +work.*$second +work"
	q_is "$before" "select count(*), max(xmin::text::bigint) from jobrun.job_runs"
	q_is 0 "select count(*) from jobrun.job_runners"
	assert_equal "$(ran)" ''
}

@test "a tick works silently in cron's environment, with an absolute path and handlers under HOME" {
	mkdir -p "$HOME/.config/jobrun"
	mv "$JOBRUN_HANDLERS" "$HOME/.config/jobrun/handlers"
	JOBRUN_HANDLERS=$HOME/.config/jobrun/handlers handler work <<<'echo hello'
	id=$(enqueue work)
	touch mark
	run env -i PATH=/usr/bin:/bin HOME="$HOME" JOBRUN_DATABASE_URL="$JOBRUN_DATABASE_URL" \
		JOBRUN_TEST_ID="$JOBRUN_TEST_ID" "$JOBRUN" --once 3>&- 4>&-
	# What is outside of the test's directory: its permits, where they are by default.
	find /run/jobrun "/run/lock/jobrun-$(id -u)" "/tmp/jobrun-$(id -u)" -name '*.permits' -newer mark -delete 2>/dev/null || true
	assert_equal "$status" 0
	assert_equal "$output" ''
	run_is "$id" succeeded
}

# Eight hosts at once, since each has a state directory of its own.
@test "8 runners and 2,000 runs: each run is started exactly once" {
	writer work
	q "select jobrun.enqueue('work') from generate_series(1, 2000)" >/dev/null
	for i in 1 2 3 4 5 6 7 8; do
		bg_runner -j 2 --state-dir "$BATS_TEST_TMPDIR/host$i"
	done
	for pid in "${runner_pids[@]}"; do
		wait_runner "$pid" 90
		assert_equal "$runner_status" 0
	done
	assert_equal "$(wc -l <"$TMPDIR/ran")" 2000
	assert_equal "$(sort -u "$TMPDIR/ran" | wc -l)" 2000
	q_is '2000|2000|2000' "select count(*) filter (where status = 'succeeded'), sum(claim_seq), sum(attempts) from jobrun.job_runs"
	# They did share the work.
	q_is t "select count(distinct runner_id) > 1 from jobrun.job_runs"
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/runner.*.err)" ''
}

@test "-n --job shows that run, due or not" {
	writer work
	id=$(enqueue work --in 1h)
	jr_ok run -n
	assert_equal "$output" ''
	jr_ok run -n --job "$id" --json
	assert_equal "$(jq -r '.runs[].id' <<<"$output")" "$id"
	run_is "$id" queued
}

@test "a runner whose server's clock is set back while it works still writes that it has ended, and its counts" {
	cat >"$JOBRUN_HANDLERS/back.sql" <<<"update jobrun.job_runners set started_at = now() + interval '1 hour'"
	enqueue back
	jr_ok run
	q_is 't|1' "select finished_at is not null, counts ->> 'succeeded' from jobrun.job_runners"
}
