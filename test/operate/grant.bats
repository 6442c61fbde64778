#!/usr/bin/env bats
# Who may do what: jobrun grant, and each kind of role with a login of its own.

load ../lib/common

# login NAME: make a role NAME_DATABASE that may log in.
login() {
	local name

	for name; do
		make_role "$(role "$name")"
	done
}

role() {
	echo "$1_$JR_DATABASE"
}

# granted KIND...: a login for each, with that kind.
granted() {
	local kind

	login "$@"
	for kind; do
		jr_ok grant "$kind" "$(role "$kind")"
	done
}

# url NAME: a connection as that role.
url() {
	url_of "$(role "$1")"
}

# direct NAME: the same without a pooler, in which SET ROLE and temporary tables would meet another client.
direct() {
	direct_url_of "$(role "$1")"
}

# as NAME ARGUMENT...: jr as that role, handlers included.
as() {
	local name=$1

	shift
	JOBRUN_DATABASE_URL=$(url "$name") jr "$@"
}

as_ok() {
	as "$@"
	[ "$status" -eq 0 ] || fail "as $*: exit status $status
stdout: $output
stderr: $stderr"
}

# sql NAME SQL...: the rows, as that role.
sql() {
	q_as "$(role "$1")" "${@:2}"
}

# refused NAME SQL [SQLSTATE]: the server must say no, for want of a right.
refused() {
	run psql_bare -v VERBOSITY=sqlstate "$(direct "$1")" -c "$2"
	[ "$status" -ne 0 ] || fail "as $1 it was possible: $2
$output"
	assert_output --regexp "^ERROR: +${3:-42501}$"
}

# --- the command ---

@test "grant lists, changes and revokes; a line says what was done" {
	login app
	app=$(role app)
	jr_ok grant
	assert_output ''
	jr_ok grant enqueue "$app" --type mail,sms
	assert_output "enqueue: granted to $app, for mail, sms"
	assert_equal "$stderr" ''
	jr_ok grant read "$app"
	jr_ok grant
	assert_line --index 0 --regexp '^KIND +ROLE +TYPES +QUEUES +MAX OPEN +SINCE +PROBLEM$'
	assert_line --index 1 --regexp "^enqueue +$app +mail, sms +all +- +(now|[0-9]+s ago) +-$"
	assert_line --index 2 --regexp "^read +$app +all +all +- +(now|[0-9]+s ago) +-$"
	jr_ok grant enqueue "$app" --type mail,sms
	assert_output "enqueue: granted to $app, for mail, sms"
	jr_ok grant enqueue "$app" --type mail --queue q --max-open 5
	assert_output "enqueue: granted to $app, for mail, into q, at most 5 open (before: for mail, sms)"
	jr_ok grant enqueue "$app"
	assert_output "enqueue: granted to $app (before: for mail, into q, at most 5 open)"
	jr_ok grant enqueue "$app" --queue q -n
	assert_output "enqueue: would be granted to $app, into q (before: no limits)"
	jr_ok grant --json
	assert_equal "$(jq -c '.grants | map([.kind, .role, .job_types, .problem])' <<<"$output")" \
		"[[\"enqueue\",\"$app\",null,null],[\"read\",\"$app\",null,null]]"
	jr_ok grant read "$app" --revoke -n
	assert_output "read: would be revoked from $app"
	jr_ok grant read "$app" --revoke
	assert_output "read: revoked from $app"
	jr_ok grant read "$app" --revoke
	assert_output "$app did not have read"
	q_is "enqueue|$app" 'select kind, role from jobrun.job_grants'
	q_is 'grant|grant|grant|grant|grant|revoke' "select string_agg(action, '|' order by id) from jobrun.job_audit where object = 'role $app'"
}

@test "grant: a role that was dropped is a problem in the list, harms nobody, and can be revoked" {
	login app other
	jr_ok grant enqueue "$(role app)"
	jr_ok grant enqueue "$(role other)"
	q "drop owned by \"$(role app)\""
	admin "drop role \"$(role app)\""
	jr_ok grant
	assert_line --partial 'this role does not exist'
	q 'select jobrun.apply_grants()'
	sql other "select jobrun.enqueue('work')" >/dev/null
	jr_ok grant enqueue "$(role app)" --revoke
	jr_ok grant
	refute_output --partial 'does not exist'
}

@test "grant: a renamed role loses what was granted to its old name" {
	login app
	jr_ok grant enqueue "$(role app)" --type mail
	admin "alter role \"$(role app)\" rename to \"$(role new)\""
	roles+=("$(role new)")
	refused new "select jobrun.enqueue('sms')"
	refused new "select jobrun.enqueue('mail')"
	refused new "insert into jobrun.new_runs (job_type) values ('sms')"
	jr_ok grant
	assert_line --partial 'this role does not exist'
	jr_ok grant enqueue "$(role new)" --type mail
	jr_ok grant enqueue "$(role app)" --revoke
	as_ok new enqueue mail
	refused new "select jobrun.enqueue('sms')"
	jr_ok grant enqueue "$(role new)" --revoke
	refused new "select jobrun.run_status('{1}')"
}

@test "grant --revoke of a name that no role has says that a renamed role keeps its rights, and what finds it" {
	local app old="there is no such role: if it was renamed, it keeps its rights, and 'jobrun doctor grants' finds it"

	login app
	app=$(role app)
	jr_ok grant run "$app"
	admin "alter role \"$app\" rename to \"$(role new)\""
	roles+=("$(role new)")
	jr_ok grant run "$app" --revoke -n
	assert_output "run: would be revoked from $app; $old"
	jr_ok grant run "$app" --revoke
	assert_output "run: revoked from $app; $old"
	jr_ok grant run "$app" --revoke
	assert_output "$app did not have run; $old"
}

@test "doctor finds renamed roles that have kept their rights, and grant --revoke takes all of them" {
	local kind

	granted enqueue read run admin
	roles+=("$(role new_enqueue)" "$(role new_read)" "$(role new_run)" "$(role new_admin)")
	q "do \$do\$ declare v text; begin foreach v in array '{enqueue,read,run,admin}'::text[] loop
		execute format('alter role %I rename to %I', v || '_$JR_DATABASE', 'new_' || v || '_$JR_DATABASE'); end loop; end \$do\$"
	jr_ok doctor grants
	for kind in enqueue read run admin; do
		assert_line "warn  grants  role $(role "new_$kind") has no grant, but the rights of $kind: a role keeps its rights when it is renamed; grant again what it needs, or take all of them away"
		assert_line --regexp "^ +type: jobrun grant $kind $(role "new_$kind") --revoke$"
	done
	# A new grant is all that it has then.
	jr_ok grant enqueue "$(role new_admin)"
	refused new_admin 'select payload from jobrun.job_runs'
	jr_ok grant run "$(role new_run)" --revoke -n
	assert_output "$(role new_run) had no grant: all its rights in schema jobrun would be revoked"
	sql new_run 'update jobrun.job_runs set status = status'
	jr_ok grant run "$(role new_run)" --revoke
	assert_output "$(role new_run) had no grant: all its rights in schema jobrun are revoked"
	refused new_run 'update jobrun.job_runs set status = status'
	q_is f "select has_schema_privilege('$(role new_run)', 'jobrun', 'usage')"
	q_is "$(role new_run)" "select old ->> 'role' from jobrun.job_audit where action = 'revoke'"
	jr_ok grant run "$(role new_run)" --revoke
	assert_output "$(role new_run) did not have run"
	q_is t,t "select string_agg(left(jobrun.drop_grant(k.kind, 'new_' || k.kind || '_$JR_DATABASE')::text, 1), ',') from unnest('{enqueue,read}'::text[]) k(kind)"
	jr_ok doctor grants
	refute_output --partial 'has no grant'
	for kind in enqueue read run admin; do
		assert_line --partial "$kind was granted to role $(role $kind), which does not exist: "
	done
	for kind in enqueue read run admin; do
		jr_ok grant "$kind" "$(role $kind)" --revoke
	done
	jr_ok doctor grants
	assert_output --regexp '^ok +grants '
}

@test "doctor does not warn of SELECT that was given by hand, and grant --revoke leaves it" {
	login bi lender tool
	q "grant usage on schema jobrun to \"$(role bi)\", \"$(role lender)\"" "grant select on jobrun.runs, jobrun.job_runs to \"$(role bi)\"" \
		"grant select (run_id) on jobrun.job_attempts to \"$(role bi)\""
	jr_ok doctor grants
	assert_output --regexp '^ok +grants '
	jr_ok grant read "$(role bi)" --revoke
	assert_output "$(role bi) did not have read"
	sql bi 'select count(*) from jobrun.job_runs'
	q "grant update (priority), delete on jobrun.job_runs to \"$(role tool)\""
	jr_ok doctor grants
	assert_line --partial "role $(role tool) has no grant, but delete on job_runs and 1 more: "
	jr_ok grant enqueue "$(role tool)" --revoke
	jr_ok doctor grants
	assert_output --regexp '^ok +grants '
	# What another than the owner has given he cannot take back.
	q "grant select on jobrun.job_runs to \"$(role lender)\" with grant option"
	sql lender "grant select on jobrun.job_runs to \"$(role tool)\""
	jr_ok doctor grants
	assert_output --regexp '^ok +grants '
}

