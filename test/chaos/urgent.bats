#!/usr/bin/env bats
# In the middle of a drain of 200,000 runs an urgent one starts within two seconds.

load ../lib/common
load ../lib/sql
load ../lib/chaos

RUNS=200000

setup() {
	chaos_setup
}

# send: enqueue an urgent run every half second, until the drain is over.
send() {
	local last="select count(*) = 0 from jobrun.job_runs where status = 'queued' and job_type <> 'urgent'"

	until [ "$(q "$last")" = t ]; do
		q "select jobrun.enqueue('urgent', priority => -1)" >/dev/null
		sleep 0.5
	done
}

# waited: how long urgent runs waited for their claims in the middle of the drain, in ms: how many, the longest.
waited() {
	q "select count(*), max(floor(extract(epoch from u.started_at - u.created_at) * 1000)) from jobrun.job_runs u
		where u.job_type = 'urgent' and u.created_at < (select max(d.started_at) from jobrun.job_runs d where d.job_type <> 'urgent')"
}

@test "an urgent run starts within two seconds in the middle of 200,000 runs, handled a thousand at once" {
	handler urgent <<<:
	sql_handler many <<<"select null::bigint, null::text, null::text where \$1 is null"
	settings many <<<'{"batch": 1000}'
	q "insert into jobrun.job_runs (job_type) select 'many' from generate_series(1, $RUNS)"
	bg_runner --sql-jobs 2
	send
	wait_runner
	q_is "$RUNS" "select count(*) from jobrun.job_runs where job_type = 'many' and status = 'succeeded'"
	IFS='|' read -r urgent longest <<<"$(waited)"
	echo "$urgent urgent runs, at most $longest ms"
	assert_between 2 "$urgent" 1000
	assert_between 0 "$longest" $((2000 * patience))
}
