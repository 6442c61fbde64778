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

# slow_looks SECONDS: each look for work takes so long. The sequence public.looks counts them; public.longest is the longest time
# from the end of one to the end of the next, in ms, and public.shortest the shortest of those that are 3 s and more.
slow_looks() {
	q <<-sql
		create sequence public.looks;
		create sequence public.longest;
		create sequence public.shortest start 1000000;
		create sequence public.ended start $((${EPOCHREALTIME/[.,]/} / 1000));
		create schema quick;
		alter function jobrun.candidates set schema quick;
		create function jobrun.candidates(job_types text[], queues text[], most bigint, host text default null)
		returns table (job_type text, queue text, priority smallint) language plpgsql as \$\$
		declare
			ended_ms bigint;
		begin
			perform nextval('public.looks'), pg_sleep($1);
			ended_ms := extract(epoch from clock_timestamp()) * 1000;
			perform setval('public.longest', greatest(l.last_value, ended_ms - e.last_value)) from public.longest l, public.ended e;
			perform setval('public.shortest', least(s.last_value, ended_ms - e.last_value)) from public.shortest s, public.ended e
				where ended_ms - e.last_value >= 3000;
			perform setval('public.ended', ended_ms);
			return query select * from quick.candidates(job_types, queues, most, host);
		end \$\$;
	sql
}

@test "a look that takes long, as behind dead entries that an old snapshot holds, is repeated less often in a drain" {
	handler work <<<'sleep 0.5'
	slow_looks 1
	q "select jobrun.enqueue('work') from generate_series(1, 12)" >/dev/null
	jr_ok run -j 1
	q_is 12 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	# at the start, when that one is a second old, and at the end; with a look a second there would be five of them or more
	q_is t 'select last_value between 2 and 4 from public.looks'
}

@test "a look that takes longer than statements may take gets more time, also while something runs, and runs start" {
	handler work <<<:
	handler long <<<'until [ -e "$TMPDIR/go" ]; do sleep 0.1; done'
	slow_looks 4 # a statement has three
	long=$(enqueue long)
	first=$(enqueue work)
	bg_runner -j 2
	wait_until 40 run_is "$first" succeeded
	run_is "$long" running
	second=$(enqueue work)
	wait_until 40 run_is "$second" succeeded
	run_is "$long" running
	touch "$TMPDIR/go"
	wait_runner "$runner_pid" 60
	assert_equal "$runner_status" 0
	q_is 1 "select claim_seq from jobrun.job_runs where id = $long"
}

@test "an urgent run starts in the middle of a drain also if looks take long: one is good for ten seconds at most" {
	handler work <<<'sleep 0.5'
	handler urgent <<<:
	slow_looks 1.5
	q "select jobrun.enqueue('work') from generate_series(1, 36)" >/dev/null
	bg_runner -j 1
	wait_until 20 q_is t "select count(*) > 4 from jobrun.job_runs where status = 'succeeded'"
	id=$(q "select jobrun.enqueue('urgent', priority => 1)")
	wait_runner
	run_is "$id" succeeded
	# some 20 start in that time; if it were 10 times 1.5 s, more than 30
	q_is t "select count(*) < 31 from jobrun.job_runs w join jobrun.job_runs u on u.id = $id and w.started_at < u.started_at"
}

@test "a look of 0.3 s is good for three seconds of a drain, not for six" {
	handler work <<<'sleep 0.5'
	slow_looks 0.3
	q "select jobrun.enqueue('work') from generate_series(1, 16)" >/dev/null
	jr_ok run -j 1
	q_is 16 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	# A busy machine may be late with one of them.
	q_is t 'select l.last_value >= 3000 and s.last_value <= 5500 from public.longest l, public.shortest s'
}

