#!/usr/bin/env bats
# Limits of queues, and pauses: jobrun queue, pause, resume.

load ../lib/common

# run_at_of ID and the rest of what a refused claim must not have touched.
untouched() {
	q "select status, attempts, claim_seq, snoozes, releases, run_at, locked_by is null from jobrun.job_runs where id = $1"
}

# put TYPE QUEUE KEY [N]: enqueue N runs with a concurrency key ('' : none); their payload is the key.
put() {
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
		sleep 0.05
		rm "$TMPDIR/room/key.$key/$JOBRUN_RUN_ID"
	sh
}

# most FILE: the largest number in it.
most() {
	sort -n "$TMPDIR/$1" | tail -n 1
}

nothing_waits() {
	q_is 0 "select count(*) from jobrun.job_runs where finished_at is null"
}

# host N: ticks with places of its own, one after the other, until nothing is left.
host() {
	until nothing_waits 2>/dev/null; do
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

# gate NAME: a handler that waits for the file open.
gate() {
	handler "$1" <<-'sh'
		: >"$TMPDIR/began.$JOBRUN_RUN_ID"
		until [ -e "$TMPDIR/open" ]; do sleep 0.02; done
	sh
}

running_are() {
	q_is "$1" "select count(*) from jobrun.job_runs where status = 'running'"
}

# --- jobrun queue ---

@test "queue sets what is named and nothing else, and lists it" {
	jr_ok queue mail --max-running 5
	assert_line --index 0 --regexp '^NAME +RUNNING +WAITING +MAX +PER KEY +RATE +PAUSED$'
	assert_line --index 1 --regexp '^mail +0 +0 +5 +1 +- +-$'
	jr_ok queue mail --rate 100/1m --reason 'the relay allows no more'
	assert_line --index 1 --regexp '^mail +0 +0 +5 +1 +100/1m, used 0 +-$'
	jr_ok queue mail --per-key none --max-running none
	assert_line --index 1 --regexp '^mail +0 +0 +- +- +100/1m, used 0 +-$'
	q_is '||100|00:01:00' 'select max_running, max_running_per_key, rate_limit, rate_period from jobrun.job_queues'
	jr_ok queue mail --rate none
	q_is '|' 'select rate_limit, rate_period from jobrun.job_queues'
	jr_ok queue mail --rate 5/s
	q_is '5|00:00:01' 'select rate_limit, rate_period from jobrun.job_queues'
	jr_ok queue mail --rate 1000/1d12h
	q_is '1000|36:00:00' 'select rate_limit, rate_period from jobrun.job_queues'
	q_is 'the relay allows no more|{"rate_limit": null, "rate_period": null}|{"rate_limit": 100, "rate_period": "00:01:00"}' \
		"select reason, old, new from jobrun.job_audit where object = 'queue mail' and reason is not null"
	q_is 6 "select count(*) from jobrun.job_audit where object = 'queue mail' and who = session_user"
}

@test "queue lists queues with a row and those that unfinished runs are in" {
	jr_ok queue
	assert_equal "$output" ''
	gate work
	enqueue work
	enqueue work -q other --in 1h
	id=$(enqueue work -q gone)
	jr_ok cancel "$id"
	bg_runner
	wait_until 10 running_are 1
	jr_ok queue limited --max-running 0
	jr_ok queue
	assert_equal "${#lines[@]}" 4
	assert_line --regexp '^default +1 +0 +- +1 +- +-$'
	assert_line --regexp '^limited +0 +0 +0 +1 +- +-$'
	assert_line --regexp '^other +0 +1 +- +1 +- +-$'
	jr_ok queue --json
	assert_equal "$(jq -c '[.[] | [.name, .running, .waiting, .max_running, .max_running_per_key]]' <<<"$output")" \
		'[["default",1,0,null,1],["limited",0,0,0,1],["other",0,1,null,1]]'
	jr_ok queue other --json
	assert_equal "$(jq -r '.[].name' <<<"$output")" other
	jr queue gone
	assert_equal "$status" 1
	assert_equal "$stderr" 'jobrun: queue gone has no limits, and no run is in it'
	touch "$TMPDIR/open"
	wait_runner
}

@test "queue -n shows what would be and changes nothing" {
	jr_ok queue mail --max-running 5
	jr_ok queue mail --max-running 7 --rate 3/1s -n
	assert_line --index 0 'would be:'
	assert_line --index 2 --regexp '^mail +0 +0 +7 +1 +3/1s, used 0 +-$'
	q_is '5|' 'select max_running, rate_limit from jobrun.job_queues'
	jr_ok queue new --max-running 7 -n --json
	assert_equal "$(jq -c '.[] | [.name, .max_running]' <<<"$output")" '["new",7]'
	q_is 1 'select count(*) from jobrun.job_queues'
}

@test "queue: what is not a limit is exit 64 with what to write" {
	for words in '--max-running -1' '--max-running many' '--max-running 1.5' '--per-key' '--rate 100' '--rate /1m' '--rate 100/' \
		'--rate 100/0' '--rate 100/1000' '--rate -1/1m' '--rate 100/1y' '--rate 1/400d' '--max-running 99999999999999999999'; do
		# shellcheck disable=SC2086 # words
		jr queue mail $words
		assert_equal "$status" 64
		assert_equal "${#stderr_lines[@]}" 1
	done
	jr queue mail --rate 100
	assert_equal "$stderr" 'jobrun: --rate: "100" is not N/PERIOD; write it like 100/1m, or none'
	jr queue --max-running 3
	assert_equal "$status" 64
	assert_regex "$stderr" 'which queue\?'
	jr queue Mail --max-running 3
	assert_equal "$status" 64
	jr queue mail --reason why
	assert_equal "$status" 64
	q_is 0 'select count(*) from jobrun.job_queues'
}

# --- limits ---

@test "max_running holds for all hosts together" {
	witness work
	jr_ok queue narrow --max-running 3
	put work narrow '' 40
	four_hosts
	q_is '40|40' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(wc -l <"$TMPDIR/seen")" 40
	assert [ "$(most seen)" -le 3 ]
}

# A claim that is not yet committed counts: who comes meanwhile waits for it, and then sees it.
claim_in_between() {
	gate work
	q "insert into jobrun.job_runners (id, pid, places, host, version) values (77, 1, 1, 'other', 'x')"
	hold "select from jobrun.claim(77, 'other', 2, '{work}', '{narrow}', '{100}', null, null, null, 60000)"
	bg_runner -j 10
	wait_until 10 waits_or_runs
	printf 'commit;\n' >&"${hold_fds[-1]}"
	wait_until 10 running_are 3
	touch "$TMPDIR/open"
	wait_runner
	q_is 0 "select count(*) from jobrun.job_runs where claim_seq > 1"
}

waits_or_runs() {
	q_is t "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')
		or exists (select from jobrun.job_runs where status = 'running')"
}

@test "max_running: what another has claimed and not committed counts" {
	jr_ok queue narrow --max-running 3
	put work narrow '' 8
	claim_in_between
}

@test "a lock key: what another has claimed and not committed counts" {
	jr_ok queue narrow --per-key 3
	put work narrow k 8
	claim_in_between
}

@test "a rate: what another has claimed and not committed counts" {
	jr_ok queue narrow --rate 3/1h
	put work narrow '' 8
	claim_in_between
	q_is '3|1' "select rate_used, (select count(*) from jobrun.job_runs where status = 'succeeded') from jobrun.job_queues"
}

@test "what max_running leaves waiting does not keep a tick, and starts when there is room" {
	gate work
	jr_ok queue narrow --max-running 2
	put work narrow '' 5
	put work default '' 1
	bg_runner -j 10
	wait_until 10 running_are 3
	waiting=$(q "select max(id) from jobrun.job_runs where status = 'queued'")
	before=$(untouched "$waiting")
	jr_ok run -j 10 --state-dir "$BATS_TEST_TMPDIR/other"
	assert_equal "$output$stderr" ''
	running_are 3
	assert_equal "$(untouched "$waiting")" "$before"
	touch "$TMPDIR/open"
	wait_runner
	assert_equal "$runner_status" 0
	q_is '6|6' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
}

@test "a limit of 0 lets none start, and --job knows limits too" {
	handler work <<<'exit 0'
	jr_ok queue closed --max-running 0
	put work closed '' 1
	jr_ok run
	jr run --job 1
	q_is 'queued|0' 'select status, claim_seq from jobrun.job_runs'
	jr_ok queue closed --max-running none
	jr_ok run
	run_is 1 succeeded
}

@test "one run of a lock key at a time is the default, on all hosts together; other keys do not wait" {
	witness work
	put work default a 12
	put work default b 12
	put work default '' 12
	q_is '1' 'select max_running_per_key from jobrun.job_queues'
	four_hosts
	q_is '36|36' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(most seen.a)" 1
	assert_equal "$(most seen.b)" 1
}

@test "enqueue --lock is that key" {
	gate work
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
	touch "$TMPDIR/open"
	wait_runner
	nothing_waits
}

@test "--per-key N lets N of a key run at once" {
	witness work
	jr_ok queue keyed --per-key 2
	put work keyed a 20
	put work keyed b 20
	four_hosts
	assert [ "$(most seen.a)" -le 2 ]
	assert [ "$(most seen.b)" -le 2 ]
	q_is '40|40' "select count(*), sum(claim_seq) from jobrun.job_runs where status = 'succeeded'"
}

@test "a key that is busy hides nothing behind it, and keys are per queue" {
	gate work
	put work one k 3
	put work two k 3
	put work one other 1
	put work one '' 1
	bg_runner -j 20
	wait_until 10 running_are 4
	jr_ok run -j 20 --state-dir "$BATS_TEST_TMPDIR/other"
	q_is 'one|k|1
one|other|1
one||1
two|k|1' "select queue, concurrency_key, count(*) from jobrun.job_runs where status = 'running' group by 1, 2 order by 1, 2"
	touch "$TMPDIR/open"
	wait_runner
	nothing_waits
}

@test "a rate: what is refused stays due and is charged nothing, and the next window goes on" {
	handler work <<<'exit 0'
	jr_ok queue slow --rate 3/1h
	put work slow '' 5
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

@test "a rate holds for all hosts together, window after window" {
	handler work <<<'exit 0'
	jr_ok queue slow --rate 4/1s
	put work slow '' 12
	four_hosts
	q_is 12 "select count(*) from jobrun.job_runs where status = 'succeeded' and claim_seq = 1"
	# The windows are not written down: the nth run of one and the nth of the next are at least a period apart.
	q_is 0 "select count(*) from (select started_at - lag(started_at, 4) over (order by started_at, id) as apart,
			row_number() over (order by started_at, id) as n from jobrun.job_runs) r
		where n in (5, 9) and apart < interval '1 second'"
}

@test "queues without limits pay nothing: no row of job_queues is locked or written" {
	handler work <<<'exit 0'
	jr_ok queue free --per-key none
	jr_ok queue limited --max-running 5
	put work free '' 3
	before=$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'free'")
	limited=$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'limited'")
	jr_ok run
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'free'")" "$before"
	assert_equal "$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'limited'")" "$limited"
	# The other side of it: with a limit it is locked.
	put work limited '' 1
	jr_ok run
	[ "$(q "select ctid, xmin, xmax from jobrun.job_queues where name = 'limited'")" != "$limited" ]
	# And the row of a free queue in somebody else's hands stops nobody.
	put work free '' 1
	hold "select from jobrun.job_queues for update"
	jr_ok run
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
}

