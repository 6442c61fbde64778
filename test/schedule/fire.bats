#!/usr/bin/env bats
# Schedules in a tick: each slot once, late ones by policy, and what keeps a slot from its run.

load ../lib/common

setup() {
	common_setup
	handler work <<<'echo "$JOBRUN_SLOT" >>"$TMPDIR/ran"'
	# A time of day whose last slot was two hours ago, however long the test takes.
	base=$(q "select to_char(date_trunc('minute', now() at time zone 'UTC') - interval '2 hours', 'YYYY-MM-DD HH24:MI:00+00')")
	daily=$(q "select to_char('$base'::timestamptz at time zone 'UTC', 'FMMI FMHH24') || ' * * *'")
}

# define NAME [MEMBERS]: a daily definition of type work, with these further members of jobrun.define.
define() {
	q "select jobrun.define('$1', jsonb_build_object('job_type', 'work', 'schedule', '$daily') || '${2:-{\}}')" >/dev/null
}

# missed NAME DAYS: the last firing was so long ago that there are so many slots to account for.
missed() {
	q "update jobrun.job_definitions set next_slot_at = '$base'::timestamptz - make_interval(days => $2 - 1) where name = '$1'"
}

# fire_before TIME: as a tick at that time would.
fire_before() {
	q "select outcome from jobrun.fire('$1'::timestamptz)"
}

# accounts NAME: what became of its slots, the oldest first: how many days before the last one, outcome, reason, how many of them.
accounts() {
	q "select string_agg(format('%s %s%s%s', (extract(epoch from '$base'::timestamptz - s.slot) / 86400)::integer, s.outcome,
			' (' || s.reason || ')', case when s.slots > 1 then ' ' || s.slots end), ', ' order by s.slot)
		from jobrun.job_slots s join jobrun.job_definitions d on d.id = s.definition_id where d.name = '$1'"
}

# ran: the slots that the handler was given, in the order of its starts, as days before the last one.
ran() {
	[ ! -e "$TMPDIR/ran" ] || while read -r slot; do
		echo $((($(date -ud "$base" +%s) - $(date -ud "$slot" +%s)) / 86400))
	done <"$TMPDIR/ran" | paste -sd' '
}

id_of() {
	q "select r.id from jobrun.job_runs r join jobrun.job_definitions d on d.id = r.definition_id where d.name = '$1'"
}

# --- once ---

@test "a slot that is due becomes a run in the same tick, and its handler gets the slot" {
	define nightly
	missed nightly 1
	jr_ok run
	assert_equal "$output$stderr" ''
	assert_equal "$(accounts nightly)" '0 queued'
	assert_equal "$(cat "$TMPDIR/ran")" "$(date -ud "$base" +%FT%TZ)"
	q_is "succeeded|t|t" "select r.status, r.id = s.run_id, r.slot = s.slot from jobrun.job_runs r
		join jobrun.job_slots s using (definition_id)"
	q_is "$(q "select jobrun.next_slots('$daily')")" "select next_slot_at from jobrun.job_definitions where name = 'nightly'"
	q_is 1 "select counts ->> 'fired' from jobrun.job_runners"
	jr_ok run
	assert_equal "$(ran)" 0
}

@test "any number of ticks at once make one run for each slot" {
	for n in 1 2 3 4 5 6 7 8 9 10; do
		define "d$n" '{"catch_up": "all", "overlap": "allow"}'
		missed "d$n" 12
	done
	for n in 1 2 3 4 5 6; do
		bg_runner --state-dir "$BATS_TEST_TMPDIR/host$n"
	done
	for pid in "${runner_pids[@]}"; do
		wait_runner "$pid"
		assert_equal "$runner_status" 0
	done
	q_is '120|120|queued' "select count(*), count(distinct (definition_id, slot)), min(outcome) from jobrun.job_slots"
	q_is '120|120|succeeded' "select count(*), count(distinct (definition_id, slot)), min(status) from jobrun.job_runs"
	assert_equal "$(sort "$TMPDIR/ran" | uniq -c | awk '{ print $1 }' | sort -u)" 10
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/runner.*.err)" ''
	q_is 120 "select sum((counts ->> 'fired')::integer) from jobrun.job_runners"
}

@test "more definitions than one call takes are fired by one tick" {
	q "select count(jobrun.define('d' || n, '{\"job_type\": \"work\", \"schedule\": \"$daily\"}')) from generate_series(1, 230) n" >/dev/null
	q "update jobrun.job_definitions set next_slot_at = '$base' where name like 'd%'"
	jr_ok run --max-runs 1
	q_is '230|queued' "select count(*), min(outcome) from jobrun.job_slots"
}

