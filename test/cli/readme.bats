#!/usr/bin/env bats
# The examples of README.md and of the manual, as they are written there.

load ../lib/common
load ../lib/web

setup() {
	common_setup
	PATH=$(dirname "$JOBRUN"):$PATH
}

# texts: README.md and the manual, each block of code indented, its fences left out.
texts() {
	awk '/^```/ { on = !on; next } { print (on && $0 != "" ? "    " : "") $0 }' "$TOP/README.md" "$TOP"/cmd/man/*.scd
}

# example NAME: the block whose first or second line is a comment that begins with NAME, or which follows a line of prose
# that ends with NAME and a colon (JSON has no comments). Fails if there is not exactly one.
example() {
	local file=$TMPDIR/example

	texts | awk -v name="$1" '
	function finish() {
		sub(/\n+$/, "\n", block)
		if (wanted && block != "") {
			printf "%s", block
			found++
		}
		block = ""
		wanted = 0
		lines = 0
	}
	/^    / {
		line = substr($0, 5)
		if (lines++ == 0 && substr(prose, length(prose) - length(name)) == name ":")
			wanted = 1
		if (lines <= 2 && (index(line, "# " name) == 1 || index(line, "-- " name) == 1))
			wanted = 1
		block = block line "\n"
		next
	}
	/^$/ {
		if (lines > 0)
			block = block "\n"
		next
	}
	{
		finish()
		prose = $0
		gsub(/[`*]/, "", prose)
	}
	END {
		finish()
		exit found == 1 ? 0 : 1
	}' >"$file" || fail "README.md and the manual have not exactly one example $1"
	cat "$file"
}

# install NAME: the example of that name is a file in the handlers directory.
install() {
	local file=${1#handlers/} text

	text=$(example "$1")
	printf '%s\n' "$text" >"$JOBRUN_HANDLERS/$file"
	chmod "${2:-644}" "$JOBRUN_HANDLERS/$file"
}

# blocks KIND: all blocks of the README whose fence says KIND, one after the other.
blocks() {
	awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```/ { if (on) print ""; on = 0 } on' "$TOP/README.md"
}

@test "README: what is typed works in the order in which it stands there, from the first job to the end" {
	unset JOBRUN_HANDLERS XDG_CONFIG_HOME
	blocks sh | sed "s|^export JOBRUN_DATABASE_URL=.*|export JOBRUN_DATABASE_URL='$JOBRUN_DATABASE_URL'|" >typed.sh
	assert_equal "$(grep -c . typed.sh)" 15
	q 'alter sequence jobrun.job_runs_id_seq restart'
	run --separate-stderr env -u JOBRUN_DATABASE_URL bash -e typed.sh
	assert_success
	assert_line 1
	assert_line 'Hello, Ada'
	assert_line 'nightly_report: created'
	assert_equal "$(wc -l <waiting.csv)" 1 # the names of the columns
	q_is 0 "select count(*) from pg_namespace where nspname = 'jobrun'"
	"$JOBRUN" migrate >/dev/null # the invariants are looked at afterwards
}

@test "README: the order and its run" {
	q 'create table orders (item text)'
	blocks sql | q >/dev/null
	q_is 'send_invoice|{"order": 4711}|00:05:00|order-4711' \
		'select job_type, payload, run_at - created_at, idempotency_key from jobrun.job_runs'
}

@test "README: the three handlers do what is said of them" {
	awk -v dir="$JOBRUN_HANDLERS" '
		/^```handler/ { on = 1; match(prose, /handlers\/[a-z_.]+/); file = dir "/" substr(prose, RSTART + 9, RLENGTH - 9); next }
		/^```/ { on = 0 }
		on { print >file }
		$0 != "" && !on { prose = $0 }' "$TOP/README.md"
	chmod 755 "$JOBRUN_HANDLERS/thumbnail"
	(umask 077 && echo "whsec_$(printf '%032d' 0)" >"$JOBRUN_HANDLERS/crm.secret")
	jr_ok handlers --check
	q "create table carts (updated_at timestamptz)" "insert into carts values (now()), (now() - interval '2 days')"
	mkdir bin
	printf '#!/bin/sh\ncp "$1" "$4"\n' >bin/convert
	chmod 755 bin/convert
	PATH=$PWD/bin:$PATH
	echo picture >picture.png
	enqueue expire_carts '{"older_than": "1 day"}'
	enqueue thumbnail "{\"file\": \"$PWD/picture.png\"}"
	jr_ok run
	q_is 1 'select count(*) from carts'
	assert_equal "$(cat picture.png.thumb.png)" picture
	bad=$(enqueue thumbnail '{}')
	later=$(enqueue thumbnail '{"file": "/no/such"}')
	jr run
	q_is 'dead|exit:65' "select status, error_code from jobrun.job_runs where id = $bad"
	q_is 'queued|1' "select status, snoozes from jobrun.job_runs where id = $later"
}

# first_line: of what status prints, without what differs from database to database.
first_line() {
	sed -nE 's/^jobrun [0-9.]+, //; T; s/database [^ ]+/database/; s/seen .* on [^,]+/seen/; s/[0-9]+(\.[0-9]+)?/N/g; p; q'
}

@test "README: the first screen is what jobrun prints" {
	blocks console >screen
	handler send_invoice <<<'echo "no such template: invoice.html" >&2; exit 1'
	id=$(enqueue send_invoice '{"order": 4711}' --backoff 0)
	jr run
	assert_equal "$(sed -E "s/(run|show|retry) $id\b/\1 2/g" <<<"$stderr")" "$(sed -n '/^jobrun: run 2/,/jobrun retry 2$/p' screen)"
	jr_ok status
	assert_equal "$(grep '^TYPE' <<<"$output" | tr -s ' ')" "$(grep '^TYPE' screen | tr -s ' ')"
	assert_equal "$(first_line <<<"$output")" "$(first_line <screen)"
	assert_line '! send_invoice: 1 dead in 24h (jobrun list --status dead --type send_invoice)'
	jr_ok queue mail --max-running 5
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (7, 1, 1, 'web1', 'x')" \
		"insert into jobrun.job_runs (id, job_type, queue, status, runner_id, locked_by, locked_until, started_at, attempts, claim_seq)
		overriding system value select id, 'send_mail', 'mail', 'running', 7, 'web1', now() + interval '1 hour', now(), 1, 1
		from unnest(array[4211, 4213, 4214, 4217, 4218]) id" \
		"insert into jobrun.job_runs (id, job_type, queue) overriding system value values (4230, 'send_mail', 'mail')"
	handler send_mail <<<''
	jr run -n
	jr_ok explain 4230
	assert_equal "$(head -n 2 <<<"$output")" "$(grep -A 2 'jobrun explain' screen | tail -n 2)"
}

@test "manual, program handler: it compresses logs, reports progress, and knows the statuses for later and give up" {
	install handlers/compress_logs 755
	mkdir logs
	echo one >logs/a.log
	echo two >logs/b.log
	id=$(enqueue compress_logs "{\"dir\": \"$PWD/logs\"}")
	jr_ok run
	q_is 'succeeded|{"files": 2}|{"of": 2, "done": 2}' "select status, result, progress from jobrun.job_runs where id = $id"
	assert_equal "$(zcat logs/a.log.gz logs/b.log.gz | paste -sd' ')" 'one two'
	# Once more: there is nothing left to do.
	id=$(enqueue compress_logs "{\"dir\": \"$PWD/logs\"}")
	later=$(enqueue compress_logs '{"dir": "/no/such"}')
	bad=$(enqueue compress_logs '{}')
	jr run
	assert_equal "$status" 1
	run_is "$id" succeeded
	q_is 'queued|1' "select status, snoozes from jobrun.job_runs where id = $later"
	q_is 'dead|exit:65' "select status, error_code from jobrun.job_runs where id = $bad"
}

@test "manual, checkpoint: a program goes on where its last attempt stopped" {
	{
		echo '#!/bin/sh'
		example 'go on where'
		echo 'echo "page $page"'
		echo 'echo "{\"checkpoint\": {\"page\": $((page + 6))}}" >>"$JOBRUN_OUT"'
		echo '[ "$page" -gt 1 ]'
	} >"$JOBRUN_HANDLERS/pages"
	chmod 755 "$JOBRUN_HANDLERS/pages"
	id=$(enqueue pages --backoff 0)
	jr_ok run
	q_is 'succeeded|2' "select status, attempts from jobrun.job_runs where id = $id"
	jr_ok logs "$id"
	assert_equal "$output" 'page 7'
}

@test "manual, sql handler: it counts a visit, and its result is the row" {
	example visits.sql | q
	install handlers/count_visit.sql
	enqueue count_visit '{"page": "/home"}'
	id=$(enqueue count_visit '{"page": "/home"}' -k second)
	jr_ok run --sql-jobs 1
	q_is '/home|2' "select page, n from visits"
	q_is '{"n": 2, "page": "/home", "last_key": "second"}|succeeded' "select result, status from jobrun.job_runs where id = $id"
	# It can be tried; nothing of that is left.
	jr_ok try count_visit '{"page": "/home"}'
	q_is '/home|2' "select page, n from visits"
}

@test "manual, jobrun.effect in a statement: one mail is queued, however many runs there are" {
	q 'create table outbox (address text)'
	install handlers/welcome.sql
	for _ in 1 2 3; do
		enqueue welcome '{"user": "ada", "to": "ada@example.org"}'
	done
	jr_ok run
	q_is 'ada@example.org' 'select * from outbox'
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "manual, webhook: it arrives with its headers, and verify.py accepts it and refuses a forgery" {
	example 'a new secret' >"$TMPDIR/secret"
	(cd "$JOBRUN_HANDLERS" && sh "$TMPDIR/secret")
	assert_equal "$(stat -c %a "$JOBRUN_HANDLERS/notify.secret")" 600
	web --secret "$(cat "$JOBRUN_HANDLERS/notify.secret")"
	install handlers/notify.json
	# The only word that is not as it is written.
	sed -i "s|https://hooks.example.org/jobs|$web/signed|" "$JOBRUN_HANDLERS/notify.json"
	id=$(enqueue notify '{"order": 4711}' -k order-4711)
	jr_ok run
	run_is "$id" succeeded
	assert_equal "$(requests '[.method, .body, .headers["idempotency-key"], .headers["webhook-id"], .headers["jobrun-run"],
		.headers["jobrun-type"], .headers["jobrun-attempt"], .headers["content-type"]] | join(" ")')" \
		"POST {\"order\": 4711} order-4711 order-4711 $id notify 1 application/json"
	assert_regex "$(requests '.headers["user-agent"]')" '^jobrun/'
	example verify.py >verify.py
	python3 - "$(cat "$JOBRUN_HANDLERS/notify.secret")" "$web_dir/log" <<-'python'
		import json, sys
		from verify import verify
		secret, (request,) = sys.argv[1], [json.loads(line) for line in open(sys.argv[2])]
		body = request["body"].encode()
		assert verify(secret, request["headers"], body)
		assert not verify(secret, request["headers"], body + b" ")
		assert not verify("whsec_" + "A" * 32, request["headers"], body)
		assert not verify(secret, {**request["headers"], "webhook-timestamp": "1"}, body)
	python
}

# members FILE-MEMBERS: what jobrun says are the known ones beside them.
members() {
	printf '{%s"zzzzzzzzzz": 1}\n' "$1" >"$JOBRUN_HANDLERS/known.json"
	jr run --type known
	assert_equal "$status" 78
	sed 's/.*the known ones are //; s/, /\n/g' <<<"$stderr"
}

@test "jobrun-handlers(7) has every member of NAME.json that exists, and no other" {
	known=$(
		members '"http": {}, '
		members '"argv": ["/bin/true"], '
		echo select 1 >"$JOBRUN_HANDLERS/known.sql"
		members ''
		rm "$JOBRUN_HANDLERS/known.sql"
	)
	targets=$(
		printf '{"http": {"zzzzzzzzzz": 1}}\n' >"$JOBRUN_HANDLERS/known.json"
		jr run --type known
		sed 's/.*the known ones are //; s/, /\n/g' <<<"$stderr"
	)
	section=$(sed -n '/^# NAME.JSON/,/^# EFFECTS/p' "$TOP/cmd/man/jobrun-handlers.7.scd")
	assert_equal "$(grep '^\*' <<<"$section" | grep -o '\*[a-z_]*\*' | tr -d '*' | sort)" "$(sort -u <<<"$known")"
	for member in $targets; do
		sed -n '/^\*http\*/,$p' <<<"$section" | grep -q "\*$member\*" || fail "no word about $member of http"
	done
}

