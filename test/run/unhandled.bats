#!/usr/bin/env bats
# A tick tells once, on stderr, that runs wait for a handler that no host has.

load ../lib/common

# The next tick looks again, as if five minutes were over.
look_again() {
	q "update jobrun.settings set unhandled_looked_at = now() - interval '5 minutes'"
}

# waiting TYPE [OPTION...]: a run that has been due for eleven minutes.
waiting() {
	local id

	id=$(enqueue "$@")
	q "update jobrun.job_runs set run_at = now() - interval '11 minutes' where id = $id"
}

# The next tick says nothing on stderr, although it looks.
is_silent() {
	look_again
	jr_ok run "$@"
	assert_equal "$stderr" ''
	q_is t 'select unhandled_looked_at > now() - interval '"'1 minute'"' from jobrun.settings'
}

# tells REGEX...: the next tick says one line that fits each of them.
tells() {
	local line

	look_again
	jr_ok run
	assert_equal "$output" ''
	[ "$(wc -l <<<"$stderr")" -eq $# ] || fail "not $# lines: $stderr"
	for line; do
		grep -Eqx -- "$line" <<<"$stderr" || fail "no line is '$line': $stderr"
	done
}

since='ha(s|ve) waited since [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z'

# nobody TYPE: the end of its line.
nobody() {
	echo "no host has a handler for $1 \(seen without it: $(hostname)\); put one on a host, or type: jobrun cancel --type $1"
}

@test "a due run has waited ten minutes for a handler that no host has: one tick says so, again after a day, and not of one that has come" {
	handler send_mail <<<'exit 0'
	enqueue sned_mail 2>/dev/null >"$TMPDIR/id"
	is_silent
	q "update jobrun.job_runs set run_at = now() - interval '11 minutes'"
	enqueue sned_mail 2>/dev/null >"$TMPDIR/id"
	# nobody looks within five minutes: the tick ends with its first answer
	jr_ok run
	assert_equal "$stderr" ''
	q_is t 'select finished_at = started_at from jobrun.job_runners order by started_at desc limit 1'
	tells "jobrun: 2 runs of sned_mail $since: $(nobody sned_mail); did you mean send_mail\?"
	is_silent
	# the day is over
	q "update jobrun.settings set unhandled_told = jsonb_build_object('sned_mail', now() - interval '25 hours')"
	tells "jobrun: 2 runs of sned_mail $since: .*"
	q_is '["sned_mail"]' 'select jsonb_agg(k) from jobrun.settings s, jsonb_object_keys(s.unhandled_told) k'
	# a new type appears: only that one
	waiting quite_another 2>/dev/null
	tells "jobrun: 1 run of quite_another $since: $(nobody quite_another)"
	q "update jobrun.settings set unhandled_told = '{}'" "delete from jobrun.job_runs where job_type = 'quite_another'"
	handler sned_mail <<<'exit 0'
	is_silent
}

# ticks HOST QUEUES TYPES AGO...: a tick of this host each so many minutes ago.
ticks() {
	local host=$1 queues=$2 types=$3

	shift 3
	q "insert into jobrun.job_runners (id, host, pid, version, permits, queues, job_types, started_at, last_seen_at, finished_at)
		select coalesce((select max(id) from jobrun.job_runners where id < 100000), 0) + nr, '$host', 1, '1', 1, $queues, '$types', t, t, t
		from unnest(array[$(IFS=,; echo "$*")]) with ordinality m(ago, nr) cross join lateral (select now() - m.ago * interval '1 minute' as t) t"
}

# lost: HOST:TYPE of each type that a host had and has lost.
lost() {
	q "select string_agg(distinct s.host || ':' || t.name, ' ' order by s.host || ':' || t.name)
		from jobrun.day_of_runners(null) s cross join jsonb_object_keys(s.lost) t(name)"
}

@test "a handler that was removed is missed after two ticks: explain, doctor and one tick say until when a host had it" {
	local had

	handler work <<<'exit 0'
	handler gone <<<'exit 0'
	jr_ok run
	rm "$JOBRUN_HANDLERS/gone"
	waiting gone
	id=$(q 'select max(id) from jobrun.job_runs')
	jr_ok run
	jr_ok explain "$id"
	assert_line --partial 'starts with the next claim'
	had="no host has a handler for gone: host $(hostname) had one until [-0-9]+T[0-9:]{8}Z, and its ticks since have not"
	tells "jobrun: 1 run of gone $since: $had \(seen without it: $(hostname)\); put one on a host, or type: jobrun cancel --type gone"
	jr_ok explain "$id"
	assert_line --regexp "^$id never starts unless somebody acts: $had"
	assert_line --regexp '^ok +the last runner was seen'
	jr_ok list --waiting --type gone
	assert_output --partial 'no host has a handler for gone'
	jr_ok run -n
	assert_regex "$output$stderr" 'no host has a handler for gone'
	jr doctor types
	assert_equal "$status" 1
	assert_output --regexp 'FAIL +types +a run of gone in queue default'
	handler gone <<<'exit 0'
	jr_ok explain "$id"
	assert_line --partial 'has had a handler for gone only since its last tick'
	is_silent
	run_is "$id" succeeded
	jr_ok run
	assert_equal "$(lost)" ''
}

@test "what a crontab line of 'run --type' leaves out is not missed, and what a host has lost is found beside such lines" {
	# Two lines each minute; and one that comes at night, or once a day.
	ticks two null '{a,jobrun.prune}' 3 2 1
	ticks two null '{b,jobrun.prune}' 2.9 1.9 0.9 0.1
	ticks night null '{light,jobrun.prune}' {700..1}
	ticks night null '{heavy,light,jobrun.prune}' 700.5 695.5 690.5
	ticks day null '{a,jobrun.prune}' {200..1}
	ticks day null '{daily,jobrun.prune}' 150.5
	ticks apps null '{a1,a2,jobrun.prune}' 100
	ticks apps null '{b1,b2,jobrun.prune}' 3 2 1
	ticks queue "'{q,jobrun.maintenance}'" '{a,b,jobrun.prune}' 3 2 1
	ticks queue null '{a,b,c,jobrun.prune}' 4
	ticks prune null '{jobrun.prune}' {200..1}
	ticks prune null '{daily,jobrun.prune}' 150.5
	ticks exec null '{a}' 3
	ticks exec null '{}' 2 1
	ticks back null '{a,x,jobrun.prune}' 4
	ticks back null '{a,jobrun.prune}' 3 2
	ticks back null '{a,x,jobrun.prune}' 1
	# The line that has it comes once a day, and came yesterday.
	ticks often null '{a,jobrun.prune}' {200..1}
	ticks often null '{a,rare,jobrun.prune}' 1590.5 150.5
	assert_equal "$(lost)" ''
	# removed; renamed; the last one of a host; beside a line of another type; two at once; put there and taken away again
	ticks h1 null '{a,b,c,jobrun.prune}' 3
	ticks h1 null '{a,b,jobrun.prune}' 2 1
	ticks h2 null '{old,jobrun.prune}' 4 3
	ticks h2 null '{new,jobrun.prune}' 2 1
	ticks h3 null '{last,jobrun.prune}' 3
	ticks h3 null '{jobrun.prune}' 2 1
	ticks h4 null '{a,b,c,jobrun.prune}' 4 3
	ticks h4 null '{a,b,d,jobrun.prune}' 2 1
	ticks h4 null '{b,jobrun.prune}' 4.9 3.9 2.9 1.9
	ticks h5 null '{a,b,c,d,jobrun.prune}' 4
	ticks h5 null '{a,b,jobrun.prune}' 5 3 2
	assert_equal "$(lost)" 'h1:c h2:old h3:last h4:c h5:c h5:d'
}

@test "nothing is told of runs that people hold back, that are due later, or that another host has a handler for" {
	handler work <<<'exit 0'
	waiting by_type
	waiting by_queue -q full
	jr_ok define by_definition --type other
	waiting --definition by_definition
	jr_ok pause --type by_type
	jr_ok pause --queue full
	jr_ok pause --definition by_definition
	jr_ok enqueue later --in 1h
	q "insert into jobrun.job_runs (job_type, run_at) values ('jobrun.of_a_later_program', now() - interval '11 minutes')"
	# before very many other ticks
	waiting there
	q "insert into jobrun.job_runners (id, host, pid, version, job_types, permits, started_at, last_seen_at, finished_at)
		select 1 + n, case when n = 0 then 'db2' else 'db3' end, 1, '1', case when n = 0 then '{there}' else '{jobrun.prune}' end::text[], 1, t, t, t
		from generate_series(0, 2500) n cross join lateral (select now() - interval '2 hours' + n * interval '1 s' as t) t"
	is_silent
	jr_ok resume --type by_type
	jr_ok resume --queue full
	jr_ok resume --definition by_definition
	jr_ok pause --all
	is_silent
	jr_ok resume --all
	tells "jobrun: 1 run of by_queue $since: .*" "jobrun: 1 run of by_type $since: .*" "jobrun: 1 run of other $since: .*"
}

@test "whoever runs one run alone, or only looks, is not told in the place of cron; one that stays is, with --json on stderr" {
	handler work <<<'exit 0'
	id=$(enqueue work)
	waiting gone
	look_again
	jr_ok run -n
	[[ $stderr != *"$since"* ]] || fail "$stderr"
	jr_ok run --job "$id"
	assert_equal "$stderr" ''
	jr_ok run --for 1s --json
	assert_equal "$(jq .exit_status <<<"$output")" 0
	assert_one_line 0 "^jobrun: 1 run of gone $since: "
	# people have not done that
	q_is 0 "select count(*) from jobrun.job_audit where new ? 'unhandled_told'"
}

@test "two ticks at once: one of them tells, and the other does not wait" {
	handler work <<<'exit 0'
	waiting gone
	look_again
	hold 'select jobrun.tell_unhandled()'
	jr_ok run -v
	refute_regex "$stderr" 'gone|unhandled_failed'
	release_holds
	for i in {1..6}; do
		run_jobrun run 2>"$TMPDIR/stderr.$i" &
		pids[i]=$!
	done
	for i in {1..6}; do
		wait "${pids[i]}"
	done
	assert_equal "$(cat "$TMPDIR"/stderr.* | wc -l)" 1
	# who comes when the first has committed
	q "update jobrun.settings set unhandled_told = '{}'"
	q_is 0 'select count(*) from jobrun.tell_unhandled()'
}

@test "a refused handler is named with its host and what to type; foreign text is made visible; five types are shown" {
	role=run_$JR_DATABASE
	make_role "$role"
	jr_ok grant run "$role"
	handler work <<<'exit 0'
	handler bad <<<'exit 0'
	chmod 777 "$JOBRUN_HANDLERS/bad"
	waiting bad
	look_again
	jr_ok -d "$(url_of "$role")" run
	assert_regex "$stderr" "jobrun: 1 run of bad $since: no host has .*; host $(hostname): refused: bad: [^"$'\n'"]*chmod go-w $JOBRUN_HANDLERS/bad\$"
	chmod 755 "$JOBRUN_HANDLERS/bad"
	jr_ok run
	assert_equal "$stderr" ''
	# A host that had it, and has refused it since, has it no more.
	chmod 777 "$JOBRUN_HANDLERS/bad"
	waiting bad
	q "update jobrun.settings set unhandled_told = '{}'"
	look_again
	jr_ok run
	assert_regex "$stderr" "jobrun: 1 run of bad $since: no host has .*; host $(hostname): refused: bad: "
	chmod 755 "$JOBRUN_HANDLERS/bad"
	jr_ok run
	for i in {1..6}; do
		waiting "gone$i"
	done
	q "update jobrun.job_runs set run_at = run_at + (id % 100) * interval '1 ms' where job_type like 'gone%'" \
		"insert into jobrun.job_runners (id, host, pid, version, job_types, permits, refused)
		values (1, E'h\x1b[31m', 1, '1', '{x}', 1, array[E'gone1: a\nb\tc\x1b[31m'])"
	tells "jobrun: 1 run of gone1 $since: .*; host h\\\\x1b\[31m: refused: gone1: a\\\\x0ab\\\\x09c\\\\x1b\[31m" "jobrun: 1 run of gone2 .*" \
		"jobrun: 1 run of gone3 .*" "jobrun: 1 run of gone4 .*" "jobrun: 1 run of gone5 .*" \
		'jobrun: runs of 1 more job type wait for a handler: jobrun status'
	is_silent
}

@test "an error of the look stops no tick, and is not repeated at each" {
	handler work <<<'exit 0'
	waiting gone
	for code in 57014 22012; do
		q "create or replace function jobrun.unhandled_since(told text[]) returns table (job_type text, since timestamptz)
			language plpgsql as 'begin raise exception ''on purpose'' using errcode = ''$code''; end'"
		is_silent
	done
}

# look_pages: what the look reads, the least of three in one session: the first plans, and other tests drop catalogue caches.
look_pages() {
	local explain="explain (analyze, buffers, costs off, timing off, summary off) select jobrun.unhandled_since('{}')"

	q "$explain" "$explain" "$explain" | awk '/^ProjectSet/ { getline; n = 0
		for (i = 1; i <= NF; i++) if (match($i, /^(hit|read)=/)) n += substr($i, RLENGTH + 1)
		if (least == "" || n < least) least = n } END { print least }'
}

