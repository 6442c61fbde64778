#!/usr/bin/env bats
# Definitions, as people write them: jobrun define, and jobrun next. What they do at their time is in schedule/fire.bats.

load ../lib/common
load ../lib/proxy

# login KIND: a role of this kind; sets its connection string in url.
login() {
	local role=$1_$JR_DATABASE

	make_role "$role"
	jr_ok grant "$1" "$role"
	url=$(url_of "$role")
}

# All columns of a definition that people set, in one line.
row_of() {
	q "select job_type, payload, description, schedule, time_zone, queue, priority, max_attempts, timeout, backoff_base, backoff_cap,
		concurrency_key, on_dead, catch_up, catch_up_grace, overlap, enabled from jobrun.job_definitions where name = '$1'"
}

# bad STATUS MESSAGE ARGUMENT...: one line, that status, and nothing changed.
bad() {
	local want=$1 message=$2 before

	shift 2
	before=$(q 'select md5(string_agg(d::text, $$ $$ order by d.id)) from jobrun.job_definitions d')
	jr "$@"
	assert_equal "$output" ''
	assert_one_line "$want" "^jobrun: $message"
	assert_equal "$(q 'select md5(string_agg(d::text, $$ $$ order by d.id)) from jobrun.job_definitions d')" "$before"
}

# file TEXT: makes definitions.json.
file() {
	printf '%s\n' "$1" >definitions.json
}

every_option=(--type send --schedule '30 2 * * mon-fri' --time-zone Europe/Berlin --queue mail --priority -5 --max-attempts 3
	--timeout 1h30m --backoff '5s,2d' --lock one --on-dead alarm --catch-up all --catch-up-grace 3h --overlap allow --disable
	--description 'what it is for')

# --- one definition ---

@test "define makes a definition with every option, and says when it fires" {
	jr_ok define report '{"to": "ada"}' "${every_option[@]}"
	assert_line --index 0 'report: created'
	assert_line --index 1 'next'
	for n in 2 3 4; do
		assert_line --index "$n" --regexp '^  (Mon|Tue|Wed|Thu|Fri) [0-3][0-9] [A-Z][a-z]{2} 20[0-9]{2} 0(2:30|3:00) \+0[12]:00 \((in .*|now)\)$'
	done
	assert_line --index 5 "note: report is disabled: it starts nothing; 'jobrun define report --enable'"
	assert_equal "$(row_of report)" \
		'send|{"to": "ada"}|what it is for|30 2 * * mon-fri|Europe/Berlin|mail|-5|3|01:30:00|00:00:05|48:00:00|one|alarm|all|03:00:00|allow|f'
	q_is t "select next_slot_at = (select jobrun.next_slots(schedule, time_zone, now())) from jobrun.job_definitions where name = 'report'"
	jr_ok define report
	for line in 'description +what it is for' 'type +send' 'schedule +30 2 \* \* mon-fri' 'time zone +Europe/Berlin' 'enabled +no' \
		'catch-up +all' 'catch-up grace +3h' 'overlap +allow' 'queue +mail' 'priority +-5' 'max attempts +3' 'timeout +1h 30m' 'backoff +5s' \
		'backoff cap +2d' 'lock key +one' 'on dead +alarm' 'payload +\{"to": "ada"\}' next; do
		assert_line --regexp "^$line\$"
	done
}

@test "a schedule without a zone that is made on a host with another zone than UTC gets a warning, once" {
	TZ=:Europe/Berlin jr_ok define nightly --schedule '30 2 * * *'
	assert_equal "$stderr" 'jobrun: warning: the schedule of nightly is in UTC, and this host is in Europe/Berlin: say --time-zone Europe/Berlin, or --time-zone UTC'
	assert_line --index 0 'nightly: created'
	TZ=Europe/Berlin jr_ok define nightly --schedule '30 3 * * *'
	assert_equal "$stderr" ''
	TZ=Asia/Tokyo jr_ok define hourly --schedule '@hourly' --json
	assert_regex "$stderr" 'this host is in Asia/Tokyo'
	assert_equal "$(jq -r '.name' <<<"$output")" hourly
	for quiet in "a --schedule @daily --time-zone UTC" "b --schedule @daily --time-zone Europe/Berlin" "c --schedule @every\ 1h" "d --queue mail"; do
		eval "TZ=Europe/Berlin jr_ok define $quiet"
		assert_equal "$stderr" ''
	done
	TZ=UTC jr_ok define e --schedule @daily
	assert_equal "$stderr" ''
	TZ=Etc/UTC jr_ok define f --schedule @daily
	assert_equal "$stderr" ''
}

