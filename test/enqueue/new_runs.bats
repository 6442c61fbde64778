#!/usr/bin/env bats
# Many alike rows of jobrun.new_runs: they are inserted in portions, since one array cannot hold all of a large COPY.

load ../lib/common

# numbers FIRST LAST [BYTES]: lines for COPY, payloads with a number and so many bytes.
numbers() {
	q "select 'work', jsonb_build_object('n', i, 'x', repeat('x', ${3:-0})) from generate_series($1, $2) i" | tr '|' '\t'
}

# copy FILE: COPY it as one statement.
copy() {
	q "\\copy jobrun.new_runs (job_type, payload) from '$1'"
}

# in_order N: there are N runs, and their ids are in the order of their numbers.
in_order() {
	q_is "$1|t" "select count(*), bool_and(n = nr) from (select (payload ->> 'n')::bigint as n, row_number() over (order by id) as nr from jobrun.job_runs) r"
}

# Each insert of runs leaves a row with how many there were.
watch_inserts() {
	q 'create table public.inserts (n bigint)' "create function public.inserted() returns trigger language plpgsql security definer as
		'begin insert into public.inserts select count(*) from new; return null; end'" \
		'create trigger inserted after insert on jobrun.job_runs referencing new table as new for each statement execute function public.inserted()'
}

@test "many rows become runs in their order, no more than 5,000 in a statement" {
	watch_inserts
	numbers 1 12001 >lines
	copy lines
	in_order 12001
	q_is 12001,5000 'select sum(n) || $$,$$ || max(n) from public.inserts'
	q_is 0 'select count(*) from jobrun.new_runs'
}

@test "large payloads become runs in their order, some MiB of them in a statement" {
	watch_inserts
	numbers 1 12 1000000 >lines # they are compressed in no array
	copy lines
	in_order 12
	q_is t 'select max(n) between 2 and 6 from public.inserts'
}

@test "an option and a payload of all rows hold in each portion, and a row without a payload gets that of the definition" {
	jr_ok define work '{"from": "definition"}'
	q "insert into jobrun.new_runs (job_type, options) select 'work', '{\"run_in\": \"1h\", \"priority\": 7}' from generate_series(1, 5001)" \
		"insert into jobrun.new_runs (job_type, options) select 'work', '{\"payload\": {\"from\": \"options\"}}' from generate_series(1, 5001)"
	q_is '{"from": "definition"}|7|t|5001 {"from": "options"}|100|f|5001' "select string_agg(concat_ws('|', payload, priority, later, n), ' ' order by priority) from (
		select payload, priority, run_at > now() as later, count(*) as n from jobrun.job_runs group by 1, 2, 3) g"
}

@test "a wrong row of a later portion is named, and none of the statement is queued" {
	numbers 1 7000 >lines
	numbers 7001 7001 1048576 >>lines
	numbers 7002 7100 >>lines
	run copy lines
	assert_output --regexp 'line 7001: the payload has 10486[0-9]+ bytes; the limit is 1048576'
	q_is 0 'select count(*) from jobrun.job_runs'
	numbers 1 3 >lines
	copy lines
	q_is 3 'select count(*) from jobrun.job_runs'
}

@test "rows with keys beside many without are queued in their order" {
	q "insert into jobrun.new_runs (job_type, payload, run) select 'work', jsonb_build_object('n', i),
		case when i % 2 = 0 then jsonb_build_object('unique_key', 'k' || i % 3000) end from generate_series(1, 6000) i"
	q_is '4500|t' "select count(*), bool_and(before < n) from (select (payload ->> 'n')::bigint as n,
		lag((payload ->> 'n')::bigint, 1, 0::bigint) over (order by id) as before from jobrun.job_runs) r"
}
