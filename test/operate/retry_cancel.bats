#!/usr/bin/env bats
# What jobrun retry and jobrun cancel have in common: filters, -n, --json, the record. What list shows, what -n says and what is
# done are the same runs.

load ../lib/common

# refused WORDS ARGUMENT...: exit 64, a line with these words, and nothing is changed.
refused() {
	local before words=$1

	shift
	before=$(by_status)
	jr "$@"
	assert_equal "$output" ''
	assert_one_line 64 "$words"
	assert_by_status "$before"
}

@test "retry and cancel: status, type, queue and since must all match" {
	dead_runs 1 mail night '3 hours'
	dead_runs 2 mail night
	dead_runs 4 mail day
	dead_runs 8 import night
	queued_runs 16 mail night
	jr_ok retry --status dead --type mail --queue night --since 2h
	assert_equal "$output" 'retried 2 runs'
	jr_ok retry -s dead -t mail,import -q night
	assert_equal "$output" 'retried 9 runs'
	q_is 'mail|day|4' "select job_type, queue, count(*) from jobrun.job_runs where status = 'dead' group by 1, 2"
}

@test "--since is when a run ended, and if it has not, when it was enqueued" {
	dead_runs 1 mail default '1 hour'
	q "update jobrun.job_runs set created_at = now() - interval '9 days'"
	queued_runs 1 mail default '9 days'
	queued_runs 1 mail default '1 hour'
	jr_ok list --since 2h --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[3,1]'
	jr_ok retry --since 2h
	assert_equal "$output" 'retried 1 run'
	jr_ok cancel --since 2h
	assert_equal "$output" 'cancelled 1 run'
	run_is 3 cancelled
}

@test "retry and cancel: --limit takes the newest, as list shows them" {
	dead_runs 10 mail
	jr_ok list -s dead --limit 3 --json
	assert_equal "$(jq -c '.runs | map(.id)' <<<"$output")" '[10,9,8]'
	jr_ok retry -s dead --limit 3 -n --json
	assert_equal "$(jq -c . <<<"$output")" '{"version":1,"kinds":[{"job_type":"mail","status":"dead","count":3}]}'
	jr_ok retry -s dead --limit 3
	assert_equal "$output" 'retried 3 runs'
	q_is '{8,9,10}' "select array_agg(id order by id) from jobrun.job_runs where status = 'queued'"
	jr_ok retry -s dead --limit 100
	assert_equal "$output" 'retried 7 runs'
}

@test "retry -n and cancel -n print a table of what would be done and change nothing" {
	dead_runs 3 mail
	dead_runs 2 import
	queued_runs 4 mail
	jr_ok retry --since 1h -n
	assert_equal "${lines[0]}" 'TYPE   STATUS RUNS'
	assert_equal "${lines[1]}" 'import dead      2'
	assert_equal "${lines[2]}" 'mail   dead      3'
	assert_equal "${#lines[@]}" 3
	jr_ok cancel --type mail --dry-run --json
	assert_equal "$(jq -c . <<<"$output")" '{"version":1,"kinds":[{"job_type":"mail","status":"queued","count":4}]}'
	jr_ok cancel --type nothing -n
	assert_equal "$output" ''
	assert_by_status 'dead 5, queued 4'
	q_is 0 'select count(*) from jobrun.job_audit'
}

@test "retry -n and cancel -n with ids name what could not be done" {
	dead_runs 2 mail
	queued_runs 1 import
	jr retry -n 1 2 3 99
	assert_equal "$status" 1
	assert_equal "${lines[1]}" 'import queued    1'
	assert_equal "${lines[2]}" 'mail   dead      2'
	assert_equal "$stderr" 'jobrun: there is no run 99'
	jr cancel -n 1 3
	assert_equal "$status" 1
	assert_equal "${lines[1]}" 'import queued    1'
	assert_equal "$stderr" 'jobrun: run 1 had ended already: dead'
	jr_ok cancel 3
	jr_ok cancel -n 3 # again would be no error
	assert_equal "$output" ''
	assert_by_status 'cancelled 1, dead 2'
	q_is 1 'select count(*) from jobrun.job_audit'
}

