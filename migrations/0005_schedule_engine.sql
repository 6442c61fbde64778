-- 0005: the schedule engine: what a schedule says, and at which instants that is.
--
-- Wall clocks are not even: hours are left out in spring and come twice in autumn. Whatever such a day does, what follows is
-- built on one thing alone, the local time of an instant, which is never ambiguous. With F(l) for the first instant at which
-- local time has reached l:
--   fixed hours (the hour field does not begin with "*"): the slots are F(l) for each local minute l of the schedule. A minute
--     that comes twice counts the first time, one that is left out when the gap ends, and several of them there are one slot.
--   any hour (it begins with "*"): the slots are all instants whose local minute is in the schedule.
--   @every: anchor + k times the interval, k >= 1, in real time.
--
-- Inside, instants are timestamps in UTC: adding an interval to a timestamptz would ask the session's TimeZone. A zone is
-- passed as ":NAME": without the colon "CET" would be the abbreviation, an hour off in summer, and "FOO3" a zone.

-- days: bits 1 to 31, and bit 0 for L. The other masks: bit n is n. star: the field begins with "*". every: all others are null.
create type jobrun.schedule_fields as (minutes bigint, hours integer, days bigint, months integer, weekdays integer,
	hours_star boolean, days_star boolean, weekdays_star boolean, every interval);

-- ------------------------------------------------------------------------------------------------------- what is written

-- highest_bit: its number; -1 if there is none. One expression, so that it costs no call. lowest: highest_bit(x & -x).
create function jobrun.highest_bit(mask bigint) returns integer
language sql immutable as $fn$
	select case when mask = 0 then -1 else 64 - position(B'1' in mask::bit(64)) end
$fn$;

create function jobrun.count_bits(mask bigint) returns integer
language sql immutable as $fn$
	select length(replace(mask::bit(64)::text, '0', ''))
$fn$;

-- parse_schedule_number: a number or one of the names, which begin with that of the number base.
create function jobrun.parse_schedule_number(shown text, word text, lowest integer, highest integer, names text[], base integer)
returns integer
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_number constant integer := case when word ~ '^[0-9]{1,9}$' then word::integer end;
begin
	if word ~ '^[a-z]' then
		if names is null then
			raise exception '%: "%" is not a number; names are for month and day-of-week alone', shown, word using errcode = 'JR065';
		elsif word = any (names) then
			return array_position(names, word) - 1 + base;
		elsif left(word, 3) = any (names) then
			raise exception '%: names have three letters; write "%"', shown, left(word, 3) using errcode = 'JR065';
		end if;
		raise exception '%: "%" is not a name; write one of %, or a number from % to %', shown, word, array_to_string(names, ', '),
			lowest, highest using errcode = 'JR065';
	elsif v_number between lowest and highest then
		return v_number;
	end if;
	raise exception '%: % is out of range; from % to %', shown, word, lowest, highest using errcode = 'JR065';
end
$fn$;

-- parse_schedule_item: one item of a list, as bits. What other dialects know, and this one does not, has an answer of its own.
create function jobrun.parse_schedule_item(
	field text, shown text, item text, lowest integer, highest integer, names text[], base integer)
returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_parts text[] := regexp_match(item, '^(?:(\*)|([0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?)(?:/([0-9]+))?$');
	v_is_weekday constant boolean := field = 'day-of-week';
	v_from  integer;
	v_to    integer;
	v_step  integer;
	v_mask  bigint := 0;