# --- pauses ---

@test "a paused queue: waiting runs stay, the tick ends with 0, and resume lets them go" {
	handler work <<<'exit 0'
	a=$(enqueue work -q mail)
	b=$(enqueue work)
	before=$(untouched "$a")
	jr_ok pause --queue mail --reason 'the relay is down'
	assert_equal "$output" 'queue mail: paused'
	assert_equal "$stderr" ''
	jr_ok run
	assert_equal "$output$stderr" ''
	run_is "$b" succeeded
	assert_equal "$(untouched "$a")" "$before"
	jr_ok queue mail
	assert_line --index 1 --regexp '^mail +0 +1 +- +1 +- +until resumed: the relay is down$'
	jr_ok resume --queue mail
	assert_equal "$output" 'queue mail: resumed'
	jr_ok resume --queue mail
	assert_equal "$output" 'queue mail: was not paused'
	jr_ok run
	run_is "$a" succeeded
	q_is 'pause|the relay is down
resume|' "select action, reason from jobrun.job_audit where object = 'queue mail' order by id"
}

@test "a paused job type: what runs goes on to its end, what waits stays" {
	gate work
	one=$(enqueue work)
	bg_runner -j 4
	wait_until 10 test -e "$TMPDIR/began.$one"
	jr_ok pause --type work --reason 'new version'
	two=$(enqueue work)
	touch "$TMPDIR/open"
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$one" succeeded
	q_is 'queued|0' "select status, claim_seq from jobrun.job_runs where id = $two"
	jr_ok resume --type work
	jr_ok run
	run_is "$two" succeeded
}

