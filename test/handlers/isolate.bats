#!/usr/bin/env bats
# "isolate": "pidns": a PID namespace for each attempt, with which every process of the attempt ends.

load ../lib/common
load ../lib/web

# How an account that is not root makes a PID namespace is another way, so the tests take both if they can.
setup() {
	local way=(unshare -p -m -f --mount-proc)

	common_setup
	[ "$(id -u)" -eq 0 ] || way+=(-U)
	"${way[@]}" true 2>/dev/null || skip 'this machine allows no PID namespaces'
	mark=escaped-$JOBRUN_TEST_ID
	export mark
}

# settings NAME <<'json'
settings() {
	cat >"$JOBRUN_HANDLERS/$1.json"
}

# isolated NAME <<'sh': a handler with "isolate"
isolated() {
	handler "$1"
	settings "$1" <<<'{"isolate": "pidns"}'
}

# escaping NAME <<'sh': an isolated handler that first starts a process which ignores TERM and leaves its group, session
# and parent
escaping() {
	isolated "$1" <<-sh
		(setsid sh -c 'trap "" TERM HUP; touch "\$TMPDIR/up"; while :; do sleep 1; done' $mark </dev/null >/dev/null 2>&1 &)
		until [ -e "\$TMPDIR/up" ]; do sleep 0.02; done
		$(cat)
	sh
}

# times_out NAME: a run of NAME ends by its timeout and leaves nothing; sets id. The handler makes $TMPDIR/ready once its traps are set. On a
# slow machine that may be after the first timeout, so longer ones follow.
times_out() {
	local timeout

	for timeout in 1s 4s 16s; do
		rm -f "$TMPDIR"/{ready,up,term}
		id=$(enqueue "$1" --timeout "$timeout" --backoff 1h)
		JR_TIMEOUT=$((60 * patience)) jr_ok run
		refute has_escaped
		assert_equal "$(ended "$id")" 'failed|1|timeout'
		[ ! -e "$TMPDIR/ready" ] || return 0
	done
	fail "$1 was not ready after $timeout"
}

# Of the test alone: the pattern is not in the command line of pgrep's own shell.
has_escaped() {
	pgrep -f "[e]${mark#e}" >/dev/null
}

nobody_has_escaped() {
	! has_escaped
}

