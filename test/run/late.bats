#!/usr/bin/env bats
# Claims whose answer comes late or never, and leases that a runner has lost under its own name: nothing is started twice, nothing
# is charged that was not started, and nothing stays with a runner that does not know of it.

load ../lib/common
load ../lib/proxy
load ../lib/sql

setup() {
	common_setup
	handler work <<<'echo "$JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/began"'
}

# slow_claim TYPE: the first claim of a run of this type goes on until end_slow_claim, whatever timeouts and cancels say.
slow_claim() {
	q <<-sql
		create sequence public.slow_claims;
		create function public.slow_claim() returns trigger language plpgsql as \$\$
		begin
			if nextval('public.slow_claims') > 1 then
				return new;
			end if;
			loop
				begin
					perform pg_advisory_xact_lock_shared(4711);
					return new;
				exception when query_canceled or lock_not_available then
					null;
				end;
			end loop;
		end \$\$;
		create trigger slow_claim before update on jobrun.job_runs for each row
			when (new.status = 'running' and old.status <> 'running' and new.job_type = '$1') execute function public.slow_claim();
	sql
	hold 'select pg_advisory_xact_lock(4711)'
	slow_claim_fd=${hold_fds[-1]}
}

end_slow_claim() {
	printf 'rollback;\n' >&"$slow_claim_fd"
}

# slow_claim_lasts SECONDS: for wait_until: has it gone on for so long?
slow_claim_lasts() {
	q_is t "select now() >= xact_start + interval '$1 s' from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
}

# beginnings ID: how often its handler was started.
beginnings() {
	grep -c "^$1 " "$TMPDIR/began" || true
}

# standing ID: status|attempts|claim_seq|releases|attempts that are told
standing() {
	field "$1" 'status, attempts, claim_seq, releases, (select count(*) from jobrun.job_attempts a where a.run_id = job_runs.id)'
}

standing_is() {
	[ "$(standing "$1")" = "$2" ]
}

@test "after a self-fence the run is taken back by that same runner, which lives on" {
	handler long <<<'echo "$JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/began"; [ "$JOBRUN_ATTEMPT" -gt 1 ] || exec sleep 60'
	id=$(enqueue long --backoff 0)
	bg_runner --for 60s --lease 6s
	wait_until 10 run_is "$id" running
	hold "select from jobrun.job_runs where id = $id for update"
	wait_until 20 grep -q lease_lost "$runner_err"
	wait_until 10 lease_has_ended "$id"
	release_holds
	wait_until 20 run_is "$id" succeeded
	assert_equal "$(standing "$id")" 'succeeded|2|2|0|1'
	q_is lost "select outcome from jobrun.job_attempts where run_id = $id"
	kill -TERM "$runner_pid"
	wait_runner
}

@test "a claim that committed behind the client's deadline is adopted in time" {
	slow_claim work
	id=$(enqueue work --max-attempts 1)
	bg_runner --for 60s --lease 30s -v
	wait_until 20 grep -q adopt_failed "$runner_err"
	end_slow_claim
	wait_until 20 run_is "$id" succeeded
	assert_equal "$(standing "$id")" 'succeeded|1|1|0|0'
	assert_equal "$(beginnings "$id")" 1
	kill -TERM "$runner_pid"
	wait_runner
}

@test "a claim that commits two leases later is given back uncharged and its run claimed again; meanwhile nothing else is claimed" {
	slow_claim work
	handler other <<<'exit 0'
	id=$(enqueue work --max-attempts 1)
	bg_runner --for 60s --lease 3s -v
	wait_until 10 grep -q adopt_failed "$runner_err"
	other=$(enqueue other)
	wait_until 20 slow_claim_lasts 6
	wait_until 20 q_is t "select now() > created_at + interval '3 s' from jobrun.job_runs where id = $other"
	end_slow_claim
	wait_until 20 run_is "$id" succeeded
	wait_until 10 run_is "$other" succeeded
	assert_equal "$(field "$id" 'attempts, releases, (select count(*) from jobrun.job_attempts)')" '1|0|0'
	assert_equal "$(beginnings "$id")" 1
	assert [ "$(field "$id" claim_seq)" -ge 2 ]
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is t "select started_at - created_at > interval '3 s' from jobrun.job_runs where id = $other"
}

@test "a runner that is told to end during its claim gives back what that claim took" {
	slow_claim work
	id=$(enqueue work --max-attempts 1)
	bg_runner --for 60s --lease 9s -v
	wait_until 20 grep -q adopt_failed "$runner_err"
	kill -TERM "$runner_pid"
	wait_until 10 grep -q runner_signal "$runner_err"
	end_slow_claim
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(standing "$id")" 'queued|0|1|0|0'
	run_is "$id" queued
}

