#!/usr/bin/env bats
# Answers that make no sense: a tick says so in one line, with exit status 70, and ends; runs are left as they are.

load ../lib/common
load ../lib/sql

setup() {
	common_setup
	handler work <<<'exit 0'
}

# is_nonsense REGEX [ARGUMENT...]: a tick ends with 70 and one line.
is_nonsense() {
	local regex=$1

	shift
	jr run "$@"
	assert_equal "$output" ''
	assert_one_line 70 "^jobrun: .*$regex.*please report this"
}

# fire_is RETURNS BODY: another fire().
fire_is() {
	q "drop function jobrun.fire(timestamptz)"
	q "create function jobrun.fire(at timestamptz default now()) returns table ($1) language sql as \$fn\$ $2 \$fn\$"
}

# held_is COLUMN EXPRESSION: this column of what claims and adoptions give; '' is as it was.
held_is() {
	q "create table if not exists public.as_it_was as select rtrim(pg_get_viewdef('jobrun.held_runs'), ';') as text;
		do \$do\$ begin
			execute (select 'create or replace view jobrun.held_runs as select '
				|| string_agg(case a.attname when '$1' then '$2 as ' else 'h.' end || a.attname, ', ' order by a.attnum)
				|| ' from (' || (select w.text from public.as_it_was w) || ') h'
			from pg_attribute a where a.attrelid = 'jobrun.held_runs'::regclass and a.attnum > 0);
		end \$do\$"
}

schedule_that_is_due() {
	jr_ok define tick --type work --schedule '@every 1h'
	q "update jobrun.job_definitions set next_slot_at = now() - interval '1 s' where name = 'tick'"
}

@test "a NULL in a required column of a claim exits with 70 and its name, and the run is left to its lease" {
	local id

	id=$(enqueue work)
	held_is claim_seq "nullif(h.claim_seq, h.claim_seq)"
	is_nonsense 'claim makes no sense: column claim_seq is null'
	assert_equal "$(field "$id" 'status, attempts, claim_seq')" 'running|1|1'
	q_is 0 "select count(*) from jobrun.job_attempts"
	held_is '' ''
}

@test "a required text that is NULL does not crash the runner" {
	local column

	for column in job_type payload queue run_at key; do
		enqueue work
		held_is "$column" "nullif(h.$column, h.$column)"
		is_nonsense "claim makes no sense: column $column is null"
	done
	held_is '' ''
}

@test "a claim that returns more than was asked for exits with 70, and nothing of it is started" {
	enqueue work
	enqueue work
	q "alter function jobrun.claim(bigint, text, integer, text[], text[], smallint[], smallint, timestamptz, bigint, bigint, bigint,
			integer, text[]) rename to real_claim;
		create function jobrun.claim(bigint, text, integer, text[], text[], smallint[], smallint, timestamptz, bigint, bigint, bigint,
			integer, text[])
		returns setof jobrun.held_runs language sql volatile as
			'select * from jobrun.real_claim(\$1, \$2, 2, \$4, \$5, \$6, \$7, \$8, \$9, \$10, \$11)'"
	is_nonsense 'claim makes no sense: 2 rows where 1 are the most' -j 1
	q_is 'running|2' "select status, count(*) from jobrun.job_runs group by status"
}

@test "runs that were held before an answer made no sense are finished and written" {
	local id

	waiting_handler slow
	id=$(enqueue slow)
	bg_runner -j 2
	wait_until 5 up_is 1
	held_is claim_seq "nullif(h.claim_seq, h.claim_seq)"
	enqueue work
	wait_until 5 q_is 2 "select count(*) from jobrun.job_runs where status = 'running'"
	held_is '' ''
	touch "$TMPDIR/go"
	wait_runner
	assert_equal "$runner_status" 70
	run_is "$id" succeeded
	q_is 'running|1|1' "select status, attempts, claim_seq from jobrun.job_runs where id <> $id"
	assert_equal "$(wc -l <"$runner_err")" 1
}

