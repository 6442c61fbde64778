#!/usr/bin/env bats
# The archive: finished runs by the month in which they ended. Months are made, filled and dropped, and archived runs are seen.

load ../lib/common

# ended(ID, DATE, STATUS): a run that ended then, with an attempt that failed half a second before, and with output.
setup() {
	common_setup
	stay_in month
	q <<-'sql'
		update jobrun.settings set archive = true, keep_output = '100 years';
		create function public.ended(id bigint, at timestamptz, status text default 'dead', key text default null) returns void
		language sql as $$
			insert into jobrun.job_runs (id, job_type, status, created_at, run_at, started_at, finished_at, attempts, claim_seq, runner_id,
				locked_by, payload, last_error, result, unique_key)
			overriding system value values (id, 'work', status, at, at, at, at, 2, 2, 1, 'there', '{"n": 1}', 'no luck', '{"r": 2}', key);
			insert into jobrun.job_attempts (run_id, claim_seq, attempt, started_at, finished_at, outcome, error, output)
			values (id, 1, 1, at - interval '1 s', at - interval '500 ms', 'failed', 'no luck', 'first words');
			insert into jobrun.job_attempts (run_id, claim_seq, attempt, started_at, finished_at, outcome, error, output)
			select id, 2, 2, at, at, status, 'no luck', 'last words' where status <> 'cancelled';
		$$;
	sql
}

# months: the months there are, as YYYY-MM, with how many runs each has; "default" only if it has any.
months() {
	q <<-'sql'
		select string_agg(format('%s:%s', case when m.name like '%_default' then 'default' else right(m.name, 7) end, m.n), ' ' order by m.name)
		from (select c.relname as name, (select count(*) from jobrun.job_runs_archive a where a.tableoid = c.oid) as n
			from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'jobrun.job_runs_archive'::regclass) m
		where m.n > 0 or m.name not like '%_default'
	sql
}

# month N: the month N months from now, as YYYY_MM.
month() {
	q "select to_char(date_trunc('month', now() at time zone 'UTC') + $1 * interval '1 month', 'YYYY_MM')"
}

# ahead: what months() says of the months that are made ahead.
ahead() {
	printf '%s:0 %s:0 %s:0 %s:0' "$(month 0)" "$(month 1)" "$(month 2)" "$(month 3)"
}

@test "a run goes to the month in which it ended, by UTC, with its attempts, and months are made ahead" {
	q "select ended(1, '2024-01-31 23:59:59.999+00'), ended(2, '2024-02-01 00:00:00+00'), ended(3, '2024-02-29 23:30:00+00', 'succeeded')" >/dev/null
	PGTZ=Asia/Tokyo jr_ok prune
	assert_line --regexp '^runs dead, to the archive +2 90 days$'
	assert_equal "$(months)" "2024_01:1 2024_02:2 $(ahead)"
	q_is '2024_01 2|2024_02 4' "select string_agg(right(n.t, 7) || ' ' || n.n, '|' order by n.t)
		from (select tableoid::regclass::text as t, count(*) as n from jobrun.job_attempts_archive group by 1) n"
	q_is 0 'select count(*) from jobrun.job_attempts'
	jr_ok prune
	assert_output 'nothing to prune'
}

