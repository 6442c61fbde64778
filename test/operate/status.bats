#!/usr/bin/env bats
# jobrun status: the types, and what needs a look. What it says of pauses is in operate/pause.bats.

load ../lib/common

setup() {
	common_setup
	typical_handlers
}

@test "status: a line for each job type and what needs a look" {
	enqueue work
	enqueue again --backoff 1h
	enqueue give_up
	jr run
	enqueue work --in 1h
	enqueue other
	jr_ok status
	assert_regex "${lines[0]}" "^jobrun .*, database $JR_DATABASE \(PostgreSQL [0-9.]+\), schema [0-9]+, last runner seen .* on .*, 0 running$"
	assert_regex "${lines[1]}" '^TYPE +QUEUED +RETRYING +RUNNING +DEAD +DONE 24H +OLDEST DUE +LAST OK +NEXT SLOT$'
	assert_line --regexp '^again +0 +1 +0 +0 +0 +- +- +-$'
	assert_line --regexp '^give_up +0 +0 +0 +1 +0 +- +- +-$'
	assert_line --regexp '^other +1 +0 +0 +0 +0 +[0-9]+m?s +- +-$'
	assert_line --regexp '^work +1 +0 +0 +0 +1 +- +(now|[0-9]+s ago) +-$'
	assert_line '! give_up: 1 dead in 24h (jobrun list --status dead --type give_up)'
	jr_ok status work
	refute_line --partial give_up
	jr_ok status --json
	assert_equal "$(jq -c '[.types[] | [.job_type, .queued, .dead]]' <<<"$output")" \
		'[["again",0,0],["give_up",0,1],["other",1,0],["work",1,0]]'
	assert_equal "$(jq -c '[.problems[] | [.about, .problem]]' <<<"$output")" '[["give_up","dead"]]'
}

@test "status names runs that no runner can run or comes for" {
	q "select jobrun.enqueue('resize')" >/dev/null
	enqueue work
	jr_ok run
	enqueue work
	q "update jobrun.job_runs set run_at = now() - interval '1 hour' where status = 'queued'"
	q "update jobrun.job_runners set last_seen_at = now() - interval '30 minutes', started_at = now() - interval '30 minutes',
		finished_at = now() - interval '30 minutes'"
	jr_ok status
	assert_line --partial '! resize: 1 due, and no runner of the last 24h has this type'
	assert_line --partial 'jobrun handlers says what this host has, and what is wrong)'
	assert_line --partial '! work: 1 due for more than 5 minutes, and no runner has been seen in that time'
}

@test "status says what check warns of: runs that wait while runners come, leases that nobody takes over, runners that are gone" {
	enqueue work
	jr_ok run
	enqueue work
	jr_ok status
	refute_line --regexp '^!'
	q "update jobrun.job_runs set run_at = now() - interval '6 minutes' where status = 'queued'"
	jr_ok status
	assert_line '! work: runs have been due for more than 5 minutes, and runners come (jobrun list --waiting --type work)'
	jr_ok status work
	assert_line --regexp '^! work: '
	jr_ok pause --type work
	jr_ok status
	refute_line --partial 'have been due'
	jr_ok resume --type work
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where status = 'queued'" \
		"insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'db 9', 'x')" \
		"insert into jobrun.job_runs (job_type, status, runner_id, locked_by, locked_until, started_at, attempts, claim_seq)
		select 'work', 'running', 7, 'db 9', now() - interval '3 minutes', now() - interval '9 minutes', 1, 1 from generate_series(1, 2)"
	jr_ok status
	assert_line '! host db 9: the leases of 2 running runs ended more than 2 minutes ago, and no runner has taken them over (jobrun --once -v)'
	q "delete from jobrun.job_runs where status = 'running'" "delete from jobrun.job_runners where id = 7"
	jr_ok status
	refute_line --regexp '^!'
	# Those of exec alone come when their lines do.
	q "update jobrun.job_runners set last_seen_at = now() - interval '6 minutes', started_at = now() - interval '6 minutes'"
	jr_ok status --json
	assert_equal "$(jq -c '[.problems[] | [.about, .problem]]' <<<"$output")" '[["runners","silent"]]'
	assert_equal "$(jq -r '.problems[0].advice' <<<"$output")" 'is the crontab line in place? try: jobrun --once -v'
	q "update jobrun.job_runners set job_types = '{}'"
	jr_ok status
	refute_line --regexp '^!'
}

