#!/usr/bin/env bats
# A day in the life: what status, check, metrics, the page and the ping say while things go wrong, and when they are well again.

load ../lib/common
load ../lib/web

setup() {
	common_setup
	typical_handlers
	web
}

# tick STATUS: what cron's line does.
tick() {
	jr run --ping "$web/ping/tick"
	assert_equal "$status" "$1"
}

# pings: how each tick so far was told, in one word each.
pings() {
	requests .target | sed 's#/ping/tick$#ok#; s#/ping/tick/##' | paste -sd' '
}

# check_says STATUS TEXT: its exit status, and a part of its first line.
check_says() {
	jr check
	assert_equal "$status $stderr" "$1 "
	[[ ${lines[0]} == *"$2"* ]] || fail "no \"$2\" in: ${lines[0]}"
}

# status_says TEXT...: these lines begin with "!", and no others do.
status_says() {
	jr status
	assert_equal "$(grep -c '^!' <<<"$output" || true)" $#
	for text; do
		grep -qF -- "$text" <<<"$output" || fail "no \"$text\" in: $output"
	done
}

# metric SERIES: its value in now.prom, which `numbers` writes; the label database is left out.
metric() {
	sed "s/{database=\"$JR_DATABASE\"}//; s/{database=\"$JR_DATABASE\",/{/" now.prom |
		awk -v name="jobrun_$1" '{ number = $NF; sub(/ [^ ]+$/, ""); if ($0 == name) print number }'
}

numbers() {
	jr_ok metrics -o now.prom
}

# ago SERIES: how many seconds before the numbers were written that was.
ago() {
	awk '{ printf "%d", $1 - $2 }' <<<"$(metric written_timestamp_seconds) $(metric "$1")"
}

