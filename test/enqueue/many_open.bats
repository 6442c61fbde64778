#!/usr/bin/env bats
# Many runs at once by a role that may have only so many unfinished ones.

load ../lib/common

setup() {
	common_setup
	app=app_$JR_DATABASE
	make_role "$app"
}

# as SQL...: as role app.
as() {
	q_as "$app" "$@"
}

# rows_read SQL: how many rows and entries of job_runs a statement of role app reads.
rows_read() {
	as begin "$1" "select sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid))
		from pg_class c where c.relname in ('job_runs', 'job_runs_counted')" commit | tail -n 1
}

@test "the unfinished runs of a role with --max-open are counted once for many lines, not once for each" {
	jr_ok grant enqueue "$app" --max-open 5000
	rows=$(rows_read "select jobrun.enqueue_lines('work', array_fill('{}'::bytea, '{1000}'), per_run => true)")
	[ "$rows" -lt 3000 ] || fail "$rows rows were read for lines"
	rows=$(rows_read "insert into jobrun.new_runs (job_type, run) select 'work', '{}' from generate_series(1, 1000)")
	[ "$rows" -lt 6000 ] || fail "$rows rows were read for new_runs"
	q_is 2000 'select count(*) from jobrun.job_runs where is_counted'
}

@test "the line that would exceed --max-open is named; lines whose runs are there already need no room" {
	jr_ok grant enqueue "$app" --max-open 4
	as "select jobrun.enqueue('work', idempotency_key => 'a')" >/dev/null
	printf '{"idempotency_key":"%s"}\n' a b a b c a d a b c d >lines
	JOBRUN_DATABASE_URL=$(url_of "$app") jr_ok enqueue work --batch lines --per-run
	assert_output 'queued 3 runs, 8 were there already'
	JOBRUN_DATABASE_URL=$(url_of "$app") jr_ok enqueue work --batch lines --per-run
	assert_output 'queued 0 runs, 11 were there already'
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now() where id in (select id from jobrun.job_runs order by id limit 2)"
	printf '{"idempotency_key":"%s"}\n' a e f a g >lines
	JOBRUN_DATABASE_URL=$(url_of "$app") jr enqueue work --batch lines --per-run
	assert_one_line 75 "^jobrun: lines: line 5: role \"$app\" may have 4 unfinished runs, and would have more; try again"
	run as "insert into jobrun.new_runs (job_type, run) select 'work', jsonb_build_object('unique_key', k)
		from unnest('{k,k,l,m}'::text[]) with ordinality u(k, n) order by n"
	assert_output --partial 'line 4: role'
	q_is 2 'select count(*) from jobrun.job_runs where finished_at is null'
}

@test "each line keeps to the limit of the grant that allows it" {
	group=group_$JR_DATABASE
	make_role "$group"
	q "grant \"$group\" to \"$app\""
	jr_ok grant enqueue "$group" --type large --max-open 6
	jr_ok grant enqueue "$app" --type small --max-open 2
	as "insert into jobrun.new_runs (job_type, run) values ('small', '{}'), ('small', '{}'), ('large', '{}')"
	run as "insert into jobrun.new_runs (job_type, run) values ('large', '{}'), ('small', '{}')"
	assert_output --partial "line 2: role \"$app\" may have 2 unfinished runs"
	as "insert into jobrun.new_runs (job_type, run) values ('large', '{}'), ('large', '{}'), ('large', '{}')"
	run as "insert into jobrun.new_runs (job_type, run) values ('large', '{}')"
	assert_output --partial "line 1: role \"$app\" may have 6 unfinished runs"
}
