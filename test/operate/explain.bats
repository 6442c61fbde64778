#!/usr/bin/env bats
# jobrun explain: why a run does not start, or a definition does not fire, and the command that changes it.

load ../lib/common

# verdict_is ID REGEX: the first line of explain.
verdict_is() {
	jr_ok explain "$1"
	assert_line --index 0 --regexp "^$1 $2"
}

# starts_by ID COMMAND: explain prints that command, and with it, and a tick, the run succeeds.
starts_by() {
	jr_ok explain "$1"
	assert_line --index 1 "try: $2"
	eval "run_jobrun ${2#jobrun }"
	jr_ok run
	run_is "$1" succeeded
}

# runs_elsewhere ID: somebody holds it.
runs_elsewhere() {
	begin_attempt "$1"
}

T='([0-9-]+ )?[0-9:]+\+00:00'

@test "what waits for its time, or is paused: the reason, and the command that makes it start" {
	handler work <<<'exit 0'
	handler other <<<'exit 0'
	jr_ok run
	later=$(enqueue work --in 2h)
	verdict_is "$later" "waits: due $T \(in (1h 59m|2h)\)\$"
	assert_line --regexp "^!   due .* jobrun retry $later$"
	assert_line --regexp '^ok  handler for work: on '
	assert_line 'ok  no other transaction has it locked'
	starts_by "$later" "jobrun retry $later"

	queued=$(enqueue work -q mail)
	jr_ok pause --queue mail --reason 'the relay is down'
	verdict_is "$queued" 'never starts unless somebody acts: queue mail is paused by .* until resumed: the relay is down$'
	starts_by "$queued" 'jobrun resume --queue mail'

	typed=$(enqueue other)
	jr_ok pause --type other --for 1h
	verdict_is "$typed" "waits: type other is paused by .* until $T \(in (59m [0-9]+s|1h)\)"
	starts_by "$typed" 'jobrun resume --type other'

	q "insert into jobrun.job_definitions (name, job_type) values ('nightly', 'work')"
	defined=$(enqueue --definition nightly)
	jr_ok pause --definition nightly --reason 'month end'
	verdict_is "$defined" 'never starts unless somebody acts: definition nightly is paused until resumed: month end$'
	starts_by "$defined" 'jobrun resume --definition nightly'
}

@test "what a limit holds back: how many of how many, which runs, and the command that makes it start" {
	handler work <<<'exit 0'
	jr_ok run
	full=$(enqueue work -q full --lock customer)
	runs_elsewhere "$full"
	keys=$(enqueue work -q keys --lock customer)
	runs_elsewhere "$keys"
	jr_ok queue full --max-running 1
	a=$(enqueue work -q full)
	verdict_is "$a" "waits: queue full is full, 1 of 1 run \($full\)\$"
	starts_by "$a" 'jobrun queue full --max-running 2'

	b=$(enqueue work -q keys --lock customer)
	verdict_is "$b" "waits: lock key customer is taken, 1 of 1 run in queue keys \($keys\)\$"
	assert_line --index 1 "try: jobrun show $keys" # a lock key is for one at once
	refute_output --partial --per-key
	jr_ok queue keys --per-key 2
	runs_elsewhere "$(enqueue work -q keys --lock customer)"
	verdict_is "$b" "waits: lock key customer is taken, 2 of 2 run in queue keys "
	starts_by "$b" 'jobrun queue keys --per-key 3'

	jr_ok queue rate --rate 1/1h
	first=$(enqueue work -q rate)
	jr_ok run
	run_is "$first" succeeded
	c=$(enqueue work -q rate)
	verdict_is "$c" "waits: queue rate has started 1 of 1 in 1h, more from $T \(in "
	starts_by "$c" 'jobrun queue rate --rate 2/1h'

	jr_ok queue none --max-running 0
	d=$(enqueue work -q none)
	verdict_is "$d" 'never starts unless somebody acts: queue none lets no run start: its max-running is 0$'
	starts_by "$d" 'jobrun queue none --max-running 1'

	jr_ok queue one --max-running 1
	e=$(enqueue work -q one)
	f=$(enqueue work -q one)
	verdict_is "$e" 'starts with the next claim$'
	verdict_is "$f" 'waits: 1 due run comes before it in queue one; its limits leave no further room$'
	starts_by "$f" "jobrun run --job $f"
}

@test "of several conditions the verdict names one, says how many others there are, and each has its line" {
	handler work <<<'exit 0'
	jr_ok run
	q "insert into jobrun.job_definitions (name, job_type, queue) values ('nightly', 'work', 'mail')"
	id=$(enqueue --definition nightly)
	jr_ok pause --queue mail --for 1h
	jr_ok pause --type work --reason 'month end'
	verdict_is "$id" 'never starts unless somebody acts: type work is paused by .* until resumed: month end; 1 other condition holds it, too$'
	jr_ok pause --definition nightly
	verdict_is "$id" 'never starts unless somebody acts: type work is .*; 2 other conditions hold it, too$'
	assert_equal "$(grep -c '^!   .* is paused ' <<<"$output")" 3
	# Of other kinds, too; that no runner was seen lately, and that its turn comes later, hold nothing.
	jr_ok queue mail --max-running 0
	q "update jobrun.job_runs set run_at = now() + interval '1 hour' where id = $id" \
		"update jobrun.job_runners set last_seen_at = now() - interval '1 hour'"
	verdict_is "$id" 'never starts unless somebody acts: type work is .*; 4 other conditions hold it, too$'
	assert_equal "$(grep -c '^!   ' <<<"$output")" 6
	jr_ok queue mail --max-running none
	q "update jobrun.job_runs set run_at = now() where id = $id"
	for what in 'definition nightly' 'type work'; do
		jr_ok resume --"${what% *}" "${what#* }"
	done
	verdict_is "$id" "waits: queue mail is paused by .* until $T \(in [^)]*\)\$"
	starts_by "$id" 'jobrun resume --queue mail'
}