@test "define changes what is named and nothing else, and says from what to what" {
	jr_ok define report '{"to": "ada"}' "${every_option[@]}"
	jr_ok define report --timeout 5m --enable
	assert_line --index 0 'report: changed'
	assert_line --index 1 '  enabled: false -> true'
	assert_line --index 2 '  timeout: "01:30:00" -> "00:05:00"'
	assert_line --index 3 'next'
	assert_equal "$(row_of report)" \
		'send|{"to": "ada"}|what it is for|30 2 * * mon-fri|Europe/Berlin|mail|-5|3|00:05:00|00:00:05|48:00:00|one|alarm|all|03:00:00|allow|t'
	jr_ok define report '{"to": "bob"}'
	assert_line --index 1 '  payload: {"to": "ada"} -> {"to": "bob"}'
	jr_ok define report '{"to": "bob"}' --timeout 300s
	assert_line --index 0 'report: unchanged'
	assert_equal "$(row_of report)" \
		'send|{"to": "bob"}|what it is for|30 2 * * mon-fri|Europe/Berlin|mail|-5|3|00:05:00|00:00:05|48:00:00|one|alarm|all|03:00:00|allow|t'
	jr_ok define report --json --priority 7
	assert_equal "$(jq -c '[.name, .action, .old.priority, .new.priority]' <<<"$output")" '["report","changed",-5,7]'
}

@test "define: none resets each option to its default" {
	jr_ok define report '{"to": "ada"}' "${every_option[@]}"
	jr_ok define report none --type none --time-zone none --queue none --priority none --max-attempts none --timeout none \
		--backoff none --lock none --on-dead none --catch-up none --catch-up-grace none --overlap none --description none --enable
	assert_equal "$(row_of report)" 'report|||30 2 * * mon-fri|UTC|||||||||once||skip|t'
	jr_ok define report --schedule none
	assert_line --index 1 '  schedule: "30 2 * * mon-fri" -> null'
	assert_equal "${#lines[@]}" 2
	q_is t "select next_slot_at is null from jobrun.job_definitions where name = 'report'"
	jr_ok define report --backoff 1m
	jr_ok define report --backoff none,3h
	q_is '|03:00:00' "select backoff_base, backoff_cap from jobrun.job_definitions where name = 'report'"
}

@test "define: a catch-up grace of less than a minute is refused, and one from before that stays" {
	for grace in 0 59s; do
		bad 65 'catch_up_grace "00:00:[0-9]+" is too short: a tick comes once a minute; write 1m or more, or none for no limit$' \
			define report --schedule @daily --catch-up-grace "$grace"
	done
	bad 65 '.*; write 1m or more, or none for the 5m of catch_up "skip"$' define report --schedule @daily --catch-up skip --catch-up-grace 0
	jr_ok define report --schedule @daily --catch-up-grace 1m
	bad 65 'catch_up_grace "00:00:30" is too short' define report --catch-up-grace 30s
	q 'set session_replication_role = replica' "update jobrun.job_definitions set catch_up_grace = '0' where name = 'report'"
	jr_ok define report --priority 7 --disable
	jr_ok pause --definition report
	bad 65 'catch_up_grace "00:00:01" is too short' define report --catch-up-grace 1s
	jr_ok define report --catch-up-grace none
	q_is '7|t' "select priority, catch_up_grace is null from jobrun.job_definitions where name = 'report'"
}

@test "define reads payloads as enqueue does" {
	jr_ok define a '{"n": 1e400}'
	q_is 401 "select length(payload ->> 'n') from jobrun.job_definitions where name = 'a'"
	echo '[1, 2]' >payload.json
	jr_ok define a @payload.json
	q_is '[1, 2]' "select payload from jobrun.job_definitions where name = 'a'"
	run --separate-stderr run_jobrun define a - <<<'"in"'
	q_is '"in"' "select payload from jobrun.job_definitions where name = 'a'"
	bad 65 'the payload is not JSON: line 1, column 5:' define a '[1, }'
	bad 65 'cannot open nowhere' define a @nowhere
}

@test "define -n says what would change and changes nothing" {
	jr_ok define report --schedule @daily -n
	assert_line --index 0 'report: would be created'
	assert_line --index 2 --regexp '^  .* 00:00 \+00:00 \((in .*|now)\)$'
	q_is 0 "select count(*) from jobrun.job_definitions where name = 'report'"
	jr_ok define report --schedule @daily
	jr_ok define report --schedule @hourly -n
	assert_line --index 0 'report: would be changed'
	assert_line --index 1 '  schedule: "@daily" -> "@hourly"'
	jr_ok define report --schedule @daily -n
	assert_line --index 0 'report: unchanged'
	jr_ok define --remove report -n
	assert_output 'report: would be removed'
	q_is @daily "select schedule from jobrun.job_definitions where name = 'report'"
	q_is 1 "select count(*) from jobrun.job_audit where object = 'definition report'"
}

