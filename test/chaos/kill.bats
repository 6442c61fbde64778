#!/usr/bin/env bats
# Random SIGKILLs of runners in a loop of `jobrun --once`: nothing is lost and no late result is accepted.
#
# CHAOS_SECONDS (60) is how long (`make chaos` gives the test time for it), CHAOS_SEED what to repeat. The witnesses are not jobrun's: handlers append what they
# did to files, and a trigger writes down every accepted change of a run.

load ../lib/common
load ../lib/chaos

setup() {
	chaos_setup
	witness
	handlers
}

# Every change of a run, by whomever.
witness() {
	q <<-'sql'
		create table public.trace (at timestamptz default clock_timestamp(), run_id bigint, old_status text, new_status text,
			old_seq bigint, new_seq bigint, attempts bigint, old_until timestamptz, pid integer default pg_backend_pid());
		create function public.trace() returns trigger language plpgsql as $$
		begin
			if old.status <> new.status or old.claim_seq <> new.claim_seq then
				insert into public.trace (run_id, old_status, new_status, old_seq, new_seq, attempts, old_until)
				values (new.id, old.status, new.status, old.claim_seq, new.claim_seq, new.attempts, old.locked_until);
			end if;
			return null;
		end $$;
		create trigger trace after update on jobrun.job_runs for each row execute function public.trace();
	sql
}

# Most are quick, some take longer than a lease of two seconds, some fail, some do not die when asked.
handlers() {
	handler quick <<-'sh'
		echo "begin $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
		echo "end $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
	sh
	handler slow <<-'sh'
		echo "begin $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
		sleep 0.4
		echo "end $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
	sh
	handler long <<-'sh'
		trap '' TERM
		echo "begin $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
		for i in 1 2 3 4 5; do sleep 0.5; done
		echo "end $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
	sh
	handler flaky <<-'sh'
		echo "begin $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
		[ $(($$ % 3)) -ne 0 ] || exit 1
		[ $(($$ % 7)) -ne 0 ] || exit 75
		echo "end $JOBRUN_RUN_ID $JOBRUN_CLAIM" >> "$TMPDIR/ledger"
	sh
}

# One host: ticks as fast as they come, until the file `stop` is there.
host() {
	while [ ! -e "$TMPDIR/stop" ]; do
		"$JOBRUN" --once --lease 2s -j 3 --state-dir "$TMPDIR/host$1" --max-runtime 5s >>"$TMPDIR/host$1.log" 2>&1 || true
		sleep 0.1 # a pause between ticks, as cron makes one
	done 2>/dev/null # the shell's word on each kill
}

feed() {
	q "select jobrun.enqueue(t, max_attempts => 1000, backoff_base => '200 ms', backoff_cap => '1 s')
		from unnest(array['quick', 'quick', 'quick', 'slow', 'slow', 'flaky', 'long']) t" >/dev/null
}

# Kill one runner of this test, chosen at random; says so in the file `kills`.
kill_one() {
	local pids pid

	mapfile -t pids < <(pgrep -f "^$JOBRUN --once .*$TMPDIR/host" || true)
	[ "${#pids[@]}" -gt 0 ] || return 0
	pid=${pids[$((RANDOM % ${#pids[@]}))]}
	kill -KILL "$pid" 2>/dev/null && echo "$pid" >>"$TMPDIR/kills"
	return 0
}

# For so many seconds, and longer where the host has so much else to do that there were few kills.
disturb() {
	local until=$((SECONDS + seconds)) n=0

	RANDOM=$seed
	: >"$TMPDIR/kills"
	while [ "$SECONDS" -lt "$until" ] ||
		{ [ "$(wc -l <"$TMPDIR/kills")" -lt "$((seconds / 2))" ] && [ "$SECONDS" -lt "$((until + 4 * seconds))" ]; }; do
		[ $((n++ % 8)) -ne 0 ] || feed
		kill_one
		sleep "0.$((RANDOM % 30 + 10))" # the time between two kills
	done
}

# Complaints of the witnesses.
judge() {
	awk '{ print $1 "|" $2 "|" $3 }' "$TMPDIR/ledger" >"$TMPDIR/ledger.csv"
	q <<-sql
		create table public.ledger (what text, run_id bigint, claim_seq bigint);
		\copy public.ledger from '$TMPDIR/ledger.csv' with (format csv, delimiter '|')
		select 'not ended: ' || id from jobrun.job_runs where finished_at is null;
		select 'succeeded without an end of that claim: ' || id from jobrun.job_runs r where status = 'succeeded'
			and not exists (select from public.ledger l where l.what = 'end' and l.run_id = r.id and l.claim_seq = r.claim_seq);
		select 'a claim began twice: ' || run_id || ' ' || claim_seq from public.ledger where what = 'begin'
			group by run_id, claim_seq having count(*) > 1;
		select 'claim_seq did not rise by one: ' || run_id from public.trace where new_status = 'running' and new_seq <> old_seq + 1;
		select 'claim_seq rose outside a claim: ' || run_id from public.trace where new_status <> 'running' and new_seq <> old_seq;
		select 'a final state was left: ' || run_id from public.trace where old_status in ('succeeded', 'dead', 'cancelled');
		select 'ended twice: ' || run_id || ' ' || old_seq from public.trace where old_status = 'running'
			group by run_id, old_seq having count(*) > 1;
		select 'ended without being held: ' || run_id from public.trace where new_status = 'succeeded' and old_status <> 'running';
	sql
}

@test "with random SIGKILLs nothing is lost or invented, and no late result is accepted" {
	start_hosts 3
	disturb
	touch "$TMPDIR/stop"
	wait_until 120 drained --lease 2s -j 8
	wait "${hosts[@]}"
	complaints=$(judge)
	echo "# seed $seed: $(wc -l <"$TMPDIR/kills") kills in ${seconds}s, $(q 'select count(*) from jobrun.job_runs') runs," \
		"$(q 'select sum(claim_seq) from jobrun.job_runs') claims," \
		"$(q "select count(*) from jobrun.job_attempts where outcome = 'lost'") lost and repeated," \
		"$(wc -l <<<"${complaints:-}" | sed "s/^1\$/$([ -z "$complaints" ] && echo 0 || echo 1)/") complaints" >&3
	assert_equal "$complaints" ''
	[ "$(wc -l <"$TMPDIR/kills")" -ge "$((seconds / 2))" ]
}
