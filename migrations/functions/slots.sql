-- slots: the schedule engine, second half: compute the instants at which a schedule is due.
--
-- Local time does not run evenly: an hour is skipped in spring and repeated in autumn. All rules here rest on one fact:
-- an instant has exactly one local time. Let F(l) be the first instant at which local time has reached l:
--   fixed hours (the hour field does not begin with "*"): the slots are F(l) for each local minute l of the schedule. A
--     repeated minute fires the first time; a skipped one fires when the gap ends, and several skipped ones are one slot.
--   any hour (the field begins with "*"): the slots are all instants whose local minute is in the schedule.
--   @every: anchor + k times the interval, k >= 1, in real time.
--
-- Inside, instants are timestamps in UTC: adding an interval to a timestamptz would depend on the session's TimeZone. A
-- zone is passed as ":NAME": without the colon "CET" would be the abbreviation, an hour off in summer, and "FOO3" would
-- be a valid zone.

-- ------------------------------------------------------------------------------------------------ calendar, local time

-- weekdays_of: of seven bits, Sunday first, those days of the seven from `first` on (a day of the month with that weekday).
create or replace function jobrun.weekdays_of(week bigint, weekday integer, first integer) returns bigint
language sql immutable as $fn$
	select (((week >> weekday) | (week << (7 - weekday))) & 127) << first
$fn$;

-- month_days: the days of that month that match: bits 1 to 31. If one of the two day fields begins with "*", both must
-- match, else one is enough (as in Vixie cron).
create or replace function jobrun.month_days(fields jobrun.schedule_fields, month timestamp) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_last     constant integer := extract(day from month + interval '1 month' - interval '1 day');
	v_weekday  constant integer := extract(dow from month);
	-- the weekdays, from the first of the month on, repeated five times
	v_weekdays bigint := jobrun.weekdays_of(fields.weekdays & 127, v_weekday, 1) * 270549121;
	v_days     bigint := (fields.days & -2) | ((fields.days & 1) << v_last);
begin
	if fields.weekdays > 127 then
		for n in 1 .. 5 loop
			v_weekdays := v_weekdays | jobrun.weekdays_of((fields.weekdays >> (7 * n)) & 127, v_weekday, 7 * n - 6);
		end loop;
		v_weekdays := v_weekdays | jobrun.weekdays_of((fields.weekdays >> 42) & 127, (v_weekday + v_last) % 7, v_last - 6);
	end if;
	if fields.days >> 32 <> 0 then     -- before a Saturday one day, before a Sunday two
		v_days := v_days | (1::bigint << (v_last - case (v_weekday + v_last - 1) % 7 when 6 then 1 when 0 then 2 else 0 end));
	end if;
	return ((1::bigint << (v_last + 1)) - 2)
		& case when fields.days_star or fields.weekdays_star then v_days & v_weekdays else v_days | v_weekdays end;
end
$fn$;

-- next_local: the first minute of the schedule after a local time; null: none before the year 2201.
create or replace function jobrun.next_local(fields jobrun.schedule_fields, after timestamp) returns timestamp
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

-- last_local: the last minute of the schedule up to and including a local time; null: none within the given months.
create or replace function jobrun.last_local(fields jobrun.schedule_fields, until timestamp, since timestamp) returns timestamp
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

-- count_in_month: how many minutes of the schedule lie between the first of that month and that local time, included.
create or replace function jobrun.count_in_month(fields jobrun.schedule_fields, until timestamp) returns bigint
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
create or replace function jobrun.count_local(fields jobrun.schedule_fields, after timestamp, until timestamp) returns bigint
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

-- clock_change: the first instant after "after" with another offset than "after"; the offset at "until" must differ.
-- Offsets change on whole seconds. Here and below a day has at most one change: since 1950 there are at least six days
-- between two changes in every zone.
create or replace function jobrun.clock_change(zone text, after timestamp, until timestamp) returns timestamp
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

