#!/usr/bin/env bats
# jobrun effect KEY -- CMD, and jobrun.effect(key) in SQL: what happens once, and how often it happens otherwise.

load ../lib/common
load ../lib/proxy

setup() {
	common_setup
	did=$BATS_TEST_TMPDIR/did
	: >"$did"
}

# effect ARGUMENT... -- COMMAND LINE FOR SH
effect() {
	local arguments=()

	while [ "$1" != -- ]; do
		arguments+=("$1")
		shift
	done
	jr effect "${arguments[@]}" -- sh -c "$2"
}

# How often the commands of a test have said so.
times() {
	wc -l <"$did"
}

# marked KEY: t, f (begun), or nothing.
marked() {
	q "select done_at is not null from jobrun.job_effects where key = '$1'"
}

# A run that is running as claim 3, of no runner.
running_run() {
	q "insert into jobrun.job_runs (job_type, status, claim_seq, attempts, runner_id, locked_by, locked_until, started_at)
		values ('work', 'running', 3, 3, 1, 'somewhere', now() + interval '1 hour', now()) returning id"
}

# End it as somebody else's, so that the invariants hold.
take_away() {
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome)
		select $1, n, n, case n when 3 then 'dead' else 'failed' end from generate_series(1, 3) n on conflict do nothing" \
		"update jobrun.job_runs set status = 'dead', locked_until = null, finished_at = now() where id = $1"
}

@test "effect runs its command once: after exit 0 it is marked, and then skipped silently with exit 0" {
	for n in 1 2 3; do
		effect mail-1 -- "echo out; echo err >&2; echo did >>$did"
		assert_equal "$status" 0
		assert_equal "$output" "$([ $n -gt 1 ] || echo out)"
		assert_equal "$stderr" "$([ $n -gt 1 ] || echo err)"
	done
	assert_equal "$(times)" 1
	q_is '|||t|t' "select run_id, claim_seq, detail, done_at >= started_at, started_at > now() - interval '1 minute'
		from jobrun.job_effects where key = 'mail-1'"
	# Another key is another effect.
	effect mail-2 -- "echo did >>$did"
	assert_equal "$(times)" 2
}

@test "effect says with -v, or on a terminal, that the command was done before" {
	effect mail -v -- "echo did >>$did"
	refute_regex "$stderr" 'done before'
	q "update jobrun.job_effects set done_at = now() - interval '3 min 2 s'"
	for option in '' --at-most-once; do
		effect mail -v $option -- "echo did >>$did"
		assert_equal "$status" 0
		assert_equal "$output" ''
		assert_regex "${stderr_lines[-1]}" '^mail: done before, 3m [0-9]+s ago$'
	done
	run on_terminal 80 effect mail -- false
	assert_equal "$status" 0
	assert_regex "${lines[-1]}" '^mail: done before, 3m [0-9]+s ago.?$' # if connecting took long, it has said so before
	effect $'a\eb' --at-most-once -- 'exit 3'
	effect $'a\eb' -v -- "echo did >>$did"
	assert_equal "$status" 3
	assert_regex "${stderr_lines[-1]}" '^a\\x1bb: ended before with exit status 3, (now|[0-9]+s ago)$'
	assert_equal "$(times)" 1
}

@test "effect passes on a failed command's status, marks nothing, and runs it again" {
	for n in 1 65 75 255; do
		effect mail -- "echo did >>$did; exit $n"
		assert_equal "$status" "$n"
		assert_equal "$stderr" ''
		assert_equal "$(marked mail)" f
	done
	effect mail -- 'kill -TERM $$'
	assert_equal "$status" 143
	effect mail -- 'kill -KILL $$'
	assert_equal "$status" 137
	assert_equal "$(marked mail)" f
	effect mail -- "echo did >>$did"
	assert_equal "$status" 0
	assert_equal "$(marked mail)" t
	assert_equal "$(times)" 5
}