begin
	if item = '' then
		raise exception '%: an item of the list is empty; write one comma between two items, and none at the ends', shown
			using errcode = 'JR065';
	elsif item = 'l' and field = 'day-of-month' then
		return 1;
	elsif item ~ '\?' then
		raise exception '%: "?" is not known; write "*"', shown using errcode = 'JR065';
	elsif item ~ '#' then
		raise exception '%: "#" (the n-th such weekday of the month) is not known; write the weekday alone, and let the job look at '
			'the day of JOBRUN_SLOT', shown using errcode = 'JR065';
	elsif item ~ '^([0-9]+|l)w$' then
		raise exception '%: "W" (the weekday next to it) is not known; write the day, and "*" or the weekdays as day-of-week', shown
			using errcode = 'JR065';
	elsif item ~ '~' then
		raise exception '%: "~" (a number by chance) is not known; write the number', shown using errcode = 'JR065';
	elsif item ~ '^h(\(|/|$)' then
		raise exception '%: "H" (a number by the name) is not known; write the number', shown using errcode = 'JR065';
	elsif item ~ '^l([-/0-9]|$)' or item ~ '^([0-9]+-?)l$' then
		raise exception '%: "L" is the last day of the month; it is for day-of-month, alone or in a list, as in "15,L"', shown
			using errcode = 'JR065';
	elsif v_parts is null then
		raise exception '%: "%" is not understood; write "*", numbers, ranges like "%-%", steps like "*/2" or "%-%/2", or a list of '
			'them with commas and no blanks', shown, item, lowest, highest, lowest, highest using errcode = 'JR065';
	end if;

	if v_parts[1] is not null then
		v_from := lowest;
		v_to   := case when v_is_weekday then 6 else highest end;
	else
		v_from := jobrun.parse_schedule_number(shown, v_parts[2], lowest, highest, names, base);
		v_to   := case when v_parts[3] is null then v_from
			when v_parts[3] = 'sun' and v_is_weekday and v_from > 0 then 7     -- sat-sun
			else jobrun.parse_schedule_number(shown, v_parts[3], lowest, highest, names, base) end;
	end if;
	v_step := case when v_parts[4] is null then 1 when length(v_parts[4]) > 9 then 999999999 else v_parts[4]::integer end;
	if v_from > v_to then
		raise exception '%: the range "%-%" runs backwards; write "%"', shown, v_parts[2], v_parts[3], case
			when v_is_weekday and v_to = 0 then format('%s-7', v_parts[2])
			else format('%s-%s,%s-%s', v_parts[2], highest, lowest, v_parts[3]) end using errcode = 'JR065';
	elsif v_step = 0 then
		raise exception '%: a step of 0 goes nowhere; write 1 or more', shown using errcode = 'JR065';
	elsif v_parts[4] is not null and v_parts[1] is null and v_parts[3] is null then
		raise exception '%: a step needs a range; write "%-%/%"', shown, v_parts[2], highest, v_parts[4] using errcode = 'JR065';
	elsif v_step > highest - lowest + 1 then
		raise exception '%: a step of % is longer than all the field; at most %', shown, v_parts[4], highest - lowest + 1
			|| case field when 'minute' then format(', or write "@every %sm"', v_parts[4])
				when 'hour' then format(', or write "@every %sh"', v_parts[4]) else '' end using errcode = 'JR065';
	end if;
	for n in v_from .. v_to by v_step loop
		v_mask := v_mask | (1::bigint << case when v_is_weekday then n % 7 else n end);
	end loop;
	return v_mask;
end
$fn$;

create function jobrun.parse_schedule_field(field text, written text) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_mask   bigint := 0;
	v_item   text;
	v_shown  constant text := format('%s "%s"', field, written);
	v_low    constant integer := case when field in ('day-of-month', 'month') then 1 else 0 end;
	v_high   constant integer := case field
		when 'minute' then 59 when 'hour' then 23 when 'day-of-month' then 31 when 'month' then 12 else 7 end;
	v_names  constant text[] := case field
		when 'month' then '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
		when 'day-of-week' then '{sun,mon,tue,wed,thu,fri,sat}' end;
begin
	foreach v_item in array string_to_array(lower(written), ',') loop
		v_mask := v_mask | jobrun.parse_schedule_item(field, v_shown, v_item, v_low, v_high, v_names, v_low);
	end loop;
	return v_mask;
end
$fn$;

-- parse_every: 15m, 1h30m, 2d, as real time: a day is 24 hours.
create function jobrun.parse_every(written text) returns interval
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_parts   constant text[] := regexp_match(lower(written),
		'^(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?$');
	v_seconds bigint;