@test "runs that wait do not wait for a long backlog of slots" {
	q "select count(jobrun.define('d' || n, '{\"job_type\": \"work\", \"schedule\": \"$daily\"}')) from generate_series(1, 450) n" >/dev/null
	q "update jobrun.job_definitions set next_slot_at = '$base' where name like 'd%'"
	handler urgent <<<:
	enqueue urgent '{}' -p -1000
	jr_ok run -v --type urgent
	q_is 450 "select count(*) from jobrun.job_slots"
	# started between two calls, not behind the last one
	[ "$(grep -n 'event=run_start' <<<"$stderr" | cut -d: -f1)" -lt "$(grep -n 'event=fired' <<<"$stderr" | tail -n 1 | cut -d: -f1)" ]
}

# A call of jobrun.fire() ends in time, and is made again.
@test "a backlog that takes longer than a statement's timeout is fired in parts" {
	q "create function slow() returns trigger language plpgsql as \$\$ begin perform pg_sleep(0.8); return new; end \$\$" \
		'create trigger slow before insert on jobrun.job_slots for each row execute function slow()'
	for n in 1 2 3 4 5; do
		define "d$n"
		missed "d$n" 1
	done
	jr_ok run
	q_is '5|succeeded' 'select count(*), min(status) from jobrun.job_runs'
}

# --- late ---

@test "catch_up once: the last of the missed slots runs, the others are coalesced into it" {
	define nightly
	missed nightly 4
	jr_ok run
	assert_equal "$(accounts nightly)" '3 coalesced (missed), 2 coalesced (missed), 1 coalesced (missed), 0 queued'
	assert_equal "$(ran)" 0
}

@test "catch_up skip: what is late is skipped, unless the grace covers it" {
	define nightly '{"catch_up": "skip"}'
	missed nightly 3
	define patient '{"catch_up": "skip", "catch_up_grace": "3 hours"}'
	missed patient 3
	jr_ok run
	assert_equal "$(accounts nightly)" '2 skipped (missed), 1 skipped (missed), 0 skipped (missed)'
	assert_equal "$(accounts patient)" '2 skipped (missed), 1 skipped (missed), 0 queued'
	assert_equal "$(ran)" 0
}

@test "catch_up skip: a slot up to five minutes late still runs" {
	define nightly '{"catch_up": "skip"}'
	missed nightly 2
	fire_before "$(q "select '$base'::timestamptz + interval '5 minutes'")"
	assert_equal "$(accounts nightly)" '1 skipped (missed), 0 queued'
	define other '{"catch_up": "skip"}'
	missed other 2
	fire_before "$(q "select '$base'::timestamptz + interval '5 minutes 1 second'")"
	assert_equal "$(accounts other)" '1 skipped (missed), 0 skipped (missed)'
}

@test "catch_up all: each slot runs, the oldest first; what the grace does not cover is skipped" {
	define nightly '{"catch_up": "all", "overlap": "allow"}'
	missed nightly 4
	jr_ok run -j 1
	assert_equal "$(accounts nightly)" '3 queued, 2 queued, 1 queued, 0 queued'
	assert_equal "$(ran)" '3 2 1 0'
	define recent '{"catch_up": "all", "overlap": "allow", "catch_up_grace": "30 hours"}'
	missed recent 4
	jr_ok run
	assert_equal "$(accounts recent)" '3 skipped (missed), 2 skipped (missed), 1 queued, 0 queued'
}

@test "catch_up once: a slot later than the grace does not run" {
	define nightly '{"catch_up_grace": "1 hour"}'
	missed nightly 2
	jr_ok run
	assert_equal "$(accounts nightly)" '1 skipped (missed), 0 skipped (missed)'
	assert_equal "$(ran)" ''
}

@test "more than a hundred missed slots are one row, and catch_up all runs a hundred at most" {
	define once
	missed once 251
	define all '{"job_type": "else", "catch_up": "all", "overlap": "allow"}'
	missed all 251
	define hundred
	missed hundred 101
	jr_ok run
	assert_equal "$(accounts once)" '250 coalesced (missed) 250, 0 queued'
	q_is "1 day" "select '$base'::timestamptz - until from jobrun.job_slots where slots > 1 and outcome = 'coalesced'"
	q_is "151|100|100 days" "select max(s.slots), count(*) filter (where s.outcome = 'queued'), '$base'::timestamptz - max(s.until)
		from jobrun.job_slots s join jobrun.job_definitions d on d.id = s.definition_id where d.name = 'all'"
	q_is 100 "select count(*) from jobrun.job_runs where job_type = 'else'"
	q_is '100|1' "select count(*) filter (where outcome = 'coalesced' and slots = 1), count(*) filter (where outcome = 'queued')
		from jobrun.job_slots s join jobrun.job_definitions d on d.id = s.definition_id where d.name = 'hundred'"
}

