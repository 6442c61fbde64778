#!/usr/bin/env bats
# The schedule engine: the dialect and what it refuses, the nights on which clocks change, properties, the slow reference.

load ../lib/common

# slots SCHEDULE ZONE AFTER COUNT [ANCHOR]: local times with their offset, separated by commas.
slots() {
	q "select string_agg(to_char(l.at, 'YYYY-MM-DD HH24:MI') || case when l.off < interval '0' then '-' else '+' end
			|| to_char(greatest(l.off, -l.off), 'HH24:MI'), ', ' order by s)
		from jobrun.next_slots('$1', '$2', '$3', $4, $(if [ -n "${5:-}" ]; then echo "'$5'"; else echo null; fi)) s
		cross join lateral (select s at time zone ':$2' as at, (s at time zone ':$2') - (s at time zone 'UTC') as off) l"
}

# night SCHEDULE ZONE AFTER SLOT...: the next ones are these. SLOT: "MM-DD HH:MI+OFFSET", of the year of the last whole one.
night() {
	local schedule=$1 zone=$2 after=$3 expected='' slot
	local year=${3%%-*}

	shift 3
	for slot; do
		[[ $slot == ????-* ]] || slot=$year-$slot
		expected+=${expected:+, }$slot
	done
	assert_equal "$schedule $zone: $(slots "$schedule" "$zone" "$after" $#)" "$schedule $zone: $expected"
}

# refused MESSAGE SQL
refused() {
	run q "\\set VERBOSITY verbose" "$2"
	[ "$status" -ne 0 ] || fail "accepted: $2
$output"
	assert_equal "$(head -n 1 <<<"$output")" "ERROR:  JR065: $1"
}

refuses() {
	refused "$2" "select jobrun.parse_schedule('$1')"
}

# same SCHEDULE...: all say the same.
same() {
	local one list=''

	for one; do
		list+="${list:+, }('$one')"
	done
	assert_equal "$* $(q "select count(distinct jobrun.parse_schedule(s)::text) from (values $list) v(s)")" "$* 1"
}

# --- the dialect ---

@test "numbers, ranges, steps, lists, names and named schedules say the same in many ways" {
	same '0 0 * * 0' '0 0 * * 7' '0 0 * * sun' '0 0 * * SUN' '@weekly' ' 0  0 * * Sun ' "0	0 * * 7" '@Weekly' '00 000 * * 0,7'
	same '0 * * * *' '@hourly' '@HOURLY'
	same '0 0 * * *' '@daily' '@midnight'
	same '0 0 1 * *' '@monthly'
	same '0 0 1 1 *' '0 0 1 jan *' '@yearly' '@annually'
	same '0 0 * * 5-7' '0 0 * * fri-sun' '0 0 * * 0,5,6' '0 0 * * Fri,SAT,sun' '0 0 * * fri-7' '0 0 * * 5-6,0'
	same '0 0 * * 6-7' '0 0 * * sat-sun' '0 0 * * sat,sun'
	same '0 0 * * 0-7' '0 0 * * 0-6' '0 0 * * 1-7' '0 0 * * sun-sat' '0 0 * * mon-sun'
	same '0 0 * * 0-7/7' '0 0 * * 0'
	same '5-59/15 * * * *' '5,20,35,50 * * * *' '50,35,5-20/15 * * * *'
	same '0 0 * 1-3,dec *' '0 0 * jan-mar,12 *' '0 0 * jan,feb,mar,Dec *' '0 0 * 1-3/1,12-12/12 *'
	same '0 8-18/2 * * *' '0 8,10,12,14,16,18 * * *' '0 8-19/2 * * *'
	same '0 0 L * *' '0 0 l * *' '0 0 L,l * *'
	same '0 0 LW * *' '0 0 lw * *' '0 0 LW,lW * *'
	same '0 0 * * 5L' '0 0 * * friL' '0 0 * * FRIl,5l'
	same '0 0 * * 0L' '0 0 * * 7L' '0 0 * * sunL'
	same '0 0 * * 1#2,7#5' '0 0 * * mon#2,sun#5' '0 0 * * 0#5,Mon#2'
	same '@every 90s' '@every 1m30s' '@EVERY 90S' '@every  0h1m30s'
	same '@every 1w' '@every 7d' '@every 168h'
	# A field that begins with "*" is another thing than all its numbers: that decides how days go together, and the nights.
	q_is f "select jobrun.parse_schedule('0 0-23 * * *') = jobrun.parse_schedule('0 * * * *')"
	q_is f "select jobrun.parse_schedule('0 0 1-31 * 1') = jobrun.parse_schedule('0 0 * * 1')"
}

@test "a day must match both day fields if one begins with a star, else either; L is the last day" {
	night '0 0 * * fri' UTC 2025-06-01 '06-06 00:00+00:00' '06-13 00:00+00:00' '06-20 00:00+00:00'
	night '0 0 13 * *' UTC 2025-06-01 '06-13 00:00+00:00' '07-13 00:00+00:00'
	night '0 0 13 * fri' UTC 2025-07-01 '07-04 00:00+00:00' '07-11 00:00+00:00' '07-13 00:00+00:00' '07-18 00:00+00:00'
	night '0 0 1-7 * mon' UTC 2025-07-04 '07-05 00:00+00:00' '07-06 00:00+00:00' '07-07 00:00+00:00' '07-14 00:00+00:00'
	night '0 0 */10 * mon' UTC 2025-07-22 '08-11 00:00+00:00' '09-01 00:00+00:00' '12-01 00:00+00:00'
	night '0 0 13 * */5' UTC 2025-01-01 '04-13 00:00+00:00' '06-13 00:00+00:00' '07-13 00:00+00:00'
	night '0 0 *,13 * fri' UTC 2025-07-01 '07-04 00:00+00:00' '07-11 00:00+00:00'
	night '30 12 L * *' UTC 2024-01-31 '01-31 12:30+00:00' '02-29 12:30+00:00' '03-31 12:30+00:00' '04-30 12:30+00:00'
	night '0 0 15,L 2 *' UTC 2025-01-31 '02-15 00:00+00:00' '02-28 00:00+00:00' '2026-02-15 00:00+00:00'
	night '0 0 L * sun' UTC 2025-05-20 '05-25 00:00+00:00' '05-31 00:00+00:00' '06-01 00:00+00:00'
	night '0 0 L * */7' UTC 2025-05-20 '08-31 00:00+00:00' '11-30 00:00+00:00'
	night '0 0 31 * *' UTC 2025-02-01 '03-31 00:00+00:00' '05-31 00:00+00:00' '07-31 00:00+00:00'
	night '59 23 31 12 *' UTC 2025-06-01 '12-31 23:59+00:00' '2026-12-31 23:59+00:00'
}