# twelve STATEMENT...: with %I a role of this test, a01 to a12.
twelve() {
	local statement

	for statement; do
		q "do \$do\$ begin for i in 1..12 loop
			execute format('$statement', 'a' || to_char(i, 'fm00') || '_$JR_DATABASE'); end loop; end \$do\$"
	done
}

@test "doctor names ten roles that have rights without a grant, and counts the others" {
	twelve 'create role %I' 'grant execute on function jobrun.metrics to %I'
	jr_ok doctor grants
	twelve 'drop owned by %I' 'drop role %I'
	assert_equal "$(grep -c '^warn ' <<<"$output")" 10
	assert_line --partial "role $(role a01) has no grant, but execute on metrics: "
	assert_line --partial "role $(role a10) has no grant, but execute on metrics (and 2 more roles have such): "
}

@test "a role may enqueue through a SECURITY DEFINER function without a grant, but not directly with EXECUTE alone" {
	login app
	q "create function public.order_mail() returns bigint language sql security definer as \$\$ select jobrun.enqueue('mail') \$\$"
	assert_equal "$(sql app 'select public.order_mail()')" 1
	q_is "$(role app)" 'select created_by from jobrun.job_runs'
	q "grant usage on schema jobrun to \"$(role app)\"" "grant execute on function jobrun.enqueue to \"$(role app)\""
	refused app "select jobrun.enqueue('mail')"
	q "revoke all on all functions in schema jobrun from \"$(role app)\"" "revoke all on schema jobrun from \"$(role app)\""
}

@test "grant: wrong words are exit 64, a role that is not there 65 with what to type" {
	login app
	app=$(role app)
	jr grant enqeue "$app"
	assert_equal "$status" 64
	assert_equal "$stderr" 'jobrun: unknown kind "enqeue": did you mean "enqueue"?'
	jr grant enqueue
	assert_equal "$status" 64
	assert_regex "$stderr" 'ROLE is missing'
	jr grant --revoke
	assert_equal "$status" 64
	jr grant read "$app" --type mail
	assert_equal "$status" 64
	jr grant enqueue "$app" --type mail --revoke
	assert_equal "$status" 64
	jr grant enqueue "$app" --type 'No Type'
	assert_equal "$status" 64
	jr grant enqueue "$app" extra
	assert_equal "$status" 64
	jr grant enqueue "No Body_$JR_DATABASE"
	assert_equal "$status" 65
	assert_equal "$stderr" "jobrun: there is no role \"No Body_$JR_DATABASE\"; create role \"No Body_$JR_DATABASE\" login"
	q_is 0 'select count(*) from jobrun.job_grants'
}

@test "a role's name is taken as it is" {
	local name="O'Brien \"the\" boss; --_$JR_DATABASE"

	make_role "$name"
	jr_ok grant enqueue "$name"
	assert_output "enqueue: granted to $name"
	q_is t "select has_function_privilege(g.role, p.oid, 'execute') from jobrun.job_grants g, pg_proc p where p.proname = 'enqueue_run'"
	jr_ok grant enqueue "$name" --revoke
	q_is 0 'select count(*) from jobrun.job_grants'
}

# --- what each kind may ---

@test "many grants at once wait for each other" {
	local pids=() pid n

	login one two
	for n in 1 2 3; do
		run_jobrun grant enqueue "$(role one)" 2>>"$TMPDIR/err" >/dev/null &
		pids+=("$!")
		run_jobrun grant run "$(role two)" 2>>"$TMPDIR/err" >/dev/null &
		pids+=("$!")
		run_jobrun grant read "$(role one)" 2>>"$TMPDIR/err" >/dev/null &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "$(cat "$TMPDIR/err")"
	done
	q_is 3 'select count(*) from jobrun.job_grants'
	as_ok one enqueue work
}

@test "a role without a grant can do nothing" {
	login app
	handler work <<<'exit 0'
	for command in 'enqueue work' status list 'show 1' queue 'pause --queue mail' 'cancel 1' grant run; do
		# shellcheck disable=SC2086 # words
		as app $command
		assert_equal "$status" 77
		assert_equal "${#stderr_lines[@]}" 1
	done
	refused app "select jobrun.enqueue('work')"
	refused app 'select count(*) from jobrun.job_runs'
}

@test "grant enqueue: a role enqueues in its own transaction, sees its own runs, and nothing else" {
	granted enqueue
	handler work <<<'exit 0'
	theirs=$(enqueue work '{"secret": 1}')
	sql enqueue begin "select jobrun.enqueue('work', '{\"a\": 1}')" rollback >/dev/null
	q_is 1 'select count(*) from jobrun.job_runs'
	own=$(sql enqueue begin "select jobrun.enqueue('work', '{\"a\": 1}', queue => 'mail', concurrency_key => 'k')" commit)
	q_is "$(role enqueue)|mail" "select created_by, queue from jobrun.job_runs where id = $own"
	assert_equal "$(sql enqueue "select id, status, result, error from jobrun.run_status('{$own,$theirs}')")" "$own|queued||"
	assert_equal "$(sql enqueue "select count(*) from jobrun.enqueue_many('work', '{1,2}')")" 2
	sql enqueue "insert into jobrun.new_runs (job_type, payload) values ('work', '3')"
	assert_equal "$(sql enqueue "select created from jobrun.enqueue_lines('work', '{4,5}')")" 2
	assert_equal "$(sql enqueue "select jobrun.effect('a')")" t
	as_ok enqueue enqueue work '{}' -k once
	as_ok enqueue enqueue work '{}' -n
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	as_ok enqueue enqueue --definition nightly

	for what in 'select count(*) from jobrun.job_runs' 'select id from jobrun.job_runs' 'select count(*) from jobrun.runs' \
		'select count(*) from jobrun.job_queues' 'select count(*) from jobrun.job_attempts' 'select count(*) from jobrun.held_runs' \
		'select count(*) from jobrun.settings' 'select * from jobrun.new_runs' "insert into jobrun.new_runs (job_type) values ('work') returning nr" 'delete from jobrun.new_runs' \
		"insert into jobrun.new_runs (nr, job_type) overriding system value values (9, 'work')" 'select count(*) from jobrun.job_definitions' \
		"insert into jobrun.job_runs (job_type) values ('work')" 'delete from jobrun.job_runs' \
		"select jobrun.run_texts($theirs)" "select jobrun.attempt_texts($theirs, 1)" \
		"select jobrun.retry($own)" "select jobrun.pause(queue => 'mail')" "select jobrun.resume(queue => 'mail')" \
		"select jobrun.set_queue('mail', '{\"max_running\": 1}')" "select jobrun.add_grant('admin', session_user)" \
		"select jobrun.drop_grant('enqueue', session_user)" 'select jobrun.apply_grants()' "select jobrun.raise_alarm($theirs, 0)" \
		"select jobrun.new_run('work')" "select jobrun.audit('a', 'b', null, null, null)" \
		"select jobrun.settle_done('{$theirs}', '{0}', 1, '{}')" "select jobrun.settle_one($theirs, 0, 1, null)" \
		"select jobrun.settle_group('{$theirs}', '{0}', 1, '{dead}', null, null, null)" "select jobrun.take_new_runs()" \
		"create table jobrun.mine (a int)" 'drop table jobrun.job_runs'; do
		case $what in
		*take_new_runs*) refused enqueue "$what" '(42501|0A000)' ;;
		*new_run\(*) refused enqueue "$what" '(42501|42883)' ;;
		*) refused enqueue "$what" ;;
		esac
	done
	refused enqueue "select jobrun.enqueue('jobrun.prune')" JR065
	# Others' runs are not there for it; its own can be cancelled.
	assert_equal "$(sql enqueue "select jobrun.cancel($theirs) is null")" t
	run_is "$theirs" queued
	as enqueue cancel "$theirs" "$own"
	assert_equal "$status" 1
	run_is "$own" cancelled
	run_is "$theirs" queued
	for command in status list "show $own" "logs $own" queue grant run "retry $own" 'pause --queue mail'; do
		# shellcheck disable=SC2086 # words
		as enqueue $command
		assert_equal "$status" 77
		assert_equal "$output" ''
		assert_regex "$stderr" "permission denied for "
	done
}

@test "a command that a role may not use names the grant that it needs, whether it looks or changes" {
	local command kind

	granted enqueue
	login nobody
	handler work <<<'true'
	while IFS='|' read -r kind command; do
		# shellcheck disable=SC2086 # words
		as enqueue $command </dev/null
		assert_equal "$status" 77
		assert_regex "$stderr" "permission denied for [^;]*; the owner of the schema or an admin types: jobrun grant $kind $(role enqueue)(; work was not started)?$"
	done <<-'end'
		read|status
		read|list
		read|explain work
		read|report
		run|logs 1
		run|run
		run|run -n
		run|exec work -- true
		run|prune
		admin|retry 1
		admin|pause --queue mail
		run|cancel --type work
		run|cancel -n --type work
		read|queue
		admin|queue mail --max-running 1
		read|define work
		admin|define work --enable
		admin|define --remove work
		read|slots work
		admin|slots --replay 2026-01-01 work
		read|grant
		admin|grant read somebody
	end
	# A role without any grant.
	for command in 'enqueue work' 'enqueue --batch payloads work' 'effect done -- true'; do
		echo '{}' >payloads
		# shellcheck disable=SC2086 # words
		as nobody $command
		assert_equal "$status" 77
		assert_regex "$stderr" "permission denied for schema jobrun; .*: jobrun grant enqueue $(role nobody)$"
	done
	as nobody wait 1
	assert_regex "$stderr" ": jobrun grant read $(role nobody)$"
	# What it might cancel was enqueued by others.
	as nobody cancel 1
	assert_regex "$stderr" ": jobrun grant admin $(role nobody)$"
	# No grant lets a role migrate.
	as enqueue migrate
	assert_one_line 77 '^jobrun: permission denied for table schema_migrations; migrate as the owner of schema jobrun, a member of that role, or a superuser$'
}