@test "due runs of one full lock key, or of a paused definition, before the others: eight times as many cost a claim no more" {
	"$TOP/scripts/bench/claim" --rows 5000 --times 2 --tsv --database "$(past_pooler)" full-key full-key-others paused-definition >few
	"$TOP/scripts/bench/claim" --rows 40000 --times 2 --tsv --database "$(past_pooler)" full-key full-key-others paused-definition >many
	cat few many
	run awk -F '\t' 'NR == FNR { claim[$1] = $5; next } $5 > 1.5 * claim[$1] + 100' few many
	assert_output ''
}

# claimed N [TYPES QUEUES PRIORITIES]: what a claim of N takes, oldest first.
claimed() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x') on conflict do nothing"
	q "begin; select string_agg(c.payload, ' ' order by c.id) from jobrun.claim(77, 'other', $1, '${2:-{work\}}', '${3:-{default\}}',
		'${4:-{100\}}', null, null, null, 60000, 1) c; rollback"
}

@test "no number of runs of a full lock key or a paused definition hides those that are due after them" {
	q "insert into jobrun.job_queues (name) values ('default')" \
		"insert into jobrun.job_definitions (id, name, job_type, paused_until) overriding system value
			values (101, 'paused', 'work', 'infinity'), (102, 'other', 'work', null)" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key, definition_id)
		select 'work', now() - interval '1 hour', '\"ahead\"', case when i % 2 = 0 then 'k' end, case when i % 2 = 1 then 101 end
		from generate_series(1, 24000) i" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key, definition_id) values
			('work', now() - interval '9 minutes', '\"free\"', null, null), ('work', now() - interval '8 minutes', '\"its own\"', 'l', null),
			('work', now() - interval '7 minutes', '\"the same key\"', 'k', null), ('work', now() - interval '6 minutes', '\"other\"', null, 102),
			('work', now() - interval '5 minutes', '\"paused, too\"', 'm', 101), ('work', now() + interval '1 hour', '\"later\"', 'n', null)"
	# The first of the key may start; then it is full.
	assert_equal "$(claimed 9)" '"ahead" "free" "its own" "other"'
	assert_equal "$(claimed 2)" '"ahead" "free"'
	q "insert into jobrun.job_runs (job_type, concurrency_key, status, locked_until, runner_id, locked_by, started_at, attempts, claim_seq)
		values ('work', 'k', 'running', now() + interval '1 hour', 78, 'other', now(), 1, 1)"
	assert_equal "$(claimed 9)" '"free" "its own" "other"'
	assert_equal "$(claimed 1)" '"free"'
	# Without limits of the queue only the paused definition holds runs back.
	q "update jobrun.job_queues set max_running_per_key = null" "delete from jobrun.job_runs where concurrency_key = 'k'"
	assert_equal "$(claimed 9)" '"free" "its own" "other"'
	q "delete from jobrun.job_runs where job_type = 'work' and status = 'running'"
}

@test "more full lock keys than a turn of a claim steps over: what is due after them is found" {
	q "insert into jobrun.job_queues (name, max_running_per_key) values ('default', 1)" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key)
		select 'work', now() - interval '1 hour', '\"ahead\"', 'k' || lpad((i % 2300)::text, 4, '0') from generate_series(1, 4600) i" \
		"insert into jobrun.job_runs (job_type, payload, concurrency_key, status, locked_until, runner_id, locked_by, started_at, attempts, claim_seq)
		select 'work', '\"runs\"', 'k' || lpad(i::text, 4, '0'), 'running', now() + interval '1 hour', 78, 'other', now(), 1, 1
		from generate_series(0, 2299) i" \
		"insert into jobrun.job_runs (job_type, payload, concurrency_key) values ('work', '\"free\"', null), ('work', '\"last\"', 'z'),
			('work', '\"its second\"', 'z')"
	assert_equal "$(claimed 9)" '"free" "last"'
	q "update jobrun.job_queues set max_running_per_key = 2"
	assert_equal "$(claimed 2)" '"ahead" "ahead"'
	q "delete from jobrun.job_runs where status = 'running'"
}