@test "the last working day, the last Friday and the second Monday of a month" {
	night '0 18 LW * *' UTC 2026-01-01 '01-30 18:00+00:00' '02-27 18:00+00:00' '03-31 18:00+00:00' '04-30 18:00+00:00' '05-29 18:00+00:00'
	night '0 0 LW 2 *' UTC 2024-01-01 '02-29 00:00+00:00' '2025-02-28 00:00+00:00' '2026-02-27 00:00+00:00'
	night '0 0 15,LW * *' UTC 2026-05-01 '05-15 00:00+00:00' '05-29 00:00+00:00' '06-15 00:00+00:00' '06-30 00:00+00:00'
	night '0 0 L,LW 5 *' UTC 2026-05-01 '05-29 00:00+00:00' '05-31 00:00+00:00' '2027-05-31 00:00+00:00'
	night '0 0 * * 5L' UTC 2026-01-01 '01-30 00:00+00:00' '02-27 00:00+00:00' '03-27 00:00+00:00' '04-24 00:00+00:00'
	night '0 0 * 2 sunL,satL' UTC 2026-01-01 '02-22 00:00+00:00' '02-28 00:00+00:00' '2027-02-27 00:00+00:00' '2027-02-28 00:00+00:00'
	night '0 0 * * 1#2' UTC 2026-01-01 '01-12 00:00+00:00' '02-09 00:00+00:00' '03-09 00:00+00:00' '04-13 00:00+00:00'
	night '0 0 * * 1#1,1#3' UTC 2026-06-01 '06-15 00:00+00:00' '07-06 00:00+00:00' '07-20 00:00+00:00'
	night '0 0 * * 1#5' UTC 2026-01-01 '03-30 00:00+00:00' '06-29 00:00+00:00' '08-31 00:00+00:00'
	night '0 0 * 2 1#5' UTC 2020-01-01 '2044-02-29 00:00+00:00' '2072-02-29 00:00+00:00'
	# Together with the other day field, and with other weekdays, as any day.
	night '0 0 13 * fri#1' UTC 2026-01-01 '01-02 00:00+00:00' '01-13 00:00+00:00' '02-06 00:00+00:00' '02-13 00:00+00:00'
	night '0 0 */2 * fri#1' UTC 2026-01-02 '04-03 00:00+00:00'
	night '0 0 * * 3,5L' UTC 2026-01-21 '01-28 00:00+00:00' '01-30 00:00+00:00' '02-04 00:00+00:00'
	night '30 2 * * sunL' Europe/Berlin '2025-03-01 12:00Z' '03-30 03:00+02:00' '04-27 02:30+02:00'
}

@test "29 February fires in leap years only, and a schedule that ends returns no more rows" {
	night '0 0 29 2 *' UTC 2097-01-01 '2104-02-29 00:00+00:00' '2108-02-29 00:00+00:00'
	night '0 0 29 2 *' UTC 2000-02-28 '02-29 00:00+00:00' '2004-02-29 00:00+00:00'
	night '0 0 29 2 */7' UTC 2024-01-01 '2032-02-29 00:00+00:00' '2060-02-29 00:00+00:00' '2088-02-29 00:00+00:00' '2128-02-29 00:00+00:00'
	q_is 0 "select count(*) from jobrun.next_slots('* * * * *', 'UTC', '2200-01-01', 5)"
	q_is 0 "select count(*) from jobrun.next_slots('@every 1h', 'UTC', '2200-01-01', 5)"
	q_is 2 "select count(*) from jobrun.next_slots('0 0 29 2 */7', 'UTC', '2150-01-01', 5)"
	q_is '|' "select jobrun.next_slot(jobrun.parse_schedule('* 1 * * *'), 'UTC', 'infinity', null),
		jobrun.next_slot(jobrun.parse_schedule('* * * * *'), 'UTC', 'infinity', null)"
}

@test "a schedule without five fields is refused with what to write" {
	refuses '0 30 2 * * *' 'schedule "0 30 2 * * *" has 6 fields; jobrun starts once a minute: leave the seconds out, and write "30 2 * * *"'
	refuses '0 0 12 ? * MON-FRI 2025' 'schedule "0 0 12 ? * MON-FRI 2025" has 7 fields; jobrun starts once a minute: leave the seconds and the year out, and write "0 12 * * MON-FRI"'
	refuses '30 2 * * * root' 'schedule "30 2 * * * root" has 6 fields; five are wanted: minute, hour, day-of-month, month, day-of-week, as in "30 2 * * *"'
	refuses 'CRON_TZ=Europe/Berlin 30 2 * * *' 'schedule "CRON_TZ=Europe/Berlin 30 2 * * *": the zone is not a part of it; write "30 2 * * *", and "Europe/Berlin" as the time zone'
	refuses 'TZ=UTC @daily' 'schedule "TZ=UTC @daily": the zone is not a part of it; write "@daily", and "UTC" as the time zone'
	refuses 'bad' 'schedule "bad" has 1 field; five are wanted: minute, hour, day-of-month, month, day-of-week, as in "30 2 * * *"'
	refuses '30 2 * *' 'schedule "30 2 * *" has 4 fields; five are wanted: minute, hour, day-of-month, month, day-of-week, as in "30 2 * * *"'
	refuses '30, 2 * * * *' 'schedule "30, 2 * * * *" has 6 fields; jobrun starts once a minute: leave the seconds out, and write "2 * * * *"'
	refuses ' ' 'the schedule has no fields; five are wanted: minute, hour, day-of-month, month, day-of-week, as in "30 2 * * *"'
	refuses "$(printf '0%.0s' {1..250}) * * * *" 'the schedule has 258 bytes; at most 255'
	refused 'the schedule has no fields; five are wanted: minute, hour, day-of-month, month, day-of-week, as in "30 2 * * *"' \
		'select jobrun.parse_schedule(null)'
	refuses '@reboot' 'schedule "@reboot": the database does not see a host start; put "@reboot jobrun enqueue TYPE" in a crontab'
	refuses '@fortnightly' 'schedule "@fortnightly" is not known; there are @hourly, @daily (or @midnight), @weekly, @monthly, @yearly (or @annually) and @every 15m'
	refuses '@daily 3' 'schedule "@daily 3" is not known; there are @hourly, @daily (or @midnight), @weekly, @monthly, @yearly (or @annually) and @every 15m'
}

