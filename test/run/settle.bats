#!/usr/bin/env bats
# How runs are settled: each is found by its id, whatever the statistics say, also when it has changed while its lock was waited for.

load ../lib/common
load ../lib/sql

# changed_meanwhile SQL: run 1 is held by runner 1, and somebody changes it in a transaction that stays open.
changed_meanwhile() {
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'h', 'x')" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_until, locked_by, started_at)
			values ('x', 'running', 1, 1, 1, now() + interval '1 hour', 'h', now())"
	hold "$1"
}

# settled CALL: what a call answers that had to wait for the row.
settled() {
	q "$1" >answer 2>&1 &
	settler=$!
	wait_until 10 waiting_for_lock 1
	printf 'commit;\n' >&"${hold_fds[0]}"
	wait "$settler" || true
	cat answer
}

settle="select s.status from jobrun.settle('{1}', '{1}', '{1}', '{failed}', '{0}', '{code}', '{text}', null, null, null, null, null, null,
	null, null, null, now()) s"
settle_good="select from jobrun.settle('{1}', '{1}', '{1}', '{succeeded}', null, null, null, null, null, null, null, null, null,
	null, null, null, now())"
settle_group="select s.status from jobrun.settle_group('{1}', '{1}', 1, '{failed}', '{0}', '{code}', '{text}') s"
settle_all="select s.status from jobrun.settle_group('{1,2}', '{1,1}', 1, '{succeeded,succeeded}', null, null, null) s"
settle_done="select jobrun.settle_done('{1}', '{1}', 1, '{null}')"
settle_all_done="select 'succeeded' from jobrun.settle_done('{1,2}', '{1,1}', 1, null), generate_series(1, 2)"
settle_one="select jobrun.settle_one(1, 1, 1, null)"

@test "a settle that waited for a locked row sees the row as it has become" {
	local call

	for call in "$settle" "$settle_good" "$settle_group" "$settle_done" "$settle_one"; do
		changed_meanwhile 'update jobrun.job_runs set cancel_requested_at = now() where id = 1'
		case $(settled "$call") in
		cancelled) q_is 'cancelled|code' 'select status, error_code from jobrun.job_runs' ;;
		'') q_is succeeded 'select status from jobrun.job_runs' ;;
		*) fail "$(cat answer)" ;;
		esac
		release_holds
		rm "$BATS_TEST_TMPDIR"/hold.*
		q 'truncate jobrun.job_runs, jobrun.job_attempts, jobrun.job_runners restart identity'
	done
}

@test "a settle that waited for a locked row does not settle a run that was lost meanwhile" {
	local call

	for call in "$settle" "$settle_good" "$settle_group" "$settle_done" "$settle_one"; do
		changed_meanwhile "update jobrun.job_runs set status = 'queued', attempts = 0, locked_until = null where id = 1"
		case $(settled "$call") in
		'' | *'the lease of 1 of 1 runs is lost'* | *'the lease of the run is lost'*) ;;
		*) fail "$(cat answer)" ;;
		esac
		q_is 'queued|0' 'select status, (select count(*) from jobrun.job_attempts) from jobrun.job_runs'
		release_holds
		rm "$BATS_TEST_TMPDIR"/hold.*
		q 'truncate jobrun.job_runs, jobrun.job_attempts, jobrun.job_runners restart identity'
	done
}