begin
	v_seconds := coalesce(v_parts[1]::bigint, 0) * 604800 + coalesce(v_parts[2]::bigint, 0) * 86400
		+ coalesce(v_parts[3]::bigint, 0) * 3600 + coalesce(v_parts[4]::bigint, 0) * 60 + coalesce(v_parts[5]::bigint, 0);
	if written is null or written = '' or v_parts is null then
		raise exception '@every "%": not a duration; write it like 90s, 15m, 1h30m or 2d: whole numbers, the largest unit first, '
			'no blanks', coalesce(written, '') using errcode = 'JR065';
	elsif v_seconds < 60 then
		raise exception '@every "%": too short, jobrun starts once a minute; write at least 1m', written using errcode = 'JR065';
	elsif v_seconds > 366 * 86400 then
		raise exception '@every "%": too long; write at most 366d, or a schedule of five fields', written using errcode = 'JR065';
	end if;
	return make_interval(secs => v_seconds);
end
$fn$;

-- parse_schedule: the only place that knows the dialect: Vixie cron's, with L and @every. Every error says what to write.
create function jobrun.parse_schedule(schedule text) returns jobrun.schedule_fields
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_variable
declare
	v_words  text[] := regexp_split_to_array(btrim(left(schedule, 256), E' \t\r\n'), '[ \t]+');
	v_number integer;
	v_five   text;
	v_wanted constant text := 'five are wanted: minute, hour, day-of-month, month, day-of-week, as in "30 2 * * *"';
	v_fields jobrun.schedule_fields;
begin
	if octet_length(schedule) > 255 then
		raise exception 'the schedule has % bytes; at most 255', octet_length(schedule) using errcode = 'JR065';
	elsif schedule is null or v_words[1] = '' then
		raise exception 'the schedule has no fields; %', v_wanted using errcode = 'JR065';
	elsif left(v_words[1], 1) = '@' then
		if lower(v_words[1]) = '@every' then
			v_fields.every := jobrun.parse_every(array_to_string(v_words[2:], ' '));
			return v_fields;
		elsif lower(v_words[1]) = '@reboot' then
			raise exception 'schedule "%": the database does not see a host start; put "@reboot jobrun enqueue TYPE" in a crontab',
				schedule using errcode = 'JR065';
		end if;
		v_words := case when cardinality(v_words) = 1 then string_to_array(case lower(v_words[1])
			when '@hourly' then '0 * * * *'
			when '@daily' then '0 0 * * *'
			when '@midnight' then '0 0 * * *'
			when '@weekly' then '0 0 * * 0'
			when '@monthly' then '0 0 1 * *'
			when '@yearly' then '0 0 1 1 *'
			when '@annually' then '0 0 1 1 *' end, ' ') end;
		if v_words is null then
			raise exception 'schedule "%" is not known; there are @hourly, @daily (or @midnight), @weekly, @monthly, @yearly '
				'(or @annually) and @every 15m', schedule using errcode = 'JR065';
		end if;
	end if;

	v_number := cardinality(v_words);
	if v_words[1] ~* '^(cron_)?tz=' then     -- a line of a crontab
		raise exception 'schedule "%": the zone is not a part of it; write "%", and "%" as the time zone', schedule,
			array_to_string(v_words[2:], ' '), regexp_replace(v_words[1], '^[^=]*=', '') using errcode = 'JR065';
	elsif v_number in (6, 7) then
		begin
			v_five   := replace(array_to_string(v_words[2:6], ' '), '?', '*');
			v_fields := jobrun.parse_schedule(v_five);
		exception when sqlstate 'JR065' then
			v_five := null;     -- not seconds before all: a crontab line with its command?
		end;
	end if;
	if v_five is not null then
		raise exception 'schedule "%" has % fields; jobrun starts once a minute: leave the seconds% out, and write "%"', schedule,
			v_number, case v_number when 7 then ' and the year' else '' end, v_five using errcode = 'JR065';
	elsif v_number <> 5 then
		raise exception 'schedule "%" has % fields; %', schedule, v_number, v_wanted using errcode = 'JR065';
	end if;
	v_fields.minutes       := jobrun.parse_schedule_field('minute', v_words[1]);
	v_fields.hours         := jobrun.parse_schedule_field('hour', v_words[2]);
	v_fields.days          := jobrun.parse_schedule_field('day-of-month', v_words[3]);
	v_fields.months        := jobrun.parse_schedule_field('month', v_words[4]);
	v_fields.weekdays      := jobrun.parse_schedule_field('day-of-week', v_words[5]);
	v_fields.hours_star    := left(v_words[2], 1) = '*';
	v_fields.days_star     := left(v_words[3], 1) = '*';
	v_fields.weekdays_star := left(v_words[5], 1) = '*';

	-- If both day fields are restricted the weekday alone is enough. In 400 years each day of a year falls on each weekday.
	if (v_fields.days_star or v_fields.weekdays_star)
		and not exists (select from generate_series(1, 12) m where v_fields.months & (1 << m) <> 0 and v_fields.days
			& ((1::bigint << case when m = 2 then 30 when m in (4, 6, 9, 11) then 31 else 32 end) - 1) <> 0)
	then
		raise exception 'schedule "%" can never fire: month "%" has no day "%"; for the last day of a month write "L"',
			schedule, v_words[4], v_words[3] using errcode = 'JR065';
	end if;
	return v_fields;
