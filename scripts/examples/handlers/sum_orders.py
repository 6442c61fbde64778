#!/usr/bin/env python3
"""Add up the orders of a file. stdin is {"file": "/srv/orders/2026-11-23.csv"}; each line of that file is CUSTOMER,CENTS.

Install it as sum_orders, the job type.
Exit status: 0 done; 75 not now, try again later; 65 give up; anything else has failed and is tried again after a pause.
An exception ends Python with 1, so it is a failure.
"""
import json
import os
import sys

GIVE_UP, LATER = 65, 75


def report(**members):
    """Append a line of JSON for jobrun: progress, result, checkpoint or retry_in."""
    with open(os.environ["JOBRUN_OUT"], "a", encoding="utf-8") as out:
        print(json.dumps(members), file=out)


def leave(status, message):
    print(message, file=sys.stderr)
    sys.exit(status)


payload = json.load(sys.stdin)
path = payload.get("file") if isinstance(payload, dict) else None
if not isinstance(path, str):
    leave(GIVE_UP, "the payload names no file")
try:
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
except FileNotFoundError:
    leave(LATER, f"{path} is not there yet")

cents = 0
for number, line in enumerate(lines, 1):
    price = line.rpartition(",")[2]
    if not price.isdecimal():
        leave(GIVE_UP, f"line {number}: no price")
    cents += int(price)
    if number % 100 == 0:
        report(progress={"done": number, "of": len(lines)})
report(result={"orders": len(lines), "cents": cents})
print(f"added up {len(lines)} orders")
