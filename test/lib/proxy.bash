# shellcheck shell=bash disable=SC2034,SC2154 # the tests read what is set here
#
# A connection that loses an answer: test/stub/pgcut between the program and the server.

# proxy MODE N: from here on the program goes through pgcut.
proxy() {
	local dir=$BATS_TEST_TMPDIR/cut.$1.$2 server
	local direct=$JR_SERVER

	mkdir "$dir"
	server=${direct#host=}
	server=${server%% *}/.s.PGSQL.5432
	env -u JOBRUN_TEST_ID "$TOP/test/stub/pgcut" "$dir" "$server" "$1" "$2" 3>&- 4>&- &
	proxies+=("$!")
	wait_until 5 test -e "$dir/ready"
	proxied="host=$dir user=jobrun dbname=$JR_DATABASE"
	cut_file=$dir/cut
}

# For the teardown of a file that uses proxy.
end_proxies() {
	local pid

	for pid in ${proxies[0]+"${proxies[@]}"}; do
		pkill -KILL -P "$pid" || true
		kill -KILL "$pid" 2>/dev/null || true
	done
	proxies=()
}
