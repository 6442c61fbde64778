#!/usr/bin/env bats
# Random SIGKILLs of runners while statements count: each run that succeeded has counted once, and nothing else has.
#
# CHAOS_KILLS (1000) is how many, CHAOS_SEED what to repeat. A runner is killed 5 to 150 ms after its start, so in every
# phase: while it connects, claims, in the statement, in COMMIT, and between all of them.

load ../lib/common
load ../lib/sql

HOSTS=2

setup() {
	common_setup
	kills=${CHAOS_KILLS:-1000}
	seed=${CHAOS_SEED:-$$}
	q 'create table counter (name text primary key, n bigint not null)' \
		"insert into counter values ('one', 0), ('many', 0), ('slow', 0)"
	sql_handler one <<<"update counter set n = n + 1 where name = 'one'"
	sql_handler slow <<<"with s as materialized (select pg_sleep(0.02)) update counter set n = n + 1 from s where name = 'slow'"
	sql_handler many <<<"update counter set n = n + jsonb_array_length(\$1) where name = 'many'"
	settings many <<<'{"batch": 20}'
}

feed() {
	q "select jobrun.enqueue(t, max_attempts => 1000, backoff_base => '100 ms', backoff_cap => '500 ms')
		from unnest(array['one', 'one', 'slow', 'many', 'many', 'many', 'many', 'many']) t, generate_series(1, 15)
		where (select count(*) from jobrun.job_runs where finished_at is null) < 300" >/dev/null
}

# One host: starts runners and kills them, until its share is done. A runner that had ended before counts for nothing.
host() {
	local number=$1 share=$((kills / HOSTS)) done=0 tries=0 pid

	RANDOM=$((seed + number))
	while [ "$done" -lt "$share" ]; do
		[ $((tries++ % 10)) -ne 0 ] || feed
		"$JOBRUN" run --lease 2s --sql-jobs 3 --state-dir "$TMPDIR/host$number" >>"$TMPDIR/host$number.log" 2>&1 &
		pid=$!
		sleep "0.$(printf '%03d' $((RANDOM % 146 + 5)))"
		if kill -KILL "$pid"; then
			done=$((done + 1))
			echo "$pid" >>"$TMPDIR/kills"
		fi
		wait "$pid" || true
	done 2>/dev/null # the shell's word on each kill
}

drained() {
	"$JOBRUN" run --lease 2s --state-dir "$TMPDIR/last" >>"$TMPDIR/last.log" 2>&1 || true
	q_is 0 "select count(*) from jobrun.job_runs where finished_at is null"
}

@test "random SIGKILLs: the counter is the number of runs that succeeded" {
	hosts=()
	for i in $(seq "$HOSTS"); do
		host "$i" 3>&- 4>&- &
		hosts+=("$!")
	done
	wait "${hosts[@]}"
	wait_until 120 drained
	echo "# seed $seed: $(wc -l <"$TMPDIR/kills") kills, $(q "select count(*), sum(claim_seq) from jobrun.job_runs" | sed 's/|/ runs, /') claims," \
		"$(q "select count(*) from jobrun.job_attempts where outcome = 'lost'") lost and repeated; counted" \
		"$(q "select string_agg(name || ' ' || n, ', ' order by name) from counter")" >&3
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded'"
	assert_equal "$(q 'select name, n from counter order by name')" \
		"$(q "select job_type, count(*) from jobrun.job_runs where status = 'succeeded' group by job_type order by job_type")"
	[ "$(wc -l <"$TMPDIR/kills")" -ge "$((kills / HOSTS * HOSTS))" ]
	# The kills must have met work, or nothing was shown.
	[ "$(q "select count(*) from jobrun.job_attempts where outcome = 'lost'")" -ge "$((kills / 10))" ]
}