@test "however many lock keys there are, the oldest run starts first" {
	q "insert into jobrun.job_queues (name, max_running_per_key) values ('default', 1)" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key)
		select 'work', now() - interval '1 hour', '\"ahead\"', 'zz' from generate_series(1, 3000) i" \
		"insert into jobrun.job_runs (job_type, payload, concurrency_key, status, locked_until, runner_id, locked_by, started_at, attempts, claim_seq)
		values ('work', '\"runs\"', 'zz', 'running', now() + interval '1 hour', 78, 'other', now(), 1, 1)" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key) values ('work', now() - interval '9 minutes', '\"first\"', 'y')" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key)
		select 'work', now() - interval '1 minute', '\"later\"', 'k' || i from generate_series(1, 2000) i"
	assert_equal "$(claimed 1)" '"first"'
	q "delete from jobrun.job_runs where status = 'running'"
}

@test "when others have locked the first due runs, a claim takes as many of those after them" {
	q "insert into jobrun.job_runs (job_type, payload) select 'work', to_jsonb(i) from generate_series(1, 200) i"
	# In a subtransaction, so that it cannot pass them by their xmax.
	hold "savepoint s; select from jobrun.job_runs r where r.id <= 40 for update"
	assert_equal "$(claimed 3)" '41 42 43'
	assert_equal "$(claimed 60 | wc -w)" 60
	assert_equal "$(claimed 200 | wc -w)" 160
	release_holds
	assert_equal "$(claimed 3)" '1 2 3'
	hold "select from jobrun.job_runs r where r.id <= 6 for update" # the first look ends at 7
	assert_equal "$(claimed 3)" '7 8 9'
	release_holds
	# More of them than one look reaches, in two priorities, with a run of a unique key and a paused definition between.
	q "insert into jobrun.job_definitions (id, name, job_type, paused_until) overriding system value values (101, 'paused', 'work', 'infinity')" \
		"insert into jobrun.job_runs (job_type, priority, payload) select 'work', 50, to_jsonb(i) from generate_series(1001, 1090) i" \
		"update jobrun.job_runs set unique_key = id where id in (75, 245)" "update jobrun.job_runs set definition_id = 101 where id = 248"
	hold "savepoint s; select from jobrun.job_runs r where r.id <= 60 or r.id between 201 and 240 or r.id between 250 and 258 for update"
	assert_equal "$(q "select string_agg(payload::text, ' ' order by id) from jobrun.job_runs where id between 241 and 259")" \
		"$(seq -s ' ' 1041 1059)"
	assert_equal "$(claimed 12 '{work,work}' '{default,default}' '{50,100}')" "$(seq -s ' ' 1041 1047) 1049 1059 1060 1061 1062"
	assert_equal "$(claimed 60 '{work,work}' '{default,default}' '{50,100}')" \
		"$(seq -s ' ' 61 80) $(seq -s ' ' 1041 1047) 1049 $(seq -s ' ' 1059 1090)"
	release_holds
}

@test "locked runs of lock keys hide none behind them, also behind many of a full one" {
	q "insert into jobrun.job_queues (name) values ('default')" \
		"insert into jobrun.job_runs (job_type, run_at, payload, concurrency_key)
		select 'work', now() - interval '2 hours', '\"ahead\"'::jsonb, 'full' from generate_series(1, 2000) i
		union all select 'work', now() - interval '1 hour', '\"locked\"', 'k' || i % 3 from generate_series(1, 6000) i
		union all select 'work', now() - interval '9 minutes', to_jsonb('k' || i), 'k' || i from generate_series(0, 2) i
		union all select 'work', now() - interval '8 minutes', to_jsonb('second of k' || i), 'k' || i from generate_series(0, 2) i" \
		"insert into jobrun.job_runs (job_type, concurrency_key, status, locked_until, runner_id, locked_by, started_at, attempts, claim_seq)
		select 'work', k, 'running', now() + interval '1 hour', 78, 'other', now(), 1, 1 from unnest('{full,k2}'::text[]) k"
	hold "select from jobrun.job_runs r where r.payload = '\"locked\"' for update"
	assert_equal "$(claimed 9)" '"k0" "k1"'
	assert_equal "$(claimed 1)" '"k0"'
	q "update jobrun.job_queues set max_running_per_key = 2"
	assert_equal "$(claimed 9)" '"ahead" "k0" "k1" "k2" "second of k0" "second of k1"'
	q "update jobrun.job_queues set max_running_per_key = 1, max_running = 3"
	assert_equal "$(claimed 9)" '"k0"'
	release_holds
	assert_equal "$(claimed 1)" '"locked"'
	q "delete from jobrun.job_runs where status = 'running'"
}

