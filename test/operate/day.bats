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
	jr run --ping "$web/ping/tick" --lease 2s
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

# metric SERIES: its value; the label database is left out.
metric() {
	jr_ok metrics -o now.prom
	sed "s/{database=\"$JR_DATABASE\"}//; s/{database=\"$JR_DATABASE\",/{/" now.prom |
		awk -v name="jobrun_$1" '{ number = $NF; sub(/ [^ ]+$/, ""); if ($0 == name) print number }'
}

# page_says TEXT: somewhere on the page.
page_says() {
	jr_ok report -o page.html
	python3 -c 'import html, re, sys
text = re.sub("<style>.*</style>", "", sys.stdin.read(), flags=re.S)
print(" ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split()))' <page.html >page.txt
	grep -qF -- "$1" page.txt || fail "no \"$1\" in: $(<page.txt)"
}

@test "a day in the life: a burst, a dead host, a cron that stops, a full queue, a poison type" {
	# Quiet.
	enqueue work
	tick 0
	check_says 0 'JOBRUN OK'
	status_says
	page_says 'All is well'
	assert_equal "$(metric 'runs_finished_total{job_type="work",queue="default",outcome="succeeded"}')" 1

	# A burst: more than the ticks of some minutes could do. Then it is done.
	q "select count(jobrun.enqueue('work')) from generate_series(1, 30)" \
		"update jobrun.job_runs set run_at = now() - interval '6 minutes', created_at = now() - interval '6 minutes' where status = 'queued'" >/dev/null
	check_says 1 'JOBRUN WARNING: oldest due run waits for 6m'
	assert_regex "$(metric 'oldest_due_seconds{job_type="work",queue="default"}')" '^36[0-9]'
	assert_equal "$(metric 'runs{job_type="work",queue="default",status="queued"}')" 30
	page_says 'oldest due run waits for 6m'
	tick 0
	check_says 0 'JOBRUN OK'
	status_says
	assert_equal "$(metric 'runs_finished_total{job_type="work",queue="default",outcome="succeeded"}')" 31

	# A host that died in the middle of a run, three minutes ago. The next tick of any host takes the run over.
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'gone', 'x')" \
		"insert into jobrun.job_runs (job_type, status, runner_id, locked_by, locked_until, started_at, attempts, claim_seq, backoff_base)
		values ('plain', 'running', 7, 'gone', now() - interval '3 minutes', now() - interval '9 minutes', 1, 1, '0')"
	check_says 1 'JOBRUN WARNING: 1 expired lease (gone)'
	assert_equal "$(metric expired_leases)" 1
	tick 0
	check_says 0 'JOBRUN OK'
	assert_equal "$(metric 'attempts_total{job_type="plain",queue="default",outcome="lost"}')" 1
	assert_equal "$(metric 'runs_finished_total{job_type="plain",queue="default",outcome="succeeded"}')" 1

	# Cron has stopped: nobody pings, and a run waits.
	q "update jobrun.job_runners set started_at = started_at - interval '7 minutes', last_seen_at = now() - interval '7 minutes', finished_at = finished_at - interval '7 minutes'"
	q "update jobrun.job_runners set last_seen_at = now() - interval '7 minutes'"
	enqueue work
	q "update jobrun.job_runs set run_at = now() - interval '6 minutes', created_at = now() - interval '6 minutes' where status = 'queued'"
	check_says 2 'JOBRUN CRITICAL: last runner seen 7m'
	status_says '1 due for more than 5 minutes, and no runner has been seen in that time (is the crontab line in place?'
	page_says 'last runner seen 7m'
	assert_equal "$(pings)" 'ok ok ok'
	tick 0
	check_says 0 'JOBRUN OK'
	status_says

	# A queue that is full: others start, and explain names the limit.
	jr_ok queue mail --max-running 0
	id=$(enqueue work --queue mail)
	q "update jobrun.job_runs set run_at = now() - interval '6 minutes', created_at = now() - interval '6 minutes' where id = $id"
	tick 0
	check_says 1 'JOBRUN WARNING: oldest due run waits for 6m'
	assert_equal "$(metric 'queue_running_limit{queue="mail"}')" 0
	jr_ok explain "$id"
	assert_line --index 1 'try: jobrun queue mail --max-running 1'
	jr_ok queue mail --max-running 1
	tick 0
	check_says 0 'JOBRUN OK'

	# A poison type: each run dies, and cron's mail says so. The tick itself could work.
	for _ in 1 2 3; do
		enqueue give_up
	done
	tick 1
	assert_equal "$(grep -c '^jobrun: run [0-9]* give_up is dead' <<<"$stderr")" 3
	check_says 1 'JOBRUN WARNING: 3 dead in the last hour (mostly give_up)'
	status_says 'give_up: 3 dead in 24h (jobrun list --status dead --type give_up)'
	assert_equal "$(metric 'runs_finished_total{job_type="give_up",queue="default",outcome="dead"}')" 3
	page_says 'smtp: no such user'
	assert_equal "$(pings)" 'ok ok ok ok ok ok ok'

	# The database is away: the tick fails, and says so outside.
	JOBRUN_DATABASE_URL='host=/nowhere' tick 75
	assert_equal "$(pings)" 'ok ok ok ok ok ok ok fail'
}