@test "define: what the command itself can check exits with 64 and one line" {
	jr_ok define report --schedule @daily
	bad 64 '--priority: "1001"' define report --priority 1001
	bad 64 '--priority: "high"' define report --priority high
	bad 64 '--max-attempts: "0"' define report --max-attempts 0
	bad 64 '--timeout: "5"' define report --timeout 5
	bad 64 '--timeout: "-5m"' define report --timeout -5m
	bad 64 '--backoff: the cap of "1h,1m" is less' define report --backoff 1h,1m
	bad 64 '--backoff: ' define report --backoff ,
	bad 64 '--catch-up-grace: ' define report --catch-up-grace yesterday
	bad 64 'unknown --catch-up "never": once, skip, all or none$' define report --catch-up never
	bad 64 'unknown --overlap "maybe": skip, allow or none$' define report --overlap maybe
	bad 64 '--lock: 0 bytes' define report --lock ''
	bad 64 '--queue: "a b" is not a queue name' define report --queue 'a b'
	bad 64 '--type: ' define report --type Send
	bad 64 '--on-dead: ' define report --on-dead x.sql
	bad 64 'NAME: "Report" is not a definition name' define Report --enable
	bad 64 '--enable and --disable exclude' define report --enable --disable
	bad 64 'nothing to change' define report -n
	bad 64 'nothing to change' define report --reason why
	bad 64 'which definition\?' define --enable
	bad 64 'which definition\?' define --remove
	bad 64 'an argument too many: "b"' define report '{}' b
	bad 64 'an argument too many: "report"' define --list report
	bad 64 '--list, --remove and --file exclude' define --list --remove
	bad 64 '--remove takes the whole definition away: no option that changes it goes with it' define report --remove --type x
	bad 64 '--file does not go with options of one definition; those need its NAME' define --file x --disable
	bad 64 '--list does not go with options of one definition' define --list --disable
	bad 64 '--exact goes with --file' define report --exact
	bad 64 '--list changes nothing' define --list -n
}

@test "define: what the database refuses exits with 65, in the words that any client gets" {
	local n message
	local -a columns=(schedule schedule schedule schedule time_zone time_zone queue)
	local -a options=(--schedule --schedule --schedule --schedule --time-zone --time-zone --queue)
	local -a texts=('0 30 2 * * *' '61 * * * *' '0 0 31 2 *' '@reboot' 'Mars' 'europe/berlin' jobrun)

	jr_ok define report --schedule @daily
	for n in "${!texts[@]}"; do
		run psql_bare -v VERBOSITY=verbose "$(past_pooler)" \
			-c "update jobrun.job_definitions set ${columns[n]} = '${texts[n]}' where name = 'report'"
		assert_failure
		assert_line --index 0 --regexp '^ERROR:  JR065: '
		message=${lines[0]#*JR065: }
		jr define report "${options[n]}" "${texts[n]}"
		assert_equal "$status" 65
		assert_equal "$stderr" "jobrun: $message"
		run psql_bare "$(past_pooler)" \
			-c "insert into jobrun.job_definitions (name, job_type, ${columns[n]}) values ('new', 'new', '${texts[n]}')"
		assert_failure
		assert_line --index 0 "ERROR:  $message"
	done
	# What the command sees by itself.
	columns=(priority max_attempts timeout backoff_base on_dead queue concurrency_key catch_up overlap)
	texts=(1001 0 '-1 second' '101 years' 'On Dead' 'No Queue' '' never maybe)
	for n in "${!texts[@]}"; do
		run psql_bare -v VERBOSITY=verbose "$(past_pooler)" \
			-c "update jobrun.job_definitions set ${columns[n]} = '${texts[n]}' where name = 'report'"
		assert_failure
		assert_line --index 0 --regexp "^ERROR:  JR065: ${columns[n]} "
	done
	bad 65 'catch_up "all" needs overlap "allow"' define report --catch-up all
	bad 65 'definition "jobrun.mine": names' define jobrun.mine --enable
	bad 65 '--description: it is not UTF-8' define report --description $'\xff'
}

@test "a definition inserted by SQL is the same row as that of define, and shown alike" {
	jr_ok define a '{"x": 1}' "${every_option[@]}"
	q "insert into jobrun.job_definitions (name, job_type, payload, schedule, time_zone, queue, priority, max_attempts, timeout, backoff_base,
			backoff_cap, concurrency_key, on_dead, catch_up, catch_up_grace, overlap, enabled, description)
		values ('b', 'send', '{\"x\": 1}', '30 2 * * mon-fri', 'Europe/Berlin', 'mail', -5, 3, '1h30m', '5s', '48h', 'one', 'alarm', 'all', '3h',
			'allow', false, 'what it is for')"
	assert_equal "$(row_of a)" "$(row_of b)"
	q_is 1 "select count(distinct next_slot_at) from jobrun.job_definitions where name in ('a', 'b')"
	jr_ok define b "${every_option[@]}"
	assert_line --index 0 'b: unchanged'
	q "update jobrun.job_definitions set schedule = '0 0 1 1 *' where name = 'a'"
	jr_ok define b --schedule '0 0 1 1 *'
	q_is 1 "select count(distinct next_slot_at) from jobrun.job_definitions where name in ('a', 'b')"
	q "select jobrun.define('c', '{\"schedule\": \"@daily\"}', 'by SQL')"
	jr_ok define --list --json
	assert_equal "$(jq -c '.definitions | map(select(.name != "jobrun.prune") | [.name, .schedule, .state])' <<<"$output")" \
		'[["a","0 0 1 1 *","disabled"],["b","0 0 1 1 *","disabled"],["c","@daily","enabled"]]'
}

