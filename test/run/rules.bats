#!/usr/bin/env bats
# The rules of a run that the table itself keeps, for any client.

load ../lib/common

# refused RULE CHANGES: a run that waits may not be changed so, and the error says which rule forbids it.
refused() {
	run q "update jobrun.job_runs set $2"
	assert_failure
	assert_regex "$output" "new row for relation \"job_runs\" violates check constraint \"$1\": [a-z]"
}

runs="status = 'running', locked_until = now(), runner_id = 1, locked_by = 'h', started_at = now(), attempts = 1, claim_seq = 1"
ended="finished_at = now()"

@test "a row that breaks a rule is refused, and the error names the rule" {
	local column

	q "insert into jobrun.job_runs (job_type) values ('work')"
	refused job_runs_job_type "job_type = 'No Name'"
	refused job_runs_queue "queue = ''"
	refused job_runs_priority 'priority = 1001'
	refused job_runs_priority 'priority = -1001'
	refused job_runs_max_attempts 'max_attempts = 2147483648'
	refused job_runs_max_attempts "max_attempts = 0, attempts = 0, $ended, status = 'dead'"
	refused job_runs_attempts "max_attempts = 1, attempts = 2, claim_seq = 2, $ended, status = 'dead'"
	refused job_runs_attempts 'attempts = -1'
	refused job_runs_claims 'snoozes = 1'
	refused job_runs_claims 'snoozes = -1'
	refused job_runs_claims 'releases = -1'
	refused job_runs_run_at "run_at = 'infinity'"
	refused job_runs_run_at "run_at = '-infinity'"
	refused job_runs_horizon "run_at = now() + interval '102 years'"
	for column in timeout backoff_base backoff_cap; do refused job_runs_durations "$column = '-1s'"; done
	for column in idempotency_key unique_key concurrency_key; do
		refused job_runs_keys "$column = ''"
		refused job_runs_keys "$column = repeat('x', 256)"
	done
	for column in payload checkpoint result; do
		refused job_runs_sizes "$column = to_jsonb((select string_agg(md5(i::text), '') from generate_series(1, 33000) i))"
	done
	refused job_runs_sizes "progress = to_jsonb((select string_agg(md5(i::text), '') from generate_series(1, 2100) i))"
}

@test "the columns of a run fit its state: it waits, or runs, or has ended" {
	local status changes

	q "insert into jobrun.job_runs (job_type) values ('work')"
	for status in running succeeded dead cancelled nonsense; do refused job_runs_state "status = '$status'"; done
	for changes in "$ended" 'locked_until = now()' 'cancel_requested_at = now()' 'superseded_by = 2' "output = 'x'" \
		'attempts = 5, claim_seq = 5' "$ended, status = 'succeeded', locked_until = now()" "$ended, status = 'succeeded', superseded_by = 2" \
		"$ended, status = 'dead', output = 'x'"; do
		refused job_runs_state "$changes"
	done
	for changes in 'runner_id = null' 'locked_by = null' 'started_at = null' "status = 'queued'" 'superseded_by = 2' 'attempts = 0' \
		"output = (select string_agg(md5(i::text), '') from generate_series(1, 9000) i)"; do
		q "update jobrun.job_runs set $runs"
		refused job_runs_state "$changes"
	done
	q "update jobrun.job_runs set cancel_requested_at = now(), output = 'x'" \
		"update jobrun.job_runs set status = 'cancelled', $ended, locked_until = null, output = null, superseded_by = 2" 'delete from jobrun.job_runs'
}