@test "very many waiting runs, of types with a handler and without, cost the look nothing; ten thousand are counted" {
	local runs="insert into jobrun.job_runs (job_type, run_at) select t, now() + d from generate_series(1, N) n,
		(values ('work', interval '-1 hour'), ('gone', '-1 hour'), ('gone', '1 hour'), ('later', '1 hour')) v(t, d)"

	handler work <<<'exit 0'
	jr_ok run
	q "${runs/N/10}"
	few=$(look_pages)
	q "${runs/N/10000}"
	many=$(look_pages)
	assert_between 1 "$few" 1000
	assert_between 1 "$many" $((2 * few + 50))
	q "analyze jobrun.job_runs"
	assert_between 1 "$(look_pages)" $((2 * few + 50))
	look_again
	jr_ok run --queue other
	assert_regex "$stderr" '^jobrun: at least [0-9]+ runs of gone have waited since [^:]+:[0-9]+:[0-9]+Z: no host has a handler for gone [^'$'\n'']*$'
}

@test "a clock that was ahead when somebody looked does not keep runners from looking" {
	handler work <<<'exit 0'
	waiting nobody
	q "update jobrun.settings set unhandled_looked_at = now() + interval '1 hour'"
	jr_ok run
	assert_regex "$stderr" 'nobody'
	q_is t 'select unhandled_looked_at <= now() from jobrun.settings'
}