@test "grant enqueue: a role sees result and error of its own runs, and nothing of others'" {
	granted enqueue
	handler work <<<'echo "{\"result\": {\"rows\": 3}}" >>"$JOBRUN_OUT"'
	handler bad <<<'echo no such customer; exit 65'
	own=$(sql enqueue "select jobrun.enqueue('work')")
	bad=$(sql enqueue "select jobrun.enqueue('bad')")
	enqueue work
	jr run
	assert_equal "$(sql enqueue "select id, status, result, error_code, error from jobrun.run_status('{1,2,3}')")" \
		"$own|succeeded|{\"rows\": 3}||
$bad|dead||exit:65|exit 65: no such customer"
}

@test "grant enqueue: cancel -n shows what cancel would do with its own runs, and names the others" {
	granted enqueue
	own=$(sql enqueue "select jobrun.enqueue('work')")
	theirs=$(enqueue work)
	as enqueue cancel -n "$own" "$theirs"
	assert_equal "$status" 1
	assert_line 'work queued    1'
	assert_equal "$stderr" "jobrun: there is no run $theirs that you may cancel"
	run_is "$own" queued
	as enqueue cancel "$own" "$theirs"
	assert_equal "$status" 1
	assert_equal "$stderr" "jobrun: there is no run $theirs that you may cancel"
	run_is "$own" cancelled
	run_is "$theirs" queued
}

@test "grant: cancel -n and retry -n are refused as cancel and retry are" {
	local kind advice="the owner of the schema or an admin types: jobrun grant"

	granted read run
	id=$(enqueue work)
	as read cancel -n "$id"
	assert_equal "$status" 77
	assert_equal "$stderr" "jobrun: permission denied for function cancel; $advice admin $(role read)"
	for kind in read run; do
		as $kind retry -n "$id"
		assert_equal "$status" 77
		assert_equal "$stderr" "jobrun: permission denied for function retry; $advice admin $(role $kind)"
	done
	run_is "$id" queued
}

@test "grant: cancel -n and retry -n show what this role may change, by ids and by filters" {
	local kind command

	granted read run
	jr_ok grant enqueue "$(role read)"
	own=$(sql run "select jobrun.enqueue('work')")
	theirs=$(enqueue work)
	for kind in read run; do
		as $kind cancel -n "$theirs"
		assert_equal "$status" 1
		assert_equal "$output" ''
		assert_equal "$stderr" "jobrun: there is no run $theirs that you may cancel"
		as $kind cancel "$theirs"
		assert_equal "$stderr" "jobrun: there is no run $theirs that you may cancel"
		as $kind retry -n --status queued
		assert_equal "$status" 77
		assert_regex "$stderr" "^jobrun: permission denied for .*: jobrun grant admin $(role $kind)$"
	done
	for command in 'cancel -n --type work' 'cancel --type work'; do
		# shellcheck disable=SC2086 # words
		as read $command
		assert_equal "$status" 77
		assert_regex "$stderr" "permission denied for table job_runs; .*: jobrun grant run $(role read)$"
	done
	as run cancel -n --type work --limit 1 # the newest is not its own
	assert_equal "$output" ''
	as run cancel -n --type work
	assert_equal "$(awk 'NR == 2 {print $3}' <<<"$output")" 1
	as run cancel --type work
	assert_output 'cancelled 1 run'
	run_is "$own" cancelled
	jr_ok cancel -n --type work
	assert_equal "$(awk 'NR == 2 {print $3}' <<<"$output")" 1
	run_is "$theirs" queued
}

@test "grant enqueue --type allows only these types, by function, batch, view and command" {
	login app
	jr_ok grant enqueue "$(role app)" --type mail,sms
	sql app "select jobrun.enqueue('mail')" "select count(*) from jobrun.enqueue_many('sms', '{1}')" >/dev/null
	refused app "select jobrun.enqueue('other')"
	refused app "select jobrun.enqueue_run('other')"
	refused app "select jobrun.enqueue_many('other', '{1}')"
	refused app "insert into jobrun.new_runs (job_type) values ('other')"
	refused app "select jobrun.enqueue_lines('other', '{1}')"
	as app enqueue other
	assert_equal "$status" 77
	assert_equal "$stderr" "jobrun: role \"$(role app)\" may not enqueue job type \"other\"; jobrun grant enqueue $(role app) --type mail,sms,other"
	jr_ok grant enqueue "$(role app)" --type other
	sql app "select jobrun.enqueue('other')" >/dev/null
	refused app "select jobrun.enqueue('mail')"
	jr_ok grant enqueue "$(role app)"
	sql app "select jobrun.enqueue('mail')" >/dev/null
}

@test "a role has what the roles that it is a member of have" {
	login group app
	admin "grant \"$(role group)\" to \"$(role app)\""
	jr_ok grant enqueue "$(role group)" --type mail
	own=$(sql app "select jobrun.enqueue('mail')")
	refused app "select jobrun.enqueue('other')"
	# SET ROLE: it is that role which asks.
	ours=$(sql app "set role \"$(role group)\"" "select jobrun.enqueue('mail')")
	q_is "$(role app)|$(role group)" \
		"select (select created_by from jobrun.job_runs where id = $own), (select created_by from jobrun.job_runs where id = $ours)"
	assert_equal "$(sql app "select id from jobrun.run_status('{$own,$ours}')")" "$own"
}