@test "effect exits with 127 for a missing command and 126 for one that cannot be executed, and keeps no mark" {
	echo 'not executable' >"$TMPDIR/text"
	for option in '' --at-most-once; do
		run -127 --separate-stderr run_jobrun effect mail $option -- no-such-command --at-most-once
		assert_equal "$stderr" 'jobrun: cannot run no-such-command: No such file or directory'
		run -126 --separate-stderr run_jobrun effect mail $option -- "$TMPDIR/text"
		assert_equal "$stderr" "jobrun: cannot run $TMPDIR/text: Permission denied"
		refute [ "$(marked mail)" = t ]
		q 'delete from jobrun.job_effects'
	done
}

@test "effect starts a script without a line #! as a shell does, with a path or without" {
	mkdir "$TMPDIR/bin"
	echo 'printf "%s|" "$0" "$@"; exit 3' >"$TMPDIR/bin/plain-script"
	chmod 755 "$TMPDIR/bin/plain-script"
	run -3 --separate-stderr run_jobrun effect one -- "$TMPDIR/bin/plain-script" 'a b' ''
	assert_equal "$output$stderr" "$TMPDIR/bin/plain-script|a b||"
	PATH=$PATH:$TMPDIR/bin run -3 --separate-stderr run_jobrun effect two -- plain-script
	assert_regex "$output$stderr" 'plain-script\|$'
}

@test "effect passes on options after --, and takes its own before and after KEY" {
	jr effect --at-most-once k1 -- printf '%s,' --json -d nothing --help -- --at-most-once --once
	assert_equal "$status" 0
	assert_equal "$output" '--json,-d,nothing,--help,--,--at-most-once,--once,'
	jr effect k2 --at-most-once --json -v -- printf '%s,' -v
	assert_equal "$output" '-v,'
	q_is 2 "select count(*) from jobrun.job_effects where detail ->> 'at_most_once' is not null"
	POSIXLY_CORRECT=1 jr effect k3 -- printf '%s,' -x
	assert_equal "$output" '-x,'
}

@test "effect without -- or without a command is a usage error with an example" {
	for line in 'mail' 'mail --' 'mail sh -c true' 'mail more -- true' 'mail --at-most-once' 'mail ls --help'; do
		# shellcheck disable=SC2086 # words
		jr effect $line
		assert_equal "$status" 64
		assert_equal "$output" ''
		assert_equal "$stderr" 'jobrun: the command goes behind "--", and before it KEY alone: jobrun effect mail -- mail -s hello ada'
	done
	jr effect -- mail -s hello
	assert_one_line 64 'before it KEY alone: jobrun effect KEY -- mail -s hello ada$'
	jr effect
	assert_equal "$status" 64
	jr effect --at-most-onc mail -- true
	assert_equal "$status" 64
	assert_regex "$stderr" 'at-most-once'
	jr effect -- true
	assert_equal "$status" 64
	jr_ok effect --help
	assert_output --partial 'KEY -- CMD'
	jr_ok help effect
	jr_ok --help
	assert_line 'In scripts'
	assert_line --regexp '^  effect +run a command'
	q_is 0 'select count(*) from jobrun.job_effects'
}

@test "a key has 1 to 255 bytes of UTF-8" {
	for key in '' "$(printf '%0256d' 0)" "$(printf 'x%.0s' {1..254})ü"; do
		effect "$key" -- "echo did >>$did"
		assert_equal "$status" 64
		assert_regex "$stderr" '^jobrun: KEY: (0|256) bytes; from 1 to 255 are possible$'
	done
	effect $'\xff' -- "echo did >>$did"
	assert_equal "$status" 65
	assert_equal "$(times)" 0
	for key in "$(printf '%0255d' 0)" "it's %s \"\\ 'ü" ' ' '-'; do
		effect "$key" -- "echo did >>$did"
		assert_equal "$status" 0
		effect "$key" -- "echo did >>$did"
		assert_equal "$status" 0
	done
	assert_equal "$(times)" 4
	q_is 1 "select count(*) from jobrun.job_effects where key = 'it''s %s \"\\ ''ü'"
}

