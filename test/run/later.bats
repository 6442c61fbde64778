#!/usr/bin/env bats
# "Later", which is exit 75: how long each wait is, how many there may be, and that a run for which it never ends is dead.

load ../lib/common

# Each delay that a settle gave, by the database's own clock.
trace() {
	q <<-'sql'
		create table public.trace (n bigint generated always as identity, snoozes bigint, attempts bigint, status text, delay double precision);
		create function public.trace() returns trigger language plpgsql as $$
		begin
			insert into public.trace (snoozes, attempts, status, delay)
			values (new.snoozes, new.attempts, new.status, extract(epoch from new.run_at - now()));
			return null;
		end $$;
		create trigger trace after update on jobrun.job_runs for each row when (old.status = 'running') execute function public.trace();
	sql
}

# run_until_final ID MOST: how many times it was started, and not more often than MOST.
run_until_final() {
	local n

	for ((n = 0; n < $2; n++)); do
		q_is 0 "select count(*) from jobrun.job_runs where id = $1 and finished_at is not null" 2>/dev/null || break
		"$JOBRUN" run --job "$1" 2>/dev/null || true
	done
	echo "$n"
}

@test "a handler that always says later, with one attempt, is dead after 50 starts, each a longer wait after the other" {
	trace
	handler never <<<'exit 75'
	id=$(enqueue never --max-attempts 1 --backoff 1s,1m)
	assert_equal "$(run_until_final "$id" 60)" 50
	q_is 'dead|1|49|0|50|exit:75' "select status, attempts, snoozes, releases, claim_seq, error_code from jobrun.job_runs"
	q_is 50 "select count(*) from jobrun.job_attempts"
	# The n-th wait is between half of min(cap, base * 2^(n-1)) and the whole of it.
	q_is '' "select n, snoozes, delay from trace where status = 'queued'
		and (snoozes <> n or delay not between least(60, 2 ^ (n - 1)) / 2 and least(60, 2 ^ (n - 1)) or attempts <> 0)"
	q_is 49 "select count(*) from trace where status = 'queued'"
}

@test "with more attempts each further later is charged, and the last attempt ends the run" {
	handler never <<<'exit 75'
	id=$(enqueue never --max-attempts 3 --backoff 1h)
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select $id, s, 1, 'later' from generate_series(1, 49) s" \
		"update jobrun.job_runs set claim_seq = 49, snoozes = 49"
	assert_equal "$(run_until_final "$id" 10)" 3
	q_is 'dead|3|49|52' "select status, attempts, snoozes, claim_seq from jobrun.job_runs"
}

@test "later and releases are counted apart: a run that has used up the one still has the other" {
	handler waits <<-'sh'
		[ -e "$TMPDIR/later" ] && exit 75
		touch "$TMPDIR/started"
		exec sleep 60
	sh
	id=$(enqueue waits --backoff 1h)
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select $id, s, 1, 'later' from generate_series(1, 49) s" \
		"update jobrun.job_runs set claim_seq = 49, snoozes = 49"
	bg_runner --grace 0
	wait_until 10 test -e "$TMPDIR/started"
	kill -TERM "$runner_pid"
	wait_runner
	q_is 'queued|0|49|1' "select status, attempts, snoozes, releases from jobrun.job_runs"
	touch "$TMPDIR/later"
	jr_ok run --job "$id"
	q_is 'failed|1|49|1' "select status, attempts, snoozes, releases from jobrun.job_runs"
	# People's retry gives all of them back.
	jr_ok retry "$id"
	q_is 'queued|0|0|0|51' "select status, attempts, snoozes, releases, claim_seq from jobrun.job_runs"
	jr_ok run --job "$id"
	q_is 'queued|0|1' "select status, attempts, snoozes from jobrun.job_runs"
}

@test "a handler's own delay never shortens the wait, and is at most a day" {
	trace
	handler asks <<'sh'
printf '{"retry_in": "%s"}\n' "$(cat)" | tr -d '\n"' | sed 's/{retry_in: *\(.*\)}/{"retry_in": "\1"}/' >>"$JOBRUN_OUT"
exit 75
sh
	short=$(enqueue asks '"1s"' --backoff 1h,1h)
	long=$(enqueue asks '"30d"' --backoff 1s,1s)
	jr_ok run --job "$short"
	jr_ok run --job "$long"
	q_is 't|t' "select (array_agg(delay order by n))[1] between 1800 and 3600, (array_agg(delay order by n))[2] = 86400 from trace"
}