@test "20,000 locked runs before others in a queue with limits: few pages for a claim, which locks no more than it must" {
	q 'alter table jobrun.job_runs set (autovacuum_enabled = off)' \
		"insert into jobrun.job_queues (name, max_running) values ('default', 2)" \
		"insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')" \
		"insert into jobrun.job_runs (job_type, run_at, concurrency_key)
		select 'work', now() - interval '1 hour', case when i % 2 = 0 then 'k' || i % 5 end from generate_series(1, 20000) i" \
		"insert into jobrun.job_runs (job_type, concurrency_key) select 'work', 'k' || i from generate_series(0, 999) i"
	hold "select from jobrun.job_runs r where r.run_at < now() - interval '1 minute' for update"
	q "begin; explain (analyze, buffers, format json) select from
		jobrun.claim(77, 'other', 10, '{work}', '{default}', '{100}', null, null, null, 60000, 1) c; commit" >plan
	run jq -r '.[0].Plan | if ."Actual Rows" == 2 and ."Shared Hit Blocks" + ."Shared Read Blocks" < 200000 then "few" else . end' plan
	assert_output few
	q_is 2 'select count(*) from jobrun.job_runs r where r.id > 20000 and (r.xmax <> 0 or r.status = $$running$$)'
	release_holds
	q 'truncate jobrun.job_runs restart identity'
}

@test "more due runs than a claim looks at are locked by another session: those behind them start in the same tick" {
	handler work <<<:
	q "insert into jobrun.job_runs (job_type, run_at) select 'work', now() - interval '2 hours' from generate_series(1, 130000) i" \
		"insert into jobrun.job_runs (job_type, run_at, priority) select 'work', now() - interval '1 hour', p
			from unnest('{100,200}'::integer[]) p, generate_series(1, 10)"
	hold "savepoint s; select from jobrun.job_runs r where r.run_at < now() - interval '90 minutes' for no key update"
	q 'create table public.newer()' # so that it cannot pass them by their xmax
	jr_ok run -n
	assert_line --partial 'work'
	JR_TIMEOUT=120 jr_ok run -j 10
	assert_equal "$stderr" ''
	q_is 'queued|130000
succeeded|20' 'select status, count(*) from jobrun.job_runs group by status order by status'
	# Then nothing is left that can be claimed, and a tick ends.
	JR_TIMEOUT=120 jr_ok run
	release_holds
	q 'truncate jobrun.job_runs restart identity'
}