@test "effect's command has the stdin, environment, directory and signals of the caller" {
	mkdir here
	cd here
	FOO=bar run_jobrun effect mail -- sh -c 'cat; echo "$FOO"; pwd; grep SigBlk /proc/self/status' <<<'from stdin' >../out
	assert_equal "$(cat ../out)" "from stdin
bar
$PWD
SigBlk:	0000000000000000"
	# Signals: as the caller has them, PIPE and XFSZ (together 16781312) by default. Numbers 32 and 33 are libc's own.
	ignored() {
		echo $((0x$("$@" sed -n 's/^SigIgn:\t//p' /proc/self/status) & 0x7fffffff))
	}
	assert_equal "$(ignored "$JOBRUN" effect signals --)" $(($(ignored env) & ~16781312))
	assert_equal "$(trap '' HUP PIPE && ignored "$JOBRUN" effect nohup --)" $((($(ignored env) & ~16781312) | 1))
	# A caller that ignores its children makes the kernel throw their ends away.
	(
		trap '' CHLD
		exec "$JOBRUN" effect children -- sh -c 'exit 7'
	) || assert_equal $? 7
}

@test "effect holds no connection while its command runs" {
	run_jobrun effect mail -- sh -c "echo did >>$did; until [ -e go ]; do sleep 0.05; done" 3>&- &
	wait_until 10 test -s "$did"
	wait_until 5 q_is 0 "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
	assert_equal "$(marked mail)" f
	touch go
	wait $!
	assert_equal "$(marked mail)" t
}

@test "effect passes TERM, HUP and INT on to its command, and has the command's status" {
	for sig in TERM HUP INT; do
		rm -f ready
		# exec: the signal is for jobrun alone.
		(exec "$JOBRUN" effect "clean-$sig" -- sh -c "trap 'echo $sig >>$did; exit 0' $sig; : >ready; while :; do sleep 0.05; done") 3>&- &
		pid=$!
		wait_until 10 test -e ready
		kill -$sig "$pid"
		wait "$pid"
		assert_equal "$(marked "clean-$sig")" t
		rm -f ready
		(exec "$JOBRUN" effect "rough-$sig" -- sh -c ': >ready; exec sleep 300') 3>&- &
		pid=$!
		wait_until 10 test -e ready
		kill -$sig "$pid"
		wait "$pid" && fail 'it was killed' || assert_equal $? $((128 + $(kill -l $sig)))
		assert_equal "$(marked "rough-$sig")" f
	done
	assert_equal "$(sort "$did" | tr '\n' ' ')" 'HUP INT TERM '
}

@test "two effects of one key at the same time may both run, and both succeed" {
	for n in 1 2; do
		run_jobrun effect mail -- sh -c "echo did >>$did; until [ -e go ]; do sleep 0.05; done" 3>&- &
		pids[n]=$!
	done
	wait_until 10 eval '[ "$(times)" -eq 2 ]'
	touch go
	wait "${pids[1]}"
	wait "${pids[2]}"
	effect mail -- "echo did >>$did"
	assert_equal "$(times)" 2
}

@test "--at-most-once: of eight at the same time exactly one runs the command" {
	for n in {1..8}; do
		run_jobrun effect mail --at-most-once -- sh -c "echo did >>$did" 3>&- 2>>"$TMPDIR/err" &
		pids[n]=$!
	done
	for n in {1..8}; do
		wait "${pids[n]}"
	done
	assert_equal "$(times)" 1
	# Who comes while it runs cannot know how it will end.
	assert_equal "$(grep -vx 'jobrun: sh was not run: effect mail was begun before and may not have ended' "$TMPDIR/err")" ''
	assert_equal "$(marked mail)" t
}

