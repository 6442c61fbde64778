"""A proxy between a program and PostgreSQL that counts what the program sends: round trips and statements."""

import select
import shutil
import socket
import struct
import tempfile
import threading


class Proxy:
    """Listens as PostgreSQL would, in a folder of its own with a short name, as a socket needs it.

    `trips` counts Syncs and simple queries, `statements` what they execute.
    """

    def __init__(self, server_folder):
        self.folder = tempfile.mkdtemp(prefix="jobrun-trips.", dir="/tmp")
        self.target = server_folder + "/.s.PGSQL.5432"
        self.trips = self.statements = 0
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.folder + "/.s.PGSQL.5432")
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def close(self):
        self.listener.close()
        shutil.rmtree(self.folder)

    def serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.target)
        parser = Parser()
        with client, server:
            while True:
                for readable in select.select([client, server], [], [])[0]:
                    try:
                        data = readable.recv(1 << 16)
                    except ConnectionError:
                        return
                    if not data:
                        return
                    if readable is client:
                        self.count(parser.types(data))
                    (server if readable is client else client).sendall(data)

    def count(self, types):
        with self.lock:
            self.trips += sum(t in (b"S", b"Q") for t in types)
            self.statements += sum(t in (b"E", b"Q") for t in types)


class Parser:
    """Splits what a client sends into messages."""

    def __init__(self):
        self.buffer = b""
        self.started = False  # the first message has no type

    def types(self, data):
        """The types of the messages that are complete now."""
        self.buffer += data
        found = []
        while True:
            head = 5 if self.started else 4
            if len(self.buffer) < head:
                return found
            length = struct.unpack("!i", self.buffer[head - 4 : head])[0] + head - 4
            if len(self.buffer) < length:
                return found
            found.append(self.buffer[:1] if self.started else b"")
            self.started = True
            self.buffer = self.buffer[length:]
