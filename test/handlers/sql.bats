#!/usr/bin/env bats
# sql handlers: effect and completion in one commit, the contract by SQLSTATE, what a statement is given and what it gives.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	counter
	sql_handler count <<<"update counter set n = n + 1"
}

# Raises what its payload says.
raise_handler() {
	sql_handler "${1:-raise}" <<<"select public.raise(\$1 ->> 0)"
	q <<-'sql'
		create or replace function public.raise(state text) returns void language plpgsql as $$
		begin
			update counter set n = n + 1;
			raise exception 'state %', state using errcode = state;
		end $$;
	sql
}

@test "a statement's effect and the completion of its run are one transaction" {
	id=$(enqueue count)
	jr_ok run
	is_fate "$id" 'succeeded|1|1|'
	q_is '1|t' "select n, xmin = (select xmin from jobrun.job_runs where id = $id) from counter"
	q_is 0 'select count(*) from jobrun.job_attempts' # the run says it all
}

@test "each SQLSTATE has its documented verdict, and nothing of a failed statement stays" {
	raise_handler
	for state in 22P02 22012 JR065 23505 P0001 42601 57014 40001 40P01 53300 53200 55P03 57P03 JR075 08006 57P01; do
		enqueue raise "[\"$state\"]" >/dev/null
	done
	jr run
	assert_equal "$status" 1
	assert_equal "$(q "select payload ->> 0, status, attempts, error_code from jobrun.job_runs order by id")" "$(
		for state in 22P02 22012 JR065; do echo "$state|dead|1|sqlstate:$state"; done
		for state in 23505 P0001 42601 57014; do echo "$state|failed|1|sqlstate:$state"; done
		for state in 40001 40P01 53300 53200 55P03 57P03 JR075; do echo "$state|queued|0|sqlstate:$state"; done
		for state in 08006 57P01; do echo "$state|failed|1|sqlstate:$state"; done
	)"
	q_is 0 'select n from counter'
	q_is 'state 22P02' "select last_error from jobrun.job_runs where payload ->> 0 = '22P02'"
}

@test "a duplicate key, a bad cast and a missing table have their verdicts, and nothing of the statement stays" {
	q 'create table once (n integer primary key)' 'insert into once values (1)'
	sql_handler a.key <<<'insert into once select 1'
	sql_handler b.cast <<<"select 'x'::integer"
	sql_handler c.table <<<'select * from nowhere'
	for type in a.key b.cast c.table; do enqueue "$type" >/dev/null; done
	jr run
	assert_equal "$(q 'select job_type, status, error_code from jobrun.job_runs order by id')" \
		$'a.key|failed|sqlstate:23505\nb.cast|dead|sqlstate:22P02\nc.table|failed|sqlstate:42P01'
	q_is 'duplicate key value violates unique constraint "once_pkey": Key (n)=(1) already exists.' \
		"select last_error from jobrun.job_runs where job_type = 'a.key'"
	q_is 'relation "nowhere" does not exist' "select last_error from jobrun.job_runs where job_type = 'c.table'"
}

@test "sql: give_up and later of NAME.json replace the default lists" {
	raise_handler
	settings raise <<<'{"give_up": ["23505", "40"], "later": ["P0001"]}'
	for state in 23505 40001 P0001 22P02 JR075; do enqueue raise "[\"$state\"]" >/dev/null; done
	jr run
	assert_equal "$(q "select payload ->> 0, status from jobrun.job_runs order by id")" \
		$'23505|dead\n40001|dead\nP0001|queued\n22P02|failed\nJR075|failed'
}

@test "when a statement gets no connection, its run is put off and costs no attempt" {
	needs_session # a pooler has one connection for any number of clients
	q "create role narrow login connection limit 1" "grant usage on schema jobrun to narrow" \
		"grant all on all tables in schema jobrun to narrow" "grant all on all sequences in schema jobrun to narrow" \
		"grant execute on all functions in schema jobrun to narrow"
	id=$(enqueue count)
	jr run -d "$JR_SERVER dbname=$JR_DATABASE user=narrow"
	q 'drop owned by narrow' 'drop role narrow'
	assert_equal "$status" 0
	is_fate "$id" 'queued|0|1|sqlstate:53300'
	q_is 0 'select n from counter'
}