@test "a handler that is new on this host since its last tick: the next tick takes it" {
	handler other <<<'exit 0'
	id=$(enqueue work)
	handler work <<<'exit 0'
	verdict_is "$id" 'never starts unless somebody acts: no runner was seen in the last day$' # nor will one be
	rm "$JOBRUN_HANDLERS/work"
	jr_ok run
	verdict_is "$id" 'never starts unless somebody acts: no host has a handler for work '
	handler work <<<'exit 0'
	new="host $(hostname) has had a handler for work only since its last tick, and the next one takes it"
	said="starts with the next claim; but $new"
	verdict_is "$id" "$said\$"
	assert_line "?   $new   jobrun --once -v"
	jr_ok explain "$id" --json
	assert_equal "$(jq -r '.verdict + " " + .reason' <<<"$output")" 'starts new_handler'
	jr_ok show "$id"
	assert_line --regexp "^why +$said"
	jr_ok list --waiting
	assert_output --partial "$said"
	# Whatever else holds it counts as before, and somebody who has no handler knows nothing of it.
	jr_ok pause --queue default
	verdict_is "$id" 'never starts unless somebody acts: queue default is paused '
	jr_ok resume --queue default
	JOBRUN_HANDLERS=$TMPDIR verdict_is "$id" 'never starts unless somebody acts: no host has a handler for work '
	jr_ok define nightly --type work --schedule '30 2 * * *'
	jr_ok explain nightly
	assert_line "?   $new   jobrun --once -v"
	starts_by "$id" 'jobrun --once -v'
	# It refused the file, which was mended since.
	chmod g+w "$JOBRUN_HANDLERS/work"
	run_jobrun run || true
	id=$(enqueue work)
	verdict_is "$id" 'never starts unless somebody acts: no host has a handler for work; host .*: refused: '
	chmod g-w "$JOBRUN_HANDLERS/work"
	verdict_is "$id" "$said\$"
	# A runner for other queues does not take it.
	q "update jobrun.job_runners set queues = '{mail}'"
	verdict_is "$id" 'never starts unless somebody acts: no host that has a handler for work takes queue default$'
}

@test "a run of exec that was retried waits for the next command of its name, which is the line to type" {
	handler other <<<'exit 0'
	jr_ok run
	echo 'exit ${STATUS:-1}' >script
	jr exec backup -- sh script "it's"
	id=$(q 'select max(id) from jobrun.job_runs')
	jr exec backup -- sh script again
	second=$(q 'select max(id) from jobrun.job_runs')
	jr_ok retry "$id" "$second"
	jr_ok run # nothing of jobrun run starts it
	verdict_is "$id" "waits: the next 'jobrun exec backup' starts it, in place of a new run\$"
	assert_line --index 1 "try: jobrun exec backup -- sh script 'it'\\''s'"
	refute_output --partial 'jobrun handlers'
	verdict_is "$second" "waits: 1 retried run of backup comes before it\$"
	jr_ok list --waiting
	assert_output --partial "the next 'jobrun exec backup' starts it"
	jr run --job "$id"
	assert_one_line 1 "^jobrun: run $id was not started: the next 'jobrun exec backup' starts it, .*; try: jobrun exec backup -- sh script 'it'"
	# What keeps the command keeps the run.
	jr_ok define backup --disable
	verdict_is "$id" 'never starts unless somebody acts: definition backup is disabled$'
	assert_line --index 1 'try: jobrun define backup --enable'
	jr_ok define backup --enable
	jr_ok pause --definition backup
	verdict_is "$id" 'never starts unless somebody acts: definition backup is paused until resumed$'
	jr_ok resume --definition backup
	jr_ok queue exec --max-running 0
	verdict_is "$id" 'never starts unless somebody acts: queue exec lets no run start: its max-running is 0$'
	jr_ok queue exec --max-running none
	jr_ok explain "$id"
	export STATUS=0
	eval "run_jobrun ${lines[1]#try: jobrun }"
	run_is "$id" succeeded
	run_is "$second" queued
	verdict_is "$second" "waits: the next 'jobrun exec backup' starts it"
	# With a handler of this name a tick takes it; without the definition nothing does.
	handler backup <<<'exit 0'
	verdict_is "$second" 'starts with the next claim'
	rm "$JOBRUN_HANDLERS/backup"
	jr_ok define backup --remove
	verdict_is "$second" 'never starts unless somebody acts: the definition of this command was removed, so no jobrun exec takes it$'
	assert_line --index 1 "try: jobrun cancel $second"
}

@test "what jobrun exec made is not to be enqueued: nothing could start such a run, and it would keep the next exec from starting" {
	jr_ok exec backup -- true
	jr_ok explain backup
	assert_line --index 0 "backup has no schedule, and no host was seen with a handler for backup: 'jobrun exec backup' starts it"
	refute_output --partial 'enqueue'
	handler backup <<<:
	jr_ok run
	jr_ok explain backup
	assert_line --index 0 'backup has no schedule: it fires only by hand'
	assert_line --index 1 'try: jobrun enqueue --definition backup'
}

