#!/usr/bin/env bats
# What a handler cannot get at: the connection strings of its runner, in its environment, memory and arguments.

load ../lib/common

# The runner is an account without rights over others, as root it could look into everything.
as_somebody() {
	if [ "$(id -u)" -ne 0 ]; then
		"$@"
		return
	fi
	local directory=$TMPDIR

	until [ "$directory" = / ]; do
		chmod a+x "$directory"
		directory=${directory%/*}
		directory=${directory:-/}
		[ -O "$directory" ] || break
	done
	chmod 1777 "$TMPDIR"
	mkdir -p "$JOBRUN_STATE_DIR"
	chmod 700 "$JOBRUN_STATE_DIR"
	chown 65534 "$JOBRUN_STATE_DIR"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

@test "a handler of the same account reads neither environment nor memory of runner and watchdog" {
	handler spy <<-'sh'
		watchdog=$(pgrep -P "$PPID" | grep -vx "$$")
		n=0 # It may have been forked just now, and has no name of its own yet.
		until [ "$(cat "/proc/$watchdog/comm")" = jobrun-watchdog ] || [ $((n += 1)) -gt 200 ]; do sleep 0.05; done
		for pid in $PPID $watchdog; do
			cat "/proc/$pid/comm"
			for file in environ maps mem; do
				cat "/proc/$pid/$file" 2>&1 | tr '\0' '\n' | sed 's/.*: //'
			done
			ls "/proc/$pid/fd" >/dev/null 2>&1 || echo 'no descriptors'
		done
		# What it starts is like any other.
		cat "/proc/$$/environ" >/dev/null && echo own
		env
	sh
	id=$(enqueue spy)
	expected='Permission denied
Permission denied
Permission denied
no descriptors'
	JOBRUN_DATABASE_URL="$JOBRUN_DATABASE_URL password=hunter2" REPORT_URL=postgresql://u:hunter2@db/report \
		as_somebody "$JOBRUN" run -v 3>&- 4>&- 2>said
	printed "$id" >says
	assert_equal "$(sed '/^own$/q' says)" "jobrun
$expected
jobrun-watchdog
$expected
own"
	refute grep -q hunter2 says
	assert_equal "$(sed -n 's/.*event=variable_left_out reason="\(.*\)"$/\1/p' said | sort)" \
		'JOBRUN_DATABASE_URL contains a connection string with a password
REPORT_URL contains a connection string with a password'
	refute grep -q hunter2 said
}

@test "a connection string among the arguments is overwritten, in whatever way it was given" {
	handler look <<<'tr "\0" "\n" <"/proc/$PPID/cmdline"'
	url="$JOBRUN_DATABASE_URL password=hunter2"
	x=${url//?/x}
	look() {
		id=$(enqueue look)
		JOBRUN_DATABASE_URL='' jr_ok "$@"
		printed "$id" | tail -n +2 | paste -sd' '
	}
	assert_equal "$(look run -d "$url")" "run -d $x"
	assert_equal "$(look -d "$url" run)" "-d $x run"
	assert_equal "$(look run "-d$url" --json)" "run -d$x --json"
	assert_equal "$(look run "-vd$url")" "run -vd$x"
	assert_equal "$(look --dbname "$url" --once)" "--dbname $x --once"
	assert_equal "$(look run "--dbname=$url")" "run --dbname=$x"
	# The last one counts.
	assert_equal "$(look run -d 'host=/nowhere' -d "$url")" "run -d xxxxxxxxxxxxx -d $x"
}

@test "jobrun try keeps the same secrets from a handler, and passes JOBRUN_HANDLER_DATABASE_URL" {
	ln -s "$(readlink -f "$(type -P env)")" "$JOBRUN_HANDLERS/printenv"
	REPORT='psql "host=h password=hunter2"' CACHE=redis://:kept@h:1 JOBRUN_HANDLER_DATABASE_URL=postgresql://app:given@db/app \
		jr_ok try printenv
	refute_regex "$stderr" hunter2
	assert_line_of_stderr CACHE=redis://:kept@h:1
	assert_line_of_stderr JOBRUN_DATABASE_URL=postgresql://app:given@db/app
	# Who needs it says so.
	echo '{"env": {"REPORT": "password=mine"}}' >"$JOBRUN_HANDLERS/printenv.json"
	REPORT=postgresql://u:hunter2@db/report jr_ok try printenv
	assert_line_of_stderr REPORT=password=mine
}