# Where all have succeeded settle has a statement of its own.
@test "a success is written alike by itself and beside a failure" {
	local n=0 texts

	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'h', 'x')" \
		"insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_until, locked_by, created_at, run_at, started_at,
				cancel_requested_at, last_error, error_code, failed_at, snoozes, output, output_dropped, progress, checkpoint, result)
			select 'x', 'running', 2, 3, 1, now() + interval '1 hour', 'h', '2020-01-01', '2020-01-01', '2020-01-01',
				'2020-01-01', 'old', 'old', '2020-01-01', 1, 'old', 1, '1', '2', '3' from generate_series(1, 12)" \
		"create function public.ends(ids bigint[], outcomes text[], cpu_ms bigint[], outputs text[], results text[], progress text[], checkpoints text[])
			returns bigint language sql as \$\$ select count(*) from jobrun.settle(ids, '{3,3}', '{1,1}', outcomes, '{5,5}', '{c,c}', '{e,e}', '{0,0}',
				'{7,7}', cpu_ms, '{9,9}', outputs, '{4,4}', results, progress, checkpoints, '2020-01-02') \$\$"
	for texts in 'null, null, null, null, null' "'{1000}', null, null, null, null" \
		"null, '{o}', array['{\"result\": [1]}'], array['{\"progress\": null}'], array['{\"checkpoint\": 5}']" \
		"null, null, array['{\"result\": null}'], array['{\"progress\": [1]}'], array['{\"checkpoint\": null}']"; do
		q_is 1 "select public.ends('{$((n + 1))}', '{succeeded}', $texts)"
		q_is 2 "select public.ends('{$((n + 2)),$((n + 3))}', '{succeeded,failed}', $texts)"
		q_is 1 "select count(distinct to_jsonb(r) - 'id') from jobrun.job_runs r where id in ($((n + 1)), $((n + 2)))"
		n=$((n + 3))
	done
	q_is '4|2' "select count(*), count(distinct to_jsonb(a) - 'run_id') from jobrun.job_attempts a where outcome = 'succeeded'"
	q 'truncate jobrun.job_runs, jobrun.job_attempts, jobrun.job_runners restart identity'
}

@test "settle refuses any isolation level but READ COMMITTED" {
	local call level

	for level in 'repeatable read' serializable; do
		for call in "$settle" "$settle_good" "$settle_group" "$settle_done" "$settle_one"; do
			run q "begin isolation level $level" "$call"
			assert_regex "$output" 'jobrun\.settle(_done|_one)? needs READ COMMITTED'
		done
	done
}

@test "runs that end together with large checkpoints are settled in several statements" {
	handler large <<-'sh'
		echo up >>"$TMPDIR/up"
		until [ -e "$TMPDIR/go" ]; do sleep 0.05; done
		head -c 200000 /dev/zero | tr '\0' x | sed 's/.*/{"checkpoint": "&"}/' >>"$JOBRUN_OUT"
		echo down >>"$TMPDIR/down"
	sh
	q 'create table public.sizes (n bigint)' "create function public.note() returns trigger language plpgsql as \$\$ begin
			insert into public.sizes select count(*) from now_settled where locked_until is null; return null; end \$\$" \
		"create trigger notes after update on jobrun.job_runs referencing new table as now_settled for each statement execute function public.note()"
	for _ in 1 2 3 4; do enqueue large; done
	bg_runner -j 4 --lease 90s
	wait_until 10 up_is 4
	kill -STOP "$runner_pid"
	touch "$TMPDIR/go"
	wait_until 10 down_is 4
	wait_until 10 have_ended 4
	kill -CONT "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is '1|4' "select max(n), sum(n) from public.sizes"
	q_is 4 "select count(*) from jobrun.job_runs where length(checkpoint::text) > 200000"
}

# A role that may only enqueue can do this to its own runs: cancel() in a transaction that stays open.
@test "outcomes that wait for locked rows hold back neither other outcomes nor claims, and are written when the lock ends" {
	local free locked

	handler held <<<'touch "$TMPDIR/held.$JOBRUN_RUN_ID"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	handler other <<<'touch "$TMPDIR/other.$JOBRUN_RUN_ID"'
	for _ in 1 2 3 4 5 6; do locked=$(enqueue held); done
	free=$(enqueue held)
	bg_runner -j 7 -v
	wait_until 10 test -e "$TMPDIR/held.$free"
	hold "select jobrun.cancel(id) from jobrun.job_runs where id <= $locked"
	touch "$TMPDIR/go"
	wait_until 10 ended "$free"
	for _ in 1 2 3; do
		id=$(enqueue other)
		wait_until 5 ended "$id"
	done
	wait_until 10 told_locked 6
	q_is 6 "select count(*) from jobrun.job_runs where status = 'running'"
	release_holds
	wait_runner "" 10
	assert_equal "$runner_status" 0
	told_locked 6 # each once
	q_is 10 "select count(*) from jobrun.job_runs where status = 'succeeded' and attempts = 1"
}

