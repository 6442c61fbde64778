# shellcheck shell=bash disable=SC2016,SC2154 # it is the handlers that expand their text; common.bash sets runner_pid
#
# Runs: questions about them, handlers for them, and rows that a test writes itself as a runner would.

# --- questions ---

# run_is ID STATUS: is the run in that state?
run_is() {
	q_is "$2" "select status from jobrun.job_runs where id = $1"
}

# running_are N: do so many run?
running_are() {
	q_is "$1" "select count(*) from jobrun.job_runs where status = 'running'"
}

# nothing_is_open: no run is left that has not ended.
nothing_is_open() {
	q_is 0 "select count(*) from jobrun.job_runs where finished_at is null"
}

# field ID COLUMNS
field() {
	q "select $2 from jobrun.job_runs where id = $1"
}

# ended ID: status|attempts|error_code, without the last one where there is none.
ended() {
	field "$1" "concat_ws('|', status, attempts, error_code)"
}

# printed ID: what its attempts printed, oldest first, without the last newline of each.
printed() {
	q "select rtrim(output, E'\n') from jobrun.job_attempts where run_id = $1 order by claim_seq"
}

# untouched ID: the columns that a claim must not change when it leaves the run out.
untouched() {
	field "$1" 'status, attempts, claim_seq, snoozes, releases, run_at, locked_by is null'
}

# by_status: "dead 3, queued 2"
by_status() {
	q "select string_agg(status || ' ' || n, ', ' order by status) from (
		select status, count(*) as n from jobrun.job_runs group by status) s"
}

assert_by_status() {
	assert_equal "$(by_status)" "$1"
}

lease_has_ended() {
	q_is t "select locked_until < now() from jobrun.job_runs where id = $1"
}

# largest FILE: the largest number in it.
largest() {
	sort -n "$1" | tail -n 1
}

# taken_back ID: its runner is gone: its lease ends, and a tick takes it back and does it. For wait_until, since a heartbeat may still have
# been on its way.
taken_back() {
	end_lease "$1"
	run_jobrun run
	run_is "$1" succeeded
}

# end_lease ID: as if it had run out just now.
end_lease() {
	q "update jobrun.job_runs set locked_until = now() - interval '1 second' where id = $1 and status = 'running'"
}

# late_handler NAME STATUS: the N-th claim of its run ends with this exit status when the file $TMPDIR/go.N is there.
late_handler() {
	handler "$1" <<<'echo up >> "$TMPDIR/up"; until [ -e "$TMPDIR/go.$JOBRUN_CLAIM" ]; do sleep 0.05; done; exit '"$2"
}

# late_result NAME ID: a runner whose late_handler has ended, and which is stopped before it can write that. Its lease has run out.
# When it goes on, no heartbeat is due, so the result is the first that it sends: it is the database that refuses it.
late_result() {
	bg_runner --lease 60s -v
	wait_until 10 up_is 1
	find_handler "handlers/$1"
	kill -STOP "$runner_pid"
	touch "$TMPDIR/go.1"
	wait_until 10 is_gone "$handler_pid"
	end_lease "$2"
}

# --- handlers, and a second host ---

# waiting_handler NAME: each of its runs writes a line to $TMPDIR/up, and ends when the file $TMPDIR/go is there.
waiting_handler() {
	handler "$1" <<<'echo up >> "$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
}

# up_is N: have N runs of waiting handlers begun?
up_is() {
	[ -e "$TMPDIR/up" ] && [ "$(wc -l <"$TMPDIR/up")" -eq "$1" ]
}

# typical_handlers: work and plain succeed, give_up is dead at once, again fails.
typical_handlers() {
	handler work <<<'cat; echo " done"'
	handler plain <<<'cat >/dev/null'
	handler give_up <<<'echo first; echo "smtp: no such user" >&2; exit 65'
	handler again <<<'echo broken; exit 1'
}

# other_host ARGUMENT...: a tick of a second host, with permits and state of its own.
other_host() {
	jr run --state-dir "$BATS_TEST_TMPDIR/other" "$@"
}

# ticked_to_success ID: has the run succeeded, if need be by one more tick? For wait_until.
ticked_to_success() {
	run_is "$1" succeeded || { run_jobrun run; run_is "$1" succeeded; }
}

# --- rows as a runner writes them ---

# waiting_run: one of type work that is due; prints its id.
waiting_run() {
	q "insert into jobrun.job_runs (job_type, max_attempts) values ('work', 5) returning id"
}

# begin_attempt ID: a runner has claimed it.
begin_attempt() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'somewhere', 'x') on conflict do nothing" \
		"update jobrun.job_runs set status = 'running', claim_seq = claim_seq + 1, attempts = attempts + 1, runner_id = 77,
		locked_by = 'somewhere', locked_until = now() + interval '1 hour', started_at = now() where id = $1"
}

# end_attempt ID STATUS OUTCOME OUTPUT [DROPPED [ERROR]]
end_attempt() {
	q "with ended as (
			update jobrun.job_runs set status = '$2', locked_until = null, output = null, output_dropped = null,
				finished_at = case when '$2' in ('succeeded', 'dead', 'cancelled') then now() end,
				attempts = attempts - ('$2' = 'queued')::integer, snoozes = snoozes + ('$3' = 'later')::integer,
				last_error = nullif('${6:-}', ''), run_at = now() + interval '1 hour'
			where id = $1 returning *)
		insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, output, output_dropped)
		select id, claim_seq, attempts + ('$2' = 'queued')::integer, '$3', started_at, '$4', ${5:-0} from ended"
}

# dead_runs N TYPE [QUEUE [AGE]]: they died at their first attempt, so long ago.
dead_runs() {
	q "with r as (
		insert into jobrun.job_runs (job_type, queue, status, attempts, claim_seq, started_at, failed_at, finished_at,
			runner_id, locked_by, error_code, last_error)
		select '$2', '${3:-default}', 'dead', 1, 1, now() - interval '${4:-0}', now() - interval '${4:-0}', now() - interval '${4:-0}',
			7, 'there', 'exit:65', 'exit 65: no' from generate_series(1, $1)
		returning id, started_at, finished_at)
	insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, error, started_at, finished_at)
	select id, 1, 1, 'dead', 'exit:65', 'exit 65: no', started_at, finished_at from r"
}

# queued_runs N TYPE [QUEUE [AGE]]: enqueued so long ago, and not due within a day.
queued_runs() {
	q "insert into jobrun.job_runs (job_type, queue, run_at, created_at)
	select '$2', '${3:-default}', now() + interval '1 day', now() - interval '${4:-0}' from generate_series(1, $1)"
}