# page_says TEXT...: somewhere on the page.
page_says() {
	local text

	jr_ok report -o page.html
	python3 -c 'import html, re, sys
text = re.sub("<style>.*</style>", "", sys.stdin.read(), flags=re.S)
print(" ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split()))' <page.html >page.txt
	for text; do
		grep -qF -- "$text" page.txt || fail "no \"$text\" in: $(<page.txt)"
	done
}

# due_since INTERVAL: what waits has been due for so long.
due_since() {
	q "update jobrun.job_runs set run_at = now() - interval '$1', created_at = now() - interval '$1' where status = 'queued'"
}

# seen_since INTERVAL [WHERE]: these runners ended so long ago.
seen_since() {
	q "update jobrun.job_runners set started_at = now() - interval '$1', finished_at = now() - interval '$1' where ${2:-true}" \
		"update jobrun.job_runners set last_seen_at = now() - interval '$1' where ${2:-true}"
}

# all_is_well PINGS: and so many ticks have said so.
all_is_well() {
	check_says 0 'JOBRUN OK'
	status_says
	page_says 'All is well'
	assert_equal "$(pings)" "$1"
}

@test "a day in the life, the morning: a burst, a dead host, a cron that stops" {
	enqueue work
	tick 0
	all_is_well ok
	numbers
	assert_equal "$(metric 'runs_finished_total{job_type="work",queue="default",outcome="succeeded"}')" 1

	# A burst: more than the ticks of some minutes could do. Then it is done.
	q "select count(jobrun.enqueue('work')) from generate_series(1, 30)" >/dev/null
	due_since '6 minutes'
	check_says 1 'JOBRUN WARNING: oldest due run waits for '
	status_says '! work: runs have been due for more than 5 minutes, and runners come (jobrun list --waiting --type work)'
	numbers
	oldest=$(metric 'oldest_due_seconds{job_type="work",queue="default"}')
	assert_between 360 "${oldest%.*}" 599
	assert_equal "$(metric 'runs{job_type="work",queue="default",status="queued"}')" 30
	page_says 'oldest due run waits for ' 'Needs a look work runs have been due for more than 5 minutes'
	tick 0
	all_is_well 'ok ok'
	numbers
	assert_equal "$(metric 'runs_finished_total{job_type="work",queue="default",outcome="succeeded"}')" 31

	# A host that died in the middle of a run, three minutes ago. The next tick of any host takes the run over. Who had a tick a minute and
	# has none is missed after a quarter of an hour.
	q "insert into jobrun.job_runners (id, pid, permits, host, version, job_types, started_at, last_seen_at)
		select 100 + i, 1, 1, 'gone', 'x', '{work}', now() - i * interval '1 minute', now() - i * interval '1 minute' from generate_series(3, 12) i" \
		"insert into jobrun.job_runs (job_type, status, runner_id, locked_by, locked_until, started_at, attempts, claim_seq, backoff_base)
		values ('plain', 'running', 103, 'gone', now() - interval '3 minutes', now() - interval '9 minutes', 1, 1, '0')"
	check_says 1 'JOBRUN WARNING: 1 expired lease (gone)'
	status_says '! host gone: the lease of 1 running run ended more than 2 minutes ago, and no runner has taken it over (jobrun --once -v)'
	page_says '1 expired lease (gone)'
	numbers
	assert_equal "$(metric expired_leases)" 1
	tick 0
	all_is_well 'ok ok ok'
	numbers
	assert_equal "$(metric 'attempts_total{job_type="plain",queue="default",outcome="lost"}')" 1
	assert_equal "$(metric 'runs_finished_total{job_type="plain",queue="default",outcome="succeeded"}')" 1
	q "update jobrun.job_runners set started_at = started_at - interval '14 minutes', last_seen_at = last_seen_at - interval '14 minutes' where host = 'gone'"
	check_says 0 'JOBRUN OK'
	status_says '! host gone: no runner has been seen for 1'
	numbers
	assert_between 1020 "$(ago 'runner_last_seen_timestamp_seconds{host="gone"}')" 1199
	page_says 'Work goes on, and something needs a look' 'not seen for 1'
	q "delete from jobrun.job_runners where host = 'gone'"

	# Cron has stopped: nobody pings, and then a run waits.
	seen_since '7 minutes'
	check_says 2 'JOBRUN CRITICAL: last runner seen '
	status_says '! runners: none has been seen for more than 5 minutes (is the crontab line in place? try: jobrun --once -v)'
	enqueue work
	due_since '6 minutes'
	check_says 2 'JOBRUN CRITICAL: last runner seen '
	status_says '1 due for more than 5 minutes, and no runner has been seen in that time (is the crontab line in place?'
	page_says 'Somebody has to act critical last runner seen '
	numbers
	assert_between 420 "$(ago last_runner_seen_timestamp_seconds)" 599
	assert_equal "$(pings)" 'ok ok ok'
	tick 0
	all_is_well 'ok ok ok ok'
}

@test "a day in the life, the afternoon: a full queue, a poison type, a database that is away" {
	enqueue work
	tick 0
	# A queue that is full: others start, and explain names the limit.
	jr_ok queue mail --max-running 0
	id=$(enqueue work --queue mail)
	due_since '6 minutes'
	enqueue plain
	tick 0
	check_says 1 'JOBRUN WARNING: oldest due run waits for '
	status_says '! work: runs have been due for more than 5 minutes, and runners come (jobrun list --waiting --type work)'
	numbers
	assert_equal "$(metric 'queue_running_limit{queue="mail"}')" 0
	assert_equal "$(metric 'runs{job_type="plain",queue="default",status="queued"}')" 0
	page_says 'jobrun list --waiting --type work'
	jr_ok list --waiting --type work
	assert_output --partial 'queue mail lets no run start: its max-running is 0'
	jr_ok explain "$id"
	assert_line --index 1 'try: jobrun queue mail --max-running 1'
	jr_ok queue mail --max-running 1
	tick 0
	all_is_well 'ok ok ok'

	# A poison type: each run dies, and cron's mail says so. The tick itself could work.
	for _ in 1 2 3; do
		enqueue give_up
	done
	tick 1
	assert_equal "$(grep -c '^jobrun: run [0-9]* give_up is dead' <<<"$stderr")" 3
	check_says 1 'JOBRUN WARNING: 3 dead in the last hour (mostly give_up)'
	status_says 'give_up: 3 dead in 24h (jobrun list --status dead --type give_up)'
	numbers
	assert_equal "$(metric 'runs_finished_total{job_type="give_up",queue="default",outcome="dead"}')" 3
	page_says 'smtp: no such user'
	assert_equal "$(pings)" 'ok ok ok ok'

	# The database is away: the tick fails, and says so outside. The old numbers and the old page stay.
	cp page.html before.html
	JOBRUN_DATABASE_URL='host=/nowhere' tick 75
	assert_equal "$(pings)" 'ok ok ok ok fail'
	JOBRUN_DATABASE_URL='host=/nowhere' check_says 3 'JOBRUN UNKNOWN: connection to server'
	JOBRUN_DATABASE_URL='host=/nowhere' jr report -o page.html
	assert_equal "$status" 75
	cmp page.html before.html
}
