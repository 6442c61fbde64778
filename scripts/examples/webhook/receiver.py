#!/usr/bin/env python3
"""A receiver of the webhooks that notify.json sends: receiver.py PORT SECRET_FILE. Port 0: a free one.

The secret file is that of notify.json. Make it once and copy it to the receiver; others must not be able to read it:
  umask 077; echo "whsec_$(openssl rand -base64 32)" >notify.secret

It answers 401 without a right signature, 204 otherwise. jobrun takes any 2xx as done and tries again after a 401.
Put it behind a server that speaks https.
"""
import http.server
import sys

from verify import verify

MAX_BODY = 1 << 20  # jobrun sends no more


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if length > MAX_BODY:
            return self.answer(413)
        body = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            known = verify(secret, headers, body)
        except (KeyError, ValueError):  # no signature, or no number as its time
            known = False
        if not known:
            return self.answer(401)
        # The same id may come again, after an answer that was lost. Keep the ids in your database, in the transaction
        # that does the work.
        if headers["webhook-id"] not in seen:
            print(f"{headers['jobrun-type']}: {body.decode()}", flush=True)
            seen.add(headers["webhook-id"])
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


seen = set()
with open(sys.argv[2], encoding="ascii") as file:
    secret = file.read().strip()
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
