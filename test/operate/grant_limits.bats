#!/usr/bin/env bats
# What a grant of kind enqueue can be limited to, and what every role that may only enqueue must be content with.

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

# refused SQLSTATE SQL
refused() {
	run psql_bare -v VERBOSITY=sqlstate "$(direct_url_of "$app")" -c "$2"
	[ "$status" -ne 0 ] || fail "it was possible: $2"
	assert_output --regexp "^ERROR: +$1$"
}

as_jr() {
	JOBRUN_DATABASE_URL=$(url_of "$app") jr "$@"
}

@test "grant --queue allows only these queues, by function, batch, definition and command" {
	jr_ok grant enqueue "$app" --type work,mail --queue slow,default --max-open 9
	assert_output "enqueue: granted to $app, for work, mail, into slow, default, at most 9 open"
	q "select jobrun.define('nightly', '{\"job_type\": \"work\", \"queue\": \"night\"}')" "select jobrun.define('mail', '{\"queue\": \"post\"}')" >/dev/null
	as "select jobrun.enqueue('work')" "select jobrun.enqueue('work', queue => 'slow', concurrency_key => 'k')" >/dev/null
	refused 42501 "select jobrun.enqueue('work', queue => 'fast')"
	refused 42501 "select jobrun.enqueue('work', queue => 'fast', concurrency_key => 'k', idempotency_key => 'i')"
	refused 42501 "select jobrun.enqueue('mail')" # its definition's
	refused 42501 "select jobrun.enqueue_many('work', '{1}', queue => 'fast')"
	refused 42501 "select jobrun.enqueue_definition('nightly')"
	refused 42501 "insert into jobrun.new_runs (job_type, run) values ('work', '{\"queue\": \"fast\"}')"
	refused 42501 "insert into jobrun.new_runs (job_type, options) values ('work', '{\"queue\": \"fast\"}')"
	refused 42501 "select jobrun.enqueue_lines('work', '{1}', '{\"queue\": \"fast\"}')"
	refused 42501 "select jobrun.enqueue_lines('work', '{\"{\\\"queue\\\": \\\"fast\\\"}\"}', per_run => true)"
	q_is 0 "select count(*) from jobrun.job_queues where name = 'fast'"
	as_jr enqueue work --queue fast
	assert_equal "$status" 77
	assert_equal "$stderr" "jobrun: role \"$app\" may not enqueue job type \"work\" into queue \"fast\"; jobrun grant enqueue $app --type work,mail --queue slow,default,fast --max-open 9"
	as_jr enqueue other
	assert_equal "$stderr" "jobrun: role \"$app\" may not enqueue job type \"other\"; jobrun grant enqueue $app --type work,mail,other --queue slow,default --max-open 9"
	jr_ok grant
	assert_line --regexp "^enqueue +$app +work, mail +slow, default +9 +"
	jr_ok grant enqueue "$app" --queue fast
	as "select jobrun.enqueue('other', queue => 'fast')" >/dev/null
	refused 42501 "select jobrun.enqueue('work')"
}

@test "grant --queue keeps runs and keys of other roles' queues out of reach" {
	jr_ok grant enqueue "$app" --queue mine
	q "select jobrun.enqueue('work', '1', queue => 'theirs', unique_key => 'u', idempotency_key => 'i')" >/dev/null
	refused 42501 "select jobrun.enqueue('work', '2', queue => 'theirs', unique_key => 'u', on_conflict => 'replace')"
	refused 42501 "select jobrun.enqueue('work', '2', queue => 'theirs', idempotency_key => 'i')"
	q_is 1 'select payload from jobrun.job_runs'
}

@test "one grant must allow both type and queue, and of several that do the most generous limit counts" {
	group=group_$JR_DATABASE
	make_role "$group"
	admin "grant \"$group\" to \"$app\""
	jr_ok grant enqueue "$app" --type mail --queue post --max-open 1
	jr_ok grant enqueue "$group" --type work --queue shop
	as "select jobrun.enqueue('mail', queue => 'post')" "select jobrun.enqueue('work', queue => 'shop')" "select jobrun.enqueue('work', queue => 'shop')" >/dev/null
	refused 42501 "select jobrun.enqueue('mail', queue => 'shop')"
	refused 42501 "select jobrun.enqueue('work', queue => 'post')"
	refused 53400 "select jobrun.enqueue('mail', queue => 'post')"
	jr_ok grant enqueue "$group" --max-open 2
	as "select jobrun.enqueue('mail', queue => 'post')" >/dev/null
	refused 53400 "select jobrun.enqueue('mail', queue => 'post')"
}

@test "grant: --queue and --max-open are of kind enqueue; wrong ones are exit 64" {
	for arguments in "read $app --queue q" "read $app --max-open 3" "enqueue $app --max-open 0" "enqueue $app --queue NO" \
		"enqueue $app --revoke --queue q" "enqueue $app --revoke --max-open 3" '--max-open 3'; do
		# shellcheck disable=SC2086 # words
		jr grant $arguments
		assert_equal "$status" 64
	done
	for sql in "'read', '$app', queues => '{q}'" "'run', '$app', max_open => 3" "'enqueue', '$app', max_open => 0" "'enqueue', '$app', queues => '{NO}'"; do
		run q "select jobrun.add_grant($sql)"
		assert_equal "$status" 1
	done
	q_is 0 'select count(*) from jobrun.job_grants'
}