@test "define --list shows the next slot, the state, and what became of the last slot" {
	jr_ok define plain --queue mail
	jr_ok define off --schedule @hourly --disable
	jr_ok define held --schedule @hourly
	jr_ok pause --definition held --reason 'no disk'
	jr_ok define on --schedule '*/5 * * * *' --time-zone Asia/Tokyo
	q "insert into jobrun.job_slots (definition_id, slot, outcome, reason, run_id, slots, until)
		select d.id, s.slot, s.outcome, s.reason, s.run_id, s.n, s.until::timestamptz from jobrun.job_definitions d,
			(values (now() - interval '1 day', 'queued', null, 17, 1, null), (now() - interval '1 hour', 'skipped', 'overlap: run 17 is running',
				null, 1, null)) s(slot, outcome, reason, run_id, n, until) where d.name = 'on'"
	jr_ok define --list
	assert_line --index 0 --regexp '^NAME +TYPE +SCHEDULE +ZONE +NEXT +STATE +LAST$'
	assert_line --regexp '^plain +plain +- +- +- +enabled +-$'
	assert_line --regexp '^off +off +@hourly +UTC +- +disabled +-$'
	assert_line --regexp '^held +held +@hourly +UTC +(in [0-9ms ]+|now|[0-9]+s ago) +paused +-$'
	assert_line --regexp '^on +on +\*/5 \* \* \* \* +Asia/Tokyo +(in [0-9ms ]+|now|[0-9]+s ago) +enabled +skipped: overlap: run 17 is running$'
	jr_ok define held
	assert_line "note: held is paused until resumed (no disk): it starts nothing before; 'jobrun resume --definition held'"
	assert_line --regexp '^paused because +no disk$'
	jr_ok define on --json
	assert_equal "$(jq -c '[.name, .time_zone, .payload, .last_slot.outcome]' <<<"$output")" '["on","Asia/Tokyo",null,"skipped"]'
	jr define nobody
	assert_equal "$status" 65
	assert_equal "$stderr" "jobrun: there is no definition nobody; 'jobrun define nobody --schedule ...' makes one"
}

@test "define --remove removes, names what is not there, and leaves jobrun's own" {
	local change

	jr_ok define a --schedule @daily
	jr_ok define b --schedule @daily
	jr define --remove nobody a nothing --reason 'not needed'
	assert_equal "$status" 1
	assert_equal "$output" 'a: removed'
	assert_equal "$stderr" 'jobrun: there is no definition nobody, nothing'
	q_is 'b' "select name from jobrun.job_definitions where name in ('a', 'b')"
	bad 65 'definition "jobrun.prune" is jobrun.s own' define --remove b jobrun.prune
	# And by SQL: without it nothing would be deleted any more, and nobody told.
	for change in 'delete from jobrun.job_definitions' "update jobrun.job_definitions set name = 'x', job_type = 'x', queue = null" \
		"update jobrun.job_definitions set job_type = 'x'"; do
		run psql_bare -v VERBOSITY=verbose "$(past_pooler)" -c "$change where name = 'jobrun.prune'"
		assert_failure
		assert_line --index 0 --regexp '^ERROR:  JR065: definition "jobrun.prune"'
	done
	q_is 'jobrun.prune|jobrun' "select job_type, queue from jobrun.job_definitions where name = 'jobrun.prune'"
	jr_ok define --remove b --json
	assert_equal "$(jq -c . <<<"$output")" '{"version":1,"definitions":[{"name":"b","removed":true,"waiting":0}]}'
	q_is 'undefine|not needed' "select action, reason from jobrun.job_audit where object = 'definition a' order by at desc limit 1"
	jr_ok define jobrun.prune --disable
	q_is f "select enabled from jobrun.job_definitions where name = 'jobrun.prune'"
}

@test "define --remove says how many runs of the definition wait, and what to type before" {
	local stays='2 runs of it wait and can still start: to end them,'

	handler a <<<'exit 0'
	jr_ok define a --schedule @yearly
	jr_ok define b --schedule @yearly
	enqueue --definition a
	jr_ok run
	enqueue --definition a
	enqueue --definition a --in 1h
	enqueue --definition b
	jr_ok define --remove a b -n
	assert_line --index 0 --regexp "^a: would be removed; $stays first type 'jobrun cancel --definition a'$"
	assert_line --index 1 "b: would be removed; 1 run of it waits and can still start: to end it, first type 'jobrun cancel --definition b'"
	jr_ok cancel --definition b
	jr_ok define --remove b
	assert_output 'b: removed'
	jr_ok define --remove a
	assert_output --regexp "^a: removed; $stays cancel by id or type$"
	# They are there, but not by that name.
	jr_ok list --waiting
	assert_equal "${#lines[@]}" 3
	jr_ok cancel --definition a
	assert_equal "$stderr" 'jobrun: warning: definition a is not known so far'
}

@test "define is audited: who, why, from what to what, without payloads" {
	jr_ok define a '{"secret": 1}' --schedule @daily --reason 'as agreed'
	jr_ok define a --schedule @hourly
	jr_ok define a --schedule @hourly
	q_is $'as agreed||@daily\n|@daily|@hourly' "select reason, old ->> 'schedule', new ->> 'schedule' from jobrun.job_audit
		where object = 'definition a' and action = 'define' and who = session_user order by at"
	q_is 0 "select count(*) from jobrun.job_audit where concat(old, new) like '%secret%'"
}