@test "syntax of other cron dialects is refused with what to write" {
	refuses '? * * * *' 'minute "?": "?" is not known; write "*"'
	refuses '0 0 ? * *' 'day-of-month "?": "?" is not known; write "*"'
	refuses '0 0 15W * *' 'day-of-month "15W": "W" is known only in "LW", the last working day of the month, as day-of-month; else write the day, and "*" or the weekdays as day-of-week'
	for bad in '* * fri#0' '* * fri#6' '* * 1-5#2' '* * #2' '* * friday#2' '* 1#2 *' '1#2 * *'; do
		word=${bad//\*/}
		field=day-of-week
		[[ $bad != '1#2 '* ]] || field=day-of-month
		[[ $bad != *' 1#2 '* ]] || field=month
		refuses "0 0 $bad" "$field \"${word// /}\": \"#\" stands in day-of-week between one weekday and a number from 1 to 5, as in \"1#2\", the second Monday"
	done
	refuses '0 0 * * 8#1' 'day-of-week "8#1": 8 is out of range; from 0 to 7'
	refuses '0~30 * * * *' 'minute "0~30": "~" (a number by chance) is not known; write the number'
	refuses 'H * * * *' 'minute "H": "H" (a number by the name) is not known; write the number'
	refuses '0 H(0-7) * * *' 'hour "H(0-7)": "H" (a number by the name) is not known; write the number'
	refuses 'H/15 * * * *' 'minute "H/15": "H" (a number by the name) is not known; write the number'
	refuses '0 0 L-3 * *' 'day-of-month "L-3": "L" is the last day of the month; it is for day-of-month, alone or in a list, as in "15,L"'
	refuses '0 0 L/2 * *' 'day-of-month "L/2": "L" is the last day of the month; it is for day-of-month, alone or in a list, as in "15,L"'
	refuses '0 0 1-L * *' 'day-of-month "1-L": "L" is the last day of the month; it is for day-of-month, alone or in a list, as in "15,L"'
	refuses '0 0 5L * *' 'day-of-month "5L": "L" is the last day of the month; it is for day-of-month, alone or in a list, as in "15,L"'
	for bad in L 1-5L FridayL; do
		refuses "0 0 * * $bad" "day-of-week \"$bad\": in this field \"L\" follows one weekday, as in \"5L\", the last Friday"
	done
	refuses '0 0 * L *' 'month "L": "L" is the last day of the month; it is for day-of-month, alone or in a list, as in "15,L"'
}

@test "impossible numbers, names, ranges and steps are refused" {
	refuses '60 * * * *' 'minute "60": 60 is out of range; from 0 to 59'
	refuses '0 7,24 * * *' 'hour "7,24": 24 is out of range; from 0 to 23'
	refuses '0 0 0 * *' 'day-of-month "0": 0 is out of range; from 1 to 31'
	refuses '0 0 32 * *' 'day-of-month "32": 32 is out of range; from 1 to 31'
	refuses '0 0 * 0 *' 'month "0": 0 is out of range; from 1 to 12'
	refuses '0 0 * 13 *' 'month "13": 13 is out of range; from 1 to 12'
	refuses '0 0 * * 8' 'day-of-week "8": 8 is out of range; from 0 to 7'
	refuses '99999999999999999999 * * * *' 'minute "99999999999999999999": 99999999999999999999 is out of range; from 0 to 59'
	refuses '0 22-6 * * *' 'hour "22-6": the range "22-6" runs backwards; write "22-23,0-6"'
	refuses '0 0 * nov-Feb *' 'month "nov-Feb": the range "nov-feb" runs backwards; write "nov-12,1-feb"'
	refuses '0 0 * * 5-0' 'day-of-week "5-0": the range "5-0" runs backwards; write "5-7"'
	refuses '*/0 * * * *' 'minute "*/0": a step of 0 goes nowhere; write 1 or more'
	refuses '5/15 * * * *' 'minute "5/15": a step needs a range; write "5-59/15"'
	refuses '*/90 * * * *' 'minute "*/90": a step of 90 is longer than all the field; at most 60, or write "@every 90m"'
	refuses '0 */36 * * *' 'hour "*/36": a step of 36 is longer than all the field; at most 24, or write "@every 36h"'
	refuses '0 0 */32 * *' 'day-of-month "*/32": a step of 32 is longer than all the field; at most 31'
	refuses '*/99999999999 * * * *' 'minute "*/99999999999": a step of 99999999999 is longer than all the field; at most 60, or write "@every 99999999999m"'
	refuses '1,,2 * * * *' 'minute "1,,2": an item of the list is empty; write one comma between two items, and none at the ends'
	refuses '1, * * * *' 'minute "1,": an item of the list is empty; write one comma between two items, and none at the ends'
	refuses 'mon * * * *' 'minute "mon": "mon" is not a number; names are for month and day-of-week alone'
	refuses '0 0 * monday *' 'month "monday": "monday" is not a name; write one of jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec, or a number from 1 to 12'
	refuses '0 0 * * monday' 'day-of-week "monday": names have three letters; write "mon"'
	refuses '0 0 * * mo' 'day-of-week "mo": "mo" is not a name; write one of sun, mon, tue, wed, thu, fri, sat, or a number from 0 to 7'
	refuses '0 0 * * 1-3-5' 'day-of-week "1-3-5": "1-3-5" is not understood; write "*", numbers, ranges like "0-7", steps like "*/2" or "0-7/2", or a list of them with commas and no blanks'
	for bad in -1 1- '1.5' '+1' '*-5' '**' '*5' '1/' '/5' '1-5/-1' '$' '0x1' '1;2' '%' '5-*'; do
		refuses "$bad * * * *" "minute \"$bad\": \"$bad\" is not understood; write \"*\", numbers, ranges like \"0-59\", steps like \"*/2\" or \"0-59/2\", or a list of them with commas and no blanks"
	done
}

@test "what can never fire is refused, and nothing else" {
	for bad in '30 2' 31\ 2 31\ 4,6,9,11 30,31\ feb 31\ 2-2,apr; do
		refuses "0 0 $bad *" "schedule \"0 0 $bad *\" can never fire: month \"${bad#* }\" has no day \"${bad% *}\"; for the last day of a month write \"L\""
	done
	refuses '0 0 31 2 */2' 'schedule "0 0 31 2 */2" can never fire: month "2" has no day "31"; for the last day of a month write "L"'
	refuses '0 0 LW * */6' 'schedule "0 0 LW * */6" can never fire: in month "*" no day is both day-of-month "LW" and day-of-week "*/6"'
	refuses '0 0 */10 2 1#5' 'schedule "0 0 */10 2 1#5" can never fire: in month "2" no day is both day-of-month "*/10" and day-of-week "1#5"'
	for good in 'LW 2 */5' '31 2 1#5' '*/4 2 1#5' '31,LW 2 *' '31 2 1' '29 2 *' '30 2,3 *' 'L 2 *' '31,L 2 *' '1-31 2 *' '*/30 2 *' '31 4-5 *'; do
		q_is 1 "select count(*) from jobrun.next_slots('0 0 $good')"
	done
}

@test "@every takes whole seconds from a minute to 366 days" {
	for bad in 1x 1.5h 1h5 5 -5m '1h 5m' 5m1h mo 1mo ''; do
		refuses "@every $bad" "@every \"$bad\": not a duration; write it like 90s, 15m, 1h30m or 2d: whole numbers, the largest unit first, no blanks"
	done
	refuses '@every 59s' '@every "59s": too short, jobrun starts once a minute; write at least 1m'
	refuses '@every 367d' '@every "367d": too long; write at most 366d, or a schedule of five fields'
	refuses '@every 999999999w999999999d' '@every "999999999w999999999d": too long; write at most 366d, or a schedule of five fields'
	q_is 't|t' "select (jobrun.parse_schedule('@every 1m')).every = '1 minute', (jobrun.parse_schedule('@every 366d')).every = '8784 hours'"
	night '@every 2d' Europe/Berlin 2025-03-29 '03-31 02:00+02:00' '04-02 02:00+02:00'
	# From the anchor on, not before it; exactly at a slot the next one is next.
	assert_equal "$(slots '@every 1h30m' UTC '2025-01-01 00:00Z' 3 '2025-01-03 10:00Z')" \
		'2025-01-03 11:30+00:00, 2025-01-03 13:00+00:00, 2025-01-03 14:30+00:00'
	assert_equal "$(slots '@every 1h30m' UTC '2025-01-03 13:00Z' 1 '2025-01-03 10:00Z')" '2025-01-03 14:30+00:00'
	assert_equal "$(slots '@every 1h30m' UTC '2025-01-03 12:59:59.999999Z' 1 '2025-01-03 10:00Z')" '2025-01-03 13:00+00:00'
	q_is '2025-01-03 10:01:30.000001' "select s at time zone 'UTC' from jobrun.next_slots('@every 90s', 'UTC', '1999-01-01 00:00Z', 1,
		'2025-01-03 10:00:00.000001Z') s"
	# A hundred years on, to the microsecond.
	q_is '2124-12-31 23:59:00.000001' "select max(s) at time zone 'UTC' from jobrun.next_slots('@every 1m', 'UTC', '2124-12-31 23:58:00.000001Z', 1,
		'2025-01-03 10:00:00.000001Z') s"
}