# Let other accounts reach the directories of the test and write to TMPDIR.
open_ways() {
	local directory=$TMPDIR

	until [ "$directory" = / ]; do
		chmod a+x "$directory"
		directory=${directory%/*}
		directory=${directory:-/}
		[ -O "$directory" ] || break
	done
	chmod 1777 "$TMPDIR"
}

# As an account without rights, which gets the state directory. somebody=NUMBER: one whose processes nobody else has.
as_somebody() {
	local account=${somebody:-65534}

	open_ways
	mkdir -p "$JOBRUN_STATE_DIR"
	chmod 700 "$JOBRUN_STATE_DIR"
	chown "$account" "$JOBRUN_STATE_DIR"
	setpriv --reuid "$account" --regid "$account" --clear-groups "$@"
}

need_other_account() {
	[ "$(id -u)" -eq 0 ] || skip 'the other tests run as an account without rights already'
	as_somebody test -x "$JOBRUN" || skip 'the program is where other accounts cannot reach it'
	as_somebody unshare -U -p -m -f --mount-proc true 2>/dev/null ||
		skip 'this machine does not let other accounts make user namespaces'
}

@test "when an isolated handler has ended, no process of it is left, not even one that left its session" {
	escaping work <<<'echo worked'
	id=$(enqueue work)
	jr_ok run
	refute has_escaped
	assert_equal "$(printed "$id")" worked
	run_is "$id" succeeded
	# The same handler without isolation is why.
	rm "$JOBRUN_HANDLERS/work.json" "$TMPDIR/up"
	enqueue work >/dev/null
	jr_ok run
	has_escaped
	pkill -KILL -f "[e]${mark#e}"
}

@test "when an isolated handler of an account without rights has ended, no process of it is left" {
	need_other_account
	escaping work <<<'id -u; cat; exit 65'
	id=$(enqueue work '{"a": 1}')
	run as_somebody "$JOBRUN" run 3>&- 4>&-
	assert_equal "$status" 1
	refute has_escaped
	assert_equal "$(printed "$id")" $'65534\n{"a": 1}'
	assert_equal "$(ended "$id")" 'dead|1|exit:65'
}

@test "an isolated handler past its timeout gets TERM, then KILL, with every process" {
	escaping polite <<<'trap "echo term; exit 7" TERM; touch "$TMPDIR/ready"; while :; do sleep 0.05; done'
	times_out polite
	printed "$id" | grep -qx term
	escaping deaf <<<'trap "" TERM; touch "$TMPDIR/ready"; while :; do sleep 0.05; done'
	settings deaf <<<'{"isolate": "pidns", "grace": "300ms"}'
	times_out deaf
	q_is 137 "select exit_status from jobrun.job_attempts where run_id = $id"
}

@test "the other process groups of an isolated handler's session get TERM, too" {
	isolated work <<-'bash'
		#!/bin/bash
		set -m
		(trap 'echo term >"$TMPDIR/term"; exit' TERM; touch "$TMPDIR/up"; while :; do sleep 0.05; done) &
		trap 'until [ -s "$TMPDIR/term" ]; do sleep 0.02; done; exit 1' TERM
		until [ -e "$TMPDIR/up" ]; do sleep 0.02; done
		touch "$TMPDIR/ready"
		while :; do sleep 0.05; done
	bash
	times_out work
	assert_file_exist "$TMPDIR/term"
}

@test "a cancel ends every process of an isolated handler" {
	escaping work <<<'exec sleep 600'
	id=$(enqueue work)
	bg_runner --lease 60s --heartbeat 1s
	find_handler '^sleep 600'
	has_escaped
	jr_ok cancel "$id"
	wait_runner
	refute has_escaped
	run_is "$id" cancelled
}

@test "the end of a runner that was told to stop ends every process of an isolated handler" {
	escaping work <<<'exec sleep 600'
	id=$(enqueue work)
	bg_runner --for 60s --grace 1s
	find_handler '^sleep 600'
	kill -TERM "$runner_pid"
	wait_runner
	refute has_escaped
	run_is "$id" queued
}

@test "SIGKILL of the runner, and of its watchdog at the same moment, ends every process of an isolated handler" {
	escaping work <<<'exec sleep 600'
	enqueue work >/dev/null
	bg_runner
	find_handler '^sleep 600'
	has_escaped
	kill -KILL "$runner_pid"
	wait_until 10 nobody_has_escaped
	wait_until 10 is_gone "$handler_pid"
	rm "$TMPDIR/up"
	enqueue work >/dev/null
	bg_runner
	find_handler '^sleep 600'
	has_escaped
	# The watchdog first: it is fast.
	kill -KILL "$(pgrep -x jobrun-watchdog -P "$runner_pid")" "$runner_pid"
	wait_until 10 nobody_has_escaped
	wait_until 10 is_gone "$handler_pid"
}

@test "when a runner of an account without rights is killed, every process of its isolated handler ends" {
	need_other_account
	escaping work <<<'exec sleep 600'
	enqueue work >/dev/null
	as_somebody "$JOBRUN" run 3>&- 4>&- &
	wait_until 10 has_escaped
	kill -KILL "$(pgrep -P $!)" # the child of the function's shell
	wait_until 10 nobody_has_escaped
}

@test "when a runner is stopped past its lease, the watchdog ends every process of an isolated handler" {
	escaping work <<<'exec sleep 600'
	enqueue work >/dev/null
	bg_runner --lease 6s
	find_handler '^sleep 600'
	kill -STOP "$runner_pid"
	wait_until 10 nobody_has_escaped
	kill -KILL "$runner_pid"
}

@test "an isolated handler whose run is taken away is stopped with every process, and nothing of it is written" {
	escaping work <<<'exec sleep 600'
	id=$(enqueue work)
	bg_runner --lease 60s --heartbeat 1s
	find_handler '^sleep 600'
	has_escaped
	# As if another runner had reclaimed and claimed it.
	q "update jobrun.job_runs set claim_seq = 2, runner_id = runner_id + 1, locked_until = now() + interval '1 h' where id = $id" >/dev/null
	wait_runner
	assert_equal "$runner_status" 0
	refute has_escaped
	is_gone "$handler_pid"
	assert_equal "$(field "$id" status,claim_seq,attempts)" 'running|2|1'
	q_is 0 "select count(*) from jobrun.job_attempts where run_id = $id"
	assert_equal "$(grep -c event=lease_lost "$runner_err")|$(wc -l <"$runner_err")" '1|1'
	q "update jobrun.job_runs set runner_id = runner_id - 1 where id = $id" >/dev/null # there is no other
}

@test "an isolated handler whose lease cannot be renewed ends with every process before the lease does" {
	escaping work <<<'exec sleep 600'
	id=$(enqueue work)
	bg_runner --lease 24s
	find_handler '^sleep 600'
	hold "select 1 from jobrun.job_runs where id = $id for update"
	wait_until 40 nobody_has_escaped
	q_is t "select locked_until > now() from jobrun.job_runs where id = $id"
	release_holds
	wait_runner
}

@test "exit statuses and signals of isolated handlers mean what they mean without" {
	isolated exit <<<'exit "$(cat)"'
	isolated die <<<'ulimit -c 0; kill -"$(cat)" $$; sleep 5'
	q "select jobrun.enqueue('exit', to_jsonb(c), backoff_base => '1h') from unnest(array[0, 1, 65, 75, 127, 255]) c" >/dev/null
	q "select jobrun.enqueue('die', to_jsonb(s), backoff_base => '1h') from unnest(array[1, 2, 3, 6, 9, 11, 13, 15, 34]) s" >/dev/null
	jr run -j 4
	assert_equal "$status" 1
	q_is '0 succeeded,1 failed exit:1,65 dead exit:65,75 queued exit:75,127 failed exit:127,255 failed exit:255' "select
		string_agg(concat_ws(' ', payload, status, error_code), ',' order by payload) from jobrun.job_runs where job_type = 'exit'"
	q_is '1 HUP,2 INT,3 QUIT,6 ABRT,9 KILL,11 SEGV,13 PIPE,15 TERM,34 34' "select string_agg(
		concat_ws(' ', payload, replace(r.error_code, 'signal:', '')), ',' order by payload)
		from jobrun.job_runs r join jobrun.job_attempts a on a.run_id = r.id
		where r.status = 'failed' and r.error_code like 'signal:%' and a.exit_status = 128 + payload::text::int"
}

@test "an isolated handler that kills its whole group, or process 1, has only failed" {
	isolated wild <<<'[ $$ = 2 ] && kill -KILL 1; kill -KILL 0; sleep 5'
	id=$(enqueue wild --backoff 1h)
	jr_ok run
	assert_equal "$(ended "$id")" 'failed|1|signal:KILL'
}

@test "processor time and memory of an isolated handler are its own" {
	isolated big <<-'perl'
		#!/usr/bin/perl
		my $x = 'x' x 300_000_000; my $n = 0; $n += $_ for 1 .. 5_000_000;
		exit 1;
	perl
	isolated small <<<'exit 1'
	big=$(enqueue big --backoff 1h)
	small=$(enqueue small --backoff 1h)
	jr_ok run -j 1
	q_is t "select cpu_ms between 100 and 20000 and max_rss_kb between 300000 and 900000 and pid > 1 from jobrun.job_attempts
		where run_id = $big"
	q_is t "select max_rss_kb is null and cpu_ms < 1000 from jobrun.job_attempts where run_id = $small"
}

@test "an isolated handler finds everything but other processes as without isolation" {
	handler plain <<-'sh'
		cat; pwd; ulimit -n; ls /proc/self/fd | wc -l; env | grep -v '^JOBRUN_' | sort; nice; umask
		readlink /proc/self/ns/net /proc/self/ns/uts; grep -c -v ' /proc ' /proc/self/mountinfo
		echo '{"result": 7}' >>"$JOBRUN_OUT"
	sh
	cp "$JOBRUN_HANDLERS/plain" "$JOBRUN_HANDLERS/jailed"
	settings plain <<<'{"files": 300, "nice": 3, "env": {"A": "b"}}'
	settings jailed <<<'{"files": 300, "nice": 3, "env": {"A": "b"}, "isolate": "pidns"}'
	plain=$(enqueue plain '{"a": 1}')
	jailed=$(enqueue jailed '{"a": 1}')
	jr_ok run
	assert_equal "$(printed "$jailed")" "$(printed "$plain")"
	q_is '7,7' "select string_agg(result::text, ',') from jobrun.job_runs"
}

@test "an isolated handler sees its own processes in /proc, and the host's /proc stays" {
	isolated look <<<'echo $$ $PPID; cd /proc; echo [0-9]*; cat 1/comm'
	id=$(enqueue look)
	jr_ok run
	# Process 1 and the shell, which reads the names in /proc itself.
	assert_equal "$(printed "$id")" $'2 0\n1 2\njobrun-init'
	[ -e "/proc/$$/comm" ]
}

@test "what a process of an isolated handler prints within the drain is kept" {
	isolated late <<<'(sleep 0.1; echo late) & exit 0'
	for _ in {1..5}; do # a slow machine may print it after the drain
		id=$(enqueue late)
		jr_ok run
		[ "$(printed "$id")" != late ] || break
	done
	assert_equal "$(printed "$id")" late
}

@test "an isolated handler can have an account of its own" {
	[ "$(id -u)" -eq 0 ] || skip 'only root can start a handler as another account'
	escaping work <<<'id -u; id -G'
	settings work <<<'{"isolate": "pidns", "user": "nobody"}'
	open_ways
	id=$(enqueue work)
	jr_ok run
	refute has_escaped
	assert_equal "$(printed "$id")" "$(id -u nobody)
$(id -G nobody)"
}

@test "an isolated handler that cannot be executed has failed, and leaves nothing" {
	printf '\177ELF nonsense' >"$JOBRUN_HANDLERS/broken"
	chmod 755 "$JOBRUN_HANDLERS/broken"
	settings broken <<<'{"isolate": "pidns"}'
	id=$(enqueue broken --backoff 1h)
	jr_ok run -j 1
	assert_equal "$(ended "$id")" 'failed|1|cannot-start'
	assert_regex "$(field "$id" last_error)" 'broken: Exec format error'
}

# Where the kernel refuses: root without CAP_SYS_ADMIN, and another account below a chroot.
refused_as_root() {
	[ "$(id -u)" -eq 0 ] || skip 'the right can be taken from root only'
	setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$@"
}

@test "where the host does not allow it, an isolated handler is refused, and never runs without" {
	isolated work <<<'touch "$TMPDIR/ran"'
	handler other <<<'true'
	run --separate-stderr refused_as_root "$JOBRUN" handlers --check
	assert_equal "$status" 1
	assert_regex "$output" 'work: isolate: this host does not allow a PID namespace: Operation not permitted; .*CAP_SYS_ADMIN'
	run --separate-stderr refused_as_root "$JOBRUN" try work 1
	assert_equal "$status" 78
	assert_regex "$stderr" 'work: isolate: this host does not allow a PID namespace: .*remove "isolate"'
	id=$(enqueue work)
	other=$(enqueue other)
	run --separate-stderr refused_as_root "$JOBRUN" run
	assert_regex "$stderr" 'work: isolate: this host does not allow a PID namespace'
	run_is "$id" queued
	run_is "$other" succeeded
	assert_file_not_exist "$TMPDIR/ran"
}

@test "where an account may make no user namespace, its isolated handlers are refused" {
	need_other_account
	isolated work <<<'touch "$TMPDIR/ran"'
	mkdir root
	# Below a chroot nobody may make a user namespace (user_namespaces(7)).
	run unshare -m sh -c 'mount --rbind / root && exec chroot root setpriv --reuid 65534 --regid 65534 --clear-groups "$0" handlers' "$JOBRUN"
	assert_regex "$output" 'work: isolate: this host does not allow a user namespace: .*; let this account make user namespaces .*start jobrun as root'
}

@test "a shortage of processes when NAME.json is read refuses no isolated handler: it is started when that is over" {
	local first runner

	need_other_account
	escaping work <<<'true'
	as_somebody prlimit --nproc=1: "$JOBRUN" run --for 60s -v 3>&- 4>&- 2>err &
	first=$!
	wait_until 10 grep -q event=linger_start err
	runner=$(pgrep -P "$first")
	as_somebody prlimit --pid "$runner" --nproc="$(ulimit -H -u)":
	id=$(enqueue work)
	wait_until 10 run_is "$id" succeeded
	refute has_escaped
	kill -TERM "$runner"
	wait "$first"
	refute grep -q 'not used' err
}

@test "a start of an isolated handler that meets a shortage of processes is put off, and not charged" {
	local somebody=61729

	need_other_account
	isolated work <<<'true'
	# jobrun and its watchdog; the init and the handler are too many.
	run as_somebody prlimit --nproc=2 "$JOBRUN" try work 1
	assert_equal "$status" 1
	assert_line --regexp '^verdict +later'
	assert_line --regexp '^error +work: isolate: this host is short of something for the moment: .*: Resource temporarily unavailable'
}

@test "isolate has one value, and goes with programs alone" {
	handler work <<<'true'
	settings work <<<'{"isolate": "pidsn"}'
	jr handlers
	assert_line --partial '! work.json:1:2: isolate: unknown value "pidsn"; did you mean "pidns"?'
	settings work <<<'{"isolate": "pidns"}'
	http_handler hook http://127.0.0.1:1/ '' '"isolate": "pidns"'
	echo 'select $1' >"$JOBRUN_HANDLERS/statement.sql"
	settings statement <<<'{"isolate": "pidns"}'
	jr handlers
	assert_line --regexp '^work +exec +isolate pidns +'
	assert_line --partial '"isolate" goes with an exec handler, this is an http handler'
	assert_line --partial '"isolate" goes with an exec handler, this is a sql handler'
	jr_ok handlers --json
	jq -e '[.handlers[] | select(.job_type == "work") | .settings.isolate] == ["pidns"]' <<<"$output"
	jr_ok handlers --settings
	assert_line --regexp '^isolate +exec '
}
