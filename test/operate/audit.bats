#!/usr/bin/env bats
# Who changed what: each change leaves a row in job_audit, whatever client made it and by which way.

load ../lib/common

# told: what is on record since the last call, oldest first: action object old new.
told() {
	q "select concat_ws(' ', action, object, old, new) from jobrun.job_audit order by id"
	forget
}

# forget: nothing is on record.
forget() {
	q 'begin; set local session_replication_role = replica; delete from jobrun.job_audit; commit'
}

@test "changes by plain SQL are on record, one row each, with what was and what is" {
	q "insert into jobrun.job_definitions (name, job_type, payload) values ('nightly', 'work', '\"secret\"')"
	[[ $(told) == 'insert definition nightly '* ]]
	q "update jobrun.job_definitions set priority = 7, payload = '\"secret2\"' where name = 'nightly'"
	run told
	assert_output --regexp '^update definition nightly \{\} \{.*"priority": 7'
	assert_output --partial '"payload": "changed"'
	refute_output --partial secret
	q "update jobrun.job_definitions set next_slot_at = '2099-01-01' where name = 'jobrun.prune'"
	assert_equal "$(told | sed 's/ {.*//')" 'update definition jobrun.prune'
	q "delete from jobrun.job_definitions where name = 'nightly'"
	assert_equal "$(told | sed 's/ {.*//')" 'delete definition nightly'
	q "insert into jobrun.job_queues (name) values ('plain')" "insert into jobrun.job_queues (name, max_running) values ('mail', 3)" \
		"update jobrun.job_queues set rate_used = 9" "update jobrun.job_queues set paused_until = 'infinity' where name = 'mail'" \
		"update jobrun.job_queues set paused_until = 'infinity' where name = 'mail'" "delete from jobrun.job_queues where name = 'mail'"
	assert_equal "$(told | sed 's/ {.*//')" $'insert queue mail\nupdate queue mail\ndelete queue mail'
	q "insert into jobrun.job_types (name, paused_until) values ('work', 'infinity')" "update jobrun.job_types set paused_until = null" \
		'delete from jobrun.job_types'
	assert_equal "$(told | sed 's/ {.*//')" $'insert type work\nupdate type work\ndelete type work'
	q "insert into jobrun.job_grants (role, kind) values ('gone', 'admin')" "update jobrun.job_grants set kind = 'run'" 'delete from jobrun.job_grants'
	assert_equal "$(told | sed 's/ {.*//')" $'insert role gone\nupdate role gone\ndelete role gone'
	q "update jobrun.settings set keep_dead = '10 days'" "update jobrun.settings set stats_until = stats_until - interval '1 hour'"
	assert_equal "$(told | sed 's/"stats_until".*//')" $'update settings {"keep_dead": "90 days"} {"keep_dead": "10 days"}\nupdate settings {'
}

@test "a run that people change, cancel or delete by plain SQL is on record, with the reason they gave" {
	id=$(enqueue work '"secret"')
	q "begin; set local jobrun.reason = 'by order'; update jobrun.job_runs set priority = 1, payload = '\"secret2\"' where id = $id; commit"
	q_is "update|run $id|queued|1|changed|by order" \
		"select action, object, old ->> 'status', new ->> 'priority', new ->> 'payload', reason from jobrun.job_audit"
	forget
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now() where id = $id"
	q_is "update|queued|cancelled" "select action, old ->> 'status', new ->> 'status' from jobrun.job_audit where object = 'run $id'"
	jr_ok show "$id"
	q "delete from jobrun.job_runs where id = $id"
	q_is "delete|secret" "select action, string_agg('secret', '') from jobrun.job_audit where object = 'run $id' and action = 'delete'
		and concat(old, new) not like '%secret%' group by 1"
	id=$(enqueue work)
	begin_attempt "$id"
	q "update jobrun.job_runs set cancel_requested_at = now() where id = $id"
	q_is 1 "select count(*) from jobrun.job_audit where object = 'run $id' and new ? 'cancel_requested_at'"
	q "truncate jobrun.job_runs"
	q_is 1 "select count(*) from jobrun.job_audit where action = 'truncate' and object = 'table job_runs'"
}

