-- schedule: the schedule engine, first half: parse a schedule into bits. slots.sql computes the instants.

-- highest_bit: the number of the highest bit; -1 if none is set. One expression, so that it can be inlined. The lowest
-- bit is highest_bit(x & -x).
create or replace function jobrun.highest_bit(mask bigint) returns integer
language sql immutable as $fn$
	select case when mask = 0 then -1 else 64 - position(B'1' in mask::bit(64)) end
$fn$;

-- count_bits: how many bits are set.
create or replace function jobrun.count_bits(mask bigint) returns integer
language sql immutable as $fn$
	select length(replace(mask::bit(64)::text, '0', ''))
$fn$;

-- parse_schedule_number: a number or one of the names; the first name stands for the number `base`.
create or replace function jobrun.parse_schedule_number(shown text, word text, lowest integer, highest integer, names text[], base integer)
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

-- parse_schedule_item: one item of a list, as bits. Syntax that other dialects have and this one has not gets an error
-- of its own.
create or replace function jobrun.parse_schedule_item(
	field text, shown text, item text, lowest integer, highest integer, names text[], base integer)
returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_parts text[] := regexp_match(item, '^(?:([*])|([0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?)(?:/([0-9]+))?$');
	v_of_month   constant text[] := regexp_match(item, '^([0-9]+|[a-z]{3})(?:l|#([1-5]))$');
	v_is_weekday constant boolean := field = 'day-of-week';
	v_from  integer;
	v_to    integer;
	v_step  integer;
	v_mask  bigint := 0;
begin
	if item = '' then
		raise exception '%: an item of the list is empty; write one comma between two items, and none at the ends', shown
			using errcode = 'JR065';
	elsif item in ('l', 'lw') and field = 'day-of-month' then
		return case item when 'l' then 1 else 1::bigint << 32 end;
	elsif item ~ '[?]' then
		raise exception '%: "?" is not known; write "*"', shown using errcode = 'JR065';
	elsif v_is_weekday and v_of_month is not null then
		v_from := jobrun.parse_schedule_number(shown, v_of_month[1], lowest, highest, names, base) % 7;
		return 1::bigint << (v_from + 7 * coalesce(v_of_month[2]::integer, 6));
	elsif item ~ '#' then
		raise exception '%: "#" stands in day-of-week between one weekday and a number from 1 to 5, as in "1#2", the second Monday', shown
			using errcode = 'JR065';
	elsif v_is_weekday and item ~ 'l$' then
		raise exception '%: in this field "L" follows one weekday, as in "5L", the last Friday', shown using errcode = 'JR065';
	elsif item ~ '^([0-9]+|l)w$' then
		raise exception '%: "W" is known only in "LW", the last working day of the month, as day-of-month; else write the day, and "*" '
			'or the weekdays as day-of-week', shown using errcode = 'JR065';
	elsif item ~ '~' then
		raise exception '%: "~" (a number by chance) is not known; write the number', shown using errcode = 'JR065';
	elsif item ~ '^h([(]|/|$)' then
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

-- parse_schedule_field: one of the five fields, as bits.
create or replace function jobrun.parse_schedule_field(field text, written text) returns bigint
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
create or replace function jobrun.parse_every(written text) returns interval
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

-- parse_schedule: the only place that knows the dialect: Vixie cron's, with L, LW, 5L, 1#2 and @every. Every error says what to
-- write.
create or replace function jobrun.parse_schedule(schedule text) returns jobrun.schedule_fields
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
#variable_conflict use_variable
declare
	v_words  text[] := regexp_split_to_array(btrim(left(schedule, 256), E' \t\r\n'), E'[ \t]+');
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
	if v_words[1] ~* '^(cron_)?tz=' then     -- as in a line of a crontab
		raise exception 'schedule "%": the zone is not a part of it; write "%", and "%" as the time zone', schedule,
			array_to_string(v_words[2:], ' '), regexp_replace(v_words[1], '^[^=]*=', '') using errcode = 'JR065';
	elsif v_number in (6, 7) then
		begin
			v_five   := replace(array_to_string(v_words[2:6], ' '), '?', '*');
			v_fields := jobrun.parse_schedule(v_five);
		exception when sqlstate 'JR065' then
			v_five := null;     -- not a schedule with seconds; perhaps a crontab line with its command
		end;
	end if;
	if v_five is not null then
		raise exception 'schedule "%" has % fields; jobrun starts once a minute: leave the seconds% out, and write "%"', schedule,
			v_number, case v_number when 7 then ' and the year' else '' end, v_five using errcode = 'JR065';
	elsif v_number <> 5 then
		raise exception 'schedule "%" has % %; %', schedule, v_number, case v_number when 1 then 'field' else 'fields' end,
			v_wanted using errcode = 'JR065';
	end if;
	v_fields.minutes       := jobrun.parse_schedule_field('minute', v_words[1]);
	v_fields.hours         := jobrun.parse_schedule_field('hour', v_words[2]);
	v_fields.days          := jobrun.parse_schedule_field('day-of-month', v_words[3]);
	v_fields.months        := jobrun.parse_schedule_field('month', v_words[4]);
	v_fields.weekdays      := jobrun.parse_schedule_field('day-of-week', v_words[5]);
	v_fields.hours_star    := left(v_words[2], 1) = '*';
	v_fields.days_star     := left(v_words[3], 1) = '*';
	v_fields.weekdays_star := left(v_words[5], 1) = '*';

	-- If both day fields are restricted the weekday alone is enough. In 400 years each day of a year falls on each
	-- weekday. Days that are counted from the end, or weekdays of the month: 28 years have all months there are.
	if not v_fields.days_star and not v_fields.weekdays_star then
		null;
	elsif v_fields.days >> 32 <> 0 or v_fields.weekdays > 127 then
		if not exists (select from generate_series(timestamp '2000-01-01', '2027-12-01', interval '1 month') m
			where v_fields.months & (1 << extract(month from m)::integer) <> 0 and jobrun.month_days(v_fields, m) <> 0)
		then
			raise exception 'schedule "%" can never fire: in month "%" no day is both day-of-month "%" and day-of-week "%"', schedule,
				v_words[4], v_words[3], v_words[5] using errcode = 'JR065';
		end if;
	elsif v_fields.days & 1 = 0
		and not exists (select from generate_series(1, 12) m where v_fields.months & (1 << m) <> 0 and v_fields.days
			& ((1::bigint << case when m = 2 then 30 when m in (4, 6, 9, 11) then 31 else 32 end) - 1) <> 0)
	then
		raise exception 'schedule "%" can never fire: month "%" has no day "%"; for the last day of a month write "L"',
			schedule, v_words[4], v_words[3] using errcode = 'JR065';
	end if;
	return v_fields;
end
$fn$;

-- check_time_zone: the name must be in the server's zone database, in the same letters. Reading pg_timezone_names would
-- take longer than all the rest. Since this function has a SET clause for TimeZone, its own change of it ends with the
-- function.
create or replace function jobrun.check_time_zone(zone text) returns void
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

-- lost_zone: why no slot of such a zone can be computed, in the words of check_time_zone(); null: the server knows it.
create or replace function jobrun.lost_zone(zone text) returns text
language plpgsql stable security definer set search_path = pg_catalog, jobrun, pg_temp as $fn$
begin
	perform jobrun.check_time_zone(zone);
	return null;
exception when sqlstate 'JR065' then
	return sqlerrm;
end
$fn$;
