#!/usr/bin/env python3
"""slots_reference CONNINFO [--points N] [--seed N]: compare jobrun.next_slots with a slow reference.

The reference shares no idea with the SQL: it walks through all minutes of UTC, one by one, asks python's zoneinfo for the
local time of each, and looks whether that is in the sets of numbers that the fields name. Fixed hours need two words more,
said about two minutes that follow each other: if local time leaps ahead, what it left out is done now; what it has
reached before is not done again.

Expressions, zones and dates (1990 to 2100, most of them near a change of the clock) come from a random generator with a
seed. A point is a minute about which both have said whether it is a slot. For each case jobrun.count_slots and
jobrun.last_slot must agree, too. Exit status 1 and the first differences if there are any.

Zones whose offsets differ between the server and python (another version of the zone database) are left out.
"""
import argparse
import calendar
import collections
import datetime
import random
import subprocess
import sys
import time
import zoneinfo

UTC = datetime.timezone.utc
MINUTE = datetime.timedelta(minutes=1)
DAY = datetime.timedelta(days=1)
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()
NAMED = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}

# Zones with something of their own; the others take turns.
ODD_ZONES = """
    Europe/Berlin Europe/London Europe/Dublin Europe/Lisbon Europe/Istanbul Europe/Moscow Europe/Volgograd America/New_York
    America/St_Johns America/Havana America/Sao_Paulo America/Santiago America/Asuncion America/Caracas America/Godthab
    America/Scoresbysund Atlantic/Azores Africa/Casablanca Africa/El_Aaiun Africa/Cairo Africa/Khartoum Africa/Juba
    Africa/Windhoek Asia/Beirut Asia/Amman Asia/Gaza Asia/Hebron Asia/Tehran Asia/Kathmandu Asia/Pyongyang Asia/Baku
    Asia/Ulaanbaatar Australia/Lord_Howe Australia/Sydney Australia/Eucla Antarctica/Troll Antarctica/Casey
    Antarctica/Macquarie Pacific/Apia Pacific/Fakaofo Pacific/Kwajalein Pacific/Kiritimati Pacific/Chatham Pacific/Norfolk
    Pacific/Easter Pacific/Fiji CET EST5EDT Etc/GMT+12 UTC
""".split()

Case = collections.namedtuple("Case", "schedule zone after until anchor slots")


# --- what a field means ---

def number(word, names, first):
    return names.index(word) + first if word in names else int(word)


def numbers(field, low, high, names=()):
    """The set of numbers of one field; "L" and "LW" stay as they are, "5L" is (5, "L"), "1#2" is (1, 2)."""
    found = set()
    for item in field.lower().split(","):
        body, _, step = item.partition("/")
        if body in ("l", "lw"):
            found.add(body.upper())
            continue
        if "#" in body or body.endswith("l") and names is WEEKDAYS:
            word, _, nth = body.partition("#")
            found.add((number(word if nth else word[:-1], names, low) % 7, int(nth) if nth else "L"))
            continue
        if body == "*":
            start, end = low, high
        elif "-" in body:
            start, end = (number(word, names, low) for word in body.split("-"))
        else:
            start = end = number(body, names, low)
        while start <= end:
            found.add(start)
            start += int(step or 1)
    return found


class Schedule:
    def __init__(self, text):
        minute, hour, day, month, weekday = NAMED.get(text.lower(), text).split()
        self.minutes = numbers(minute, 0, 59)
        self.hours = numbers(hour, 0, 23)
        self.days = numbers(day, 1, 31)
        self.months = numbers(month, 1, 12, MONTHS)
        self.weekdays = {n if isinstance(n, tuple) else n % 7 for n in numbers(weekday, 0, 6, WEEKDAYS)}
        self.is_fixed = not hour.startswith("*")
        self.needs_both = day.startswith("*") or weekday.startswith("*")
        self.known_days = {}

    def has_day(self, date):
        if date not in self.known_days:
            last = calendar.monthrange(date.year, date.month)[1]
            working = [n for n in range(1, last + 1) if date.replace(day=n).isoweekday() < 6]
            day = date.day in self.days or date.day == last and "L" in self.days or date.day == working[-1] and "LW" in self.days
            name = date.isoweekday() % 7
            alike = [n for n in range(1, last + 1) if (n - date.day) % 7 == 0]     # the days with this name
            weekday = name in self.weekdays or (name, alike.index(date.day) + 1) in self.weekdays or (
                date.day == alike[-1] and (name, "L") in self.weekdays)
            self.known_days[date] = date.month in self.months and (
                day and weekday if self.needs_both else day or weekday)
        return self.known_days[date]

    def ever(self):
        """Is there such a day? In 28 years there are all months: each with each weekday as its first."""
        start = datetime.date(2000, 1, 1)
        return any(self.has_day(start + n * DAY) for n in range(28 * 366))

    def has(self, local):
        return local.minute in self.minutes and local.hour in self.hours and self.has_day(local.date())