# held_is NAME DOCUMENT REGEX: verdict, reason and command of explain --json, and the end of its first line.
held_is() {
	jr_ok explain "$1" --json
	assert_equal "$(jq -c '[.verdict, .reason, .command]' <<<"$output")" "$2"
	jr_ok explain "$1"
	assert_line --index 0 --regexp "^$1 has no schedule$3\$"
	[ "$(jq -r '.[2]' <<<"$2")" = null ] || assert_line --index 1 "try: $(jq -r '.[2]' <<<"$2")"
}

# exec_starts_nothing DOCUMENT REGEX: the same of backup, and a command is not started; then the command of DOCUMENT changes that.
exec_starts_nothing() {
	held_is backup "$1" ", and no host was seen with a handler for backup: 'jobrun exec backup' starts nothing: $2"
	jr exec --strict backup -- true
	assert_equal "$status" 75
	eval "run_jobrun $(jq -r '.[2] | ltrimstr("jobrun ")' <<<"$1")"
	jr_ok exec --strict backup -- true
}

@test "what keeps jobrun exec from starting is the verdict of its definition, with the command that changes it" {
	jr_ok exec backup -- true
	held_is backup '["manual","no_schedule",null]' ", and no host was seen with a handler for backup: 'jobrun exec backup' starts it"
	jr_ok pause --definition backup --for 1h --reason 'disk is full'
	exec_starts_nothing '["paused","definition_paused","jobrun resume --definition backup"]' "definition backup is paused until $T \(in [^)]*\): disk is full"
	jr_ok pause --definition backup
	exec_starts_nothing '["never","definition_paused","jobrun resume --definition backup"]' 'definition backup is paused until resumed'
	jr_ok define backup --disable
	exec_starts_nothing '["never","disabled","jobrun define backup --enable"]' 'definition backup is disabled'
	jr_ok pause --type backup --for 1h
	exec_starts_nothing '["paused","type_paused","jobrun resume --type backup"]' "type backup is paused by .* until $T \(in [^)]*\)"
	jr_ok pause --queue exec --reason tape
	exec_starts_nothing '["never","queue_paused","jobrun resume --queue exec"]' 'queue exec is paused by .* until resumed: tape'
	jr_ok pause --all --for 1h
	exec_starts_nothing '["paused","all_paused","jobrun resume --all"]' "everything is paused by .* until $T \(in [^)]*\)"
	jr_ok queue exec --max-running 0
	exec_starts_nothing '["never","queue_full","jobrun queue exec --max-running 1"]' 'queue exec lets no run start: its max-running is 0'
	jr_ok queue exec --rate 1/1h
	jr_ok exec backup -- true
	exec_starts_nothing '["manual","rate_used","jobrun queue exec --rate 2/1h"]' "queue exec has started 1 of 1 in 1h, more from $T \(in [^)]*\)"
	jr_ok queue exec --rate none
	# The reason of a pause is said of that pause only; what holds on for ever comes first.
	jr_ok pause --definition backup --for 1h --reason 'disk is full'
	jr_ok define backup --disable
	held_is backup '["never","disabled","jobrun define backup --enable"]' '.* starts nothing: definition backup is disabled; 1 other condition holds it, too'
}

@test "a pause of this host keeps jobrun exec from starting here, that of another host does not; nor does a retried run" {
	jr exec backup -- false
	id=$(q 'select max(id) from jobrun.job_runs')
	jr_ok pause --host "$(hostname)" --for 1h
	exec_starts_nothing "[\"paused\",\"host_paused\",\"jobrun resume --host $(hostname)\"]" "host $(hostname) is paused by .* until $T \(in [^)]*\)"
	q "insert into jobrun.job_runners (id, pid, permits, host, version, job_types, paused_until) values (1, 7, 2, 'far', '1', '{}', 'infinity')"
	jr_ok retry "$id"
	held_is backup '["manual","no_schedule",null]' ".*: 'jobrun exec backup' starts it"
	assert_line 'ok  host far is paused until resumed; another host is not   jobrun resume --host far'
	# Other hosts do not help who types it here, but the run may be started there.
	q "update jobrun.job_runners set paused_until = null where host = 'far'"
	q "insert into jobrun.job_runners (id, pid, permits, host, version, job_types) values (2, 7, 2, 'far', '1', '{}')"
	jr_ok pause --host "$(hostname)"
	held_is backup "[\"never\",\"host_paused\",\"jobrun resume --host $(hostname)\"]" ".* starts nothing: host $(hostname) is paused by .* until resumed"
	verdict_is "$id" "waits: the next 'jobrun exec backup' starts it, in place of a new run\$"
	assert_line --regexp "^ok  host $(hostname) is paused by .* until resumed; another host is not"
}