@test "grant run suffices for whole ticks with every kind of handler, heartbeats, output, effects, limits" {
	granted run
	handler shell <<-'sh'
		echo one
		echo '{"progress": 1}' >>"$JOBRUN_OUT"
		jobrun effect "mail-$JOBRUN_KEY" -- echo once || exit
		jobrun effect --at-most-once "sms-$JOBRUN_KEY" -- echo once || exit
		jobrun enqueue child '{}' || exit
		until jobrun show "$JOBRUN_RUN_ID" --json | jq -e '.progress == 1' >/dev/null; do sleep 0.2; done # a heartbeat brings it
		echo two
	sh
	PATH=$(dirname "$JOBRUN"):$PATH
	handler child <<<'exit 0'
	handler again <<<'[ "$JOBRUN_ATTEMPT" = 2 ]'
	handler dies <<<'exit 65'
	handler later <<<'exit 75'
	q 'create table public.counted (n bigint)' "grant select, insert on public.counted to \"$(role run)\""
	echo "insert into public.counted select 1 where jobrun.effect('count-' || current_setting('jobrun.key')) returning to_jsonb(n)" \
		>"$JOBRUN_HANDLERS/count.sql"
	echo "insert into public.counted select 2 from jsonb_array_elements(\$1)" >"$JOBRUN_HANDLERS/many.sql"
	echo '{"batch": 10}' >"$JOBRUN_HANDLERS/many.json"
	chmod 644 "$JOBRUN_HANDLERS"/*.sql "$JOBRUN_HANDLERS"/*.json
	jr_ok queue narrow --max-running 1 --rate 100/1m
	q "insert into jobrun.job_definitions (name, job_type, on_dead) values ('dies', 'dies', 'child')"
	shell=$(enqueue shell)
	count=$(enqueue count)
	enqueue many
	enqueue many
	enqueue again --backoff 0
	enqueue dies
	enqueue later
	q "select count(jobrun.enqueue('child', queue => 'narrow', concurrency_key => 'k')) from generate_series(1, 3)" >/dev/null
	as run run --lease 60s --heartbeat 1s
	assert_equal "$status" 1 # dies
	assert_regex "$stderr" '^jobrun: run [0-9]+ dies is dead after 1 of 5 attempts: exit 65'
	assert_equal "${#stderr_lines[@]}" 2
	q_is 'again|succeeded|1
child|succeeded|5
count|succeeded|1
dies|dead|1
later|queued|1
many|succeeded|2
shell|succeeded|1' "select job_type, status, count(*) from jobrun.job_runs group by 1, 2 order by 1"
	q_is '1|1
2|2' 'select n, count(*) from public.counted group by n order by n'
	q_is "1|$(role run)" "select result, (select created_by from jobrun.job_runs where parent_id = $shell) from jobrun.job_runs where id = $count"
	q_is 'mail,sms,count' "select string_agg(split_part(key, '-', 1), ',' order by split_part(key, '-', 1) = 'count', key) from jobrun.job_effects"
	as_ok run logs "$shell"
	assert_line two
	as_ok run status
	as_ok run list
	as_ok run queue
	as_ok run run -n
}

@test "grant run suffices to reclaim and to cancel a running handler" {
	granted run
	handler work <<<'exec sleep 60'
	lost=$(enqueue work --backoff 0)
	JOBRUN_DATABASE_URL=$(url run) bg_runner --state-dir "$BATS_TEST_TMPDIR/other"
	wait_until 10 run_is "$lost" running
	kill -KILL "$runner_pid"
	end_lease "$lost"
	JOBRUN_DATABASE_URL=$(url run) bg_runner --lease 60s --heartbeat 1s
	wait_until 10 q_is 'running|2' "select status, claim_seq from jobrun.job_runs where id = $lost"
	jr_ok cancel "$lost"
	wait_until 10 run_is "$lost" cancelled
	wait_runner
	assert_equal "$runner_status" 0
	q_is 'lost|cancelled' "select string_agg(outcome, '|' order by claim_seq) from jobrun.job_attempts where run_id = $lost"
}

@test "grant run allows nothing that changes how others work, and no DDL" {
	granted run
	id=$(enqueue work)
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	jr_ok queue mail --max-running 1
	for what in "create table jobrun.mine (a int)" 'alter table jobrun.job_runs add mine int' 'drop function jobrun.need' \
		'create index on jobrun.job_runs (id)' 'alter table jobrun.job_runs disable trigger all' 'truncate jobrun.job_runs' \
		"update jobrun.job_queues set max_running = 9" "update jobrun.job_queues set paused_until = 'infinity'" \
		"insert into jobrun.job_queues (name) values ('x')" 'delete from jobrun.job_queues' \
		"insert into jobrun.job_types (name) values ('x')" 'update jobrun.job_types set paused_until = null' \
		"insert into jobrun.job_definitions (name, job_type) values ('a', 'b')" "update jobrun.job_definitions set job_type = 'x'" \
		'delete from jobrun.job_definitions' "update jobrun.settings set archive = true" \
		"insert into jobrun.job_grants (role, kind) values (session_user, 'admin')" \
		"insert into jobrun.job_audit (action, object) values ('a', 'b')" 'delete from jobrun.job_audit' \
		"select jobrun.retry($id)" "select jobrun.pause(queue => 'mail')" "select jobrun.resume(queue => 'mail')" \
		"select jobrun.set_queue('mail', '{\"max_running\": 2}')" "select jobrun.add_grant('admin', session_user)" \
		"select jobrun.drop_grant('run', session_user)" 'select jobrun.apply_grants()' \
		"insert into jobrun.schema_migrations values (99, 'x', 'x')"; do
		refused run "$what"
	done
	for command in 'pause --queue mail' 'resume --queue mail' 'queue mail --max-running 2' "grant admin $(role run)" "retry $id"; do
		# shellcheck disable=SC2086 # words
		as run $command
		assert_equal "$status" 77
	done
	as run migrate
	assert_equal "$status" 0
	assert_output ''
}

@test "grant read allows the commands that look, without payloads, results and output" {
	granted read
	handler work <<-'sh'
		echo output-hidden
		echo '{"progress": "progress-hidden", "checkpoint": "checkpoint-hidden", "result": "result-hidden"}' >>"$JOBRUN_OUT"
	sh
	handler bad <<<'echo error-hidden; exit 65'
	id=$(enqueue work '"payload-hidden"')
	bad=$(enqueue bad '"payload-hidden"')
	waiting=$(enqueue work '"payload-hidden"' --in 1h)
	jr run
	q "insert into jobrun.job_definitions (name, job_type, payload) values ('nightly', 'work', '\"payload-hidden\"')"
	jr_ok pause --queue mail --definition nightly --reason why
	jr_ok queue mail --max-running 3
	for command in status 'status --json' list 'list --json' "show $id" "show $id --json" "show $bad" "show $bad --json" \
		"show $waiting" queue 'queue --json' grant 'slots nightly' 'slots nightly --json' 'list --definition nightly --json'; do
		# shellcheck disable=SC2086 # words
		as_ok read $command
		refute_output --partial hidden
		[ -n "$output" ]
	done
	as_ok read status
	assert_line --partial 'queue mail: paused by'
	assert_line --regexp '^bad +0 +0 +0 +1 '
	as_ok read list
	assert_line --regexp "^ *$id +work +succeeded"
	as_ok read show "$bad"
	assert_line --regexp '^error code +exit:65$'
	as_ok read queue mail
	assert_line --regexp '^mail +0 +0 +3 +1 '
	as read logs "$id"
	assert_equal "$status" 77
	assert_equal "$output" ''
	assert_equal "$(sql read "select count(*) from jobrun.runs" "select count(*) from jobrun.attempts")" '3
2'
	assert_equal "$(sql read "select result is null and error is null from jobrun.run_status('{$id,$bad}')" \
		"select num_nonnulls(t.payload, t.progress, t.checkpoint, t.result, t.last_error, t.output) from jobrun.run_texts($id) t" \
		"select num_nonnulls(t.error, t.output) from jobrun.attempt_texts($bad, 1) t")" 't
t
0
0'
	for what in 'select * from jobrun.job_runs' 'select payload from jobrun.job_runs' 'select last_error from jobrun.job_runs' \
		'select r from jobrun.job_runs r' 'select count(payload) from jobrun.job_runs' 'select output from jobrun.job_attempts' \
		'select payload from jobrun.job_definitions' 'select * from jobrun.job_runs_archive' 'select * from jobrun.held_runs' \
		'select * from jobrun.job_effects' "select 1 from jobrun.job_runs where payload ->> 0 = 'x'" \
		"select jobrun.enqueue('work')" "select jobrun.cancel($waiting)" "select jobrun.retry($bad)" \
		"select jobrun.pause(queue => 'mail')" "update jobrun.job_runs set priority = 1" 'delete from jobrun.job_runs' \
		"select * from jobrun.claim(1, 'h', 1, '{work}', '{default}', '{100}', null, null, null, 1000, 1)"; do
		refused read "$what"
	done
	for command in 'enqueue work' 'enqueue --definition nightly' 'slots nightly --replay yesterday' "retry $bad" "cancel $waiting" \
		'pause --queue mail' 'queue mail --max-running 1' run; do
		# shellcheck disable=SC2086 # words
		as read $command
		assert_equal "$status" 77
	done
	q_is 3 'select count(*) from jobrun.job_runs'
}

@test "grant admin allows everything through the functions, and no DDL" {
	granted admin
	login app
	handler bad <<<'exit 65'
	as_ok admin enqueue bad
	id=$output
	as admin run
	as_ok admin retry "$id"
	as_ok admin cancel "$id"
	as_ok admin queue mail --max-running 3
	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	as_ok admin pause --queue mail --type bad --definition nightly --reason why
	as_ok admin resume --queue mail --type bad --definition nightly
	as_ok admin grant enqueue "$(role app)" --type mail
	as_ok admin grant enqueue "$(role app)" --revoke
	as_ok admin grant
	as_ok admin status
	as_ok admin list
	as_ok admin show "$id"
	as_ok admin logs "$id"
	sql admin "select jobrun.define('weekly', '{\"job_type\": \"work\"}')" "select jobrun.define('weekly', '{\"priority\": 1}')" \
		"select jobrun.undefine('weekly')" "update jobrun.settings set keep_dead = '1 day'" "select jobrun.enqueue('jobrun.noop')" >/dev/null
	q_is "$(role admin)" "select distinct who from jobrun.job_audit where object <> 'role $(role admin)' and action <> 'insert'"
	for what in 'create table jobrun.mine (a int)' 'drop table jobrun.job_runs' 'alter function jobrun.need security invoker' \
		"update jobrun.job_grants set kind = 'admin'" 'delete from jobrun.job_audit' 'delete from jobrun.schema_migrations' \
		"insert into jobrun.job_definitions (name, job_type) values ('a', 'b')" 'update jobrun.job_definitions set priority = 1' \
		'delete from jobrun.job_definitions' 'delete from jobrun.job_runs' "insert into jobrun.job_runs (job_type) values ('work')" \
		"update jobrun.job_runs set payload = '1'" 'update jobrun.settings set stats_until = stats_until' 'delete from jobrun.settings' \
		'update jobrun.job_queues set max_running = 1' 'update jobrun.job_types set paused_until = null'; do
		refused admin "$what"
	done
}

@test "nobody but the owner may put a trigger's function of jobrun on a table of his own: its casts would run as the owner" {
	granted enqueue read run admin
	q_is 0 "select count(*) from pg_proc p, jobrun.job_grants g where p.pronamespace = 'jobrun'::regnamespace
		and p.prorettype = 'trigger'::regtype and has_function_privilege(g.role, p.oid, 'execute')"
	refused admin "create type pg_temp.evil as enum ('x');
		create function pg_temp.to_json(pg_temp.evil) returns json language plpgsql as \$\$ begin
			raise exception '%', current_user using errcode = 'P0042'; end \$\$;
		create cast (pg_temp.evil as json) with function pg_temp.to_json(pg_temp.evil);
		create temporary table settings (id pg_temp.evil);
		create trigger told after insert on settings for each row execute function jobrun.tell_change();
		insert into settings values ('x')"
}

@test "revoke takes away all of that kind, and nothing of another" {
	granted enqueue run read admin
	login app
	for kind in enqueue run read admin; do
		jr_ok grant "$kind" "$(role app)"
	done
	jr_ok grant admin "$(role app)" --revoke
	refused app "select jobrun.pause(queue => 'mail')"
	sql app 'select count(*) from jobrun.job_runs' >/dev/null
	for kind in run read enqueue; do
		jr_ok grant "$kind" "$(role app)" --revoke
	done
	for kind in enqueue run read admin; do
		jr_ok grant "$kind" "$(role "$kind")" --revoke
	done
	q_is '' "select distinct a.grantee::regrole from (
			select proacl as acl from pg_proc where pronamespace = 'jobrun'::regnamespace
			union all select relacl from pg_class where relnamespace = 'jobrun'::regnamespace
			union all select t.attacl from pg_attribute t join pg_class c on c.oid = t.attrelid where c.relnamespace = 'jobrun'::regnamespace
			union all select nspacl from pg_namespace where nspname = 'jobrun') o
		cross join lateral aclexplode(o.acl) a
		where a.grantee <> (select nspowner from pg_namespace where nspname = 'jobrun')"
	refused app "select jobrun.enqueue('work')"
}

# cells: which kinds may do it, "-" none: a line of the table in jobrun-operations(7), or a part of one, as SQL. Each in a transaction that is rolled back.
cells() {
	cat <<-'text'
		enqueue run admin|select jobrun.enqueue('work')
		enqueue run admin|insert into jobrun.new_runs (job_type) values ('work')
		enqueue run admin|select jobrun.enqueue_lines('work', '{1}')
		enqueue run admin|select jobrun.effect('e')
		enqueue read run admin|select * from jobrun.run_status('{1}')
		enqueue run admin|select jobrun.cancel(1)
		read run admin|select status from jobrun.runs
		read run admin|select id, status from jobrun.job_runs
		read run admin|select * from jobrun.job_queues, jobrun.job_types, jobrun.job_slots, jobrun.job_grants, jobrun.job_audit
		run admin|select payload, result, last_error from jobrun.job_runs
		run admin|select jobrun.claim(1, 'h', 1, '{work}', '{default}', '{100}', null, null, null, 1000, 1)
		run admin|update jobrun.job_runs set locked_until = now() where locked_until is not null
		run admin|update jobrun.job_runs set progress = '1' where locked_until is not null
		read run admin|select jobrun.follow(1)
		run admin|select jobrun.fire()
		run admin|select jobrun.prune_step('{"dry_run": true}')
		run admin|select * from jobrun.exec_claim(1, 'h', 'x', 1000, null, '{c}', 1)
		run admin|insert into jobrun.job_runners (id, pid, permits, host, version) values (9, 1, 1, 'h', 'x')
		run admin|insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values (1, 1, 1, 'lost')
		-|insert into jobrun.job_runs (job_type) values ('work')
		-|insert into jobrun.job_runs (job_type, created_by) values ('work', 'postgres')
		-|insert into jobrun.job_runs (job_type) values ('jobrun.prune')
		-|update jobrun.job_runs set created_by = 'postgres'
		-|update jobrun.job_runs set job_type = 'jobrun.prune'
		-|update jobrun.job_runs set payload = '1'
		-|update jobrun.job_runs set queue = 'mail'
		-|update jobrun.job_runs set concurrency_key = 'k'
		-|update jobrun.job_runs set idempotency_key = 'k'
		-|update jobrun.job_runs set max_attempts = 9
		-|delete from jobrun.job_runs
		-|delete from jobrun.job_attempts
		-|update jobrun.job_attempts set outcome = 'lost'
		-|delete from jobrun.job_runners
		-|insert into jobrun.job_slots (definition_id, slot, outcome) values (1, now(), 'skipped')
		-|delete from jobrun.job_slots
		-|delete from jobrun.job_effects
		-|insert into jobrun.job_effects (key) values ('k')
		-|insert into jobrun.job_stats (hour, n, job_type, queue, outcome) values (date_trunc('hour', now()), 1, 'a', 'b', 'c')
		-|update jobrun.job_totals set n = 0
		-|delete from jobrun.job_runs_archive
		-|insert into jobrun.job_audit (action, object) values ('a', 'b')
		-|update jobrun.job_audit set who = 'nobody'
		-|delete from jobrun.job_audit
		-|insert into jobrun.job_definitions (name, job_type) values ('a', 'b')
		-|update jobrun.job_definitions set enabled = false
		-|delete from jobrun.job_definitions
		-|update jobrun.job_queues set paused_until = 'infinity'
		-|insert into jobrun.job_types (name) values ('a')
		-|insert into jobrun.job_follows values (1, now())
		-|insert into jobrun.job_grants (role, kind) values ('a', 'admin')
		-|update jobrun.settings set install_id = install_id
		-|update jobrun.settings set database_oid = 1
		admin|select jobrun.adopt()
		read run admin|select jobrun.copied()
		run admin|select jobrun.check_copy()
		admin|update jobrun.settings set copies = 'refuse'
		-|update jobrun.schema_migrations set version = 1
		-|create table jobrun.mine (a int)
		-|truncate jobrun.job_runs
		admin|select jobrun.enqueue('jobrun.noop')
		admin|select jobrun.retry(1)
		admin|select jobrun.retry(1, payload => '{}')
		admin|select jobrun.pause(queue => 'mail')
		admin|select jobrun.resume(queue => 'mail')
		admin|select jobrun.define('a', '{}')
		admin|select jobrun.undefine('a')
		admin|select jobrun.set_queue('mail', '{"max_running": 1}')
		admin|select jobrun.add_grant('run', session_user)
		admin|select jobrun.drop_grant('run', session_user)
		admin|update jobrun.settings set keep_dead = '1 year'
	text
}

@test "each kind of grant allows exactly the statements that the table of roles lists for it" {
	local kind kinds statement nr=0
	local -A may=()

	granted enqueue read run admin
	enqueue work
	while IFS='|' read -r _ statement; do
		printf 'begin;\n%s;\n\\echo cell %s :SQLSTATE\nrollback;\n' "$statement" $((++nr))
	done < <(cells) >cells.sql
	for kind in enqueue read run admin; do
		while read -r _ nr state; do
			case $state in
			00000) may[$nr]+=" $kind" ;;
			42501 | JR065) ;;
			*) fail "$kind, statement $nr of cells: $state" ;;
			esac
		done < <(psql_bare -v ON_ERROR_STOP=0 "$(direct "$kind")" -f cells.sql 2>/dev/null | grep '^cell ')
	done
	nr=0
	while IFS='|' read -r kinds statement; do
		nr=$((nr + 1))
		assert_equal "$statement: ${may[$nr]:- -}" "$statement:  $kinds"
	done < <(cells)
}

# --- grants and migrations ---

@test "grants outlive functions and tables that are made anew" {
	granted enqueue read
	q "do \$do\$
		declare v text := (select pg_get_functiondef(oid) from pg_proc where pronamespace = 'jobrun'::regnamespace and proname = 'enqueue_many');
		begin drop function jobrun.enqueue_many; execute v; end \$do\$"
	q 'revoke all on all functions in schema jobrun from public'
	refused enqueue "select jobrun.enqueue_many('work', '{1}')"
	q 'select jobrun.apply_grants()'
	sql enqueue "select jobrun.enqueue_many('work', '{1}')" >/dev/null
	sql read 'select count(*) from jobrun.runs' >/dev/null
}

@test "jobrun migrate restores missing grants" {
	granted enqueue run
	q "insert into jobrun.job_grants (role, kind) values ('gone_$JR_DATABASE', 'run')"
	q 'drop function jobrun.claim' 'revoke all on all functions in schema jobrun from public' \
		"revoke all on function jobrun.enqueue_run from $(role enqueue), $(role run)" \
		"update jobrun.schema_migrations set version = 0 where name = 'functions'"
	jr_ok migrate
	as_ok enqueue enqueue work
	handler work <<<'exit 0'
	as_ok run run
	q_is 1 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

@test "doctor finds rights that are not as granted, and migrate sets them right" {
	granted enqueue run
	q "revoke usage on schema jobrun from \"$(role enqueue)\"" "revoke execute on function jobrun.claim from \"$(role run)\"" \
		"insert into jobrun.job_grants (role, kind) values ('gone_$JR_DATABASE', 'run')"
	jr doctor grants
	assert_equal "$status" 1
	assert_line --regexp "^FAIL +grants +enqueue was granted to role $(role enqueue), but usage on schema jobrun is missing: .*"
	assert_line --regexp "^FAIL +grants +run was granted to role $(role run), but execute on claim is missing: .*"
	assert_line --regexp "^warn +grants +run was granted to role gone_$JR_DATABASE, which does not exist: .*"
	jr migrate --status
	assert_equal "$status" 1
	assert_line --regexp 'functions +pending$'
	jr_ok migrate -n
	assert_line --regexp '^schema jobrun: .* \(rights are not as granted\)$'
	jr_ok migrate
	as_ok enqueue enqueue work
	handler work <<<'exit 0'
	as_ok run run
	jr_ok migrate -n
	assert_output --partial 'nothing to do'
	q "delete from jobrun.job_grants where role = 'gone_$JR_DATABASE'"
	jr_ok doctor grants
	assert_output --regexp '^ok +grants '
}

@test "what everybody may call, as after a restore without privileges, ends with the next grant or migrate" {
	local made="select count(*) from pg_proc p where p.pronamespace = 'jobrun'::regnamespace and has_function_privilege('public', p.oid, 'execute')"

	login enqueue
	for what in "grant enqueue $(role enqueue)" migrate; do
		q 'grant execute on all functions in schema jobrun to public'
		jr doctor grants
		assert_equal "$status" 1
		assert_line --regexp '^FAIL +grants +everybody may call jobrun\.[a-z_]+ and [0-9]+ more: .*'
		# shellcheck disable=SC2086 # words
		jr_ok $what
		q_is 0 "$made"
		refused enqueue "select jobrun.add_grant('admin', session_user)"
		jr_ok doctor grants
		assert_output --regexp '^ok +grants '
	done
}

@test "jobrun migrate revokes what a kind no longer includes" {
	granted run admin
	q "grant select, insert, update, delete on jobrun.job_runs, jobrun.job_definitions, jobrun.settings to \"$(role run)\", \"$(role admin)\"" \
		"update jobrun.schema_migrations set version = 0 where name = 'functions'"
	jr_ok migrate
	for kind in run admin; do
		refused "$kind" "insert into jobrun.job_runs (job_type) values ('work')"
		refused "$kind" "update jobrun.job_runs set created_by = 'me'"
		refused "$kind" "update jobrun.job_definitions set priority = 1"
		refused "$kind" 'delete from jobrun.settings'
	done
	handler work <<<'exit 0'
	enqueue work
	as_ok run run
	q_is 1 "select count(*) from jobrun.job_runs where status = 'succeeded'"
}

# owned_by ROLE: make the schema anew, for an owner who is no superuser.
owned_by() {
	make_role "$1"
	drop_schema
	q "create schema jobrun authorization \"$1\""
	jr_ok -d "$(url_of "$1")" migrate
}

@test "what others have made in the schema stops neither grant nor migrate, and its rights stay" {
	local owner app

	owner=$(role owner)
	owned_by "$owner"
	granted admin
	login enqueue
	app=$(role enqueue)
	q 'create view jobrun.bare as select 1' 'create view jobrun.my_overview as select job_type, count(*) from jobrun.job_runs group by 1' \
		"create function jobrun.lag() returns int language sql as 'select 1'" \
		"create function jobrun.claim() returns int language sql as 'select 1'" \
		"grant select on jobrun.my_overview to public, \"$app\"" \
		"set role \"$owner\"" 'create view jobrun."an own one" as select 1' 'reset role'
	as owner grant enqueue "$app"
	assert_equal "$status|$output|$stderr" "0|enqueue: granted to $app|"
	as_ok owner grant admin "$(role admin)"
	as_ok enqueue enqueue work
	q "update jobrun.schema_migrations set version = 0 where name = 'functions'"
	as_ok owner migrate
	as_ok enqueue enqueue work
	sql admin 'select * from jobrun."an own one"' >/dev/null
	q_is 0 "select count(*) from pg_class c cross join lateral aclexplode(c.relacl) a where c.relnamespace = 'jobrun'::regnamespace
		and a.grantee = 0 and c.relname <> 'my_overview'"
	q_is 0 "select count(*) from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
		where p.pronamespace = 'jobrun'::regnamespace and a.grantee = 0 and p.proname <> 'lag' and p.pronargs > 0"
	as_ok owner grant enqueue "$app" --revoke
	q_is "t|f|f" "select has_table_privilege('$app', 'jobrun.my_overview', 'select'), has_schema_privilege('$app', 'jobrun', 'usage'),
		has_table_privilege('$(role admin)', 'jobrun.job_runs', 'insert')"
	as_ok admin doctor grants # it may not read what was made since, and that is well
	sql owner 'create table jobrun.job_runs_archive_new (a int)'
	as_ok admin doctor grants
	assert_output --regexp '^ok +grants '
	# Neither what the owner has made besides, nor odd names, leave migrate something to do for ever.
	sql owner "create procedure jobrun.tidy() language sql as 'select 1'" "create function jobrun.helper() returns int language sql as 'select 1'" \
		'create table jobrun."odd(name" (a int)'
	as_ok owner migrate -n
	assert_output --partial 'nothing to do'
	as_ok owner doctor grants
	assert_output --regexp '^ok +grants '
}

@test "the owner of the schema is not told to grant himself a right" {
	owned_by "$(role owner)"
	sql owner "revoke select on jobrun.job_queues from \"$(role owner)\""
	as owner queue
	assert_one_line 77 '^jobrun: permission denied for table job_queues$'
}

# --- everything there is ---

# What each kind may, of every object of the schema. A new one must be entered here: who needs it?
# Functions: the kinds. Tables and views: rights of each kind: r select, a insert, w update, d delete, D truncate,
# x references, t trigger; in capitals (R, W) of some columns only. Sequences and types: nobody needs them.
objects() {
	cat <<-'text'
		function add_grant: admin
		function add_totals: admin
		function adopt: admin
		function all_seen: read run admin
		function apply_grants: admin
		function archive_columns: admin
		function archive_months: admin
		function archive_runs: admin
		function attempt_texts: read run admin
		function audit: admin
		function bad_line: admin
		function bad_option: admin
		function below: read run admin
		function both_buckets: admin
		function bound_run: admin
		function bring_back: admin
		function bucket_counts: read run admin
		function bucket_of: read run admin
		function by_hand: run admin
		function call_runners: admin
		function caller: admin
		function cancel: enqueue run admin
		function candidates: run admin
		function carve_slot: admin
		function changed_lines: admin
		function check_copy: run admin
		function check_pauses: run admin
		function check_conflict: admin
		function check_definition:
		function check_duration: admin
		function check_grant: admin
		function check_key: admin
		function check_name: admin
		function check_open: admin
		function check_time_zone: admin
		function check_type: admin
		function claim: run admin
		function claim_ahead: run admin
		function claim_free: run admin
		function claim_job: run admin
		function claim_turn: run admin
		function claims_of: read run admin
		function clock: read run admin
		function clock_change: admin
		function command_line: read run admin
		function copied: read run admin
		function copy_in_words: admin
		function count_bits: admin
		function count_every: admin
		function count_in_month: admin
		function count_local: admin
		function count_prunable: admin
		function count_slots: admin
		function count_up: admin
		function day_of_runners: admin
		function define: admin
		function define_all: admin
		function definition_doc: admin
		function drop_grant: admin
		function drop_month: admin
		function due_before: admin
		function due_slots: admin
		function effect: enqueue run admin
		function effect_begin: enqueue run admin
		function effect_claim: enqueue run admin
		function effect_done: enqueue run admin
		function effect_end: enqueue run admin
		function effect_look: enqueue run admin
		function effect_undo: enqueue run admin
		function enqueue: enqueue run admin
		function enqueue_definition: enqueue run admin
		function enqueue_lines: enqueue run admin
		function enqueue_many: enqueue run admin
		function enqueue_many_with: admin
		function enqueue_run: enqueue run admin
		function enqueue_with: admin
		function exec_claim: run admin
		function exec_paused: admin
		function explain: read run admin
		function explain_command: admin
		function explain_conditions: admin
		function explain_copy: admin
		function explain_definition: read run admin
		function explain_handler: read run admin
		function explain_hosts: admin
		function explain_late: admin
		function explain_limits: admin
		function explain_locks: admin
		function explain_pauses: admin
		function explain_verdict: admin
		function fail_slots: admin
		function fire: run admin
		function fire_definition: admin
		function fire_due: run admin
		function fire_slot: admin
		function fires_now: run admin
		function follow: read run admin
		function forget_ahead: admin
		function forget_outputs: admin
		function grant_hint: admin
		function has_month: admin
		function has_waiting_keys: admin
		function held_back: run admin
		function highest_bit: admin
		function hours_end: admin
		function in_place_of: enqueue read run admin
		function insert_many: admin
		function insert_run: admin
		function is_admin: admin
		function is_command: admin
		function is_enqueued: run admin
		function is_held_back: run admin
		function is_limited: read run admin
		function is_name: read run admin
		function is_of_exec: admin
		function is_retried_command: admin
		function is_run: run admin
		function is_whole: admin
		function keep_or_replace: admin
		function kept_since: admin
		function known_zone: admin
		function last_local: admin
		function last_runner: read run admin
		function last_slot: admin
		function late_counts: read run admin
		function limit_reason: run admin
		function limit_words: run admin
		function line_of: read run admin
		function local_peak: admin
		function local_reached: admin
		function lock_queue: admin
		function lock_waiting: admin
		function lost_rights: read run admin
		function lost_zone: read run admin
		function make_month: admin
		function make_months: admin
		function make_queue: admin
		function make_trigger: admin
		function may: admin
		function may_cancel: enqueue run admin
		function may_claim: run admin
		function may_replay: admin
		function metrics: read run admin
		function metrics_of_all: read run admin
		function metrics_of_types: read run admin
		function month_days: admin
		function moved_runs: run admin
		function measures: read run admin
		function mend_of: admin
		function need: enqueue read run admin
		function need_in_words: admin
		function need_queue: admin
		function new_install_id: admin
		function new_on: admin
		function new_run: admin
		function new_run_of: admin
		function newer_or_archived: read run admin
		function newer_run: read run admin
		function next_claim: admin
		function next_local: admin
		function next_slot: admin
		function next_slots: enqueue read run admin
		function next_waiting: read run admin
		function nth_key: admin
		function old_months: admin
		function oldest_due: read run admin
		function one_more: admin
		function open_runs: admin
		function other_paused_types: read run admin
		function other_queues: read run admin
		function other_types: enqueue read run admin
		function others_words: admin
		function overlapping: run admin
		function own_functions: admin
		function own_tables: read run admin
		function parse_every: admin
		function parse_schedule: admin
		function parse_schedule_field: admin
		function parse_schedule_item: admin
		function parse_schedule_number: admin
		function pause: admin
		function pause_reason: admin
		function pause_words: admin
		function payload_mark: admin
		function prune_again: run admin
		function prune_from: admin
		function prune_kinds: admin
		function prune_rule: admin
		function prune_some: admin
		function prune_step: run admin
		function public_functions: read run admin
		function raise_alarm: run admin
		function raise_in_line: admin
		function rate_left: read run admin
		function read_definition: admin
		function read_options: admin
		function record_slots: admin
		function record_start: admin
		function redraw_id: admin
		function remove_queue: admin
		function replay: admin
		function restore_slots: admin
		function resume: admin
		function retry: admin
		function revoke_all: admin
		function rights: read run admin
		function role_may: admin
		function row_holder: admin
		function run_of_many: admin
		function run_status: enqueue read run admin
		function run_texts: read run admin
		function runners_of_day: admin
		function runs_of: admin
		function seen_by_exec: admin
		function seen_here: admin
		function seen_hosts: read run admin
		function seen_of: admin
		function seen_runners: read run admin
		function session_clean: run admin
		function session_open: run admin
		function set_queue: admin
		function settle: run admin
		function settle_done: run admin
		function settle_group: run admin
		function settle_one: run admin
		function shell_word: read run admin
		function slot_text: read run admin
		function slots_ahead: read run admin
		function slots_words: admin
		function some_of: admin
		function spell_durations: admin
		function spend_rate: run admin
		function start_keyed: run admin
		function stats: read run admin
		function stats_of: read run admin
		function sum_hours: admin
		function system_identifier: admin
		function take_new_runs:
		function taken_types: admin
		function tell_change:
		function tell_forgotten:
		function tell_unhandled: run admin
		function this_database: admin
		function type_counts: read run admin
		function type_of_refused: admin
		function undefine: admin
		function ungranted: read run admin
		function unhandled_since: admin
		function unhandled_words: admin
		function waiting_commands: read run admin
		function waiting_heads: read run admin
		function weekdays_of: admin
		schema: enqueue=U read=U run=U admin=U
		sequence job_audit_id_seq:
		sequence job_definitions_id_seq:
		sequence job_runs_id_seq:
		sequence new_runs_nr_seq:
		table job_attempts: read=R run=ra admin=ra
		table job_attempts_archive: read=R run=r admin=r
		table job_attempts_archive_default: admin=r
		table job_audit: read=r run=r admin=r
		table job_definitions: read=R run=r admin=r
		table job_effects: run=r admin=r
		table job_follows: run=r admin=r
		table job_grants: read=r run=r admin=r
		table job_queues: read=r run=rW admin=rW
		table job_runners: read=r run=rAW admin=rAW
		table job_runs: read=R run=rW admin=rW
		table job_runs_archive: read=R run=r admin=r
		table job_runs_archive_default: admin=r
		table job_slots: read=r run=r admin=r
		table job_stats: read=r run=r admin=r
		table job_totals: read=r run=r admin=r
		table job_types: read=r run=r admin=r
		table new_runs: enqueue=A run=A admin=rA
		table schema_migrations: read=r run=r admin=r
		table settings: read=r run=r admin=rW
		type defined:
		type enqueued:
		type prune_rule:
		type run_options:
		type schedule_fields:
		view all_runs: read=R run=r admin=r
		view attempts: read=r run=r admin=r
		view held_runs: run=r admin=r
		view runs: read=r run=r admin=r
	text
}

# The columns that a role may read or write where it may not those of the whole table.
columns() {
	cat <<-'text'
		enqueue insert new_runs: job_type payload options run
		read select all_runs: id job_type queue priority status run_at attempts max_attempts snoozes releases claim_seq locked_by locked_until runner_id created_at created_by started_at failed_at finished_at expires_at cancel_requested_at definition_id slot parent_id superseded_by idempotency_key unique_key concurrency_key timeout backoff_base backoff_cap trace_context error_code output_dropped archived_at
		read select job_attempts: run_id claim_seq attempt runner_id pid started_at finished_at cpu_ms max_rss_kb output_dropped exit_status outcome error_code host due_at run_status
		read select job_attempts_archive: run_id claim_seq attempt runner_id pid started_at finished_at cpu_ms max_rss_kb output_dropped exit_status outcome error_code host run_finished_at due_at run_status
		read select job_definitions: id anchor_at next_slot_at paused_until created_at updated_at timeout backoff_base backoff_cap catch_up_grace max_attempts priority enabled name job_type schedule time_zone queue concurrency_key on_dead catch_up overlap paused_reason description
		read select job_runs: id claim_seq runner_id attempts max_attempts snoozes releases definition_id parent_id run_at locked_until started_at finished_at failed_at created_at expires_at cancel_requested_at slot output_dropped timeout backoff_base backoff_cap priority status queue job_type created_by locked_by idempotency_key unique_key concurrency_key trace_context error_code superseded_by is_counted
		read select job_runs_archive: id claim_seq runner_id attempts max_attempts snoozes releases definition_id parent_id run_at locked_until started_at finished_at failed_at created_at expires_at cancel_requested_at slot output_dropped timeout backoff_base backoff_cap priority status queue job_type created_by locked_by idempotency_key unique_key concurrency_key trace_context error_code superseded_by is_counted archived_at
		run insert job_runners: id pid permits started_at last_seen_at finished_at lingers_until host version job_types queues counts claims_void refused heartbeat
		run insert new_runs: job_type payload options run
		run update job_queues: rate_window_start rate_used
		run update job_runners: id pid permits started_at last_seen_at finished_at lingers_until host version job_types queues counts claims_void refused heartbeat
		run update job_runs: claim_seq runner_id attempts snoozes releases run_at locked_until started_at finished_at failed_at cancel_requested_at output_dropped status locked_by error_code progress checkpoint result last_error output superseded_by
		admin insert job_runners: id pid permits started_at last_seen_at finished_at lingers_until host version job_types queues counts claims_void refused heartbeat
		admin insert new_runs: job_type payload options run
		admin update job_queues: rate_window_start rate_used
		admin update job_runners: id pid permits started_at last_seen_at finished_at lingers_until host version job_types queues counts claims_void refused heartbeat
		admin update job_runs: claim_seq runner_id attempts snoozes releases run_at locked_until started_at finished_at failed_at cancel_requested_at output_dropped status locked_by error_code progress checkpoint result last_error output superseded_by
		admin update settings: keep_succeeded keep_keyed keep_cancelled keep_dead keep_output keep_runners keep_slots keep_effects keep_audit keep_stats archive copies keep_archive paused_until paused_reason paused_by
	text
}

# The kinds in their order, each with the role of this test.
kinds_sql() {
	echo "(values (1, 'enqueue', '$(role enqueue)'), (2, 'read', '$(role read)'), (3, 'run', '$(role run)'), (4, 'admin', '$(role admin)')) k(nr, kind, role)"
}

found_objects() {
	q "select 'function ' || p.proname || ':' || coalesce(' ' || string_agg(k.kind, ' ' order by k.nr)
			filter (where has_function_privilege(k.role, p.oid, 'execute')), '')
		from pg_proc p cross join $(kinds_sql) where p.pronamespace = 'jobrun'::regnamespace group by p.oid, p.proname
		union all
		select case c.relkind when 'v' then 'view ' else 'table ' end || c.relname || ':' || coalesce(
			(select string_agg(' ' || k.kind || '=' || g.given, '' order by k.nr) from $(kinds_sql) cross join lateral (
				select string_agg(case when has_table_privilege(k.role, c.oid, r.name) then r.letter
						when r.letter in ('r', 'a', 'w', 'x') and has_any_column_privilege(k.role, c.oid, r.name) then upper(r.letter) end, ''
						order by r.nr) as given
				from (values (1, 'select', 'r'), (2, 'insert', 'a'), (3, 'update', 'w'), (4, 'delete', 'd'), (5, 'truncate', 'D'),
					(6, 'references', 'x'), (7, 'trigger', 't')) r(nr, name, letter)) g
			where g.given <> ''), '')
		from pg_class c where c.relnamespace = 'jobrun'::regnamespace and c.relkind in ('r', 'v', 'm', 'p', 'f')
		union all
		select 'sequence ' || c.relname || ':' || coalesce(' ' || string_agg(k.kind, ' ' order by k.nr)
			filter (where case when c.relkind = 'S' then has_sequence_privilege(k.role, c.oid, 'usage, select, update') end), '')
		from pg_class c cross join $(kinds_sql) where c.relnamespace = 'jobrun'::regnamespace and c.relkind = 'S' group by c.relname
		union all
		select 'type ' || t.typname || ':' from pg_type t left join pg_class c on c.oid = t.typrelid
		where t.typnamespace = 'jobrun'::regnamespace and (t.typrelid = 0 or c.relkind = 'c') and t.typcategory <> 'A'
		union all
		select 'schema:' || string_agg(' ' || k.kind || '=' || case when has_schema_privilege(k.role, 'jobrun', 'usage') then 'U' else '' end
			|| case when has_schema_privilege(k.role, 'jobrun', 'create') then 'C' else '' end, '' order by k.nr) from $(kinds_sql)" |
		sort
}

found_columns() {
	q "select k.kind || ' ' || r.name || ' ' || c.relname || ': ' || string_agg(a.attname, ' ' order by a.attnum)
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		cross join $(kinds_sql) cross join (values ('select'), ('insert'), ('update'), ('references')) r(name)
		where c.relnamespace = 'jobrun'::regnamespace and c.relkind in ('r', 'v', 'p')
			and not has_table_privilege(k.role, c.oid, r.name) and has_column_privilege(k.role, c.oid, a.attnum, r.name)
		group by k.nr, k.kind, r.name, c.relname order by k.nr, r.name, c.relname"
}

@test "every function, table, view, sequence and type has exactly the documented rights" {
	granted enqueue read run admin
	objects | sort >expected
	found_objects >found
	diff expected found
	columns >expected
	found_columns >found
	diff expected found
}

@test "PUBLIC has nothing" {
	q_is '' "select p.proname from pg_proc p where p.pronamespace = 'jobrun'::regnamespace and has_function_privilege('public', p.oid, 'execute')
		union all
		select c.relname from pg_class c where c.relnamespace = 'jobrun'::regnamespace and c.relkind in ('r', 'v', 'm', 'p', 'f')
			and (has_table_privilege('public', c.oid, 'select, insert, update, delete, truncate, references, trigger')
				or has_any_column_privilege('public', c.oid, 'select, insert, update, references'))
		union all
		select c.relname from pg_class c where c.relnamespace = 'jobrun'::regnamespace and case when c.relkind = 'S'
			then has_sequence_privilege('public', c.oid, 'usage, select, update') end
		union all
		select 'jobrun' where has_schema_privilege('public', 'jobrun', 'usage') or has_schema_privilege('public', 'jobrun', 'create')"
}

@test "every function that runs with its owner's rights has the pinned search_path" {
	q_is '' "select p.proname, p.proconfig from pg_proc p where p.pronamespace = 'jobrun'::regnamespace
		and p.prosecdef and not coalesce('search_path=pg_catalog, jobrun, pg_temp' = any (p.proconfig), false)"
	# And what has another one, or none, must be known: they are called inside others, or are one expression.
	q_is 'bucket_of,by_hand,caller,claim_free,claim_turn,count_bits,highest_bit,is_enqueued,is_held_back,is_limited,is_name,is_run,rate_left,runs_of,session_clean,session_open,weekdays_of' "select string_agg(p.proname, ',' order by p.proname collate \"C\") from pg_proc p
		where p.pronamespace = 'jobrun'::regnamespace and not coalesce('search_path=pg_catalog, jobrun, pg_temp' = any (p.proconfig), false)"
	# Views too are read with their owner's rights.
	q_is 'attempts,runs' "select string_agg(relname, ',' order by relname) from pg_class where relnamespace = 'jobrun'::regnamespace
		and relkind = 'v' and 'security_barrier=true' = any (reloptions)"
}

# --- attacks ---

@test "a caller's own tables, functions and operators do not change what enqueue does" {
	granted enqueue
	q "create schema evil authorization \"$(role enqueue)\""
	q "insert into jobrun.job_definitions (name, job_type, queue, priority) values ('work', 'work', 'mail', 7)"
	cat >attack.sql <<-'sql'
		create function evil.trip(text, text) returns boolean language plpgsql as
			$$ begin raise exception 'tripped as %', current_user using errcode = 'JR666'; end $$;
		create operator evil.= (leftarg = text, rightarg = text, function = evil.trip);
		create operator evil.~ (leftarg = text, rightarg = text, function = evil.trip);
		create operator evil.<> (leftarg = text, rightarg = text, function = evil.trip);
		create operator evil.~~ (leftarg = text, rightarg = text, function = evil.trip);
		create function evil.now() returns timestamptz language plpgsql as
			$$ begin raise exception 'tripped as %', current_user using errcode = 'JR666'; end $$;
		create function evil.octet_length(text) returns integer language plpgsql as
			$$ begin raise exception 'tripped as %', current_user using errcode = 'JR666'; end $$;
		create function evil.current_setting(text) returns text language sql as $$ select 'jobrun' $$;
		create function evil.current_setting(text, boolean) returns text language sql as $$ select '1' $$;
		create function evil.pg_has_role(name, oid, text) returns boolean language sql as $$ select true $$;
		create function evil.is_name(text) returns boolean language sql as $$ select true $$;
		create function evil.check_name(text, text) returns void language sql as $$ select $$;
		create type evil.enqueued as (id text);
		create table evil.job_runs (id bigint, job_type text, payload jsonb);
		create temp table job_runs (id bigint, job_type text, payload jsonb);
		create temp table job_definitions (name text, queue text);
		insert into job_definitions values ('work', 'stolen');
		create temp table job_grants (role text, kind text, job_types text[]);
		insert into job_grants values (session_user, 'admin', null);
		create temp table pg_roles (rolname name, oid oid);
		insert into pg_roles values (session_user, 10);
		create temp table pg_namespace (nspname name, nspowner oid);
		insert into pg_namespace values ('jobrun', (select oid from pg_catalog.pg_roles where rolname operator(pg_catalog.=) session_user));
		set search_path = pg_temp, evil, pg_catalog, jobrun;
		select jobrun.enqueue('work', '{"a": 1}', idempotency_key => 'k', unique_key => 'u', concurrency_key => 'c');
		select jobrun.enqueue('work', '{"a": 1}', idempotency_key => 'k');
		select jobrun.enqueue_many('work', array['1', '2']::pg_catalog.jsonb[]);
		insert into jobrun.new_runs (job_type, payload, run) values ('work', '4', '{"run_in": "1 second"}');
		select created from jobrun.enqueue_lines('work', '{"{\"payload\": {\"a\": 1}, \"idempotency_key\": \"k\"}"}', per_run => true);
		select status from jobrun.run_status('{1,2,3,4}');
		select jobrun.cancel(4);
		select jobrun.effect('e');
		select (jobrun.enqueue_run('work', on_conflict => 'replace', unique_key => 'u2')).id;
		select verdict from jobrun.effect_begin('f', null, null);
		select verdict from jobrun.effect_claim('g', null, null, 'word');
		select verdict from jobrun.effect_look('g');
	sql
	run psql_bare "$(direct enqueue)" -f attack.sql
	assert_output '1
1
2
3
0
queued
queued
queued
queued
cancelled
t
5
go
go
open'
	assert_equal "$status" 0
	q_is "5|mail|7|$(role enqueue)" 'select count(*), queue, priority, created_by from jobrun.job_runs group by 2, 3, 4'
	q_is 0 'select count(*) from evil.job_runs'
	# Nor does it get what it may not have.
	for what in "select jobrun.enqueue('No Name')" "select jobrun.enqueue('jobrun.noop')"; do
		{
			sed '/^select jobrun.enqueue/,$d; s/^create schema.*//' attack.sql | grep -E 'temp table|^insert into (job_|pg_)|^set '
			echo "$what;"
		} >more.sql
		run psql_bare -v VERBOSITY=sqlstate "$(direct enqueue)" -f more.sql
		assert_output --partial 'ERROR:  JR065'
	done
}