# --- the reference ---

def walk(zone, start, end):
    """Each minute of UTC in (start, end]: (instant, local time, local minutes left out just before it, is it a repetition?)"""
    tz = zoneinfo.ZoneInfo(zone)
    at = start - 2 * DAY
    before = latest = at.astimezone(tz).replace(tzinfo=None, fold=0)
    while at < end:
        at += MINUTE
        local = at.astimezone(tz).replace(tzinfo=None, fold=0)
        missing = []
        before += MINUTE
        while before < local:
            missing.append(before)
            before += MINUTE
        is_repeated = local <= latest
        latest = max(latest, local)
        before = local
        if at > start:
            yield at, local, missing, is_repeated


def reference(schedule, minutes):
    """Which of these minutes are slots."""
    slots = []
    for at, local, missing, is_repeated in minutes:
        if not schedule.is_fixed:
            if schedule.has(local):
                slots.append(at)
        elif not is_repeated and schedule.has(local) or missing and any(schedule.has(left_out) for left_out in missing):
            slots.append(at)
    return slots


def reference_every(text, anchor, start, end):
    length, digits = 0, ""
    for letter in text:
        if letter.isdigit():
            digits += letter
        else:
            length, digits = length + int(digits) * UNITS[letter], ""
    at, slots = anchor, []
    while at <= end:
        at += datetime.timedelta(seconds=length)
        if start < at <= end:
            slots.append(at)
    return slots


# --- what is compared ---

def random_field(rng, low, high, names=(), star=0.3, extra=()):
    def word(n):
        return rng.choice([str.lower, str.upper, str.title])(names[(n - low) % len(names)]) if names and rng.random() < 0.3 else str(n)

    def item():
        shape = rng.random()
        if extra and rng.random() < 0.2:
            return rng.choice(extra)
        if shape < 0.55:
            return word(rng.randint(low, high))
        first = rng.randint(low, high)
        last = rng.randint(first, high)
        step = f"/{rng.randint(1, high - low + 1)}" if shape > 0.8 else ""
        return f"{first}-{last}{step}" if rng.random() < 0.8 else f"{word(first)}-{last}{step}"

    shape = rng.random()
    if shape < star:
        return "*"
    if shape < star + 0.15:
        return f"*/{rng.randint(1, min(high - low + 1, rng.choice([6, 60])))}"
    return ",".join(item() for _ in range(rng.choice([1, 1, 1, 2, 3])))


def random_schedule(rng, locals_near):
    """locals_near: local times that matter, which fields meet more often than by chance."""
    if rng.random() < 0.05:
        return rng.choice(list(NAMED))
    near = rng.choice(locals_near)
    minute = random_field(rng, 0, 59, star=0.1)
    hour = random_field(rng, 0, 23, star=0.25)
    if rng.random() < 0.5:
        hour = rng.choice([str(near.hour), f"{near.hour},{(near.hour + 1) % 24}", f"0-{near.hour}", f"*/{near.hour or 24}"])
    if rng.random() < 0.2:
        minute = str(near.minute)
    day = random_field(rng, 1, 31, star=0.6, extra=["L", "l", "LW", "lw"])
    month = random_field(rng, 1, 12, MONTHS, star=0.8)
    of_month = [rng.choice([*"01234567", *WEEKDAYS]) + rng.choice(["L", "l", "#1", "#2", "#3", "#4", "#5"])]
    weekday = random_field(rng, 0, 7, WEEKDAYS, star=0.5, extra=of_month).replace("7-", "6-")
    if rng.random() < 0.3:
        month, day = str(near.month), rng.choice(["*", str(near.day), "L", "LW", "*/2"])
    return " ".join([minute, hour, day, month, weekday])