# --- what keeps a slot from its run ---

@test "overlap skip: while a run of the definition waits for its retry, or is running, a slot is skipped; allow does not look" {
	handler broken <<<'exit 1'
	define nightly '{"job_type": "broken", "backoff_base": "1 hour"}'
	define allowed '{"job_type": "broken", "backoff_base": "1 hour", "overlap": "allow"}'
	missed nightly 2
	missed allowed 2
	fire_before "$(q "select '$base'::timestamptz - interval '20 hours'")"
	first=$(id_of nightly)
	jr run --job "$first"
	run_is "$first" failed
	# That did not fire, either.
	assert_equal "$(accounts nightly)" '1 queued'
	jr_ok run
	assert_equal "$(accounts nightly)" "1 queued, 0 skipped (overlap: run $first waits until $(q "select jobrun.slot_text(
		date_trunc('second', run_at), 'UTC') from jobrun.job_runs where id = $first") to be retried)"
	assert_equal "$(accounts allowed)" '1 queued, 0 queued'

	handler slow <<<'touch "$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	define slow '{"job_type": "slow"}'
	missed slow 2
	fire_before "$(q "select '$base'::timestamptz - interval '20 hours'")"
	first=$(id_of slow)
	bg_runner --job "$first"
	wait_until 10 test -e "$TMPDIR/up"
	jr_ok run
	assert_equal "$(accounts slow)" "1 queued, 0 skipped (overlap: run $first is running)"
	touch "$TMPDIR/go"
	wait_runner
	# What has ended keeps nobody.
	define slow '{"enabled": true}'
	q "delete from jobrun.job_slots s using jobrun.job_definitions d where d.id = s.definition_id and d.name = 'slow' and s.slot = '$base'"
	missed slow 1
	jr_ok run
	assert_equal "$(accounts slow)" '1 queued, 0 queued'
}