@test "next_slots refuses impossible arguments" {
	refused 'count 0 is out of range; from 1 to 10000' "select jobrun.next_slots('* * * * *', count => 0)"
	refused 'count 10001 is out of range; from 1 to 10000' "select jobrun.next_slots('* * * * *', count => 10001)"
	refused 'after and anchor must be finite' "select jobrun.next_slots('* * * * *', 'UTC', 'infinity')"
	refused 'after and anchor must be finite' "select jobrun.next_slots('@every 1h', 'UTC', now(), 1, '-infinity')"
	refused 'anchor "294276-12-31 23:59:59+00" is too late; before the year 2200' "select jobrun.next_slots('@every 1h', 'UTC', now(), 1, '294276-12-31 23:59:59')"
	refused 'anchor_at "infinity" is out of range; from the year 1800 to 2199' "select jobrun.define('x', '{\"anchor_at\": \"infinity\"}')"
	refused 'anchor_at "294276-12-31 23:59:59+00" is out of range; from the year 1800 to 2199' "select jobrun.define('x', '{\"anchor_at\": \"294276-12-31 23:59:59\"}')"
	q_is 10000 "select count(*) from jobrun.next_slots('* * * * *', 'Europe/Berlin', '2025-01-01', 10000)"
	# Nothing said: from now on, in UTC.
	q_is t "select s > now() and s <= now() + interval '1 minute' and extract(second from s) = 0 from jobrun.next_slots('* * * * *') s"
	q_is t "select s = now() + interval '1 hour' from jobrun.next_slots('@every 1h') s"
}

# --- zones ---

