"""Python with psycopg 2: an order and the run that sends its invoice, both or neither."""
import os
import sys

import psycopg2
from psycopg2.extras import Json

db = psycopg2.connect(os.environ["DATABASE_URL"])
with db, db.cursor() as cursor:  # commits in the end, rolls back if there is an exception
    cursor.execute("insert into orders (item) values (%s) returning id", [sys.argv[1]])
    (order,) = cursor.fetchone()
    cursor.execute(
        "select jobrun.enqueue('send_invoice', %s, run_in => '5 minutes', idempotency_key => %s)",
        [Json({"order": order}), f"invoice-{order}"],
    )
    (run,) = cursor.fetchone()
    # Many runs of a type in one call. A list of texts needs the cast.
    mails = [Json({"order": order, "to": to}) for to in ("ada", "bob")]
    cursor.execute("select jobrun.enqueue_many('send_mail', %s::jsonb[])", [mails])
db.close()
print(run)