def random_every(rng):
    return rng.choice(["1m", "90s", "15m", "1h", "1h30m", "7h", "1d", "2d", "1d1s", f"{rng.randint(60, 99999)}s"])


def changes_of(zone, cache={}):
    """Days (in UTC) from 1990 to 2100 on which the offset changes."""
    if zone not in cache:
        tz = zoneinfo.ZoneInfo(zone)
        found = []
        at, end = datetime.datetime(1990, 1, 1, tzinfo=UTC), datetime.datetime(2100, 12, 1, tzinfo=UTC)
        offset = at.astimezone(tz).utcoffset()
        while at < end:
            after = (at + DAY).astimezone(tz).utcoffset()
            if after != offset:
                found.append((at, offset, after))
            at, offset = at + DAY, after
        cache[zone] = found
    return cache[zone]


def instant_of_change(zone, change):
    """The minute in that day with which the new offset begins."""
    at, offset, _ = change
    tz = zoneinfo.ZoneInfo(zone)
    while at.astimezone(tz).utcoffset() == offset:
        at += MINUTE
    return at


def random_window(rng, zone):
    """(start, end, local times that matter), near a change of the clock if the zone has any."""
    changes = changes_of(zone)
    length = rng.choices([600, 2000, 4320, 60000, 600000], weights=[50, 30, 15, 1, 0.1])[0] + rng.randrange(300)
    if changes and rng.random() < 0.85:
        change = rng.choice(changes)
        at = instant_of_change(zone, change)
        start = at - rng.randint(-100, length) * MINUTE
        old, new = (at.replace(tzinfo=None) + offset for offset in change[1:])
        near = [old, new, min(old, new) + abs(new - old) * rng.random(), old + DAY]
    else:
        start = datetime.datetime(1990, 1, 1, tzinfo=UTC) + rng.randrange(40000 * 1440) * MINUTE
        near = [start.replace(tzinfo=None)]
    return start, start + length * MINUTE, near


def cases_of(rng, zone, points):
    start, end, near = random_window(rng, zone)
    end = min(end, start + max(points, 600) * MINUTE)
    minutes = list(walk(zone, start, end))
    for _ in range(6):
        after = start + datetime.timedelta(seconds=rng.choice([0, 0, 1, 59.5]))
        here = minutes if after == start else [m for m in minutes if m[0] > after]
        if rng.random() < 0.05:
            every, anchor = random_every(rng), start - datetime.timedelta(seconds=rng.randint(-90000, 300000))
            yield Case("@every " + every, zone, after, end, anchor, reference_every(every, anchor, after, end)), len(here)
        else:
            text = random_schedule(rng, near)
            while not Schedule(text).ever():     # the server refuses it
                text = random_schedule(rng, near)
            yield Case(text, zone, after, end, None, reference(Schedule(text), here)), len(here)


# --- the server's side ---