@test "status names a host of several whose runners come no more, by its own rhythm" {
	q "insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, job_types)
		select row_number() over (), 1, 1, h.host, '1', now() - h.ago - i * h.step, now() - h.ago - i * h.step, '{work}'
		from (values ('well', interval '0', interval '1 minute', 12), ('gone', interval '17 minutes', interval '1 minute', 12),
			('slow', interval '17 minutes', interval '10 minutes', 12), ('slower', interval '40 minutes', interval '10 minutes', 12),
			('once', interval '2 hours', interval '1 minute', 3), ('old', interval '25 hours', interval '1 minute', 12)) h(host, ago, step, n)
		cross join lateral generate_series(0, h.n - 1) i"
	jr_ok status
	assert_equal "$(grep '^!' <<<"$output")" \
		"! host gone: no runner has been seen for 17 minutes, and one used to come every minute (on that host: jobrun doctor)
! host slower: no runner has been seen for 40 minutes, and one used to come every 10 minutes (on that host: jobrun doctor)"
	jr_ok pause --host gone
	jr_ok status
	refute_line --partial 'host gone: no runner'
	# All of them are gone: that is said, once.
	q "update jobrun.job_runners set started_at = started_at - interval '6 minutes', last_seen_at = last_seen_at - interval '6 minutes'"
	jr_ok status --json
	assert_equal "$(jq -c '[.problems[] | select(.problem == "silent") | .about]' <<<"$output")" '["runners"]'
}

@test "runners of exec are no ticks: they neither have a rhythm nor say that the crontab line is in place" {
	local runners='insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, job_types)'

	# A host with nothing but a batch of exec each night, beside one with ticks.
	q "$runners select i, 1, 1, 'nightly', '1', now() - interval '3 hours' + i * interval '1 s', now() - interval '3 hours', '{}' from generate_series(1, 12) i" \
		"$runners select 100 + i, 1, 1, 'ticks', '1', now() - i * interval '1 minute', now() - i * interval '1 minute', '{work}' from generate_series(0, 11) i"
	jr_ok status
	refute_line --regexp '^!'
	# The ticks have stopped, and the lines of exec go on.
	q "update jobrun.job_runners set started_at = started_at - interval '20 minutes', last_seen_at = last_seen_at - interval '20 minutes'
		where host = 'ticks'" \
		"$runners values (999, 1, 1, 'ticks', '1', now(), now(), '{}')"
	jr_ok status --json
	assert_equal "$(jq -c '[.problems[] | [.about, .problem]]' <<<"$output")" '[["runners","silent"]]'
	jr check
	assert_equal "$status" 2
	assert_line --partial 'last runner seen 20m'
	# Another host's ticks are there: this one is silent, whatever exec does.
	q "$runners values (1000, 1, 1, 'other', '1', now(), now(), '{work}')"
	jr_ok status
	assert_line '! host ticks: no runner has been seen for 20 minutes, and one used to come every minute (on that host: jobrun doctor)'
	# Where there is nothing but exec, its runners count.
	q "delete from jobrun.job_runners where job_types <> '{}'"
	jr check
	assert_line --regexp '^\[OK\] last runner seen [0-9]+s ago on ticks$'
}

@test "status of a type with nothing to show exits with 1, and still shows the others" {
	enqueue work
	jr status wrok
	assert_equal "$status" 1
	assert_equal "${#lines[@]}" 1
	assert_equal "$stderr" "jobrun: nothing of type wrok waits, runs or has ended in the last 24h; for older runs: jobrun list --type wrok"
	jr status wrok work other
	assert_equal "$status" 1
	assert_line --regexp '^work +1 '
	assert_equal "${#stderr_lines[@]}" 2
	jr status wrok --json
	assert_equal "$status" 1
	assert_equal "$(jq -c .types <<<"$output")" '[]'
}

@test "status of an empty database says that there is nothing" {
	jr_ok status
	assert_regex "$output" ', no runner yet, 0 running$'
	assert_equal "${#lines[@]}" 1
	jr_ok status --json
	assert_equal "$(jq -c '[.types, .problems]' <<<"$output")" '[[],[]]'
}

@test "status: control characters in a runner's host name move no cursor" {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, e'ev\x1b[2Jil', '1')"
	jr_ok status
	assert_line --index 0 --partial 'on ev\x1b[2Jil'
}

@test "status counts up to 10,000 runs of a type, with --exact all, and knows completed hours by their sums" {
	stay_in hour
	q "insert into jobrun.job_runs (job_type, run_at) select 'many', now() + interval '1 day' from generate_series(1, 10050)" \
		"insert into jobrun.job_definitions (name, job_type, schedule, next_slot_at) values ('nightly', 'report', '@daily', now() + interval '150 minutes')" \
		"update jobrun.settings set stats_until = date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'" \
		"insert into jobrun.job_stats (hour, n, job_type, queue, outcome) select stats_until - h * interval '1 hour', 10, 'report', 'default', 'succeeded'
			from jobrun.settings, generate_series(1, 30) h"
	jr_ok status
	assert_line --regexp '^many +10000[+] +0[+] +0 +0 +0 +- +- +-$'
	assert_line --regexp '^report +0 +0 +0 +0 +230 +- +.+ ago +in .+$' # 23 whole hours, and the one that has begun
	jr_ok status --exact many
	assert_line --regexp '^many +10050 +0 +0 +0 +0 +- +- +-$'
	jr_ok status --json
	assert_equal "$(jq -c '[.types[] | [.job_type, .queued, .waiting_is_capped, .succeeded_24h]]' <<<"$output")" '[["many",10000,true,0],["report",0,false,230]]'
}