@test "grant --max-open counts runs that have not ended, by each way in" {
	handler work <<<'exit 0'
	jr_ok grant enqueue "$app" --max-open 3
	as "select jobrun.enqueue('work', unique_key => 'u')" "select jobrun.enqueue('work', run_in => '1 year')" >/dev/null
	refused 53400 "select jobrun.enqueue_many('work', '{1,2}')"
	refused 53400 "insert into jobrun.new_runs (job_type, payload) select 'work', i::text::jsonb from generate_series(1, 2) i"
	refused 53400 "select jobrun.enqueue_lines('work', '{1,2}')"
	as "insert into jobrun.new_runs (job_type) values ('work')"
	refused 53400 "select jobrun.enqueue('work')"
	refused 53400 "insert into jobrun.new_runs (job_type, run) values ('work', '{\"unique_key\": \"v\"}')"
	as "select jobrun.enqueue('work', unique_key => 'u')" >/dev/null # there already
	assert_equal "$(as "select count(*) from jobrun.enqueue_many('work', null)" "select count(*) from jobrun.enqueue_many('work', '{}')")" $'0\n0'
	as_jr enqueue work
	assert_equal "$status" 75
	assert_equal "$stderr" "jobrun: role \"$app\" may have 3 unfinished runs, and would have more; try again when some have ended, or grant again with a higher --max-open"
	enqueue work # another role
	jr_ok run
	as "select jobrun.enqueue_many('work', '{1,2}')" >/dev/null
	refused 53400 "select jobrun.enqueue('work')"
	jr_ok grant enqueue "$app"
	as "select jobrun.enqueue('work')" >/dev/null
}

