#!/usr/bin/env bats
# jobrun metrics: the text format, the numbers, that counters never fall, and the file.

load ../lib/common

# metrics [ARGUMENT...]: write now.prom, which must obey the format.
metrics() {
	jr_ok metrics -o now.prom "$@"
	assert_equal "$output$stderr" ''
	"$TOP/test/lib/exposition.py" now.prom
}

# never_falls: the same, and no counter is lower than in the last now.prom.
never_falls() {
	cp now.prom old.prom
	metrics
	"$TOP/test/lib/exposition.py" old.prom now.prom
}

# plain FILE: without the label that each line has.
plain() {
	sed "s/{database=\"$JR_DATABASE\"}//; s/{database=\"$JR_DATABASE\",/{/" "$1"
}

# value SERIES: in now.prom; the label database is left out.
value() {
	plain now.prom | awk -v name="jobrun_$1" '{ number = $NF; sub(/ [^ ]+$/, ""); if ($0 == name) print number }'
}

value_is() {
	assert_equal "$1 $(value "$1")" "$1 $2"
}

# a_day_ago: all that has happened was a day ago, and was not summed then. Totals begin before it.
a_day_ago() {
	q "update jobrun.job_runs set created_at = created_at - i, run_at = run_at - i, started_at = started_at - i, finished_at = finished_at - i
			from (select interval '1 day' as i) v" \
		"update jobrun.job_attempts set started_at = started_at - i, finished_at = finished_at - i, due_at = due_at - i
			from (select interval '1 day' as i) v" \
		"update jobrun.settings set stats_until = stats_until - interval '2 days', totals_until = totals_until - interval '2 days'"
}

@test "metrics: on fixed data the text is that of metrics.prom, and the same in a pipe and in a file" {
	q <<-'sql'
		set session_replication_role = replica;
		delete from jobrun.job_definitions;
		update jobrun.settings set stats_until = '2026-01-01 00:00Z', totals_until = '2026-01-01 00:00Z';
		insert into jobrun.job_definitions (name, job_type, queue, paused_until, next_slot_at, schedule)
		values ('nightly', 'report', 'slow', 'infinity', '2026-01-01 00:00Z', '0 0 * * *');
		insert into jobrun.job_queues (name, max_running, paused_until) values ('mail', 4, null), ('slow', null, 'infinity');
		insert into jobrun.job_types (name, paused_until) values ('fax', '2026-01-01 00:00Z');
		insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at)
		values (7, 1, 1, E'a "b"\\c\nd', 'x', '2026-01-01 00:00Z', '2026-01-01 00:01Z');
		update jobrun.settings set claims_total = 40, claim_ms_total = 41234, claims_locked_total = 3;
		insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, finished_at, counts)
		values (8, 1, 1, E'a "b"\\c\nd', 'x', '2026-01-01 00:00Z', '2026-01-01 00:00Z', '2026-01-01 00:00Z', '{"claims": 2, "claim_ms": 3, "claims_locked": 1}'),
			(9, 1, 1, E'a "b"\\c\nd', 'x', '2026-01-01 00:00Z', '2026-01-01 00:00Z', '2026-01-01 00:00Z', '{"claims": "many", "claim_ms": -5, "claims_locked": null}');
		insert into jobrun.job_totals (last_hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
		values ('2026-01-01 00:00Z', 1000, 123456, 50, 'send', 'mail', 'succeeded', '{1,2,3,4,990}', '{999,1}'),
			('2026-01-01 00:00Z', 4, 10, 0, 'send', 'mail', 'lost', '{1,1,1,1}', '{}'),
			('2026-01-01 00:00Z', 5, 3, 2, 'send', 'mail', 'cancelled', '{0,2}', '{2}');
		insert into jobrun.job_runs (job_type, queue, status, attempts, claim_seq, runner_id, locked_by, run_at, started_at, finished_at, locked_until)
		select 'send', 'mail', s, n, n, case n when 1 then 7 end, case n when 1 then E'a "b"\\c\nd' end, '2026-01-02 00:00Z', '2026-01-02 00:00:01Z',
			case when s in ('succeeded', 'dead', 'cancelled') then '2026-01-02 00:00:03Z'::timestamptz end,
			case s when 'running' then '2026-01-02 00:00:03Z'::timestamptz end
		from (values ('succeeded', 1), ('dead', 1), ('cancelled', 0), ('running', 1), ('queued', 0), ('queued', 0), ('failed', 0)) v(s, n);
	sql
	metrics
	now=$(q "select round(extract(epoch from now()))")
	assert_between $((now - 60)) "$(value written_timestamp_seconds | cut -d. -f1)" "$now"
	age=$(value 'oldest_due_seconds{job_type="send",queue="mail"}' | cut -d. -f1)
	assert_between $((now - 1767312000 - 60)) "$age" $((now - 1767312000 + 1))
	jr_ok metrics
	fixed='s/^(jobrun_(written_timestamp_seconds|slot_late_seconds|lock_waits|oldest_due_seconds.*"send").*) .*/\1 X/'
	assert_equal "$(sed -E "$fixed" <<<"$output")" "$(sed -E "$fixed" now.prom)"
	plain now.prom | sed -E "$fixed" | sed 's/[{]/{database="jobs",/; /^jobrun_[a-z_]* /s/ /{database="jobs"} /' >fixed.prom
	[ "${GOLDEN:-}" != write ] || cp fixed.prom "$BATS_TEST_DIRNAME/metrics.prom"
	diff -u "$BATS_TEST_DIRNAME/metrics.prom" fixed.prom
	q 'delete from jobrun.job_runs' # no attempts tell of them
}