@test "while a command of exec runs, its definition says that nothing starts beside it" {
	bg_jobrun exec backup -- sleep 60
	wait_until 20 q_is 1 "select count(*) from jobrun.job_runs where status = 'running'"
	id=$(q 'select max(id) from jobrun.job_runs')
	held_is backup '["manual","overlap","jobrun define backup --overlap allow"]' ".* starts nothing: run $id is running, and nothing starts beside it"
	jr exec --strict backup -- true
	assert_equal "$status" 75
	jr_ok define backup --overlap allow --lock nas
	q "update jobrun.job_runs set concurrency_key = 'nas' where status = 'running'"
	q "insert into jobrun.job_queues (name) values ('exec')"
	held_is backup "[\"manual\",\"key_taken\",\"jobrun show $id\"]" ".* starts nothing: lock key nas is taken, 1 of 1 run in queue exec \($id\)"
	jr exec --strict backup -- true
	assert_equal "$status" 75
	jr_ok cancel "$id"
}

@test "of a definition without a schedule the verdict is what a run enqueued by hand would meet" {
	handler mail <<<'exit 0'
	handler other <<<'exit 0'
	jr_ok run
	jr_ok define mail --timeout 5m
	held_is mail '["manual","no_schedule","jobrun enqueue --definition mail"]' ': it fires only by hand'
	for what in definition/mail type/mail queue/default; do
		jr_ok pause "--${what%/*}" "${what#*/}" --for 1h --reason 'relay is down'
		held_is mail "[\"paused\",\"${what%/*}_paused\",\"jobrun resume --${what%/*} ${what#*/}\"]" \
			": it fires only by hand; but ${what/\// } is paused .*until $T \(in [^)]*\): relay is down"
		id=$(enqueue --definition mail)
		jr_ok run
		run_is "$id" queued
		jr_ok resume "--${what%/*}" "${what#*/}"
		jr_ok run
		run_is "$id" succeeded
	done
	jr_ok pause --all
	held_is mail '["never","all_paused","jobrun resume --all"]' ': it fires only by hand; but everything is paused by .* until resumed'
	jr_ok resume --all
	jr_ok queue default --max-running 0
	held_is mail '["never","queue_full","jobrun queue default --max-running 1"]' ': it fires only by hand; but queue default lets no run start: .*'
	jr_ok queue default --max-running none
	# Neither keeps what is enqueued by hand from starting.
	jr_ok define mail --disable
	runs_elsewhere "$(enqueue --definition mail)"
	held_is mail '["manual","no_schedule","jobrun enqueue --definition mail"]' ': it fires only by hand'
	refute_output --partial '!'
	id=$(enqueue --definition mail)
	jr_ok run
	run_is "$id" succeeded
	chmod g+w "$JOBRUN_HANDLERS/mail"
	run_jobrun run
	held_is mail "[\"never\",\"refused\",\"chmod go-w $JOBRUN_HANDLERS/mail\"]" ': it fires only by hand; but no host has a handler for mail.*; host .*'
}

@test "of a definition of exec explain judges the queue that exec uses, with its limits, and asks for no handler" {
	handler backups <<<:
	jr_ok run
	jr_ok exec backup -- true
	jr_ok explain backup
	assert_line --regexp '^ok +queue exec is not paused'
	assert_line --regexp '^ok +queue exec: 0 run, no limit'
	refute_output --partial 'default'
	refute_output --partial 'handlers --check'
	assert_equal "$stderr" ''
	jr_ok pause --queue exec --reason disk
	jr_ok explain backup
	assert_line --regexp '^! +queue exec is paused by .*: disk +jobrun resume --queue exec'
	jr_ok resume --queue exec
	jr_ok queue exec --max-running 0
	jr_ok explain backup
	assert_line --regexp '^! +queue exec lets no run start: its max-running is 0 +jobrun queue exec --max-running 1'
	jr_ok define backup --queue disks
	jr_ok pause --queue disks
	jr_ok explain backup
	assert_line --regexp '^! +queue disks is paused'
	# Nobody has used exec with this name: the name may be wrong.
	jr_ok define backupz --timeout 5m
	jr_ok explain backupz
	assert_line --regexp '^ok +queue exec is not paused|^! +queue exec lets'
	assert_line --partial 'jobrun handlers --check backupz'
	# A run that is enqueued with a handler is in another queue than one of exec.
	handler backup <<<:
	jr_ok define backup --queue none
	jr_ok run
	jr_ok explain backup
	assert_line --regexp '^ok +queue default is not paused'
	assert_line --partial 'handler for backup: on'
}

@test "a type without a handler: which hosts were seen without it, and a name that is spelt nearly so" {
	id=$(enqueue send_fxa)
	verdict_is "$id" 'never starts unless somebody acts: no runner was seen in the last day$'
	assert_line --index 1 'try: jobrun --once -v'
	handler send_fax <<<'exit 0'
	jr_ok run
	verdict_is "$id" 'never starts unless somebody acts: no host has a handler for send_fxa \(seen without it: '
	assert_line '    did you mean send_fax?'
	jr_ok explain "$id"
	assert_line --index 1 'try: jobrun handlers --check send_fxa'
	jr handlers --check send_fxa
	assert_equal "$status" 1
	assert_line "! no handler for send_fxa: put an executable file send_fxa, or send_fxa.sql or send_fxa.json, into $JOBRUN_HANDLERS"
	handler send_fxa <<<'exit 0'
	jr_ok run
	run_is "$id" succeeded

	q "update jobrun.job_runners set queues = '{mail}'"
	id=$(enqueue send_fax -q fax)
	verdict_is "$id" 'never starts unless somebody acts: no host that has a handler for send_fax takes queue fax$'
	starts_by "$id" 'jobrun run --queue fax'
}