@test "define --restart: @every counts from now" {
	jr_ok define a --schedule '@every 1h'
	q "update jobrun.job_definitions set anchor_at = now() - interval '30 minutes' where name = 'a'"
	q_is t "select next_slot_at < now() + interval '31 minutes' from jobrun.job_definitions where name = 'a'"
	jr_ok define a --restart
	assert_line --index 1 --regexp '^  anchor_at: "[^"]*" -> "[^"]*"$'
	q_is t "select next_slot_at > now() + interval '55 minutes' from jobrun.job_definitions where name = 'a'"
}

@test "@every counts from a whole second, whoever sets the anchor, and the first slot is an interval later" {
	jr_ok define a --schedule '@every 1h'
	q "insert into jobrun.job_definitions (name, schedule) values ('b', '@every 1h')" \
		"select jobrun.define('c', '{\"schedule\": \"@every 1h\"}')" \
		"select jobrun.define('d', '{\"schedule\": \"@every 1h\", \"anchor_at\": \"now\"}')" >/dev/null
	local whole="select count(*), bool_and(anchor_at = date_trunc('second', created_at) and next_slot_at = anchor_at + interval '1 hour'
		and next_slot_at > now() + interval '50 minutes') from jobrun.job_definitions where name not like 'jobrun.%'"
	q_is '4|t' "$whole"
	q "update jobrun.job_definitions set anchor_at = created_at"
	q_is '4|t' "$whole"
	jr_ok define a --restart
	q_is t "select anchor_at = date_trunc('second', anchor_at) from jobrun.job_definitions where name = 'a'"
	q_is t "select new ->> 'anchor_at' = to_jsonb(d.anchor_at) #>> '{}' from jobrun.job_audit a, jobrun.job_definitions d
		where a.object = 'definition a' and d.name = 'a' order by a.at desc limit 1"
	# What the file says is cut off too, and is no change the second time.
	file '{"definitions": [{"name": "e", "schedule": "@every 1h", "anchor_at": "2026-01-01T00:00:00.7Z"}]}'
	jr_ok define --file definitions.json
	assert_line --index 0 '+ e'
	for again in 1 2; do
		jr_ok define --file definitions.json
		assert_output ''
		# An anchor from before fractions were cut off stays as it is.
		q 'set session_replication_role = replica' "update jobrun.job_definitions set anchor_at = anchor_at + interval '0.7 seconds' where name = 'e'"
	done
}

@test "define shows a definition whose zone the server has lost, and says so in place of the times" {
	jr_ok define a '{"n": 1}' --schedule @daily --time-zone Europe/Berlin
	q 'set session_replication_role = replica' "update jobrun.job_definitions set time_zone = 'Europe/Gone' where name = 'a'"
	jr_ok define a
	assert_line --regexp '^time zone +Europe/Gone$'
	assert_line --regexp '^payload +\{"n": 1\}$'
	assert_equal "${lines[-2]}" next
	assert_equal "${lines[-1]}" '  time zone "Europe/Gone" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"'
	jr_ok define a --json
	assert_equal "$(jq -r .time_zone <<<"$output")" Europe/Gone
	# It can be changed all the same.
	jr_ok define a --description 'of the day' --disable
	assert_line --index 0 'a: changed'
	assert_equal "${lines[-1]}" '  time zone "Europe/Gone" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"'
	jr_ok define a --time-zone UTC
}

@test "define warns that a schedule with both day fields fires on either" {
	jr_ok define a --schedule '0 0 13 * fri'
	assert_line 'note: day of month and weekday are both given: it fires on either day, not only where they meet'
	jr_ok define b --schedule '0 0 */2 * fri'
	refute_output --partial 'either day'
	jr_ok define b --schedule '@weekly'
	refute_output --partial 'either day'
}

# --- a file of them ---

@test "define --file makes, changes, and says what differs; a second time nothing does" {
	file '{"definitions": [
		{"name": "a", "schedule": "@daily", "timeout": "15m", "payload": {"n": 1e400}},
		{"name": "b", "job_type": "send", "queue": "mail", "priority": 5, "enabled": false, "backoff_base": "1h30m"}
	]}'
	jr_ok define --file definitions.json
	assert_line --index 0 '+ a'
	assert_line --index 1 --regexp '^  payload: \{"n": 10{100,}\.\.\.$'
	assert_line --index 2 '  schedule: "@daily"'
	assert_line --index 3 '  timeout: "00:15:00"'
	assert_line --index 4 '+ b'
	assert_line --index 5 '  backoff_base: "01:30:00"'
	assert_line --index 6 '  enabled: false'
	assert_equal "${#lines[@]}" 10
	q_is 401 "select length(payload ->> 'n') from jobrun.job_definitions where name = 'a'"
	jr_ok define --file definitions.json
	assert_output ''
	file '{"definitions": [{"name": "a", "schedule": "@hourly"}]}'
	run --separate-stderr run_jobrun define --file - --reason 'more often' <definitions.json
	assert_success
	assert_line --index 0 '~ a'
	assert_line --index 2 '  schedule: "@daily" -> "@hourly"'
	assert_line --index 3 '  timeout: "00:15:00" -> null'
	q_is 'a|@hourly||more often' "select d.name, d.schedule, d.payload, a.reason from jobrun.job_definitions d
		join jobrun.job_audit a on a.object = 'definition a' where d.name = 'a' order by a.at desc limit 1"
	q_is send "select job_type from jobrun.job_definitions where name = 'b'"
}