@test "metrics: counters do not fall when runs are retried, summed, pruned, or counted again" {
	handler flaky <<<'[ -e good ] || exit 1'
	handler work <<<'exit 0'
	for type in flaky flaky work; do
		enqueue "$type" --max-attempts 1 >/dev/null
	done
	waits=$(enqueue work --in 1h)
	jr run
	jr_ok cancel "$waits"
	metrics
	dead='runs_finished_total{job_type="flaky",queue="default",outcome="dead"}'
	cancelled='runs_finished_total{job_type="work",queue="default",outcome="cancelled"}'
	waited='run_wait_seconds_count{job_type="flaky",queue="default"}'
	value_is "$dead" 2
	value_is "$waited" 2
	value_is 'attempts_total{job_type="flaky",queue="default",outcome="failed"}' 0
	value_is "$cancelled" 0 # it may be retried without a trace
	touch "$JOBRUN_HANDLERS/good"
	jr_ok retry 1 "$waits"
	never_falls
	jr_ok cancel "$waits"
	jr_ok retry 3 --force
	never_falls
	jr_ok run
	never_falls
	value_is "$dead" 2
	value_is "$waited" 3
	value_is 'attempts_total{job_type="flaky",queue="default",outcome="failed"}' 0
	value_is 'runs_finished_total{job_type="work",queue="default",outcome="succeeded"}' 2

	a_day_ago
	q "update jobrun.settings set keep_succeeded = '0', keep_cancelled = '0', keep_dead = '0', keep_stats = '0'"
	never_falls # still not summed
	jr_ok prune
	q_is '0|0' 'select (select count(*) from jobrun.job_runs), (select count(*) from jobrun.job_stats)'
	never_falls
	value_is "$dead" 2
	value_is "$waited" 3
	value_is "$cancelled" 1
	# Summed hours are not counted again, whatever is set back or found in them.
	q "update jobrun.settings set stats_until = stats_until - interval '2 days', keep_stats = '730 days'" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, started_at, finished_at)
		select 'flaky', 'dead', 1, 1, 1, 'h', now() - i, now() - i from (select interval '1 day' as i) v"
	cp now.prom old.prom
	jr_ok prune
	q_is 1 "select sum(n) from jobrun.job_stats"
	metrics
	assert_equal "$(grep -E '^jobrun_(runs|attempts|run_wait|attempt)_.*(total|count|sum|bucket)' now.prom)" \
		"$(grep -E '^jobrun_(runs|attempts|run_wait|attempt)_.*(total|count|sum|bucket)' old.prom)"
}