@test "no error shows a run of another role" {
	granted enqueue
	id=$(enqueue work '{"secret": 1}' --unique k)
	q "update jobrun.job_runs set created_at = now() - interval '2 years', checkpoint = '{\"secret\": 2}', last_error = 'secret' where id = $id"
	run sql enqueue "select jobrun.enqueue('work', '1', unique_key => 'k', on_conflict => 'replace', run_at => now() + interval '99 years 11 months')"
	assert_output "$id"
}

@test "a caller cannot pass for another" {
	granted enqueue
	theirs=$(enqueue work)
	owner=$(q "select rolname from pg_roles where oid = (select nspowner from pg_namespace where nspname = 'jobrun')")
	refused enqueue "set role \"$owner\""
	refused enqueue "set session authorization \"$owner\""
	refused enqueue "select set_config('role', '$owner', false)" '(42501|22023)'
	assert_equal "$(sql enqueue "select set_config('jobrun.run_id', '1', false)" "select set_config('jobrun.claim', '0', false)" \
		"select count(*) from jobrun.run_status('{$theirs}')" "select jobrun.cancel($theirs) is null")" '1
0
0
t'
	run_is "$theirs" queued
}

@test "\\d+ and \\df+ say what each table, view, column and function of applications is" {
	make_role "app_$JR_DATABASE"
	jr_ok grant enqueue "app_$JR_DATABASE"
	q_is '' "select c.relname, a.attname from pg_class c
		left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and col_description(c.oid, a.attnum) is null
		where c.relnamespace = 'jobrun'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
			and (a.attname is not null or obj_description(c.oid, 'pg_class') is null)"
	q_is '' "select p.proname from pg_proc p where p.pronamespace = 'jobrun'::regnamespace and obj_description(p.oid, 'pg_proc') is null
		and has_function_privilege('app_$JR_DATABASE', p.oid, 'execute')"
}
