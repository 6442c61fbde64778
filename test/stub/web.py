#!/usr/bin/env python3
"""web.py DIR [--tls CERT KEY] [--secret SECRET]: an HTTP server that behaves as badly as it is asked to.

Listens on a free port of 127.0.0.1 and writes it to DIR/port when it is ready. DIR/log gets a line of JSON for each
request (method, target, headers, body, number of the connection, verdict on the signature), DIR/connections a line for each
connection. Ends with its parent. Each path is a behaviour:

  /ok  /ping/ANYTHING  /status/NNN[?retry_after=V][&retry_date=SECONDS[&undated=1]][&body=TEXT]  /redirect  /echo
  /slow?s=SECONDS  /hang  /slowhead  /trickle           late, or never
  /hold/NAME                                                until there is a file DIR/NAME
  /endless  /bighead  /manyheads  /flood  /gzip  /tegzip    without measure
  /short  /reset  /excess  /nothttp  /drop  /badutf8        wrong
  /cuthead/NNN/status|header|folded|interim                 the connection ends within the headers
  /early  /rude                                             an answer, or the end, before the body was read
  /signed                                                   401 unless the signature verifies
  /late                                                     the first connection dies when it is used again
"""
import asyncio
import base64
import contextlib
import ctypes
import datetime
import email.utils
import gzip
import hashlib
import hmac
import json
import os
import signal
import socket
import ssl
import struct
import sys
import time
from urllib.parse import parse_qs, urlsplit

PHRASE = "Whatever"
DIRECTORY = sys.argv[1]


def option(name):
    return sys.argv[sys.argv.index(name) + 1:] if name in sys.argv else []


SECRETS = [value for flag, value in zip(sys.argv, sys.argv[1:]) if flag == "--secret"]
connections = 0
gates = {}


def gate(name):
    if name not in gates:
        gates[name] = asyncio.Event()
    return gates[name]


async def open_gates():
    while True:
        for name, event in gates.items():
            if os.path.exists(os.path.join(DIRECTORY, name)):
                event.set()
        await asyncio.sleep(0.05)


def log(name, line):
    with open(os.path.join(DIRECTORY, name), "a", encoding="utf-8") as file:
        file.write(line + "\n")


def signature_verdict(headers, body):
    """By the specification of Standard Webhooks; any secret and any signature of the list will do."""
    given = headers.get("webhook-signature")
    if given is None:
        return "none"
    if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        return "stale"
    text = headers["webhook-id"].encode() + b"." + headers["webhook-timestamp"].encode() + b"." + body
    for secret in SECRETS:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mine = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        if any(hmac.compare_digest(one, "v1," + mine) for one in given.split(" ")):
            return "good"
    return "bad"


class Cut(Exception):
    """End this connection."""


