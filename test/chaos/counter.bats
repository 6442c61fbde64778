#!/usr/bin/env bats
# Random SIGKILLs of runners while statements count: each run that succeeded has counted once, and nothing else has.
#
# CHAOS_KILLS (1000) is how many, CHAOS_SEED what to repeat. A runner is killed 5 to 150 ms after its start, so in every
# phase: while it connects, claims, in the statement, in COMMIT, and between all of them. A machine may be so slow that a
# runner has claimed nothing by then; the kills are then done again, later after each start.

load ../lib/common
load ../lib/sql
load ../lib/chaos

HOSTS=2

setup() {
	chaos_setup
	kills=${CHAOS_KILLS:-1000}
	latest_ms=150
	q 'create table counter (name text primary key, n bigint not null)' \
		"insert into counter values ('one', 0), ('many', 0), ('slow', 0)"
	sql_handler one <<<"update counter set n = n + 1 where name = 'one'"
	sql_handler slow <<<"with s as materialized (select pg_sleep(0.02)) update counter set n = n + 1 from s where name = 'slow'"
	sql_handler many <<<"update counter set n = n + jsonb_array_length(\$1) where name = 'many'"
	settings many <<<'{"batch": 20}'
	q 'create table effects (run_id bigint)' \
		"insert into jobrun.job_definitions (name, job_type, on_dead) values ('verdicts', 'verdicts', 'alarm')"
	sql_handler alarm <<<'select 1'
	settings verdicts <<<'{"batch": 20}'
	sql_handler verdicts <<-'sql'
		with i as (insert into effects select (e ->> 'run_id')::bigint from jsonb_array_elements($1) e returning run_id)
		select run_id, (array['done', 'done', 'later', 'fail', 'give_up'])[ceil(random() * 5)], 'said so' from i
	sql
}

feed() {
	q "select jobrun.enqueue(t, max_attempts => 1000, backoff_base => '100 ms', backoff_cap => '500 ms')
		from unnest(array['one', 'one', 'slow', 'many', 'many', 'many', 'verdicts', 'verdicts']) t, generate_series(1, 15)
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
		sleep "$(printf '0.%03d' $((RANDOM % (latest_ms - 4) + 5)))"
		if kill -KILL "$pid"; then
			done=$((done + 1))
			echo "$pid" >>"$TMPDIR/kills"
		fi
		wait "$pid" || true
	done 2>/dev/null # the shell's word on each kill
}

# met_work: has each tenth kill met a runner with a claim? Such a run is lost, or still running when all hosts have ended.
met_work() {
	[ "$(q "select (select count(*) from jobrun.job_attempts where outcome = 'lost')
		+ (select count(*) from jobrun.job_runs where status = 'running')")" -ge "$((kills / 10))" ]
}

@test "with random SIGKILLs each run that succeeded has counted once" {
	start_hosts "$HOSTS"
	wait "${hosts[@]}"
	until met_work || [ "$latest_ms" -gt 450 ]; do
		latest_ms=$((latest_ms * 2))
		start_hosts "$HOSTS"
		wait "${hosts[@]}"
	done
	wait_until 120 drained --lease 2s
	echo "# seed $seed: $(wc -l <"$TMPDIR/kills") kills, $(q "select count(*), sum(claim_seq) from jobrun.job_runs" | sed 's/|/ runs, /') claims," \
		"$(q "select count(*) from jobrun.job_attempts where outcome = 'lost'") lost and repeated; counted" \
		"$(q "select string_agg(name || ' ' || n, ', ' order by name) from counter")" >&3
	q_is 0 "select count(*) from jobrun.job_runs where status <> 'succeeded' and job_type <> 'verdicts'"
	# Each end that a set has written came with its effect, and each effect with an end; each death with its alarm.
	q_is 0 "select count(*) from jobrun.job_runs r where r.job_type = 'verdicts' and (select count(*) from effects e where e.run_id = r.id)
		<> (r.status = 'succeeded')::integer + (select count(*) from jobrun.job_attempts a
			where a.run_id = r.id and a.error_code in ('sqlstate:JR075', 'sqlstate:P0001', 'sqlstate:JR065'))"
	q_is 0 "select count(*) from jobrun.job_runs r where r.job_type = 'verdicts' and (r.status = 'dead')
		<> exists (select from jobrun.job_runs a where a.job_type = 'alarm' and a.parent_id = r.id)"
	q_is t "select count(*) > 0 from jobrun.job_runs where job_type = 'alarm'"
	assert_equal "$(q 'select name, n from counter order by name')" \
		"$(q "select job_type, count(*) from jobrun.job_runs r join counter c on c.name = r.job_type where r.status = 'succeeded'
			group by job_type order by job_type")"
	[ "$(wc -l <"$TMPDIR/kills")" -ge "$((kills / HOSTS * HOSTS))" ]
	# The kills must have met work, or nothing was shown.
	met_work
}