@test "status: of several types that have many waiting, each is counted up to its share" {
	q "insert into jobrun.job_runs (job_type, run_at) select 'many' || t, now() + interval '1 hour' from generate_series(1, 9) t, generate_series(1, 3000) n" \
		"insert into jobrun.job_runs (job_type, run_at) select 'few', now() + interval '1 hour' from generate_series(1, 400) n"
	jr_ok status
	assert_line --regexp '^few +400 +0 +0 '
	assert_line --regexp '^many1 +500[+] +0[+] +0 '
	jr_ok status --exact
	assert_line --regexp '^many1 +3000 +0 +0 '
}

@test "status: late runs are counted up to 100, those of all queues and priorities together" {
	q "insert into jobrun.job_runs (job_type, queue, priority, run_at, created_at)
		select t, 'q' || n % 3, n % 2, now() - interval '10 minutes', now() - interval '10 minutes' from generate_series(1, 101) n, unnest('{much,some}'::text[]) t
		where t = 'much' or n <= 42" \
		"insert into jobrun.job_runs (job_type) select 'some' from generate_series(1, 30)"
	jr_ok status
	assert_line --partial '! much: >100 due, and no runner'
	assert_line --partial '! some: 42 due, and no runner'
}

@test "status: a line to type has the name of a host in quotes where a shell needs them" {
	q "insert into jobrun.job_runners (id, pid, permits, host, version, paused_until) values (1, 1, 1, 'x; it''s', '1', 'infinity'), (2, 1, 1, 'db-2.lan', '1', 'infinity')"
	jr_ok status
	assert_line --partial "(jobrun resume --host 'x; it'\\''s')"
	assert_line --partial '(jobrun resume --host db-2.lan)'
}

# stats_read: how many rows of the hourly sums have been read so far.
stats_read() {
	wait_until 10 is_alone
	q "select t.seq_tup_read + coalesce(t.idx_tup_fetch, 0) from pg_stat_user_tables t where t.relid = 'jobrun.job_stats'::regclass"
}

@test "status knows the last success of a type from the totals, and does not read years of sums for it" {
	local before

	enqueue yearly >/dev/null
	enqueue never >/dev/null
	q "insert into jobrun.job_totals select date_trunc('hour', now()) - interval '50 days', 1, 1, 1, 'yearly', 'q', 'succeeded', '{1}', '{1}'" \
		"insert into jobrun.job_stats (hour, job_type, queue, outcome, n)
			select date_trunc('hour', now(), 'UTC') - i * interval '1 hour', 'hourly', 'q', 'succeeded', 1 from generate_series(30, 5000) i"
	before=$(stats_read)
	jr_ok status -d "$(past_pooler)"
	assert_line --regexp '^yearly +1 .* 50d ago +-$'
	assert_line --regexp '^never +1 .* - +-$'
	assert [ "$(($(stats_read) - before))" -le 100 ]
}

# succeeded TYPE N: so many runs that have succeeded in this hour.
succeeded() {
	q "insert into jobrun.job_runs (job_type, status, finished_at, started_at, attempts, claim_seq)
		select '$1', 'succeeded', now(), now(), 1, 1 from generate_series(1, $2)"
}

@test "a cancel of very many runs hides no success, and what is not counted of very many successes is said" {
	q "update jobrun.settings set stats_until = date_trunc('hour', now() at time zone 'UTC') at time zone 'UTC'"
	succeeded welcome 3
	q "insert into jobrun.job_runs (job_type, queue) select 'bulk', 'bulk' from generate_series(1, 50001)"
	jr_ok cancel -q bulk
	jr_ok status
	assert_line --regexp '^welcome +0 +0 +0 +0 +3 +- +(now|.* ago) +-$'
	refute_line --partial '50,000'
	succeeded bulk 50001
	q "insert into jobrun.job_runs (job_type, run_at) values ('later', now() + interval '1 hour')"
	jr_ok status
	assert_line --regexp '^bulk +0 +0 +0 +0 +50000[+] +- +(now|.* ago) +-$'
	assert_line --regexp '^later +1 +0 +0 +0 +0[+] +- +[?] +-$'
	assert_line 'only the newest 50,000 successes of this hour were counted; --exact counts all'
	jr status welcome
	assert_equal "$status" 1
	assert_regex "$stderr" 'nothing of type welcome .*, as far as the newest 50,000 successes of this hour tell \(--exact counts all\); '
	jr_ok status --json
	assert_equal "$(jq .database.ended_is_capped <<<"$output")" true
	jr_ok status --exact welcome
	assert_line --regexp '^welcome +0 +0 +0 +0 +3 +- +(now|.* ago) +-$'
	refute_line --partial '50,000'
}