class Connection:
    def __init__(self, reader, writer, number):
        self.reader, self.writer, self.number = reader, writer, number
        self.requests = 0

    async def read_request(self):
        first = await self.reader.readexactly(1)
        if not first.isalpha():  # TLS, for one
            await self.answer(400, b"", [("Connection", "close")])
            raise Cut
        head = first + await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        pairs = [line.split(":", 1) for line in lines[1:] if line]
        self.headers = {name.lower(): value.strip() for name, value in pairs}
        if self.target == "/rude":
            raise Cut
        if self.target == "/early":
            await self.answer(413, b"too much", [("Connection", "close")])
            while await self.reader.read(65536):
                pass
            raise Cut
        self.body = await self.reader.readexactly(int(self.headers.get("content-length", 0)))
        self.requests += 1
        self.verdict = signature_verdict(self.headers, self.body)
        log("log", json.dumps({
            "method": self.method, "target": self.target, "headers": self.headers, "names": [p[0] for p in pairs],
            "body": self.body.decode("utf-8", "replace"), "connection": self.number, "signature": self.verdict}))

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, status, body=b"", headers=()):
        text = f"HTTP/1.1 {status} {PHRASE}\r\nContent-Length: {len(body)}\r\n"
        text += "".join(f"{name}: {value}\r\n" for name, value in headers)
        await self.send(text.encode("latin-1") + b"\r\n" + body)

    async def serve(self):
        while True:
            await self.read_request()
            url = urlsplit(self.target)
            name, _, rest = url.path.lstrip("/").partition("/")
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            await getattr(self, "do_" + name)(rest, query)

    # --- as it should be ---

    async def do_ok(self, _rest, _query):
        await self.answer(200)

    async def do_echo(self, _rest, _query):
        await self.answer(200, self.body)

    async def do_status(self, rest, query):
        headers = []
        if "retry_after" in query:
            headers.append(("Retry-After", query["retry_after"]))
        if "retry_date" in query:
            # A clock of its own, far from ours: what counts is the difference. Without a Date, the time that it is.
            now = datetime.datetime(2020, 2, 28, 12, 0, 0, tzinfo=datetime.timezone.utc)
            if "undated" in query:
                now = datetime.datetime.now(datetime.timezone.utc)
            then = now + datetime.timedelta(seconds=int(query["retry_date"]))
            if "undated" not in query:
                headers.append(("Date", email.utils.format_datetime(now, usegmt=True)))
            headers.append(("Retry-After", email.utils.format_datetime(then, usegmt=True)))
        await self.answer(int(rest), query.get("body", "").encode(), headers)

    async def do_ping(self, _rest, _query):
        await self.answer(200)

    async def do_redirect(self, _rest, _query):
        await self.answer(302, b"", [("Location", "/ok")])

    async def do_signed(self, _rest, _query):
        await self.answer(200 if self.verdict == "good" else 401)

    # --- late, or never ---

    async def do_slow(self, _rest, query):
        await asyncio.sleep(float(query["s"]))
        await self.answer(200)

    async def do_hang(self, _rest, _query):
        await asyncio.sleep(3600)

    async def do_hold(self, rest, _query):
        await gate(rest).wait()
        await self.answer(200, b"x" * 5000)

    async def do_slowhead(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await asyncio.sleep(0.1)
            await self.send(b"X-Slow: 1\r\n")

    async def do_trickle(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            await asyncio.sleep(0.1)
            await self.send(b"x")

    async def do_late(self, _rest, _query):
        if self.requests > 1:
            raise Cut
        await self.answer(200)

    # --- without measure ---

    async def do_endless(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await self.send(b"10000\r\n" + b"e" * 65536 + b"\r\n")

    async def do_bighead(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\nX-Big: ")
        for _ in range(100):
            await self.send(b"h" * 1048576)
        await self.send(b"\r\nContent-Length: 0\r\n\r\n")

    async def do_manyheads(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await self.send(b"".join(b"X-Head-%d: value\r\n" % i for i in range(1000)))

    async def do_flood(self, _rest, _query):
        while True:
            await self.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1000)

    async def do_gzip(self, _rest, _query):
        bomb = gzip.compress(bytes(100 * 1048576))
        await self.answer(200, bomb, [("Content-Encoding", "gzip")])

    async def do_tegzip(self, _rest, _query):
        bomb = gzip.compress(bytes(100 * 1048576))
        await self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n%x\r\n" % len(bomb) + bomb +
                        b"\r\n0\r\n\r\n")

    # --- wrong ---

    async def do_short(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
        raise Cut

    async def do_reset(self, _rest, _query):
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        raise Cut

    async def do_excess(self, _rest, _query):
        # The answer to a question that nobody has asked yet.
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def do_nothttp(self, _rest, _query):
        await self.send(b"220 mail.example.net ESMTP\r\n")
        raise Cut

    async def do_cuthead(self, rest, _query):
        status, _, where = rest.partition("/")
        head = f"HTTP/1.1 {status} {PHRASE}\r\n"
        await self.send({
            "status": head, "header": head + "X-Head: va", "folded": head + "X-Head: a\r\n b\r\n",
            "interim": "HTTP/1.1 103 Early Hints\r\n\r\n" + head}[where].encode())
        raise Cut

    async def do_drop(self, _rest, _query):
        raise Cut

    async def do_badutf8(self, _rest, _query):
        await self.answer(500, b"a\x00b\xff\xc3\xa9\xed\xa0\x80\nsecond")


async def on_connection(reader, writer):
    global connections
    connections += 1
    log("connections", str(connections))
    with contextlib.suppress(Cut, OSError, EOFError, asyncio.IncompleteReadError):
        await Connection(reader, writer, connections).serve()
    with contextlib.suppress(OSError):
        writer.close()


async def main():
    tls = option("--tls")
    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tls[0], tls[1])
    server = await asyncio.start_server(on_connection, "127.0.0.1", 0, ssl=context, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    with open(os.path.join(DIRECTORY, "port.new"), "w", encoding="ascii") as file:
        file.write(str(port))
    os.rename(os.path.join(DIRECTORY, "port.new"), os.path.join(DIRECTORY, "port"))
    opener = asyncio.create_task(open_gates())
    async with server:
        await asyncio.gather(server.serve_forever(), opener)


ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
asyncio.run(main())