@test "a paused definition: only its own runs stay" {
	handler work <<<'exit 0'
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work'), ('hourly', 'work')"
	one=$(enqueue work)
	two=$(enqueue work)
	three=$(enqueue work)
	q "update jobrun.job_runs r set definition_id = d.id from jobrun.job_definitions d
		where (r.id, d.name) in (($one, 'nightly'), ($two, 'hourly'))"
	jr_ok pause --definition nightly --reason 'month end'
	assert_equal "$output" 'definition nightly: paused'
	jr_ok run -n --json
	assert_equal "$(jq -c 'map(.id)' <<<"$output")" "[$two,$three]"
	jr_ok run
	run_is "$one" queued
	run_is "$two" succeeded
	run_is "$three" succeeded
	jr_ok status
	assert_line "! definition nightly: paused: month end (jobrun resume --definition nightly)"
	jr_ok resume --definition nightly
	jr_ok run
	run_is "$one" succeeded
}

@test "a paused definition in a limited queue stays too" {
	handler work <<<'exit 0'
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	jr_ok queue mail --max-running 1
	one=$(enqueue work -q mail)
	two=$(enqueue work -q mail)
	q "update jobrun.job_runs set definition_id = (select id from jobrun.job_definitions where name = 'nightly') where id = $one"
	jr_ok pause --definition nightly
	jr_ok run
	run_is "$one" queued
	run_is "$two" succeeded
}