@test "a statement whose backend is terminated has failed and is charged" {
	sql_handler slow <<<'select pg_sleep(60) /* work */'
	id=$(enqueue slow)
	bg_runner
	wait_until 10 works
	q "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like '%/* work */%' and pid <> pg_backend_pid()" >/dev/null
	wait_runner
	is_fate "$id" 'failed|1|1|sqlstate:57P01'
}

@test "what it is given: \$1, and settings of this transaction" {
	sql_handler given <<-'sql'
		select jsonb_build_object('payload', $1, 'run_id', current_setting('jobrun.run_id')::bigint,
			'claim', current_setting('jobrun.claim')::bigint, 'attempt', current_setting('jobrun.attempt')::integer,
			'key', current_setting('jobrun.key'), 'slot', current_setting('jobrun.slot'))
	sql
	id=$(enqueue given '{"a": "\u00e4\n"}' -k 'my "key"')
	jr_ok run
	q_is t "select result = jsonb_build_object('payload', payload, 'run_id', id, 'claim', 1, 'attempt', 1, 'key', 'my \"key\"', 'slot', '')
		from jobrun.job_runs where id = $id"
}

@test "the first column of the first row is the result, if it is JSON" {
	sql_handler a-jsonb <<<"select to_jsonb(g), 'x' from generate_series(7, 9) g"
	sql_handler b-json <<<"select '{\"b\":  1}'::json"
	sql_handler c-text <<<"select '{}'"
	sql_handler d-null <<<"select null::jsonb"
	sql_handler e-none <<<"select '1'::jsonb where false"
	sql_handler f-effect <<<"with u as (update counter set n = n + 1 returning n) select to_jsonb(n) from u"
	sql_handler g-large <<<"select to_jsonb(repeat('x', 1100000)) from (select public.bump()) b"
	sql_handler h-wide <<<"select to_jsonb(array_agg(1)) from generate_series(1, 150000) g, (select public.bump()) b"
	q "create function public.bump() returns void language sql as 'update counter set n = n + 100'"
	for type in a-jsonb b-json c-text d-null e-none f-effect g-large h-wide; do enqueue "$type" >/dev/null; done
	jr_ok run
	assert_equal "$(q "select job_type, status, result, error_code from jobrun.job_runs order by id")" \
		'a-jsonb|succeeded|7|
b-json|succeeded|{"b": 1}|
c-text|succeeded||
d-null|succeeded||
e-none|succeeded||
f-effect|succeeded|1|
g-large|failed||result-too-large
h-wide|failed||result-too-large'
	q_is 1 'select n from counter'
}

@test "a statement of its own transaction, a second statement and COPY are refused when the file is read" {
	sql_handler a.commit <<<'commit'
	sql_handler b.two <<<'select 1; select 2'
	sql_handler c.copy <<<'copy counter to stdout'
	sql_handler d.rollback <<<'/* quietly */ rollback'
	jr_ok run
	for name in a.commit b.two c.copy d.rollback; do
		assert_regex "$stderr" "$name"
	done
}

@test "transaction control that is hidden in a function cannot commit either" {
	q 'create procedure public.sly() language plpgsql as $$ begin update counter set n = n + 1; commit; end $$'
	sql_handler 'call' <<<'call public.sly()'
	sql_handler block <<<'do $$ begin update counter set n = n + 1; rollback; end $$'
	enqueue 'call' >/dev/null
	enqueue block >/dev/null
	jr_ok run
	assert_equal "$(q 'select job_type, status, error_code from jobrun.job_runs order by id')" \
		$'call|failed|sqlstate:2D000\nblock|failed|sqlstate:2D000'
	q_is 0 'select n from counter'
}

@test "a failure in COMMIT has the verdict of its SQLSTATE, and touches no other run" {
	q <<-'sql'
		create table late (n integer, unique (n) deferrable initially deferred);
		insert into late values (1);
		create function public.judge() returns trigger language plpgsql as $$
		begin
			if new.n < 0 then raise 'negative' using errcode = '22003'; end if;
			if new.n > 100 then raise 'try again' using errcode = '40001'; end if;
			return null;
		end $$;
		create constraint trigger judge after insert on late deferrable initially deferred
			for each row execute function public.judge();
	sql
	sql_handler late <<<'insert into late values (($1 ->> 0)::integer)'
	for n in 1 2 -3 400 5; do enqueue late "[$n]" >/dev/null; done
	jr run
	assert_equal "$(q "select payload ->> 0, status, error_code from jobrun.job_runs order by id")" \
		$'1|failed|sqlstate:23505\n2|succeeded|\n-3|dead|sqlstate:22003\n400|queued|sqlstate:40001\n5|succeeded|'
	q_is '1,2,5' "select string_agg(n::text, ',' order by n) from late"
}

