#!/usr/bin/env bats
# One sql handler's session is not the next one's: what it leaves on a connection is gone, behind a pooler too.

load ../lib/common
load ../lib/pooler
load ../lib/sql

setup() {
	common_setup
	counter
	role=tidy_$JR_DATABASE
	make_role "$role"
	q "create sequence public.numbers" "select nextval('public.numbers')" >/dev/null
	# What it sees of its session; before the first run and after each it must be the same.
	sql_handler look <<-'sql'
		select jsonb_build_object('user', current_user, 'session', session_user, 'path', current_setting('search_path'),
			'zone', current_setting('TimeZone'), 'level', current_setting('default_transaction_isolation'),
			'mine', coalesce(current_setting('my.setting', true), ''), 'timeout', current_setting('statement_timeout'),
			'temp', to_regclass('pg_temp.left_behind'), 'prepared', (select count(*) from pg_prepared_statements),
			'cursors', (select count(*) from pg_cursors where is_holdable), 'channels', (select count(*) from pg_listening_channels()),
			'locks', (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()))
	sql
	sql_handler who <<<'select to_jsonb(pg_backend_pid())'
}

# What leaves something behind, and what it is.
leavers() {
	sql_handler a-role <<<"set role $role"
	sql_handler b-session <<<"set session authorization $role"
	sql_handler c-path <<<"set search_path = nowhere"
	sql_handler d-zone <<<"set time zone 'Asia/Kathmandu'"
	sql_handler e-level <<<"set session characteristics as transaction isolation level serializable"
	sql_handler f-own <<<"select set_config('my.setting', 'left', false)"
	sql_handler g-timeout <<<"set statement_timeout = '1h'" # a shorter one could end what cleans up after it
	sql_handler h-temp <<<'create temp table left_behind as select 1'
	sql_handler i-prepared <<<'prepare left_behind as select 1'
	sql_handler j-cursor <<<'declare left_behind cursor with hold for select 1'
	sql_handler k-listen <<<'listen left_behind'
	sql_handler l-lock <<<'select pg_advisory_lock(4711)'
	sql_handler m-encoding <<<"set client_encoding = 'LATIN1'"
	sql_handler n-strings <<<'set standard_conforming_strings = off'
	# What no rollback takes back.
	sql_handler o-failed <<-'sql'
		do $$ begin
			perform pg_advisory_lock(4712);
			execute 'prepare left_behind as select 1';
			set search_path = nowhere;
			raise 'and then it fails';
		end $$
	sql
	sql_handler p-cannot <<<"set constraints all deferred"
	sql_handler q-cancelled <<-'sql'
		do $$ begin
			perform pg_advisory_lock(4713);
			execute 'prepare left_behind as select 1';
			perform pg_sleep(60);
		end $$
	sql
	settings q-cancelled <<<'{"timeout": "1s"}'
	sql_handler r-large <<<"select to_jsonb(repeat('x', 2000000)), pg_advisory_lock(4714)"
	sql_handler s-deferred <<-'sql'
		do $$ begin
			perform pg_advisory_lock(4715);
			create temp table twice (n integer unique deferrable initially deferred);
			insert into twice values (1), (1);
		end $$
	sql
}

# Those that are meant to fail, and no others.
these_failed() {
	assert_equal "$(q "select job_type, error_code from jobrun.job_runs where status <> 'succeeded' order by job_type")" \
		$'o-failed|sqlstate:P0001\nq-cancelled|timeout\nr-large|result-too-large\ns-deferred|sqlstate:23505'
}

names() {
	local file

	for file in "$JOBRUN_HANDLERS"/?-*.sql; do
		basename "$file" .sql
	done
}

