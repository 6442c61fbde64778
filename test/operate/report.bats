#!/usr/bin/env bats
# jobrun report: the page of an empty, a healthy and a burning database, of hostile values, and of too much.

load ../lib/common

# fill NAME: the database becomes that of test/lib/report_NAME.sql.
fill() {
	psql_bare "$(past_pooler)" -f "$TOP/test/lib/report_$1.sql"
}

# page [OPTION...]: write page.html, which must be well-formed, without scripts and references, and readable for all.
page() {
	jr_ok report -o page.html --time-zone Europe/Berlin "$@"
	assert_output ''
	run python3 "$TOP/test/lib/page.py" page.html
	assert_output ''
	assert_success
}

# says TEXT...: the text of the page, with a space for each tag, has each of these.
says() {
	local text found

	found=$(python3 -c 'import html, re, sys
text = re.sub("<style>.*</style>", "", sys.stdin.read(), flags=re.S)
print(" ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split()))' <page.html)
	for text; do
		[[ $found == *"$text"* ]] || fail "no \"$text\" in: $found"
	done
}

# says_not TEXT...: no such text in the source of the page.
says_not() {
	local text

	for text; do
		[[ $(<page.html) != *"$text"* ]] || fail "there is \"$text\""
	done
}

@test "report: where nothing has run yet, the page says what to do first" {
	page
	says 'Nothing has run here yet' 'No runner has been seen yet.' 'Give it work: jobrun enqueue hello' 'Europe/Berlin (UTC+0'
	says_not '<svg class="plot' 'Dead runs'
	jr_ok report
	assert_regex "${lines[0]}" '^<!DOCTYPE html>$'
	# a definition alone
	jr_ok define nightly --schedule '30 2 * * *' --type work --time-zone UTC
	page
	says 'Nothing has run here yet' 'The next 24 hours' '30 2 * * *'
}

@test "report: a healthy database" {
	fill healthy
	page
	jr check
	assert_equal "$status" 0
	says 'All is well' 'on app1' 'Job types' '304 report' '64 % 640 of 1000' 'page 12' 'no gap every minute, no gap' 'None.' 'nightly-backup' '30 2 * * *'
	says_not 'id="look"' 'class="gap" d="M'
	assert_equal "$(grep -c '<tr><th scope="row"><bdi>' page.html)" 8
	# the numbers are those of stats in the same hour
	stay_in hour
	page
	sent=$(q "select to_char(sum(succeeded), 'FM999,999,999') from jobrun.stats(date_trunc('hour', now()) - interval '167 hours') where name = 'send_mail'")
	says "$sent"
	[ "$(wc -c <page.html)" -lt 100000 ]
	# ends that are not summed yet are counted for three hours; what is missing is said
	q "update jobrun.settings set stats_until = date_trunc('hour', now()) - interval '30 hours'"
	page
	says 'is missing: it is not summed yet'
}

@test "report: a burning database; the verdict is that of check" {
	fill burning
	page
	jr check
	assert_equal "$status" 2
	says 'Somebody has to act' 'critical last runner seen' 'critical oldest due run waits for 13h' 'a slot of sync is' '2 expired leases' \
		'fax 12 due, and no runner of the last 24h has this type' 'queue slow paused by ada until it is resumed: CRM is being moved' \
		'> 2,000' '× 320' '554 5.7.1 <news@example.org>: sender address rejected' 'ValueError: amount is "12,50"' 'the server answered 410' \
		'its lease has run out' 'not seen for 3h' 'before that 1 gap: '
	grep -q '<code class="cmd">jobrun retry --type send_mail --error code:exit:65</code>' page.html
	grep -q '<code class="cmd">jobrun retry --type deliver_webhook --error code:http:410</code>' page.html
	grep -qE '<code class="cmd">jobrun retry [0-9]+</code>' page.html
	q "update jobrun.job_runs set error_code = 'result-too-large' where error_code = 'exit:65'"
	page
	grep -q '<code class="cmd">jobrun retry --type send_mail --error code:result-too-large</code>' page.html
	grep -q 'class="advice">is the crontab line in place? try: </span><code class="cmd">jobrun --once -v</code>' page.html
	# the same in words only: the titles of plots
	says 'runs went dead, and' 'Runs that succeeded in each of the last 168 hours' 'runners in 24 hours; not seen for 3h'
	# who may not read texts gets none
	make_role "reader_$JR_DATABASE"
	jr_ok grant read "reader_$JR_DATABASE"
	JOBRUN_DATABASE_URL=$(url_of "reader_$JR_DATABASE") page
	says 'Somebody has to act' 'this role may not read what it printed'
	says_not 'sender address' 'page 12' 'amount is' '64&nbsp;%'
	# all is well but for what is old
	q "update jobrun.job_runners set last_seen_at = now() where host = 'app1'" "delete from jobrun.job_runs where status in ('queued', 'running')" \
		"delete from jobrun.job_attempts a where not exists (select from jobrun.job_runs r where r.id = a.run_id)" \
		"update jobrun.job_runs set finished_at = now() - interval '2 hours' where status = 'dead'" \
		"update jobrun.job_definitions set next_slot_at = now() + interval '1 minute' where next_slot_at < now()"
	page
	says 'Work goes on, and something needs a look'
}

# Whatever a handler, a client or a host can write is text on the page, visible and of a bounded length.
@test "report: hostile values are text" {
	local evil='</title></style></bdi><script>alert(1)</script><img src=x onerror=x>&"--><!--'

	q "set session_replication_role = replica" \
		"create temporary table evil as select '$evil' || '''' || E'\\u202e\\u2066\\x1b[2J\\u0085\\u2028' || repeat('w', 5000) as text" \
		"insert into jobrun.job_runners (id, pid, permits, host, version, paused_until, paused_reason, paused_by)
		select 7, 1, 1, text, text, 'infinity', text, text from evil" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, started_at, locked_until, progress)
		select 'work', 'running', 1, 1, 7, text, now(), now() + interval '1 min', jsonb_build_object('done', 1e300, 'of', 0.1, text, text) from evil" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, started_at, finished_at, error_code, last_error)
		select 'work', 'dead', 1, 1, 7, e.text, now(), now(), c.code, c.error from evil e cross join lateral (
			select n || left(e.text, 200) as code, e.text as error from generate_series(1, 2) n
			union all select unnest('{\$(reboot),\$(reboot),--force,--force}'::text[]), null) c" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, finished_at, output)
		select id, 1, 1, 'dead', now(), case when id % 2 = 0 then text || E'\\n\\n' end from evil, jobrun.job_runs where status = 'dead'" \
		"insert into jobrun.job_queues (name, paused_until, paused_reason, paused_by) select 'q', now() + interval '1 h', text, text from evil" \
		"insert into jobrun.job_definitions (name, job_type, schedule, time_zone, next_slot_at) values ('gone', 'work', '* * * * *', 'Mars/Olympus', now())" \
		"insert into jobrun.job_stats (hour, n, job_type, queue, outcome, run_buckets, wait_buckets)
		select date_trunc('hour', s.stats_until) - interval '5 hours', 9e18::bigint, 'work', 'q', 'succeeded', array_fill(9e14::bigint, array[32]),
			array_fill(null::bigint, array[32]) from jobrun.settings s"
	page
	says '</title></style></bdi><script>alert(1)' 'onerror=' '\u{202e}\u{2066}\x1b[2J\x85\u{2028}' '…' '100 %' ' for another 5' '9,000,000,000,000,000,000'
	grep -q '<code class="cmd">jobrun list --status dead --type work</code>' page.html
	says_not 'retry --type' '<script' '<img' "$(printf '\u202e')" 'reboot</code>' 'force</code>' "$(printf 'w%.0s' {1..301})"
	[ "$(wc -c <page.html)" -lt 100000 ]
}

@test "report: each list ends, and says how much more there is; 50 types take less than 300 kB" {
	q "set session_replication_role = replica" "update jobrun.settings set stats_until = date_trunc('hour', now())" \
		"insert into jobrun.job_stats (hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
		select s.stats_until - h * interval '1 hour', 1 + (h * t * 7919) % 997, 9, 9, 'type_' || repeat('x', 50) || t, 'q', o.o, array[0, 0, 0, t, h], array[0, h, t]
		from jobrun.settings s, generate_series(1, 180) h, generate_series(1, 60) t, unnest('{succeeded,failed,dead}'::text[]) o(o)" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, started_at, finished_at, error_code, last_error)
		select 'work', 'dead', 1, 1, 7, 'h', now(), now(), 'exit:' || i % 30, repeat('<', 3000) from generate_series(1, 60) i" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, finished_at, output) select id, 1, 1, 'dead', now(), repeat('&', 9000) from jobrun.job_runs" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_by, started_at, locked_until, progress)
		select 'work', 'running', 1, 1, 7, 'h', now(), now() + interval '1 min', to_jsonb(repeat('\"', 9000)) from generate_series(1, 33)" \
		"insert into jobrun.job_runners (id, pid, permits, host, version) select i, 1, 1, 'host' || i, '1' from generate_series(1, 29) i" \
		"insert into jobrun.job_types (name, paused_until, paused_reason) select 'paused_' || i, 'infinity', repeat('<', 1000) from generate_series(1, 17) i" \
		"insert into jobrun.job_definitions (name, job_type, schedule, next_slot_at)
		select 'definition_' || i, 'work', '17 * * * *', now() + interval '1 min' from generate_series(1, 44) i"
	page
	says '… and 11 more: jobrun stats' '… and 10 more: jobrun list --by error' '… and 13 more: jobrun list --status running' '… and 9 more' \
		'… and 14 more: jobrun define' '… and 8 more: jobrun status'
	assert_between 100000 "$(wc -c <page.html)" 300000
}

@test "report -o replaces the file whole or not at all, and keeps its mode" {
	umask 022
	jr_ok report -o new.html
	assert_equal "$(stat -c %a new.html)" 600
	echo old >page.html
	chmod 640 page.html
	jr_ok report -o page.html
	assert_equal "$(stat -c %a page.html)" 640
	assert_regex "$(tail -n 1 page.html)" '^</html>$'
	cp page.html before.html
	jr report -o page.html --time-zone Mars/Olympus
	assert_one_line 65 '^jobrun: --time-zone: time zone "Mars/Olympus" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"$'
	cmp page.html before.html
	TZ=Mars/Olympus jr report -o page.html
	assert_regex "$stderr" '^jobrun: the zone of this host .*: time zone "Mars/Olympus" not recognized$'
	for command in report metrics; do
		jr "$command" --output ''
		assert_one_line 64 '^jobrun: --output: the FILE is empty$'
	done
	jr report -o no/such/page.html
	assert_one_line 78 'cannot create a file beside no/such/page.html: No such file'
	ln -s page.html link.html
	mkfifo pipe
	for path in link.html pipe "$PWD" /dev/stdout; do
		jr report -o "$path"
		assert_one_line 64 'is no regular file'
	done
	assert_equal "$(echo .*.html.*)" '.*.html.*'
}