@test "a zone is a name that the server knows, in the same letters" {
	refused 'time zone "europe/berlin" is not known here; did you mean "Europe/Berlin"?' "select jobrun.next_slots('* * * * *', 'europe/berlin')"
	refused 'time zone "utc" is not known here; did you mean "UTC"?' "select jobrun.check_time_zone('utc')"
	for bad in Europe/Berlim CEST FOO3 'EST5EDT,M3.2.0,M11.1.0' UTC+3 +03 3 Europe '' ' ' :UTC ../zoneinfo/UTC /etc/localtime "'" '"' right/UTC Etc/GMT+55; do
		refused "time zone \"$bad\" is not known here; write a name of pg_timezone_names, as in \"Europe/Berlin\"" \
			"select jobrun.check_time_zone('${bad//\'/\'\'}')"
	done
	refused 'time zone "" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"' 'select jobrun.check_time_zone(null)'
	# All of that list, and the session's own stays.
	q_is '' "select z.name from pg_timezone_names z, lateral (select jobrun.check_time_zone(z.name)) c where false"
	assert_equal "$(q "set timezone = 'Asia/Tokyo'" "select count(*) > 300 from (select jobrun.check_time_zone(name) from pg_timezone_names offset 0) c" \
		"do \$\$ begin perform jobrun.check_time_zone('nowhere'); exception when others then null; end \$\$" 'show timezone')" $'t\nAsia/Tokyo'
}

@test "names that are abbreviations too are zones here, with their summer" {
	# Newer systems have the old names in a package of their own.
	for zone in $(q "select name from pg_timezone_names where name in ('CET', 'MET', 'EST5EDT') order by name"); do
		night '0 12 * * *' "$zone" 2025-07-01 "07-01 12:00$([ "$zone" = EST5EDT ] && echo -04:00 || echo +02:00)"
	done
	night '0 12 * * *' Etc/GMT+5 2025-07-01 '07-01 12:00-05:00'
}

@test "settings of the session do not change the slots" {
	expected='2025-03-29 02:30+01:00, 2025-03-30 03:00+02:00, 2025-03-31 02:30+02:00'
	assert_equal "$(slots '30 2 * * *' Europe/Berlin '2025-03-28 12:00Z' 3)" "$expected"
	for zone in Europe/Berlin America/New_York Pacific/Apia; do
		q "alter database $JR_DATABASE set timezone = '$zone'" "alter database $JR_DATABASE set intervalstyle = 'sql_standard'" \
			"alter database $JR_DATABASE set datestyle = 'sql, dmy'" "alter database $JR_DATABASE set search_path = pg_temp"
		assert_equal "$(slots '30 2 * * *' Europe/Berlin '2025-03-28 12:00Z' 3)" "$expected"
		q_is '527040|527040' "select jobrun.count_slots(jobrun.parse_schedule('* * * * *'), 'Europe/Berlin', null, '2024-01-01Z', '2025-01-01Z'),
			jobrun.count_slots(jobrun.parse_schedule('@every 1m'), 'Europe/Berlin', '2023-12-31Z', '2024-01-01Z', '2025-01-01Z')"
		q_is 't|t' "select timestamptz '2025-03-30 01:00Z' = jobrun.last_slot(jobrun.parse_schedule('30 2 * * *'), 'Europe/Berlin', null,
				'2025-03-01Z', '2025-03-30 12:00Z'), '2025-10-26 01:30Z' = jobrun.last_slot(jobrun.parse_schedule('30 */2 * * *'), 'Europe/Berlin',
				null, '2025-03-01Z', '2025-10-26 02:00Z')"
	done
}

# --- the two nights ---

@test "Berlin: fixed hours fire once on the nights when clocks change" {
	night '30 2 * * *' Europe/Berlin '2025-03-28 12:00Z' '03-29 02:30+01:00' '03-30 03:00+02:00' '03-31 02:30+02:00'
	night '30 2 * * *' Europe/Berlin '2025-10-24 12:00Z' '10-25 02:30+02:00' '10-26 02:30+02:00' '10-27 02:30+01:00'
	night '*/15 2 * * *' Europe/Berlin '2025-03-30 00:30Z' '03-30 03:00+02:00' '03-31 02:00+02:00' '03-31 02:15+02:00'
	night '*/20 2 * * *' Europe/Berlin '2025-10-25 12:00Z' '10-26 02:00+02:00' '10-26 02:20+02:00' '10-26 02:40+02:00' '10-27 02:00+01:00'
	night '0,30 1-3 * * *' Europe/Berlin '2025-03-30 00:00Z' '03-30 01:30+01:00' '03-30 03:00+02:00' '03-30 03:30+02:00' '03-31 01:00+02:00'
	night '0,30 2-3 * * *' Europe/Berlin '2025-10-25 23:00Z' '10-26 02:00+02:00' '10-26 02:30+02:00' '10-26 03:00+01:00' '10-26 03:30+01:00'
	night '0 3 * * *' Europe/Berlin '2025-03-29 12:00Z' '03-30 03:00+02:00' '03-31 03:00+02:00'
	night '0 3 * * *' Europe/Berlin '2025-10-25 12:00Z' '10-26 03:00+01:00' '10-27 03:00+01:00'
	night '0 2 * * *' Europe/Berlin '2025-10-25 12:00Z' '10-26 02:00+02:00' '10-27 02:00+01:00'
	night '@daily' Europe/Berlin '2025-03-29 12:00Z' '03-30 00:00+01:00' '03-31 00:00+02:00'
	# Asked in the middle of the second pass.
	night '59 2 * * *' Europe/Berlin '2025-10-26 01:10Z' '10-27 02:59+01:00'
	night '* 2,3 * * *' Europe/Berlin '2025-10-26 01:10Z' '10-26 03:00+01:00' '10-26 03:01+01:00'
	# Once a year, exactly then.
	night '30 2 30 3 *' Europe/Berlin '2024-12-01 00:00Z' '2025-03-30 03:00+02:00' '2026-03-30 02:30+02:00'
}