@test "define --file: the new schedules without a zone get one line on a host with another zone than UTC" {
	export TZ=Europe/Berlin
	file '{"definitions": [{"name": "a", "schedule": "@daily"}, {"name": "b", "schedule": "0 2 * * *", "time_zone": "UTC"},
		{"name": "c", "schedule": "@Every 1h"}, {"name": "d"}, {"name": "e", "schedule": "@hourly", "time_zone": null}]}'
	jr_ok define --file definitions.json -n
	jr_ok define --file definitions.json
	assert_equal "$stderr" 'jobrun: warning: definitions.json: the schedules of a, e are in UTC, and this host is in Europe/Berlin: say "time_zone": "Europe/Berlin", or "time_zone": "UTC"'
	jr_ok define --file definitions.json
	assert_equal "$stderr" ''
	file '{"definitions": [{"name": "f", "schedule": "@daily"}]}'
	jr_ok define --file definitions.json --json
	assert_regex "$stderr" '^jobrun: warning: definitions.json: the schedule of f is in UTC, and this host is in Europe/Berlin: [^'$'\n'']*$'
	assert_equal "$(jq -c '[.definitions[].name]' <<<"$output")" '["f"]'
	file '{"definitions": ['"$(printf '{"name": "n%s", "schedule": "@daily"},' {1..20})"'{"name": "last"}]}'
	jr_ok define --file definitions.json
	assert_regex "$stderr" '^jobrun: warning: definitions.json: the schedules of n1, n2, [^'$'\n'']*, n10, ... are in UTC, [^'$'\n'']*$'
	file '{"definitions": [{"name": "g", "schedule": "@daily"}]}'
	TZ=UTC jr_ok define --file definitions.json --exact
	assert_equal "$stderr" ''
}

@test "define --file --exact removes the others, but not jobrun's own; -n tells and does nothing" {
	jr_ok define old --schedule @daily
	jr_ok define kept --schedule @daily
	file '{"definitions": [{"name": "kept", "schedule": "@daily"}, {"name": "new"}]}'
	jr_ok define --file definitions.json --exact -n
	told=$output
	assert_output $'+ new\n- old'
	q_is $'jobrun.prune\nkept\nold' 'select name from jobrun.job_definitions order by name'
	jr_ok define --file definitions.json --exact
	assert_output "$told"
	q_is $'jobrun.prune\nkept\nnew' 'select name from jobrun.job_definitions order by name'
	jr_ok define --file definitions.json --exact --json
	assert_equal "$(jq -c '.definitions | map([.name, .action])' <<<"$output")" '[["kept","unchanged"],["new","unchanged"]]'
	file '{"definitions": []}'
	jr_ok define --file definitions.json
	assert_output ''
	jr_ok define --file definitions.json --exact
	assert_output $'- kept\n- new'
}

@test "define --file --exact leaves what jobrun exec has made, with its pause" {
	jr_ok exec backup -- true
	jr_ok pause --definition backup
	jr_ok define old --timeout 1h
	file '{"definitions": [{"name": "a"}]}'
	jr_ok define --file definitions.json --exact -n
	assert_output $'+ a\n- old'
	jr_ok define --file definitions.json --exact
	q_is $'a\nbackup' "select name from jobrun.job_definitions where name not like 'jobrun.%' order by name"
	jr exec --strict backup -- true
	assert_one_line 75 'paused'
	# also when nobody knows any more who has made it
	q "delete from jobrun.job_audit" \
		"insert into jobrun.job_totals (last_hour, n, run_ms, wait_ms, job_type, queue, outcome, run_buckets, wait_buckets)
		values (date_trunc('hour', now()), 1, 1, 1, 'backup', 'exec', 'succeeded', '{1}', '{1}')"
	jr_ok define --file definitions.json --exact
	assert_output ''
	# with a schedule it is no such definition
	jr_ok define backup --schedule @daily
	jr_ok define --file definitions.json --exact
	assert_output --partial '- backup'
}

