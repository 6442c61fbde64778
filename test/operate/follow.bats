#!/usr/bin/env bats
# Output of a run that somebody follows: its runner sends it each second, between its heartbeats.

load ../lib/common

# follow ID: in the background; out.ID and err.ID are what it prints.
follow() {
	(exec env --default-signal=INT "$JOBRUN" logs -f "$1") >out."$1" 2>err."$1" 3>&- &
	follower=$!
	runner_pids+=("$!")
}

# teller NAME: a handler that prints the line N when there is a file NAME.N, until there is NAME.go.
teller() {
	handler "$1" <<-sh
		n=1
		cd '$PWD'
		until [ -e $1.go ]; do
			if [ -e $1.\$n ]; then
				echo \$n
				n=\$((n + 1))
			fi
			sleep 0.05
		done
	sh
}

# printed ID TEXT: so far, to the byte.
printed() {
	printf "$2" | cmp -s - "out.$1"
}

# runner_said WORDS
runner_said() {
	grep -q "$1" "$runner_err"
}

# beat: a heartbeat. The runner takes this for a cancel.
beat() {
	local before

	before=$(q 'select max(locked_until) from jobrun.job_runs')
	q "notify jobrun, 'cancel'"
	wait_until 15 q_is t "select min(locked_until) > '$before' from jobrun.job_runs"
}

# until_of ID: the end of its lease, which a heartbeat moves.
until_of() {
	q "select locked_until from jobrun.job_runs where id = $1"
}

