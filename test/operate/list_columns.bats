#!/usr/bin/env bats
# jobrun list: columns, order, CSV, numbers, what went wrong, and how far it looks. All on rows that the tests write.

load ../lib/common

# Six runs: three dead, one that succeeded, one that waits for its retry, one that is queued.
some_runs() {
	q "insert into jobrun.job_runs (job_type, queue, priority, status, attempts, claim_seq, run_at, created_at, started_at, failed_at,
			finished_at, runner_id, locked_by, concurrency_key, created_by, parent_id, error_code, last_error)
		select v.t, v.q, v.p, v.s, v.a, v.a, '2026-01-02 03:04:05.678Z', '2026-01-02 03:04:00Z', v.started, v.failed, v.ended, v.a + 6, v.host, v.key,
			v.role, v.parent, v.code, v.error
		from (values
			(1, 'mail', 'night', 100, 'dead', 1, '2026-01-02 03:04:06Z'::timestamptz, '2026-01-02 03:04:08.5Z'::timestamptz, '2026-01-02 03:04:08.5Z'::timestamptz,
				'alpha', 'k1', 'ada', null::bigint, 'exit:65', E'user 17 of 0f8fad5b-d9cb-469f-a165-70867728950e is gone\nsecond line'),
			(2, 'mail', 'night', 100, 'dead', 1, '2026-01-02 04:00:00Z', '2026-01-02 04:00:01Z', '2026-01-02 04:00:01Z',
				'beta', 'k2', 'ada', 1, 'exit:65', 'user 4 of 11111111-d9cb-469f-a165-70867728950e is gone'),
			(3, 'mail', 'day', 50, 'dead', 1, '2026-01-02 05:00:00Z', '2026-01-02 05:00:09Z', '2026-01-02 05:00:09Z',
				'alpha', null, 'bob', 1, 'timeout', 'a \"quoted\", Text' || chr(27) || '[31m'),
			(4, 'import', 'day', 50, 'succeeded', 1, '2026-01-02 06:00:00Z', null, '2026-01-02 06:01:00Z', 'alpha', 'k1', 'bob', null, null, null),
			(5, 'import', 'day', 1, 'failed', 1, '2026-01-02 07:00:00Z', '2026-01-02 07:00:02Z', null, 'beta', null, 'ada', 2, 'exit:1', 'connection reset'),
			(6, 'import', 'day', 1, 'queued', 0, null, null, null, null, null, 'ada', null, null, null))
			v(n, t, q, p, s, a, started, failed, ended, host, key, role, parent, code, error)
		order by v.n"
	q "insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome, error_code, error, started_at, finished_at)
		select id, 1, 1, status, error_code, last_error, started_at, failed_at from jobrun.job_runs where failed_at is not null"
}

ids() {
	run_jobrun list --json "$@" | jq -c '[.runs[].id]'
}

@test "list: host, lock, error, parent, created-by and until choose runs, alone and together" {
	some_runs
	assert_equal "$(ids --host alpha)" '[4,3,1]'
	assert_equal "$(ids --host alpha,beta -s dead)" '[3,2,1]'
	assert_equal "$(ids --lock k1)" '[4,1]'
	assert_equal "$(ids --error exit:65)" '[2,1]'
	q "update jobrun.job_runs set last_error = last_error || ' exit:65' where id = 3"
	assert_equal "$(ids --error exit:65)" '[3,2,1]'
	assert_equal "$(ids --error code:exit:65)" '[2,1]'
	assert_equal "$(ids --error code:)" '[]'
	assert_equal "$(ids --error 'IS GONE')" '[2,1]' # a piece of the message, in upper or lower case
	assert_equal "$(ids --error 'second line')" '[1]'
	assert_equal "$(ids --error '%')" '[]'
	assert_equal "$(ids --parent 1,2)" '[5,3,2]'
	assert_equal "$(ids --created-by bob)" '[4,3]'
	assert_equal "$(ids --created-by ada --host beta --parent 1)" '[2]'
	q "update jobrun.job_runs set created_at = now() - interval '9 days',
		finished_at = case when finished_at is not null then now() - id * interval '1 day' end"
	assert_equal "$(ids --until 90m --since 5d)" '[4,3,2,1]'
	assert_equal "$(ids --until 36h --since 84h)" '[3,2]'
	assert_equal "$(ids --until 8d)" '[6,5]'
	assert_equal "$(ids --until 36h -s dead)" '[3,2]'
	jr list --since 1h --until 2h
	assert_one_line 64 'no time is left between them'
	jr list --parent mail
	assert_one_line 64 '"mail" is not a whole number'
}