@test "--at-most-once: the mark comes first, and stays when the command fails or jobrun is killed" {
	effect mail --at-most-once -- "$(printf '%q' "$JR_PSQL") -XAtqc \"select done_at is not null from jobrun.job_effects\" '$JOBRUN_DATABASE_URL'; exit 3"
	assert_equal "$status" 3
	assert_equal "$output" t
	for option in '' --at-most-once; do
		effect mail $option -- "echo did >>$did"
		assert_equal "$status" 3
		assert_equal "$stderr" ''
	done
	q_is f "select jobrun.effect('mail')"
	assert_equal "$(times)" 0
	(exec "$JOBRUN" effect killed --at-most-once -- sh -c 'echo $$ >ready; exec sleep 300') 3>&- &
	pid=$!
	wait_until 10 test -s ready
	kill -KILL "$pid"
	wait "$pid" || true
	kill -KILL "$(cat ready)"
	for option in '' --at-most-once; do
		effect killed $option -- "echo did >>$did"
		assert_equal "$status" 0
		assert_equal "$stderr" 'jobrun: sh was not run: effect killed was begun before and may not have ended'
	done
	assert_equal "$(times)" 0
}

@test "--at-most-once: how the command ended is passed on again, and it is not run" {
	for n in 0 1 75 255; do
		for call in 1 2 3; do
			effect "exit-$n" --at-most-once -- "echo did >>$did; exit $n"
			assert_equal "$status" "$n"
			assert_equal "$stderr" ''
		done
	done
	effect killed --at-most-once -- 'kill -TERM $$'
	effect killed --at-most-once -- "echo did >>$did"
	assert_equal "$status" 143
	assert_equal "$(times)" 4
	# Never started is not begun.
	run -127 run_jobrun effect none --at-most-once -- no-such-command
	effect none --at-most-once -- "echo did >>$did"
	assert_equal "$status" 0
	assert_equal "$(times)" 5
}

@test "effect without --at-most-once runs its command again when it was killed in the middle" {
	(exec "$JOBRUN" effect mail -- sh -c "echo \$\$ >$did; exec sleep 300") 3>&- &
	pid=$!
	wait_until 10 test -s "$did"
	kill -KILL "$pid"
	wait "$pid" || true
	kill -KILL "$(cat "$did")"
	assert_equal "$(marked mail)" f
	# Who must not do it twice leaves it alone, and says so.
	effect mail --at-most-once -- "echo did >>$did"
	assert_equal "$status" 0
	assert_equal "$stderr" 'jobrun: sh was not run: effect mail was begun without --at-most-once and may have happened'
	assert_equal "$(marked mail)" f
	effect mail -- "echo did >>$did"
	assert_equal "$status" 0
	assert_equal "$(times)" 2
	assert_equal "$(marked mail)" t
}

@test "effect exits with 75 and does not run its command when the database is away before it" {
	nowhere="host=$BATS_TEST_TMPDIR dbname=x"
	run_jobrun -d "$nowhere" effect mail --at-most-once -- sh -c "echo did >>$did" 2>once.err 3>&- &
	once=$!
	effect -d "$nowhere" mail -- "echo did >>$did"
	assert_one_line 75 '^jobrun: sh was not run: connection to server'
	wait "$once" || assert_equal $? 75
	assert_equal "$(cat once.err)" "$stderr"
	assert_equal "$(times)" 0
}

@test "when the database is away after the command, effect exits with 0 and says that there is no mark" {
	own_cluster
	jr effect mail -- sh -c "echo did >>$did; $(printf '%q ' env -u JOBRUN_TEST_ID "$TOP/scripts/pg-local" "$test_cluster" stop)"
	assert_one_line 0 '^jobrun: effect mail has happened and is not marked, so it may happen again: connection to server'
	start_server
	assert_equal "$(marked mail)" f
	assert_equal "$(times)" 1
}

