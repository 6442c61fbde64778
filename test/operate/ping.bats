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