# told_locked N: the runner has logged N times that the row of a run is locked.
told_locked() {
	[ "$(grep -c 'event=locked run=[0-9]' "$runner_err")" -eq "$1" ]
}

ended() {
	[ "$(q "select status from jobrun.job_runs where id = $1")" = succeeded ]
}

# have_ended N: N children of the stopped runner wait to be reaped.
have_ended() {
	[ "$(ps -o stat= --ppid "$runner_pid" | grep -c '^Z')" -eq "$1" ]
}

down_is() {
	[ -e "$TMPDIR/down" ] && [ "$(wc -l <"$TMPDIR/down")" -eq "$1" ]
}

# refuse_ends SQLSTATE WHEN: the server refuses the end of a run with it.
refuse_ends() {
	q "create sequence public.refused" "create function public.refuse() returns trigger language plpgsql as \$\$ begin
			if $2 then raise exception 'not so' using errcode = '$1'; end if; return new; end \$\$" \
		"create trigger refuses before update on jobrun.job_runs for each row
			when (old.locked_until is not null and new.locked_until is null) execute function public.refuse()"
	handler says <<<'echo printed; echo "{\"result\": 1, \"checkpoint\": 2, \"progress\": 3}" >>"$JOBRUN_OUT"'
	id=$(enqueue says)
}

# told_once STATUS: the runner has ended with it, and has said once that the server refused.
told_once() {
	assert_equal "$status" "$1"
	assert_equal "$(grep -c '^jobrun: not so' <<<"$stderr")" 1
	assert_equal "$(grep -c 'event=outcome_refused .*error="not so"' <<<"$stderr")" 1
}

@test "an outcome that is refused not for its texts is sent again with them, and written when the server takes it" {
	refuse_ends 42501 "nextval('public.refused') <= 2"
	jr run
	told_once 77
	q_is 'succeeded|1|2|3' "select status, result, checkpoint, progress from jobrun.job_runs where id = $id"
	assert_equal "$(printed "$id")" printed
}

@test "an outcome that is always refused is given up when its time is over, and that is said once" {
	refuse_ends 42501 true
	jr run --lease 2s
	told_once 77
	q_is 'running|' "select status, result from jobrun.job_runs where id = $id"
}

@test "an outcome that is refused for its texts is written without them" {
	refuse_ends 22P05 'new.result is not null'
	jr run
	assert_equal "$status" 0
	assert_equal "$(grep -c 'event=outcome_refused .*error="not so"' <<<"$stderr")" 1
	q_is 'succeeded|||' "select status, result, checkpoint, progress from jobrun.job_runs where id = $id"
}

# pages CALL ROWS: how many pages each of some calls reads, with a plan made when the table had so many rows, all analysed ("never": not
# at all, and none), and with 100,000 rows now. Each run of its own: $1 in the call is its id.
pages() {
	local rows=$2 analyse='analyze jobrun.job_runs'

	[ "$rows" != never ] || { rows=0 analyse='select'; }
	q 'truncate jobrun.job_runs, jobrun.job_attempts restart identity' "select running($rows)" "$analyse" "select warm(\$call\$${1//\$1/0}\$call\$)" 'select running(100000)' \
		"select cost(\$call\$$1\$call\$, ${3:-50000} + i) from generate_series(1, 5) i" "$analyse" \
		"select cost(\$call\$$1\$call\$, ${4:-60000} + i) from generate_series(1, 5) i" 2>/dev/null | tail -n 10
}