# settle_is COLUMN EXPRESSION: this column of what settle gives, of what it gave in truth (s).
settle_is() {
	q "alter function jobrun.settle(bigint[], bigint[], bigint[], text[], bigint[], text[], text[], integer[], bigint[], bigint[],
			bigint[], text[], bigint[], text[], text[], text[], timestamptz) rename to real_settle;
		create function jobrun.settle(a bigint[], b bigint[], c bigint[], d text[], e bigint[], f text[], g text[], h integer[],
			i bigint[], j bigint[], k bigint[], l text[], m bigint[], n text[], o text[], p text[], q timestamptz)
		returns table (id bigint, claim_seq bigint, status text, attempts bigint, max_attempts bigint, run_in_ms bigint, alarm bigint)
		language plpgsql volatile as \$fn\$ declare s record; begin
			for s in select * from jobrun.real_settle(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q) loop
				s.$1 := $2;
				return query select s.id, s.claim_seq, s.status, s.attempts, s.max_attempts, s.run_in_ms, s.alarm;
			end loop;
		end \$fn\$"
}

@test "when a settle's answer makes no sense, what it wrote is found and the tick ends with 70" {
	local id

	id=$(enqueue work)
	settle_is status null
	is_nonsense 'settle makes no sense: column status is null'
	assert_equal "$(field "$id" 'status, attempts, claim_seq')" 'succeeded|1|1'
}

@test "a settle that never writes and never makes sense is repeated a bounded number of times, and the run is left to its lease" {
	local id

	id=$(enqueue work)
	q "create sequence public.asked"
	settle_is status null
	q "alter function jobrun.real_settle(bigint[], bigint[], bigint[], text[], bigint[], text[], text[], integer[], bigint[], bigint[],
			bigint[], text[], bigint[], text[], text[], text[], timestamptz) rename to unused_settle;
		create function jobrun.real_settle(a bigint[], b bigint[], c bigint[], d text[], e bigint[], f text[], g text[], h integer[],
			i bigint[], j bigint[], k bigint[], l text[], m bigint[], n text[], o text[], p text[], q timestamptz)
		returns table (id bigint, claim_seq bigint, status text, attempts bigint, max_attempts bigint, run_in_ms bigint, alarm bigint)
		language sql volatile as \$fn\$ select a[1], b[1], nextval('public.asked')::text, 1::bigint, 5::bigint, null::bigint, null::bigint \$fn\$"
	is_nonsense 'settle makes no sense: column status is null' --lease 3s
	assert_equal "$(field "$id" 'status, attempts, claim_seq')" 'running|1|1'
	q_is t "select last_value < 150 from public.asked"
}

@test "when the answer to a settle of a batch makes no sense, effects and ends are kept and the tick ends with 70" {
	q 'create table done (run_id bigint)'
	settings many <<<'{"batch": 10}'
	sql_handler many <<<"with d as (insert into done select (r ->> 'run_id')::bigint from jsonb_array_elements(\$1) r returning run_id)
		select min(run_id), 'later', 'not now' from d"
	enqueue many
	enqueue many
	settle_is status "'perhaps'"
	is_nonsense 'the answer of settle_group makes no sense: column status has an unknown value'
	q_is 'queued succeeded' "select string_agg(status, ' ' order by id) from jobrun.job_runs where claim_seq = 1"
	q_is 2 "select count(*) from done"
}

@test "housekeeping that returns no row exits with 70, in a tick and in jobrun prune" {
	q "select jobrun.enqueue_definition('jobrun.prune')"
	q "create or replace function jobrun.prune_step(state jsonb default '{}', most bigint default 2000) returns jsonb
		language sql as 'select null::jsonb'"
	is_nonsense 'prune makes no sense: column state is null'
	jr prune
	assert_equal "$status" 70
	assert_regex "$stderr" 'prune makes no sense: column state is null'
	q_is 'queued|0' "select status, attempts from jobrun.job_runs"
}

@test "a runner's row that cannot be written ends the tick with 70 instead of keeping it" {
	enqueue work
	q "create function public.none() returns trigger language plpgsql as 'begin return null; end';
		create trigger none before insert on jobrun.job_runners for each row execute function public.none()"
	is_nonsense 'runner_start gave no row 5 times in a row'
	q_is 'queued|0' "select status, attempts from jobrun.job_runs"
}