@test "20,000 runs with a lock key and a unique key, locked by another session: few pages each, whatever statistics say" {
	handler work <<<:
	q 'alter table jobrun.job_runs set (autovacuum_enabled = off)' \
		"insert into jobrun.job_queues (name) values ('default')" \
		"insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')"
	for state in ended never analysed; do
		[ "$state" = ended ] || q 'truncate jobrun.job_runs restart identity'
		# "ended": with the statistics of a table of which no run waits
		[ "$state" != ended ] || q "insert into jobrun.job_runs (job_type, status, finished_at, started_at, attempts, claim_seq)
			select 'work', 'succeeded', now(), now(), 1, 1 from generate_series(1, 20000) i" 'vacuum analyze jobrun.job_runs'
		q "insert into jobrun.job_runs (job_type, run_at, unique_key, concurrency_key)
			select 'work', now() - interval '1 hour', 'u' || i, 'k' || i from generate_series(1, 20000) i" \
			"insert into jobrun.job_runs (job_type) select 'work' from generate_series(1, 5) i"
		[ "$state" != analysed ] || q 'analyze jobrun.job_runs'
		hold "select from jobrun.job_runs r where r.unique_key is not null for update"
		q "begin; explain (analyze, buffers, format json) select from
			jobrun.claim(77, 'other', 10, '{work}', '{default}', '{100}', null, null, null, 60000, 1) c; rollback" >plan
		run jq -r '.[0].Plan | if ."Actual Rows" == 5 and ."Shared Hit Blocks" + ."Shared Read Blocks" < 100000 then "few" else . end' plan
		assert_output few
		[ "$state" != never ] || jr_ok run -j 10 # a claim that takes longer than the statement_timeout fails
		release_holds
	done
	q 'truncate jobrun.job_runs restart identity'
}

@test "many retries of which another session has locked a newer run: few pages for a claim, and what is behind them starts" {
	handler work <<<:
	q 'alter table jobrun.job_runs set (autovacuum_enabled = off)' \
		"insert into jobrun.job_queues (name) values ('default')" \
		"insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')" \
		"insert into jobrun.job_runs (job_type, run_at, unique_key, concurrency_key, status, attempts, claim_seq, started_at)
			select 'work', now() - interval '1 hour', 'u' || i, 'k' || i, 'failed', 1, 1, now() from generate_series(1, 3000) i" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) select r.id, 1, 1, 'failed' from jobrun.job_runs r" \
		"insert into jobrun.job_runs (job_type, run_at, unique_key, concurrency_key)
			select 'work', now() - interval '1 hour', 'u' || i, 'k' || i from generate_series(1, 3000) i" \
		"insert into jobrun.job_runs (job_type) select 'work' from generate_series(1, 5) i"
	hold "select from jobrun.job_runs r where r.unique_key is not null and r.claim_seq = 0 for share"
	for n in 1 10 1000; do
		q "begin; explain (analyze, buffers, format json) select from
			jobrun.claim(77, 'other', $n, '{work}', '{default}', '{100}', null, null, null, 60000, 1) c; rollback" >plan
		run jq -r '.[0].Plan | if ."Shared Hit Blocks" + ."Shared Read Blocks" < 100000 then "few" else . end' plan
		assert_output few
	done
	JR_TIMEOUT=120 jr_ok run -j 10
	assert_equal "$stderr" ''
	q_is 'failed|3000
queued|3000
succeeded|5' 'select status, count(*) from jobrun.job_runs group by status order by status'
	release_holds
	jr_ok run --max-runs 20 -j 10
	q_is '3001|3020|20' "select min(id), max(id), count(*) from jobrun.job_runs where status = 'succeeded' and unique_key is not null"
	q 'truncate jobrun.job_runs, jobrun.job_attempts restart identity'
}

# picks LOCK [newer]: how often a claim of a hundred looks while another session has runs locked by this statement; then what it got. newer:
# a transaction that began after the lock has ended.
picks() {
	hold "$1"
	[ -z "${2-}" ] || q 'create table public.newer()' 'drop table public.newer'
	q >plan 2>&1 <<-'sql'
		load 'auto_explain';
		set auto_explain.log_nested_statements = on;
		set auto_explain.log_level = notice;
		set auto_explain.log_min_duration = 0;
		set client_min_messages = notice;
		begin;
		select 'claimed ' || count(*) || ' ' || min(c.id) || ' ' || max(c.id)
		from jobrun.claim(77, 'other', 100, '{work}', '{default}', '{100}', null, null, null, 60000, 1) c;
		rollback;
	sql
	release_holds
	echo "$(grep -c 'CTE pick$' plan) $(grep '^claimed' plan)"
}