@test "functions write one audit row, and applications and runners write none" {
	handler work <<<'echo "{\"progress\": 1}" >>"$JOBRUN_OUT"; [ "$JOBRUN_ATTEMPT" = 2 ]'
	q "select jobrun.define('nightly', '{\"job_type\": \"work\", \"schedule\": \"@hourly\"}', 'r')" \
		"update jobrun.job_definitions set next_slot_at = now() - interval '1 hour' where name = 'nightly'"
	forget
	enqueue work --backoff 0 --lock k --unique u
	enqueue work --unique u --replace '{"a": 1}'
	jr_ok run
	jr_ok run
	jr_ok prune
	q_is 0 'select count(*) from jobrun.job_audit'
	id=$(enqueue work --in 1h)
	jr_ok cancel "$id"
	jr_ok retry "$id"
	jr_ok pause --type work --queue mail --definition nightly
	jr_ok resume --type work --queue mail --definition nightly
	jr_ok queue mail --max-running 1
	jr_ok define nightly --remove
	make_role "app_$JR_DATABASE"
	jr_ok grant enqueue "app_$JR_DATABASE"
	jr_ok grant enqueue "app_$JR_DATABASE" --revoke
	jr_ok exec old -- true
	q_is 'cancel:1 retry:1 pause:3 resume:3 set_queue:1 undefine:1 grant:1 revoke:1 define:1' "select string_agg(a.action || ':' || a.n, ' ' order by a.first)
		from (select action, count(*) as n, min(id) as first from jobrun.job_audit group by action) a"
}

@test "a search_path like that of the functions does not hide who is no owner" {
	local kind

	id=$(enqueue work)
	for kind in run admin; do
		make_role "${kind}_$JR_DATABASE"
		jr_ok grant "$kind" "${kind}_$JR_DATABASE"
		psql_bare "$(direct_url_of "${kind}_$JR_DATABASE")" -c 'set search_path = pg_catalog, jobrun, pg_temp' \
			-c "update jobrun.job_runs set run_at = run_at + interval '1 hour' where id = $id"
		q_is 1 "select count(*) from jobrun.job_audit where object = 'run $id' and who = '${kind}_$JR_DATABASE'"
	done
	q_is 0 "select count(*) from jobrun.job_grants g where has_table_privilege(g.role, 'jobrun.schema_migrations', 'trigger')"
}

@test "the audit is kept for 30 days at least, and what is pruned of it is on record" {
	run q "update jobrun.settings set keep_audit = '29 days'"
	assert_equal "$status" 1
	assert_output --partial settings_keep_audit
	q "insert into jobrun.job_audit (at, action, object) select now() - interval '400 days', 'a', 'b' from generate_series(1, 3)"
	jr_ok prune
	q_is 'prune|audit|3|t' "select action, object, old ->> 'rows', (old ->> 'until')::timestamptz < now() - interval '1 year' from jobrun.job_audit"
	q "update jobrun.job_audit set who = 'nobody'"
	q_is 'update|1' "select action, old ->> 'rows' from jobrun.job_audit order by id desc limit 1"
	q 'delete from jobrun.job_audit'
	q_is 'delete|2' "select action, old ->> 'rows' from jobrun.job_audit"
}

@test "what ends a run by hand is on record also if it says what jobrun says of older runs of a unique key" {
	local runner="run_$JR_DATABASE"

	handler work <<<'exit 1'
	make_role "$runner"
	jr_ok grant run "$runner"
	old=$(enqueue work --backoff 1h --unique u)
	jr run
	enqueue work --backoff 1h --unique u --replace >/dev/null
	forget
	JOBRUN_DATABASE_URL=$(url_of "$runner") jr run
	q_is 'superseded|0' "select error_code, (select count(*) from jobrun.job_audit) from jobrun.job_runs where id = $old"
	id=$(enqueue work --in 1h)
	psql_bare "$(direct_url_of "$runner")" -c "update jobrun.job_runs set status = 'cancelled', finished_at = now(),
		error_code = 'superseded', superseded_by = $old where id = $id"
	q_is "$runner|update" "select who, action from jobrun.job_audit where object = 'run $id'"
	q "delete from jobrun.job_runs where id = $id"
}