@test "a handler that its host refuses: which host, and what to type; and how many run where the permits are" {
	handler good <<<'exit 0'
	jr_ok run
	q_is t 'select refused is null from jobrun.job_runners'
	handler work <<<'exit 0'
	chmod 777 "$JOBRUN_HANDLERS/work"
	id=$(enqueue work)
	jr_ok run
	verdict_is "$id" "never starts unless somebody acts: no host has a handler for work; host $(hostname): refused: work: .*chmod go-w $JOBRUN_HANDLERS/work"
	assert_line --index 1 "try: chmod go-w $JOBRUN_HANDLERS/work"
	# It is typed there: elsewhere it would change another file, or none.
	q "update jobrun.job_runners set host = 'there'"
	verdict_is "$id" ".*; host there: refused: work: .*chmod go-w $JOBRUN_HANDLERS/work"
	assert_line --index 1 'try: jobrun handlers --check'
	q "update jobrun.job_runners set host = '$(hostname)', refused = array[replace(refused[1], '/work', '/my work'), refused[1]]"
	jr_ok explain "$id"
	assert_line --index 1 "try: chmod go-w '$JOBRUN_HANDLERS/my work'"
	q "update jobrun.job_runners set refused = array['work: its settings are wrong']"
	jr_ok explain "$id"
	assert_line --index 1 'try: jobrun handlers --check'
	q "delete from jobrun.job_runners"
	jr_ok run
	jr_ok explain "$id" --json
	assert_equal "$(jq -r .reason <<<"$output")" refused
	eval "$(jq -r .command <<<"$output")"
	jr_ok run
	run_is "$id" succeeded
	jr_ok explain "$(enqueue work)"
	refute_output --partial refused
	assert_line --regexp "^[?]   free permits: only the host knows \([0-9]+ on $(hostname), where 0 run\)\$"
	# As many run there as it has permits.
	q "update jobrun.job_runners set permits = 1" \
		"insert into jobrun.job_runs (job_type, status, runner_id, locked_by, locked_until, started_at, attempts, claim_seq)
		select 'work', 'running', n.id, n.host, now() + interval '1 hour', now(), 1, 1 from jobrun.job_runners n order by n.id limit 1"
	id=$(enqueue work)
	verdict_is "$id" "starts with the next claim; but its hosts seem to have no free permit \(1 on $(hostname), where 1 run\)"
	on_terminal 60 explain --no-pager "$id" >screen
	assert_equal "$(grep -A1 '^?' screen | sed 's/^    //' | paste -sd' ')" "?   its hosts seem to have no free permit (1 on $(hostname), where 1 run)"
	assert_equal "$(grep -A1 '^?' screen | sed -n '2s/\S.*//p')" '    '
	q "delete from jobrun.job_runs where status in ('running', 'queued')"
	# However many there are, and whatever their names, the row stays small.
	for i in {1..30}; do
		printf '#!/bin/sh\n' >"$JOBRUN_HANDLERS/bad$i"
	done
	jr_ok run
	q_is t 'select max(cardinality(refused)) = 20 and max(pg_column_size(refused)) < 11000 from jobrun.job_runners'
}

@test "a host that had a handler and refuses it now is no host that has it; limits of 0 are not called full" {
	handler work <<<'exit 0'
	handler other <<<'exit 0'
	jr_ok run
	id=$(enqueue work)
	verdict_is "$id" 'starts with the next claim$'
	chmod g+w "$JOBRUN_HANDLERS/work"
	enqueue other >/dev/null
	run_jobrun run
	verdict_is "$id" "never starts unless somebody acts: no host has a handler for work; host $(hostname): refused: .*chmod go-w "
	jr_ok list --waiting
	assert_line --regexp "^ *$id work .* never: no host has a handler for work; host $(hostname): refused: .*chmod go-w "
	jr_ok explain "$id"
	eval "${lines[1]#try: }"
	jr_ok run
	run_is "$id" succeeded
	jr_ok queue none --rate 0/90m
	verdict_is "$(enqueue work -q none)" 'never starts unless somebody acts: queue none lets no run start: its rate is 0/90m$'
	starts_by "$(q "select max(id) from jobrun.job_runs")" 'jobrun queue none --rate 1/90m'
	jr_ok queue keyed --per-key 0
	verdict_is "$(enqueue work -q keyed --lock a)" 'never starts unless somebody acts: queue keyed lets no run with a lock key start: its per-key is 0$'
}

@test "another transaction has the run, or its queue, locked; explain itself locks nothing" {
	handler work <<<'exit 0'
	jr_ok run
	id=$(enqueue work -q mail)
	hold "select from jobrun.job_runs where id = $id for update"
	verdict_is "$id" 'waits: process [0-9]+ of the server \(.*\) has this run locked$'
	assert_line --index 1 --regexp "^try: psql \"[$]JOBRUN_DATABASE_URL\" -c 'select pg_terminate_backend\([0-9]+\)'$"
	release_holds
	hold "savepoint s; select from jobrun.job_runs where id = $id for update; release s"
	verdict_is "$id" 'waits: .* has this run locked$'
	release_holds
	jr_ok queue mail --max-running 3
	hold "select from jobrun.job_queues where name = 'mail' for update"
	verdict_is "$id" 'waits: process [0-9]+ of the server \(.*\) has queue mail locked$'
	release_holds
	# One that is locked uses up no limit.
	jr_ok queue mail --max-running 1
	second=$(enqueue work -q mail)
	verdict_is "$second" 'waits: 1 due run comes before it in queue mail; its limits leave no further room$'
	hold "select from jobrun.job_runs where id = $id for update"
	verdict_is "$second" 'starts with the next claim$'
	verdict_is "$id" 'waits: .* has this run locked$'
	jr_ok run
	run_is "$second" succeeded
	release_holds
	hold "select count(*) from jobrun.explain($id)"
	verdict_is "$id" 'starts with the next claim$'
	jr_ok run
	run_is "$id" succeeded
	release_holds
}