@test "a tick that ends while its claims are not answered exits with 75 and says so, whatever ends it" {
	local reason='jobrun: could not claim: the last [0-9 ]*requests? for work failed: the database did not answer in time .*type jobrun doctor$'

	id=$(enqueue work)
	proxy swallow 1
	jr run -d "$proxied" --lease 3s --max-runtime 4s
	assert_one_line 75 "$reason"
	assert_regex "$stderr" 'the last [2-9] requests for work'
	jr run -d "$proxied" --lease 3s --for 1s
	assert_one_line 75 "$reason"
	bg_runner -d "$proxied" --lease 3s --max-runtime 0 -v
	wait_until 10 grep -q db_lost "$runner_err"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 75
	assert_regex "$(tail -n 1 "$runner_err")" "^$reason"
	assert_equal "$(standing "$id")" 'queued|0|0|0|0'
	jr_ok run
	assert_equal "$stderr" ''
}

@test "a tick that ends at --max-runtime gives back what its claim took, and exits with 75 since the claim was not answered" {
	slow_claim work
	id=$(enqueue work --max-attempts 1)
	bg_runner --lease 9s --max-runtime 3s
	wait_until 20 slow_claim_lasts 4
	end_slow_claim
	wait_runner
	assert_equal "$runner_status" 75
	assert_regex "$(cat "$runner_err")" '^jobrun: could not claim: the last request for work failed: [^'$'\n'']*$'
	assert_equal "$(standing "$id")" 'queued|0|1|0|0'
}

@test "a claim without an answer is forgotten when a later one is answered: then a tick that is told to end exits with 0" {
	waiting_handler slow
	id=$(enqueue slow)
	enqueue slow >/dev/null # while one runs, nothing more is asked for: the claim is the last word of the database
	proxy hold 1
	bg_runner -d "$proxied" --lease 30s -j 1
	wait_until 20 up_is 1
	kill -TERM "$runner_pid"
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(cat "$runner_err")" ''
	run_is "$id" succeeded
	touch "${cut_file%/*}/go"
}

@test "a run that is adopted beside held ones is heartbeaten before its own lease ends" {
	waiting_handler slow
	jr_ok queue default --per-key none
	enqueue slow >/dev/null
	proxy claim 2
	bg_runner -d "$proxied" --for 60s --lease 18s -j 2
	wait_until 10 up_is 1
	# It may claim, but not give up on a claim.
	hold 'select from jobrun.job_runners for share'
	id=$(enqueue slow --max-attempts 1)
	wait_until 10 test -e "$cut_file"
	wait_until 20 q_is t "select locked_until < now() + interval '7 s' from jobrun.job_runs where id = $id"
	# Its next connection begins with a heartbeat of what it knows: the one after that comes too late for the other.
	q "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and application_name = 'jobrun'" >/dev/null
	before=$(field "$id" locked_until)
	release_holds
	wait_until 20 q_is t "select locked_until > '$before' from jobrun.job_runs where id = $id"
	touch "$TMPDIR/go"
	wait_until 10 run_is "$id" succeeded
	assert_equal "$(standing "$id")" 'succeeded|1|1|0|0'
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$(cat "$runner_err")" ''
}

@test "a claim's answer that is read too late starts nothing and counts as no release" {
	slow_claim work
	id=$(enqueue work --max-attempts 1)
	# It has been released as often as it may be: one more would be its end.
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select $id, n, 1, 'released' from generate_series(1, 3) n" \
		"update jobrun.job_runs set claim_seq = 3, releases = 3 where id = $id"
	bg_runner --for 60s --lease 6s --heartbeat 1s
	wait_until 10 slow_claim_lasts 0
	kill -STOP "$runner_pid"
	end_slow_claim
	# A handler of this claim would have to stop after 5 s: then the answer is read too late for a start.
	wait_until 20 q_is t "select now() > started_at + interval '5 s' from jobrun.job_runs where id = $id and status = 'running'"
	kill -CONT "$runner_pid"
	wait_until 10 run_is "$id" succeeded
	assert_equal "$(standing "$id")" 'succeeded|1|5|3|3'
	assert_equal "$(beginnings "$id")" 1
	kill -TERM "$runner_pid"
	wait_runner
}

