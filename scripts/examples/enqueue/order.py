# order.py: an order and the runs that it needs, all or nothing
import os, sys
import psycopg
from psycopg.types.json import Jsonb

with psycopg.connect(os.environ["DATABASE_URL"]) as db:  # commits in the end, rolls back if there is an exception
    (order,) = db.execute("insert into orders (item) values (%s) returning id", [sys.argv[1]]).fetchone()
    (run,) = db.execute(
        "select jobrun.enqueue('send_invoice', %s, run_in => '5 minutes', idempotency_key => %s)",
        [Jsonb({"order": order}), f"invoice-{order}"],
    ).fetchone()
    db.execute("select jobrun.enqueue_many('send_mail', %s)", [[Jsonb({"order": order, "to": to}) for to in ("ada", "bob")]])
print(run)