@test "list -o and --sort: chosen columns in a chosen order; a wrong name lists all" {
	some_runs
	jr_ok list -o id,queue,lock,host,parent,error_code,took --sort -took --limit 3
	assert_output - <<-'end'
		ID QUEUE LOCK HOST  PARENT CODE        TOOK
		 4 day   k1   alpha      - -             1m
		 3 day   -    alpha      1 timeout       9s
		 1 night k1   alpha      - exit:65 2s 500ms
	end
	sorted() {
		run_jobrun list -o id --sort "$@" | tail -n +2 | tr -d ' \n'
	}
	assert_equal "$(sorted took)" 251346 # 5: until it failed; 6 has none
	assert_equal "$(sorted -took)" 431526
	assert_equal "$(sorted host)" 431526
	assert_equal "$(sorted -host)" 524316
	assert_equal "$(sorted priority)" 654321
	assert_equal "$(sorted id --limit 2)" 12
	assert_equal "$(sorted started_at -s dead)" 123
	assert_equal "$(sorted status)" 321654
	for column in type queue lock attempts wait error_code created_by parent run_at created_at finished_at -id; do
		assert_equal "$column $(sorted "$column" | fold -w 1 | sort | tr -d '\n')" "$column 123456"
	done
	jr list -o id,hots
	assert_one_line 64 'unknown column "hots": did you mean "host". There are id, type, .*, finished_at'
	jr list -o ID
	assert_one_line 64 'unknown column "ID": did you mean "id"\? There are id, '
	jr list -o id,DUE # as the heading of run_at has it
	assert_one_line 64 'unknown column "DUE": did you mean "run_at"\? There are id, '
	jr list --sort -ENDED
	assert_one_line 64 'unknown column "ENDED": did you mean "finished_at"\? There are id, '
	jr list --sort MAX # nothing sorts by that column
	assert_one_line 64 'cannot sort by "MAX": there are id, '
	jr list -o zzz
	assert_one_line 64 'unknown column "zzz": there are id, type'
	jr list --sort message
	assert_one_line 64 'cannot sort by "message": there are id, type'
	jr list -o id --json
	assert_one_line 64 'json has all of them'
	jr list --csv --json
	assert_one_line 64 'exclude each other'
	jr list --sort took --archived
	assert_one_line 64 'needs --since'
}

@test "list --csv: raw values, quoted where they must be, the same whatever the terminal" {
	some_runs
	jr_ok list --csv -s dead,retrying -o id,status,try,when,took,wait,host,parent,message
	printf '%s\r\n' 'id,status,try,when,took_ms,wait_ms,host,parent,message' \
		"5,retrying,1/5,2026-01-02T03:04:05.678Z,2000,WAIT,beta,2,connection reset" \
		"3,dead,1/5,2026-01-02T05:00:09.000Z,9000,6954322,alpha,1,\"a \"\"quoted\"\", Text"$'\033''[31m"' \
		'2,dead,1/5,2026-01-02T04:00:01.000Z,1000,3354322,beta,1,user 4 of 11111111-d9cb-469f-a165-70867728950e is gone' \
		'1,dead,1/5,2026-01-02T03:04:08.500Z,2500,322,alpha,,user 17 of 0f8fad5b-d9cb-469f-a165-70867728950e is gone' >expected
	COLUMNS=40 run_jobrun list --csv -s dead,retrying -o id,status,try,when,took,wait,host,parent,message >got
	sed -i '2s/,2000,[0-9]*,/,2000,WAIT,/' got
	diff expected got
	run_jobrun list --csv --parent 77 >got
	printf 'id,type,status,try,when,took_ms,definition,slot,message\r\n' | diff - got
	run_jobrun list --csv --type mail -o error --sort id --limit 1 >got # two lines in one field
	printf 'error\r\n"user 17 of 0f8fad5b-d9cb-469f-a165-70867728950e is gone\nsecond line"\r\n' | diff - got
	run on_terminal 40 list --csv -s dead -o id,message
	refute_output --partial $'\033'
	assert_line '3,"a ""quoted"", Text\x1b[31m"'
}