@test "when four others have locked a hundred runs each, a claim of a hundred passes them, or looks twice" {
	local lock='select from jobrun.job_runs r where r.id <= 400 for update'
	local claim="select string_agg(c.id::text, ' ' order by c.id) from jobrun.claim(77, 'other', 2, '{work}', '{default}', '{100}', null, null, null, 60000, 1) c"

	needs_session # for auto_explain
	q "insert into jobrun.job_runs (job_type) select 'work' from generate_series(1, 600)" \
		"insert into jobrun.job_runners (id, pid, permits, host, version) values (77, 1, 1, 'other', 'x')"
	assert_equal "$(picks "$lock")" '1 claimed 100 401 500'
	assert_equal "$(picks "$lock" newer)" '1 claimed 100 401 500'
	# In a subtransaction, which no snapshot names, it has to try.
	assert_equal "$(picks "savepoint s; $lock" newer)" '2 claimed 100 401 500'
	# A lock that excludes no claim, as that of a foreign key, counts only while there are others.
	assert_equal "$(picks 'select from jobrun.job_runs r where r.id <= 400 for key share')" '1 claimed 100 401 500'
	assert_equal "$(picks 'select from jobrun.job_runs r for key share')" '2 claimed 100 1 100'
	# Locks of the past count for nothing, of transactions that were committed or rolled back.
	q "begin; select id from jobrun.job_runs where id <= 200 for update; commit" >/dev/null
	q_is t "select bool_and(xmax <> 0) from jobrun.job_runs where id <= 400"
	q_is '1 2' "begin; $claim; rollback"
	# Nor does a lock of the session that claims.
	q_is '1 2' "begin; do \$\$ begin perform from jobrun.job_runs where id <= 10 for update; end \$\$; $claim; rollback"
}