@test "a settle of one run reads few pages, with whatever statistics its plan was made" {
	local call rows counts

	needs_session # a plan is that of a connection
	q "alter table jobrun.job_runs set (autovacuum_enabled = off)" "create function running(n integer) returns void language sql as \$\$
			insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_until, locked_by, started_at)
			select 'x', 'running', 1, 1, 1, now() + interval '1 hour', 'h', now() from generate_series(1, n) \$\$" \
		"create function cost(call text, id bigint, out pages bigint) language plpgsql as \$\$
		declare
			v_plan json;
		begin
			execute 'explain (analyze, buffers, format json) ' || replace(call, '\$1', id::text) into v_plan;
			pages := (v_plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (v_plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
		end \$\$"
	q "create function warm(call text) returns void language plpgsql as \$\$ begin
			execute call; exception when sqlstate 'JR074' then null; end \$\$"
	for call in "${settle/\{1\}/\{\$1\}}" "${settle_good/\{1\}/\{\$1\}}" "${settle_done/\{1\}/\{\$1\}}" "${settle_one/1/\$1}"; do
		for rows in 0 1 31 never; do
			counts=$(pages "$call" "$rows")
			echo "$rows rows, $call:" $counts
			assert_equal "$(wc -l <<<"$counts")" 10
			# To plan takes some, a thousand when the caches of the session are filled anew; to walk through all rows takes more.
			[ "$(sort -n <<<"$counts" | tail -n 1)" -lt 2000 ]
		done
	done
	q_is 0 "select count(*) from jobrun.job_runs where id between 50001 and 50005 and status <> 'succeeded'"
	q 'truncate jobrun.job_runs, jobrun.job_attempts restart identity'
}

# two_changed_meanwhile SQL: as changed_meanwhile, with a second run that nobody changes.
two_changed_meanwhile() {
	q "insert into jobrun.job_runs (id, job_type, status, attempts, claim_seq, runner_id, locked_until, locked_by, started_at)
		overriding system value values (2, 'x', 'running', 1, 1, 1, now() + interval '1 hour', 'h', now())"
	changed_meanwhile "$1"
}

@test "the end of a batch that waited for a locked row sees the row as it has become" {
	local call

	for call in "$settle_all" "$settle_all_done"; do
		two_changed_meanwhile 'update jobrun.job_runs set cancel_requested_at = now() where id = 1'
		assert_equal "$(settled "$call")" $'succeeded\nsucceeded'
		q_is '2|2' "select count(*), count(finished_at) from jobrun.job_runs where status = 'succeeded'"
		release_holds
		q 'truncate jobrun.job_runs, jobrun.job_attempts, jobrun.job_runners restart identity'
	done
}

@test "the end of a batch is refused when a run of it was lost while it waited" {
	local call

	for call in "$settle_all" "$settle_all_done"; do
		two_changed_meanwhile "update jobrun.job_runs set status = 'queued', attempts = 0, locked_until = null where id = 1"
		assert_regex "$(settled "$call")" 'the lease of 1 of 2 runs is lost'
		q_is 'queued,running' "select string_agg(status, ',' order by id) from jobrun.job_runs"
		release_holds
		q 'truncate jobrun.job_runs, jobrun.job_attempts, jobrun.job_runners restart identity'
	done
}

@test "the end of a batch of a thousand runs reads some pages for each, with whatever statistics its plan was made" {
	local rows counts

	needs_session # a plan is that of a connection
	q "alter table jobrun.job_runs set (autovacuum_enabled = off)" "create function running(n integer) returns void language sql as \$\$
			insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_until, locked_by, started_at)
			select 'x', 'running', 1, 1, 1, now() + interval '1 hour', 'h', now() from generate_series(1, n) \$\$" \
		"create function cost(call text, id bigint, out pages bigint) language plpgsql as \$\$
		declare
			v_plan json;
		begin
			execute 'explain (analyze, buffers, format json) ' || replace(call, '\$1', (id * 1000)::text) into v_plan;
			pages := (v_plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (v_plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
		end \$\$" \
		"create function warm(call text) returns void language plpgsql as \$\$ begin
			execute call; exception when sqlstate 'JR074' then null; end \$\$"
	for rows in 0 1 31 never; do
		counts=$(pages "select jobrun.settle_done(array(select generate_series(\$1, \$1 + 999)), array_fill(1::bigint, '{1000}'), 1, null)" \
			"$rows" 50 60)
		echo "$rows rows:" $counts
		assert_equal "$(wc -l <<<"$counts")" 10
		# 20 to 30 for each run. Reading all rows once would take a few thousand more, and once for each run millions.
		[ "$(sort -n <<<"$counts" | tail -n 1)" -lt 45000 ]
	done
	q 'truncate jobrun.job_runs, jobrun.job_attempts restart identity'
}

@test "the end of many runs looks each up by its id, in order of id, with whatever statistics its plan was made" {
	local rows analyse plan nulls='null, null, null, null, null, null, null, null, null, null, null, null, now()'

	needs_session # a plan is that of a connection
	q 'alter table jobrun.job_runs set (autovacuum_enabled = off)'
	for rows in 0 1 31 never; do
		analyse='analyze jobrun.job_runs'
		[ "$rows" != never ] || analyse='select'
		# To read its own plan: the statement within the function is told by auto_explain.
		plan=$(q 2>&1 <<-sql
			create function pg_temp.running(n integer) returns void language sql as \$\$
				insert into jobrun.job_runs (job_type, status, attempts, claim_seq, runner_id, locked_until, locked_by, started_at)
				select 'x', 'running', 1, 1, 1, now() + interval '1 hour', 'h', now() from generate_series(1, n) \$\$;
			truncate jobrun.job_runs restart identity;
			select pg_temp.running(${rows/never/0});
			$analyse;
			do \$\$ begin perform jobrun.settle_done('{0,-1}', '{1,1}', 1, null); exception when sqlstate 'JR074' then null; end \$\$;
			select from jobrun.settle('{0,-1}', '{1,1}', '{1,1}', '{succeeded,succeeded}', $nulls);
			select pg_temp.running(2000);
			load 'auto_explain';
			set auto_explain.log_nested_statements = on;
			set auto_explain.log_analyze = on;
			set auto_explain.log_level = notice;
			set auto_explain.log_min_duration = 0;
			set client_min_messages = notice;
			select jobrun.settle_done(array(select generate_series(1999, 1000, -1)), array_fill(1::bigint, '{1000}'), 1, null);
			select from jobrun.settle(array(select generate_series(999, 0, -1)), array_fill(1::bigint, '{1000}'), array_fill(1::bigint, '{1000}'),
				array_fill('succeeded'::text, '{1000}'), $nulls);
		sql
		)
		echo "$rows rows: $plan"
		# In both the runs that end are the outer side of the join, sorted; each is one look at the primary key.
		plan=$(grep -A 12 'Update on job_runs' <<<"$plan" | grep -E 'Nested Loop|Sort  |Index Scan|Seq Scan|Hash|Merge|Materialize' |
			sed -E 's/^[ >-]*//; s/  \(.*loops=([0-9]+).*/ \1/')
		assert_equal "$plan" "$(printf 'Nested Loop 1\nSort 1\nIndex Scan using job_runs_pkey on job_runs r 1000\n%.0s' settle_done settle)"
	done
	q 'truncate jobrun.job_runs, jobrun.job_attempts restart identity'
}

@test "results that are more than one settle takes are written in the order in which their runs were claimed" {
	handler chatty <<-'sh'
		cat "$TMPDIR/large" >"$JOBRUN_OUT"
	sh
	{ printf '{"result": "' && head -c 250000 /dev/zero | tr '\0' x && echo '"}'; } >"$TMPDIR/large"
	q "insert into jobrun.job_runs (job_type) select 'chatty' from generate_series(1, 100)"
	jr_ok run -j 16
	q_is 100 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	# How many that were claimed a good while later ended before it: a few, not all of them.
	q_is t "select max((select count(*) from jobrun.job_runs b where b.id > a.id + 20 and b.finished_at < a.finished_at)) < 20 from jobrun.job_runs a"
}
