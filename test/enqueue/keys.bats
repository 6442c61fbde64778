#!/usr/bin/env bats
# jobrun enqueue: --unique with --replace and --unless-running, --strict, --lock, and what a lost answer makes of them.

load ../lib/common
load ../lib/proxy

# refused REGEX ARGUMENT...: exit 64, one line, no row.
refused() {
	local regex=$1

	shift
	jr enqueue "$@"
	assert_equal "$output" ''
	assert_one_line 64 "$regex"
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "--unique keeps the run that waits: there is one row" {
	jr_ok enqueue sync '{"n":1}' --unique shop --json
	id=$(jq .id <<<"$output")
	assert_equal "$(jq -c '[.created, .replaced, .unique_key, .idempotency_key, .concurrency_key]' <<<"$output")" \
		'[true,false,"shop",null,null]'
	jr_ok enqueue sync '{"n":2}' --unique shop -p 5 --json
	assert_equal "$(jq -c '[.id, .created, .replaced, .unique_key]' <<<"$output")" "[$id,false,false,\"shop\"]"
	jr_ok enqueue sync '{"n":3}' --unique shop
	assert_equal "$output" "$id"
	assert_equal "$stderr" ''
	assert_equal "$(field "$id" "payload->>'n', priority, unique_key")" '1|100|shop'
	q_is 1 'select count(*) from jobrun.job_runs'
	assert_not_equal "$(enqueue sync --unique other)" "$id"
	assert_not_equal "$(enqueue play --unique shop)" "$id"
}

@test "--replace gives the waiting run the new payload, priority and time" {
	id=$(enqueue sync '{"n":1}' --unique shop)
	jr_ok enqueue sync '{"n":2}' --unique shop --replace -p 5 --in 1h --json
	assert_equal "$(jq -c '[.id, .created, .replaced, .priority]' <<<"$output")" "[$id,false,true,5]"
	assert_equal "$(field "$id" "payload->>'n', priority, run_at > now() + interval '59 minutes'")" '2|5|t'
	jr_ok enqueue sync --unique new --replace --json
	assert_equal "$(jq -c '[.created, .replaced]' <<<"$output")" '[true,false]'
}

@test "--unique queues a run beside one that is running, unless --unless-running is given" {
	id=$(enqueue sync --unique shop)
	begin_attempt "$id"
	assert_equal "$(enqueue sync --unique shop --unless-running)" "$id"
	second=$(enqueue sync --unique shop)
	assert_not_equal "$second" "$id"
	assert_equal "$(enqueue sync --unique shop --replace)" "$second"
	assert_equal "$(enqueue sync --unique shop --unless-running)" "$second"
}

@test "options of keys that contradict each other exit with 64" {
	refused 'exclude each other' sync --unique a --replace --unless-running
	refused '--replace needs --unique' sync --replace
	refused '--unless-running needs --unique' sync --unless-running
	refused '--unique: 0 bytes' sync --unique ''
	refused '--lock: 256 bytes' sync --lock "$(printf 'k%.0s' {1..256})"
	refused '--wait-timeout .* --wait' sync --wait-timeout 5s
	refused '--per-run .* --batch' sync --per-run
}

@test "--strict exits with 1 when the run existed, by either key, and still prints the id" {
	for key in --unique=a --idempotency-key=b; do
		jr_ok enqueue sync "$key" --strict
		id=$output
		assert_equal "$stderr" ''
		jr enqueue sync "$key" --strict
		assert_equal "$status" 1
		assert_equal "$output" "$id"
		assert_equal "$stderr" "jobrun: run $id was there already: it is queued"
	done
	begin_attempt "$id"
	jr enqueue sync --idempotency-key=b --strict --json
	assert_equal "$status" 1
	assert_equal "$(jq -c '[.id, .created, .status]' <<<"$output")" "[$id,false,\"running\"]"
	assert_equal "$stderr" "jobrun: run $id was there already: it is running"
	jr enqueue sync --unique=a --replace --strict
	assert_equal "$status" 1
	assert_regex "$stderr" "run $output was there already and got this payload: it is queued"
	jr_ok enqueue sync --strict
}

@test "--lock sets the lock key, which limits runs per key" {
	jr_ok enqueue work --lock account-7 --json
	assert_equal "$(jq -r .concurrency_key <<<"$output")" account-7
	assert_equal "$(field "$(jq .id <<<"$output")" concurrency_key)" account-7
	enqueue work --lock account-7
	handler work <<-'sh'
		mkdir "$TMPDIR/alone" || exit 65
		sleep 0.2 # time for the other runner to start the second run, if it may
		rmdir "$TMPDIR/alone"
	sh
	bg_runner -j 2
	bg_runner -j 2 --state-dir "$TMPDIR/other"
	wait_until 20 q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded'"
	wait_runner "${runner_pids[0]}"
	wait_runner "${runner_pids[1]}"
}

@test "enqueue -n says what would happen to the keys and changes nothing" {
	jr_ok enqueue -n sync --unique shop
	assert_equal "$output" 'would queue sync: queue default, priority 100, due now'
	q_is 0 'select count(*) from jobrun.job_runs'
	id=$(enqueue sync '{"n":1}' --unique shop)
	jr_ok enqueue -n sync --unique shop
	assert_equal "$output" "would keep run $id, which is queued"
	jr_ok enqueue -n sync '{"n":2}' --unique shop --replace -p 3
	assert_equal "$output" "would replace run $id: queue default, priority 3, due now"
	jr enqueue -n sync --unique shop --strict
	assert_equal "$status" 1
	assert_equal "$output" "would keep run $id, which is queued"
	assert_equal "$(field "$id" "payload->>'n', priority")" '1|100'
	begin_attempt "$id"
	jr_ok enqueue -n sync --unique shop --unless-running
	assert_equal "$output" "would keep run $id, which is running"
	jr_ok enqueue -n sync --unique shop --json
	assert_equal "$(jq -c '[.id, .created]' <<<"$output")" '[null,true]'
}

@test "a run that the first try queued, and whose answer was lost, does not count as one that existed before" {
	for mode in answer request; do
		for key in '' --unique=a --idempotency-key=b; do
			q 'truncate jobrun.job_runs'
			rm -rf "$BATS_TEST_TMPDIR/cut.$mode.2"
			proxy "$mode" 2 # the first one is that of need()
			jr_ok enqueue -d "$proxied" sync --strict --json ${key:+"$key"}
			assert_file_exists "$cut_file"
			assert_equal "$stderr" ''
			assert_equal "$(jq -c .created <<<"$output")" true
			q_is "$(jq .id <<<"$output")" 'select id from jobrun.job_runs'
			end_proxies
		done
	done
}

@test "after a lost answer the run that was kept or replaced is found again, even when it has started meanwhile" {
	for mode in answer request; do
		q 'truncate jobrun.job_runs'
		id=$(enqueue sync '{"n":1}' --unique a)
		proxy "$mode" 2
		jr enqueue -d "$proxied" sync '{"n":2}' --unique a --strict
		assert_equal "$status" 1
		assert_equal "$output" "$id"
		assert_file_exists "$cut_file"
		proxy "$mode" 3 # two of another command
		jr_ok enqueue -n -d "$proxied" sync
		jr_ok enqueue -d "$proxied" sync '{"n":3}' --unique a --replace --json
		assert_file_exists "$cut_file"
		assert_equal "$(jq -c '[.id, .replaced]' <<<"$output")" "[$id,true]"
		assert_equal "$(field "$id" "payload->>'n'")" 3
		q_is 1 'select count(*) from jobrun.job_runs'
	done
	end_proxies
	rm -r "$BATS_TEST_TMPDIR"/cut.*
	# The server has committed, and before the program can ask the run is claimed: no second one comes of it.
	proxy answer 2
	q "insert into jobrun.job_runners (id, pid, permits, host, version) values (1, 1, 1, 'x', 'x')" \
		"create function claimed() returns trigger language plpgsql as 'begin new.status := ''running''; new.claim_seq := 1;
			new.attempts := 1; new.runner_id := 1; new.locked_until := now() + interval ''1 hour''; new.locked_by := ''x'';
			new.started_at := now(); return new; end'" \
		"create trigger claimed before update of payload on jobrun.job_runs for each row execute function claimed()"
	jr_ok enqueue -d "$proxied" sync '{"n":4}' --unique a --replace
	assert_file_exists "$cut_file"
	assert_equal "$output" "$id"
	q_is "$id" 'select id from jobrun.job_runs'
	q 'drop trigger claimed on jobrun.job_runs'
}

@test "a role that may only enqueue can use every key option" {
	role=app_$JR_DATABASE
	make_role "$role"
	q "select jobrun.add_grant('enqueue', '$role')" >/dev/null
	other=$(enqueue sync --unique theirs)
	as_superuser=$JOBRUN_DATABASE_URL
	JOBRUN_DATABASE_URL=$(url_of "$role")
	jr_ok enqueue sync --unique a --lock b --at tomorrow --strict
	assert_equal "$stderr" ''
	id=$output
	jr_ok enqueue sync '{"n":2}' --unique a --replace --json
	assert_equal "$(jq .id <<<"$output")" "$id"
	jr wait --timeout 0 "$id"
	assert_equal "$status" 75
	jr wait --timeout 0 "$other"
	assert_equal "$status" 1
	run on_terminal 80 enqueue sync
	assert_equal "$status" 0
	refute_output --partial 'permission'
	refute_output --partial 'no runner of the last'
	JOBRUN_DATABASE_URL=$as_superuser
}

@test "TRACEPARENT is stored with the run if it is valid" {
	trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	assert_equal "$(field "$(TRACEPARENT=$trace enqueue work)" trace_context)" "$trace"
	assert_equal "$(field "$(TRACEPARENT='no good' enqueue work)" 'trace_context is null')" t
	assert_equal "$(field "$(TRACEPARENT=$(printf 'k%.0s' {1..256}) enqueue work)" 'trace_context is null')" t
	assert_equal "$(field "$(TRACEPARENT='' enqueue work)" 'trace_context is null')" t
}

# expired TYPE: a run with key k that waits and has expired.
expired() {
	q "select jobrun.enqueue('$1', unique_key => 'k', expires_in => '1 hour')" >/dev/null
	q "update jobrun.job_runs set run_at = now() - interval '2 hours', created_at = now() - interval '2 hours',
		expires_at = now() - interval '1 hour' where job_type = '$1'"
}

@test "a waiting run that has expired does not take the next enqueue of its key with it" {
	handler kept <<<'exit 0'
	handler replaced <<<'exit 0'
	for kind in kept replaced; do
		expired "$kind"
		q "select jobrun.enqueue('$kind', unique_key => 'k',
			on_conflict => case '$kind' when 'kept' then 'keep' else 'replace' end)" >/dev/null
	done
	jr_ok run
	q_is 2 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "a run that is put off beyond its expiry does not expire before it is due" {
	q "select jobrun.enqueue('t', unique_key => 'k', expires_in => '1 hour')" >/dev/null
	q "select jobrun.enqueue('t', unique_key => 'k', on_conflict => 'replace', run_in => '2 hours', expires_in => '1 hour')" >/dev/null
	q_is t "select expires_at between now() + interval '179 minutes' and now() + interval '180 minutes' from jobrun.job_runs"
	# It keeps the later time, as others were promised, and one that does not expire is the latest.
	q "select jobrun.enqueue('t', unique_key => 'k', on_conflict => 'replace', expires_in => '1 minute')" >/dev/null
	q_is t "select expires_at > now() + interval '179 minutes' from jobrun.job_runs"
	q "select jobrun.enqueue('t', unique_key => 'k', on_conflict => 'replace')" >/dev/null
	q_is t 'select expires_at is null from jobrun.job_runs'
}
