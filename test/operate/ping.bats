#!/usr/bin/env bats
# Dead man's switches: --ping of run and exec, and "ping" of NAME.json, with a server that notes each request.

load ../lib/common
load ../lib/web

setup() {
	common_setup
	typical_handlers
	web
}

# paths: the paths that were asked for, in their order.
paths() {
	requests '.method + " " + .target' | paste -sd' '
}

@test "run --ping says that the tick could work, also when a run went dead, and URL/fail that it could not" {
	enqueue give_up
	jr run --ping "$web/ping/abc"
	assert_equal "$status" 1
	assert_equal "$(paths)" 'GET /ping/abc'
	jr_ok run -n --ping "$web/ping/abc" # not of a dry run
	JOBRUN_PING="$web/ping/abc?create=1" jr_ok run
	JOBRUN_DATABASE_URL='host=/nowhere' jr run --ping "$web/ping/abc/?create=1"
	assert_equal "$status" 75
	assert_equal "$(paths)" 'GET /ping/abc GET /ping/abc?create=1 GET /ping/abc/fail?create=1'
}

@test "exec --ping says how the command ended, and nothing if it was not started" {
	jr_ok exec --ping "$web/ping/x" backup -- true
	jr exec --ping "$web/ping/x" backup -- false
	assert_equal "$status" 1
	jr_ok exec --ping "$web/ping/x" --ok-exit 1 other -- true
	jr exec --ping "$web/ping/x" backup -- "$TMPDIR"
	assert_equal "$status" 126
	jr exec --ping "$web/ping/x" --timeout 1s backup -- sleep 30
	assert_equal "$status" 124
	assert_equal "$(paths)" 'GET /ping/x GET /ping/x/fail GET /ping/x GET /ping/x/fail GET /ping/x/fail'
	jr_ok pause --definition backup
	jr_ok exec --ping "$web/ping/x" backup -- true
	assert_equal "$(requests .target | wc -l)" 5
}

@test "--ping-start: URL/start when the tick, or the command, starts, before its end, and only where it is asked for" {
	jr_ok run --ping "$web/ping/t" --ping-start
	JOBRUN_DATABASE_URL='host=/nowhere' jr run --ping "$web/ping/t?rid=1" --ping-start
	assert_equal "$status" 75
	jr exec --ping "$web/ping/x" --ping-start backup -- false
	assert_equal "$status" 1
	assert_equal "$(paths)" 'GET /ping/t/start GET /ping/t GET /ping/t/start?rid=1 GET /ping/t/fail?rid=1 GET /ping/x/start GET /ping/x/fail'
	jr_ok run -n --ping "$web/ping/t" --ping-start
	jr_ok pause --definition backup
	jr_ok exec --ping "$web/ping/x" --ping-start backup -- true # it is not started
	assert_equal "$(requests .target | wc -l)" 6
	jr run --ping-start
	assert_one_line 64 '^jobrun: --ping-start goes with --ping URL$'
	jr exec --ping-start backup -- true
	assert_one_line 64 '^jobrun: --ping-start goes with --ping URL$'
}

@test "a start ping neither delays nor fails a command, is tried once, and arrives before the end is told" {
	jr_ok exec --ping "http://127.0.0.1:1/x" --ping-start backup -- echo ready
	assert_output ready
	assert_equal "$stderr" ''
	# The server answers when the command's end is recorded, and not before.
	bg_jobrun exec --ping "$web/hold/gate" --ping-start held -- true
	wait_until 20 q_is succeeded "select r.status from jobrun.job_runs r where r.job_type = 'held'"
	mkdir "$web_dir/gate"
	: >"$web_dir/gate/start"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(paths)" 'GET /hold/gate/start GET /hold/gate'
	jr_ok exec --ping "$web/status/503" --ping-start backup -- true
	assert_equal "$(requests .target | grep -c /start)" 2
}

