# shellcheck shell=bash disable=SC2034,SC2154 # the tests read what is set here
#
# HTTP servers that misbehave: test/stub/web.py, and handlers whose target is one.

web_pids=()
at_end+=(end_web)

# web [ARGUMENT...]: start one; sets web (http://127.0.0.1:PORT) and web_dir. Arguments go to the stub.
web() {
	local n=${#web_pids[@]}

	web_dir=$BATS_TEST_TMPDIR/web.$n
	mkdir "$web_dir"
	: >"$web_dir/log"
	: >"$web_dir/connections"
	env -u JOBRUN_TEST_ID python3 "$TOP/test/stub/web.py" "$web_dir" "$@" >"$web_dir/out" 2>&1 3>&- 4>&- &
	web_pids+=("$!")
	wait_until 20 test -e "$web_dir/port" || {
		cat "$web_dir/out"
		return 1
	}
	web_port=$(<"$web_dir/port")
	web=http://127.0.0.1:$web_port
	[ "${1:-}" != --tls ] || web=https://127.0.0.1:$web_port
}

end_web() {
	local pid

	for pid in ${web_pids[0]+"${web_pids[@]}"}; do
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	web_pids=()
}

# certificate NAME SUBJECT_ALT_NAME: a self-signed one; NAME.crt and NAME.key in the test's directory.
certificate() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=test" \
		-addext "subjectAltName=$2" -keyout "$BATS_TEST_TMPDIR/$1.key" -out "$BATS_TEST_TMPDIR/$1.crt" 2>/dev/null
}

# http_handler NAME URL [MEMBERS_OF_HTTP [MEMBERS]]: a NAME.json; the members are JSON without braces.
http_handler() {
	local members=${3:-} others=${4:-}

	printf '{"http": {"url": "%s"%s}%s}\n' "$2" "${members:+, $members}" "${others:+, $others}" \
		>"$JOBRUN_HANDLERS/$1.json.new"
	mv "$JOBRUN_HANDLERS/$1.json.new" "$JOBRUN_HANDLERS/$1.json"
}

# requests FILTER: each request that the server got, through jq.
requests() {
	jq -rc "$1" "$web_dir/log"
}