@test "Berlin: a star in the hour, and @every, follow real time when clocks change" {
	night '30 * * * *' Europe/Berlin '2025-03-30 00:00Z' '03-30 01:30+01:00' '03-30 03:30+02:00'
	night '30 * * * *' Europe/Berlin '2025-10-25 23:00Z' '10-26 01:30+02:00' '10-26 02:30+02:00' '10-26 02:30+01:00' '10-26 03:30+01:00'
	night '0 */2 * * *' Europe/Berlin '2025-03-29 22:30Z' '03-30 00:00+01:00' '03-30 04:00+02:00'
	night '0 */2 * * *' Europe/Berlin '2025-10-25 21:30Z' '10-26 00:00+02:00' '10-26 02:00+02:00' '10-26 02:00+01:00' '10-26 04:00+01:00'
	night '0 * * * *' Europe/Berlin '2025-03-30 00:30Z' '03-30 03:00+02:00' '03-30 04:00+02:00'
	night '30 */24 2 11 *' America/Havana '2025-03-08 12:00Z' '11-02 00:30-04:00' '11-02 00:30-05:00' '2026-11-02 00:30-05:00'
	night '*/30 * 26 10 *' Europe/Berlin '2025-10-26 00:01Z' '10-26 02:30+02:00' '10-26 02:00+01:00' '10-26 02:30+01:00' '10-26 03:00+01:00'
	assert_equal "$(slots '@every 1h' Europe/Berlin '2025-03-30 00:00Z' 2 '2025-03-01 00:00Z')" '2025-03-30 03:00+02:00, 2025-03-30 04:00+02:00'
	assert_equal "$(slots '@every 1h' Europe/Berlin '2025-10-26 00:00Z' 2 '2025-03-01 00:00Z')" '2025-10-26 02:00+01:00, 2025-10-26 03:00+01:00'
	assert_equal "$(slots '@every 1d' Europe/Berlin '2025-03-29 00:00Z' 3 '2025-03-01 00:00Z')" \
		'2025-03-30 01:00+01:00, 2025-03-31 02:00+02:00, 2025-04-01 02:00+02:00'
}

@test "fixed hours fire once when clocks change in other zones and in the southern hemisphere" {
	night '30 1 * * *' Europe/London '2025-03-29 12:00Z' '03-30 02:00+01:00' '03-31 01:30+01:00'
	night '30 1 * * *' Europe/London '2025-10-25 12:00Z' '10-26 01:30+01:00' '10-27 01:30+00:00'
	night '30 2 * * *' America/New_York '2025-03-08 12:00Z' '03-09 03:00-04:00' '03-10 02:30-04:00'
	night '30 1 * * *' America/New_York '2025-11-01 12:00Z' '11-02 01:30-04:00' '11-03 01:30-05:00'
	night '30 2 * * *' Australia/Sydney '2025-04-05 00:00Z' '04-06 02:30+11:00' '04-07 02:30+10:00'
	night '30 2 * * *' Australia/Sydney '2025-10-04 00:00Z' '10-05 03:00+11:00' '10-06 02:30+11:00'
	night '30 2 * * *' Africa/Casablanca '2025-02-22 12:00Z' '02-23 02:30+01:00' '02-24 02:30+00:00'
	night '30 2 * * *' Africa/Casablanca '2025-04-05 12:00Z' '04-06 03:00+01:00' '04-07 02:30+01:00'
	night '*/30 * * * *' Africa/Casablanca '2025-02-23 01:00Z' '02-23 02:30+01:00' '02-23 02:00+00:00' '02-23 02:30+00:00' '02-23 03:00+00:00'
}

@test "Lord Howe: a shift of half an hour is handled" {
	night '15 2 * * *' Australia/Lord_Howe '2025-10-04 00:00Z' '10-05 02:30+11:00' '10-06 02:15+11:00'
	night '45 2 * * *' Australia/Lord_Howe '2025-10-04 00:00Z' '10-05 02:45+11:00' '10-06 02:45+11:00'
	night '45 1 * * *' Australia/Lord_Howe '2025-04-05 00:00Z' '04-06 01:45+11:00' '04-07 01:45+10:30'
	night '15 1 * * *' Australia/Lord_Howe '2025-04-05 00:00Z' '04-06 01:15+11:00' '04-07 01:15+10:30'
	night '*/15 * * * *' Australia/Lord_Howe '2025-04-05 14:29Z' '04-06 01:30+11:00' '04-06 01:45+11:00' '04-06 01:30+10:30' '04-06 01:45+10:30' '04-06 02:00+10:30'
	night '*/15 * * * *' Australia/Lord_Howe '2025-10-04 15:10Z' '10-05 01:45+10:30' '10-05 02:30+11:00' '10-05 02:45+11:00'
}

@test "a midnight that does not exist, or comes twice, fires once" {
	night '0 0 * * *' Africa/Cairo '2024-04-25 00:00Z' '04-26 01:00+03:00' '04-27 00:00+03:00'
	night '30 23 * * *' Africa/Cairo '2024-10-31 12:00Z' '10-31 23:30+03:00' '11-01 23:30+02:00'
	night '0 0 1 11 *' Africa/Cairo '2024-10-01 12:00Z' '11-01 00:00+02:00'
	night '0 0 * * *' America/Havana '2025-03-08 12:00Z' '03-09 01:00-04:00' '03-10 00:00-04:00'
	night '0 0 * * *' America/Havana '2025-11-01 12:00Z' '11-02 00:00-04:00' '11-03 00:00-05:00'
	night '30 0 * * *' Asia/Beirut '2025-03-29 12:00Z' '03-30 01:00+03:00' '03-31 00:30+03:00'
	night '@daily' Asia/Beirut '2025-10-25 12:00Z' '10-26 00:00+02:00' '10-27 00:00+02:00'
	night '59 23 * * *' Asia/Beirut '2025-10-25 12:00Z' '10-25 23:59+03:00' '10-26 23:59+02:00'
	night '0 0 * * *' America/Santiago '2025-09-06 12:00Z' '09-07 01:00-03:00' '09-08 00:00-03:00'
	night '30 23 * * *' America/Santiago '2025-04-05 12:00Z' '04-05 23:30-03:00' '04-06 23:30-04:00'
	night '0 0 * * *' America/Santiago '2025-04-05 12:00Z' '04-06 00:00-04:00' '04-07 00:00-04:00'
	night '15 0 7 9 *' America/Santiago '2025-01-01 12:00Z' '09-07 01:00-03:00' '2026-09-07 00:15-03:00'
}