@test "list --by error: equal errors once, with their number, the first, the last and one run" {
	some_runs
	jr list --by error -o id
	assert_one_line 64 '--by has its own columns and order'
	jr list --by type
	assert_one_line 64 'unknown --by "type": the only one is error'
	jr_ok list --by error
	assert_line --index 0 --regexp '^TYPE CODE +RUNS FIRST +LAST +EXAMPLE MESSAGE$'
	assert_line --index 1 --regexp '^mail exit:65 +2 .* ago +.* ago +2 user # of # is gone$'
	assert_line --index 2 --regexp '^mail timeout +1 .* 3 a "quoted", Text'
	assert_equal "${#lines[@]}" 3
	assert_equal "$(run_jobrun list --by error --json | jq -c '[.version, .total, .complete, (.errors[0] | [.job_type, .error_code, .count, .example_id, .error, .first_at, .last_at])]')" \
		'[1,2,true,["mail","exit:65",2,2,"user # of # is gone","2026-01-02T03:04:08.5+00:00","2026-01-02T04:00:01+00:00"]]'
	run_jobrun list --by error --csv -q night >got
	printf 'type,error_code,runs,first,last,example,message\r\nmail,exit:65,2,2026-01-02T03:04:08.500Z,2026-01-02T04:00:01.000Z,2,user # of # is gone\r\n' | diff - got
	jr_ok list --by error --host beta # one text: as it is
	assert_line --index 1 --regexp ' 2 user 4 of 11111111-d9cb-469f-a165-70867728950e is gone$'
	jr_ok list --by error -s retrying
	assert_line --index 1 --regexp '^import exit:1 +1 .* 5 connection reset$'
}

@test "list tells on a terminal how many match, and when it did not look at all of them" {
	some_runs
	run on_terminal 80 list --limit 2
	assert_line '2 of 6 (--limit)'
	run on_terminal 80 list
	refute_output --partial '(--limit)'
	jr_ok list --limit 2
	refute_output --partial '(--limit)'
	assert_equal "$(run_jobrun list --limit 2 --json | jq -c '[.version, .total, .complete, (.runs | length)]')" '[1,6,true,2]'
	# 10,001 ended runs, and 10,001 queued ones, are more than it looks at of each kind.
	q "insert into jobrun.job_runs (job_type, status, attempts, claim_seq, started_at, finished_at)
		select 'old', 'succeeded', 1, 1, now(), now() from generate_series(1, 10001)
		union all select 'wait', 'queued', 0, 0, null, null from generate_series(1, 10001)"
	run on_terminal 80 list --limit 2
	assert_line '2 of >10000 (--limit)'
	jr_ok list --limit 2 --json
	assert_equal "$(jq -c '[.total, .complete]' <<<"$output")" '[null,true]'
	jr_ok list --queue none
	assert_output ''
	assert_line_of_stderr 'jobrun: not all runs were looked at, only 10000 of each kind: newest, dead, waiting, ended last; --since 7d looks at all of 7 days'
	assert_equal "$(run_jobrun list --queue none --json)" '{"version":1,"total":null,"complete":false,"runs":[]}'
	# With --since it looks at all; what waits is found by its type; and so are the dead, however old.
	assert_equal "$(ids --type mail --since 36500d)" '[3,2,1]'
	assert_equal "$(ids --type import -s queued,retrying)" '[6,5]'
	jr_ok list --type import -s queued,retrying -o id
	assert_equal "$stderr" ''
	jr_ok list -s dead --lock k2 -o id
	assert_equal "${lines[1]}$stderr" ' 2'
	# The limit may be larger. Then it looks at more.
	assert_equal "$(run_jobrun list --type old --limit 10020 --json | jq -c '[.total, .complete, (.runs | length)]')" '[10001,true,10001]'
}

@test "list with columns fits a terminal of 80 and of 40 columns" {
	some_runs
	for width in 80 40; do
		for arguments in '' '--by error' '-o id,type,run_at,host,error' '-o status,lock,queue,created_by,id --sort -id'; do
			# shellcheck disable=SC2086 # words
			run on_terminal "$width" list $arguments
			assert_output --regexp '(ID|TYPE|STATUS)'
			while read -r line; do
				line=$(sed 's/\x1b\[[0-9;]*m//g' <<<"$line")
				[ "$(LC_ALL=C.UTF-8 wc -L <<<"$line")" -le "$width" ] || fail "$arguments: too long: $line"
			done <<<"$output"
		done
	done
	NO_COLOR=1 run on_terminal 40 list -o id,host,error -s dead --host alpha
	assert_output --partial $'ID HOST  ERROR\n'
	assert_output --partial ' 1 alpha user 17 of'
}

@test "grant read: --error finds codes and no texts, and --by error groups by code" {
	some_runs
	role=watcher_$JR_DATABASE
	make_role "$role"
	q "select jobrun.add_grant('read', '$role')"
	JOBRUN_DATABASE_URL=$(url_of "$role")
	assert_equal "$(ids --error exit:65)" '[2,1]'
	assert_equal "$(ids --error gone)" '[]'
	jr_ok list --by error
	assert_line --index 1 --regexp '^mail exit:65 +2 .* 2 -$'
	refute_output --partial quoted
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE"
}