@test "expired, superseded, running and finished runs, and ones that do not exist" {
	handler work <<<'exit 65'
	jr_ok run
	id=$(enqueue work --expires 1h)
	q "update jobrun.job_runs set expires_at = now() - interval '1 second' where id = $id"
	verdict_is "$id" 'ends with the next claim, without a start: expired '
	assert_line --index 1 "try: jobrun retry $id"
	jr_ok cancel "$id"
	verdict_is "$id" 'was cancelled '
	old=$(enqueue work --unique k)
	q "update jobrun.job_runs set status = 'failed', claim_seq = 1, attempts = 1 where id = $old" \
		"insert into jobrun.job_attempts (run_id, claim_seq, attempt, outcome) values ($old, 1, 1, 'failed')"
	new=$(q "insert into jobrun.job_runs (job_type, unique_key) values ('work', 'k') returning id")
	verdict_is "$old" "ends with the next claim, without a start: run $new of unique key k is newer\$"
	verdict_is "$new" 'starts with the next claim$'
	assert_line 'ok  unique key k: no newer run'
	run_jobrun run || true
	verdict_is "$new" "is dead: exit 65, $T \\(.*\\)\$"
	assert_line --index 1 "try: jobrun retry $new"
	verdict_is "$old" "was superseded by run $new of its unique key "
	q "update jobrun.job_runners set started_at = started_at - interval '1 hour', last_seen_at = now() - interval '1 hour', finished_at = null"
	id=$(enqueue work)
	verdict_is "$id" "starts with the next claim; but no runner was seen since $T \(1h ago\)\$"
	runs_elsewhere "$id"
	verdict_is "$id" "is running on somewhere since $T \(.*\), lease for [0-9]+s more"
	assert_line --index 1 "try: jobrun cancel $id"
	jr_ok cancel "$id"
	verdict_is "$id" 'is running on .*, cancel requested$'
	refute_line --partial 'try:'
	# After the lease there is nothing to stop: the next tick ends the attempt.
	end_lease "$id"
	lost='its lease has run out: the next tick of any runner takes it back as lost'
	verdict_is "$id" "is running on somewhere since .*, $lost, and it is cancelled\$"
	assert_line --index 1 'try: jobrun run'
	jr run
	run_is "$id" cancelled
	id=$(enqueue other --max-attempts 2)
	runs_elsewhere "$id"
	end_lease "$id"
	verdict_is "$id" "is running on somewhere since .*, $lost, and it is tried again\$"
	assert_line --index 1 'try: jobrun run'
	jr run
	run_is "$id" failed
	runs_elsewhere "$id"
	end_lease "$id"
	verdict_is "$id" "is running on somewhere since .*, $lost, and it is dead: that was attempt 2 of 2\$"
	jr run
	run_is "$id" dead
	jr explain 999999
	assert_one_line 1 "^jobrun: there is no run 999999; 'jobrun list' shows the newest$"
	jr explain nothing
	assert_one_line 1 "^jobrun: there is no definition nothing; 'jobrun define --list' shows them$"
	jr explain 'a b'
	assert_equal "$status" 64
}

@test "explain of a job type that is no definition says so, and how to ask about its runs" {
	enqueue work >/dev/null
	jr explain work
	assert_one_line 1 "^jobrun: work is a job type, not a definition; 'jobrun list --waiting --type work' says why its runs wait$"
	jr_ok list --waiting --type work
	assert_line --regexp ' work .* never: no runner was seen in the last day'
	jr explain wrok
	assert_one_line 1 '^jobrun: there is no definition wrok; '
	jr_ok define work --timeout 1m
	jr_ok explain work
}