def psql(conninfo, script):
    done = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", "\t", conninfo], input=script, text=True,
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"slots_reference: psql: {done.stderr.strip()}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def months():
    return [datetime.datetime(1989 + n // 24, n % 24 // 2 + 1, 1 + n % 2 * 14, tzinfo=UTC) for n in range(24 * 112)]


def same_zones(conninfo, wanted):
    """Those with the same offsets on both sides, twice a month from 1989 to 2100."""
    names = ",".join(f"'{name}'" for name in sorted(wanted & zoneinfo.available_timezones()))
    rows = psql(conninfo, f"""
        set timezone = 'UTC';
        select z.name, string_agg(extract(epoch from (m.at at time zone (':' || z.name)) - m.at::timestamp)::integer::text, ','
            order by m.at)
        from pg_timezone_names z, (select make_timestamptz(y, mo, d, 0, 0, 0) as at from generate_series(1989, 2100) y,
            generate_series(1, 12) mo, (values (1), (15)) d(d)) m
        where z.name in ({names}) group by z.name;""")
    instants, same = months(), []
    for name, offsets in rows:
        tz = zoneinfo.ZoneInfo(name)
        if offsets == ",".join(str(int(at.astimezone(tz).utcoffset().total_seconds())) for at in instants):
            same.append(name)
    return sorted(same), len(rows) - len(same)


def stamp(at):
    return "\\N" if at is None else at.isoformat()


def ask(conninfo, cases):
    """For each case: the slots as seconds since "after", count_slots, last_slot likewise. One slot more than expected is asked
    for, so that one too many is seen, and a schedule that comes once a year costs little."""
    rows = "".join("\t".join([str(i), c.schedule, c.zone, stamp(c.after), stamp(c.until), stamp(c.anchor), str(len(c.slots))]) + "\n"
                   for i, c in enumerate(cases))
    return psql(conninfo, f"""
        set timezone = 'UTC';
        create temp table asked (id integer, schedule text, zone text, after timestamptz, until timestamptz, anchor timestamptz,
            n integer);
        copy asked from stdin;
{rows}\\.
        select a.id,
            (select string_agg(extract(epoch from s - a.after)::numeric::text, ' ' order by s)
                from jobrun.next_slots(a.schedule, a.zone, a.after, least(a.n + 1, 10000), a.anchor) s where s <= a.until),
            jobrun.count_slots(jobrun.parse_schedule(a.schedule), a.zone, a.anchor, a.after, a.until),
            extract(epoch from jobrun.last_slot(jobrun.parse_schedule(a.schedule), a.zone, a.anchor, a.after, a.until) - a.after)::numeric
        from asked a order by a.id;""")


def seconds(text):
    return [float(word) for word in text.split()]


def differences(cases, answers):
    for case, (_, slots, count, last) in zip(cases, answers, strict=True):
        expected = [(slot - case.after).total_seconds() for slot in case.slots]
        found = seconds(slots)
        where = f"'{case.schedule}' {case.zone} after {case.after.isoformat()} until {case.until.isoformat()}" + (
            f" anchor {case.anchor.isoformat()}" if case.anchor else "")
        if found != expected[:10000]:
            wrong = sorted(set(found) ^ set(expected))
            at = case.after + datetime.timedelta(seconds=wrong[0]) if wrong else None
            yield f"{where}: {len(wrong)} differ, first {at} {'missing' if wrong and wrong[0] in expected else 'too many'}"
        if int(count) != len(expected):
            yield f"{where}: count_slots {count}, expected {len(expected)}"
        if seconds(last) != expected[-1:]:
            yield f"{where}: last_slot {last or 'null'}, expected {expected[-1:]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("conninfo")
    parser.add_argument("--points", type=int, default=200000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    began = time.monotonic()
    rng = random.Random(options.seed)
    # few points: the odd zones alone
    wanted = set(ODD_ZONES) if options.points < 1000000 else zoneinfo.available_timezones()
    zones, left_out = same_zones(options.conninfo, wanted)
    if not zones:
        sys.exit("slots_reference: no zone has the same offsets on the server and here")
    odd = [name for name in ODD_ZONES if name in zones]
    points, compared, slots, used, found = 0, 0, 0, set(), []
    while points < options.points and len(found) < 10:
        cases, batch = [], 0
        while points + batch < options.points and batch < 2000000:
            zone = rng.choice(odd if rng.random() < 0.5 else zones)
            used.add(zone)
            for case, judged in cases_of(rng, zone, options.points // 20):
                cases.append(case)
                batch += judged
        found += differences(cases, ask(options.conninfo, cases))
        points, compared, slots = points + batch, compared + len(cases), slots + sum(len(c.slots) for c in cases)
    for line in found[:10]:
        print(line)
    print(f"{points} points, {compared} schedules, {len(used)} zones ({left_out} left out), {slots} slots, "
          f"{len(found)} differences, seed {options.seed}, {time.monotonic() - began:.0f} s")
    sys.exit(1 if found else 0)


main()
