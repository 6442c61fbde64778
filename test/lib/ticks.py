#!/usr/bin/env python3
"""ticks: plan simulated ticks, and judge what firing them made of the slots, by an accounting of its own.

    ticks.py plan SEED TICKS   lines "AT,AT,...": when each of them happens, in seconds after the first
    ticks.py judge             reads what chaos/ticks.bats asks of the database; a line for each complaint, one with numbers last

The judge takes the slots of a schedule as given and nothing else: which of them a call had to account for, and how, follows
from what is known of the definition at that moment, since everything that happens to one happens under its lock.
"""

import bisect
import collections
import json
import random
import sys

SECOND = 1000000  # times are in microseconds
SKIP_GRACE = 300 * SECOND
MOST_ROWS = 100  # more of them at once are one row
MOST_RUNS = 100


def plan(seed, count):
    """A tick a minute as a rule; repeats of a minute by several hosts, up to 50 times; gaps of up to three days."""
    dice = random.Random(seed)
    ticks, minute = [], 0
    while len(ticks) < count:
        repeats = 50 if dice.random() < 0.02 else dice.randint(2, 10) if dice.random() < 0.15 else 1
        ticks += sorted(minute * 60 + dice.randint(0, 59) for _ in range(repeats))
        kind = dice.random()
        if kind < 0.7:
            minute += 1
        elif kind < 0.9:
            minute += dice.randint(2, 90)
        elif kind < 0.96:
            minute += dice.randint(90, 720)
        else:
            minute += dice.randint(720, 3 * 1440)
    return ticks[:count]


class Definition:
    """What is known of one at a moment, and which of its slots are accounted for."""

    def __init__(self, row):
        self.id = row["id"]
        self.name = row["name"]
        self.catch_up = row["catch_up"]
        self.overlap = row["overlap"]
        self.grace = row["grace"]
        self.slots = row["slots"]
        self.done = 0  # of slots
        self.enabled = True
        self.paused_until = None
        self.reason = None
        self.unfinished = []  # runs

    def why_not(self, slot):
        if not self.enabled:
            return "disabled"
        return "paused" + (": " + self.reason if self.reason else "")

    def record(self, slots, outcome, reason):
        """The rows of slots that went alike: (slot, until, how many, outcome, reason)."""
        if len(slots) > MOST_ROWS:
            return [(slots[0], slots[-1], len(slots), outcome, reason)]
        return [(slot, None, 1, outcome, reason) for slot in slots]

    def expect(self, due, at):
        """The rows that a call at this time has to make of the slots that are due."""
        rows = []
        held = at if not self.enabled else self.paused_until
        n = bisect.bisect_right(due, held) if held is not None else 0
        if n > 0:
            rows += self.record(due[:n], "skipped", self.why_not(due[0]))
        due = due[n:]
        if not due:
            return rows
        grace = self.grace if self.grace is not None else SKIP_GRACE if self.catch_up == "skip" else None
        first = len(due) - 1
        if grace is not None and due[-1] < at - grace:
            first = len(due)
        elif self.catch_up == "all":
            first = 0 if grace is None else bisect.bisect_left(due, at - grace)
            first = max(first, len(due) - MOST_RUNS)
        word = "coalesced" if self.catch_up == "once" and first < len(due) else "skipped"
        rows += self.record(due[:first], word, "missed")
        for slot in due[first:]:
            if self.overlap == "skip" and self.unfinished:
                rows.append((slot, None, 1, "skipped", "overlap: run %d waits" % min(self.unfinished)))
            else:
                rows.append((slot, None, 1, "queued", None))
        return rows