@test "--at-most-once: when the database is away after the command, its status is passed on once with a line" {
	own_cluster
	jr effect mail --at-most-once -- sh -c "echo did >>$did; $(printf '%q ' env -u JOBRUN_TEST_ID "$TOP/scripts/pg-local" "$test_cluster" stop); exit 3"
	assert_one_line 3 '^jobrun: effect mail has ended with exit status 3, and that is not marked: connection to server'
	start_server
	effect mail --at-most-once -- "echo did >>$did"
	assert_equal "$status" 0
	assert_regex "$stderr" 'may not have ended$'
	assert_equal "$(times)" 1
}

@test "effect says nothing about a database that is back in time" {
	own_cluster
	jr effect mail -- sh -c "echo did >>$did; $(printf '%q ' env -u JOBRUN_TEST_ID "$TOP/scripts/pg-local" "$test_cluster" restart) >/dev/null"
	assert_equal "$status" 0
	assert_equal "$stderr" ''
	assert_equal "$(marked mail)" t
}

@test "effect asks again when a COMMIT's answer is lost, before or after the command, which runs once" {
	for mode in answer request; do
		for nth in 2 4; do # 1 and 3 are those of need()
			for option in '' --at-most-once; do
				proxy "$mode" "$nth"
				key=$mode-$nth$option
				JOBRUN_DATABASE_URL=$proxied jr effect "$key" $option -- sh -c "echo did >>$did"
				assert_equal "$status" 0
				assert_equal "$stderr" ''
				assert_file_exist "$cut_file"
				assert_equal "$(times)" 1
				assert_equal "$(marked "$key")" t
				effect "$key" $option -- 'exit 9'
				assert_equal "$status" 0
				assert_equal "$stderr" ''
				: >"$did"
				end_proxies
				rm -rf "${cut_file%/*}"
			done
		done
	done
}

@test "--at-most-once: a mark that may be another's is not taken for one's own" {
	own_cluster
	direct=$JOBRUN_DATABASE_URL
	# The server has committed; then it cannot be asked any more.
	JR_SERVER=${direct% dbname=*} proxy answer-last 2
	proxied=${proxied/dbname=$JR_DATABASE/dbname=jobrun}
	JOBRUN_DATABASE_URL=$proxied jr effect mail --at-most-once -- sh -c "echo did >>$did"
	assert_equal "$(times)" 0
	if [ "$status" -ne 75 ]; then
		fail "exit $status: $stderr"
	fi
	assert_regex "$stderr" '^jobrun: sh was not run, and it is not known whether effect mail is marked; if it is, the command never runs: '
	assert_equal "$(marked mail)" t
	# Somebody else's mark, whatever it says, is not ours either.
	effect mail --at-most-once -- "echo did >>$did"
	assert_equal "$status" 0
	assert_regex "$stderr" 'may not have ended$'
	assert_equal "$(times)" 0
}

@test "effect in a handler runs only while the handler's claim holds, and records run and claim" {
	id=$(running_run)
	export JOBRUN_RUN_ID=$id JOBRUN_CLAIM=3
	effect mine -- "echo did >>$did"
	assert_equal "$status" 0
	effect mine-once --at-most-once -- "echo did >>$did"
	assert_equal "$status" 0
	assert_equal "$(times)" 2
	q_is 2 "select count(*) from jobrun.job_effects where run_id = $id and claim_seq = 3 and done_at is not null"
	for claim in 2 4; do
		for option in '' --at-most-once; do
			JOBRUN_CLAIM=$claim effect other $option -- "echo did >>$did"
			assert_equal "$status" 75
			assert_equal "$stderr" "jobrun: sh was not run: claim $claim of run $id is not the running one any more"
		done
	done
	JOBRUN_RUN_ID=$((id + 1)) effect other -- "echo did >>$did"
	assert_equal "$status" 75
	take_away "$id"
	for option in '' --at-most-once; do
		effect other $option -- "echo did >>$did"
		assert_equal "$status" 75
		effect mine $option -- "echo did >>$did"
		assert_equal "$status" 75
	done
	assert_equal "$(times)" 2
	assert_equal "$(marked other)" ''
}

