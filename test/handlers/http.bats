#!/usr/bin/env bats
# http handlers against servers that answer as they should, late, without measure or wrongly. Each of them is beside a
# server and runs that must not notice.

load ../lib/common
load ../lib/web

# beside PATH STATUS CODE [MEMBERS_OF_HTTP]: a run whose target is PATH ends so, at once and after one attempt, and the
# runs beside it succeed.
beside() {
	local other

	[ "${#web_pids[@]}" -gt 0 ] || web
	http_handler horror "$web$1" "${4:-}"
	http_handler fine "$web/ok"
	handler exec_beside <<<'exit 0'
	other=$(enqueue fine)
	id=$(enqueue horror --backoff 1h)
	enqueue fine
	enqueue exec_beside
	jr run
	assert_equal "$(ended "$id")" "$2|1${3:+|$3}"
	q_is 0 "select count(*) from jobrun.job_runs where id >= $other and id <> $id and status <> 'succeeded'"
}

# The text of the last error of the run.
error_of() {
	q "select last_error from jobrun.job_runs where id = $1"
}

output_of() {
	q "select output from jobrun.job_attempts where run_id = $1 order by claim_seq desc limit 1"
}

# --- the request ---

@test "libcurl is loaded only where there is an http handler" {
	handler work <<<'exit 0'
	LD_DEBUG=files jr run
	assert_equal "$status" 0
	assert_regex "$stderr" 'file=libpq'
	refute_regex "$stderr" 'file=libcurl'
	http_handler fine 'http://127.0.0.1:9/'
	LD_DEBUG=files jr run
	assert_equal "$status" 0
	assert_regex "$stderr" 'file=libcurl'
}

@test "the payload is posted to the last digit, with the run's key, and who it is" {
	local version

	version=$("$JOBRUN" --version | grep -om1 '[0-9][0-9.]*' | head -n 1)
	web
	http_handler send "$web/ok" '"headers": {"X-Tenant": "a b"}'
	for payload in '{"amount": 12345678901234567890.10}' '"\"\\ \t ünïcödé 🙂"' '[]' 'null'; do
		id=$(enqueue send "$payload" --idempotency-key "key-$payload")
		jr_ok run
		run_is "$id" succeeded
		assert_equal "$(requests "select(.headers[\"jobrun-run\"] == \"$id\") | .body")" \
			"$(q "select payload::text from jobrun.job_runs where id = $id")"
	done
	assert_equal "$(requests 'select(.headers["jobrun-run"] == "3") | [.method, .target, .signature] + (.headers |
		[."content-type", ."user-agent", ."idempotency-key", ."jobrun-type", ."jobrun-attempt", ."x-tenant", .expect])')" \
		"[\"POST\",\"/ok\",\"none\",\"application/json\",\"jobrun/$version\",\"key-[]\",\"send\",\"1\",\"a b\",null]"
}

@test "a plain success leaves no attempt row, and one with a body leaves its beginning" {
	web
	http_handler plain "$web/ok"
	http_handler echo "$web/echo"
	plain=$(enqueue plain)
	id=$(enqueue echo '"ä"')
	long=$(enqueue echo "\"x$(printf 'ä%.0s' {1..1500})\"")
	jr_ok run
	q_is 0 "select count(*) from jobrun.job_attempts where run_id = $plain"
	assert_equal "$(output_of "$id")" $'HTTP 200, 4 bytes\n"ä"'
	assert_equal "$(output_of "$long")" "HTTP 200, 3003 bytes
\"x$(printf 'ä%.0s' {1..1023})"
	q_is 955 "select output_dropped from jobrun.job_attempts where run_id = $long"
}

@test "a payload of 1 MiB arrives whole" {
	web
	http_handler send "$web/ok"
	{
		printf '"'
		head -c 1048574 /dev/zero | tr '\0' x
		printf '"'
	} >payload
	id=$(enqueue send @payload)
	jr_ok run
	run_is "$id" succeeded
	assert_equal "$(requests '.body | length')" 1048576
}