@test "metrics: claims, their time, and those that found a queue locked are counted when a runner ends, and do not fall" {
	handler work <<<'exit 0'
	jr_ok queue mail --max-running 1
	jr_ok run
	metrics
	value_is claims_total 0 # nothing was due
	enqueue work >/dev/null
	enqueue work --queue mail >/dev/null
	hold "select from jobrun.job_queues for update"
	bg_runner
	wait_until 10 q_is succeeded 'select status from jobrun.job_runs where id = 1'
	release_holds
	wait_runner
	never_falls
	claims=$(value claims_total)
	locked=$(value claims_queue_locked_total)
	seconds=$(value claim_seconds_total)
	assert_between 2 "$claims" 99
	assert_between 1 "$locked" $((claims - 1))
	assert_equal "$(awk -v s="$seconds" 'BEGIN { print (s > 0 && s < 10) }')" 1

	q "update jobrun.settings set keep_runners = '0'"
	jr_ok prune
	never_falls # what is not summed stays
	q_is "$claims" "select counts -> 'claims' from jobrun.job_runners where counts ->> 'claims' > '0'"
	q "update jobrun.job_runners set started_at = started_at - i, last_seen_at = last_seen_at - i, finished_at = finished_at - i
		from (select interval '1 day' as i) v" \
		"update jobrun.settings set stats_until = stats_until - interval '2 days', totals_until = totals_until - interval '2 days'"
	never_falls
	jr_ok prune
	q_is 0 "select count(*) from jobrun.job_runners where counts ->> 'claims' > '0'"
	metrics
	value_is claims_total "$claims"
	value_is claims_queue_locked_total "$locked"
	value_is claim_seconds_total "$seconds"
}

@test "metrics: running totals have a bound; what comes later is added to other, and what is old makes room" {
	q "insert into jobrun.job_totals select now(), 1, 1, 1, 't' || i, 'q', o, '{1}', '{1}' from generate_series(1, 999) i, unnest('{dead,lost}'::text[]) o" \
		"select jobrun.add_totals(array(select row(now(), 5 + i, 7, 8, 'new' || i, 'q', 'dead', '{0,1,2}', '{}')::jobrun.job_stats
			from generate_series(1, 3) i) || row(now(), 2, 3, 4, 't7', 'q', 'dead', '{0,1}', '{1,0,3}')::jobrun.job_stats)" >/dev/null
	q_is '1001' "select count(distinct (job_type, queue)) from jobrun.job_totals"
	q_is '8|{0,1,2}' "select n, run_buckets from jobrun.job_totals where job_type = 'new3'"
	q_is 'other|13|14|16|{0,2,4}|{}' "select queue, n, run_ms, wait_ms, run_buckets, wait_buckets from jobrun.job_totals where job_type = 'other'"
	q_is '3|4|5|{1,1}|{2,0,3}' "select n, run_ms, wait_ms, run_buckets, wait_buckets from jobrun.job_totals where job_type = 't7' and outcome = 'dead'"
	metrics
	value_is 'metrics_left_out{of="job_type"}' 802
	value_is 'runs_finished_total{job_type="other",queue="other",outcome="dead"}' 13
	assert_equal "$(grep -c '^jobrun_oldest_due_seconds' now.prom)" 200
	q "update jobrun.settings set keep_stats = '1 day'" \
		"update jobrun.job_totals set last_hour = now() - interval '31 days' where job_type <> 't7'" \
		"select jobrun.add_totals(array[row(now(), 1, 1, 1, 'new1', 'q', 'dead', '{}', '{}')::jobrun.job_stats])" >/dev/null
	q_is 'new1 t7' "select string_agg(distinct job_type, ' ' order by job_type) from jobrun.job_totals"
	metrics
	value_is 'metrics_left_out{of="job_type"}' 0
}

