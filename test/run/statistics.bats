#!/usr/bin/env bats
# What a command reads does not grow with job_runs while the planner believes that the table is empty. ANALYZE says so if no
# row was live: after a batch that was rolled back, or beside one that has not committed.

load ../lib/common

# 5,000 runs that have ended, with their attempts, then 5,000 that wait.
setup() {
	common_setup
	handler work <<<:
	q "insert into jobrun.job_runs (job_type, status, run_at, started_at, finished_at, attempts, max_attempts, claim_seq, error_code)
			select 'work', 'dead', now(), now(), now(), 1, 1, 1, 'exit' from generate_series(1, 5000)" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, started_at, finished_at)
			select r.id, r.claim_seq, 1, 'dead', r.started_at, r.finished_at from jobrun.job_runs r" \
		"insert into jobrun.job_runs (job_type, run_at) select 'work', now() - interval '1 hour' from generate_series(1, 5000)" \
		'alter table jobrun.job_runs set (autovacuum_enabled = off)' 'alter table jobrun.job_attempts set (autovacuum_enabled = off)' \
		'analyze jobrun.job_runs' 'analyze jobrun.job_attempts' \
		"delete from pg_statistic where starelid in ('jobrun.job_runs'::regclass, 'jobrun.job_attempts'::regclass)" \
		"update pg_class c set reltuples = 0 from pg_index i where c.oid in (i.indrelid, i.indexrelid)
			and i.indrelid in ('jobrun.job_runs'::regclass, 'jobrun.job_attempts'::regclass)"
}

teardown() {
	common_teardown
}

# rows_read: how many rows of these tables and of their archive have been read so far, by an index or a scan. It waits until no
# other session can add any.
rows_read() {
	wait_until 10 is_alone
	q "select sum(coalesce(t.idx_tup_fetch, 0) + t.seq_tup_read) from pg_stat_user_tables t
		where t.relname ~ '^job_(runs|attempts)' and t.schemaname = 'jobrun'"
}

# reads MOST ARGUMENT...: jobrun with these arguments reads no more rows than that.
reads() {
	local most=$1 before n

	before=$(rows_read)
	jr_ok "${@:2}" -d "$(past_pooler)"
	n=$(($(rows_read) - before))
	[ "$n" -le "$most" ] || fail "jobrun ${*:2} has read $n rows"
}

@test "heartbeats, progress, and the end of a runner find their runs by id, whatever statistics say" {
	handler slow <<-'sh'
		echo '{"progress": 1}' >>"$JOBRUN_OUT"
		sleep 2.5
	sh
	for ((i = 0; i < 7; i++)); do
		enqueue slow --priority 1 >/dev/null
	done
	enqueue slow --priority 1 --unique one >/dev/null
	reads 1500 run -j 8 --type slow --lease 4s --heartbeat 1s
	q_is 'succeeded|1|8' "select status, progress, count(*) from jobrun.job_runs where job_type = 'slow' group by 1, 2"
}

@test "what people ask reads each run a few times at most, whatever statistics say" {
	reads 1000 list
	reads 1000 list --waiting
	reads 1000 show 5001
	reads 2000 explain 5001
	reads 5000 run -n
	reads 50000 stats
	reads 50000 metrics
	reads 100000 report
}

@test "housekeeping finds the attempts of a run by its id, whatever statistics say" {
	for archive in false true; do
		q "update jobrun.settings set archive = $archive" \
			"update jobrun.job_runs set finished_at = now() - interval '1 year' where id in (select r.id from jobrun.job_runs r where r.status = 'dead'
				order by r.id limit 500)"
		reads 5000 prune
	done
	q_is '4000|4000' "select (select count(*) from jobrun.job_runs where status = 'dead'), (select count(*) from jobrun.job_attempts)"
	q_is '500|500' 'select (select count(*) from jobrun.job_runs_archive), (select count(*) from jobrun.job_attempts_archive)'
}

