#!/usr/bin/env bats
# What NAME.json changes about an executable: command, environment, directory, limits, account, lists of exit codes.

load ../lib/common

# settings NAME <<'json'
settings() {
	cat >"$JOBRUN_HANDLERS/$1.json"
}

need_root() {
	[ "$(id -u)" -eq 0 ] || skip 'only root can start a handler as another account'
}

# What another account must reach: the directories on the way to it.
open_ways() {
	local directory=$1

	until [ "$directory" = / ]; do
		chmod a+x "$directory"
		directory=${directory%/*}
		directory=${directory:-/}
		[ -O "$directory" ] || break
	done
}

@test "argv is a command with arguments that no shell looks at, with the payload on stdin" {
	settings greet <<'json'
{"argv": ["/bin/sh", "-c", "echo \"$0|$1|$2|$#\"; cat", "zero", "a  b", "$HOME * ; exit 1"]}
json
	id=$(enqueue greet '{"n": 1}')
	jr_ok run
	assert_equal "$(printed "$id")" $'zero|a  b|$HOME * ; exit 1|2\n{"n": 1}'
}

@test "a command in argv is judged like a handler, again right before it is started" {
	printf '#!/bin/sh\nexit 0\n' >work.sh
	chmod 755 work.sh
	settings work <<<"{\"argv\": [\"$PWD/work.sh\"]}"
	handler opener <<<"chmod 777 $PWD/work.sh"
	enqueue opener --priority 1
	id=$(enqueue work)
	jr run -j 1
	assert_one_line 0 "^jobrun: not used any more: work: .*: chmod go-w $PWD/work.sh$"
	assert_equal "$(ended "$id")" 'queued|0'
}

@test "a handler that is exchanged while a runner stays is judged again before its next start" {
	handler work <<<'echo old'
	printf '#!/bin/sh\necho new\n' >better
	printf '#!/bin/sh\necho worse\n' >worse
	chmod 755 better
	chmod 775 worse
	bg_runner --for 5m
	first=$(enqueue work)
	wait_until 15 q_is succeeded "select status from jobrun.job_runs where id = $first"
	mv worse "$JOBRUN_HANDLERS/work"
	second=$(enqueue work --max-attempts 1)
	wait_until 15 grep -q 'not used any more' "$runner_err"
	mv better "$JOBRUN_HANDLERS/work"
	wait_until 15 q_is succeeded "select status from jobrun.job_runs where id = $second"
	kill "$runner_pid"
	wait_runner
	assert_equal "$(printed "$first") $(printed "$second")" 'old new'
	assert_equal "$(cat "$runner_err")" \
		"jobrun: not used any more: work: cannot trust $JOBRUN_HANDLERS/work: its group can write to it: chmod go-w $JOBRUN_HANDLERS/work"
}

@test "scripts that argv names, and the interpreters of #! lines are judged again before each start" {
	printf 'exit 0\n' >"$JOBRUN_HANDLERS/part.sh"
	settings named <<<'{"argv": ["/bin/sh", "part.sh"]}'
	printf '#!/bin/sh\nexit 0\n' >tool
	chmod 755 tool
	handler script <<<"#!$PWD/tool"
	handler opener <<<"chmod 777 $PWD/tool; chmod 666 part.sh"
	enqueue opener --priority 1
	named=$(enqueue named)
	script=$(enqueue script)
	jr run -j 1
	assert_success
	assert_equal "$(ended "$named") $(ended "$script")" 'queued|0 queued|0'
	assert_equal "$stderr" \
		"jobrun: not used any more: named: cannot trust $JOBRUN_HANDLERS/part.sh: everybody can write to it: chmod go-w $JOBRUN_HANDLERS/part.sh
jobrun: not used any more: script: its #! line: cannot trust $PWD/tool: everybody can write to it: chmod go-w $PWD/tool"
}

@test "the setting env sets and replaces variables" {
	ln -s "$(readlink -f "$(type -P env)")" "$JOBRUN_HANDLERS/printenv"
	settings printenv <<<'{"env": {"PATH": "/opt/bin:/usr/bin", "EMPTY": "", "TEXT": "a b\nc=d \"é\"", "HOME": "/nowhere"}}'
	id=$(enqueue printenv)
	jr_ok run
	printed "$id" >says
	assert_equal "$(grep -E '^(PATH|EMPTY|HOME)=' says | sort | paste -sd' ')" 'EMPTY= HOME=/nowhere PATH=/opt/bin:/usr/bin'
	assert_equal "$(grep -A 1 '^TEXT=' says)" $'TEXT=a b\nc=d "é"'
	assert_equal "$(grep -c '^JOBRUN_RUN_ID=' says)" 1
}

@test "the setting cwd is where the handler starts, and a missing directory is a failed start" {
	mkdir "$JOBRUN_HANDLERS/data" elsewhere
	for type in absolute relative lost; do
		handler "$type" <<<'pwd -P'
	done
	settings absolute <<<"{\"cwd\": \"$PWD/elsewhere\"}"
	settings relative <<<'{"cwd": "data"}'
	settings lost <<<"{\"cwd\": \"$PWD/nowhere\"}"
	absolute=$(enqueue absolute)
	relative=$(enqueue relative)
	lost=$(enqueue lost --backoff 1h)
	jr_ok run
	assert_equal "$(printed "$absolute")" "$(readlink -f elsewhere)"
	assert_equal "$(printed "$relative")" "$(readlink -f "$JOBRUN_HANDLERS/data")"
	assert_equal "$(ended "$lost")" 'failed|1|cannot-start'
	q_is t "select last_error like 'cannot start %: changing to its directory: No such file or directory' from jobrun.job_runs where id = $lost"
}

@test "the setting nice is the absolute nice value" {
	handler kind <<<'nice'
	settings kind <<<'{"nice": 7}'
	id=$(enqueue kind)
	nice -n 3 "$JOBRUN" run 3>&- 4>&-
	assert_equal "$(printed "$id")" 7
}

@test "limits hold for the handler alone, as soft and hard limits" {
	handler limits <<-'sh'
		#!/bin/bash
		for option in t v n u; do echo "$option $(ulimit -S$option) $(ulimit -H$option)"; done
	sh
	cp "$JOBRUN_HANDLERS/limits" "$JOBRUN_HANDLERS/free"
	settings limits <<<'{"cpu": "30s", "memory": "512M", "files": 40, "processes": 5000}'
	limited=$(enqueue limits)
	free=$(enqueue free)
	(
		ulimit -u 6000
		jr_ok run -j 1
	)
	assert_equal "$(printed "$limited")" "t 30 31
v 524288 524288
n 40 40
u 5000 5000"
	expected=$(
		ulimit -u 6000
		bash "$JOBRUN_HANDLERS/free"
	)
	assert_equal "$(printed "$free")" "$expected"
}

@test "a limit only lowers: one that is lower already stays" {
	handler files <<<'ulimit -Sn; ulimit -Hn'
	settings files <<<'{"files": 400}'
	id=$(enqueue files)
	(
		ulimit -n 300
		if [ "$(id -u)" -eq 0 ]; then
			exec setpriv --reuid 65534 --regid 65534 --clear-groups true
		fi
	) || skip 'cannot become another account here'
	if [ "$(id -u)" -eq 0 ]; then
		become=(setpriv --reuid 65534 --regid 65534 --clear-groups)
		open_ways "$BATS_TEST_TMPDIR"
		chown 65534 "$TMPDIR"
		install -d -m 700 -o 65534 "$JOBRUN_STATE_DIR"
	fi
	(
		ulimit -n 300
		"${become[@]}" "$JOBRUN" run -j 1 3>&- 4>&-
	)
	assert_equal "$(printed "$id")" $'300\n300'
}

@test "a runner of root can give a handler a higher limit than its own" {
	need_root
	handler files <<<'ulimit -Sn; ulimit -Hn'
	settings files <<<'{"files": 400, "user": "nobody"}'
	(ulimit -n 300 && ulimit -Hn 400) 2>/dev/null || skip 'this root may not raise a limit'
	open_ways "$JOBRUN_HANDLERS"
	id=$(enqueue files)
	(
		ulimit -n 300
		jr_ok run -j 1
	)
	assert_equal "$(printed "$id")" $'400\n400'
}

@test "the limit cpu sends XCPU, and KILL a second later to a handler that ignores it" {
	handler burn <<<'while :; do :; done'
	handler deaf <<<'trap "" XCPU; while :; do :; done'
	settings burn <<<'{"cpu": "1s"}'
	settings deaf <<<'{"cpu": "1s"}'
	burn=$(enqueue burn --backoff 1h)
	deaf=$(enqueue deaf --backoff 1h)
	JR_TIMEOUT=$((100 * patience)) jr_ok run -j 2 # three seconds of CPU, of which others want their share
	assert_equal "$(ended "$burn")" 'failed|1|signal:XCPU'
	assert_equal "$(ended "$deaf")" 'failed|1|signal:KILL'
	q_is t "select bool_and(cpu_ms between 300 and 5000) from jobrun.job_attempts"
}

@test "the limit memory makes larger allocations fail" {
	handler eat <<-'perl'
		#!/usr/bin/perl
		my $bytes = "x" x 300_000_000;
		exit 0;
	perl
	settings eat <<<'{"memory": "100M"}'
	handler tiny <<<'exit 0'
	settings tiny <<<'{"memory": "1M"}'
	eat=$(enqueue eat --backoff 1h)
	tiny=$(enqueue tiny --backoff 1h)
	jr_ok run
	assert_regex "$(ended "$eat")" '^failed\|1\|(exit|signal):'
	assert_regex "$(printed "$eat")" '[Mm]emory'
	# Whether it cannot be executed or ends at once: it has failed, and is not put off for ever.
	assert_regex "$(ended "$tiny")" '^failed\|1\|'
}

@test "the limit files caps the number of open descriptors" {
	handler open <<-'sh'
		#!/bin/bash
		for fd in {3..200}; do eval "exec $fd</dev/null" || exit 1; echo "$fd"; done
	sh
	settings open <<<'{"files": 20}'
	id=$(enqueue open --backoff 1h)
	jr_ok run
	run_is "$id" failed
	assert_regex "$(printed "$id")" $'\n1[0-9]\n.*Too many open files|\n1[0-9]\n.*Bad file descriptor'
	refute_regex "$(printed "$id")" $'\n20\n'
}

@test "the limit processes caps the processes of the account, as the kernel counts them" {
	need_root
	# Nobody else of the tests is this account.
	getent passwd games >/dev/null || skip 'there is no account games'
	open_ways "$JOBRUN_HANDLERS"
	handler fork <<<'sleep 0 & sleep 0 & wait; /bin/true; echo forked'
	cp "$JOBRUN_HANDLERS/fork" "$JOBRUN_HANDLERS/fork1"
	settings fork <<<'{"user": "games", "processes": 50}'
	settings fork1 <<<'{"user": "games", "processes": 1}'
	free=$(enqueue fork)
	bound=$(enqueue fork1 --backoff 1h)
	jr_ok run -j 1
	run_is "$free" succeeded
	assert_equal "$(printed "$free")" forked
	run_is "$bound" failed
	assert_regex "$(printed "$bound")" 'fork'
	refute_regex "$(printed "$bound")" 'forked'
}

@test "the setting user runs a handler as that account with its groups and home, which cannot reach the runner's files" {
	need_root
	open_ways "$JOBRUN_HANDLERS"
	open_ways "$TMPDIR"
	install -d -m 700 "$JOBRUN_STATE_DIR"
	handler who <<-'sh'
		id -u; id -ru; id -g; id -G
		echo "$HOME $USER $LOGNAME ${SHELL-none}"
		pwd
		cat "$JOBRUN_CHECKPOINT"
		echo '{"result": {"by": "nobody"}, "checkpoint": 8}' >> "$JOBRUN_OUT"
		[ "$JOBRUN_ATTEMPT" -eq 2 ] || exit 1
		ls "${JOBRUN_OUT%/*}" 2> /dev/null && echo 'lists the files of others'
		touch "${JOBRUN_OUT%/*}/x" 2> /dev/null && echo 'writes beside its file'
		cat "$TMPDIR/secret" 2> /dev/null
		ls "$JOBRUN_STATE_DIR" 2> /dev/null
		cat /proc/$PPID/environ 2> /dev/null
		kill -0 $PPID 2> /dev/null && echo 'may kill the runner'
		perl -e '$< = $> = 0; print "is root again\n" if $> == 0 || $< == 0'
		grep -q '^CapEff:.*[1-9a-f]' /proc/self/status && echo 'is capable'
		echo "${API_TOKEN-no token} ${PGHOST-no host} ${MAILTO-nobody} $LC_ALL"
		exit 0
	sh
	settings who <<<'{"user": "nobody"}'
	(umask 077 && echo 'reads what is ours' >"$TMPDIR/secret")
	id=$(q "select jobrun.enqueue('who', backoff_base => '0')")
	q "update jobrun.job_runs set checkpoint = '7'"
	API_TOKEN=secret MAILTO=root SHELL=/bin/bash jr_ok run
	run_is "$id" succeeded
	home=$(getent passwd nobody | cut -d: -f6)
	begin="$(id -u nobody)
$(id -u nobody)
$(id -g nobody)
$(id -G nobody)
$home nobody nobody none
$(readlink -f "$JOBRUN_HANDLERS")"
	assert_equal "$(printed "$id")" "$begin
7
$begin
8
no token no host nobody C.UTF-8"
	q_is '{"by": "nobody"}' "select result from jobrun.job_runs where id = $id"
}

@test "user: a program with the set-user-ID bit gives it nothing, unless its settings say so" {
	need_root
	grep -q '^NoNewPrivs:.*0' /proc/self/status || skip 'no_new_privs is set here already'
	open_ways "$JOBRUN_HANDLERS"
	mkdir bin
	cp "$(readlink -f "$(type -P id)")" bin/id
	chmod 4755 bin/id
	[ "$(setpriv --reuid 65534 bin/id -u)" -eq 0 ] || skip 'the bit has no meaning here'
	for type in safe free plain; do
		handler "$type" <<<"$PWD/bin/id -u"
	done
	settings safe <<<'{"user": "nobody"}'
	settings free <<<'{"user": "nobody", "no_new_privs": false}'
	settings plain <<<'{"no_new_privs": true}'
	safe=$(enqueue safe)
	free=$(enqueue free)
	plain=$(enqueue plain)
	jr_ok run
	assert_equal "$(printed "$safe")" "$(id -u nobody)"
	assert_equal "$(printed "$free")" 0
	run_is "$plain" succeeded
	jr_ok handlers
	assert_regex "$output" 'free .*user nobody, no_new_privs false'
	jr_ok handlers --json
	jq -e '[.handlers[] | select(.settings.user == "nobody") | .settings.no_new_privs] == [false, true]' <<<"$output"
}

@test "user: one that ignores TERM is killed at its timeout, with what it has started" {
	need_root
	open_ways "$JOBRUN_HANDLERS"
	chmod 1777 "$TMPDIR"
	open_ways "$TMPDIR"
	handler stubborn <<-'sh'
		trap '' TERM
		sleep 300 &
		echo $! > "$TMPDIR/child"
		echo $$ > "$TMPDIR/pid"
		while :; do sleep 1; done
	sh
	settings stubborn <<<'{"user": "nobody", "grace": "1s"}'
	id=$(enqueue stubborn --timeout 1s --backoff 1h)
	jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|timeout'
	is_gone "$(cat "$TMPDIR/pid")"
	is_gone "$(cat "$TMPDIR/child")"
}

@test "user: a handler of another account dies with a runner that is killed" {
	need_root
	open_ways "$JOBRUN_HANDLERS"
	chmod 1777 "$TMPDIR"
	open_ways "$TMPDIR"
	handler sleeps <<<'sleep 300 & echo $! > "$TMPDIR/child"; echo $$ > "$TMPDIR/pid"; wait'
	settings sleeps <<<'{"user": "nobody"}'
	enqueue sleeps
	bg_runner --lease 2s
	wait_until 10 test -s "$TMPDIR/pid"
	kill -KILL "$runner_pid"
	wait_until 10 is_gone "$(cat "$TMPDIR/pid")"
	wait_until 10 is_gone "$(cat "$TMPDIR/child")"
}

@test "user: a handler that the account cannot reach is refused with the directory to open, and its runs wait" {
	need_root
	mkdir -m 700 closed closed/inner
	ln -s closed/inner link
	handler who <<<'id -u'
	settings who <<<'{"user": "nobody"}'
	settings inner <<<"{\"argv\": [\"/usr/bin/id\"], \"user\": \"nobody\", \"cwd\": \"$PWD/link\"}"
	settings root <<<"{\"argv\": [\"/usr/bin/id\"], \"user\": \"root\", \"cwd\": \"$PWD/closed\"}"
	open_ways "$JOBRUN_HANDLERS"
	chmod 700 "$JOBRUN_HANDLERS"
	id=$(enqueue who)
	jr_ok run
	q_is 'queued 0' "select concat_ws(' ', status, attempts) from jobrun.job_runs where id = $id"
	jr handlers --check
	assert_equal "$status" 1
	assert_line "! who: account nobody cannot enter $JOBRUN_HANDLERS: Permission denied: chmod a+x $JOBRUN_HANDLERS"
	assert_line --regexp "^! inner.json: account nobody cannot reach $PWD/link, since it cannot enter $PWD/closed: chmod a\+x $PWD/closed"
	assert_line --regexp '^root +exec '
	chmod a+x "$JOBRUN_HANDLERS"
	chmod 711 closed closed/inner
	chmod 700 "$JOBRUN_HANDLERS/who"
	jr handlers --check
	assert_line "! who: account nobody cannot execute $JOBRUN_HANDLERS/who: Permission denied: chmod a+rx $JOBRUN_HANDLERS/who"
	chmod 755 "$JOBRUN_HANDLERS/who"
	jr_ok handlers --check
	jr_ok run
	assert_equal "$(ended "$id")" 'succeeded|1'
}

@test "user: a link in a directory that is closed, and a script that cannot be read are refused, too" {
	need_root
	mkdir -m 700 closed
	mkdir -m 711 open
	ln -s "$PWD/open" closed/link
	ln -s closed/link around
	printf '#!/bin/sh\nexit 0\n' >open/script
	chmod 711 open/script
	install -m 711 "$(readlink -f "$(type -P true)")" open/program
	settings behind <<<"{\"argv\": [\"/usr/bin/id\"], \"user\": \"nobody\", \"cwd\": \"$PWD/closed/link\"}"
	settings around <<<"{\"argv\": [\"/usr/bin/id\"], \"user\": \"nobody\", \"cwd\": \"$PWD/around\"}"
	settings script <<<"{\"argv\": [\"$PWD/open/script\"], \"user\": \"nobody\", \"cwd\": \"/\"}"
	settings binary <<<"{\"argv\": [\"$PWD/open/program\"], \"user\": \"nobody\", \"cwd\": \"/\"}"
	ln -s "$PWD/open/program" "$JOBRUN_HANDLERS/linked"
	settings linked <<<'{"user": "nobody", "cwd": "/"}'
	open_ways "$JOBRUN_HANDLERS"
	chmod 700 "$JOBRUN_HANDLERS"
	jr handlers --check
	assert_equal "$status" 1
	assert_line "! behind.json: account nobody cannot reach $PWD/closed/link, since it cannot enter $PWD/closed: chmod a+x $PWD/closed, or keep it elsewhere"
	assert_line "! around.json: account nobody cannot reach $PWD/around: the symbolic link $PWD/around leads through a directory that it cannot enter: see namei -l $PWD/around"
	assert_line "! script.json: account nobody cannot execute $PWD/open/script: Permission denied: chmod a+rx $PWD/open/script"
	assert_line "! linked: account nobody cannot reach $JOBRUN_HANDLERS/linked, since it cannot enter $JOBRUN_HANDLERS: chmod a+x $JOBRUN_HANDLERS, or keep it elsewhere"
	assert_line --regexp '^binary +exec '
	chmod 711 closed "$JOBRUN_HANDLERS"
	chmod a+r open/script
	jr_ok handlers --check
}

@test "user: what the account cannot reach is refused, too, if jobrun was started with SIGCHLD ignored" {
	need_root
	mkdir -m 700 closed
	settings who <<<"{\"argv\": [\"/usr/bin/id\"], \"user\": \"nobody\", \"cwd\": \"$PWD/closed\"}"
	open_ways "$PWD"
	# timeout(1) gives its default back, and dash cannot ignore it.
	run timeout -k 5 "$((30 * patience))" bash -c 'trap "" CHLD; exec "$@"' bash "$JOBRUN" handlers --check 3>&- 4>&-
	assert_equal "$status" 1
	assert_line "! who.json: account nobody cannot enter $PWD/closed: Permission denied: chmod a+x $PWD/closed"
}

@test "give_up and later take the place of 65 and 75" {
	handler exit <<<'exit "$(cat)"'
	settings exit <<<'{"give_up": [2, 3], "later": [100]}'
	q "select jobrun.enqueue('exit', to_jsonb(c), backoff_base => '1h') from unnest(array[0, 1, 2, 3, 65, 75, 100]) c" >/dev/null
	jr run
	assert_equal "$status" 1
	q_is '0 succeeded 1,1 failed 1,2 dead 1,3 dead 1,65 failed 1,75 failed 1,100 queued 0' "select string_agg(
		concat_ws(' ', payload, status, attempts), ',' order by id) from jobrun.job_runs"
}

@test "an empty list of later makes 75 a failure and leaves give_up as it is" {
	handler exit <<<'exit "$(cat)"'
	settings exit <<<'{"later": []}'
	q "select jobrun.enqueue('exit', to_jsonb(c), backoff_base => '1h') from unnest(array[65, 75]) c" >/dev/null
	jr run
	q_is '65 dead exit:65,75 failed exit:75' "select string_agg(concat_ws(' ', payload, status, error_code), ',' order by id)
		from jobrun.job_runs"
}