end
$fn$;

-- check_time_zone: a name that the server's zone database has, in the same letters. Reading pg_timezone_names would take longer
-- than all the rest. A setting made inside a function that sets it, too, ends with the function.
create function jobrun.check_time_zone(zone text) returns void
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp set timezone = 'UTC' as $fn$
declare
	v_name text;
begin
	if zone = 'UTC' then
		return;
	end if;
	begin
		if octet_length(zone) between 1 and 100 then
			perform set_config('TimeZone', ':' || zone, true);
			v_name := current_setting('TimeZone');
		end if;
	exception when invalid_parameter_value then
		v_name := null;
	end;
	if v_name is null then
		raise exception 'time zone "%" is not known here; write a name of pg_timezone_names, as in "Europe/Berlin"',
			coalesce(left(zone, 100), '') using errcode = 'JR065';
	elsif v_name <> zone then
		raise exception 'time zone "%" is not known here; did you mean "%"?', zone, v_name using errcode = 'JR065';
	end if;
end
$fn$;

-- ---------------------------------------------------------------------------------------------------- calendar, local time

-- month_days: the days of that month that match: bits 1 to 31. If one of the two day fields begins with "*" both must match,
-- else one is enough (as in Vixie cron).
create function jobrun.month_days(fields jobrun.schedule_fields, month timestamp) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_last     constant integer := extract(day from month + interval '1 month' - interval '1 day');
	v_weekday  constant integer := extract(dow from month);
	-- the week as it begins on the first of the month, five times
	v_week     constant bigint := ((fields.weekdays >> v_weekday) | (fields.weekdays << (7 - v_weekday))) & 127;
	v_weekdays constant bigint := (v_week * 270549121) << 1;
	v_days     constant bigint := (fields.days & -2) | ((fields.days & 1) << v_last);
begin
	return ((1::bigint << (v_last + 1)) - 2)
		& case when fields.days_star or fields.weekdays_star then v_days & v_weekdays else v_days | v_weekdays end;
end
$fn$;

-- next_local: the first minute of the schedule after that local time; null: none before the year 2201.
create function jobrun.next_local(fields jobrun.schedule_fields, after timestamp) returns timestamp
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_at    constant timestamp := date_trunc('minute', after) + interval '1 minute';
	v_hour  constant integer := extract(hour from v_at);
	v_day   integer := extract(day from v_at);     -- in the months after the first one 0
	v_month timestamp := date_trunc('month', v_at);
	v_days  bigint;
	v_rest  bigint;
	v_first constant integer := jobrun.highest_bit(fields.minutes & -fields.minutes);