@test "a claim that its runner gave up on takes nothing when it arrives later" {
	waiting_handler slow
	first=$(enqueue slow)
	proxy hold 1
	bg_runner -d "$proxied" --for 60s --lease 30s -j 1
	wait_until 10 test -e "$cut_file"
	wait_until 10 up_is 1
	second=$(enqueue slow --max-attempts 1)
	touch "${cut_file%/*}/go"
	wait_until 10 test -e "${cut_file%/*}/arrived"
	assert_equal "$(standing "$second")" 'queued|0|0|0|0'
	touch "$TMPDIR/go"
	wait_until 10 run_is "$second" succeeded
	assert_equal "$(standing "$first")" 'succeeded|1|1|0|0'
	assert_equal "$(standing "$second")" 'succeeded|1|1|0|0'
	kill -TERM "$runner_pid"
	wait_runner
}

@test "a late copy of a request does not lower the number below which claims are void" {
	id=$(enqueue work)
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')" \
		"prepare void(bigint, bigint) as $(cat "$TOP/lib/sql/claims_void.sql")" 'execute void(77, 2)' 'execute void(77, 1)'
	claim="jobrun.claim(77, 'other', 1, '{work}', '{default}', '{100}', null, null, null, 60000,"
	q_is 0 "select count(*) from $claim 2)"
	q_is 1 "select count(*) from $claim 3)"
	q "update jobrun.job_runs set locked_until = now() where id = $id"
	other_host
}

@test "a claim that arrives after its runner has ended takes nothing" {
	first=$(enqueue work)
	proxy hold 1
	bg_runner -d "$proxied" --lease 6s
	wait_runner
	assert_equal "$runner_status" 0
	run_is "$first" succeeded
	second=$(enqueue work --max-attempts 1)
	touch "${cut_file%/*}/go"
	wait_until 10 test -e "${cut_file%/*}/arrived"
	assert_equal "$(standing "$second")" 'queued|0|0|0|0'
}

@test "a claim that arrives after the row of its runner is gone takes nothing" {
	id=$(enqueue work --max-attempts 1)
	proxy hold 1
	bg_runner -d "$proxied" --lease 6s
	wait_until 10 test -e "$cut_file"
	kill -KILL "$runner_pid"
	wait_runner
	q 'delete from jobrun.job_runners'
	touch "${cut_file%/*}/go"
	wait_until 10 test -e "${cut_file%/*}/arrived"
	assert_equal "$(standing "$id")" 'queued|0|0|0|0'
}

@test "a run that was started is not adopted after a self-fence: it is lost and charged" {
	handler long <<<'echo "$JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/began"; exec sleep 60'
	slow_claim work
	long=$(enqueue long --max-attempts 1)
	bg_runner --for 60s --lease 6s -j 2 -v
	wait_until 10 run_is "$long" running
	hold "select from jobrun.job_runs where id = $long for update"
	wait_until 20 grep -q lease_lost "$runner_err"
	id=$(enqueue work)
	wait_until 20 grep -q adopt_failed "$runner_err"
	end_slow_claim
	wait_until 20 run_is "$id" succeeded
	release_holds
	wait_until 20 run_is "$long" dead
	assert_equal "$(standing "$long")" 'dead|1|1|0|1'
	assert_equal "$(beginnings "$long")" 1
	kill -TERM "$runner_pid"
	wait_runner
}

# refuse N [SQLSTATE]: the server refuses a runner's N-th giving up, and the later ones; not that of its goodbye.
refuse() {
	q 'create sequence public.voids' \
		"create function public.refuse() returns trigger language plpgsql as \$\$ begin
			if nextval('public.voids') >= $1 then raise exception 'refused' using errcode = '${2:-P0001}'; end if;
			return new;
		end \$\$" \
		"create trigger refuse before update of claims_void on jobrun.job_runners for each row when (new.finished_at is null)
			execute function public.refuse()"
}

@test "a runner that ends gives back the runs that it never started" {
	id=$(enqueue work --max-attempts 1)
	refuse 1
	proxy claim 1
	jr run -d "$proxied" --lease 6s
	assert_file_exist "$cut_file"
	assert [ "$status" -ne 0 ]
	assert_equal "$(standing "$id")" 'queued|0|1|0|0'
	q 'drop trigger refuse on jobrun.job_runners'
	jr_ok run
	assert_equal "$(standing "$id")" 'succeeded|1|2|0|0'
}