class Judge:
    def __init__(self, doc):
        self.doc = doc
        self.definitions = {row["id"]: Definition(row) for row in doc["definitions"]}
        self.calls = {row["txid"]: row for row in doc["calls"]}
        self.rows = {(row["definition"], row["slot"]): row for row in doc["slots"]}
        self.complaints = []
        self.counts = collections.Counter()

    def complain(self, text, *values):
        self.complaints.append(text % values)

    def slots_of_call(self, definition, txid, slots):
        """The rows that one call made for one definition, against those that it had to make."""
        call = self.calls.get(txid)
        if call is None:
            self.complain("%s: slots were written by no call", definition.name)
            return
        at = call["at"]
        end = bisect.bisect_right(definition.slots, at)
        due = definition.slots[definition.done : end]
        got = []
        for slot in slots:
            row = self.rows[(definition.id, slot)]
            got.append((slot, row["until"], row["slots"], row["outcome"], row["reason"]))
            self.counts[row["outcome"] + " " + (row["reason"] or "").split(":")[0]] += row["slots"]
        got.sort()
        if got and (got[0][4] or "").startswith("error: bad luck"):
            wanted = definition.record(due, "skipped", "error: bad luck")
        else:
            wanted = definition.expect(due, at)
        if got != wanted:
            self.complain("%s: the call at %s had %s to do for %s and did %s", definition.name, at, shown(wanted),
                shown([(slot,) for slot in due]), shown(got))
        told = sum(row["slots"] for row in call["told"] or [] if row["definition"] == definition.name)
        if told != sum(row[2] for row in got):
            self.complain("%s: the call at %s told of %d slots", definition.name, at, told)
        # Go on from where it is, so that one mistake is one complaint.
        definition.done = max(definition.done, end)
        self.counts["calls with more than one due"] += len(due) > 1

    def events(self):
        """In their order, which is that of the locks; the slots of a call together, before the runs that they made."""
        pending = {}  # definition -> (txid, slots, runs)
        for event in self.doc["events"]:
            definition = self.definitions[event["definition"]]
            if definition in pending and pending[definition][0] != event["txid"]:
                self.close(definition, pending.pop(definition))
            if event["kind"] in ("slot", "run") and event["txid"] in self.calls:
                pending.setdefault(definition, (event["txid"], [], []))
                pending[definition][1 if event["kind"] == "slot" else 2].append(event["what"])
            elif event["kind"] == "slot":
                self.slots_of_call(definition, event["txid"], [event["what"]])
            elif event["kind"] == "end":
                definition.unfinished = [run for run in definition.unfinished if run != event["what"]]
            elif event["kind"] == "state":
                definition.enabled = event["enabled"]
                definition.paused_until = event["paused_until"]
                definition.reason = event["reason"]
            else:
                self.complain("%s: run %d was made by no call", definition.name, event["what"])
        for definition, group in pending.items():
            self.close(definition, group)

    def close(self, definition, group):
        txid, slots, runs = group
        self.slots_of_call(definition, txid, slots)
        definition.unfinished += runs
        if definition.overlap == "skip" and len(definition.unfinished) > 1:
            self.complain("%s: runs %s at once", definition.name, definition.unfinished)

    def ends(self):
        """What must hold of all of it together: every slot once, and a run for each that was queued."""
        last = max(row["at"] for row in self.doc["calls"])
        for definition in self.definitions.values():
            due = bisect.bisect_right(definition.slots, last)
            rows = [row for row in self.doc["slots"] if self.definitions[row["definition"]] is definition]
            covered = []
            for row in rows:
                i = bisect.bisect_left(definition.slots, row["slot"])
                covered += definition.slots[i : i + row["slots"]]
            for what, slots in (
                ("missing", set(definition.slots[:due]) - set(covered)),
                ("there twice", {slot for slot, n in collections.Counter(covered).items() if n > 1}),
                ("there and not due", set(covered) - set(definition.slots[:due])),
            ):
                if slots:
                    self.complain("%s: %d slots are %s, the first at %s", definition.name, len(slots), what, min(slots))
            self.counts["slots"] += due
        runs = collections.Counter((row["definition"], row["slot"]) for row in self.doc["runs"])
        queued = collections.Counter((row["definition"], row["slot"]) for row in self.doc["slots"] if row["outcome"] == "queued")
        for definition, slot in (runs - queued) + (queued - runs):
            self.complain("%s: %d runs of the slot at %s", self.definitions[definition].name, runs[(definition, slot)], slot)
        ids = {row["id"]: (row["definition"], row["slot"]) for row in self.doc["runs"]}
        for row in self.doc["slots"]:
            if row["outcome"] == "queued" and ids.get(row["run_id"]) != (row["definition"], row["slot"]):
                self.complain("%s: the slot at %s names run %s, which is another's", self.definitions[row["definition"]].name,
                    row["slot"], row["run_id"])
        self.counts["calls"] = len(self.calls)
        self.counts["runs"] = len(self.doc["runs"])


def shown(rows):
    return "%d rows %s" % (len(rows), " ".join(map(str, rows[:4])) + (" ..." if len(rows) > 4 else ""))


def main():
    if sys.argv[1] == "plan":
        print(",".join(map(str, plan(int(sys.argv[2]), int(sys.argv[3])))))
        return
    judge = Judge({what: rows or [] for what, rows in json.load(sys.stdin).items()})
    judge.events()
    judge.ends()
    for complaint in judge.complaints:
        print(complaint)
    print("judged: " + ", ".join("%d %s" % (n, what.strip()) for what, n in sorted(judge.counts.items())))


main()