begin
	while v_month < timestamp '2201-01-01' loop
		if fields.months & (1 << extract(month from v_month)::integer) <> 0 then
			v_days := jobrun.month_days(fields, v_month) & (-1::bigint << v_day);
			if v_day > 0 and v_days & (1::bigint << v_day) <> 0 then
				-- the rest of that hour, else the rest of that day
				v_rest := fields.minutes & (-1::bigint << extract(minute from v_at)::integer);
				if fields.hours & (1 << v_hour) <> 0 and v_rest <> 0 then
					return v_month + make_interval(days => v_day - 1, hours => v_hour, mins => jobrun.highest_bit(v_rest & -v_rest));
				end if;
				v_rest := fields.hours & (-1 << (v_hour + 1));
				if v_rest <> 0 then
					return v_month + make_interval(days => v_day - 1, hours => jobrun.highest_bit(v_rest & -v_rest), mins => v_first);
				end if;
				v_days := v_days & (-1::bigint << (v_day + 1));
			end if;
			if v_days <> 0 then
				return v_month + make_interval(days => jobrun.highest_bit(v_days & -v_days) - 1,
					hours => jobrun.highest_bit(fields.hours & -fields.hours), mins => v_first);
			end if;
		end if;
		v_month := v_month + interval '1 month';
		v_day   := 0;
	end loop;
	return null;
end
$fn$;

-- last_local: the last minute of the schedule up to that local time, itself included; null: none in the months since then.
create function jobrun.last_local(fields jobrun.schedule_fields, until timestamp, since timestamp) returns timestamp
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_hour  constant integer := extract(hour from until);
	v_day   integer := extract(day from until);     -- in the months before the last one 32
	v_month timestamp := date_trunc('month', until);
	v_days  bigint;
	v_rest  bigint;
	v_last  constant integer := jobrun.highest_bit(fields.minutes);
begin
	while v_month >= date_trunc('month', since) loop
		if fields.months & (1 << extract(month from v_month)::integer) <> 0 then
			v_days := jobrun.month_days(fields, v_month) & ((1::bigint << (v_day + 1)) - 1);
			if v_day < 32 and v_days & (1::bigint << v_day) <> 0 then
				v_rest := fields.minutes & ((1::bigint << (extract(minute from until)::integer + 1)) - 1);
				if fields.hours & (1 << v_hour) <> 0 and v_rest <> 0 then
					return v_month + make_interval(days => v_day - 1, hours => v_hour, mins => jobrun.highest_bit(v_rest));
				end if;
				v_rest := fields.hours & ((1 << v_hour) - 1);
				if v_rest <> 0 then
					return v_month + make_interval(days => v_day - 1, hours => jobrun.highest_bit(v_rest), mins => v_last);
				end if;
				v_days := v_days & ((1::bigint << v_day) - 1);
			end if;
			if v_days <> 0 then
				return v_month + make_interval(days => jobrun.highest_bit(v_days) - 1, hours => jobrun.highest_bit(fields.hours),
					mins => v_last);
			end if;
		end if;
		v_month := v_month - interval '1 month';
		v_day   := 32;
	end loop;
	return null;
end
$fn$;

-- count_in_month: how many minutes of the schedule from the first of that month up to that local time, itself included.
create function jobrun.count_in_month(fields jobrun.schedule_fields, until timestamp) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_hour    constant integer := extract(hour from until);
	v_day     constant integer := extract(day from until);
	v_days    bigint;
	v_hours   integer;     -- whole hours of the schedule
begin
	if fields.months & (1 << extract(month from until)::integer) = 0 then
		return 0;
	end if;
	v_days  := jobrun.month_days(fields, date_trunc('month', until));
	v_hours := jobrun.count_bits(v_days & ((1::bigint << v_day) - 1)) * jobrun.count_bits(fields.hours);
	if v_days & (1::bigint << v_day) = 0 then
		return v_hours * jobrun.count_bits(fields.minutes);
	end if;
	v_hours := v_hours + jobrun.count_bits(fields.hours & ((1 << v_hour) - 1));
	return v_hours * jobrun.count_bits(fields.minutes) + case when fields.hours & (1 << v_hour) = 0 then 0
		else jobrun.count_bits(fields.minutes & ((1::bigint << (extract(minute from until)::integer + 1)) - 1)) end;