@test "a runner that ends gives back all that it never started, however much, except rows that others keep locked" {
	sql_handler set <<<'select 1'
	settings set <<<'{"batch": 100}'
	jr_ok queue default --per-key none
	q "select count(jobrun.enqueue('set', max_attempts => 1)) from generate_series(1, 100)" >/dev/null
	refuse 4
	proxy doubt 4
	bg_runner -d "$proxied" --lease 9s
	wait_until 10 test -e "$cut_file"
	hold 'select from jobrun.job_runs where id = 7 for update'
	wait_runner
	assert [ "$(wc -c <"${cut_file%/*}/doubts")" -ge 4 ]
	assert [ "$runner_status" -ne 0 ]
	q_is 'queued|0|99
running|1|1' 'select status, attempts, count(*) from jobrun.job_runs where claim_seq = 1 group by 1, 2 order by 1'
	release_holds
	q 'drop trigger refuse on jobrun.job_runners'
	q "update jobrun.job_runs set locked_until = now() where id = 7"
	jr_ok run || true
}

@test "a runner that ends says so when it leaves a run that it never started to its lease, since somebody has locked the row" {
	id=$(enqueue work)
	refuse 1 55P03
	proxy claim 1
	bg_runner -d "$proxied" --lease 9s -v
	wait_until 20 grep -q adopt_failed "$runner_err"
	hold "select from jobrun.job_runs where id = $id for update"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 75
	assert_regex "$(tail -n 1 "$runner_err")" '^jobrun: could not give back all runs of a claim that was not answered.*jobrun list --status running$'
	run_is "$id" running
	release_holds
	q 'drop trigger refuse on jobrun.job_runners' "update jobrun.job_runs set locked_until = now() where id = $id"
	jr_ok run
}

@test "a runner that ends leaves a run that was started to its lease" {
	handler long <<<'echo "$JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/began"; exec sleep 60'
	waiting_handler other
	long=$(enqueue long)
	enqueue other >/dev/null
	bg_runner --lease 6s -j 2
	wait_until 10 up_is 1
	wait_until 10 run_is "$long" running
	hold "select from jobrun.job_runs where id = $long for update"
	wait_until 20 grep -q lease_lost "$runner_err"
	release_holds
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$(standing "$long")" 'running|1|1|0|0'
	wait_until 10 lease_has_ended "$long"
	other_host
	assert_equal "$(standing "$long")" 'failed|1|1|0|1'
}

# settle_unstarted ID: as a runner with the id 77 would.
settle_unstarted() {
	q "prepare settle as $(cat "$TOP/lib/sql/settle.sql")" "execute settle('{$1}', '{$(field "$1" claim_seq)}',
		'{77}', '{unstarted}', '{0}', '{null}', '{null}', '{null}', '{null}', '{null}', '{null}', '{null}', '{0}', '{null}', '{null}', '{null}')"
}

@test "a run that is given back unstarted waits as before, and is cancelled if somebody asked for that" {
	id=$(waiting_run)
	begin_attempt "$id"
	end_attempt "$id" failed failed '' 0 'no luck'
	before=$(field "$id" 'attempts, snoozes, releases, run_at, last_error, failed_at')
	begin_attempt "$id"
	settle_unstarted "$id"
	assert_equal "$(field "$id" 'attempts, snoozes, releases, run_at, last_error, failed_at')" "$before"
	q_is 'queued|2|1' "select status, claim_seq, (select count(*) from jobrun.job_attempts) from jobrun.job_runs"
	begin_attempt "$id"
	jr_ok cancel "$id"
	settle_unstarted "$id"
	q_is 'cancelled|1|3|1' "select status, attempts, claim_seq, (select count(*) from jobrun.job_attempts) from jobrun.job_runs"
	settle_unstarted "$id"
	q_is 'cancelled|1' "select status, attempts from jobrun.job_runs"
}

@test "--max-runs counts starts only, neither runs that are given back nor housekeeping" {
	slow_claim jobrun.prune
	q "insert into jobrun.job_runs (job_type, queue) values ('jobrun.prune', 'jobrun')"
	bg_runner --max-runs 2 --lease 3s -v
	wait_until 10 slow_claim_lasts 0
	for _ in 1 2 3 4; do
		enqueue work >/dev/null
	done
	wait_until 20 slow_claim_lasts 3
	end_slow_claim
	wait_runner
	assert_equal "$runner_status" 0
	grep -q 'unstarted.*jobrun.prune' "$runner_err"
	q_is 2 "select count(*) from jobrun.job_runs where job_type = 'work' and status = 'succeeded'"
}

@test "--job says so when the answer to its claim came too late to start the run" {
	slow_claim work
	id=$(enqueue work --max-attempts 1)
	bg_runner --job "$id" --lease 3s
	wait_until 20 slow_claim_lasts 3
	end_slow_claim
	wait_runner
	assert_equal "$runner_status" 75
	grep -qxF "jobrun: run $id was not started: the claim was answered too late to start" "$runner_err"
	assert_equal "$(standing "$id")" 'queued|0|1|0|0'
	assert_not_exist "$TMPDIR/began"
}
