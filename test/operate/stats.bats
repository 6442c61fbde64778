#!/usr/bin/env bats
# jobrun stats: sums of completed hours and of the open one, by type, queue, hour, day and error.

load ../lib/common

# Two completed hours, of which one is yesterday's in Kolkata, and runs of the open hour.
setup() {
	common_setup
	q "update jobrun.settings set stats_until = date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'" \
		"insert into jobrun.job_stats (hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
		select s.stats_until - h.ago, c.n, c.run_ms, 0, c.job_type, c.queue, c.outcome, c.run, c.wait
		from jobrun.settings s, (values (interval '2 hours'), ('30 hours')) h(ago), (values
			(100, 90000, 'report', 'slow', 'succeeded', '{0,50,45,0,5}'::bigint[], '{100}'::bigint[]),
			(7, 700, 'report', 'slow', 'failed', '{0,0,0,0,0,0,7}', '{}'),
			(10, 100, 'mail', 'default', 'succeeded', '{10}', '{0,0,0,0,0,0,0,0,0,0,0,10}')) c(n, run_ms, job_type, queue, outcome, run, wait)" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, run_at, started_at, finished_at, error_code)
		select 'mail', 'dead', 1, 1, 1, 'h', s.stats_until, s.stats_until + interval '10 s', s.stats_until + interval '11 s', 'exit:1'
		from jobrun.settings s" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at, error_code)
		select r.id, 1, 1, 'failed', r.started_at, r.finished_at, 'exit:1' from jobrun.job_runs r"
}

@test "stats: a line for each type, the longest first, with the hours that are not summed yet" {
	jr_ok stats
	assert_line --regexp '^TYPE +OK +FAILED +DEAD +CANCELLED +LOST +WAIT50 +WAIT95 +WAIT99 +RUN50 +RUN95 +RUN99 +TOTAL$'
	assert_line --regexp '^report +100 +7 +0 +0 +0 +<2ms +<2ms +<2ms +<8ms +<128ms +<128ms +1m 30s$'
	assert_line --regexp '^mail +10 +0 +1 +0 +0 +<4.1s +<16s +<16s +<2ms +<1.0s +<1.0s +1s 100ms$'
	assert_regex "${lines[1]}" '^report'
	jr_ok stats mail
	assert_equal "${#lines[@]}" 2
	jr_ok stats nothing_has_this
	assert_output 'nothing ended'
	jr_ok stats --since 2d
	assert_line --regexp '^report +200 '
}

@test "stats by queue, by hour and by day of a zone" {
	local yesterday

	jr_ok stats --by queue
	assert_line --regexp '^slow +100 +7 +0 '
	assert_line --regexp '^default +10 +0 +1 '
	jr_ok stats --by hour --time-zone UTC
	assert_equal "${#lines[@]}" 3
	assert_regex "${lines[1]}" "^$(q "select to_char(stats_until at time zone 'UTC' - interval '2 hours', 'YYYY-MM-DD HH24:MI') from jobrun.settings") +110 +7 +0 "
	assert_regex "${lines[2]}" "^$(q "select to_char(stats_until at time zone 'UTC', 'YYYY-MM-DD HH24:MI') from jobrun.settings") +0 +0 +1 "
	yesterday=$(q "select to_char((stats_until - interval '30 hours') at time zone 'Asia/Kolkata', 'YYYY-MM-DD') from jobrun.settings")
	jr_ok stats --by day --time-zone Asia/Kolkata --since 40h
	assert_regex "${lines[1]}" "^$yesterday +110 "
	TZ=Asia/Kolkata jr_ok stats --by day --since 40h
	assert_regex "${lines[1]}" "^$yesterday +110 "
}

@test "stats --by error: which errors, how often, and an example" {
	q "insert into jobrun.job_runs (job_type, status, attempts, claim_seq, run_at) values ('mail', 'failed', 2, 2, now() + interval '1 hour')" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at, error_code)
		select r.id, c.c, c.c, c.outcome, now(), now() - c.ago, c.error_code
		from jobrun.job_runs r, (values (1, 'failed', interval '0', 'exit:1'), (2, 'lost', interval '0', null)) c(c, outcome, ago, error_code)
		where r.status = 'failed'"
	jr_ok stats --by error
	assert_line --regexp '^TYPE +ERROR +COUNT +DEAD +LAST +EXAMPLE$'
	assert_line --regexp '^mail +exit:1 +2 +1 +.+ +2$'
	assert_line --regexp '^mail +lost +1 +0 +.+ +2$'
	jr_ok stats --by error report
	assert_output 'nothing ended'
	jr_ok stats --by error --json
	assert_equal "$(jq -c '[.version, .by, [.rows[] | [.job_type, .error_code, .count, .dead, .example_id]]]' <<<"$output")" \
		'[1,"error",[["mail","exit:1",2,1,2],["mail","lost",1,0,2]]]'
}