end
$fn$;

-- count_local: how many minutes of the schedule lie in (after, until].
create function jobrun.count_local(fields jobrun.schedule_fields, after timestamp, until timestamp) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_month timestamp := date_trunc('month', after);
	v_sum   bigint;
begin
	if until <= after then
		return 0;
	end if;
	v_sum := jobrun.count_in_month(fields, until) - jobrun.count_in_month(fields, after);
	while v_month < date_trunc('month', until) loop
		v_month := v_month + interval '1 month';
		v_sum   := v_sum + jobrun.count_in_month(fields, v_month - interval '1 microsecond');
	end loop;
	return v_sum;
end
$fn$;

-- clock_change: the first instant after "after" that has another offset; "until" has another one. Offsets change on whole
-- seconds. Here and below a day holds one change at most: since 1950 there are six days between two of them anywhere.
create function jobrun.clock_change(zone text, after timestamp, until timestamp) returns timestamp
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_at      timestamp := date_trunc('second', after);
	v_offset  constant interval := ((after at time zone 'UTC') at time zone zone) - after;
	v_seconds integer := floor(extract(epoch from until - v_at));
	v_half    integer;
	v_middle  timestamp;
begin
	-- at v_at the old offset, v_seconds later another one
	while v_seconds > 1 loop
		v_half   := v_seconds / 2;
		v_middle := v_at + make_interval(secs => v_half);
		if ((v_middle at time zone 'UTC') at time zone zone) - v_middle = v_offset then
			v_at      := v_middle;
			v_seconds := v_seconds - v_half;
		else
			v_seconds := v_half;
		end if;
	end loop;
	return v_at + interval '1 second';
end
$fn$;

-- local_reached: the first instant at which the local time is that, or later.
create function jobrun.local_reached(zone text, local timestamp) returns timestamp
language plpgsql stable strict set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_from  timestamp := local - interval '16 hours';     -- offsets are smaller
	v_local timestamp;
	v_at    timestamp;
begin
	loop
		v_local := (v_from at time zone 'UTC') at time zone zone;
		if v_local >= local then
			return v_from;     -- the clock has leapt over it
		end if;
		v_at := v_from + (local - v_local);
		if (v_at at time zone 'UTC') at time zone zone = local then
			return v_at;
		end if;
		v_from := jobrun.clock_change(zone, v_from, v_at);
	end loop;
end
$fn$;

-- local_peak: the latest local time up to that instant. In the second pass of a repeated hour that is (just below) the end of
-- the first one.
create function jobrun.local_peak(zone text, at timestamp) returns timestamp
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_local  constant timestamp := (at at time zone 'UTC') at time zone zone;
	v_before constant timestamp := at - interval '25 hours';
	v_offset constant interval := ((v_before at time zone 'UTC') at time zone zone) - v_before;
begin
	if v_local - at = v_offset then
		return v_local;
	end if;
	return greatest(v_local, jobrun.clock_change(zone, v_before, at) + v_offset - interval '1 microsecond');
end
$fn$;

-- -------------------------------------------------------------------------------------------------------------- slots

-- count_every: how many slots of @every are not after that instant. The difference is taken in microseconds, exactly.
create function jobrun.count_every(every interval, anchor timestamptz, until timestamptz) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_length constant bigint := extract(epoch from every) * 1000000;
	v_passed constant bigint := round(extract(epoch from until - anchor) * 1000000);
begin
	return case when v_passed < 0 then 0 else v_passed / v_length end;
end
$fn$;