@test "role, settings, temporary tables, statements, cursors, channels and locks are gone for the next run" {
	leavers
	first=$(enqueue look -p 1)
	enqueue who -p 1 >/dev/null
	q "select jobrun.enqueue(t, priority => p::integer) from unnest('{$(names | paste -sd ,)}'::text[]) with ordinality as l (leaver, n),
		lateral (values (leaver, n * 10), ('look', n * 10 + 1), ('who', n * 10 + 1)) as v (t, p)" >/dev/null
	jr_ok run --sql-jobs 1
	these_failed
	# All looked alike, and (but for the one that was cancelled) on one connection.
	q_is "$(names | wc -l)" "select count(*) from jobrun.job_runs r where job_type = 'look' and id <> $first
		and result = (select result from jobrun.job_runs where id = $first)"
	q_is '0|0' "select result -> 'prepared', result -> 'locks' from jobrun.job_runs where id = $first"
	needs_session # the pooler changes the connection when it likes
	q_is t "select count(distinct result) <= 2 from jobrun.job_runs where job_type = 'who'"
}

@test "role, settings, temporary tables and locks are gone for the next run behind a pooler too" {
	leavers
	looks=$(($(names | wc -l) * 4))
	q "select jobrun.enqueue(t) from unnest('{$(names | paste -sd ,)}'::text[]) leaver,
		lateral (values (leaver), ('look'), ('look'), ('look'), ('look')) as v (t)" >/dev/null
	pooler server_lifetime=600 server_idle_timeout=600 # or a session that was left dirty would soon end
	jr_ok run --sql-jobs 3
	q_is 0 "select count(*) from pg_locks where locktype = 'advisory' and objid between 4711 and 4715"
	end_pooler
	these_failed
	q_is "$looks|1" "select count(*), count(distinct result) from jobrun.job_runs where job_type = 'look'"
	q_is '0|0' "select distinct result -> 'prepared', result -> 'locks' from jobrun.job_runs where job_type = 'look'"
}

@test "behind a pooler effect and completion are one transaction, and a timeout cancels the statement" {
	pooler
	sql_handler count <<<'update counter set n = n + 1'
	sql_handler sleep <<<'select pg_sleep(60) /* work */'
	for i in 1 2 3 4 5 6 7 8; do enqueue count >/dev/null; done
	id=$(enqueue sleep --timeout 300ms)
	jr_ok run
	q_is 8 'select n from counter'
	q_is 8 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	is_fate "$id" 'failed|1|1|timeout'
	wait_until 5 does_not_work
}

# What is deferred is the handler's.
defer() {
	q 'create table public.seen (role text, own text, run text)' "grant insert on public.seen to $role" 'create table public.things (n integer)' \
		"grant insert on public.things to $role" \
		"create function public.see() returns trigger language plpgsql as \$\$ begin
			insert into public.seen values (current_user, current_setting('my.own', true), current_setting('jobrun.run_id', true));
			return null; end \$\$" \
		'create constraint trigger see after insert on public.things deferrable initially deferred for each row execute function public.see()'
}

@test "deferred triggers have the role and the settings of the statement" {
	defer
	sql_handler own <<-sql
		with s as materialized (select set_config('my.own', 'it', true), set_config('role', '$role', true))
		insert into public.things select 1 from s
	sql
	id=$(enqueue own)
	jr_ok run
	q_is "$role|it|$id" 'select * from public.seen'
}

@test "deferred triggers of a temporary table are no failure" {
	defer
	sql_handler temp <<-'sql'
		do $$ begin
			create temp table t (n integer);
			create constraint trigger see after insert on t deferrable initially deferred for each row execute function public.see();
			insert into t values (1);
		end $$
	sql
	enqueue temp >/dev/null
	jr_ok run
	q_is 1 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	q_is 1 'select count(*) from public.seen'
}

@test "the error of a deferred trigger is reported as it is" {
	defer
	q 'drop table public.seen'
	sql_handler own <<<'insert into public.things values (1)'
	enqueue own >/dev/null
	jr_ok run --max-runs 1
	q_is 'failed|sqlstate:42P01|t' "select status, error_code, last_error like 'relation %seen% does not exist%' from jobrun.job_runs"
}