@test "paused or disabled: skipped with the reason, and nothing is caught up afterwards" {
	define paused
	define silent
	define disabled
	jr_ok pause --definition paused --reason 'month end'
	jr_ok pause --definition silent
	define disabled '{"enabled": false}'
	missed paused 2
	missed silent 1
	missed disabled 2
	jr_ok run
	assert_equal "$(accounts paused)" '1 skipped (paused: month end), 0 skipped (paused: month end)'
	assert_equal "$(accounts silent)" '0 skipped (paused)'
	assert_equal "$(accounts disabled)" '1 skipped (disabled), 0 skipped (disabled)'
	jr_ok resume --definition paused
	define disabled '{"enabled": true}'
	jr_ok run
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "slots that were due before a pause, or before the definition was disabled, and had not fired are skipped, too" {
	define nightly
	define other
	missed nightly 3
	missed other 3
	jr_ok pause --definition nightly --reason 'month end'
	jr_ok resume --definition nightly
	jr_ok define other --disable
	jr_ok define other --enable
	jr_ok run
	assert_equal "$(accounts nightly)" \
		'2 skipped (paused: month end), 1 skipped (paused: month end), 0 skipped (paused: month end)'
	assert_equal "$(accounts other)" '2 skipped (disabled), 1 skipped (disabled), 0 skipped (disabled)'
	q_is 0 'select count(*) from jobrun.job_runs'
}

@test "a pause that has ended in between covers the slots up to its end" {
	define nightly '{"catch_up": "all", "overlap": "allow"}'
	q "update jobrun.job_definitions set paused_until = '$base'::timestamptz - interval '30 hours', paused_reason = 'moving' where name = 'nightly'"
	missed nightly 4
	jr_ok run
	assert_equal "$(accounts nightly)" '3 skipped (paused: moving), 2 skipped (paused: moving), 1 queued, 0 queued'
}

@test "after resume or enable slots that were due by then are skipped, and later ones are not" {
	define nightly
	define other '{"enabled": false}'
	jr_ok pause --definition nightly --reason 'month end'
	missed nightly 2
	missed other 1
	jr_ok resume --definition nightly
	define other '{"enabled": true}'
	assert_equal "$(accounts nightly)" '1 skipped (paused: month end), 0 skipped (paused: month end)'
	assert_equal "$(accounts other)" '0 skipped (disabled)'
	jr_ok run
	q_is 0 'select count(*) from jobrun.job_runs'
	q_is t "select bool_and(next_slot_at > now()) from jobrun.job_definitions where name in ('nightly', 'other')"
}

@test "after a schedule was changed no slot of the old one fires" {
	define nightly
	missed nightly 2
	define nightly '{"schedule": "@every 400m"}'
	assert_equal "$(accounts nightly)" '1 skipped (schedule changed), 0 skipped (schedule changed)'
	jr_ok run
	q_is 0 'select count(*) from jobrun.job_runs'
	# What is no schedule leaves what is due alone.
	define other
	missed other 1
	define other '{"priority": 7, "payload": {"n": 1}}'
	jr_ok run
	assert_equal "$(accounts other)" '0 queued'
	q_is '7|{"n": 1}' 'select priority, payload from jobrun.job_runs'
}

@test "another spelling of the same schedule leaves what is due alone, and is stored" {
	define nightly
	missed nightly 1
	define nightly "{\"schedule\": \"${daily/ /  }\"}"
	assert_equal "$(accounts nightly)" ''
	q_is "${daily/ /  }" "select schedule from jobrun.job_definitions where name = 'nightly'"
	jr_ok run
	assert_equal "$(accounts nightly)" '0 queued'
	# A text that no version reads any more is another schedule, whatever replaces it.
	q 'set session_replication_role = replica' "update jobrun.job_definitions set schedule = '@never' where name = 'nightly'"
	missed nightly 1
	define nightly
	assert_equal "$(accounts nightly)" '0 queued'
	q_is t "select next_slot_at > now() from jobrun.job_definitions where name = 'nightly'"
	q "select jobrun.define('hour', '{\"schedule\": \"@hourly\"}')" "update jobrun.job_definitions set next_slot_at = now() where name = 'hour'" \
		"select jobrun.define('hour', '{\"schedule\": \"0 */1 * * *\"}')" >/dev/null
	q_is t "select next_slot_at <= now() from jobrun.job_definitions where name = 'hour'"
	q "select jobrun.define('hour', '{\"schedule\": null}')" >/dev/null
	q_is t "select next_slot_at is null from jobrun.job_definitions where name = 'hour'"
}

@test "a definition whose run cannot be enqueued: an error for its slots, said once, and the others fire" {
	for name in one two three; do
		define "$name"
		missed "$name" 2
	done
	q "create function refuse() returns trigger language plpgsql as \$\$ begin
			if new.definition_id = (select id from jobrun.job_definitions where name = 'two') then raise exception 'no room for it'; end if;
			return new;
		end \$\$" \
		'create trigger refuse before insert on jobrun.job_runs for each row execute function refuse()'
	jr_ok run
	assert_equal "$(accounts two)" '1 skipped (error: no room for it), 0 skipped (error: no room for it)'
	assert_equal "$(accounts one), $(accounts three)" '1 coalesced (missed), 0 queued, 1 coalesced (missed), 0 queued'
	assert_equal "$(ran)" '0 0'
	assert_regex "$stderr" 'warn event=fired definition=two slot=[^ ]+ outcome=error reason="no room for it" slots=2$'
	assert_equal "${#stderr_lines[@]}" 1
	jr_ok run
	assert_equal "$stderr" ''
}

@test "a definition whose zone is unknown stays due, is reported once per tick, and the tick ends" {
	define nightly
	define fine
	q 'alter table jobrun.job_definitions disable trigger job_definitions_checked' \
		"update jobrun.job_definitions set time_zone = 'Europe/Atlantis' where name = 'nightly'" \
		'alter table jobrun.job_definitions enable trigger job_definitions_checked'
	missed nightly 1
	missed fine 1
	jr_ok run
	assert_equal "$(ran)" 0
	assert_equal "$(accounts nightly)" ''
	assert_regex "$stderr" 'warn event=fired definition=nightly .* outcome=error reason=".*Europe/Atlantis.*" slots=0$'
	assert_equal "${#stderr_lines[@]}" 1
	q_is "$(q "select '$base'::timestamptz")" "select next_slot_at from jobrun.job_definitions where name = 'nightly'"
}

@test "a disk that is full costs no slot: it stays due, and fires when there is room" {
	define nightly
	missed nightly 1
	q "create function refuse() returns trigger language plpgsql as \$\$ begin
			raise exception 'No space left on device' using errcode = 'disk_full';
		end \$\$" \
		'create trigger refuse before insert on jobrun.job_runs for each row execute function refuse()'
	jr_ok run
	assert_equal "$(accounts nightly)" ''
	assert_regex "$stderr" 'warn event=fired definition=nightly .* outcome=error reason="No space left on device" slots=0$'
	q 'drop trigger refuse on jobrun.job_runs'
	jr_ok run
	assert_equal "$(accounts nightly)" '0 queued'
}

@test "a client that writes back the whole row it read does not turn next_slot_at back" {
	define nightly
	missed nightly 2
	read_at=$(q "select next_slot_at from jobrun.job_definitions where name = 'nightly'")
	jr_ok run
	q "update jobrun.job_definitions set description = 'saved', schedule = schedule, next_slot_at = '$read_at' where name = 'nightly'"
	q_is t "select next_slot_at > now() from jobrun.job_definitions where name = 'nightly'"
}

# unchecked SQL: as if the server had learned other rules since.
unchecked() {
	q 'alter table jobrun.job_definitions disable trigger job_definitions_checked' "$1" \
		'alter table jobrun.job_definitions enable trigger job_definitions_checked'
}

@test "definitions whose zone is unknown keep no other from firing, however many they are" {
	q "insert into jobrun.job_definitions (name, job_type, schedule) select 'd' || n, 'work', '$daily' from generate_series(1, 120) n"
	unchecked "update jobrun.job_definitions set time_zone = 'Europe/Atlantis', next_slot_at = '$base' where name like 'd%'"
	define fine
	missed fine 1
	jr_ok run
	assert_equal "$(accounts fine)" '0 queued'
	assert_regex "$stderr" 'reason="time zone \\"Europe/Atlantis\\" is not known here; write '
	# Ten are named, and the others counted.
	assert_equal "$(grep -c 'event=fired definition=d' <<<"$stderr")" 10
	assert_equal "$(grep -c 'event=fired outcome=error count=' <<<"$stderr")" 1
}

@test "a definition that cannot be fired is told beside others, and once by a runner that stays" {
	q "insert into jobrun.job_definitions (name, job_type, schedule) select 'd' || n, 'work', '$daily' from generate_series(1, 3) n"
	unchecked "update jobrun.job_definitions set time_zone = 'Europe/Atlantis', next_slot_at = '$base' where name in ('d1', 'd2')"
	"$JOBRUN" run --for 60s 2>err 3>&- 4>&- &
	runner_pids+=("$!")
	wait_until 20 grep -q 'definition=d2' err
	grep -q 'definition=d1' err
	# The answers after it name the same two, and later another.
	unchecked "update jobrun.job_definitions set time_zone = 'Europe/Atlantis', next_slot_at = '$base' where name = 'd3'"
	wait_until 40 grep -q 'definition=d3' err
	assert_equal "$(grep -c 'definition=d1' err)" 2
}

@test "a definition whose zone is not known any more can be changed, and says what is wrong when it is to go on" {
	define nightly
	unchecked "update jobrun.job_definitions set time_zone = 'Europe/Atlantis' where name = 'nightly'"
	missed nightly 1
	define nightly '{"enabled": false}'
	jr define nightly --enable
	assert_equal "$status" 65
	assert_equal "${stderr_lines[0]}" \
		'jobrun: time zone "Europe/Atlantis" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"'
	jr_ok define nightly --time-zone Europe/Berlin --enable
	q_is t "select next_slot_at > now() from jobrun.job_definitions where name = 'nightly'"
}

@test "when new zone rules make the next slot an earlier one, it fires once, at the old time" {
	define nightly '{"time_zone": "Etc/GMT-2"}'
	unchecked "update jobrun.job_definitions set updated_at = '$base'::timestamptz - interval '9 days' where name = 'nightly'"
	q "update jobrun.job_definitions set next_slot_at = '$base'::timestamptz - interval '50 hours' where name = 'nightly'"
	assert_equal "$(fire_before "$(q "select '$base'::timestamptz - interval '49 hours'")")" queued
	unchecked "update jobrun.job_definitions set time_zone = 'Etc/GMT-3' where name = 'nightly'"
	q "update jobrun.job_runs set status = 'cancelled', finished_at = now()"
	assert_equal "$(fire_before "$(q "select '$base'::timestamptz - interval '26 hours'")")" queued
	assert_equal "$(fire_before "$(q "select '$base'::timestamptz - interval '25 hours'")")" ''
	q_is '50 27' "select string_agg((extract(epoch from '$base'::timestamptz - slot) / 3600)::integer::text, ' ' order by slot) from jobrun.job_slots"
}

@test "when new zone rules move the next slot, none is fired again that a line of many has, even if one inside it was replayed" {
	local hour="date_trunc('hour', '$base'::timestamptz)"

	define nightly '{"schedule": "0 * * * *"}'
	unchecked "update jobrun.job_definitions set updated_at = $hour - interval '9 days' where name = 'nightly'"
	q "insert into jobrun.job_slots (definition_id, slot, until, slots, outcome, reason)
		select d.id, s.slot, s.until, s.slots, 'skipped', 'missed'
		from jobrun.job_definitions d cross join (values ($hour - interval '150 hours', $hour, 151),
			($hour - interval '100 hours 30 minutes', null, 1)) s(slot, until, slots) where d.name = 'nightly'" \
		"update jobrun.job_definitions set next_slot_at = $hour + interval '10 minutes' where name = 'nightly'"
	assert_equal "$(q "select outcome from jobrun.fire($hour + interval '20 minutes')")" ''
	q_is "t|2" "select next_slot_at = $hour + interval '1 hour', (select count(*) from jobrun.job_slots) from jobrun.job_definitions where name = 'nightly'"
}

@test "resumed after a pause that had run out by itself: what fell into it is skipped, what came after it fires" {
	define nightly
	q "update jobrun.job_definitions set paused_until = '$base'::timestamptz - interval '30 hours', paused_reason = 'moving' where name = 'nightly'"
	missed nightly 4
	jr_ok resume --definition nightly
	assert_equal "$(accounts nightly)" '3 skipped (paused: moving), 2 skipped (paused: moving)'
	jr_ok run
	assert_equal "$(accounts nightly)" '3 skipped (paused: moving), 2 skipped (paused: moving), 1 coalesced (missed), 0 queued'
}

@test "whatever is in next_slot_at, a tick claims runs, and the next slot fires" {
	define past
	define never
	q 'alter table jobrun.job_definitions drop constraint job_definitions_next_slot' \
		"update jobrun.job_definitions set next_slot_at = '-infinity' where name = 'past'" \
		"update jobrun.job_definitions set next_slot_at = 'infinity' where name = 'never'"
	id=$(enqueue work)
	jr run
	run_is "$id" succeeded
	define fine
	missed fine 1
	jr run
	assert_equal "$(accounts fine)" '0 queued'
}

@test "a definition that somebody has locked is passed over, and fired by the next tick" {
	define one
	define two
	missed one 1
	missed two 1
	hold "select from jobrun.job_definitions where name = 'one' for update"
	jr_ok run
	assert_equal "$(accounts one), $(accounts two)" ', 0 queued'
	release_holds
	jr_ok run
	assert_equal "$(accounts one)" '0 queued'
	assert_equal "$(ran)" '0 0'
}

# --- the run ---

@test "a scheduled run has its definition's values, and else those of the definition named like its type" {
	q "select jobrun.define('work', '{\"queue\": \"typical\", \"max_attempts\": 9, \"timeout\": \"5 minutes\", \"priority\": 3}')" >/dev/null
	define nightly '{"queue": "night", "priority": 42, "timeout": "90 seconds", "backoff_base": "3 seconds", "backoff_cap": "1 minute",
		"concurrency_key": "k", "payload": {"a": [1, 2.50]}}'
	missed nightly 1
	jr_ok run --queue none
	q_is "work|night|42|9|00:01:30|00:00:03|00:01:00|k|{\"a\": [1, 2.50]}|queued|$(q "select '$base'::timestamptz")|nightly" \
		"select r.job_type, r.queue, r.priority, r.max_attempts, r.timeout, r.backoff_base, r.backoff_cap, r.concurrency_key,
			r.payload, r.status, r.slot, d.name from jobrun.job_runs r join jobrun.job_definitions d on d.id = r.definition_id"
	jr_ok run
	assert_equal "$(ran)" 0
}