-- next_slot: the first slot after that instant; null: none before the year 2200.
create function jobrun.next_slot(fields jobrun.schedule_fields, zone text, after timestamptz, anchor timestamptz)
returns timestamptz
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_zone  constant text := ':' || zone;
	v_at    timestamp := greatest(after, timestamptz '1800-01-01 00:00Z') at time zone 'UTC';
	v_local timestamp;
	v_next  timestamp;
	v_step  timestamp;
begin
	if v_at >= timestamp '2200-01-01' then
		return null;
	elsif fields.every is not null then
		return anchor + (jobrun.count_every(fields.every, anchor, v_at at time zone 'UTC') + 1) * fields.every;
	elsif not fields.hours_star then
		return jobrun.local_reached(v_zone, jobrun.next_local(fields, jobrun.local_peak(v_zone, v_at))) at time zone 'UTC';
	end if;
	loop
		v_local := (v_at at time zone 'UTC') at time zone v_zone;
		v_next  := jobrun.next_local(fields, v_local);
		if v_next is null then
			return null;
		end if;
		v_step := least(v_at + (v_next - v_local), v_at + interval '24 hours');
		if ((v_step at time zone 'UTC') at time zone v_zone) - v_step = v_local - v_at then
			-- the clock runs evenly up to v_step
			if v_step - v_at = v_next - v_local then
				return v_step at time zone 'UTC';
			end if;
			v_at := jobrun.local_reached(v_zone, v_next);     -- nothing before it; it may be left out itself
		else
			v_at := jobrun.clock_change(v_zone, v_at, v_step);
		end if;
		v_local := (v_at at time zone 'UTC') at time zone v_zone;
		if jobrun.next_local(fields, v_local - interval '1 microsecond') = v_local then
			return v_at at time zone 'UTC';
		end if;
	end loop;
end
$fn$;

-- next_slots: for people and programs: the next ones of any schedule. @every without an anchor counts from "after".
create function jobrun.next_slots(
	schedule text, time_zone text default 'UTC', after timestamptz default now(), count integer default 1,
	anchor timestamptz default null)
returns setof timestamptz
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_fields constant jobrun.schedule_fields := jobrun.parse_schedule(schedule);
	v_slot   timestamptz := coalesce(next_slots.after, now());
	v_anchor constant timestamptz := coalesce(anchor, v_slot);
begin
	perform jobrun.check_time_zone(next_slots.time_zone);
	if next_slots.count is null or next_slots.count not between 1 and 10000 then
		raise exception 'count % is out of range; from 1 to 10000', next_slots.count using errcode = 'JR065';
	elsif not isfinite(v_slot) or not isfinite(v_anchor) then
		raise exception 'after and anchor must be finite' using errcode = 'JR065';
	elsif next_slots.anchor > timestamptz '2200-01-01 00:00Z' then
		raise exception 'anchor "%" is too late; before the year 2200', next_slots.anchor using errcode = 'JR065';
	end if;
	for i in 1 .. next_slots.count loop
		v_slot := jobrun.next_slot(v_fields, next_slots.time_zone, v_slot, v_anchor);
		exit when v_slot is null;
		return next v_slot;
	end loop;
end
$fn$;

-- count_slots: how many there are in (after, until]. Where the clock runs evenly it is arithmetic on local time; what is left to
-- do day by day is to look for changes.
create function jobrun.count_slots(
	fields jobrun.schedule_fields, zone text, anchor timestamptz, after timestamptz, until timestamptz)
returns bigint
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_zone   constant text := ':' || zone;
	v_at     timestamp := greatest(after, timestamptz '1800-01-01 00:00Z') at time zone 'UTC';
	v_end    constant timestamp := least(until, timestamptz '2200-01-01 00:00Z') at time zone 'UTC';
	v_from   timestamp;     -- local: counted up to here
	v_old    timestamp;     -- local time at a change, if there were none
	v_new    timestamp;     -- local time at a change
	v_step   timestamp;
	v_offset interval;
	v_sum    bigint := 0;