@test "what RAISE says is made fit for a row and a terminal, whatever it is" {
	sql_handler odd <<<"do \$\$ begin raise exception using message = E'a\\x01\\u001b[31m\\u0085z' || repeat('\U0001F600', 2000),
		detail = 'more'; end \$\$"
	id=$(enqueue odd)
	jr_ok run
	q_is 'failed|t|f|t' "select status, last_error like 'a  [31m%', last_error ~ E'[\\x01-\\x1f]', octet_length(last_error) <= 2048
		from jobrun.job_runs where id = $id"
}

@test "bytes that are no UTF-8, from a database without an encoding: no harm" {
	JR_SQL_ASCII=${JR_DATABASE}_ascii
	admin "create database $JR_SQL_ASCII template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
	direct=$JOBRUN_DATABASE_URL
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_SQL_ASCII"
	jr_ok migrate
	sql_handler odd <<<"do \$\$ begin raise exception using message = E'a\\xff\\xfe'; end \$\$"
	id=$(enqueue odd)
	jr run
	# The server itself does not send them; that is its error then.
	found=$(q "select status, error_code, last_error from jobrun.job_runs where id = $id")
	export JOBRUN_DATABASE_URL=$direct
	admin "drop database $JR_SQL_ASCII"
	assert_equal "$found" 'dead|sqlstate:22021|invalid byte sequence for encoding "UTF8": 0xff'
}

@test "jobrun.effect is exact inside a handler, and refused for a claim that is lost" {
	sql_handler once <<-'sql'
		do $$ begin
			if jobrun.effect('mail-1') then
				update counter set n = n + 1;
			end if;
		end $$
	sql
	enqueue once >/dev/null
	enqueue once >/dev/null
	jr_ok run
	q_is 1 'select n from counter'
	q_is '2' "select count(*) from jobrun.job_runs where status = 'succeeded'"
	q_is t "select run_id is not null and claim_seq = 1 and done_at is not null from jobrun.job_effects where key = 'mail-1'"

	sql_handler lost <<-'sql'
		do $$ begin
			update jobrun.job_runs set status = 'queued', locked_until = null, attempts = 0
				where id = current_setting('jobrun.run_id')::bigint;
			perform jobrun.effect('mail-2');
		end $$
	sql
	id=$(enqueue lost)
	jr_ok run --max-runs 1
	q_is 0 "select count(*) from jobrun.job_effects where key = 'mail-2'"
	is_fate "$id" 'failed|1|1|sqlstate:JR074'
}

@test "statements run at once, each on its own connection, never more than --sql-jobs" {
	q 'create table seen (pid integer, at timestamptz, until timestamptz)'
	sql_handler slow <<-'sql'
		with s as materialized (select pg_backend_pid() as pid, clock_timestamp() as at, pg_sleep(0.3))
		insert into seen select pid, at, clock_timestamp() from s
	sql
	for i in 1 2 3 4 5 6; do enqueue slow >/dev/null; done
	jr_ok run --sql-jobs 2
	q_is 6 'select count(*) from seen'
	# At most two at any moment, and two at some.
	q_is 2 'select max(n) from (select count(*) as n from seen a join seen b on b.at <= a.at and b.until > a.at group by a.at, a.pid) c'
	needs_session # its connections are told by their backends
	q_is 2 'select count(distinct pid) from seen'
}

@test "a handler that enqueues the next one: the tick goes on to the last" {
	sql_handler chain <<<"select jobrun.enqueue('chain', to_jsonb(\$1::integer - 1)) where \$1::integer > 0"
	enqueue chain 200 >/dev/null
	jr_ok run
	q_is '201|0' "select count(*), count(*) filter (where status <> 'succeeded') from jobrun.job_runs"
}