@test "sums of the runs that ended lately read no others, whatever statistics say" {
	q "update jobrun.job_runs set finished_at = now() - interval '20 days' + id * interval '1 ms', started_at = now() - interval '20 days'
			where status = 'dead' and id > 12" \
		"update jobrun.job_attempts set finished_at = now() - interval '20 days' where run_id > 12" \
		"insert into jobrun.job_runs (job_type, status, run_at, started_at, finished_at, attempts, claim_seq, idempotency_key)
			select 'sums', 'succeeded', now(), now(), now(), 1, 1, nullif('k' || i % 12, 'k0') from generate_series(0, 11) i" \
		"insert into jobrun.job_runs (job_type, status, finished_at) select 'sums', 'cancelled', now() from generate_series(1, 12)" \
		"update jobrun.job_runs set finished_at = date_trunc('hour', now()) - interval '150 minutes'
			where job_type = 'sums' or id <= 12" \
		"update jobrun.job_attempts a set finished_at = r.finished_at from jobrun.job_runs r where r.id = a.run_id and r.id <= 12" \
		"update jobrun.settings set stats_until = date_trunc('hour', now() - interval '5 hours')"
	reads 400 stats --since 6h
	assert_line --regexp '^sums +12 '
	reads 400 prune -n
	assert_line --regexp '^hours summed +1 '
	q "select jobrun.sum_hours(10)"
	q_is 'cancelled|12 dead|12 succeeded|12' "select string_agg(format('%s|%s', outcome, n), ' ' order by outcome) from jobrun.job_stats"
}

@test "retry and cancel find their runs by id, whatever statistics say" {
	reads 100 retry 11 12 13
	# Two that a newer run of their key supersedes.
	q "update jobrun.job_runs set unique_key = 'one' where id in (21, 22)" \
		"update jobrun.job_runs set unique_key = 'one', status = 'succeeded', error_code = null where id = 23" \
		'delete from jobrun.job_attempts where run_id = 23'
	for option in '' -n; do
		jr retry $option 21 22
		assert_equal "$status" 1
		assert_equal "$(grep -c 'by run 23' <<<"$stderr")" 2
	done
	reads 100 retry -n 31 32 33
	reads 100 cancel 5011 5012
	reads 100 cancel -n 5021
	reads 100 retry --type work --limit 10
}

@test "a runner finds what it holds, after a claim whose answer was lost, by id, whatever statistics say" {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'here', 'x')" \
		"update jobrun.job_runs set status = 'running', runner_id = 77, locked_by = 'here', locked_until = now() + interval '1 h',
			started_at = now(), attempts = 1, claim_seq = 1 where id between 6001 and 6008"
	before=$(rows_read)
	q "prepare adopt as $(<"$TOP/lib/sql/adopt.sql")" "execute adopt(77, '{6001}', '{1}', 100)" >held
	assert_equal "$(cut -d '|' -f 1 held | xargs)" '6002 6003 6004 6005 6006 6007 6008'
	assert [ "$(($(rows_read) - before))" -le 200 ]
}

@test "ANALYZE, as autovacuum does it, reads 3,000 rows of a large table; what people have set stays when functions change" {
	for table in job_runs job_attempts; do
		q "analyze verbose jobrun.$table" 2>&1 | grep ' 3000 rows in sample' || fail "another sample of $table"
	done
	# A virtual column, new in PostgreSQL 18, has no target.
	generated=$(q "select case when current_setting('server_version_num')::integer >= 180000 then 'virtual' else 'stored' end")
	q 'alter table jobrun.job_runs alter payload set statistics 20' 'alter table jobrun.job_runs alter result set statistics -1' \
		'alter index jobrun.job_runs_bound alter 4 set statistics 20' 'alter index jobrun.job_runs_bound alter 5 set statistics -1' \
		"alter table jobrun.job_runs add mine text, add twice bigint generated always as (id * 2) $generated" \
		"update jobrun.schema_migrations set version = 0, checksum = 'x' where name = 'functions'"
	jr_ok migrate
	q_is '20|10|20|10|10' "select string_agg(a.attstattarget::text, '|' order by array_position('{payload,result,coalesce,coalesce1,mine}', a.attname::text))
		from pg_attribute a where a.attrelid in ('jobrun.job_runs'::regclass, 'jobrun.job_runs_bound'::regclass)
			and a.attname in ('payload', 'result', 'coalesce', 'coalesce1', 'mine')"
}