begin
	if v_at is null or v_end is null or v_at >= v_end then
		return 0;
	elsif fields.every is not null then
		return jobrun.count_every(fields.every, anchor, v_end at time zone 'UTC')
			- jobrun.count_every(fields.every, anchor, v_at at time zone 'UTC');
	end if;
	v_new    := (v_at at time zone 'UTC') at time zone v_zone;
	v_offset := v_new - v_at;
	v_from   := case when fields.hours_star then v_new else jobrun.local_peak(v_zone, v_at) end;
	while v_at < v_end loop
		v_step := least(v_at + interval '24 hours', v_end);
		if ((v_step at time zone 'UTC') at time zone v_zone) - v_step <> v_offset then
			v_step := jobrun.clock_change(v_zone, v_at, v_step);
			v_old  := v_step + v_offset;
			v_new  := (v_step at time zone 'UTC') at time zone v_zone;
			if fields.hours_star then
				v_sum  := v_sum + jobrun.count_local(fields, v_from, v_old - interval '1 microsecond');
				v_from := v_new - interval '1 microsecond';
			elsif v_new > v_old then
				-- all that the gap left out is one slot, at its end
				v_sum := v_sum - greatest(jobrun.count_local(fields, v_old - interval '1 microsecond', v_new) - 1, 0);
			end if;
			v_offset := v_new - v_step;
		end if;
		v_at := v_step;
	end loop;
	return v_sum + jobrun.count_local(fields, v_from,
		case when fields.hours_star then v_end + v_offset else jobrun.local_peak(v_zone, v_end) end);
end
$fn$;

-- last_slot: the latest in (after, until], or null.
create function jobrun.last_slot(
	fields jobrun.schedule_fields, zone text, anchor timestamptz, after timestamptz, until timestamptz)
returns timestamptz
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_zone  constant text := ':' || zone;
	v_after constant timestamp := greatest(after, timestamptz '1800-01-01 00:00Z') at time zone 'UTC';
	v_at    timestamp := least(until, timestamptz '2200-01-01 00:00Z') at time zone 'UTC';
	v_since constant timestamp := v_after - interval '2 days';     -- local time was later than this
	v_local timestamp;
	v_last  timestamp;
	v_step  timestamp;
	v_count bigint;
begin
	if fields.every is not null then
		v_count := jobrun.count_every(fields.every, anchor, v_at at time zone 'UTC');
		return case when v_count > jobrun.count_every(fields.every, anchor, v_after at time zone 'UTC')
			then anchor + v_count * fields.every end;
	elsif not fields.hours_star then
		v_at := jobrun.local_reached(v_zone, jobrun.last_local(fields, jobrun.local_peak(v_zone, v_at), v_since));
		return case when v_at > v_after then v_at at time zone 'UTC' end;
	end if;
	while v_at > v_after loop
		v_local := (v_at at time zone 'UTC') at time zone v_zone;
		v_last  := jobrun.last_local(fields, v_local, v_since);
		if v_last is null then
			return null;
		end if;
		v_step := greatest(v_at - (v_local - v_last), v_at - interval '24 hours');
		if ((v_step at time zone 'UTC') at time zone v_zone) - v_step = v_local - v_at then
			-- the clock runs evenly since v_step
			if v_at - v_step = v_local - v_last then
				return case when v_step > v_after then v_step at time zone 'UTC' end;
			end if;
			v_step := (v_last at time zone v_zone) at time zone 'UTC';     -- of two such times it is the later one
			if (v_step at time zone 'UTC') at time zone v_zone = v_last then
				return case when v_step > v_after then v_step at time zone 'UTC' end;
			end if;
			v_at := jobrun.local_reached(v_zone, v_last) - interval '1 microsecond';     -- a gap has left it out
		else
			v_step := jobrun.clock_change(v_zone, v_step, v_at);
			if v_at - (v_local - v_last) >= v_step then
				v_at := v_at - (v_local - v_last);
				return case when v_at > v_after then v_at at time zone 'UTC' end;
			end if;
			v_at := v_step - interval '1 microsecond';
		end if;
	end loop;
	return null;
end
$fn$;

revoke all on all functions in schema jobrun from public;