@test "output comes within seconds while somebody follows, without a heartbeat, and not any more when nobody does" {
	teller one
	teller two
	one=$(enqueue one)
	two=$(enqueue two)
	# There is no heartbeat in this test but those that `beat` asks for.
	JOBRUN_DATABASE_URL=$(past_pooler) bg_runner --for 10m -j 2 --lease 1h --heartbeat 15m -v
	wait_until 15 runner_said 'event=listening'
	wait_until 15 q_is 2 "select count(*) from jobrun.job_runs where status = 'running'"
	q_is 00:15:00 'select heartbeat from jobrun.job_runners'
	touch one.1
	follow "$two"
	second=$follower
	follow "$one"
	wait_until 15 q_is 2 'select count(*) from jobrun.job_follows where followed_until > now()'
	beat
	lease=$(until_of "$one")
	wait_until 15 printed "$one" '1\n'
	touch one.2
	wait_until 15 printed "$one" '1\n2\n'
	touch two.1
	wait_until 15 printed "$two" '1\n'
	# The follower ends, and time passes. What comes next brings the runner the news.
	kill -INT "$follower"
	wait_runner "$follower" 15
	q "update jobrun.job_follows set followed_until = now() - interval '2 minutes' where run_id = $one"
	touch one.3
	wait_until 15 q_is $'1\n2\n3' "select rtrim(output, e'\\n') from jobrun.job_runs where id = $one"
	touch one.4
	for n in 2 3 4; do
		touch "two.$n"
		wait_until 15 eval "[ \"\$(tail -n 1 out.$two)\" = $n ]"
	done
	q_is $'1\n2\n3' "select rtrim(output, e'\\n') from jobrun.job_runs where id = $one"
	assert_equal "$(until_of "$one")" "$lease"
	# The row of who does not follow any more is gone with the next mark of somebody else.
	wait_until 15 q_is "$two" 'select run_id from jobrun.job_follows'
	# With the next heartbeat it comes as always.
	beat
	wait_until 15 q_is $'1\n2\n3\n4' "select rtrim(output, e'\\n') from jobrun.job_runs where id = $one"
	touch one.go two.go
	wait_runner "$second"
	assert_equal "$runner_status" 0
	printed "$two" '1\n2\n3\n4\n'
	wait_until 15 q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "the server goes away while somebody follows: the job goes on, and its output comes when the server is back" {
	own_cluster
	teller one
	one=$(enqueue one)
	bg_runner --lease 60s --heartbeat 1500ms
	touch one.1
	follow "$one"
	wait_until 15 printed "$one" '1\n'
	wait_until 15 q_is 1 'select count(*) from jobrun.job_follows'
	restart_server --immediate
	touch one.2
	wait_until 30 printed "$one" '1\n2\n'
	wait_until 15 q_is 1 'select count(*) from jobrun.job_follows' # it was emptied
	touch one.go
	wait_runner "$follower"
	assert_equal "$runner_status" 0
	wait_until 15 q_is 'succeeded|1' "select status, attempts from jobrun.job_runs where id = $one"
	assert_file_empty "err.$one"
}

@test "run and exec: a heartbeat learns by itself that somebody follows; output and progress come between two of them" {
	q 'create table public.seen (id bigint, locked_until timestamptz, output text, progress text)'
	q <<-'sql'
		create function public.see() returns trigger language plpgsql as $$ begin
			insert into public.seen values (new.id, new.locked_until, new.output, new.progress); return null; end $$;
		create trigger see after update on jobrun.job_runs for each row execute function public.see();
		grant insert on public.seen to public;
	sql
	handler talk <<<'n=0; until [ -e go ]; do echo $((n += 1)); echo "{\"progress\": $n}" >>"$JOBRUN_OUT"; sleep 0.2; done'
	talk=$(enqueue talk)
	bg_runner --lease 16s --heartbeat 4s
	bg_jobrun exec told --lease 16s --heartbeat 4s -- sh -c "until [ -e '$JOBRUN_HANDLERS/go' ]; do date +%N; sleep 0.2; done"
	wait_until 15 q_is 2 "select count(*) from jobrun.job_runs where status = 'running'"
	told=$(q "select id from jobrun.job_runs where queue = 'exec'")
	follow "$talk"
	follow "$told"
	# Without a follower it is one, or two, for each lease.
	wait_until 60 q_is 2 "select count(distinct id) from (select id from public.seen where output is not null
		group by id, locked_until having count(distinct output) > 2) s"
	q_is t "select count(distinct progress) > 1 from public.seen where id = $talk"
	touch "$JOBRUN_HANDLERS/go"
	wait_until 15 q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "follow: for a run whose output the caller may see; its row is locked by nobody" {
	for kind in read enqueue run; do
		make_role "${kind}_$JR_DATABASE"
		jr_ok grant "$kind" "${kind}_$JR_DATABASE"
	done
	jr_ok grant enqueue "read_$JR_DATABASE"
	id=$(waiting_run)
	assert_equal "$(q_as "run_$JR_DATABASE" "select followed from jobrun.follow($id)")" f
	begin_attempt "$id"
	assert_equal "$(q_as "read_$JR_DATABASE" "select followed, heartbeat, locked_until from jobrun.follow($id)")" 'f||'
	q_is 0 'select count(*) from jobrun.job_follows'
	own=$(q_as "read_$JR_DATABASE" "select jobrun.enqueue('work')")
	begin_attempt "$own"
	assert_equal "$(q_as "read_$JR_DATABASE" "select followed from jobrun.follow($own)")" t
	assert_equal "$(q_as "run_$JR_DATABASE" "select followed from jobrun.follow($id)")" t
	q_is 2 "select count(*) from jobrun.job_follows where followed_until between now() and now() + interval '10 seconds'"
	assert_equal "$(q_as "run_$JR_DATABASE" "select followed from jobrun.follow(99)")" f
	# Often marked, rarely written: the second call finds the first one's mark.
	q "update jobrun.job_follows set followed_until = now() + interval '1 minute'"
	q "select jobrun.follow($id)"
	q_is 0 "select max(xmax::text) from jobrun.job_follows" # not even locked
	q "update jobrun.job_follows set followed_until = now() + interval '3 seconds'"
	q "select jobrun.follow($id)"
	q_is t "select followed_until > now() + interval '3 seconds' from jobrun.job_follows where run_id = $id"
	# Somebody follows in a transaction that stays open. Runner and other followers do not wait for it.
	q 'delete from jobrun.job_follows'
	hold "select jobrun.follow($id)"
	q_is 1 "select count(*) from (select from jobrun.job_runs where id = $id for update nowait) r"
	q_is t "select followed from jobrun.follow($id)"
	release_holds
	# It bounds itself.
	q "insert into jobrun.job_follows select i, now() - interval '2 minutes' from generate_series(1000, 1050) i"
	q "select jobrun.follow($id)"
	q_is "$id" 'select run_id from jobrun.job_follows'
}

@test "logs -f says how often output comes, and one line when the run cannot be marked" {
	id=$(waiting_run)
	begin_attempt "$id"
	q "update jobrun.job_runners set heartbeat = '20s'"
	TERM=xterm timeout 60 script -qfec "$JOBRUN logs -f $id" /dev/null </dev/null >screen.txt 2>&1 3>&- &
	runner_pids+=("$!")
	terminal=$!
	wait_until 15 grep -q -- '-- output comes every 20s' screen.txt
	q "update jobrun.job_runs set locked_until = locked_until + interval '20 seconds' where id = $id"
	wait_until 15 grep -q -- '-- output comes each second from now on' screen.txt
	end_attempt "$id" succeeded succeeded ''
	wait_runner "$terminal"
	assert_equal "$(grep -c -- '-- output' screen.txt)" 2

	# A role that may not read output; and one that may read it and, by hand, may not mark.
	make_role "read_$JR_DATABASE"
	jr_ok grant read "read_$JR_DATABASE"
	id=$(waiting_run)
	begin_attempt "$id"
	JOBRUN_DATABASE_URL=$(url_of "read_$JR_DATABASE") jr logs -f "$id"
	assert_one_line 77 'permission denied'
	make_role "other_$JR_DATABASE"
	jr_ok grant run "other_$JR_DATABASE"
	q "revoke execute on function jobrun.follow from \"other_$JR_DATABASE\"" \
		"update jobrun.job_runs set output = 'text' where id = $id"
	JOBRUN_DATABASE_URL=$(url_of "other_$JR_DATABASE") follow "$id"
	wait_until 15 test -s "err.$id"
	printed "$id" text
	end_attempt "$id" succeeded succeeded 'text.'
	wait_runner "$follower"
	assert_equal "$runner_status" 0
	printed "$id" text.
	assert_equal "$(wc -l <"err.$id")" 1
	grep -q '^jobrun: output comes only with the heartbeats of the runner: permission denied for function follow' "err.$id"
}