@test "claim and claim_ahead read by their indexes alone, with whatever statistics their plans were made" {
	local state claim="from jobrun.claim(1, 'h', N, '{work}', '{default}', '{100}', null, null, null, 60000, 1, 20, '{work}') c"

	needs_session # a plan is that of a connection
	q 'alter table jobrun.job_runs set (autovacuum_enabled = off)' \
		"insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'h', 'x')"
	# A plan made with so many rows, analysed or never; then 80,000 rows. "after": made and analysed when they were there.
	for state in 'never 0' 'analyse 0' 'analyse 1' 'analyse 31' 'after 0' 'never-filled 0'; do
		plan=$(q 2>&1 <<-sql
			create function pg_temp.analyse() returns void language plpgsql as \$\$ begin execute 'analyze jobrun.job_runs'; end \$\$;
			create function pg_temp.plan() returns void language plpgsql as \$\$
			begin
				perform ${claim/N/2};
				perform ${claim/N/0};
				raise exception using errcode = 'JR000';
			exception when sqlstate 'JR000' then null;
			end \$\$;
			create function pg_temp.fill() returns void language sql as \$\$
				insert into jobrun.job_runs (job_type, status, finished_at, started_at, attempts, claim_seq)
				select 'work', 'succeeded', now(), now(), 1, 1 from generate_series(1, 20000);
				insert into jobrun.job_runs (job_type, priority, run_at)
				select case when i % 3 = 0 then 'foreign' else 'work' end, case when i % 3 = 1 then 1 else 100 end,
					now() + case when i % 3 = 1 then 1 else -1 end * interval '1 hour' from generate_series(1, 60000) i; \$\$;
			truncate jobrun.job_runs restart identity;
			insert into jobrun.job_runs (job_type) select 'work' from generate_series(1, ${state#* });
			select case '${state% *}' when 'analyse' then pg_temp.analyse() when 'after' then pg_temp.fill() when 'never-filled' then pg_temp.fill() end;
			select case '${state% *}' when 'after' then pg_temp.analyse() end;
			select pg_temp.plan();
			select case when '${state% *}' in ('never', 'analyse') then pg_temp.fill() end;
			load 'auto_explain';
			set auto_explain.log_nested_statements = on;
			set auto_explain.log_analyze = on;
			set auto_explain.log_buffers = on;
			set auto_explain.log_level = notice;
			set auto_explain.log_min_duration = 0;
			set client_min_messages = notice;
			begin;
			select 'claimed ' || count(*) ${claim/N/100};
			rollback;
			begin;
			select 'claimed ' || count(*) ${claim/N/100};
			select 'claimed ' || count(*) ${claim/N/0};
			rollback;
		sql
		)
		echo "$state: $plan"
		assert_equal "$(grep '^claimed' <<<"$plan")" $'claimed 120\nclaimed 120\nclaimed 20'
		run grep -E '(Seq|Bitmap Heap) Scan on (jobrun.)?job_runs|Hash.* Join|Merge Join' <<<"$plan"
		assert_output ''
		run grep 'job_runs_pkey' <<<"$plan" # what was taken is known by its ctid
		assert_output ''
		# Of the 80,000 rows no scan gives more than a claim looks at: its runs, the extras, and a few for each combination.
		run awk '/Index.* Scan/ && match($0, /actual time=[0-9.]+ rows=[0-9.]+ loops=[0-9]+/) {
			split(substr($0, RSTART, RLENGTH), part, /[= ]/); if (part[5] * part[7] > 300) print }' <<<"$plan"
		assert_output ''
		# The function as a whole: 15 to 20 pages for each run. The cheaper of two claims counts: when other sessions create
		# and drop databases, a session may have to read the catalogue anew in the middle of one.
		run awk '/^Query Text:/ { whole = /claimed.*, 100,/ }
			whole && match($0, /Buffers: shared hit=[0-9]+/) { n = substr($0, RSTART + 20, RLENGTH - 20) + 0
				if (!least || n < least) least = n; whole = 0 }
			END { print (least > 0 && least <= 4000) ? "few" : least }' <<<"$plan"
		assert_output few
	done
	q 'truncate jobrun.job_runs restart identity'
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

# Each run gets two more entries there, when it is claimed and when it ends. There is room for them, even while a snapshot keeps all.
@test "the primary key does not grow while runs are claimed and end, and no index with the id in it looks for duplicates" {
	local before

	[ "$(q "select current_setting('server_version_num')::integer >= 130000")" = t ] || skip 'PostgreSQL 12 keeps no duplicates together'
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'h', 'x')" \
		"select count(*) from jobrun.enqueue_many('work', array_fill('{}'::jsonb, array[20000]))"
	before=$(q "select pg_relation_size('jobrun.job_runs_pkey')")
	hold 'set transaction isolation level repeatable read; select 1'
	q "do \$\$ declare v_ids bigint[]; begin
		for i in 1..20 loop
			v_ids := array(select c.id from jobrun.claim(1, 'h', 1000, '{work}', '{default}', '{100}', null, null, null, 60000, i) c);
			commit;
			perform jobrun.settle_done(v_ids, array_fill(1::bigint, array[cardinality(v_ids)]), 1, null);
			commit;
		end loop;
	end \$\$"
	release_holds
	q_is 20000 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	q_is t "select pg_relation_size('jobrun.job_runs_pkey') <= 1.1 * $before"
	q_is '' "select i.indexrelid::regclass from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = 'jobrun.job_runs'::regclass and not i.indisprimary
			and (select a.attnum from pg_attribute a where a.attrelid = i.indrelid and a.attname = 'id') = any (i.indkey::smallint[])
			and c.reloptions is distinct from '{deduplicate_items=off}'"
	q 'truncate jobrun.job_runs restart identity'
}