@test "--for: the pause ends by itself" {
	handler work <<<'exit 0'
	id=$(enqueue work -q mail)
	jr_ok pause --queue mail --type work --for 2h
	assert_line --index 0 --regexp '^queue mail: paused until ([0-9-]+ )?[0-9:]+\+00:00$'
	assert_line --index 1 --regexp '^type work: paused until '
	q_is t "select paused_until between now() + interval '1 hour 58 minutes' and now() + interval '2 hours' from jobrun.job_queues"
	jr_ok run
	run_is "$id" queued
	jr_ok pause --queue mail --type work --for 1s
	wait_until 20 runs_it "$id"
	jr_ok status
	refute_output --partial paused
	jr_ok queue mail
	refute_output --partial until
	jr_ok resume --queue mail
	assert_output 'queue mail: was not paused'
}

runs_it() {
	run_jobrun run && run_is "$1" succeeded
}

@test "status shows every pause: until when, by whom, why, and how to end it" {
	jr_ok pause --queue mail --type b,a --for 2h --reason 'the relay is down'
	jr_ok pause --type c
	jr_ok status
	me=$(q 'select session_user')
	assert_line --regexp "^! a: paused until ([0-9-]+ )?[0-9:]+\+00:00 by $me: the relay is down \(jobrun resume --type a\)$"
	assert_line --regexp "^! queue mail: paused until ([0-9-]+ )?[0-9:]+\+00:00 by $me: the relay is down \(jobrun resume --queue mail\)$"
	assert_line "! c: paused by $me (jobrun resume --type c)"
	jr_ok status --json
	assert_equal "$(jq -c '[.problems[] | [.about, .problem, .paused_by, .reason, .paused_until == "infinity"]]' <<<"$output")" \
		"[[\"a\",\"paused\",\"$me\",\"the relay is down\",false],[\"b\",\"paused\",\"$me\",\"the relay is down\",false],[\"c\",\"paused\",\"$me\",null,true],[\"queue mail\",\"paused\",\"$me\",\"the relay is down\",false]]"
	jr_ok queue mail --json
	assert_equal "$(jq -c '.[] | [.paused_reason, .paused_by]' <<<"$output")" "[\"the relay is down\",\"$me\"]"
	jr_ok pause --type x --json
	assert_equal "$(jq -c . <<<"$output")" \
		'[{"kind":"type","name":"x","paused":true,"paused_until":"infinity","reason":null,"known":false}]'
	jr_ok resume --type x --type y --json
	assert_equal "$(jq -c . <<<"$output")" \
		'[{"kind":"type","name":"x","paused":false,"was_paused":true},{"kind":"type","name":"y","paused":false,"was_paused":false}]'
}