@test "define --file applies all or none, and names what is wrong" {
	local head='{"definitions": [{"name": "good", "schedule": "@daily"}, '

	file "$head"$'\n{"name": "a",,}]}'
	bad 65 'definitions.json is not JSON: line 2, column 14: ' define --file definitions.json
	file "$head"'{"name": "a", "schedule": "61 * * * *"}]}'
	bad 65 'definitions.json: definition "a": minute "61": ' define --file definitions.json
	file "$head"'{"name": "a", "time_zone": "Mars"}]}'
	bad 65 'definitions.json: definition "a": time zone "Mars" is not known' define --file definitions.json
	file "$head"'{"name": "a", "scheduel": "@daily"}]}'
	bad 65 'definitions.json: definition "a": there is no member "scheduel"' define --file definitions.json
	file "$head"'{"name": "a", "timeout": 900}]}'
	bad 65 'definitions.json: definition "a": timeout must be a string, not 900; durations are texts: "90s", "15m"$' define --file definitions.json
	file "$head"'{"name": "a", "timeout": "5"}]}'
	bad 65 'definitions.json: definition "a": timeout "5" has no unit; write 5s or 5m$' define --file definitions.json
	file "$head"'{"name": "a", "backoff_base": "0", "backoff_cap": "5 minutes", "timeout": "1w2d", "catch_up_grace": "00:05:00"}]}'
	jr_ok define --file definitions.json
	q_is '00:00:00|00:05:00|9 days|00:05:00' "select backoff_base, backoff_cap, timeout, catch_up_grace from jobrun.job_definitions where name = 'a'"
	jr_ok define --remove a good
	file "$head"'{"name": "a", "timeout": "soon"}]}'
	bad 65 'definitions.json: definition "a": timeout "soon" is not a duration' define --file definitions.json
	file "$head"'{"name": "a", "enabled": "yes"}]}'
	bad 65 'definitions.json: definition "a": enabled must be a boolean, not "yes"$' define --file definitions.json
	file "$head"'{"name": "a", "priority": 5000}]}'
	bad 65 'definitions.json: definition "a": priority 5000 is out of range' define --file definitions.json
	file "$head"'{"name": "good"}]}'
	bad 65 'definitions.json: definition 2 is a second "good"' define --file definitions.json
	file "$head"'{"schedule": "@daily"}]}'
	bad 65 'definitions.json: definition 2 is not an object with a "name"' define --file definitions.json
	file "$head"'{"name": "jobrun.prune"}]}'
	bad 65 'definitions.json: definition "jobrun.prune" is jobrun.s own' define --file definitions.json
	file '[]'
	bad 65 'definitions.json: it is not an object' define --file definitions.json
	file '{"definitions": {}}'
	bad 65 'definitions.json: "definitions" is not an array' define --file definitions.json
	file '{"definition": []}'
	bad 65 'definitions.json: unknown member "definition"' define --file definitions.json
	bad 65 'cannot open nowhere.json' define --file nowhere.json
	file $'{"definitions": [{"name": "a", "description": "\xff"}]}'
	bad 65 'definitions.json: invalid byte sequence' define --file definitions.json
	head -c 100000 /dev/zero | tr '\0' '[' >definitions.json
	bad 65 'definitions.json is nested too deeply' define --file definitions.json
	file ''
	bad 65 'definitions.json is not JSON' define --file definitions.json
}

# --- who may ---

@test "an enqueue role and a runner cannot define; a reader sees all but payloads; an admin may" {
	jr_ok define report '{"secret": 1}' --schedule '@daily'
	login enqueue
	file '{"definitions": []}'
	for words in 'define report --enable' 'define new --schedule @daily' 'define --remove report' 'define --file definitions.json --exact'; do
		# shellcheck disable=SC2086 # words
		JOBRUN_DATABASE_URL=$url jr $words
		assert_one_line 77 "^jobrun: permission denied .*: jobrun grant admin enqueue_$JR_DATABASE$"
	done
	login run
	JOBRUN_DATABASE_URL=$url jr define report --disable
	assert_equal "$status" 77
	login read
	JOBRUN_DATABASE_URL=$url jr_ok define --list
	assert_line --regexp '^report +report +@daily '
	JOBRUN_DATABASE_URL=$url jr_ok define report
	assert_line --regexp '^schedule +@daily$'
	refute_output --partial secret
	JOBRUN_DATABASE_URL=$url jr_ok define report --json
	refute_output --partial payload
	JOBRUN_DATABASE_URL=$url jr_ok next report --count 1 --after tomorrow
	JOBRUN_DATABASE_URL=$url jr_ok next '0 0 1 * mon' --count 1 --after 2027-01-01 --time-zone Asia/Tokyo
	JOBRUN_DATABASE_URL=$url jr define report --disable
	assert_equal "$status" 77
	login admin
	JOBRUN_DATABASE_URL=$url jr_ok define report --disable
	assert_line --index 0 'report: changed'
	q_is "${roles[-1]}" "select who from jobrun.job_audit where object = 'definition report' order by at desc limit 1"
}

# --- a lost answer ---

@test "a define whose COMMIT or its answer is lost is done once and reported as it happened" {
	local mode n=0 commits

	for mode in answer request; do
		for commits in 1 2; do # that of the look at the schema, and its own
			n=$((n + 1))
			proxy "$mode" "$commits"
			jr define -d "$proxied" "report$n" --schedule @daily
			assert_equal "$status" 0
			assert_equal "$stderr" ''
			assert_file_exist "$cut_file"
			assert_line --index 0 "report$n: created"
			q_is "1|@daily" "select count(*), min(new ->> 'schedule') from jobrun.job_audit where object = 'definition report$n'"
		done
	done
	file '{"definitions": []}'
	end_proxies
	rm -r "$BATS_TEST_TMPDIR/cut.answer.2"
	proxy answer 2
	jr define -d "$proxied" --file definitions.json --exact
	assert_equal "$status" 0
	assert_file_exist "$cut_file"
	assert_output $'- report1\n- report2\n- report3\n- report4'
	q_is 4 "select count(*) from jobrun.job_audit where action = 'undefine'"
}