@test "stats --json has the numbers, and a terminal the distribution of one type" {
	jr_ok stats --json
	assert_equal "$(jq -c '[.version, .by, .since_ms]' <<<"$output")" '[1,"type",86400000]'
	assert_equal "$(jq -c '.rows[0]' <<<"$output")" '{"name":"report","succeeded":100,"failed":7,"dead":0,"cancelled":0,"lost":0,"wait_p50_ms":2,"wait_p95_ms":2,"wait_p99_ms":2,"run_p50_ms":8,"run_p95_ms":128,"run_p99_ms":128,"run_ms":90700,"run_buckets":[0,50,45,0,5,0,7],"wait_buckets":[100]}'
	NO_COLOR=1 run on_terminal 80 stats --no-pager report
	assert_equal "$(sed 's/ *$//' <<<"$output")" 'What ended in the last 1d
TYPE    OK FAILED DEAD WAIT50 WAIT95 WAIT99 RUN50  RUN95  RUN99  TOTAL
report 100      7    0   <2ms   <2ms   <2ms  <8ms <128ms <128ms 1m 30s

Waited
     <2ms ████████████████████████████████████████ 100

Ran
     <4ms ████████████████████████████████████████ 50
     <8ms ████████████████████████████████████ 45
    <16ms 0
    <32ms ████ 5
    <64ms 0
   <128ms ██████ 7'
}

@test "stats --csv: raw values, as list --csv writes them" {
	run_jobrun stats --csv >got
	assert_equal "$(tr '\r' '~' <got)" 'type,succeeded,failed,dead,cancelled,lost,wait_p50_ms,wait_p95_ms,wait_p99_ms,run_p50_ms,run_p95_ms,run_p99_ms,run_ms~
report,100,7,0,0,0,2,2,2,8,128,128,90700~
mail,10,0,1,0,0,4096,16384,16384,2,1024,1024,1100~'
	run_jobrun stats --csv --by day --time-zone UTC --since 1m >got # with a name for what it groups by
	assert_regex "$(head -n1 got)" '^day,succeeded,'
	assert_regex "$(sed -n 2p got)" '^[0-9]{4}-[0-9]{2}-[0-9]{2},'
	run_jobrun stats --csv --by error >got
	assert_equal "$(tr '\r' '~' <got)" "type,error_code,count,dead,last,example~
mail,exit:1,1,1,$(q "select to_char(finished_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') from jobrun.job_attempts"),1~"
	run_jobrun stats --csv nothing_has_this >got
	assert_equal "$(wc -l <got)" 1
	jr stats --csv --json
	assert_one_line 64 '^jobrun: --json and --csv exclude each other'
}

@test "stats --json where TZ is no UTF-8" {
	TZ=$'\xff' jr_ok stats --by error --json
	assert_equal "$(jq -r .time_zone <<<"$output")" $'\ufffd'
	TZ=:/etc/localtime jr_ok stats --by day
}

@test "stats refuses a zone that the server does not know, also if nothing ended" {
	q 'truncate jobrun.job_runs, jobrun.job_attempts, jobrun.job_stats'
	jr stats --by day --time-zone europe/berlin # nothing ended: it is refused all the same
	assert_one_line 65 '^jobrun: --time-zone: time zone "europe/berlin" is not known here; did you mean "Europe/Berlin"\?$'
	TZ=Nowhere/Land jr_ok stats # of no use here
}

@test "stats refuses what it does not know, and a reader sees what all see" {
	local role=stats_$JR_DATABASE what

	jr stats --by wrong
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: unknown --by "wrong": type, queue, hour, day or error'
	jr stats --by hours
	assert_equal "$stderr" 'jobrun: unknown --by "hours": did you mean "hour"?'
	for what in '' '--by type' '--by queue' '--by error --csv' --json; do
		# shellcheck disable=SC2086 # words
		jr stats $what --time-zone UTC
		assert_one_line 64 '^jobrun: --time-zone is that of hours and days: add --by hour or --by day$'
	done
	jr stats --by day --time-zone Nowhere/Land
	assert_equal "$status" 65
	assert_equal "$stderr" 'jobrun: --time-zone: time zone "Nowhere/Land" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"'
	make_role "$role"
	jr_ok grant read "$role"
	JOBRUN_DATABASE_URL=$(url_of "$role") jr_ok stats
	assert_line --regexp '^report +100 '
	JOBRUN_DATABASE_URL=$(url_of "$role") jr_ok stats --by error
	assert_line --regexp '^mail +exit:1 +1 +1 '
}
