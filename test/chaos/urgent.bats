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

# watch: in the background until the drain is over; writes down the longest time in which nothing moved, in ms. A delay of the whole
# machine does not make a run late.
watch() {
	q 'create table public.still (ms bigint)'
	client "do \$\$
		declare v_last timestamptz; v_ms bigint := 0;
		begin
			while exists (select from jobrun.job_runs where status = 'queued' and job_type = 'many') loop
				commit; -- a snapshot would keep dead rows
				v_last := clock_timestamp();
				perform pg_sleep(0.02);
				v_ms := greatest(v_ms, floor(extract(epoch from clock_timestamp() - v_last) * 1000));
			end loop;
			insert into public.still values (v_ms);
		end \$\$"
}

@test "an urgent run starts within two seconds in the middle of 200,000 runs, handled a thousand at once" {
	handler urgent <<<:
	sql_handler many <<<"select null::bigint, null::text, null::text where \$1 is null"
	settings many <<<'{"batch": 1000}'
	q "insert into jobrun.job_runs (job_type) select 'many' from generate_series(1, $RUNS)"
	watch
	bg_runner --sql-jobs 2
	send
	wait_runner
	end_client
	assert_equal "$client_status" 0
	still=$(q 'select ms from public.still')
	q_is "$RUNS" "select count(*) from jobrun.job_runs where job_type = 'many' and status = 'succeeded'"
	IFS='|' read -r urgent longest <<<"$(waited)"
	echo "$urgent urgent runs, at most $longest ms; for up to $still ms nothing moved"
	assert_between 2 "$urgent" 1000
	assert_between 0 "$longest" $((2000 * patience + still))
}
