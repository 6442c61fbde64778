#!/usr/bin/env bats
# shellcheck disable=SC2016 # programs in other languages
# The files of scripts/examples, as they are. A language that is not here is skipped; `make examples` installs all of them.

load ../lib/common
load ../lib/web

setup() {
	common_setup
	examples=$TOP/scripts/examples
	PATH=$(dirname "$JOBRUN"):$PATH
	mkdir bin
}

# handlers_from DIRECTORY FILE...: put these examples into the handlers directory.
handlers_from() {
	local directory=$1 file

	shift
	for file; do
		cp "$examples/$directory/$file" "$JOBRUN_HANDLERS/$file"
	done
}

# fake_mail: a mail that writes its arguments and its text to $HOME/sent.
fake_mail() {
	cat >bin/mail <<-'sh'
		#!/bin/sh
		{ echo "$@"; cat; } >>"$HOME/sent"
	sh
	chmod 755 bin/mail
	PATH=$PWD/bin:$PATH
}

# python_with MODULE: sets python. The first one in PATH may not be Debian's, and only Debian's has Debian's modules.
python_with() {
	for python in python3 /usr/bin/python3; do
		! "$python" -c "import $1" 2>/dev/null || return 0
	done
	skip "python3 has no module $1"
}

# --- programs ---

# sum_orders SUFFIX: that file adds up, reports progress and a result, and knows when to give up and what to put off.
sum_orders() {
	local good none late wrong blank

	install -m 755 "$examples/handlers/sum_orders.$1" "$JOBRUN_HANDLERS/sum_orders"
	# Its last line has no end.
	printf '%s' "$(seq -f 'Ada,%g' 250)" >orders.csv
	printf 'Ada,12\nBob,free\n' >wrong.csv
	printf '\nAda,12\n' >blank.csv
	good=$(enqueue sum_orders "{\"file\": \"$PWD/orders.csv\"}")
	none=$(enqueue sum_orders '{"path": 1}')
	late=$(enqueue sum_orders "{\"file\": \"$PWD/not-yet.csv\"}")
	wrong=$(enqueue sum_orders "{\"file\": \"$PWD/wrong.csv\"}")
	blank=$(enqueue sum_orders "{\"file\": \"$PWD/blank.csv\"}")
	jr run
	assert_equal "$status" 1
	q_is 'succeeded|{"cents": 31375, "orders": 250}|{"of": 250, "done": 200}' \
		"select status, result, progress from jobrun.job_runs where id = $good"
	q_is 'dead|exit:65|exit 65: the payload names no file' "select status, error_code, last_error from jobrun.job_runs where id = $none"
	q_is 'queued|1|exit:75' "select status, snoozes, error_code from jobrun.job_runs where id = $late"
	q_is 'dead|exit 65: line 2: no price' "select status, last_error from jobrun.job_runs where id = $wrong"
	q_is 'dead|exit 65: line 1: no price' "select status, last_error from jobrun.job_runs where id = $blank"
	jr_ok logs "$good"
	assert_equal "$output" 'added up 250 orders'
}

@test "handlers/sum_orders.sh adds up, reports, gives up and puts off" {
	sum_orders sh
}

@test "handlers/sum_orders.py adds up, reports, gives up and puts off" {
	sum_orders py
}

@test "handlers/sum_orders.js adds up, reports, gives up and puts off" {
	command -v node >/dev/null || skip 'node is not installed'
	sum_orders js
}

@test "handlers/sum_orders.php adds up, reports, gives up and puts off" {
	command -v php >/dev/null || skip 'php is not installed'
	sum_orders php
}

@test "hello says its run and its payload" {
	cp "$examples/hello" "$JOBRUN_HANDLERS/hello"
	id=$(enqueue hello '{"name": "you"}')
	jr_ok run
	jr_ok logs "$id"
	assert_equal "$output" "run $id has payload {\"name\": \"you\"}"
}

