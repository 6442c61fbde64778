#!/usr/bin/env bats
# What a claim reads does not grow with what stands ahead of it in the index, and the order of starts is that of the rules.

load ../lib/common
load ../lib/sql

@test "20,000 rows that cannot be claimed ahead of those that can: a claim reads no more pages than without them" {
	"$TOP/scripts/bench/claim" --rows 20000 --times 2 --tsv --database "$(past_pooler)" nothing future paused-queue paused-type \
		foreign-types full-queue spent-rate finished together >costs
	cat costs
	assert_equal "$(wc -l <costs)" 9
	run awk -F '\t' 'NR == 1 { candidates = $3; claim = $5 } $3 > 2 * candidates + 50 || $5 > 2 * claim + 50' costs
	assert_output ''
}

@test "20,000 dead entries that an old snapshot holds: behind them, by its cursor, a claim reads no more pages" {
	"$TOP/scripts/bench/claim" --rows 20000 --times 2 --tsv --database "$(past_pooler)" nothing dead-entries >costs
	cat costs
	run awk -F '\t' 'NR == 1 { claim = $5 } NR == 2 && $5 <= 2 * claim + 50 { print $1 }' costs
	assert_output dead-entries
	# And it was the cursor that did it: who looks from the head, as a new runner does, walks over them once.
	run awk -F '\t' 'NR == 1 { candidates = $3 } NR == 2 && $3 > 10 * candidates { print $1 }' costs
	assert_output dead-entries
}

@test "with one permit runs start by priority, due time and id, across types, queues and kinds" {
	handler program <<-'sh'
		echo "$JOBRUN_RUN_ID" >>"$TMPDIR/started"
	sh
	cp "$JOBRUN_HANDLERS/program" "$JOBRUN_HANDLERS/another"
	q "insert into jobrun.job_queues (name, max_running) values ('limited', 100), ('keyed', null)" \
		"insert into jobrun.job_runs (job_type, queue, priority, run_at, concurrency_key)
		select (array['program', 'another'])[i % 2 + 1], (array['default', 'limited', 'keyed'])[i % 3 + 1], (i * 7 % 4) * 50,
			now() - (i * 11 % 5) * interval '1 minute', case when i % 3 = 2 then 'k' || i % 2 end
		from generate_series(1, 40) i"
	jr_ok run -j 1
	assert_equal "$(cat "$TMPDIR/started")" "$(q "select id from jobrun.job_runs order by priority, run_at, id")"
}