@test "a schedule's hours are in the time zone of the definition" {
	local_time=$(q "select to_char('$base'::timestamptz at time zone 'Asia/Kathmandu', 'FMMI FMHH24') || ' * * *'")
	define nightly "{\"schedule\": \"$local_time\", \"time_zone\": \"Asia/Kathmandu\"}"
	missed nightly 2
	jr_ok run
	assert_equal "$(accounts nightly)" '1 coalesced (missed), 0 queued'
	assert_equal "$(cat "$TMPDIR/ran")" "$(date -ud "$base" +%FT%TZ)"
}

@test "a scheduled run that dies raises its definition's alarm, which names the slot" {
	handler doomed <<<'exit 65'
	handler alarm <<<'cat >"$TMPDIR/alarm"'
	define nightly '{"job_type": "doomed", "on_dead": "alarm"}'
	missed nightly 1
	jr run
	assert_equal "$status" 1
	assert_equal "$(jq -r '[.definition, .job_type] | join(" ")' "$TMPDIR/alarm")" 'nightly doomed'
	q_is t "select (payload ->> 'slot')::timestamptz = '$base' from jobrun.job_runs where job_type = 'alarm'"
}

# --- the tick ---

@test "--type, --queue and full permits do not matter for firing; a dry run writes nothing" {
	define nightly
	missed nightly 1
	jr_ok run -n --json
	assert_equal "$(jq -c '.runs | map([.definition, .job_type])' <<<"$output")" '[["nightly","work"]]'
	jr_ok run -n
	assert_regex "$output" ' work +default +100 +- +2h.* nightly'
	q_is 0 'select count(*) from jobrun.job_slots'
	handler other <<<'exit 0'
	jr_ok run --type other --queue none
	assert_equal "$(accounts nightly)" '0 queued'
	run_is "$(id_of nightly)" queued

	handler slow <<<'touch "$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	enqueue slow
	bg_runner -j 1 --type slow
	wait_until 10 test -e "$TMPDIR/up"
	define second
	missed second 1
	jr_ok run -j 1
	assert_equal "$stderr" ''
	assert_equal "$(accounts second)" '0 queued'
	run_is "$(id_of second)" queued
	touch "$TMPDIR/go"
	wait_runner
}