-- local_reached: the first instant at which the local time is `local` or later.
create or replace function jobrun.local_reached(zone text, local timestamp) returns timestamp
language plpgsql stable strict set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_from  timestamp := local - interval '16 hours';     -- offsets are smaller
	v_local timestamp;
	v_at    timestamp;
begin
	loop
		v_local := (v_from at time zone 'UTC') at time zone zone;
		if v_local >= local then
			return v_from;     -- the clock has skipped it
		end if;
		v_at := v_from + (local - v_local);
		if (v_at at time zone 'UTC') at time zone zone = local then
			return v_at;
		end if;
		v_from := jobrun.clock_change(zone, v_from, v_at);
	end loop;
end
$fn$;

-- local_peak: the latest local time that clocks have shown up to that instant. In the second pass of a repeated hour
-- that is (just below) the end of the first pass.
create or replace function jobrun.local_peak(zone text, at timestamp) returns timestamp
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

-- ------------------------------------------------------------------------------------------------------------ instants

-- count_every: how many slots of @every there are up to that instant. The difference is computed in microseconds,
-- exactly.
create or replace function jobrun.count_every(every interval, anchor timestamptz, until timestamptz) returns bigint
language plpgsql immutable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_length constant bigint := extract(epoch from every) * 1000000;
	v_passed constant bigint := round(extract(epoch from until - anchor) * 1000000);
begin
	return case when v_passed < 0 then 0 else v_passed / v_length end;
end
$fn$;

-- next_slot: the first slot after that instant; null: none before the year 2200.
create or replace function jobrun.next_slot(fields jobrun.schedule_fields, zone text, after timestamptz, anchor timestamptz)
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
			v_at := jobrun.local_reached(v_zone, v_next);     -- no slot lies before it; it may itself be skipped
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

-- next_slots: for people and programs: the next slots of any schedule. @every without an anchor counts from "after".
create or replace function jobrun.next_slots(
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

-- count_slots: how many slots there are in (after, until]. While the clock runs evenly this is arithmetic on local
-- time; only clock changes are searched day by day.
create or replace function jobrun.count_slots(
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
				-- all minutes skipped by the gap are one slot, at its end
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

-- last_slot: the latest slot in (after, until], or null.
create or replace function jobrun.last_slot(
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
			v_step := (v_last at time zone v_zone) at time zone 'UTC';     -- if the local time comes twice, the later one
			if (v_step at time zone 'UTC') at time zone v_zone = v_last then
				return case when v_step > v_after then v_step at time zone 'UTC' end;
			end if;
			v_at := jobrun.local_reached(v_zone, v_last) - interval '1 microsecond';     -- a gap has skipped it
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

-- slot_text: a slot as people read and type it: local time of the zone with its offset, "2026-03-29 03:00+02:00";
-- seconds only if there are any, or if they are wanted. If this server does not know the zone (any more), UTC is used, so
-- that commands that show slots still work.
create or replace function jobrun.slot_text(slot timestamptz, time_zone text, with_seconds boolean default false) returns text
language plpgsql stable set search_path = pg_catalog, jobrun, pg_temp as $fn$
declare
	v_local timestamp := slot at time zone 'UTC';
	v_ahead interval := '0';
begin
	if not isfinite(slot) then
		return slot::text;
	elsif time_zone <> 'UTC' then
		begin
			v_ahead := (slot at time zone (':' || time_zone)) - v_local;     -- ':': "CET" is not an abbreviation, as in the engine
		exception when invalid_parameter_value then
			null;
		end;
	end if;
	v_local := v_local + v_ahead;
	return to_char(v_local, case when date_trunc('minute', v_local) = v_local and not with_seconds then 'YYYY-MM-DD HH24:MI'
			when date_trunc('second', v_local) = v_local then 'YYYY-MM-DD HH24:MI:SS' else 'YYYY-MM-DD HH24:MI:SS.US' end)
		|| case when v_ahead < '0' then '-' else '+' end || to_char(greatest(v_ahead, -v_ahead), 'HH24:MI');
end
$fn$;