@test "\"ping_start\" of NAME.json: a run has started, and then how it ended" {
	printf '{"ping": "%s/ping/w", "ping_start": true}\n' "$web" >"$JOBRUN_HANDLERS/work.json"
	printf '{"ping": "%s/ping/g", "ping_start": false}\n' "$web" >"$JOBRUN_HANDLERS/give_up.json"
	enqueue work
	enqueue work
	enqueue give_up
	jr run
	run requests .target
	assert_equal "$(printf '%s\n' "${lines[@]}" | grep /w | head -n2 | paste -sd' ')" '/ping/w/start /ping/w'
	assert_equal "$(printf '%s\n' "${lines[@]}" | grep -c start)" 1 # one in ten seconds
	assert_line /ping/g/fail
	jr_ok handlers
	assert_line --regexp "^work .*ping $web, ping at starts"
	# The end waits until the start has arrived, or was given up after 5 s.
	: >"$web_dir/log"
	printf '{"ping": "%s/hold/gate", "ping_start": true}\n' "$web" >"$JOBRUN_HANDLERS/work.json"
	id=$(enqueue work)
	bg_runner -v
	wait_until 20 run_is "$id" succeeded
	wait_until 20 grep -q /hold/gate/start "$web_dir/log"
	echo '{"target": "opened"}' >>"$web_dir/log"
	mkdir "$web_dir/gate"
	: >"$web_dir/gate/start"
	wait_runner
	grep -q ping_failed "$runner_err" || assert_equal "$(requests .target | paste -sd' ')" '/hold/gate/start opened /hold/gate'
	printf '{"ping_start": true}\n' >"$JOBRUN_HANDLERS/work.json"
	jr handlers --check
	assert_output --partial 'ping_start: there is no "ping" that could hear of starts'
}

@test "a ping is no error of the job: a service that is away, slow or wrong changes nothing" {
	jr_ok exec --ping "http://127.0.0.1:1/x" backup -- echo ready
	assert_output ready
	assert_equal "$stderr" ''
	jr exec -v --ping "$web/status/404" backup -- true
	assert_equal "$status" 0
	assert_regex "$stderr" "ping_failed.*to=\"?$web\"? .*code=404"
	[[ $stderr != *status/404* ]] || fail "the URL is shown: $stderr"
	assert_equal "$(paths)" 'GET /status/404' # a wrong address is not tried again
	jr_ok exec --ping "$web/status/503" backup -- true
	assert_equal "$(requests .target | wc -l)" 4
}

@test "a URL comes from a file that others cannot read, and a wrong one is refused before anything runs" {
	printf '%s\n' "$web/ping/secret" >url
	chmod 600 url
	jr_ok exec --ping file:url backup -- true
	assert_equal "$(paths)" 'GET /ping/secret'
	chmod 644 url
	jr exec --ping file:url backup -- touch ran
	assert_one_line 78 '^jobrun: --ping: .*url is open to others: chmod o-rwx,g-w '
	jr exec --ping ftp://x/y backup -- touch ran
	assert_one_line 78 '^jobrun: --ping: cannot be used: it must begin with https:// or http://$'
	jr run --ping file:none
	assert_one_line 78 '^jobrun: --ping: cannot read .*/none: No such file'
	assert_not_exist ran
}

@test "\"ping\" of NAME.json: a success and a dead run, after the end is committed, and not a retry" {
	printf '{"ping": "%s/ping/w"}\n' "$web" >"$JOBRUN_HANDLERS/work.json"
	printf '{"ping": "file:url"}\n' >"$JOBRUN_HANDLERS/give_up.json"
	printf '{"ping": "%s/ping/again"}\n' "$web" >"$JOBRUN_HANDLERS/again.json"
	printf '%s\n' "$web/ping/g" >"$JOBRUN_HANDLERS/url"
	chmod 600 "$JOBRUN_HANDLERS/url"
	enqueue work
	enqueue give_up
	enqueue again
	jr run
	assert_equal "$(requests .target | sort | paste -sd' ')" '/ping/g/fail /ping/w'
	# One ping for many: at most one in ten seconds, and the last end counts.
	: >"$web_dir/log"
	enqueue work
	enqueue work
	enqueue work
	jr_ok run
	run requests .target
	assert [ "${#lines[@]}" -le 2 ]
	assert_equal "${lines[-1]}" /ping/w
	jr_ok handlers --settings
	refute_output --partial "$web/p"
	jr_ok handlers
	assert_output --partial "ping $web"
	refute_output --partial "$web/p"
}