# --- next ---

@test "next prints the times of an expression, with offset, weekday and distance" {
	jr_ok next '30 2 * * *' --time-zone Europe/Berlin --after 2027-03-27 --count 3
	assert_line --index 0 --regexp '^Sat 27 Mar 2027 02:30 \+01:00 \(.*\)$'
	assert_line --index 1 --regexp '^Sun 28 Mar 2027 03:00 \+02:00 \(.*; there is no 02:30 that day\)$'
	assert_line --index 2 --regexp '^Mon 29 Mar 2027 02:30 \+02:00 \([^;]*\)$'
	assert_equal "$stderr" ''
	jr_ok next '30 2 * * *' --time-zone Europe/Berlin --after '2027-03-28 00:00' --count 1 --json
	assert_equal "$(jq -c '.slots[] | [.slot, .slot_local, .weekday, .nominal]' <<<"$output")" \
		'["2027-03-28T01:00:00+00:00","2027-03-28T03:00:00+02:00","Sunday","02:30"]'
	# At 03:00 there is one of its own; and times that follow real time are not moved.
	jr_ok next '0 2,3 * * *' --time-zone Europe/Berlin --after 2027-03-28 --count 1
	refute_output --partial 'there is no'
	jr_ok next '30 * * * *' --time-zone Europe/Berlin --after '2027-03-28 01:30' --count 1
	assert_output --regexp '^Sun 28 Mar 2027 03:30 \+02:00 \([^;]*\)$'
	jr_ok next '30 4 * * *' --time-zone America/St_Johns --after 2027-07-01 --count 1
	assert_output --regexp '^Thu 01 Jul 2027 04:30 -02:30 '
	jr_ok next '0 12 * * *' --time-zone CET --after 2027-07-01 --count 1
	assert_output --regexp '^Thu 01 Jul 2027 12:00 \+02:00 '
	jr_ok next @yearly --after 2100-06-01 --count 2
	assert_output --regexp '^Sat 01 Jan 2101 00:00 \+00:00 \(in [0-9]+ years\)'
	jr_ok next '@every 90s' --after '2027-01-01 00:00:10+00' --count 2
	assert_line --index 0 --regexp '^Fri 01 Jan 2027 00:01:40 \+00:00 '
	jr_ok next '* * * * *'
	assert_equal "${#lines[@]}" 5
	assert_line --index 4 --regexp '\(in (4m|5m|4m [0-9]+s)\)$'
}

@test "next: --after is read in the zone of the schedule, unless it has one itself" {
	jr_ok next '0 * * * *' --time-zone Asia/Tokyo --after '2027-05-01 12:30' --count 1
	assert_output --regexp '^Sat 01 May 2027 13:00 \+09:00 '
	jr_ok next '0 * * * *' --time-zone Asia/Tokyo --after '2027-05-01 12:30+00' --count 1
	assert_output --regexp '^Sat 01 May 2027 22:00 \+09:00 '
	jr_ok define a --schedule '0 * * * *' --time-zone Asia/Tokyo
	jr_ok next a --after '2027-05-01 12:30' --count 1
	assert_output --regexp '^Sat 01 May 2027 13:00 \+09:00 '
}

@test "next prints the times of a definition, or why it will not fire" {
	jr_ok define a --schedule '@every 1h'
	q "update jobrun.job_definitions set anchor_at = '2026-01-01 00:10+00' where name = 'a'"
	jr_ok next a --after 2027-01-01 --count 1
	assert_output --regexp '^Fri 01 Jan 2027 00:10 \+00:00 '
	assert_equal "$stderr" ''
	jr_ok define a --disable
	jr_ok next a
	assert_equal "${#lines[@]}" 5
	assert_equal "$stderr" "jobrun: a is disabled: it starts nothing; 'jobrun define a --enable'"
	jr_ok define a --enable
	jr_ok pause --definition a --for 1h --reason 'moving'
	jr_ok next a --json
	assert_equal "$(jq -c '[.definition]' <<<"$output")" '["a"]'
	assert_regex "$stderr" '^jobrun: a is paused until .* .moving.: it starts nothing before;'
	jr_ok define b --queue mail
	bad 1 'definition b has no schedule' next b
	bad 65 "there is no definition nobody; 'jobrun define --list' shows them" next nobody
}

@test "next refuses what is no schedule, no time or no zone" {
	bad 65 'schedule "1 2 3 4 5 6" has 6 fields' next '1 2 3 4 5 6'
	bad 65 'schedule "0 0 30 2 \*" can never fire' next '0 0 30 2 *'
	bad 65 'schedule ".*" has 1 field' next '*/5'
	bad 65 'time zone "Mars" is not known' next @daily --time-zone Mars
	bad 65 'time zone "Mars" is not known' next @daily --time-zone Mars --after 2027-01-01
	bad 64 '--after: "soonish" is not a time; write it like ' next @daily --after soonish
	bad 64 '--after: "infinity" is no point in time' next @daily --after infinity
	bad 64 '--count: ' next @daily --count 0
	bad 64 '--time-zone is for an expression' next daily --time-zone UTC
	bad 64 'NAME: ' next Daily
}