@test "a step asks once for each month, however full the table is" {
	q "insert into jobrun.job_runs (job_type, status, run_at, started_at, finished_at, attempts, claim_seq, runner_id, locked_by)
		select 'work', 'succeeded', t.at, t.at, t.at, 1, 1, 1, 'there'
		from generate_series(1, 20000) i, lateral (select '2024-02-02'::timestamptz + i * interval '1 s') t(at)" \
		'analyze jobrun.job_runs'
	# The first steps sum hours and make months.
	q "set track_functions = 'all'" "do \$\$ declare state jsonb := '{}'; asked bigint; begin
		while coalesce(state ->> 'kind', 'hours') in ('hours', 'months') loop state := jobrun.prune_step(state); end loop;
		asked := pg_stat_get_xact_function_calls('jobrun.has_month'::regproc);
		state := jobrun.prune_step(state);
		assert (state #>> '{counts,succeeded}')::bigint > 1000, state;
		assert pg_stat_get_xact_function_calls('jobrun.has_month'::regproc) - asked between 1 and 2, 'it asked too often'; end \$\$"
}

@test "an archive of two years has 24 months, and the end of its oldest is a drop that is not counted as rows" {
	q "select ended(i, date_trunc('month', now() at time zone 'UTC') at time zone 'UTC' - i * interval '1 month' + interval '3 days')
		from generate_series(1, 23) i" "update jobrun.settings set keep_dead = '0'" >/dev/null
	jr_ok prune
	q_is 27 'select count(*) from jobrun.archive_months()'     # of which three are ahead
	jr_ok prune -n
	assert_output 'nothing to prune'
	q "update jobrun.settings set keep_archive = '22 months'" >/dev/null
	jr_ok prune -n
	assert_line --regexp '^months of the archive +1 1 year 10 mons$'
	jr_ok prune --json
	assert_equal "$(jq -c '.counts | with_entries(select(.value > 0))' <<<"$output")" '{"months":1}'
	q_is '22|22' 'select (select count(*) from jobrun.job_runs_archive), (select count(distinct run_id) from jobrun.job_attempts_archive)'
	q_is 0 "select count(*) from pg_class where relname like 'job_%_archive_$(month -23)'"
	q "update jobrun.settings set keep_archive = '0'" >/dev/null
	jr_ok prune
	assert_equal "$(months)" "$(ahead)"
}

@test "nobody but the owner may read a month, whatever the default privileges are" {
	make_role "reader_$JR_DATABASE"
	q 'alter default privileges grant select on tables to public' "alter default privileges grant select on tables to \"reader_$JR_DATABASE\""
	jr_ok prune
	assert_equal "$(months)" "$(ahead)"
	q_is '' "select string_agg(c.relname || ' ' || a.grantee, '|') from pg_class c cross join aclexplode(c.relacl) a
		where c.relname ~ '^job_(runs|attempts)_archive_[0-9]' and a.grantee <> c.relowner"
	q 'alter default privileges revoke select on tables from public' "alter default privileges revoke select on tables from \"reader_$JR_DATABASE\""
}

@test "without archiving no month is made, and old months go all the same" {
	q "select ended(1, '2024-01-05')" >/dev/null
	jr_ok prune
	q "update jobrun.settings set archive = false, keep_archive = '1 year'" "select ended(2, '2024-03-05')" >/dev/null
	jr_ok prune
	assert_line --regexp '^runs dead +1 90 days$'
	assert_equal "$(months)" "$(ahead)"
	q_is 0 'select count(*) from jobrun.job_runs_archive'
}

@test "what has no month is kept in the default partition, and moves to its month later" {
	q "select ended(i, '2024-01-05') from generate_series(1, 3) i" "select ended(4, '2024-02-05')" >/dev/null
	# a reader of the default partition for hours: no month can be attached
	hold "select count(*) from jobrun.job_runs_archive"
	jr_ok prune
	assert_equal "$(months)" 'default:4'
	jr_ok show 1
	release_holds
	jr_ok prune
	assert_output 'nothing to prune'
	assert_equal "$(months)" "2024_01:3 2024_02:1 $(ahead)"
	q_is 8 "select count(*) from jobrun.job_attempts_archive where tableoid::regclass::text ~ '2024'"
}

@test "a month is not dropped while somebody reads the archive, and who claims is not held up" {
	handler work <<<'exit 0'
	q "select ended(1, '2024-01-05')" >/dev/null
	jr_ok prune
	q "update jobrun.settings set keep_archive = '1 year'" >/dev/null
	hold "select count(*) from jobrun.job_runs_archive"
	enqueue work >/dev/null
	jr_ok prune
	assert_output 'nothing to prune'
	q_is 1 'select count(*) from jobrun.job_runs_archive'
	jr_ok run
	release_holds
	jr_ok prune
	assert_line --regexp '^months of the archive +1 1 year$'
	q_is 1 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "list, show, logs, wait, slots and the functions for clients see archived runs" {
	q "select ended(1, '2024-01-05'), ended(2, '2024-02-05', 'succeeded'), ended(3, now(), 'dead')" >/dev/null
	jr_ok prune
	q_is 2 'select count(*) from jobrun.job_runs_archive'
	jr_ok list --json # the archive only if it is asked for
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[3]'
	jr_ok list --status dead,succeeded --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[3]'
	jr_ok list --archived --json
	assert_equal "$(jq -c '.runs | map([.id, .status, .archived_at != null])' <<<"$output")" '[[3,"dead",false],[2,"succeeded",true],[1,"dead",true]]'
	jr_ok list --archived --status dead --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[3,1]'
	jr_ok list --archived --status succeeded --since 36500d --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[2]'
	jr_ok list --archived --status succeeded --since 1d --json
	assert_output '{"version":1,"total":0,"complete":true,"runs":[]}'
	jr_ok list --archived --limit 2 --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[3,2]'
	jr_ok show 1
	assert_line --regexp '^error +no luck$'
	assert_line --regexp '^archived +'
	assert_line --regexp '^payload +[{]"n": 1[}]$'
	assert_line --regexp '^ +1 failed .* no luck$'
	jr_ok show 2 --json
	assert_equal "$(jq -c '[.result, .archived_at != null, [.attempt_list[] | [.outcome, .output]]]' <<<"$output")" \
		'[{"r":2},true,[["failed","first words"],["succeeded","last words"]]]'
	jr_ok logs 1
	assert_output 'last words'
	jr_ok logs 1 --attempt 1
	assert_output 'first words'
	jr logs -f 1
	assert_equal "$status" 1
	assert_output --partial 'last words'
	jr_ok logs -f 2
	jr wait 1 2
	assert_equal "$status" 1
	q_is '1|dead|no luck 2|succeeded|no luck 3|dead|no luck' "select string_agg(id || '|' || status || '|' || error, ' ' order by id)
		from jobrun.run_status(array[3, 2, 1, 99])"
	q_is '1|true 2|true 3|false' "select string_agg(id || '|' || archived, ' ' order by id) from jobrun.runs"
	q_is 6 'select count(*) from jobrun.attempts'
}

@test "retry brings a run back from the archive as it was, with its attempts, and it runs" {
	handler work <<<'exit 0'
	q "select ended(1, '2024-01-05'), ended(2, '2024-01-06', 'succeeded')" "update jobrun.job_runs set idempotency_key = 'k' || id" >/dev/null
	jr_ok prune
	jr_ok retry 1
	assert_output 'run 1: retried'
	q_is '1|queued|0|2|k1' 'select id, status, attempts, claim_seq, idempotency_key from jobrun.job_runs'
	q_is '1|no luck|first words 2|no luck|last words' \
		"select string_agg(claim_seq || '|' || error || '|' || output, ' ' order by claim_seq) from jobrun.job_attempts where run_id = 1"
	q_is 2 'select id from jobrun.job_runs_archive'
	jr retry 2
	assert_equal "$status" 1
	q_is 2 'select id from jobrun.job_runs_archive'
	jr_ok retry 2 --force
	jr_ok run
	q_is '1|succeeded|3 2|succeeded|3' "select string_agg(id || '|' || status || '|' || claim_seq, ' ' order by id) from jobrun.job_runs"
	q_is 0 'select count(*) from jobrun.job_runs_archive'
	# It goes to the month of its new end, with all its attempts.
	q "update jobrun.settings set keep_keyed = '0', stats_until = date_trunc('hour', now() + interval '2 hours')" >/dev/null
	jr_ok prune
	assert_equal "$(months)" "2024_01:0 $(ahead | sed 's/:0/:2/')"
	q_is 4 'select count(*) from jobrun.job_attempts_archive'
}

@test "columns that people have made in one table alone, generated ones too, keep no run from the archive or in it" {
	q 'alter table jobrun.job_runs add tenant int default 5, add twice int generated always as (priority * 2) stored, add mine text' \
		'alter table jobrun.job_attempts add note text' 'alter table jobrun.job_runs_archive add mine text, add seen timestamptz'
	q "select ended(1, '2024-01-05')" "update jobrun.job_runs set mine = 'b' where id = 1" >/dev/null
	jr_ok prune
	q_is '1|b' 'select id, mine from jobrun.job_runs_archive'
	q_is 2 'select count(*) from jobrun.job_attempts_archive'
	jr_ok retry 1
	q_is '1|b|5|200' 'select id, mine, tenant, twice from jobrun.job_runs'
	q_is 2 'select count(*) from jobrun.job_attempts'
}

@test "retry of an archived run is refused while a newer run has its idempotency key" {
	q "select ended(1, '2024-01-05')" "update jobrun.job_runs set idempotency_key = 'key'" >/dev/null
	jr_ok prune
	q "select setval('jobrun.job_runs_id_seq', 1)" >/dev/null
	assert_equal "$(enqueue work -k key)" 2
	jr retry 1
	assert_equal "$status" 65
	assert_regex "$stderr" 'run 1 is in the archive, and another run has its idempotency key now'
	q_is 2 'select id from jobrun.job_runs'
	q_is 1 'select id from jobrun.job_runs_archive'
}

@test "retry of an archived run is refused if a newer one of its unique key has succeeded, archived or not" {
	q "select ended(1, '2024-01-05', 'dead', 'u'), ended(2, '2024-01-06', 'succeeded', 'u'), ended(3, now(), 'dead', 'u')" >/dev/null
	jr_ok prune
	q "update jobrun.settings set keep_succeeded = '0'" >/dev/null
	q_is '1 2' "select string_agg(id::text, ' ' order by id) from jobrun.all_runs where archived_at is not null or id = 2"
	jr retry 1
	assert_equal "$status" 1
	assert_regex "$stderr" superseded
	jr_ok retry 1 --force
	q_is '1|queued|' 'select id, status, unique_key from jobrun.job_runs where id = 1'
}

@test "output goes from the archive after keep_output, and output that is older does not enter it" {
	q "select ended(1, now() - interval '100 days'), ended(2, now() - interval '95 days')" "update jobrun.settings set keep_output = '97 days'" >/dev/null
	jr_ok prune --json
	assert_equal "$(jq -c '.counts | with_entries(select(.value > 0))' <<<"$output")" '{"dead":2}'
	q_is '1|0 2|2' "select string_agg(n.run_id || '|' || n.n, ' ' order by n.run_id)
		from (select run_id, count(output) as n from jobrun.job_attempts_archive group by run_id) n"
	q "update jobrun.settings set keep_output = '7 days'" >/dev/null
	jr_ok prune -n
	assert_line --regexp '^outputs in the archive +2 7 days$'
	jr_ok prune
	assert_line --regexp '^outputs in the archive +2 7 days$'
	q_is 0 'select count(output) from jobrun.job_attempts_archive'
	q_is 4 'select count(*) from jobrun.job_attempts_archive'
}

@test "two prunes at once make each month once and move each run once" {
	q "select ended(i, '2024-01-05'::timestamptz + i * interval '8 hours') from generate_series(1, 600) i" >/dev/null
	"$JOBRUN" prune >/dev/null &
	one=$!
	"$JOBRUN" prune >/dev/null &
	other=$!
	jr_ok prune
	wait $one $other
	jr_ok prune                   # a prune that waited too long for another one's month has left runs without one
	q_is 600 'select count(*) from jobrun.job_runs_archive'
	q_is 1200 'select count(*) from jobrun.job_attempts_archive'
	q_is 0 'select count(*) from jobrun.job_runs_archive_default'
}

@test "a month that was detached or dropped by hand is made anew, and the rest of it goes in its time" {
	q "select ended(1, '2024-01-05'), ended(2, '2024-02-05'), ended(3, '2024-03-05')" >/dev/null
	jr_ok prune
	q 'alter table jobrun.job_runs_archive detach partition jobrun.job_runs_archive_2024_01' \
		'alter table jobrun.job_attempts_archive detach partition jobrun.job_attempts_archive_2024_01' \
		'drop table jobrun.job_runs_archive_2024_02' 'drop table jobrun.job_attempts_archive_2024_03' \
		"select ended(i + 3, format('2024-%s-06', i)::date) from generate_series(1, 3) i" >/dev/null
	jr_ok prune
	q_is '3|4|5|6' "select string_agg(id::text, '|' order by id) from jobrun.job_runs_archive"
	q_is 0 'select (select count(*) from jobrun.job_runs_archive_default) + (select count(*) from jobrun.job_attempts_archive_default)'
	q_is 1 'select id from jobrun.job_runs_archive_2024_01'
	q "delete from jobrun.job_attempts_archive where run_id = 2" 'delete from jobrun.job_runs_archive where id = 3' \
		'drop table jobrun.job_runs_archive_2024_03' "update jobrun.settings set keep_archive = '1 year'" >/dev/null
	jr_ok prune
	assert_line --regexp '^months of the archive +3 1 year$'
	q_is '0|0' 'select (select count(*) from jobrun.job_runs_archive), (select count(*) from jobrun.job_attempts_archive)'
	q 'drop table jobrun.job_runs_archive_2024_01, jobrun.job_attempts_archive_2024_01'
}

@test "a view on a month keeps the month, and housekeeping goes on" {
	q "select ended(1, '2024-01-05')" >/dev/null
	jr_ok prune
	q 'create view public.january as select id from jobrun.job_runs_archive_2024_01' "update jobrun.settings set keep_archive = '1 year', keep_dead = '0'" \
		"select ended(2, now() - interval '2 days')" >/dev/null
	jr_ok prune
	assert_line --regexp '^runs dead, to the archive +1 '
	refute_line --partial months
	q 'drop view public.january'
	jr_ok prune
	assert_line --regexp '^months of the archive +1 1 year$'
}

@test "what keeps a month keeps no later one: a view on it, a reader of it; the log warns of each view once" {
	q "select ended(i, format('2024-%s-05', i)::date) from generate_series(1, 6) i" >/dev/null
	jr_ok prune
	q 'create view public.january as select id from jobrun.job_runs_archive_2024_01' \
		'create view public.march as select run_id from jobrun.job_attempts_archive_2024_03' \
		"update jobrun.settings set keep_archive = '1 year'"
	hold 'select count(*) from jobrun.job_runs_archive_2024_02'
	jr_ok prune
	assert_line --regexp '^months of the archive +3 1 year$'
	assert_equal "$(months)" "2024_01:1 2024_02:1 2024_03:1 $(ahead)"
	for view in january march; do
		assert_equal "$(server_log | grep -c "WARNING.*is not dropped: view public.$view depends on table")" 1
	done
	# A call that drops nothing leaves no lock behind.
	q_is '0 true' "set client_min_messages = error; select jobrun.drop_month() || ' ' || not exists (
		select from pg_locks where pid = pg_backend_pid() and mode = 'AccessExclusiveLock')"
	release_holds
	jr_ok prune
	assert_line --regexp '^months of the archive +1 1 year$'
	q 'drop view public.january, public.march'
	jr_ok prune
	assert_equal "$(months)" "$(ahead)"
}

@test "a month that another role owns is kept, and housekeeping goes on" {
	local owner="${JR_DATABASE}_owner"

	make_role "$owner"
	q 'drop schema jobrun cascade' "grant create on database $JR_DATABASE to $owner" >/dev/null 2>&1
	JOBRUN_DATABASE_URL=$(direct_url_of "$owner") jr_ok migrate
	q "create table public.foreign_month partition of jobrun.job_runs_archive for values from ('2020-01-01') to ('2020-02-01')" \
		"update jobrun.settings set archive = true, keep_archive = '1 year', keep_dead = '0'" \
		"select ended(1, now() - interval '2 days')" >/dev/null
	JOBRUN_DATABASE_URL=$(direct_url_of "$owner") jr_ok prune
	assert_line --regexp '^runs dead, to the archive +1 '
	refute_line --regexp '^months of the archive +[0-9]+ 1 year$'
	assert_equal "$(server_log | grep -c 'WARNING.*is not dropped: .*foreign_month')" 1
	q "alter table public.foreign_month owner to $owner"
	JOBRUN_DATABASE_URL=$(direct_url_of "$owner") jr_ok prune
	assert_line --regexp '^months of the archive +1 1 year$'
	q "drop owned by $owner"
}

@test "an archive whose runs have longer partitions than their attempts is used as it is, and prune ends" {
	q "set timezone = 'UTC'" "do \$\$ begin
		execute format('create table jobrun.runs_of_two_months partition of jobrun.job_runs_archive for values from (%L) to (%L)',
			date_trunc('month', now()), date_trunc('month', now()) + interval '2 months'); end \$\$" \
		"select ended(1, '2024-01-05')" >/dev/null
	jr_ok prune
	assert_line --regexp '^runs dead, to the archive +1 90 days$'
	q_is 't t t' "select string_agg(jobrun.has_month(now() + i * interval '1 month')::text::char, ' ') from generate_series(0, 2) i"
	q_is '4|5' 'select count(m.runs), count(m.attempts) from jobrun.archive_months() m'
	jr_ok prune
	assert_output 'nothing to prune'
	q 'drop table jobrun.runs_of_two_months'
}

@test "a run that ended at -infinity is archived, and stops nothing" {
	q "select ended(1, '2024-01-05'), ended(2, '2024-02-05')" >/dev/null
	q 'delete from jobrun.job_attempts where run_id = 1' "update jobrun.job_runs set started_at = null, finished_at = '-infinity' where id = 1"
	jr_ok prune
	jr_ok prune
	assert_equal "$(months)" "2024_02:1 $(ahead) default:1"
	jr_ok retry 1
}

@test "two retries of an archived run at once bring it back once, and do not disturb it once it runs" {
	handler work <<<'exit 0'
	q "select ended(1, '2024-01-05')" >/dev/null
	jr_ok prune
	hold "select jobrun.retry(1); update jobrun.job_runs set status = 'running', claim_seq = 3, attempts = 1, runner_id = 1, locked_by = 'there',
		started_at = now(), locked_until = now() + interval '1 hour' where id = 1"
	"$JOBRUN" retry 1 >"$TMPDIR/second" 2>&1 &
	second=$!
	wait_until 10 waiting_for_lock 1
	printf 'commit;\n' >&"${hold_fds[0]}"
	result=0
	wait $second || result=$?
	assert_equal "$result $(grep -c 'violates' "$TMPDIR/second")" '1 0'
	assert_regex "$(<"$TMPDIR/second")" running
	run_is 1 running
	q "update jobrun.job_runs set status = 'dead', finished_at = now(), locked_until = null where id = 1"
}

@test "an archived run cannot be cancelled, and is not unknown; wait follows the run that took its place" {
	q "select ended(1, '2024-01-05', 'cancelled', 'u'), ended(2, '2024-01-06', 'succeeded', 'u')" \
		"update jobrun.job_runs set superseded_by = 2, error_code = 'superseded' where id = 1" >/dev/null
	jr_ok prune
	q "update jobrun.settings set keep_succeeded = '0', keep_cancelled = '0'" >/dev/null
	jr_ok prune
	q_is '1 2' "select string_agg(id::text, ' ' order by id) from jobrun.job_runs_archive"
	jr cancel 1
	assert_regex "$output$stderr" 'cancelled'
	q_is cancelled 'select jobrun.cancel(1)'
	jr_ok wait 1
}
