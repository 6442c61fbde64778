# shellcheck shell=bash disable=SC2034,SC2154 # the tests read what is set here
#
# What stands between the program and the server: test/stub/pgcut, which loses an answer, and test/stub/tcp.py, a port.

proxies=()
at_end+=(end_proxies)

# proxy MODE N: from here on the program goes through pgcut.
proxy() {
	local dir=$BATS_TEST_TMPDIR/cut.$1.$2

	mkdir "$dir"
	start_proxy "$dir" "$1" "$2"
	proxied="host=$dir user=jobrun dbname=$JR_DATABASE"
	cut_file=$dir/cut
}

# proxy_again: behind `proxy answer-last N` people can connect again, and everything is passed on.
proxy_again() {
	start_proxy "${cut_file%/cut}" silent 1000000
}

# start_proxy DIR MODE N
start_proxy() {
	local server=${JR_SERVER#host=}

	server=${server%% *}/.s.PGSQL.5432
	rm -f "$1/ready"
	env -u JOBRUN_TEST_ID "$TOP/test/stub/pgcut" "$1" "$server" "$2" "$3" 3>&- 4>&- &
	proxies+=("$!")
	wait_until 5 test -e "$1/ready"
}

# tcp [NAME]: sets tcp_port, a port of 127.0.0.1 that leads to the server, and tcp_pid. Each has a name of its own.
tcp() {
	local server=${JR_SERVER#host=}

	start_tcp "${1:-server}" "${server%% *}/.s.PGSQL.5432"
}

# mute NAME: the same with a port that takes connections and never answers.
mute() {
	start_tcp "$1"
}

# start_tcp NAME [SOCKET]
start_tcp() {
	local dir=$BATS_TEST_TMPDIR/tcp.$1

	mkdir "$dir"
	env -u JOBRUN_TEST_ID python3 "$TOP/test/stub/tcp.py" "$dir" "${@:2}" 3>&- 4>&- &
	tcp_pid=$!
	proxies+=("$tcp_pid")
	wait_until 30 test -e "$dir/port"
	tcp_port=$(<"$dir/port")
}

end_proxies() {
	local pid

	for pid in ${proxies[0]+"${proxies[@]}"}; do
		pkill -KILL -P "$pid" || true
		kill -KILL "$pid" 2>/dev/null || true
	done
	proxies=()
}

# cut_every_commit MODE COMMAND...: COMMAND N with the N-th COMMIT of what goes through the proxy cut, for N = 1, 2, ... until
# nothing was cut. The URL to use is in proxied; the file cut_file is there if something was cut.
cut_every_commit() {
	local mode=$1 n

	shift
	for n in 1 2 3 4 5 6 7 8; do
		proxy "$mode" "$n"
		"$@" "$n"
		if [ ! -e "$cut_file" ]; then
			echo "# $mode: $((n - 1)) commits cut" >&3
			[ "$n" -ge 4 ]
			return
		fi
	done
	fail "there are more than $n COMMITs"
}
