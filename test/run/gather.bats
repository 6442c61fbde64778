#!/usr/bin/env bats
# Quick sql runs are claimed several at a time, and no claim waits for long, or in vain.

load ../lib/common
load ../lib/sql

# naps NAME [SETTINGS]: a sql handler that sleeps as long as its payload says.
naps() {
	sql_handler "$1" <<<"select pg_sleep((\$1 ->> 'nap')::float8)"
}

@test "quick statements are claimed several at a time" {
	naps quick
	q 'create table public.claims (n bigint)' \
		"create function public.note() returns trigger language plpgsql as \$\$ begin
			insert into public.claims select count(*) from now_running where locked_until is not null; return null; end \$\$" \
		"create trigger notes after update on jobrun.job_runs referencing new table as now_running for each statement execute function public.note()" \
		"select count(*) from jobrun.enqueue_many('quick', array_fill('{\"nap\": 0}'::jsonb, '{2000}'))" >/dev/null
	jr_ok run --sql-jobs 4
	q_is 2000 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	q 'select n, count(*) from public.claims group by n order by n'
	assert_between 500 "$(q 'select count(*) from public.claims where n > 0')" 1300
}

@test "a claim that waited for more connections, and gave way to a batch, does not keep the runner busy" {
	naps a
	sql_handler b <<<'select where pg_sleep(2) is null'
	settings b <<<'{"batch": 1}'
	q "insert into jobrun.job_runs (job_type, payload)
			select 'a', jsonb_build_object('nap', case when i < 40 or i % 5 > 0 then 0 else 1.5 end) from generate_series(1, 100) i" \
		"insert into jobrun.job_runs (job_type) select 'b' from generate_series(1, 4)"
	TIMEFORMAT='%U %S'
	{ time jr_ok run --sql-jobs 4; } 2>cpu
	cat cpu
	# a few hundredths of a second; when it asked itself all the time whether it can claim, two seconds
	assert_between 0 "$(tail -n 1 cpu | awk '{ print int(($1 + $2) * 1000) }')" 1000
	q_is 104 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}