@test "hostile words in a reason move no cursor" {
	jr_ok pause --queue mail --reason $'\e[2J\nworse'
	jr_ok status
	assert_line --partial '\x1b[2J\x0aworse'
	jr_ok queue mail
	assert_line --partial '\x1b[2J\x0aworse'
}

@test "nor do those of a runner in its host" {
	q "insert into jobrun.job_runners (id, pid, places, host, version) values (1, 1, 1, e'ev\x1b[2Jil', '1')"
	jr_ok status
	assert_line --index 0 --partial 'on ev\x1b[2Jil'
}

@test "pause and resume are all or nothing" {
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	jr pause --queue mail --definition nightly,weekly
	assert_equal "$status" 65
	assert_equal "$stderr" 'jobrun: there is no definition "weekly"'
	q_is 0 'select count(*) from jobrun.job_queues'
	jr_ok pause --queue mail --definition nightly --type a
	jr resume --queue mail --definition weekly
	assert_equal "$status" 65
	q_is t "select paused_until > now() from jobrun.job_queues"
	jr_ok resume --queue mail --definition nightly --type a
	assert_equal "$output" 'queue mail: resumed
type a: resumed
definition nightly: resumed'
}

@test "pause without a name is exit 64, and so is what is no name" {
	for command in pause resume; do
		jr "$command"
		assert_equal "$status" 64
		assert_equal "$stderr" 'jobrun: name what: --type TYPE, --queue QUEUE or --definition NAME'
		jr "$command" --reason 'no name'
		assert_equal "$status" 64
		jr "$command" --queue 'No Name'
		assert_equal "$status" 64
		jr "$command" mail
		assert_equal "$status" 64
	done
	jr pause --queue mail --for 0
	assert_equal "$status" 64
	jr pause --queue mail --reason "$(printf '%1001s' x)"
	assert_equal "$status" 65
	q_is 0 'select count(*) from jobrun.job_queues'
}

@test "pause -n and resume -n say what would be and do nothing" {
	jr_ok pause --queue mail -n
	assert_equal "$output" 'queue mail: would be paused'
	q_is 0 'select count(*) from jobrun.job_queues'
	jr_ok pause --queue mail
	jr_ok resume --queue mail -n
	assert_equal "$output" 'queue mail: would be resumed'
	q_is 't|1' "select paused_until > now(), (select count(*) from jobrun.job_audit) from jobrun.job_queues"
}

@test "on a terminal a name that nobody knows is met with a doubt" {
	on_terminal() {
		TERM=xterm timeout 20 script -qec "$(printf '%q ' "$JOBRUN" "$@")" /dev/null </dev/null | tr -d '\r'
	}
	enqueue work -q mail
	run on_terminal pause --queue mail --type work
	assert_output 'queue mail: paused
type work: paused'
	run on_terminal pause --queue mial --type wrok
	assert_line 'no runner and no run knows the queue mial; is that its name?'
	assert_line 'no runner and no run knows the type wrok; is that its name?'
}