@test "zones that gave up summer time, or left out a day, fire as their clocks say" {
	night '0 0 * * *' America/Sao_Paulo '2018-11-03 12:00Z' '11-04 01:00-02:00' '11-05 00:00-02:00'
	night '0 0 * * *' America/Sao_Paulo '2025-11-03 12:00Z' '11-04 00:00-03:00' '11-05 00:00-03:00'
	night '30 3 * * *' Europe/Istanbul '2016-03-26 12:00Z' '03-27 04:00+03:00' '03-28 03:30+03:00'
	night '30 3 * * *' Europe/Istanbul '2016-11-05 12:00Z' '11-06 03:30+03:00' '11-07 03:30+03:00'
	night '0 12 * * *' Pacific/Apia '2011-12-29 00:00Z' '12-29 12:00-10:00' '12-31 00:00+14:00' '12-31 12:00+14:00'
	night '0 */8 * * *' Pacific/Apia '2011-12-29 20:00Z' '12-29 16:00-10:00' '12-31 00:00+14:00' '12-31 08:00+14:00'
	night '0 12 30 12 *' Pacific/Apia '2010-12-31 12:00Z' '2011-12-31 00:00+14:00' '2012-12-30 12:00+14:00'
	night '0 * 30 12 *' Pacific/Apia '2011-12-01 12:00Z' '2012-12-30 00:00+14:00'
	night '0 0 L 12 *' Pacific/Apia '2011-12-01 12:00Z' '12-31 00:00+14:00'
}

@test "slots are right as far as 2100" {
	night '30 2 * * *' Europe/Berlin '2100-03-27 12:00Z' '03-28 03:00+02:00' '03-29 02:30+02:00'
	night '30 2 * * *' Europe/Berlin '2100-10-30 12:00Z' '10-31 02:30+02:00' '11-01 02:30+01:00'
	night '30 * * * *' America/New_York '2100-11-07 05:00Z' '11-07 01:30-04:00' '11-07 01:30-05:00' '11-07 02:30-05:00'
	night '15 2 * * *' Australia/Lord_Howe '2100-10-02 00:00Z' '10-03 02:30+11:00'
}

@test "next_slots returns slots strictly after its argument, to the microsecond" {
	for schedule in '30 2 * * *' '30 * * * *'; do
		night "$schedule" Europe/Berlin '2025-06-01 00:29:59.999999Z' '06-01 02:30+02:00'
		night "$schedule" Europe/Berlin '2025-03-30 00:59:59.999999Z' "$([ "$schedule" = '30 2 * * *' ] && echo '03-30 03:00+02:00' || echo '03-30 03:30+02:00')"
	done
	night '30 2 * * *' Europe/Berlin '2025-06-01 00:30Z' '06-02 02:30+02:00'
	night '30 2 * * *' Europe/Berlin '2025-06-01 00:30:00.000001Z' '06-02 02:30+02:00'
	night '30 2 * * *' Europe/Berlin '2025-03-30 01:00Z' '03-31 02:30+02:00'
	night '30 * * * *' Europe/Berlin '2025-06-01 00:30Z' '06-01 03:30+02:00'
	night '0 * * * *' Europe/Berlin '2025-03-30 01:00Z' '03-30 04:00+02:00'
	night '0 3 * * *' Europe/Berlin '2025-10-26 01:59:59.999999Z' '10-26 03:00+01:00'
}

# --- counting ---

@test "count_slots and last_slot take (after, until], also empty, with @every, and over a century" {
	q_is '1|1|0|0|0' "select jobrun.count_slots(f, 'UTC', null, '2025-01-01 02:29Z', '2025-01-01 02:30Z'),
		jobrun.count_slots(f, 'UTC', null, '2025-01-01 02:29:59.999999Z', '2025-01-01 02:30Z'),
		jobrun.count_slots(f, 'UTC', null, '2025-01-01 02:30Z', '2025-01-02 02:29:59.999999Z'),
		jobrun.count_slots(f, 'UTC', null, '2025-01-01 02:30Z', '2025-01-01 02:30Z'),
		jobrun.count_slots(f, 'UTC', null, '2025-01-02 02:30Z', '2025-01-01 02:30Z')
		from jobrun.parse_schedule('30 2 * * *') f"
	q_is '|2025-01-01 02:30:00|||2025-01-01 02:30:00' "select jobrun.last_slot(f, 'UTC', null, '2025-01-01 02:30Z', '2025-01-02 02:29:59Z'),
		jobrun.last_slot(f, 'UTC', null, '2025-01-01 02:29Z', '2025-01-01 02:30Z') at time zone 'UTC',
		jobrun.last_slot(f, 'UTC', null, '2025-01-01 02:30Z', '2025-01-01 02:30Z'),
		jobrun.last_slot(f, 'UTC', null, '2025-01-03Z', '2025-01-01 02:30Z'),
		jobrun.last_slot(f, 'UTC', null, '1980-01-01Z', '2025-01-01 12:00Z') at time zone 'UTC'
		from jobrun.parse_schedule('30 2 * * *') f"
	q_is '2|2025-01-01 03:00:00|0||1' "select jobrun.count_slots(f, 'UTC', '2025-01-01Z', '2020-01-01Z', '2025-01-01 03:00Z'),
		jobrun.last_slot(f, 'UTC', '2025-01-01Z', '2020-01-01Z', '2025-01-01 04:29:59Z') at time zone 'UTC',
		jobrun.count_slots(f, 'UTC', '2025-01-01Z', '2020-01-01Z', '2025-01-01 01:29Z'),
		jobrun.last_slot(f, 'UTC', '2025-01-01Z', '2025-01-01 03:00Z', '2025-01-01 04:29:59Z'),
		jobrun.count_slots(f, 'UTC', '2025-01-01Z', '2025-01-01 01:30Z', '2025-01-01 03:00Z')
		from jobrun.parse_schedule('@every 1h30m') f"
	# 100 years of minutes, and of nights; hours that come twice in 2000 to 2099: as many as are left out
	q_is '52596000|36525|876600' "select jobrun.count_slots(jobrun.parse_schedule('* * * * *'), z, null, '2000-01-01Z', '2100-01-01Z'),
		jobrun.count_slots(jobrun.parse_schedule('30 2 * * *'), z, null, '2000-01-01Z', '2100-01-01Z'),
		jobrun.count_slots(jobrun.parse_schedule('0 * * * *'), z, null, '2000-01-01Z', '2100-01-01Z') from (values ('Europe/Berlin')) v(z)"
	q_is '23|25|24|24' "select jobrun.count_slots(jobrun.parse_schedule('0 * * * *'), z, null, '2025-03-29 23:00Z', '2025-03-30 22:00Z'),
		jobrun.count_slots(jobrun.parse_schedule('0 * * * *'), z, null, '2025-10-25 22:00Z', '2025-10-26 23:00Z'),
		jobrun.count_slots(jobrun.parse_schedule('30 0-23 * * *'), z, null, '2025-03-29 23:00Z', '2025-03-30 22:00Z'),
		jobrun.count_slots(jobrun.parse_schedule('30 0-23 * * *'), z, null, '2025-10-25 22:00Z', '2025-10-26 23:00Z')
		from (values ('Europe/Berlin')) v(z)"
	# An hour that comes twice, and one that does not come, looked for from days later.
	q_is 't|t' "select timestamptz '2025-11-02 05:30Z' = jobrun.last_slot(jobrun.parse_schedule('30 */24 2 11 *'), 'America/Havana', null,
			'2025-01-01Z', '2025-12-01Z'), timestamptz '2024-03-09 05:30Z' = jobrun.last_slot(jobrun.parse_schedule('30 */24 9 3 *'),
			'America/Havana', null, '2024-01-01Z', '2025-12-01Z')"
	# Every 29 February that is a Sunday, backwards.
	q_is '2088-02-29 00:00:00' "select jobrun.last_slot(jobrun.parse_schedule('0 0 29 2 */7'), 'UTC', null, '2000-01-01Z', '2127-01-01Z') at time zone 'UTC'"
}