@test "content type and agent are the target's if it says so; GET and HEAD have no body" {
	web
	http_handler get "$web/echo" '"method": "GET"'
	http_handler head "$web/echo" '"method": "HEAD"'
	http_handler put "$web/ok" '"method": "PUT", "headers": {"content-type": "text/plain", "User-Agent": "other"}'
	enqueue get '{"a": 1}'
	enqueue head '{"a": 1}'
	enqueue put '{"a": 1}'
	jr_ok run
	q_is 3 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(requests '[.method, .body, .headers["content-type"], .headers["user-agent"] != "other"]' | sort)" \
		'["GET","",null,true]
["HEAD","",null,true]
["PUT","{\"a\": 1}","text/plain",false]'
}

@test "the signature verifies, also while a secret is replaced; a wrong one does not" {
	local old new other

	old=whsec_$(openssl rand -base64 24)
	new=whsec_$(openssl rand -base64 64 | tr -d '\n')
	other=whsec_$(openssl rand -base64 32)
	(umask 077 && echo "$old" >"$JOBRUN_HANDLERS/.old" && echo "$new" >"$JOBRUN_HANDLERS/.new" &&
		echo "$other" >"$JOBRUN_HANDLERS/.other")
	web --secret "$old"
	http_handler one "$web/signed" '"secret": "file:.old"'
	http_handler both "$web/signed" '"secret": ["file:.new", "file:.old"]'
	http_handler foreign "$web/signed" '"secret": "file:.other"'
	http_handler get "$web/signed" '"secret": "file:.old", "method": "GET"'
	one=$(enqueue one '{"text": "ünï 🙂", "n": 1.10}' --idempotency-key 'a.b %')
	both=$(enqueue both)
	foreign=$(enqueue foreign --backoff 1h)
	get=$(enqueue get)
	jr_ok run
	assert_equal "$(ended "$one")" 'succeeded|1'
	assert_equal "$(ended "$both")" 'succeeded|1'
	assert_equal "$(ended "$foreign")" 'failed|1|http:401'
	assert_equal "$(ended "$get")" 'succeeded|1'
	assert_equal "$(requests 'select(.headers["jobrun-type"] == "one").headers | [."webhook-id", ."idempotency-key"]')" \
		'["a%2Eb%20%25","a.b%20%25"]'
	q_is t "select abs(extract(epoch from now()) - $(requests 'select(.headers["jobrun-type"] == "one").headers["webhook-timestamp"]')) < 60"
}

@test "each attempt has the same key and a number of its own" {
	web
	http_handler flaky "$web/status/500"
	id=$(enqueue flaky --backoff 1ms --max-attempts 3)
	wait_until 20 eval "run_jobrun run; run_is $id dead"
	assert_equal "$(requests '.headers["jobrun-attempt"]' | tr '\n' ' ')" '1 2 3 '
	assert_equal "$(requests '.headers["idempotency-key"]' | sort -u | wc -l)" 1
}