@test "what list shows is what -n counts and what is taken, for any filter" {
	local filter shown counted words

	for type in mail import; do
		for queue in day night; do
			dead_runs 2 "$type" "$queue"
			dead_runs 1 "$type" "$queue" '5 hours'
			queued_runs 2 "$type" "$queue"
			queued_runs 1 "$type" "$queue" '5 hours'
		done
	done
	q "update jobrun.job_runs set created_at = now() - interval '1 day' where status = 'dead'" \
		"update jobrun.job_runs set parent_id = 5, concurrency_key = 'two words, one comma', locked_by = 'here', created_by = 'ada',
			error_code = 'timeout', last_error = 'Too late' where id % 2 = 0"
	jr_ok cancel --type import --queue day
	for filter in '-s dead' '-s dead --since 1h' '-s cancelled,dead -t import' '-s queued -q day,night --since 4h' \
		'-s queued,dead,cancelled --since 4h --limit 7' '--parent 5 -s dead,queued' '--host here -s dead' '--lock two?words,?one?comma -s dead,cancelled' \
		'--created-by ada -s dead' '--error too?late -s dead,queued' '--error timeout -s dead' '--error code:timeout -s dead' '-s dead,queued --until 3h' '-s dead,queued --until 1h --since 2d --host there' \
		'-s retrying' '-s dead -q night --limit 2' '-s cancelled --since 1h'; do
		IFS=' ' read -ra words <<<"$filter"
		words=("${words[@]//\?/ }") # "?" stands for a blank in a word
		shown=$(run_jobrun list "${words[@]}" --limit 1000 --json | jq -c '.runs | map(.id) | sort')
		[[ $filter != *--limit* ]] || shown=$(run_jobrun list "${words[@]}" --json | jq -c '.runs | map(.id) | sort')
		counted=$(run_jobrun retry "${words[@]}" -n --json | jq '[.kinds[].count] | add // 0')
		assert_equal "$filter: $counted" "$filter: $(jq length <<<"$shown")"
		q 'begin; set local session_replication_role = replica; delete from jobrun.job_audit; commit'
		q 'create table kept as table jobrun.job_runs'
		jr_ok retry "${words[@]}"
		assert_equal "$filter: $(q "select coalesce(json_agg(substr(object, 5)::bigint order by substr(object, 5)::bigint), '[]') from jobrun.job_audit" | jq -c .)" \
			"$filter: $shown"
		q "update jobrun.job_runs r set status = k.status, attempts = k.attempts, run_at = k.run_at, finished_at = k.finished_at
			from kept k where k.id = r.id" 'drop table kept'
	done
}

@test "retry and cancel are audited: who, when, from what to what, why" {
	dead_runs 1 mail
	queued_runs 1 mail
	role=ada_$JR_DATABASE
	make_role "$role" superuser
	JOBRUN_DATABASE_URL=$(url_of "$role") jr_ok retry --status dead --reason 'the mail server is back'
	jr_ok cancel 2 --reason 'no more of these'
	jr_ok retry 2
	q_is "$role|"'retry|run 1|{"status": "dead", "attempts": 1}|{"status": "queued"}|the mail server is back|t
jobrun|cancel|run 2|{"status": "queued", "attempts": 0}|{"status": "cancelled"}|no more of these|t
jobrun|retry|run 2|{"status": "cancelled", "attempts": 0}|{"status": "queued"}||t' \
		"select who, action, object, old, new, reason, at between now() - interval '1 minute' and now() from jobrun.job_audit order by id"
	jr_ok show 2
	assert_line --regexp '^WHEN +WHO +DID +BEFORE +REASON$'
	assert_line --regexp '^(now|.* ago) +jobrun +cancel +queued +no more of these$'
	assert_line --regexp '^(now|.* ago) +jobrun +retry +cancelled +-$'
	jr_ok show 2 --json
	assert_equal "$(jq -c '[.audit[] | [.who, .action, .old.status, .new.status, .reason]]' <<<"$output")" \
		'[["jobrun","cancel","queued","cancelled","no more of these"],["jobrun","retry","cancelled","queued",null]]'
}