# soon NAME SECONDS: its only slot of the next minutes comes then, or less than a second before.
soon() {
	q "select jobrun.define('$1', jsonb_build_object('job_type', 'work', 'schedule', '@every 1h',
		'anchor_at', date_trunc('second', now()) - interval '1 hour' + interval '$2'))" >/dev/null
}

@test "a runner with --for fires a slot that comes meanwhile" {
	bg_runner --for 1m -v
	wait_until 10 grep -qE 'event=(listening|polling)' "$runner_err"
	soon first '2 seconds'
	wait_until 15 q_is succeeded "select status from jobrun.job_runs where id = (select run_id from jobrun.job_slots)"
	assert_regex "$(grep event=fired "$runner_err")" \
		'^[^ ]+ info event=fired definition=first slot=[-0-9]+T[:0-9]+Z outcome=queued slots=1 run=[0-9]+$'
	soon second '1 second'
	wait_until 15 q_is 'succeeded|2' "select min(status), count(*) from jobrun.job_runs"
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" 0
	q_is '1|2' "select count(*), sum((counts ->> 'fired')::integer) from jobrun.job_runners"
}

@test "a tick whose permits are all taken fires the slots that come meanwhile" {
	handler slow <<<'touch "$TMPDIR/up"; until [ -e "$TMPDIR/go" ]; do sleep 0.05; done'
	soon next '4 seconds'
	enqueue slow
	bg_runner -j 1
	wait_until 10 test -e "$TMPDIR/up"
	wait_until 15 q_is 1 'select count(*) from jobrun.job_slots'
	touch "$TMPDIR/go"
	wait_runner
	q_is 'succeeded|2' "select min(status), count(*) from jobrun.job_runs"
}