@test "grant --max-open ignores runs of others and does not wait for uncommitted ones" {
	jr_ok grant enqueue "$app" --max-open 1
	hold "set session authorization \"$app\"; select jobrun.enqueue('work')"
	as "set statement_timeout = '5s'" "select jobrun.enqueue('work')" >/dev/null
	release_holds
	refused 53400 "select jobrun.enqueue('work')"
	# Not even its own from before it had a limit.
	q "insert into jobrun.job_runs (job_type, created_by) select 'work', '$app' from generate_series(1, 20000)" 'analyze jobrun.job_runs'
	jr_ok grant enqueue "$app" --max-open 2
	rows=$(as begin "select jobrun.enqueue('work')" "select sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid))
		from pg_class c where c.relname in ('job_runs', 'job_runs_counted')" commit | tail -n 1)
	[ "$rows" -lt 50 ] || fail "$rows rows were read"
	refused 53400 "select jobrun.enqueue('work')"
}

@test "a role that may only enqueue can ask for 1,000 attempts at most, a second apart at least; definitions may exceed that" {
	jr_ok grant enqueue "$app"
	as "select jobrun.enqueue('work', max_attempts => 2147483647, backoff_base => '0', backoff_cap => '0')" \
		"select jobrun.enqueue_many('work', '{1}', max_attempts => 2147483647, backoff_base => '1 ms', backoff_cap => '2 ms')" \
		"insert into jobrun.new_runs (job_type, run) values ('work', '{\"max_attempts\": 1001, \"backoff_base\": \"0\", \"unique_key\": \"u\"}')" \
		"select jobrun.enqueue('work', max_attempts => 7, backoff_base => '2 s')" "select jobrun.enqueue('work')" >/dev/null
	q_is '1|1000|00:00:01|00:00:01
2|1000|00:00:01|00:00:01
3|1000|00:00:01|
4|7|00:00:02|
5|5||' 'select id, max_attempts, backoff_base, backoff_cap from jobrun.job_runs order by id'
	refused JR065 "select jobrun.enqueue('work', max_attempts => 0)"
	refused JR065 "select jobrun.enqueue('work', backoff_base => '-1 s')"
	refused JR065 "select jobrun.enqueue('work', backoff_base => '-1 year 361 days')"
	# More than a second to PostgreSQL, which compares years of 360 days, and none to who counts seconds.
	as "select jobrun.enqueue('odd', backoff_base => '-1 year 365 days 06:00', backoff_cap => '-1 year 365 days 06:00')" \
		"select jobrun.enqueue_many('odd', '{1}', backoff_base => '-1 year 365 days 06:00')" >/dev/null
	q_is '00:00:01|00:00:01
00:00:01|' "select backoff_base, backoff_cap from jobrun.job_runs where job_type = 'odd' order by id"
	q "select jobrun.define('work', '{\"max_attempts\": 5000, \"backoff_base\": \"100 ms\"}')" >/dev/null
	as "select jobrun.enqueue('work')" "select (jobrun.enqueue_definition('work')).id" >/dev/null
	q_is '2' "select count(*) from jobrun.job_runs where max_attempts = 5000 and backoff_base = '100 ms'"
	q "select jobrun.enqueue('work', max_attempts => 2147483647, backoff_base => '0')" >/dev/null
	q_is '2147483647|00:00:00' 'select max_attempts, backoff_base from jobrun.job_runs order by id desc limit 1'
}

@test "a run of such a role that fails is tried again after a second at the earliest" {
	jr_ok grant enqueue "$app"
	handler bad <<<'exit 1'
	as "select jobrun.enqueue('bad', max_attempts => 2147483647, backoff_base => '0', backoff_cap => '0') from generate_series(1, 20)" >/dev/null
	jr_ok run --max-runs 20
	q_is '20|t' "select count(*), min(run_at - failed_at) >= interval '1 second' from jobrun.job_runs where status = 'failed'"
}

@test "enqueue with the first lock key of a new queue waits a second for another's open transaction, then raises 40001" {
	jr_ok grant enqueue "$app"
	hold "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'a')"
	run as "set statement_timeout = '20s'" "set lock_timeout = 0" "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'b')"
	assert_output --partial 'another transaction creates or changes queue "new" and is still open; try again'
	assert_output --partial 'jobrun queue new --per-key 1 creates it once and for all'
	refused 40001 "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'b')"
	refused 40001 "select jobrun.enqueue_many('work', '{1}', queue => 'new', concurrency_key => 'b')"
	refused 40001 "insert into jobrun.new_runs (job_type, run) values ('work', '{\"queue\": \"new\", \"concurrency_key\": \"b\"}')"
	# Less than that second if the client says so: statement_timeout would be another error.
	refused 40001 "set statement_timeout = '900ms'; set lock_timeout = '20ms'; select jobrun.enqueue('work', queue => 'new', concurrency_key => 'b')"
	as_jr enqueue work --queue new --lock b
	assert_equal "$status" 75
	# Other queues are not in its way, and what the client has set stays.
	assert_equal "$(as "set lock_timeout = '7s'" begin "select jobrun.enqueue('work', queue => 'other', concurrency_key => 'a') > 0" \
		'show lock_timeout' commit 'show lock_timeout')" 't
7s
7s'
	release_holds
	as "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'b')" >/dev/null
}

@test "exec with the first lock key of a new queue waits five seconds for another's open transaction, and says so" {
	jr_ok grant enqueue "$app"
	jr_ok define old --queue new --lock a
	q "delete from jobrun.job_queues where name = 'new'" # as if the definition had been inserted by hand
	hold "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'b')"
	jr exec --strict old -- true
	assert_equal "$status" 75
	assert_regex "$stderr" 'somebody else has had queue new locked for 5 s: .*; old was not started$'
	release_holds
	jr_ok exec --strict old -- true
}

@test "a schedule with a lock key has its queue row already, so no open transaction keeps it from its slots" {
	jr_ok grant enqueue "$app"
	jr_ok define nightly --schedule @hourly --queue new --lock a
	q_is new 'select name from jobrun.job_queues'
	q "update jobrun.job_definitions set next_slot_at = now() - interval '1 hour' where name = 'nightly'"
	hold "select jobrun.enqueue('work', queue => 'new', concurrency_key => 'b')"
	q_is queued "select outcome from jobrun.fire() where definition = 'nightly' order by slot desc limit 1"
	release_holds
}

# in_encoding NAME BAD: in a database with that encoding. BAD is a text that a client can store there and that UTF-8 lacks.
in_encoding() {
	local call

	export JR_DATABASE=$JR_OTHER JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_OTHER" PGCLIENTENCODING=$1
	jr_ok migrate
	jr_ok grant enqueue "$app"
	for call in "enqueue('work', to_jsonb($2::text))" "enqueue_many('work', array['1', to_jsonb($2::text)])" \
		"enqueue('work', idempotency_key => $2)" "enqueue('work', unique_key => $2)" "enqueue('work', concurrency_key => $2)" \
		"enqueue('work', trace_context => $2)" "cancel(jobrun.enqueue('work'), $2)"; do
		refused '(22021|22P05)' "select jobrun.$call"
	done
	refused '(22021|22P05)' "insert into jobrun.new_runs (job_type, payload) values ('work', to_jsonb($2::text))"
	as "select jobrun.enqueue('work', '1', idempotency_key => 'fine')"
	unset PGCLIENTENCODING
	jr_ok run
	q_is '1|succeeded' 'select count(*), min(status) from jobrun.job_runs'
}

# Without this nobody could claim, or list, anything beside such a run.
@test "in a database that is not in UTF-8, what UTF-8 lacks is refused before it stops a queue" {
	local encoding

	handler work <<<:
	JR_OTHER=${JR_DATABASE}_other
	for encoding in SQL_ASCII WIN1252; do
		admin "create database $JR_OTHER template template0 encoding '$encoding' lc_collate 'C' lc_ctype 'C'"
		(in_encoding "$encoding" "E'\\x81'")
		admin "drop database $JR_OTHER"
	done
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
