#!/usr/bin/env bats
# jobrun enqueue: what is taken, what is refused, and that a lost answer makes no second run.

load ../lib/common
load ../lib/proxy

# refused STATUS REGEX ARGUMENT...: one line on stderr, nothing on stdout, no row. Its stdin is the caller's.
refused() {
	local expected=$1 regex=$2

	shift 2
	jr enqueue "$@"
	assert_equal "$output" ''
	assert_one_line "$expected" "^jobrun: .*$regex"
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "enqueue prints the id alone, and the defaults are those of the schema" {
	jr_ok enqueue send_mail
	assert_regex "$output" '^[0-9]+$'
	assert_equal "$stderr" ''
	assert_equal "$(field "$output" "job_type, queue, priority, status, attempts, max_attempts, payload, timeout is null")" \
		'send_mail|default|100|queued|0|5|{}|t'
}

@test "every option of enqueue sets its column" {
	id=$(enqueue send_mail --queue mails -p -5 --in 1h --expires 2h --max-attempts 3 --timeout 90s --backoff 1s,1m -k key-1)
	assert_equal "$(field "$id" "queue, priority, run_at - created_at, expires_at - run_at, max_attempts, timeout,
		backoff_base, backoff_cap, idempotency_key")" \
		'mails|-5|01:00:00|02:00:00|3|00:01:30|00:00:01|00:01:00|key-1'
}

@test "a definition's values are used where no option is given" {
	q "insert into jobrun.job_definitions (name, job_type, queue, max_attempts, payload)
		values ('send_mail', 'send_mail', 'slow', 9, '{\"from\": \"definition\"}')"
	id=$(enqueue send_mail --max-attempts 2)
	assert_equal "$(field "$id" "queue, max_attempts, payload->>'from'")" 'slow|2|definition'
}

@test "numbers of any size and scale are stored unchanged" {
	id=$(enqueue work '{"n":12345678901234567890.10}')
	assert_equal "$(field "$id" "payload->>'n'")" 12345678901234567890.10
}

@test "the payload may come from stdin or from a file" {
	printf '{"from":"file"}' >"$TMPDIR/payload"
	assert_equal "$(field "$(enqueue work @"$TMPDIR/payload")" "payload->>'from'")" file
	assert_equal "$(field "$(echo '{"from":"stdin"}' | enqueue work -)" "payload->>'from'")" stdin
}

@test "a byte order mark before JSON is left out, wherever a person may have saved one" {
	mark=$'\xef\xbb\xbf'
	printf '%s{"a": 1}' "$mark" >mark.json
	for id in "$(enqueue work @mark.json)" "$(enqueue work - <mark.json)" "$(enqueue work "$(cat mark.json)")"; do
		assert_equal "$(field "$id" payload)" '{"a": 1}'
	done
	printf '%s{"b": 1}\n{"b": 2}\n' "$mark" >lines
	jr_ok enqueue work --batch lines
	{ head -c 2 lines; sleep 0.2; tail -c +3 lines; } | jr_ok enqueue work --batch - # a mark that comes in two pieces
	printf '%s\n{"b": 3}' "$mark" >lines
	jr_ok enqueue work --batch lines # a first line that is empty
	q_is '1 2 1 2 3' "select string_agg(payload ->> 'b', ' ' order by id) from jobrun.job_runs where payload ? 'b'"
	printf '%s{"timeout": "5s"}' "$mark" >"$JOBRUN_HANDLERS/work.json"
	handler work <<<'exit 0'
	jr_ok handlers
	assert_output --regexp 'work .*timeout 5s'
	printf '%s{"definitions": [{"name": "nightly", "queue": "slow"}]}' "$mark" >definitions.json
	jr_ok define --file definitions.json
	q_is slow "select queue from jobrun.job_definitions where name = 'nightly'"
	printf '{}%s' "$mark" >later.json
	jr enqueue work @later.json
	assert_one_line 65 'the payload is not JSON: line 1, column 3'
	printf '{}\n%s{}\n' "$mark" >lines
	jr enqueue work --batch lines
	assert_one_line 65 'lines: line 2: '
}

@test "stdin is read only if the payload is -" {
	assert_equal "$(field "$(echo '{"a":1}' | enqueue work)" payload)" '{}'
}

@test "a payload that is not JSON exits with 65, line and column" {
	refused 65 'not JSON: line 1, column 11: .*Token "x"' work '{"a":[1,2,x]}'
	refused 65 'not JSON: line 2, column 7: .*Token "y"' work - <<<$'{"a":1,\n "ü": y}'
	refused 65 'not JSON: line 1' work ''
	refused 65 'not JSON: line 1, column 79: ' work "$(printf '[%.0s1,' {1..26})]"
}

@test "NUL in a payload, as an escape or as a byte, exits with 65 and its position" {
	refused 65 'line 1, column [0-9]+: .*u0000' work '{"a":"\u0000"}'
	printf '{"a":\0}' >"$TMPDIR/nul"
	refused 65 'NUL at byte 6' work - <"$TMPDIR/nul"
	refused 65 'NUL at byte 6' work @"$TMPDIR/nul"
}

@test "a payload that is not UTF-8 exits with 65" {
	printf '{"a":"\xff"}' >"$TMPDIR/latin"
	refused 65 'UTF8' work @"$TMPDIR/latin"
}

@test "a payload of exactly 1 MiB is taken, and one byte more exits with 65" {
	(
		printf '"'
		head -c 1048574 /dev/zero | tr '\0' x
		printf '"'
	) >"$TMPDIR/limit"
	(
		cat "$TMPDIR/limit"
		printf ' '
	) >"$TMPDIR/more"
	refused 65 'longer than 1048576 bytes' work @"$TMPDIR/more"
	refused 65 'longer than 1048576 bytes' work - <"$TMPDIR/more"
	refused 65 'longer than 1048576 bytes' work - </dev/zero
	id=$(enqueue work @"$TMPDIR/limit")
	assert_equal "$(field "$id" 'octet_length(payload::text)')" 1048576
}

@test "a payload file that cannot be read exits with 65, one without a name with 64" {
	refused 65 'cannot open /nonexistent: No such file' work @/nonexistent
	refused 64 'the name of the file is empty' work @
	refused 65 'cannot read .*: Is a directory' work @"$TMPDIR"
}

@test "each wrong option exits with 64 and one line" {
	refused 64 '"Send Mail" is not a job type' 'Send Mail'
	refused 64 'not a job type' work.sql
	refused 64 '"-5m" is negative' work --in -5m
	refused 64 '"-1s" is negative' work --timeout=-1s
	refused 64 '"5" .*5s' work --in 5
	refused 64 '--priority' work -p 1001
	refused 64 '--max-attempts' work --max-attempts 0
	refused 64 'cap of "10m,1s" is less' work --backoff 10m,1s
	refused 64 '--queue' work --queue 'No Queue'
	refused 64 'exclude each other' work --in 5m --at tomorrow
	refused 64 '--time-zone goes with --at' work --time-zone UTC
	refused 64 'idempotency-key: 0 bytes' work -k ''
	refused 64 'from 1 to 255' work -k "$(printf 'k%.0s' {1..256})"
}

@test "the longest duration that an option takes is taken by the database, too" {
	jr_ok enqueue work --in 36500d --timeout 36500d --expires 36500d --backoff 36500d,36500d
	jr_ok pause --type work --for 36500d
	jr enqueue work --in 36501d
	assert_equal "$status" 64
}

# summer_day: sets summer, a day to come on which clocks in Europe and America show summer time.
summer_day() {
	summer=$(($(date +%Y) + 1))-07-01
}

# at ID: the time of a run
at() {
	q "select to_char(run_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') from jobrun.job_runs where id = $1"
}

@test "--at is read in --time-zone, else in the zone that TZ of this host says, never in that of the server" {
	summer_day
	q "alter database $JR_DATABASE set timezone to 'Asia/Tokyo'"
	assert_equal "$(at "$(enqueue work --at "$summer 12:00")")" "$summer 12:00"
	assert_equal "$(at "$(enqueue work --at "$summer 12:00" --time-zone Europe/Berlin)")" "$summer 10:00"
	ln -s /usr/share/zoneinfo/America/New_York local
	for tz in America/New_York :America/New_York /usr/share/zoneinfo/America/New_York "$PWD/local" EST5EDT,M3.2.0,M11.1.0; do
		assert_equal "$tz $(at "$(TZ=$tz enqueue work --at "$summer 12:00")")" "$tz $summer 16:00"
	done
	assert_equal "$(at "$(TZ='<X>3' enqueue work --at "$summer 12:00")")" "$summer 15:00"
	assert_equal "$(at "$(enqueue work --at "$summer 12:00+02")")" "$summer 10:00"
	assert_equal "$(at "$(enqueue work --at "$summer 12:00 Europe/Berlin")")" "$summer 10:00"
	echo "{\"run_at\":\"$summer 12:00\"}" >lines
	TZ=/usr/share/zoneinfo/America/New_York jr_ok enqueue work --batch lines --per-run
	assert_equal "$(at "$(q 'select max(id) from jobrun.job_runs')")" "$summer 16:00"
}

@test "without TZ, --at is read in the zone that /etc/localtime of this host names" {
	summer_day
	unshare -m true 2>/dev/null || skip 'needs a mount namespace'
	cp -a /etc etc
	ln -sf /usr/share/zoneinfo/Europe/Berlin etc/localtime
	run unshare -m sh -c 'mount --bind etc /etc && unset TZ && exec "$@"' - "$JOBRUN" enqueue work --at "$summer 12:00"
	assert_success
	assert_equal "$(at "$output")" "$summer 10:00"
}

@test "a zone of this host that the server does not know is refused, and the line says what to use" {
	summer_day
	local unknown='the zone of this host [(]TZ, /etc/localtime[)]; use --time-zone:'
	TZ=Mars/Base refused 65 "$unknown time zone \"Mars/Base\" is not known here; write a name" work --at "$summer 12:00"
	TZ=ABC999 refused 65 "$unknown .*ABC999" work --at "$summer 12:00"
	echo '{}' >lines
	TZ=Mars/Base refused 65 "$unknown time zone \"Mars/Base\" is not known here" work --batch lines --per-run
	TZ=Mars/Base jr_ok enqueue work --batch lines --per-run --time-zone UTC
	TZ=Mars/Base jr_ok enqueue work --batch lines
}

@test "-n shows when a run would be due, in the zone of this host" {
	TZ=Europe/Berlin jr_ok enqueue work -n --at '2090-07-01 12:00'
	assert_regex "$output" '^would queue work: queue default, priority 100, due 2090-07-01 12:00:00[+]02:00 \(in [0-9]+d.*\)$'
	jr_ok enqueue work -n --at '2090-07-01 12:00' --time-zone Europe/Berlin
	assert_regex "$output" ', due 2090-07-01 10:00:00[+]00:00 \(in [0-9]+d.*\)$'
	jr_ok enqueue work -n
	assert_regex "$output" ', due now$'
}

@test "--at in the past means now; a time that never comes or makes no sense is refused" {
	summer_day
	for past in yesterday epoch -infinity; do
		id=$(enqueue work --at="$past")
		assert_equal "$past: $(field "$id" 'run_at = created_at')" "$past: t"
	done
	q 'truncate jobrun.job_runs'
	refused 65 'never comes' work --at infinity
	refused 65 'never comes' work --at '3000-01-01'
	refused 64 "--at: \"nonsense\" is not a time; write it like '2026-12-24 18:00' or 'tomorrow 02:30'$" work --at nonsense
	refused 64 '--at: "" is not a time' work --at ''
	for none in 2031-02-30 2026-13-01 '2026-12-24 25:00' 32.1.2027 294277-01-01; do
		refused 64 "--at: \"$none\" is not a time; write it like '2026-12-24 18:00' or 'tomorrow 02:30'$" work --at "$none"
	done
	refused 64 '--at: time zone "mars/base" not recognized' work --at "$summer 12:00 Mars/Base"
	refused 65 '--time-zone: time zone "Mars/Base" is not known here; write a name of pg_timezone_names' work --at tomorrow --time-zone Mars/Base
	refused 65 '--time-zone: time zone "Foo5" is not known here' work --at tomorrow --time-zone Foo5
	refused 65 '--time-zone: time zone "europe/berlin" is not known here; did you mean "Europe/Berlin"\?' work --at tomorrow --time-zone europe/berlin
	refused 65 '--time-zone: time zone "" is not known here' work --at tomorrow --time-zone ''
}

@test "enqueueing twice with one idempotency key gives one row, the same id, and created false" {
	jr_ok enqueue work '{"a":1}' -k once --json
	assert_equal "$(jq -c '[.created, .status, .idempotency_key]' <<<"$output")" '[true,"queued","once"]'
	id=$(jq .id <<<"$output")
	jr_ok enqueue work '{"a":1}' -k once --json
	assert_equal "$(jq -c '[.created, .id]' <<<"$output")" "[false,$id]"
	assert_equal "$stderr" ''
	jr_ok enqueue work '{"a":2}' -k once
	assert_equal "$output" "$id"
	assert_regex "$stderr" "^jobrun: run $id has this idempotency key and another payload"
	q_is '1|1' "select count(*), max((payload->>'a')::int) from jobrun.job_runs"
}

@test "the same idempotency key for another job type makes another run" {
	first=$(enqueue work -k once)
	assert_not_equal "$(enqueue play -k once)" "$first"
}

@test "twenty clients at once with one idempotency key make one run and get one id" {
	local pids=()

	for _ in {1..20}; do
		enqueue work -k race >>"$TMPDIR/ids" &
		pids+=("$!")
	done
	wait "${pids[@]}"
	assert_equal "$(wc -l <"$TMPDIR/ids")" 20
	assert_equal "$(sort -u "$TMPDIR/ids" | wc -l)" 1
	q_is 1 'select count(*) from jobrun.job_runs'
}

@test "-n checks everything and queues nothing" {
	jr_ok enqueue -n work --in 5m --queue slow
	assert_regex "$output" '^would queue work: queue slow, priority 100, due [0-9 :+-]+ \(in 5m\)$'
	jr_ok enqueue -n work --json
	assert_equal "$(jq -c '[.id, .created]' <<<"$output")" '[null,true]'
	refused 65 'not JSON' -n work '{'
	q_is 0 'select count(*) from jobrun.job_runs'
	id=$(enqueue work -k once)
	jr_ok enqueue -n work -k once
	assert_equal "$output" "would queue nothing: run $id has this key and is queued"
}

@test "a run enqueued by a handler has the handler's run as its parent" {
	id=$(JOBRUN_RUN_ID=41 enqueue work)
	assert_equal "$(field "$id" parent_id)" 41
}

@test "enqueue asks again when the answer to its COMMIT is lost: one run, its id, exit status 0" {
	for mode in answer request; do
		q 'truncate jobrun.job_runs'
		proxy "$mode" 2 # the first one is that of need()
		jr_ok enqueue -d "$proxied" work --json
		assert_equal "$stderr" ''
		assert_file_exists "$cut_file"
		assert_equal "$(jq -c .created <<<"$output")" true
		q_is "$(jq .id <<<"$output")" 'select id from jobrun.job_runs'
	done
}

@test "enqueue says nothing when the database comes back in time" {
	own_cluster
	stop_server
	run_jobrun enqueue work >out 2>err 3>&- &
	start_server
	wait $!
	assert_file_empty err
	q_is "$(cat out)" 'select id from jobrun.job_runs'
}

@test "enqueue exits with 75 when the server is away and with 78 when the database does not exist" {
	own_cluster
	stop_server
	JR_TIMEOUT=60 jr enqueue work
	assert_equal "$status" 75
	assert_equal "${#stderr_lines[@]}" 1
	jr -d "$JR_SERVER dbname=not_there" enqueue work
	assert_equal "$status" 78
	assert_regex "$stderr" 'database "not_there" does not exist'
}