@test "when firing fails, runs are still claimed, and the tick exits with 75 and one line" {
	define nightly
	missed nightly 1
	q "alter function jobrun.fire rename to fire_as_it_is" \
		"create function jobrun.fire(at timestamptz default now()) returns table (definition text, slot timestamptz, outcome text, reason text,
			run_id bigint, slots bigint) language plpgsql as \$\$ begin raise exception 'disk is full' using errcode = '53100'; end \$\$"
	id=$(enqueue work)
	jr run
	assert_equal "$status" 75
	assert_equal "$stderr" 'jobrun: schedules were not fired: disk is full'
	run_is "$id" succeeded
	q 'drop function jobrun.fire'
	id=$(enqueue work)
	jr run
	assert_equal "$status" 78
	assert_equal "$(grep -c 'were not fired' <<<"$stderr")" 1
	run_is "$id" succeeded
	q 'alter function jobrun.fire_as_it_is rename to fire'
	jr_ok run
	assert_equal "$(accounts nightly)" '0 queued'
}

stays() {
	bg_runner --for 5m
	wait_until 10 q_is t "select exists (select from jobrun.job_runners where pid = $runner_pid)"
}

no_fire() {
	q 'alter function jobrun.fire rename to fire_as_it_is'
}

# refused_to_fire N: has the server refused so many calls?
refused_to_fire() {
	[ "$(server_log | grep -c 'STATEMENT:  -- fire$')" -eq "$1" ]
}