@test "a key cannot end its header, and only a valid traceparent is passed on" {
	web
	http_handler send "$web/ok"
	enqueue send --idempotency-key a
	enqueue send --idempotency-key b
	enqueue send --idempotency-key c
	q "update jobrun.job_runs set idempotency_key = E'a\r\nX-Evil: 1' where id = 1"
	q "update jobrun.job_runs set trace_context = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' where id = 2"
	q "update jobrun.job_runs set trace_context = E'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Evil: 2' where id = 3"
	jr_ok run
	assert_equal "$(requests '[.headers["idempotency-key"], .headers["x-evil"], .headers.traceparent]' | sort)" \
		'["a%0D%0AX-Evil:%201",null,null]
["b",null,"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
["c",null,null]'
}

# --- the contract ---

# outcomes [MEMBERS_OF_HTTP [MEMBERS]]: lines of "TARGET STATUS,ATTEMPTS,SNOOZES[,CODE]" from stdin, what the stub answers
# and how the run stands then.
outcomes() {
	local target expected n=0 wanted=()

	while read -r target expected; do
		n=$((n + 1))
		http_handler "s$n" "$web/status/$target" "${1:-}" "${2:-}"
		enqueue "s$n" --backoff 1h >/dev/null
		wanted+=("$target $expected")
	done
	jr run
	for n in "${!wanted[@]}"; do
		assert_equal "${wanted[n]% *} $(q "select concat_ws(',', status, attempts, snoozes, error_code)
			from jobrun.job_runs where job_type = 's$((n + 1))'")" "${wanted[n]}"
	done
}

@test "http: the status of the answer decides between done, later, give up and failure" {
	web
	outcomes <<-'END'
		200 succeeded,1,0
		201 succeeded,1,0
		202 succeeded,1,0
		204 succeeded,1,0
		299 succeeded,1,0
		429 queued,0,1,http:429
		429?retry_after=1 queued,0,1,http:429
		503?retry_after=1 queued,0,1,http:503
		503?retry_after=soon failed,1,0,http:503
		503 failed,1,0,http:503
		400 dead,1,0,http:400
		410 dead,1,0,http:410
		413 dead,1,0,http:413
		422 dead,1,0,http:422
		301 failed,1,0,http:301
		304 failed,1,0,http:304
		401 failed,1,0,http:401
		404 failed,1,0,http:404
		409 failed,1,0,http:409
		500 failed,1,0,http:500
		502 failed,1,0,http:502
		504 failed,1,0,http:504
		599 failed,1,0,http:599
	END
	assert_equal "$status" 1 # some are dead
}

@test "http: give_up, later and expect of a handler replace the default table" {
	web
	outcomes '"expect": ["3xx", 418]' '"give_up": [404], "later": [409, 503]' <<-'END'
		404 dead,1,0,http:404
		400 failed,1,0,http:400
		409 queued,0,1,http:409
		503 queued,0,1,http:503
		429 failed,1,0,http:429
		200 failed,1,0,http:200
		302 succeeded,1,0
		418 succeeded,1,0
	END
}

@test "http: the error has the status in words and the first line of the answer" {
	web
	http_handler gone "$web/status/410?body=%0A%20no%20such%20order%0Asecond"
	http_handler moved "$web/redirect"
	gone=$(enqueue gone)
	moved=$(enqueue moved --backoff 1h)
	jr run
	assert_equal "$(error_of "$gone")" 'HTTP 410 Gone: no such order'
	assert_equal "$(output_of "$gone")" $'HTTP 410, 22 bytes\n\n no such order\nsecond'
	assert_equal "$(error_of "$moved")" 'HTTP 302 Found (redirects are not followed)'
	assert_equal "$(requests .target | sort | tail -n 1)" '/status/410?body=%0A%20no%20such%20order%0Asecond'
}

# waits QUERY FROM TO: a run answered 503 with that Retry-After is due again after so many seconds.
waits() {
	http_handler wait "$web/status/503?$1"
	id=$(enqueue wait)
	jr_ok run
	assert_equal "$(ended "$id")" 'queued|0|http:503'
	q_is t "select extract(epoch from r.run_at - a.finished_at) between $2 and $3
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id where r.id = $id"
}

@test "http: Retry-After is obeyed, in seconds or as a date by the server's clock, else by the database's, up to a day and never below the backoff" {
	web
	waits retry_after=120 118 121
	waits retry_date=120 118 121
	waits retry_date=-120 4 11
	waits 'retry_date=120&undated=1' 116 122
	waits 'retry_date=-120&undated=1' 4 11
	waits retry_after=0 4 11
	waits retry_after=315360000 86398 86401
	waits retry_date=315360000 86398 86401
	waits retry_after=99999999999999999999999999 86398 86401
}

@test "Retry-After of a failure makes its backoff longer" {
	web
	http_handler busy "$web/status/500?retry_after=300"
	id=$(enqueue busy --backoff 1s)
	jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|http:500'
	q_is t "select run_at - failed_at between '299 s' and '301 s' from jobrun.job_runs where id = $id"
}

# --- late, or never ---

@test "a server that never answers costs its timeout" {
	beside /hang failed curl:OPERATION_TIMEDOUT '"timeout": "1s"'
}

@test "an answer after the timeout is none" {
	beside '/slow?s=3' failed curl:OPERATION_TIMEDOUT '"timeout": "500ms"'
}

@test "an answer that trickles does not stretch the timeout" {
	local timeout

	for timeout in 1s 4s 16s; do # a slow server may have sent nothing in the first
		beside /trickle failed curl:OPERATION_TIMEDOUT "\"timeout\": \"$timeout\""
		[[ $(output_of "$id") != *x ]] || break
	done
	assert_regex "$(output_of "$id")" $'^HTTP 200, [0-9]+ bytes\nx+$'
}

@test "headers that trickle do not stretch the timeout either" {
	beside /slowhead failed curl:OPERATION_TIMEDOUT '"timeout": "1s"'
}

@test "a timeout beside http is that of the request too, if it has none of its own" {
	web
	http_handler short "$web/hang" '' '"timeout": "500ms"'
	http_handler both "$web/hang" '"timeout": "500ms"' '"timeout": "1h"'
	http_handler none "$web/ok" '' '"timeout": "0"'
	short=$(enqueue short --backoff 1h)
	both=$(enqueue both --backoff 1h)
	none=$(enqueue none)
	jr_ok run
	assert_equal "$(ended "$short")" 'failed|1|timeout'
	assert_equal "$(error_of "$short")" 'timed out after 500ms'
	assert_equal "$(ended "$both")" 'failed|1|curl:OPERATION_TIMEDOUT'
	run_is "$none" succeeded
}

@test "the run's timeout comes first if it is the shorter one" {
	web
	http_handler hang "$web/hang"
	id=$(enqueue hang --timeout 500ms --backoff 1h)
	jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|timeout'
}

@test "cancel breaks a request off" {
	web
	http_handler hang "$web/hang"
	id=$(enqueue hang)
	bg_runner --lease 60s --heartbeat 1s
	wait_until 20 test -s "$web_dir/log"
	jr_ok cancel "$id"
	wait_runner
	assert_equal "$(ended "$id")" 'cancelled|1|cancelled'
}

@test "TERM breaks requests off after its grace, and they are not charged" {
	web
	http_handler hang "$web/hang"
	id=$(enqueue hang)
	bg_runner --grace 0
	wait_until 20 test -s "$web_dir/log"
	kill -TERM "$runner_pid"
	wait_runner
	q_is 'queued|0|1' "select status, attempts, releases from jobrun.job_runs where id = $id"
}

@test "TERM lets a request that is answered in time end as it does" {
	web
	http_handler hold "$web/hold/open"
	id=$(enqueue hold)
	bg_runner --grace 30s
	wait_until 20 test -s "$web_dir/log"
	kill -TERM "$runner_pid"
	touch "$web_dir/open"
	wait_runner
	assert_equal "$(ended "$id")" 'succeeded|1'
}

# --- without measure ---

# The sanitizers need much memory for themselves.
is_sanitized() {
	ldd "$JOBRUN" | grep -q libasan
}

# in_little_memory PATH STATUS CODE: `beside` in a runner that may have no more data than so many kB, so that one which
# keeps such an answer dies.
little=16000

in_little_memory() {
	if ! is_sanitized; then
		printf '#!/bin/sh\nulimit -d %s\nexec "%s" "$@"\n' "$little" "$JOBRUN" >small
		chmod 755 small
		JOBRUN=$PWD/small
	fi
	beside "$@"
}

@test "an endless body: the status is the answer, and reading ends" {
	in_little_memory /endless succeeded ''
	assert_equal "$(output_of "$id" | head -n 1)" 'HTTP 200, more than 1048576 bytes'
	q_is t "select octet_length(output) < 2200 and output_dropped > 1000000 from jobrun.job_attempts where run_id = $id"
}

@test "http: a header of 100 MB is a failure" {
	in_little_memory /bighead failed curl:HEADERS_TOO_LARGE
}

@test "http: headers without end are a failure" {
	in_little_memory /manyheads failed curl:HEADERS_TOO_LARGE
}

@test "http: a flood of interim answers is a failure" {
	in_little_memory /flood failed curl:HEADERS_TOO_LARGE
}

@test "http: a compressed body is not unpacked" {
	in_little_memory /gzip succeeded ''
}

@test "http: a compressed transfer encoding is refused" {
	in_little_memory /tegzip failed curl:BAD_CONTENT_ENCODING
}

# --- wrong ---

@test "a body shorter than announced is an error, whatever the status" {
	beside /short failed curl:PARTIAL_FILE
	assert_regex "$(error_of "$id")" '991 bytes.*\(after HTTP 200\)$'
	assert_equal "$(output_of "$id")" $'HTTP 200, 9 bytes\nonly this'
}

@test "an answer that ends within its headers is none, whatever the status" {
	local where

	web
	for where in {200,400,429,503}/{status,header,folded,interim}; do
		http_handler "${where/\//-}" "$web/cuthead/$where"
		enqueue "${where/\//-}" --backoff 1h
	done
	http_handler fine "$web/ok"
	enqueue fine
	jr_ok run
	assert_equal "$(q "select job_type, status, error_code from jobrun.job_runs
		where (status, attempts, error_code) is distinct from ('failed', 1, 'curl:WEIRD_SERVER_REPLY') order by 1")" 'fine|succeeded|'
	assert_equal "$(error_of 1)" 'the answer ended within its headers'
}

@test "a reset in the body is an error, whatever the status" {
	beside /reset failed curl:RECV_ERROR
}

@test "bytes after an answer are not taken for the answer to the next run" {
	web
	http_handler excess "$web/excess"
	http_handler bad "$web/status/500"
	for _ in 1 2 3 4 5; do
		enqueue excess
		enqueue bad --backoff 1h
	done
	jr_ok run --http-jobs 1
	q_is 'bad failed 5,excess succeeded 5' "select string_agg(concat_ws(' ', job_type, status, n), ',' order by job_type)
		from (select job_type, status, count(*) n from jobrun.job_runs group by 1, 2) x"
}

@test "an answer that is not HTTP is a failure" {
	beside /nothttp failed curl:UNSUPPORTED_PROTOCOL
}

@test "a connection that ends without an answer is an error" {
	beside /drop failed curl:GOT_NOTHING
}

@test "invalid UTF-8 and NUL in an answer are made clean" {
	beside /badutf8 failed http:500
	assert_equal "$(error_of "$id")" 'HTTP 500 Internal Server Error: a�b�é���'
	assert_equal "$(output_of "$id")" $'HTTP 500, 16 bytes\na�b�é���\nsecond'
}

@test "an answer before the whole body was read is the answer" {
	web
	http_handler early "$web/early"
	{
		printf '"'
		head -c 1000000 /dev/zero | tr '\0' x
		printf '"'
	} >payload
	id=$(enqueue early @payload)
	jr run
	assert_equal "$(ended "$id")" 'dead|1|http:413'
}

@test "an address where nobody listens is a failure that names it" {
	web
	http_handler nobody http://127.0.0.1:1/
	http_handler fine "$web/ok"
	id=$(enqueue nobody --backoff 1h)
	fine=$(enqueue fine)
	jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|curl:COULDNT_CONNECT'
	assert_regex "$(error_of "$id")" '127.0.0.1 port 1'
	run_is "$fine" succeeded
}

# --- TLS ---

@test "TLS: only a certificate that is trusted, and that of the right host" {
	certificate right IP:127.0.0.1
	certificate wrong DNS:elsewhere.example
	web --tls "$PWD/right.crt" "$PWD/right.key"
	http_handler trusted "$web/ok" "\"ca_file\": \"$PWD/right.crt\""
	http_handler unknown "$web/ok"
	right=$web_dir
	web --tls "$PWD/wrong.crt" "$PWD/wrong.key"
	http_handler wronghost "$web/ok" "\"ca_file\": \"$PWD/wrong.crt\""
	web
	http_handler plain "https${web#http}/ok"
	http_handler fine "$web/ok"
	trusted=$(enqueue trusted)
	unknown=$(enqueue unknown --backoff 1h)
	wronghost=$(enqueue wronghost --backoff 1h)
	plain=$(enqueue plain --backoff 1h)
	fine=$(enqueue fine)
	jr_ok run
	assert_equal "$(ended "$trusted")" 'succeeded|1'
	assert_equal "$(ended "$unknown")" 'failed|1|curl:PEER_FAILED_VERIFICATION'
	assert_regex "$(error_of "$unknown")" 'self.signed certificate \("ca_file" in "http" names the certificates to trust\)$'
	assert_equal "$(ended "$wronghost")" 'failed|1|curl:PEER_FAILED_VERIFICATION'
	refute_regex "$(error_of "$wronghost")" ca_file
	assert_equal "$(ended "$plain")" 'failed|1|curl:SSL_CONNECT_ERROR'
	assert_equal "$(ended "$fine")" 'succeeded|1'
	assert_equal "$(wc -l <"$right/log")" 1
}

@test "TLS: a connection that breaks while the body is sent kills nobody" {
	certificate right IP:127.0.0.1
	web --tls "$PWD/right.crt" "$PWD/right.key"
	http_handler rude "$web/rude" "\"ca_file\": \"$PWD/right.crt\""
	http_handler fine "$web/ok" "\"ca_file\": \"$PWD/right.crt\""
	{
		printf '"'
		head -c 1000000 /dev/zero | tr '\0' x
		printf '"'
	} >payload
	for _ in 1 2 3; do
		enqueue rude @payload --backoff 1h
		enqueue fine
	done
	jr_ok run
	q_is 3 "select count(*) from jobrun.job_runs where job_type = 'rude' and status = 'failed' and error_code like 'curl:%'"
	q_is 3 "select count(*) from jobrun.job_runs where job_type = 'fine' and status = 'succeeded'"
}

# --- the surroundings ---

@test "a proxy is used if the handler says so, and one of the environment only if it says that" {
	web
	export http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 no_proxy=
	http_handler direct "$web/ok"
	http_handler asked "$web/ok" '"proxy": "environment"'
	direct=$(enqueue direct)
	asked=$(enqueue asked --backoff 1h)
	jr_ok run
	assert_equal "$(ended "$direct")" 'succeeded|1'
	assert_equal "$(ended "$asked")" 'failed|1|curl:COULDNT_CONNECT'
	export http_proxy=$web no_proxy=nowhere.example
	http_handler asked http://nobody.example/ok '"proxy": "environment"'
	http_handler named http://nowhere.example/ok "\"proxy\": \"$web\""
	asked=$(enqueue asked)
	named=$(enqueue named)
	jr_ok run
	assert_equal "$(ended "$asked")" 'succeeded|1'
	assert_equal "$(ended "$named")" 'succeeded|1'
	assert_equal "$(requests .target | sort | tr '\n' ' ')" '/ok http://nobody.example/ok http://nowhere.example/ok '
}

@test "netrc is not read" {
	web
	printf 'default login me password hunter2\n' >"$HOME/.netrc"
	chmod 600 "$HOME/.netrc"
	http_handler send "$web/ok"
	enqueue send
	jr_ok run
	assert_equal "$(requests .headers.authorization)" null
}

@test "the value of a header may stand in a file, which is read when a runner starts" {
	printf 'Bearer hunter2\n' >"$JOBRUN_HANDLERS/send.token"
	chmod 600 "$JOBRUN_HANDLERS/send.token"
	web
	http_handler send "$web/ok" '"headers": {"Authorization": "file:send.token"}'
	enqueue send
	jr_ok run
	printf 'Bearer hunter3' >"$JOBRUN_HANDLERS/send.token"
	enqueue send
	jr_ok run
	assert_equal "$stderr" ''
	assert_equal "$(requests .headers.authorization)" 'Bearer hunter2
Bearer hunter3'
	q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "allow_private false refuses an address of this host, by the address and not by the name" {
	web
	http_handler fine "$web/ok"
	http_handler number "$web/ok" '"allow_private": false'
	http_handler name "http://localhost:$web_port/ok" '"allow_private": false'
	fine=$(enqueue fine)
	number=$(enqueue number --backoff 1h)
	name=$(enqueue name --backoff 1h)
	jr_ok run --http-jobs 1
	assert_equal "$(ended "$fine")" 'succeeded|1'
	assert_equal "$(ended "$number")" 'failed|1|curl:COULDNT_CONNECT'
	assert_equal "$(error_of "$number")" '127.0.0.1 is not a public address (loopback), and allow_private is false'
	assert_equal "$(ended "$name")" 'failed|1|curl:COULDNT_CONNECT'
	assert_regex "$(error_of "$name")" '(127.0.0.1|::1) is not a public address \(loopback\)'
	assert_equal "$(wc -l <"$web_dir/log")" 1
}

# --- connections ---

@test "connections are used again" {
	web
	http_handler send "$web/ok"
	for _ in $(seq 20); do
		enqueue send
	done
	jr_ok run --http-jobs 2
	q_is 20 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	assert [ "$(wc -l <"$web_dir/connections")" -le 2 ]
}

@test "a kept connection that has died meanwhile costs no attempt" {
	web
	http_handler late "$web/late"
	enqueue late
	enqueue late
	jr_ok run --http-jobs 1
	q_is '1,1' "select string_agg(attempts::text, ',') from jobrun.job_runs where status = 'succeeded'"
	assert_equal "$(wc -l <"$web_dir/connections")" 2
}

@test "a claim is for half of the transfers at most, so that claims and transfers take place at once" {
	web
	http_handler send "$web/ok"
	q 'create table public.claims (n bigint)' \
		"create function public.note() returns trigger language plpgsql as \$\$ begin
			insert into public.claims select count(*) from now_running where locked_until is not null; return null; end \$\$" \
		"create trigger notes after update on jobrun.job_runs referencing new table as now_running for each statement execute function public.note()" \
		"select count(*) from jobrun.enqueue_many('send', array_fill('{}'::jsonb, '{20}'))" >/dev/null
	jr_ok run --http-jobs 5
	q_is '3|20' 'select max(n), sum(n) from public.claims'
	q_is 20 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "a runner needs three descriptors for each transfer that it may make at once, or it refuses to start" {
	http_handler send 'http://127.0.0.1:9/'
	run bash -c "ulimit -n 260; exec '$JOBRUN' run -j 1 --sql-jobs 4 --http-jobs 64 3>&- 4>&-"
	assert_output ''
	assert_equal "$status" 0
	run bash -c "ulimit -n 259; exec '$JOBRUN' run -j 1 --sql-jobs 4 --http-jobs 64 3>&- 4>&-"
	assert_output 'jobrun: -j 1 with --http-jobs 64 and --sql-jobs 4 needs 260 open files, the limit is 259: type ulimit -n 260, or give smaller numbers'
	assert_equal "$status" 78
}

@test "without -j there are fewer executables than processors, if the limit of open files is too low for them" {
	handler hello <<<'exit 0'
	id=$(enqueue hello)
	run bash -c "ulimit -n 260; exec '$JOBRUN' run --sql-jobs 4 --http-jobs 64 3>&- 4>&-"
	assert_output ''
	assert_equal "$status" 0
	run_is "$id" succeeded
	q_is 1 'select permits from jobrun.job_runners order by started_at desc limit 1'
	run bash -c "ulimit -n 259; exec '$JOBRUN' run --sql-jobs 4 --http-jobs 64 3>&- 4>&-"
	assert_output --partial 'jobrun: -j 1 with --http-jobs 64'
	assert_equal "$status" 78
}

@test "a request for which the host has no descriptor is not charged, and made later" {
	local first=0

	web
	http_handler first "$web/ok"
	web # another server, so that no connection can be used again
	http_handler second "$web/ok"
	id=$(enqueue first)
	bg_runner --for 2m
	wait_until 30 run_is "$id" succeeded # libcurl is loaded
	while [ -e "/proc/$runner_pid/fd/$first" ]; do
		first=$((first + 1))
	done
	prlimit --pid "$runner_pid" --nofile="$first:"
	id=$(enqueue second --backoff 1s)
	wait_until 30 q_is '0|t' "select attempts, snoozes > 0 from jobrun.job_runs where id = $id"
	prlimit --pid "$runner_pid" --nofile=1024:
	wait_until 60 run_is "$id" succeeded
	q_is 1 "select attempts from jobrun.job_runs where id = $id"
	kill -TERM "$runner_pid"
	wait_runner
}

@test "500 requests at once in one runner stay under 64 MiB" {
	web
	http_handler many "$web/hold/many" '"timeout": "10m"' # however long it takes until all have come
	http_handler last "$web/hold/last"
	q "select count(jobrun.enqueue('many', jsonb_build_object('n', n, 'text', repeat('x', 1000)))) from generate_series(1, 500) n" >/dev/null
	bg_runner --http-jobs 500
	wait_until 60 eval '[ "$(wc -l <"$web_dir/log")" -eq 500 ]'
	enqueue last # taken when a permit is free
	touch "$web_dir/many"
	wait_until 60 q_is 500 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	wait_until 20 grep -q /hold/last "$web_dir/log"
	grep VmHWM "/proc/$runner_pid/status"
	if ! is_sanitized; then
		assert [ "$(awk '/^VmHWM/ { print $2 }' "/proc/$runner_pid/status")" -lt 65536 ]
	fi
	touch "$web_dir/last"
	wait_runner
	q_is 501 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
}