@test "mail/send_mail sends one mail, also when its run is repeated" {
	fake_mail
	handlers_from mail send_mail
	id=$(enqueue send_mail '{"to": "ada@example.org", "text": "Good morning"}')
	jr_ok run
	jr_ok retry --force "$id"
	jr_ok run
	q_is 'succeeded|2' "select status, claim_seq from jobrun.job_runs where id = $id"
	assert_equal "$(cat "$HOME/sent")" '-s hello -- ada@example.org
Good morning'
}

# --- webhooks ---

# receiver: start webhook/receiver.py with its own notify.secret; sets receiver_url. Teardown ends it.
receiver() {
	cp "$examples"/webhook/*.py .
	env -u JOBRUN_TEST_ID python3 receiver.py 0 notify.secret >received 2>receiver.log 3>&- 4>&- &
	web_pids+=("$!")
	wait_until 20 grep -q '^listening on port' received
	receiver_url=http://127.0.0.1:$(sed -n 's/^listening on port //p' received)/jobs
}

@test "webhook/receiver.py takes what webhook/notify.json signs, once, and refuses another secret" {
	secret() { echo "whsec_$(openssl rand -base64 32)"; }
	secret >notify.secret
	(umask 077 && cp notify.secret "$JOBRUN_HANDLERS/notify.secret")
	receiver
	handlers_from webhook notify.json
	# The only word that is not as it is written.
	sed -i "s|https://hooks.example.org/jobs|$receiver_url|" "$JOBRUN_HANDLERS/notify.json"
	id=$(enqueue notify '{"order": 4711}')
	jr_ok run
	run_is "$id" succeeded
	jr_ok retry --force "$id"
	jr_ok run
	assert_equal "$(sed 1d received)" 'notify: {"order": 4711}'
	assert_equal "$(grep -c '"POST /jobs HTTP/1.1" 204' receiver.log)" 2
	(umask 077 && secret >"$JOBRUN_HANDLERS/notify.secret")
	id=$(enqueue notify '{"order": 4712}')
	jr run
	q_is 'failed|http:401' "select status, error_code from jobrun.job_runs where id = $id"
	# Neither an unsigned request nor an invalid time is an error of the receiver.
	run curl -sS -o /dev/null -w '%{http_code}' -d '{}' "$receiver_url"
	assert_output 401
	run curl -sS -o /dev/null -w '%{http_code}' -H 'webhook-id: 1' -H 'webhook-timestamp: now' -H 'webhook-signature: v1,a' -d '{}' "$receiver_url"
	assert_output 401
	assert_equal "$(wc -l <received)" 2
}

# --- statements ---

@test "nightly/roll_up_sales.sql sums each missed day in the time of Berlin, once, however often it runs" {
	q <"$examples/nightly/tables.sql"
	handlers_from nightly roll_up_sales.sql
	run "$examples/nightly/define.sh"
	assert_success
	# Three nights without a tick. The slot after them is day N; a tick on it would sum day N - 1.
	day=$(q "select (next_slot_at at time zone 'Europe/Berlin')::date from jobrun.job_definitions where name = 'roll_up_sales'")
	q "update jobrun.job_definitions set next_slot_at = (date '$day' - 3 + time '01:15') at time zone 'Europe/Berlin' where name = 'roll_up_sales'"
	q "insert into sales select (date '$day' - ago + at) at time zone 'Europe/Berlin', product, cents from (values
		(5, time '23:59:59', 'tea', 1), (4, '00:00', 'tea', 200), (4, '12:00', 'tea', 300), (4, '12:00', 'milk', 90),
		(2, '23:59:59', 'tea', 50), (1, '00:00', 'tea', 7)) s (ago, at, product, cents)"
	summed="select string_agg(concat_ws(' ', date '$day' - day, product, sales, cents), ', ' order by day, product) from sales_by_day
		where day < date '$day' - 1"
	jr_ok run
	q_is '4 milk 1 90, 4 tea 2 500, 2 tea 1 50' "$summed"
	jr_ok retry --force --type roll_up_sales --status succeeded
	jr_ok run
	q_is '4 milk 1 90, 4 tea 2 500, 2 tea 1 50' "$summed"
	# Without a slot: yesterday.
	# (A sale on either day: midnight may come. Noon: a day may have 23 or 25 hours.)
	q "truncate sales, sales_by_day" "insert into sales select ((now() at time zone 'Europe/Berlin')::date - ago + time '12:00')
		at time zone 'Europe/Berlin', 'tea', 30 from generate_series(0, 1) ago"
	id=$(enqueue roll_up_sales)
	jr_ok run
	q_is 'succeeded|1|yesterday' "select status, result ->> 'products', case when result ->> 'day'
		in (((now() at time zone 'Europe/Berlin')::date - 1)::text, ((created_at at time zone 'Europe/Berlin')::date - 1)::text)
		then 'yesterday' end from jobrun.job_runs where id = $id"
}

@test "counter/count_visits.sql counts many visits in one statement and gives up the one without a page" {
	q <"$examples/counter/visits.sql"
	handlers_from counter count_visits.json count_visits.sql
	q "select count(*) from (select jobrun.enqueue('count_visits', jsonb_build_object('page', '/' || n % 3)) from generate_series(1, 30) n) s"
	bad=$(enqueue count_visits '{}')
	jr run
	assert_equal "$status" 1
	q_is '/0 10, /1 10, /2 10' "select string_agg(page || ' ' || n, ', ' order by page) from visits"
	q_is 'dead|no page in the payload' "select status, last_error from jobrun.job_runs where id = $bad"
	q_is '30|1' "select count(*), count(distinct finished_at) from jobrun.job_runs where status = 'succeeded'"
}

# --- alerts ---

@test "alerts: a dead run is told by mail, ntfy and Slack, each once, and no command line has a URL" {
	command -v curl >/dev/null || skip 'curl is not installed'
	fake_mail
	web
	handlers_from alerts alert_all alert_mail alert_ntfy alert_slack
	(umask 077 && for way in ntfy slack; do echo "url = \"$web/ping/secret-$way\"" >"$JOBRUN_HANDLERS/$way.curl"; done)
	printf '#!/bin/sh\necho "$@" >>"%s/arguments"\nexec %s "$@"\n' "$PWD" "$(command -v curl)" >bin/curl
	chmod 755 bin/curl
	handler send_mail <<<'echo "<nobody> & co refused"; exit 65'
	"$examples/alerts/define.sh" >/dev/null
	id=$(enqueue send_mail)
	ALERT_TO=ops jr run
	assert_equal "$status" 1
	q_is '{alert_all,alert_mail,alert_ntfy,alert_slack}' \
		"select array_agg(job_type order by job_type) from jobrun.job_runs where status = 'succeeded'"
	what="send_mail $id is dead after 1 attempts: exit 65:"
	assert_equal "$(head -n 2 "$HOME/sent")" "-s jobrun: a run is dead -- ops
$what <nobody> & co refused"
	assert_equal "$(requests 'select(.target == "/ping/secret-ntfy") | .headers.title + "|" + .body')" \
		"jobrun: a run is dead|$what <nobody> & co refused"
	assert_equal "$(requests 'select(.target == "/ping/secret-slack") | .headers["content-type"] + "|" + (.body | fromjson | .text)')" \
		"application/json|$what &lt;nobody&gt; &amp; co refused"
	assert_equal "$(wc -l <arguments)" 2
	run grep secret arguments
	assert_failure 1
	# A second attempt of alert_all makes no second alarm. A refusal is tried again.
	jr_ok retry --force --type alert_all --status succeeded
	jr_ok run
	q_is 4 "select count(*) from jobrun.job_runs where job_type like 'alert%'"
	echo "url = \"$web/status/500\"" >"$JOBRUN_HANDLERS/ntfy.curl"
	again=$(enqueue alert_ntfy '{"run_id": 1}')
	jr_ok run
	q_is 'failed|exit:22' "select status, error_code from jobrun.job_runs where id = $again"
}

# --- enqueue in a transaction ---

# orders: the application's table. An order of nothing is refused when it is committed, with all that went before.
orders() {
	local socket=${JR_DIRECT#host=}

	q <"$examples/enqueue/orders.sql"
	q <<-'sql'
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'an order of nothing'; end $$;
		create constraint trigger refuse after insert on orders deferrable initially deferred for each row
			when (new.item = 'nothing') execute function refuse();
	sql
	socket=${socket%% *}
	export DATABASE_URL="postgresql://jobrun@localhost/$JR_DATABASE?host=$socket"
	export DATABASE_DSN="pgsql:host=$socket;dbname=$JR_DATABASE;user=jobrun"
}

# both_or_neither COMMAND...: it orders what its last argument says, and prints the id of the run.
both_or_neither() {
	run --separate-stderr "$@" nothing
	assert_failure
	assert_regex "$stderr" 'an order of nothing'
	q_is '0|0' 'select (select count(*) from orders), (select count(*) from jobrun.job_runs)'
	run --separate-stderr "$@" tea
	assert_success
	q_is "$output|queued|300" "select id, status, extract(epoch from run_at - created_at)::integer from jobrun.job_runs
		where job_type = 'send_invoice' and payload = (select jsonb_build_object('order', o.id) from orders o where o.item = 'tea')"
}

@test "enqueue/order.sql: psql enqueues in its transaction" {
	orders
	run q <"$examples/enqueue/order.sql"
	assert_success
	q_is "tea|$output" "select o.item, r.id from orders o join jobrun.job_runs r on r.payload ->> 'order' = o.id::text"
}

@test "enqueue/order.py: psycopg 3 enqueues in its transaction" {
	python_with psycopg
	orders
	both_or_neither "$python" "$examples/enqueue/order.py"
	q_is '2|1' "select count(*) filter (where job_type = 'send_mail'), count(*) filter (where idempotency_key like 'invoice-%') from jobrun.job_runs"
}

@test "enqueue/order_psycopg2.py: psycopg 2 enqueues in its transaction" {
	python_with psycopg2
	orders
	both_or_neither "$python" "$examples/enqueue/order_psycopg2.py"
	q_is '2|1' "select count(*) filter (where job_type = 'send_mail'), count(*) filter (where idempotency_key like 'invoice-%') from jobrun.job_runs"
}

@test "enqueue/order.js: pg of Node enqueues in its transaction" {
	export NODE_PATH=${NODE_PATH:-/usr/share/nodejs:/usr/lib/nodejs}
	node -e 'require("pg")' 2>/dev/null || skip 'node or its package pg is not installed'
	orders
	both_or_neither node "$examples/enqueue/order.js"
}

@test "enqueue/order.php: PDO of PHP enqueues in its transaction" {
	php -r 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);' 2>/dev/null || skip 'php or its module pdo_pgsql is not installed'
	orders
	both_or_neither php "$examples/enqueue/order.php"
}

# Debian has pgx 4. The example uses nothing in which pgx 5 differs, but for the path of the import.
@test "enqueue/order.go: pgx enqueues in its transaction, and gofmt and go vet find no fault" {
	[ -n "${EXAMPLES_ALL:-}" ] || skip 'compilers are for make examples'
	mkdir -p go/src/orders go/src/order
	sed 's|jackc/pgx/v5|jackc/pgx/v4|' "$examples/enqueue/order.go" >go/src/orders/order.go
	cat >go/src/order/main.go <<-'go'
		package main

		import (
			"context"
			"fmt"
			"os"

			"github.com/jackc/pgx/v4"
			"orders"
		)

		func main() {
			db, err := pgx.Connect(context.Background(), os.Getenv("DATABASE_URL"))
			if err == nil {
				var run int64
				if run, err = orders.Order(context.Background(), db, os.Args[1]); err == nil {
					fmt.Println(run)
					return
				}
			}
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	go
	run gofmt -l "$examples/enqueue/order.go"
	assert_output ''
	export GOPATH=$PWD/go:/usr/share/gocode GO111MODULE=off GOFLAGS='' GOCACHE=${GOCACHE:-$TOP/build/examples/go}
	go vet orders order
	go build -o bin/order order
	orders
	both_or_neither bin/order
}

# The driver knows no sockets of Unix, so a port leads to the server's.
@test "enqueue/Order.java: JDBC enqueues in its transaction" {
	[ -n "${EXAMPLES_ALL:-}" ] || skip 'compilers are for make examples'
	orders
	cat >port.py <<-'python'
		import asyncio, sys

		async def copy(reader, writer):
		    while data := await reader.read(65536):
		        writer.write(data)
		    writer.close()

		async def serve(reader, writer):
		    there = await asyncio.open_unix_connection(sys.argv[1])
		    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

		async def main():
		    server = await asyncio.start_server(serve, "127.0.0.1", 0)
		    print(server.sockets[0].getsockname()[1], flush=True)
		    await server.serve_forever()

		asyncio.run(main())
	python
	env -u JOBRUN_TEST_ID python3 port.py "${DATABASE_URL##*=}/.s.PGSQL.5432" >port 3>&- 4>&- &
	web_pids+=("$!")
	wait_until 20 test -s port
	JDBC_URL="jdbc:postgresql://127.0.0.1:$(cat port)/$JR_DATABASE?user=jobrun"
	export JDBC_URL
	both_or_neither java -cp /usr/share/java/postgresql.jar "$examples/enqueue/Order.java"
}

# --- cron, containers, systemd ---

@test "container: each instruction is known, what it copies is there, and its commands are commands of a shell" {
	cd "$examples/container"
	# Continued lines as one; then instruction and arguments.
	sed -e :a -e '/\\$/N; s/\\\n//; ta' -e '/^#/d' Containerfile >"$TMPDIR/instructions"
	while read -r instruction arguments; do
		case $instruction in
		FROM | CMD) ;;
		RUN) sh -n -c "$arguments" ;;
		COPY)
			# The package and the handlers are the user's.
			case $arguments in
			'jobrun_*.deb /tmp/' | 'handlers/ /etc/jobrun/handlers/') ;;
			*) [ -f "${arguments% *}" ] || fail "no ${arguments% *}" ;;
			esac
			;;
		*) fail "Containerfile: $instruction" ;;
		esac
	done <"$TMPDIR/instructions"
	assert_equal "$(head -n 1 "$TMPDIR/instructions")" 'FROM debian:12'
	assert_equal "$(tail -n 1 "$TMPDIR/instructions")" 'CMD ["/usr/local/bin/entrypoint"]'
}

@test "container: the line of its crontab starts what is due, with the variables of its file" {
	[ "$(id -u)" -eq 0 ] || skip 'only root becomes another user'
	handler hello <<<'echo "$GREETING" >"$HOME/said"'
	id=$(enqueue hello)
	line=$(grep '^\* \* \* \* \* root ' "$examples/container/crontab")
	{
		grep -vE '^(#|JOBRUN_(DATABASE_URL|HANDLERS)=)' "$examples/container/jobrun.env" || true
		printf "JOBRUN_DATABASE_URL='%s'\nJOBRUN_HANDLERS=%s\nJOBRUN_STATE_DIR=%s\nGREETING='good morning'\n" \
			"$JOBRUN_DATABASE_URL" "$JOBRUN_HANDLERS" "$JOBRUN_STATE_DIR"
		printf 'JOBRUN_TEST_ID=%s\nASAN_OPTIONS=%s\n' "$JOBRUN_TEST_ID" "$ASAN_OPTIONS"
	} >variables
	# What is another one here: the file, the account, the program, and process 1.
	line=$(sed "s|^\* \* \* \* \* root ||; s|/etc/jobrun/env|$PWD/variables|; s|/usr/bin/jobrun|$JOBRUN|; s|=jobrun |=root |g; s|/proc/1/fd/1|$PWD/log|" <<<"$line")
	run env -i HOME="$HOME" PATH=/usr/bin:/bin SHELL=/bin/sh LOGNAME=root sh -c "$line" 3>&-
	assert_success
	assert_output ''
	run_is "$id" succeeded
	assert_equal "$(cat "$HOME/said")" 'good morning'
	assert_file_empty log
}

@test "container: its entrypoint stops cron, then the runners, and waits until they are gone" {
	# A cron that starts a runner, and a runner that ends when there is a file.
	cat >runner <<-'sh'
		trap 'echo runner >>stopped' TERM
		echo up >up
		until [ -e go ]; do sleep 0.1; done
	sh
	cat >bin/cron <<-END
		#!/bin/sh
		trap 'echo cron >>stopped; exit 0' TERM
		sh $PWD/runner &
		while :; do sleep 0.1; done
	END
	chmod 755 bin/cron
	# What is another one here: the command line of a runner.
	sed "s|\^/usr/bin/jobrun --once|^sh $PWD/runner|" "$examples/container/entrypoint" >entrypoint
	PATH=$PWD/bin:$PATH sh entrypoint 3>&- 4>&- &
	pid=$!
	wait_until 10 test -s up
	kill -TERM "$pid"
	wait_until 10 grep -q runner stopped
	wait_until 10 grep -q cron stopped
	kill -0 "$pid"
	touch go
	wait_until 10 is_gone "$pid"
}

@test "the installed service and timer satisfy systemd" {
	command -v systemd-analyze >/dev/null || skip 'no systemd-analyze'
	make -C "$TOP" --no-print-directory -o all BUILD="$(dirname "$JOBRUN")" install PREFIX="$PWD/root"
	run systemd-analyze verify --man=no "$PWD"/root/lib/systemd/system/jobrun.{service,timer}
	assert_success
	assert_output ''
}

# --- all of them ---

# block_with TEXT: the block of code in the manual that has this line.
block_with() {
	awk -v text="$1" '
	/^```/ { if (on && has) { printf "%s", block; exit } on = !on; has = 0; block = ""; next }
	on { block = block $0 "\n"; if ($0 == text) has = 1 }' "$TOP"/cmd/man/*.scd
}

@test "what the manual shows of these examples is what they say" {
	while IFS='|' read -r file text; do
		block=$(block_with "$text")
		[ -n "$block" ] || fail "the manual has no block with: $text"
		[[ $(cat "$examples/$file") == *"$block"* ]] || fail "the manual shows another $file"
	done <<-'END'
		mail/send_mail|to=$(printf '%s' "$payload" | jq -er .to) || exit 65
		webhook/verify.py|def verify(secret, headers, body):
		webhook/notify.json|        "secret": "file:notify.secret"
		counter/visits.sql|create table visits (page text primary key, n bigint not null, last_key text);
		counter/count_visits.sql|    from jsonb_array_elements($1) r
		counter/count_visits.json|{"batch": 500}
		enqueue/order.sql|with placed as (insert into orders (item) values ('tea') returning id)
		enqueue/order.py|import psycopg
		enqueue/order.js|const { Client } = require('pg');
		enqueue/order.go|	"github.com/jackc/pgx/v5"
	END
}

@test "the index of the examples names each of them" {
	while read -r file; do
		name=${file##*/}
		grep -qF -e "\`$name\`" -e "/$name\`" "$examples/README.md" || grep -F "${name%.*}." "$examples/README.md" | grep -qF "\`.${name##*.}\`" ||
			fail "README.md does not name $file"
	done < <(cd "$examples" && find . -type f ! -name README.md)
}