ends_with() {
	kill -TERM "$runner_pid"
	wait_runner
	assert_equal "$runner_status" "$1"
}

unfired="jobrun: schedules were not fired: .*: type 'jobrun migrate'"

@test "a runner that stays says when schedules are not fired, and when they are again; then its exit status is 0" {
	stays
	no_fire
	soon first '1 second'
	wait_until 15 grep -qx "$unfired" "$runner_err"
	q 'alter function jobrun.fire_as_it_is rename to fire'
	# It tries again after twenty seconds.
	wait_until 40 grep -qx 'jobrun: schedules are fired again' "$runner_err"
	wait_until 10 q_is 'succeeded|1' 'select min(status), count(*) from jobrun.job_runs'
	ends_with 0
	assert_equal "$(wc -l <"$runner_err")" 2
}

@test "if schedules are not fired until the end of a runner that stays, that is its exit status; the next one does not say it again" {
	no_fire
	soon first '1 second'
	stays
	wait_until 15 grep -qx "$unfired" "$runner_err"
	ends_with 78
	assert_equal "$(wc -l <"$runner_err")" 1
	stays
	wait_until 15 refused_to_fire 2
	ends_with 78
	assert_equal "$(cat "$runner_err")" ''
	q 'alter function jobrun.fire_as_it_is rename to fire'
	stays
	wait_until 15 q_is 'succeeded|1' 'select min(status), count(*) from jobrun.job_runs'
	ends_with 0
	assert_regex "$(cat "$runner_err")" '^jobrun: run works again after [0-9smh ]+$'
}

@test "a slot fires once, in the same tick, when the connection is cut while it fires" {
	define nightly
	missed nightly 1
	q "create function wait() returns trigger language plpgsql as \$\$ begin
			perform pg_advisory_xact_lock_shared(4711);
			return new;
		end \$\$" \
		'create trigger wait before insert on jobrun.job_slots for each row execute function wait()'
	hold 'select pg_advisory_xact_lock(4711)'
	bg_runner -v
	wait_until 10 q_is 1 "select count(*) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"
	q "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()" >/dev/null
	release_holds
	wait_runner
	assert_equal "$runner_status" 0
	assert_equal "$(accounts nightly)" '0 queued'
	assert_equal "$(ran)" 0
}

@test "a role with grant run can fire slots" {
	role="runner_$JR_DATABASE"
	make_role "$role"
	jr_ok grant run "$role"
	define nightly
	missed nightly 1
	JOBRUN_DATABASE_URL=$(url_of "$role") jr_ok run
	assert_equal "$(accounts nightly)" '0 queued'
	assert_equal "$(ran)" 0
}

# --- a clock that was ahead ---

@test "slots that a wrong clock fired ahead of time are reported until define --restart" {
	define hourly '{"schedule": "@hourly", "overlap": "allow"}'
	define weekly '{"schedule": "@weekly"}'
	q "select jobrun.fire_definition(d, now() + interval '1 year') from jobrun.job_definitions d where name = 'hourly'" \
		"update jobrun.job_slots set slot = date_trunc('hour', now() - interval '2 hours') where slots > 100" >/dev/null
	q_is t "select next_slot_at > now() + interval '364 days' from jobrun.job_definitions where name = 'hourly'"
	jr_ok status
	assert_line --regexp '^! definition hourly: slot .* is on record, and yet to come: the clock of the server was ahead \(jobrun define hourly --restart .*\)$'
	refute_line --partial weekly
	jr_ok define hourly --restart
	jr_ok status
	refute_output --partial 'ahead'
	q_is t "select next_slot_at < now() + interval '61 minutes' from jobrun.job_definitions where name = 'hourly'"
	q_is 't|t' "select bool_and(slot <= now() and until is null and outcome = 'coalesced'), count(*) in (3, 4) from jobrun.job_slots"
}
