"""What every measurement needs: a private PostgreSQL, new databases, the programs, and what a command took."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
BUILD = TOP / "build" / "bench"

# As a production server would be, with a checkpoint only where a measurement asks for one, and no vacuum that comes by chance.
SERVER = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "shared_buffers": "512MB",
    "max_wal_size": "16GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}


class Failed(Exception):
    """A measurement is not possible, or a command did not do its work."""


def is_setting(name):
    """Would this variable change what is measured? JOBRUN_TEST_ID only marks the processes of a test."""
    return name.startswith(("PG", "JOBRUN")) and name != "JOBRUN_TEST_ID" or name == "DATABASE_URL"


def end_group(child):
    """TERM, so that a script can clean up; KILL if it takes too long."""
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)


def text_of(command, text=None, **more):
    """What a command prints; it must succeed. If this program is interrupted, the command and what it started end, too."""
    words = [str(word) for word in command]
    pipe = subprocess.PIPE
    more.setdefault("stdin", subprocess.DEVNULL if text is None else pipe)
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **more) as child:
        try:
            out, err = child.communicate(text)
        except BaseException:
            end_group(child)
            raise
    if child.returncode != 0:
        raise Failed("%s: exit status %d\n%s" % (" ".join(words)[:300], child.returncode, err[-2000:]))
    return out.strip()


class Lab:
    """A private cluster and a folder for one run of the benchmarks."""

    def __init__(self, jobrun, quick=False):
        self.jobrun = pathlib.Path(jobrun)
        self.settings = dict(SERVER, fsync="off") if quick else SERVER
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="jobrun-bench."))
        self.folder.chmod(0o755)
        self.handlers = self.folder / "handlers"
        self.handlers.mkdir()
        self.templates = {}
        self.databases = 0
        self.latest = None
        self.alone = False
        self.children = []
        self.peers = None
        self.server = ""
        self.environment = {k: v for k, v in os.environ.items() if not is_setting(k)}
        self.environment["LC_ALL"] = "C.UTF-8"
        self.environment["JOBRUN"] = str(self.jobrun)  # for scripts beside this one
        self.environment["JOBRUN_HANDLERS"] = str(self.handlers)
        self.environment["JOBRUN_STATE_DIR"] = str(self.folder / "state")

    def floor(self, name):
        """A program of this folder: built beside the program that is measured, else where make puts it."""
        for folder in (self.jobrun.parent / "bench", BUILD):
            if (folder / name).exists():
                return folder / name
        raise Failed("no %s; type make bench-programs" % name)

    # --- the server ---

    def pg_local(self, *arguments):
        # Files, not pipes: a server that has been started would hold a pipe open.
        out = self.folder / "pg-local.out"
        with open(out, "w+", encoding="utf-8") as file:
            done = subprocess.run([TOP / "scripts" / "pg-local", self.folder / "pg", *arguments], stdout=file, stderr=file,
                stdin=subprocess.DEVNULL, check=False)
            file.seek(0)
            text = file.read().strip()
        if done.returncode != 0:
            raise Failed(text)
        return text

    def start(self):
        options = []
        for name, value in self.settings.items():
            options += ["-o", "%s=%s" % (name, value)]
        self.programs = pathlib.Path(self.pg_local("programs"))
        self.server = self.pg_local("start", *options).rsplit(" dbname=", 1)[0]
        self.socket = self.server.split()[0].split("=", 1)[1]
        self.postmaster = int(self.sql("postgres", "select pg_read_file('postmaster.pid')").split()[0])
        self.sql("postgres", "alter database template1 is_template false;\ndrop database template1;\n")  # see autovacuum

    def warm(self):
        """As much write-ahead log as the server keeps. A new segment costs more than the work that is written to it, so
        whoever is measured first would pay for all."""
        fill = "perform pg_logical_emit_message(false, '', ''), pg_switch_wal()"
        self.sql("postgres", "do $$ begin for i in 1..128 loop %s; end loop; end $$;\ncheckpoint;\n" % fill)

    def autovacuum(self, on):
        """Once a second, so that it does not come by chance; or not at all. It visits each database once a second, also those in
        which nothing happens: so there is none besides the measured one and postgres, to which the sessions connect that create
        and drop databases. (It never visits template0.)"""
        self.alone = on
        if on:
            self.drop("datname not in ('postgres', 'template0')")
            self.templates = {}
            self.latest = None
        change = "set autovacuum = on;\nalter system set autovacuum_naptime = '1s'" if on else "reset all"
        self.sql("postgres", "alter system %s;\nselect pg_reload_conf();\n" % change)

    def stop(self):
        for child in self.children:
            child.kill()
            child.wait()
        try:
            self.pg_local("stop", "--remove")
        except Failed as failed:
            print("bench: %s" % failed, file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)

    def conninfo(self, database):
        return "%s dbname=%s" % (self.server, database)

    def url(self, database):
        """The same for programs that want a URL."""
        return "postgres://jobrun@localhost/%s?host=%s" % (database, self.socket)

    def sql(self, database, text, **variables):
        settings = [x for k, v in variables.items() for x in ("-v", "%s=%s" % (k, v))]
        return text_of([*self.psql(), *settings, self.conninfo(database)], text, env=self.environment)

    def psql(self):
        return [self.programs / "psql", "-XAtqw", "-v", "ON_ERROR_STOP=1"]

    # --- databases: each measurement has a new one, never analysed and without a dead row ---

    def template(self, name, make):
        """The name of a database to copy; make(name) fills it the first time."""
        if name not in self.templates:
            database = "like_" + name
            self.drop("datname = '%s'" % database)  # if it could not be filled before
            self.sql("postgres", "create database %s template template0" % database)
            make(database)
            self.templates[name] = database
        return self.templates[name]

    def fresh(self, template):
        """A copy of that database. The one before it goes."""
        if self.latest:
            self.drop("datname = '%s'" % self.latest)
        self.databases += 1
        self.latest = "bench%d" % self.databases
        self.sql("postgres", "create database %s template %s" % (self.latest, template))
        if self.alone:
            self.drop("datname = '%s'" % template)
            self.templates = {k: v for k, v in self.templates.items() if v != template}
        return self.latest

    def keep(self, template):
        """A copy of that database that stays until the end."""
        self.databases += 1
        name = "kept%d" % self.databases
        self.sql("postgres", "create database %s template %s" % (name, template))
        return name

    def drop(self, which):
        """Drop these databases, and end the sessions that a failed command may have left there."""
        self.sql("postgres", "select pg_terminate_backend(pid) from pg_stat_activity where " + which)
        names = self.sql("postgres", "select datname from pg_database where " + which).split()
        self.sql("postgres", "".join("drop database %s;\n" % name for name in names))

    def settle(self, database, analyze=False):
        """Before each timed command: nothing is left to write but what it writes itself."""
        if analyze:
            self.sql(database, "vacuum (analyze)")
        self.sql(database, "checkpoint")

    # --- commands ---

    def measure(self, command, database=None, **environment):
        """Seconds, processor time and largest resident set of a command that must succeed."""
        file = self.folder / "took"
        env = dict(self.environment, **{k: str(v) for k, v in environment.items()})
        if database:
            env.update(JOBRUN_DATABASE_URL=self.conninfo(database), DATABASE_URL=self.url(database))
        file.unlink(missing_ok=True)
        text_of([self.floor("measure"), file, *command], env=env, cwd=self.folder)
        return json.loads(file.read_text())

    def run(self, database, *arguments):
        return self.measure([self.jobrun, "run", *map(str, arguments)], database)

    def background(self, command, **more):
        child = subprocess.Popen([str(c) for c in command], env=self.environment, **more)
        self.children.append(child)
        return child

    def end(self, child):
        child.terminate()
        child.wait()
        self.children.remove(child)

    def handler(self, name, text, settings=None):
        (self.handlers / name).write_text(text)
        if settings is not None:
            (self.handlers / (name.rsplit(".", 1)[0] + ".json")).write_text(json.dumps(settings))

    def wait_for(self, is_true, seconds=20):
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > deadline:
                raise Failed("waited %d s in vain" % seconds)
            time.sleep(0.01)

    @contextlib.contextmanager
    def snapshot(self, database, held):
        """If held: meanwhile a session has an old snapshot, as a report or a backup has."""
        if not held:
            yield
            return
        child = self.background([*self.psql(), self.conninfo(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write("begin isolation level repeatable read;\nselect txid_current();\n")
        child.stdin.flush()
        child.stdout.readline()
        try:
            yield
        finally:
            self.end(child)

    # --- what the server did ---

    def server_cpu(self):
        """Seconds of processor time of the server so far, of the sessions that have ended, too. Ask when none is open."""
        deadline = time.monotonic() + 5
        while self.sessions() and time.monotonic() < deadline:
            time.sleep(0.01)
        total = sum(stat_times(self.postmaster))
        for pid in children_of(self.postmaster):
            total += sum(stat_times(pid)[:2])
        return total / os.sysconf("SC_CLK_TCK")

    def sessions(self):
        others = "backend_type = 'client backend' and pid <> pg_backend_pid()"
        return int(self.sql("postgres", "select count(*) from pg_stat_activity where " + others))

    def wal(self):
        return int(self.sql("postgres", "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))


def stat_times(pid):
    """utime, stime, cutime, cstime of a process, in ticks."""
    try:
        fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return [0, 0, 0, 0]
    return [int(f) for f in fields[11:15]]


def children_of(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def documents(text):
    """JSON documents that stand one after the other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found