# --- properties ---

@test "random schedules and zones: later than asked, in local time what the fields say, none between, counted right" {
	q <<-'sql'
		create function public.pick(words text[]) returns text language sql volatile as
			$$ select words[1 + floor(random() * cardinality(words))::integer] $$;
		select setseed(0.5);
		create table public.asked as
		select n, public.pick('{0,30,59,*,*/7,5-50/9,"2,3,58"}') || ' ' || public.pick('{2,0,1,3,23,*,*/3,0-5,"0,2,23","1-3,22"}') || ' '
				|| public.pick('{*,*,*,1,L,31,*/5,"13,L",1-7}') || ' ' || public.pick('{*,*,*,3,10,"mar,oct",*/3}') || ' '
				|| public.pick('{*,*,*,0,fri,1-5,*/2,sat-sun}') as schedule,
			public.pick(zones) as zone,
			timestamptz '1990-01-01Z' + floor(random() * 40000) * interval '1 day' + random() * interval '1 day' as after
		from generate_series(1, 400) n, (select array_agg(name order by name) as zones from pg_timezone_names
			where name ~ '^(Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Pacific)/') z;
		create table public.found as
		select a.n, a.schedule, a.zone, s.slot, s.nr, f as fields,
			lag(s.slot, 1, a.after) over (partition by a.n order by s.nr) as before,
			s.slot at time zone a.zone as local, (s.slot - interval '1 microsecond') at time zone a.zone as just_before
		from public.asked a cross join lateral jobrun.next_slots(a.schedule, a.zone, a.after, 40) with ordinality s(slot, nr)
		cross join lateral jobrun.parse_schedule(a.schedule) f;
	sql
	q_is '400|16000' 'select count(distinct n), count(*) from public.found'
	q_is 0 'select count(*) from public.found where slot <= before or extract(second from slot) <> 0'
	# The fields, each by itself, or the end of a gap with something in it, for fixed hours.
	fits="(fields).minutes & (1::bigint << extract(minute from l)::integer) <> 0 and (fields).hours & (1 << extract(hour from l)::integer) <> 0
		and (fields).months & (1 << extract(month from l)::integer) <> 0 and case when (fields).days_star or (fields).weekdays_star
			then d.monthday and d.weekday else d.monthday or d.weekday end"
	q_is '' "select n, nr, min(schedule), min(zone), min(slot) from public.found cross join lateral (select l, (fields).weekdays & (1 << extract(dow from l)::integer) <> 0 as weekday,
				(fields).days & (1::bigint << extract(day from l)::integer) <> 0
					or (fields).days & 1 <> 0 and extract(month from l) <> extract(month from l + interval '1 day') as monthday
			from generate_series(case when not (fields).hours_star and local - just_before > interval '1 second'
				then date_trunc('minute', just_before) + interval '1 minute' else local end, local, '1 minute') l offset 0) d
		group by n, nr having not bool_or($fits)"
	# From anywhere before a slot it is the next one.
	q_is 0 "select count(*) from public.found cross join lateral (select before + (slot - before) * x as at from (values (0.001), (0.5), (0.999)) v(x)) p
		where jobrun.next_slot(fields, zone, p.at, null) <> slot"
	q_is 0 "select count(*) from public.found cross join lateral (select before + (slot - before) * 0.7 as at) p
		where jobrun.count_slots(fields, zone, null, before, slot) <> 1 or jobrun.count_slots(fields, zone, null, before, p.at) <> 0
			or jobrun.last_slot(fields, zone, null, before, slot) <> slot or jobrun.last_slot(fields, zone, null, before, p.at) is not null"
	q_is 0 "select count(*) from (select count(*) as n, jobrun.count_slots(fields, zone, null, min(before), max(slot)) as counted
		from public.found group by n, fields, zone) c where n <> counted"
}

@test "the slow reference finds the same slots" {
	run --separate-stderr timeout "${SLOTS_SECONDS:-100}" python3 "$TOP/test/lib/slots_reference.py" "$JR_DIRECT dbname=$JR_DATABASE" \
		--points "${SLOTS_POINTS:-400000}" --seed "${SLOTS_SEED:-1}"
	echo "$output$stderr"
	[ -z "${SLOTS_POINTS:-}" ] || echo "# $output" >&3
	assert_equal "$status" 0
	assert_output --partial ' 0 differences'
}