@test "explain --json has fixed words, and the definition of a schedule its slots" {
	handler work <<<'exit 0'
	jr_ok run
	id=$(enqueue work -q mail)
	jr_ok pause --queue mail --reason 'the relay is down'
	jr_ok explain "$id" --json
	assert_equal "$(jq -c '[.id, .verdict, .reason, .command]' <<<"$output")" "[$id,\"never\",\"queue_paused\",\"jobrun resume --queue mail\"]"
	assert_equal "$(jq -r '[.conditions[] | .condition + " " + .state] | join(", ")' <<<"$output")" \
		'handler ok, type ok, queue no, due ok, expiry ok, lock ok, max_running ok, before ok, permits ?, runner ok'
	jr_ok define nightly --type work --schedule '@every 1d' -q mail
	jr_ok explain nightly
	# The slot comes, but a run of it would wait.
	assert_line --index 0 --regexp "^nightly fires $T \(in [^)]*\); but queue mail is paused by .* until resumed: the relay is down\$"
	assert_line --index 1 'try: jobrun resume --queue mail'
	jr_ok pause --queue mail --for 5s
	jr_ok explain nightly
	assert_line --index 0 --regexp "^nightly fires $T \(in [^)]*\)\$"
	refute_output --partial 'try: '
	jr_ok define lost --type nobody --schedule '@every 1d'
	jr_ok explain lost
	assert_line --index 0 --regexp "^lost fires $T \(in [^)]*\); but no host has a handler for nobody \(seen without it: .*\)\$"
	assert_line --index 1 'try: jobrun handlers --check nobody'
	jr_ok explain lost --json
	assert_equal "$(jq -r '.verdict + " " + .reason' <<<"$output")" 'fires no_handler'
	jr_ok pause --queue mail --reason 'the relay is down'
	jr_ok explain nightly
	assert_line --regexp '^!   queue mail is paused by .* until resumed: the relay is down   jobrun resume --queue mail$'
	assert_equal "$(grep -c '^ok  next slot ' <<<"$output")" 3
	q "insert into jobrun.job_slots (definition_id, slot, outcome, reason) select id, '2026-01-01 02:30Z', 'skipped', 'overlap: run 3 is running'
		from jobrun.job_definitions where name = 'nightly'"
	jr_ok pause --definition nightly --reason 'month end'
	jr_ok define nightly --disable
	jr_ok explain nightly
	assert_line --index 0 'nightly never fires unless somebody acts: it is disabled, and its slots are skipped'
	assert_line --index 1 'try: jobrun define nightly --enable'
	assert_line '!   slot 2026-01-01 02:30+00:00: skipped, overlap: run 3 is running   jobrun slots nightly --replay 2026-01-01T02:30:00Z'
	jr_ok explain nightly --json
	assert_equal "$(jq -r '.verdict + " " + .reason' <<<"$output")" 'never disabled'
}

# is_late NAME REGEX: the definition has late slots, and the verdict is this.
is_late() {
	jr_ok explain "$1"
	assert_line --index 0 --regexp "^$1 fires $2\$"
	assert_line --index 1 'try: jobrun --once -v'
}