@test "a fire() that returns something else exits with 70 and the column's name, and runs are untouched" {
	local id

	schedule_that_is_due
	id=$(enqueue work --in 1h)
	fire_is 'definition text, slot timestamptz, outcome text, reason text, run_id text, slots bigint' \
		"select 'tick', now(), 'queued', null, 'seven', 1::bigint"
	is_nonsense 'fire makes no sense: column run_id has another type'
	fire_is 'definition text, slot timestamptz, outcome text, reason text, run_id bigint, slots bigint' \
		"select 'tick', null::timestamptz, 'queued', null, 7::bigint, 1::bigint"
	is_nonsense 'fire makes no sense: column slot is null'
	fire_is 'definition text, slot timestamptz, outcome text, reason text, run_id bigint, slots bigint' \
		"select 'tick', now(), 'perhaps', null, 7::bigint, 1::bigint"
	is_nonsense 'fire makes no sense: column outcome has an unknown value'
	assert_equal "$(field "$id" 'status, attempts, claim_seq')" 'queued|0|0'
	q_is 1 "select count(*) from jobrun.job_runs"
}

@test "a fire() that always answers the same ends the tick with 70 instead of keeping it" {
	local id

	schedule_that_is_due
	id=$(enqueue work --in 1h)
	fire_is 'definition text, slot timestamptz, outcome text, reason text, run_id bigint, slots bigint' \
		"select 'tick', timestamptz '2026-01-01 00:00Z', 'skipped', null, null::bigint, 1::bigint"
	is_nonsense 'fire gave the same rows 100 times in a row'
	assert_equal "$(field "$id" 'status, attempts, claim_seq')" 'queued|0|0'
}

@test "a claim that always gives the same ends the tick with 70 instead of keeping it" {
	enqueue work
	q "create or replace function jobrun.claim(
			runner_id bigint, host text, n integer, job_types text[], queues text[], priorities smallint[],
			after_priority smallint, after_run_at timestamptz, after_id bigint, lease_ms bigint, claim_number bigint,
			ahead integer default 0, ahead_types text[] default '{}')
		returns setof jobrun.held_runs language plpgsql volatile as \$fn\$ begin
			return query select (jsonb_populate_record(null::jobrun.held_runs, '{\"id\": 777, \"claim_seq\": 1, \"job_type\": \"work\",
				\"queue\": \"default\", \"priority\": 100, \"run_at\": \"2026-01-01 00:00Z\", \"attempts\": 1, \"max_attempts\": 5,
				\"snoozes\": 0, \"releases\": 0, \"expired\": false, \"cancelled\": false, \"key\": \"k\", \"payload\": \"{}\",
				\"runner_id\": 1, \"started_ms\": 0}')).*;
		end \$fn\$"
	jr run -j 1
	assert_equal "$status" 70
	assert_regex "$stderr" 'claim gave the same rows 100 times in a row'
	q_is 'queued|0|0' "select status, attempts, claim_seq from jobrun.job_runs"
}

@test "what a trigger that people have made refuses names its function, in a command and in a tick" {
	q "create function public.mine() returns trigger language plpgsql as \$fn\$ begin raise exception 'not on my watch'; end \$fn\$" \
		"create trigger mine before insert on jobrun.job_runs for each row execute function public.mine()"
	jr enqueue work
	assert_one_line 70 '^jobrun: not on my watch \(P0001, PL/pgSQL function public\.mine\(\) line 1 at RAISE\)$'
	q 'drop trigger mine on jobrun.job_runs'
	enqueue work
	q 'create trigger mine before insert on jobrun.job_runners for each row execute function public.mine()'
	jr run
	assert_one_line 70 '^jobrun: not on my watch \(P0001, PL/pgSQL function public\.mine\(\) line 1 at RAISE\)'
	q_is queued 'select status from jobrun.job_runs'
}

@test "runs that a trigger of somebody's writes once more as they are claimed start like others" {
	q "create function public.mine() returns trigger language plpgsql as \$fn\$ begin
			update jobrun.job_runs set progress = '1' where id = new.id;
			return null;
		end \$fn\$" \
		"create trigger mine after update on jobrun.job_runs for each row when (old.status = 'queued' and new.status = 'running'
			and new.payload <> '1') execute function public.mine()" \
		"select count(*) from jobrun.enqueue_many('work', array['1', '2', '3', '4', '5']::jsonb[])" \
		"select jobrun.enqueue('work', unique_key => 'k')"
	jr_ok run -j 3
	q_is '6|1' "select count(*), max(claim_seq) from jobrun.job_runs where status = 'succeeded'"
}