@test "the manual's output of jobrun try is what jobrun try prints" {
	install handlers/compress_logs 755
	texts | awk '/^    \$ jobrun try compress_logs/ { on = 1 } on && /^    …/ { exit } on { print substr($0, 5) }' |
		sed "s|/home/ada/.config/jobrun/handlers|$JOBRUN_HANDLERS|g" >shown
	jr try compress_logs '{"dir": "/no/such"}'
	{
		echo "\$ jobrun try compress_logs '{\"dir\": \"/no/such\"}'"
		echo "$stderr"
		sed '/^error code/q' <<<"$output"
	} >said
	assert_equal "$(cat said)" "$(cat shown)"
}

@test "manual, many runs at once: a batch, a batch with options, COPY, and enqueue_many work" {
	example bulk.sh | bash >out
	assert_equal "$(cat out)" 'queued 1000 runs'
	q_is '1000|bulk' "select count(*), min(queue) from jobrun.job_runs where job_type = 'send_invoice'"
	q 'truncate jobrun.job_runs'
	example bulk_options.sh | bash >out
	assert_equal "$(cat out)" 'queued 2 runs'
	q_is '200|00:05:00|order-1;50|00:00:00|' "select string_agg(concat_ws('|', priority, run_at - created_at,
		case when idempotency_key is null then '' else idempotency_key end), ';' order by id) from jobrun.job_runs"
	q 'truncate jobrun.job_runs'
	example bulk.sql | q
	q_is '4|bulk|1|2' "select count(*), min(queue), min(payload->>'order'), max(payload->>'order') from jobrun.job_runs"
}