@test "of late slots explain says what the next tick does with them, and the tick does it" {
	handler work <<<'exit 0'
	jr_ok run
	local base name line
	stay_in hour
	base=$(q "select to_char(date_trunc('hour', now()) - interval '60 hours', 'HH24')")
	for line in 'skip --catch-up skip' 'grace --catch-up-grace 1h' 'once' 'all --catch-up all --overlap allow' 'paused'; do
		jr_ok define ${line%% *} --schedule "0 $base * * *" --type work ${line#"${line%% *}"}
	done
	jr_ok define last --schedule '*/5 * * * *' --type work --catch-up skip
	jr_ok define many --schedule '*/5 * * * *' --type work --catch-up all --overlap allow
	# three slots of the daily ones: 60, 36 and 12 hours ago
	q "update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) - interval '60 hours' where name <> 'jobrun.prune'"
	q 'set session_replication_role = replica' \
		"update jobrun.job_definitions set paused_until = now() - interval '1 hour', paused_reason = 'month end' where name = 'paused'"
	local slot='[0-9-]+ [0-9:]+\+00:00' late='with the next tick: no tick has fired its slot of'
	is_late skip "$T \(in 1[12]h[^)]*\); the next tick skips its slot of $slot and 2 more: more than 5m late \(catch-up skip\)"
	is_late grace "$T \(in 1[12]h[^)]*\); the next tick skips its slot of $slot and 2 more: later than the catch-up grace"
	is_late once "$late $T \(1[23]h[^)]* ago\); the next tick coalesces its slot of $slot and 1 more with it \(catch-up once\)"
	is_late all "$late $T \(2d 1[23]h ago\)"
	is_late paused "$T \(in 1[12]h[^)]*\); the next tick skips its slot of $slot and 2 more: paused: month end"
	is_late last "($late )?$T \((now|[0-9]+[ms][^)]* ago)\); the next tick skips its slot of $slot and [0-9]+ more: only the last one fires \(catch-up skip\)"
	is_late many "$late $T \(8h [0-9]+m ago\); the next tick skips its slot of $slot and [0-9]+ more: the last hundred fire \(catch-up all\)"
	jr_ok explain skip --json
	assert_equal "$(jq -r '.verdict + " " + .reason' <<<"$output")" 'fires skipped_slot'
	jr_ok explain once --json
	assert_equal "$(jq -r '.verdict + " " + .reason' <<<"$output")" 'fires late_slot'
	jr slots skip --replay "$(q "select to_char(date_trunc('hour', now()) - interval '12 hours', 'YYYY-MM-DD HH24:MI')")"
	assert_one_line 65 'is due: the next tick fires it, or records why not \(jobrun --once -v\)$'
	jr_ok run
	q_is 'all|queued|3|
grace|skipped|3|missed
once|coalesced|2|missed
once|queued|1|
paused|skipped|3|paused: month end
skip|skipped|3|missed' "select d.name, s.outcome, sum(s.slots), s.reason from jobrun.job_slots s join jobrun.job_definitions d on d.id = s.definition_id
		where d.name in ('skip', 'grace', 'once', 'all', 'paused') group by d.name, s.outcome, s.reason order by 1, 2"
	q_is 'last|1
many|100' "select d.name, count(*) from jobrun.job_slots s join jobrun.job_definitions d on d.id = s.definition_id
		where d.name in ('last', 'many') and s.outcome = 'queued' group by d.name order by 1"
}

# replays_are N: of past slots of "many" explain offers to replay so many, and each of them can be replayed.
replays_are() {
	local slots slot

	jr_ok explain many
	slots=$(sed -n 's/^!   slot .*: skipped, missed   jobrun slots many --replay //p' <<<"$output")
	assert_equal "$(wc -w <<<"$slots")" "$1"
	for slot in $slots; do
		jr_ok slots many --replay "$slot" -n
	done
}

@test "of past slots explain offers to replay those that can be, also when the schedule has changed since" {
	handler work <<<'exit 0'
	stay_in hour
	jr_ok define many --schedule '*/5 * * * *' --type work --catch-up skip
	q "update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) - interval '60 hours' where name = 'many'"
	jr_ok pause --type work
	jr_ok run
	q "insert into jobrun.job_slots (definition_id, slot, outcome, reason)
		select id, date_trunc('hour', now()) - interval '62 hours', 'skipped', 'missed' from jobrun.job_definitions where name = 'many'"
	replays_are 2
	# A slot that is on record alone can be replayed all the same, the first of many only with their schedule.
	jr_ok define many --schedule '0 * * * *'
	replays_are 1
	jr slots many --replay "$(q "select min(slot) from jobrun.job_slots where slots > 1")" -n
	assert_one_line 65 'is on record with the [0-9]+ after it as one line'
	jr_ok define many --schedule '1 * * * *'
	replays_are 1
	jr slots many --replay "$(q "select min(slot) from jobrun.job_slots where slots > 1")" -n
	assert_one_line 65 'has no slot at'
	jr_ok define many --schedule none
	replays_are 1
	jr_ok define many --schedule '*/5 * * * *'
	replays_are 2
}

@test "explain, and all that shows definitions, work when the server has lost the time zone of one" {
	handler work <<<'exit 0'
	jr_ok run
	jr_ok define gone --schedule '30 2 * * *' --time-zone Europe/Berlin --type work
	jr_ok define fine --schedule '0 * * * *' --type work
	q "insert into jobrun.job_slots (definition_id, slot, outcome, reason) select id, '2026-01-01 01:30Z', 'skipped', 'missed'
		from jobrun.job_definitions where name = 'gone'"
	q 'set session_replication_role = replica' "update jobrun.job_definitions set time_zone = 'Europe/Gone' where name = 'gone'" \
		"update jobrun.job_definitions set next_slot_at = date_trunc('hour', now()) - interval '1 hour' where name in ('gone', 'fine')"
	jr_ok explain gone
	local lost='time zone "Europe/Gone" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"'
	assert_line --index 0 "gone never fires unless somebody acts: $lost"
	assert_line --index 1 'try: jobrun define gone --time-zone UTC'
	assert_line 'ok  enabled'
	assert_line "!   $lost   jobrun define gone --time-zone UTC"
	assert_line '!   slot 2026-01-01 01:30+00:00: skipped, missed'
	jr_ok explain gone --json
	assert_equal "$(jq -r '.verdict + " " + .reason + " " + .conditions[-2].condition + " " + .conditions[-2].state' <<<"$output")" \
		'never zone_lost next no'
	local command
	for command in 'slots gone' status list metrics 'define --list' 'define gone' 'report -o page.html' 'show 1'; do
		jr_ok run
		jr_ok $command
		assert_equal "$stderr" ''
	done
	jr check
	assert_equal "$status" 2
	assert_line --partial 'a slot of gone is '
	jr next gone
	assert_one_line 65 'time zone "Europe/Gone" is not known here'
	jr slots gone --replay '2026-11-02 09:00'
	assert_one_line 65 '^jobrun: time zone "Europe/Gone" is not known here'
	q_is "2|fine" "select count(*), max(d.name) from jobrun.job_slots s join jobrun.job_definitions d on d.id = s.definition_id where d.name = 'fine'"
	jr_ok define gone --disable
	jr_ok explain gone
	assert_line --index 0 'gone never fires unless somebody acts: it is disabled, and its slots are skipped'
}

@test "explain needs a grant of kind read, run or admin" {
	id=$(enqueue work)
	name=reader_$JR_DATABASE
	make_role "$name"
	jr_ok grant read "$name"
	jr_ok define nightly --type work --schedule '30 2 * * *'
	for what in "$id" nightly; do
		JOBRUN_DATABASE_URL=$(url_of "$name") jr_ok explain "$what"
	done
	make_role "none_$JR_DATABASE"
	jr_ok grant enqueue "none_$JR_DATABASE"
	JOBRUN_DATABASE_URL=$(url_of "none_$JR_DATABASE") jr explain "$id"
	assert_equal "$status" 77
}

# random_states SEED: explain against a claim. Seeded, so that a difference can be repeated. The states have limits of queues, keys and
# rates, pauses of all kinds, running, later and expired runs, lock keys, unique keys, priorities, and a type that nobody has.
random_states() {
	run psql_bare "$(past_pooler)" -f "$BATS_TEST_DIRNAME/../lib/explain_property.sql" \
		-c "select line, times from pg_temp.check_states($1, 75) order by line"
	assert_success
	refute_line --partial 'explain'
	for verdict in starts waits never 'ends expired' 'ends superseded'; do
		assert_line --regexp "^$verdict\|"
	done
}

@test "explain says exactly what a claim that takes all it may would do, in random states" {
	random_states 0.1
}

@test "explain and a claim that takes all it may, in other random states" {
	random_states 0.2
}

@test "explain and a claim that takes all it may, in a third lot of random states" {
	random_states 0.3
}

@test "explain and a claim that takes all it may, in a fourth lot of random states" {
	random_states 0.4
}