@test "metrics: waiting runs are counted up to a limit; --exact counts all; many hosts and queues are cut" {
	q "insert into jobrun.job_runs (job_type, run_at) select 'work', now() + interval '1 hour' from generate_series(1, 10005) i" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, last_seen_at) select i, 1, 1, 'h' || i, 'x', now() - i * interval '1 s'
		from generate_series(1, 110) i" \
		"insert into jobrun.job_queues (name, max_running, paused_until) select 'q' || i, 1, case i when 77 then timestamptz 'infinity' end
		from generate_series(1, 203) i"
	metrics
	value_is 'runs{job_type="work",queue="default",status="queued"}' 10000
	value_is runs_counted_max 10000
	value_is 'metrics_left_out{of="host"}' 10
	value_is 'metrics_left_out{of="queue"}' 3
	value_is 'metrics_left_out{of="pause"}' 3
	value_is 'paused{kind="queue",name="q77"}' 1
	value_is 'runner_held_runs{host="h1"}' 0
	metrics --exact
	value_is 'runs{job_type="work",queue="default",status="queued"}' 10005
	value_is runs_counted_max 0
}

@test "metrics -o replaces the file as a whole, and leaves it alone when the database does not answer" {
	mkdir out
	ln -s out/real.prom link.prom
	(umask 077 && jr_ok metrics -o out/real.prom)
	assert_equal "$(stat -c %a out/real.prom)" 644
	jr metrics -o link.prom
	assert_one_line 64 '^jobrun: link.prom is no regular file$'
	cp -p out/real.prom before
	exec 5<out/real.prom
	jr metrics -o out/real.prom -d 'host=/nowhere'
	assert_one_line 75 '^jobrun: .*/nowhere'
	cmp before out/real.prom
	assert_equal "$(stat -c %Y before)" "$(stat -c %Y out/real.prom)"
	jr_ok metrics -o out/real.prom
	cmp before - <&5 # who reads the old one reads all of it
	exec 5<&-
	assert_equal "$(ls -A out)" real.prom
	jr metrics -o /dev/null
	assert_one_line 64 '^jobrun: /dev/null is no regular file$'
	[ -c /dev/null ]
	jr metrics -o out
	assert_one_line 64 'is no regular file$'
	jr metrics -o none/x.prom
	assert_one_line 78 '^jobrun: cannot create a file beside none/x.prom: No such file or directory$'
	jr metrics --json -o x.prom
	assert_one_line 64 'exclude each other'
}

@test "metrics: a role that may read is enough, and it sees what the owner sees" {
	make_role "reader_$JR_DATABASE"
	jr_ok grant read "reader_$JR_DATABASE"
	enqueue work >/dev/null
	metrics
	grep -v -e written -e oldest_due now.prom >owner
	metrics -d "$(url_of "reader_$JR_DATABASE")"
	grep -v -e written -e oldest_due now.prom | diff owner -
}

@test "metrics, check and status find the runner seen last among weeks of them, and a host that has been silent for long" {
	q "insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, finished_at)
		select n, 1, 1, 'busy' || n % 3, '1', at, at, at from (select n, now() - interval '2 hours' - n * interval '1 s' as at from generate_series(1, 1500) n) v" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, finished_at)
		select 2000, 1, 1, 'silent', '1', at, at, at from (select now() - interval '5 days' as at) v"
	metrics
	assert_between 7190 "$(($(date +%s) - $(value 'runner_last_seen_timestamp_seconds{host="busy1"}' | cut -d . -f 1)))" 7400
	assert_between $((5 * 86400 - 10)) "$(($(date +%s) - $(value 'runner_last_seen_timestamp_seconds{host="silent"}' | cut -d . -f 1)))" $((5 * 86400 + 200))
	assert_equal "$(grep -c '^jobrun_runner_last_seen_timestamp_seconds{' now.prom)" 4
	jr status
	assert_line --partial 'last runner seen 2h ago on busy1'
	# One that stays was seen later than any that began after it.
	q "insert into jobrun.job_runners (id, pid, permits, host, version, started_at, last_seen_at, lingers_until)
		values (3000, 1, 1, 'stays', '1', now() - interval '3 days', now() - interval '1 hour', now())"
	jr status
	assert_line --partial 'last runner seen 1h ago on stays'
	jr check
	assert_line --partial 'stays'
}