@test "a reason that is too long is exit 65, and nothing is done" {
	dead_runs 2 mail
	jr retry --status dead --reason "$(printf '%01001d' 1)"
	assert_equal "$status" 65
	assert_by_status 'dead 2'
}

@test "IDs and filters exclude each other, neither is a question, and what makes no sense is refused" {
	dead_runs 2 mail
	queued_runs 1 mail
	refused 'IDs do not go with' retry 1 --status dead
	refused 'IDs do not go with' retry 1 --limit 1
	refused 'IDs do not go with' cancel 3 --type mail -n
	refused 'which runs. jobrun retry ID' retry
	refused 'which runs. jobrun cancel ID' cancel
	refused 'which runs' cancel --limit 5 --reason why
	refused 'jobrun cancel --status running' retry --status dead,running
	refused 'add --force' retry --status succeeded
	refused 'add --status succeeded' retry --type mail --force
	refused 'have ended already' cancel --status dead
	refused 'have ended already' cancel --status queued,succeeded
	refused 'did you mean "dead"' retry --status daed
	refused 'limit' retry --status dead --limit 0
}

@test "a filter whose text is empty is refused, and does not choose all runs" {
	dead_runs 2 mail
	for option in error lock status type queue definition host parent created-by; do
		jr retry -n "--$option" ''
		assert_equal "$output" ''
		assert_one_line 64 "^jobrun: --$option: .*empty"
	done
	refused '^jobrun: --error: the TEXT is empty$' retry --error=
	refused '^jobrun: --error: the TEXT is empty$' cancel -t mail --error ''
	refused '^jobrun: --lock: the KEY is empty$' list --lock ''
	jr_ok list -t mail --error exit:65 --json
	assert_equal "$(jq -c '.runs | length' <<<"$output")" 2
}

@test "grant read allows list and show without texts, and no repair" {
	dead_runs 1 mail
	role=watcher_$JR_DATABASE
	make_role "$role"
	q "select jobrun.add_grant('read', '$role')"
	JOBRUN_DATABASE_URL=$(url_of "$role")
	jr_ok list --json
	assert_equal "$(jq -c '.runs | map([.id, .status, .error_code, .error])' <<<"$output")" '[[1,"dead","exit:65",null]]'
	jr_ok list
	refute_output --partial 'exit 65: no'
	jr_ok show 1
	assert_line --regexp '^error code +exit:65$'
	refute_output --partial 'exit 65: no'
	refute_output --partial payload
	jr_ok show 1 --json
	assert_equal "$(jq -c '[.status, .payload, .error, .attempt_list[0].error, .attempt_list[0].outcome]' <<<"$output")" \
		'["dead",null,null,null,"dead"]'
	for command in 'retry 1' 'retry --status dead' 'retry --status dead -n' 'cancel 1' 'cancel --type mail -n' 'logs 1'; do
		# shellcheck disable=SC2086 # words
		jr $command
		assert_equal "$command: $status" "$command: 77"
		refute_regex "$stderr" 'does the rest'
	done
	export JOBRUN_DATABASE_URL="$JR_SERVER dbname=$JR_DATABASE"
	run_is 1 dead
}

@test "retry --json and cancel --json print a document for each id" {
	one=$(enqueue work)
	jr cancel --json "$one" 999999
	assert_equal "$status" 1
	assert_equal "$(jq -c . <<<"$output")" \
		"{\"version\":1,\"runs\":[{\"id\":$one,\"cancelled\":true,\"requested\":false,\"status\":\"cancelled\"},{\"id\":999999,\"cancelled\":false,\"requested\":false,\"status\":null}]}"
	jr_ok retry --json "$one"
	assert_equal "$(jq -c . <<<"$output")" "{\"version\":1,\"runs\":[{\"id\":$one,\"retried\":true,\"status\":\"queued\",\"superseded_by\":null}]}"
}