@test "manual, alert: it says which run is dead, and why" {
	mkdir bin
	printf '#!/bin/sh\ncat >"%s/mail"\n' "$TMPDIR" >bin/mail
	chmod 755 bin/mail
	PATH=$PWD/bin:$PATH
	install handlers/tell_us 755
	handler send_mail <<<'echo "no such user"; exit 65'
	example alerts | bash
	id=$(enqueue send_mail)
	jr run
	assert_equal "$(cat "$TMPDIR/mail")" "send_mail $id is dead after 1 attempts: exit 65: no such user"
}

@test "manual: all slots of a week that had no run are replayed" {
	q "select jobrun.define('nightly', jsonb_build_object('schedule', '@every 1d', 'anchor_at', now() - interval '99 days 1 hour'))" \
		"update jobrun.job_definitions set next_slot_at = now() - interval '3 days 61 minutes' where name = 'nightly'" \
		"select count(*) from jobrun.fire()" >/dev/null
	q_is '3|1' "select count(*) filter (where outcome = 'coalesced'), count(*) filter (where outcome = 'queued') from jobrun.job_slots"
	example 'all that had no run' | bash >out
	assert_equal "$(sort -n out)" "$(q "select id from jobrun.job_runs where slot < now() - interval '1 day' order by id")"
	q_is '3|1' "select count(*) filter (where reason = 'replayed'), count(*) filter (where reason is null) from jobrun.job_slots"
}

@test "manual: a definition gives the defaults of its job type" {
	example 'defaults of every' | q >/dev/null
	enqueue send_invoice
	q_is 'mail|8|00:02:00|00:01:00|06:00:00|smtp' "select queue, max_attempts, timeout, backoff_base, backoff_cap, concurrency_key from jobrun.job_runs"
}

@test "manual, a look for problems: somebody gets a mail when there is one, or no database, else not" {
	line=$(texts | grep '^    jobrun status --json |.*|| mail-somebody')
	mkdir bin
	printf '#!/bin/sh\necho mailed\n' >bin/mail-somebody
	chmod 755 bin/mail-somebody
	PATH=$PWD/bin:$PATH
	handler work <<<'exit 0'
	jr_ok run # a runner was seen
	run sh -c "$line"
	assert_output ''
	jr_ok pause --queue mail
	run sh -c "$line"
	assert_output mailed
	JOBRUN_DATABASE_URL=host=/nonexistent run sh -c "$line"
	assert_output --partial mailed
}