@test "effect in a handler marks what has happened even when the claim was lost meanwhile" {
	id=$(running_run)
	export JOBRUN_RUN_ID=$id JOBRUN_CLAIM=3
	run_jobrun effect mail -- sh -c "echo did >>$did; until [ -e go ]; do sleep 0.05; done" 3>&- &
	wait_until 10 test -s "$did"
	take_away "$id"
	touch go
	wait $!
	q_is "$id|3|t" "select run_id, claim_seq, done_at is not null from jobrun.job_effects where key = 'mail'"
}

@test "effect takes JOBRUN_RUN_ID and JOBRUN_CLAIM both or not at all, and only as numbers" {
	JOBRUN_RUN_ID=7 effect mail -- "echo did >>$did"
	assert_equal "$status" 64
	assert_regex "$stderr" '^jobrun: JOBRUN_RUN_ID is set and JOBRUN_CLAIM is not'
	JOBRUN_CLAIM=7 JOBRUN_RUN_ID='' effect mail -- "echo did >>$did"
	assert_equal "$status" 64
	assert_regex "$stderr" '^jobrun: JOBRUN_CLAIM is set and JOBRUN_RUN_ID is not'
	for bad in -1 7x 99999999999999999999; do
		JOBRUN_RUN_ID=$bad JOBRUN_CLAIM=1 effect mail -- "echo did >>$did"
		assert_equal "$status" 64
		assert_regex "$stderr" '^jobrun: JOBRUN_RUN_ID'
		JOBRUN_RUN_ID=1 JOBRUN_CLAIM=$bad effect mail -- "echo did >>$did"
		assert_equal "$status" 64
		assert_regex "$stderr" '^jobrun: JOBRUN_CLAIM'
	done
	assert_equal "$(times)" 0
	for pair in '0 1' '1 0' '0 ' ' 0'; do
		JOBRUN_RUN_ID=${pair% *} JOBRUN_CLAIM=${pair#* } effect mail -- "echo did >>$did"
		assert_equal "$status" 64
	done
	JOBRUN_RUN_ID='' JOBRUN_CLAIM='' effect mail -- "echo did >>$did"
	assert_equal "$status" 0
	q_is 1 'select count(*) from jobrun.job_effects where run_id is null and claim_seq is null and done_at is not null'
}

@test "effect in jobrun try runs its command unless it is marked, and writes nothing" {
	tried() {
		JOBRUN_RUN_ID=0 JOBRUN_CLAIM=0 effect "$@"
	}
	rows() {
		q 'select e from jobrun.job_effects e order by key'
	}
	for option in '' --at-most-once; do
		for n in 0 0 3; do
			tried mail $option -- "echo did >>$did; exit $n"
			assert_equal "$status" "$n"
			assert_equal "$stderr" 'jobrun try: mail is not marked'
		done
	done
	assert_equal "$(times)" 6
	q_is 0 'select count(*) from jobrun.job_effects'
	: >"$did"
	effect 'done' -- true
	effect failed --at-most-once -- 'exit 4'
	effect begun -- false
	q "insert into jobrun.job_effects (key, done_at, detail) values ('open', now(), '{\"at_most_once\": \"x\"}')"
	before=$(rows)
	for option in '' --at-most-once; do
		tried 'done' $option -- "echo did >>$did"
		assert_equal "$status/$stderr" 0/
		tried failed $option -- "echo did >>$did"
		assert_equal "$status/$stderr" 4/
		tried open $option -- "echo did >>$did"
		assert_equal "$status/$stderr" '0/jobrun: sh was not run: effect open was begun before and may not have ended'
	done
	tried begun --at-most-once -- "echo did >>$did"
	assert_equal "$status/$stderr" '0/jobrun: sh was not run: effect begun was begun without --at-most-once and may have happened'
	assert_equal "$(times)" 0
	tried begun -- "echo did >>$did"
	assert_equal "$status/$stderr" '0/jobrun try: begun is not marked'
	assert_equal "$(times)" 1
	assert_equal "$(rows)" "$before"
	# As the real one does it.
	handler work <<<"\"$JOBRUN\" effect real -- sh -c 'echo did >>$did'"
	for n in 2 3; do
		jr_ok try work
		assert_regex "$stderr" 'jobrun try: real is not marked'
		assert_equal "$(times)" "$n"
	done
	assert_equal "$(rows)" "$before"
}

@test "effect in a handler without a database says how to give it one" {
	advice='; set JOBRUN_HANDLER_DATABASE_URL for the runner, or keep the password in ~/\.pgpass$'
	nothing() {
		run --separate-stderr timeout -k 5 60 env -u JOBRUN_DATABASE_URL PGPORT=1 PGUSER=nobody \
			"$JOBRUN" effect mail "$@" -- sh -c "echo did >>$did"
		assert_equal "$status" 75
		assert_equal "${#stderr_lines[@]}" 1
	}
	pids=()
	(
		export JOBRUN_RUN_ID=7 JOBRUN_CLAIM=1
		nothing --at-most-once
		assert_regex "$stderr" "$advice"
	) &
	pids+=($!)
	# This is no handler, or somebody has said where it is.
	(
		nothing
		refute_regex "$stderr" 'HANDLER_DATABASE'
	) &
	pids+=($!)
	for name in PGHOST PGDATABASE DATABASE_URL; do
		(
			export JOBRUN_RUN_ID=7 JOBRUN_CLAIM=1
			value=$BATS_TEST_TMPDIR
			[ $name != DATABASE_URL ] || value="host=$value"
			declare -x "$name=$value"
			nothing
			refute_regex "$stderr" 'HANDLER_DATABASE'
		) &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	assert_equal "$(times)" 0
}

@test "effect is not repeated by the next attempt of a handler that failed" {
	handler work <<sh
"$JOBRUN" effect "mail-\$JOBRUN_KEY" -- sh -c 'echo mail >>$did' || exit
"$JOBRUN" effect "hook-\$JOBRUN_KEY" -- sh -c 'echo hook >>$did; [ "\$JOBRUN_ATTEMPT" -gt 1 ]' || exit
[ "\$JOBRUN_ATTEMPT" -gt 2 ]
sh
	id=$(enqueue work --backoff 0)
	wait_until 20 eval "run_jobrun run; run_is $id succeeded"
	assert_equal "$(sort "$did" | tr '\n' ' ')" 'hook hook mail '
	q_is '3' "select attempts from jobrun.job_runs where id = $id"
	q_is "1|2" "select min(claim_seq), max(claim_seq) from jobrun.job_effects where run_id = $id and done_at is not null"
}

@test "effect in a handler whose lease was lost is refused" {
	handler work <<sh
: >started
until [ -e $BATS_TEST_TMPDIR/go ]; do sleep 0.05; done
"$JOBRUN" effect mail -- sh -c 'echo did >>$did' 2>$BATS_TEST_TMPDIR/said
echo \$? >$BATS_TEST_TMPDIR/ended
sh
	id=$(enqueue work)
	bg_runner -j 1 --state-dir "$BATS_TEST_TMPDIR/state"
	wait_until 10 run_is "$id" running
	# Taken away, as reclaim does it, by somebody who thinks that the lease is over.
	q "update jobrun.job_runs set status = 'queued', locked_until = null, attempts = 0, releases = 1, run_at = now() + interval '1 hour'
		where id = $id" "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($id, 1, 1, 'released')"
	touch go
	wait_until 10 test -s ended
	assert_equal "$(cat ended)" 75
	assert_regex "$(cat said)" "claim 1 of run $id is not the running one any more"
	assert_equal "$(times)" 0
	wait_runner
}

@test "the SQL function effect() and the command share their marks" {
	q_is t "select jobrun.effect('by-sql')"
	effect by-sql -- "echo did >>$did"
	assert_equal "$status" 0
	effect by-sql --at-most-once -- "echo did >>$did"
	assert_equal "$status" 0
	assert_equal "$(times)" 0
	effect by-command -- true
	q_is f "select jobrun.effect('by-command')"
	effect once --at-most-once -- false
	q_is f "select jobrun.effect('once')"
	# Begun is not done. Who takes it over has started it.
	for by in 'effect again -- false' "q_is t \"select jobrun.effect('again')\""; do
		effect again -- false
		q "update jobrun.job_effects set started_at = now() - interval '1 day' where key = 'again'"
		eval "$by"
		q_is t "select started_at > now() - interval '1 hour' from jobrun.job_effects where key = 'again'"
	done
	effect failed -- false
	q_is t "select jobrun.effect('failed')"
	q_is f "select jobrun.effect('failed')"
	effect failed -- "echo did >>$did"
	assert_equal "$(times)" 0
}

@test "the command waits for a transaction that has called effect(), and says so when it takes too long" {
	for option in '' --at-most-once; do
		hold "select jobrun.effect('mail')"
		(close_holds && exec "$JOBRUN" effect mail $option -- sh -c "echo did >>$did") 3>&- &
		wait_until 10 waiting_for_lock 1
		release_holds # rolled back
		wait $!
		assert_equal "$(times)" 1
		: >"$did"
		rm -f hold.*
		q 'delete from jobrun.job_effects'
	done
	hold "select jobrun.effect('mail')"
	effect mail -- "echo did >>$did"
	assert_equal "$status" 75
	assert_equal "$stderr" "jobrun: sh was not run: a transaction that has called jobrun.effect('mail') is still open"
	assert_equal "$(times)" 0
}

@test "effect(): true until a transaction that called it has committed" {
	q_is 't t' "begin; select jobrun.effect('a') || ' '; rollback" "select jobrun.effect('a')" || true
	q 'delete from jobrun.job_effects'
	q "begin" "select jobrun.effect('a')" "rollback"
	q_is t "select jobrun.effect('a')"
	q_is f "select jobrun.effect('a')"
	# In its own transaction too the second call says false.
	q_is 't,f' "select string_agg(left(x::text, 1), ',') from (select jobrun.effect('b') x union all select jobrun.effect('b')) y"
}

@test "effect(): the second of two transactions waits; false after a commit, true after a rollback" {
	for end in commit rollback; do
		hold "select jobrun.effect('$end')"
		q "select jobrun.effect('$end')" >"$TMPDIR/$end" 3>&- &
		pid=$!
		wait_until 10 waiting_for_lock 1
		assert_file_empty "$TMPDIR/$end"
		printf '%s;\n' "$end" >&"${hold_fds[-1]}"
		wait "$pid"
	done
	assert_equal "$(cat "$TMPDIR/commit" "$TMPDIR/rollback" | tr '\n' ' ')" 'f t '
}

@test "effect(): keys are checked, and settings of a lost claim are refused" {
	for key in "''" "repeat('x', 256)" "repeat('ü', 128)" null; do
		run q "select jobrun.effect($key)"
		assert_failure
		assert_output --regexp 'key (has (0|256) bytes; from 1 to 255 are possible|must not be null)'
	done
	q_is t "select jobrun.effect(repeat('x', 255))"
	id=$(running_run)
	claim() {
		q "select set_config('jobrun.run_id', '$1', false), set_config('jobrun.claim', '$2', false)" "select jobrun.effect('$3')" | tail -n 1
	}
	assert_equal "$(claim "$id" 3 mine)" t
	q_is "$id|3" "select run_id, claim_seq from jobrun.job_effects where key = 'mine'"
	assert_equal "$(claim '' '' outside)" t
	for claim in 2 4 ''; do
		run claim "$id" "$claim" other
		assert_output --partial 'is not the running one any more'
	done
	take_away "$id"
	run claim "$id" 3 other
	assert_output --partial "claim 3 of run $id is not the running one any more"
	assert_equal "$(marked other)" ''
}
