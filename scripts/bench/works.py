"""What is measured: for each work its contenders, and the rows of the table that it gives.

A contender's function does the work once and returns what it took. The contenders of a work take turns (A B C A B C), so
that what disturbs the machine for a while disturbs all of them.
"""

import dataclasses
import shutil
import statistics
import typing

import peers
from lab import HERE, Failed, text_of
from proxy import Proxy

FAST = "noop"  # the job type of the statement that does nothing, for a thousand runs at once


@dataclasses.dataclass
class Contender:
    who: str
    kind: str  # jobrun, floor or peer
    sample: typing.Callable[[], dict]


@dataclasses.dataclass
class Target:
    """At least, or at most, so many times what that contender reached; or, without one, this number itself."""

    bound: float
    against: str = ""


@dataclasses.dataclass
class Row:
    title: str
    metric: str
    unit: str
    targets: list
    who: str = "jobrun"
    higher: bool = True  # is more better?


@dataclasses.dataclass
class Work:
    name: str
    contenders: list
    rows: list
    times: int = 1  # samples a repetition: a quick thing is measured more often
    once: bool = False  # one repetition: what it calls repeats by itself, or it is exact
    # Of a table with a line for each contender: heading, (metric, unit).
    columns: dict = dataclasses.field(default_factory=dict)
    notes: list = dataclasses.field(default_factory=list)


def rate(took, n):
    took["rate"] = n / took["seconds"]
    return took


def expect(lab, database, n, question, what):
    found = int(lab.sql(database, question))
    if found != n:
        raise Failed("%s: %d of %d are done" % (what, found, n))


# --- databases ---


def make_jobrun(lab):
    """Migrated, with nothing due. A copy of it is not to be told that it is one, hence the nulls."""

    def make(name):
        lab.measure([lab.jobrun, "migrate"], name)
        lab.sql(name, (HERE / "sql" / "jobrun.sql").read_text())

    return lab.template("jobrun", make)


def make_queue(lab):
    return lab.template("queue", lambda name: lab.sql(name, (HERE / "sql" / "queue.sql").read_text()))


def jobrun_with(lab, job_type, n):
    """A new database with n runs of this type."""
    database = lab.fresh(make_jobrun(lab))
    lab.sql(database, (HERE / "sql" / "jobrun_fill.sql").read_text(), job_type=job_type, n=n)
    return database


def queue_with(lab, n):
    database = lab.fresh(make_queue(lab))
    lab.sql(database, (HERE / "sql" / "queue_fill.sql").read_text(), n=n)
    return database


def all_succeeded(lab, database, n):
    expect(lab, database, n, "select count(*) from jobrun.job_runs where status = 'succeeded'", "jobrun")


def drain_jobrun(lab, job_type, n, *options, analyze=False, held=False):
    """One runner, from its start to its end, with n runs waiting."""
    database = jobrun_with(lab, job_type, n)
    lab.settle(database, analyze)
    with lab.snapshot(database, held):
        took = lab.run(database, *options)
    all_succeeded(lab, database, n)
    return rate(took, n)


def run_drain(lab, database, name):
    texts = [HERE / "sql" / (name + "_claim.sql"), HERE / "sql" / (name + "_done.sql")]
    return lab.measure([lab.floor("drain"), lab.conninfo(database), *texts])


def drain_queue(lab, n):
    database = queue_with(lab, n)
    lab.settle(database)
    took = run_drain(lab, database, "queue")
    expect(lab, database, n, "select count(*) from queue_runs where status = 2", "drain")
    return rate(took, n)


# --- handlers ---


def tiny(lab):
    """A program of the smallest size."""
    program = lab.handlers / "tiny"
    shutil.copy("/bin/true", program)
    program.chmod(0o755)
    return program


def effect_handler(lab):
    lab.handler("effect.sql", "insert into public.effects (n) values (($1 ->> 'n')::bigint)\n")


def fast_handler(lab):
    lab.handler(FAST + ".sql", "select null::bigint, null::text, null::text where $1 is null\n", {"batch": 1000})


def call_handler(lab, delay):
    """A request to that server: job type call0, call10, ..."""
    url = serve(lab, delay)
    lab.handler("call%d.json" % delay, '{"http": {"url": "%s"}}\n' % url)
    return url


# --- the works ---


def tick(lab, options):
    """A tick with an empty queue, which is what most ticks of a crontab line find."""
    tiny(lab)
    database = lab.keep(make_jobrun(lab))
    queue = lab.keep(make_queue(lab))
    texts = [HERE / "sql" / "tick_begin.sql", HERE / "sql" / "tick_end.sql"]
    psql = [lab.programs / "psql", "-XAtqw", "-c", "select 1"]

    def units(took):
        return {"ms": took["seconds"] * 1e3, "cpu_ms": took["cpu"] * 1e3, "rss_mib": took["rss_kib"] / 1024}

    contenders = [
        Contender("jobrun", "jobrun", lambda: units(lab.run(database))),
        Contender("C, libpq", "floor", lambda: units(lab.measure([lab.floor("queries"), lab.conninfo(queue), *texts]))),
        Contender("psql -c", "floor", lambda: units(lab.measure([*psql, lab.conninfo(queue)]))),
    ]
    if lab.peers:
        worker = lab.keep(peers.make_worker(lab))
        contenders.append(Contender("graphile-worker", "peer", lambda: units(peers.run_worker(lab, worker, "single"))))
    floor, shell, peer = Target(0, "C, libpq"), Target(0, "psql -c"), Target(0, "graphile-worker")
    rows = [
        Row("tick, empty queue", "ms", "ms", [Target(1.3, floor.against), shell, peer], higher=False),
        Row("its processor time", "cpu_ms", "ms", [Target(1.4, floor.against), peer], higher=False),
        Row("its largest resident set", "rss_mib", "MiB", [Target(10), floor, peer], higher=False),
    ]
    return Work("tick", contenders, rows, times=1 if options.quick else 30)


def executables(lab, options):
    """Programs as small as /bin/true, four at once."""
    n = 40 if options.quick else 2000
    program = tiny(lab)
    spawn = [lab.floor("spawn"), n, 4, program]
    xargs = ["sh", "-c", 'seq "$1" | xargs -P4 -n1 "$2"', "sh", n, program]

    def worker():
        database = peers.worker_with(lab, "spawn", n)
        lab.settle(database)
        took = peers.run_worker(lab, database, "spawn", PROGRAM=program)
        peers.worker_is_empty(lab, database)
        return rate(took, n)

    contenders = [
        Contender("jobrun", "jobrun", lambda: drain_jobrun(lab, "tiny", n, "-j", 4)),
        Contender("posix_spawn", "floor", lambda: rate(lab.measure(spawn), n)),
        Contender("xargs -P4 -n1", "floor", lambda: rate(lab.measure(xargs), n)),
    ]
    if lab.peers:
        contenders.append(Contender("graphile-worker", "peer", worker))
    targets = [Target(0.75, "posix_spawn"), Target(1.1, "xargs -P4 -n1"), Target(2.5, "graphile-worker")]
    return Work("exec", contenders, [Row("%s programs like /bin/true, 4 at once" % count(n), "rate", "/s", targets)])


def statements(lab, options):
    """Statements with an effect, each in a transaction of its own."""
    n = 100 if options.quick else 20000
    effect_handler(lab)
    jobs = best_jobs(lab, options, "effect", n, [4, 10, 24])

    def pgbench():
        database = jobrun_with(lab, "effect", n // jobs * jobs)
        lab.settle(database)
        took = lab.measure([lab.programs / "pgbench", "-n", "-c", jobs, "-j", 1, "-t", n // jobs, "-M", "prepared", "-D", "n=0",
            "-D", "each=%d" % (n // jobs), "-f", HERE / "sql" / "pgbench_run.sql", lab.conninfo(database)])
        all_succeeded(lab, database, n // jobs * jobs)
        return rate(took, n // jobs * jobs)

    def jobrun():
        took = drain_jobrun(lab, "effect", n, "--sql-jobs", jobs)
        expect(lab, lab.latest, n, "select count(*) from public.effects", "effects")
        return took

    def worker():
        database = peers.worker_with(lab, "effect", n)
        lab.settle(database)
        took = peers.run_worker(lab, database, "single", GW_JOBS=jobs)
        peers.worker_is_empty(lab, database)
        expect(lab, database, n, "select count(*) from public.effects", "effects")
        return rate(took, n)

    contenders = [
        Contender("jobrun", "jobrun", jobrun),
        Contender("pgbench", "floor", pgbench),
    ]
    if lab.peers:
        contenders.append(Contender("graphile-worker", "peer", worker))
    targets = [Target(0.5, "pgbench"), Target(1.0, "graphile-worker")]
    title = "%s statements, one by one" % count(n)
    notes = ["%s: --sql-jobs %d was the fastest of 4, 10 and 24; pgbench and graphile-worker have as many connections" % (title, jobs)]
    return Work("sql", contenders, [Row(title, "rate", "/s", targets)], notes=notes)


def best_jobs(lab, options, job_type, n, choices):
    """The number of connections that is fastest here, by the medians of three tries of each, in turns."""
    if options.quick:
        return choices[-1]
    tries = {jobs: [] for jobs in choices}
    for turn in range(3):
        for jobs in choices[:: -1 if turn % 2 else 1]:
            tries[jobs].append(drain_jobrun(lab, job_type, n, "--sql-jobs", jobs)["rate"])
    rates = {jobs: statistics.median(found) for jobs, found in tries.items()}
    options.say("  %s with --sql-jobs: %s" % (job_type, ", ".join("%d: %.0f/s" % item for item in rates.items())))
    return max(rates, key=rates.get)


def drains(lab, options, name, n):
    """Runs that do nothing, a thousand a statement: what the queue itself takes."""
    fast_handler(lab)
    jobs = best_jobs(lab, options, FAST, n, [1, 2, 3, 4])
    arguments = (lab, FAST, n, "--sql-jobs", jobs)

    def worker(held=False):
        database = peers.worker_with(lab, "noop", n)
        lab.settle(database)
        with lab.snapshot(database, held):
            took = peers.run_worker(lab, database, "batched")
        peers.worker_is_empty(lab, database)
        return rate(took, n)

    def boss():
        database = peers.boss_with(lab, n)
        lab.settle(database)
        took = peers.run_boss(lab, database, "drain")
        expect(lab, database, n, "select count(*) from pgboss.job where name = 'noop' and state = 'completed'", "pg-boss")
        return rate(took, n)

    def pgmq():
        database = peers.pgmq_with(lab, n)
        lab.settle(database)
        took = run_drain(lab, database, "pgmq")
        expect(lab, database, n, "select count(*) from pgmq.a_noop", "PGMQ")
        return rate(took, n)

    contenders = [
        Contender("jobrun", "jobrun", lambda: drain_jobrun(*arguments)),
        Contender("jobrun, after ANALYZE", "jobrun", lambda: drain_jobrun(*arguments, analyze=True)),
        Contender("C, a lease a row", "floor", lambda: drain_queue(lab, n)),
    ]
    if lab.peers:
        contenders.append(Contender("graphile-worker", "peer", worker))
        contenders.append(Contender("pg-boss", "peer", boss))
    if options.pgmq:
        contenders.append(Contender("PGMQ, archive", "peer", pgmq))
    targets = [Target(0.75, "C, a lease a row"), Target(1.4, "graphile-worker"), Target(1.4, "pg-boss")]
    title = "%s statements that do nothing" % count(n)
    rows = [
        Row(title + ", a thousand at once", "rate", "/s", [*targets, Target(0, "PGMQ, archive")]),
        Row("the same after ANALYZE", "rate", "/s", targets, who="jobrun, after ANALYZE"),
    ]
    if name == "drain-large":
        held, peer = "jobrun, old snapshot", "graphile-worker, old snapshot"
        contenders.append(Contender(held, "jobrun", lambda: drain_jobrun(*arguments, held=True)))
        if lab.peers:
            contenders.append(Contender(peer, "peer", lambda: worker(True)))
        rows.append(Row("the same while a session holds an old snapshot", "rate", "/s", [Target(1.6, peer)], who=held))
        rows.append(Row("its time", "seconds", "s", [Target(1.25, "jobrun")], who=held, higher=False))
    notes = ["%s: --sql-jobs %d was the fastest of 1 to 4" % (title, jobs)]
    if name in VACUUMED:
        notes.append("%s: autovacuum comes once a second, and there is no other database for it" % title)
    return Work(name, contenders, rows, notes=notes)


def drain(lab, options):
    return drains(lab, options, "drain", 2000 if options.quick else 20000)


def drain_large(lab, options):
    """As many that dead rows slow down who leaves them where they are looked for: with autovacuum, see VACUUMED."""
    return drains(lab, options, "drain-large", 4000 if options.quick else 200000)


def requests(lab, options):
    """HTTP requests to a server on this host: to one that answers at once, and to one that takes 10 ms."""
    n = 100 if options.quick else 2000
    contenders, rows = [], []
    for delay, title in ((0, "%s HTTP requests, 64 at once"), (10, "the same, to a server that takes 10 ms")):
        name = "" if delay == 0 else ", 10 ms"
        url = call_handler(lab, delay)
        job_type, command = "call%d" % delay, [lab.floor("requests"), url, n, 64]
        contenders.append(Contender("jobrun" + name, "jobrun", lambda t=job_type: drain_jobrun(lab, t, n, "--http-jobs", 64)))
        contenders.append(Contender("curl_multi" + name, "floor", lambda c=command: rate(lab.measure(c), n)))
        title = title % count(n) if "%" in title else title
        rows.append(Row(title, "rate", "/s", [Target(0.6, "curl_multi" + name)], who="jobrun" + name))
    return Work("http", contenders, rows)


def serve(lab, delay):
    """The HTTP server that answers after so many milliseconds; it stays until the end."""
    port = lab.folder / ("port%d" % delay)
    if not port.exists():
        lab.background([lab.floor("answer"), port, delay])
    lab.wait_for(lambda: port.exists() and port.read_text().endswith("\n"))
    return "http://127.0.0.1:%s/" % port.read_text().strip()


def bulk(lab, options):
    """Many runs at once. Their payloads are there before, as text: in a table, or in a file for those that read one."""
    n = 2000 if options.quick else 200000
    lines = lab.folder / "payloads"
    lines.write_text("".join('{"n": %d}\n' % i for i in range(n)))

    def psql(database, name):
        lab.settle(database)
        settings = ["-v", "job_type=noop", "-o", "/dev/null"]
        return rate(lab.measure([*lab.psql(), *settings, "-f", name, lab.conninfo(database)]), n)

    def payloads(template):
        database = lab.fresh(template)
        lab.sql(database, (HERE / "sql" / "many_payloads.sql").read_text(), n=n)
        return database

    def many():
        database = payloads(make_jobrun(lab))
        took = psql(database, HERE / "sql" / "jobrun_many.sql")
        expect(lab, database, n, "select count(*) from jobrun.job_runs", "enqueue_many")
        return took

    def batch():
        database = lab.fresh(make_jobrun(lab))
        lab.settle(database)
        took = lab.measure([lab.jobrun, "enqueue", "noop", "--batch", lines], database)
        expect(lab, database, n, "select count(*) from jobrun.job_runs", "enqueue --batch")
        return rate(took, n)

    def copy():
        database = lab.fresh(make_jobrun(lab))
        file = lab.folder / "copy.sql"
        rows = lab.folder / "rows"
        rows.write_text("".join('noop\t{"n": %d}\n' % i for i in range(n)))
        file.write_text("\\copy jobrun.job_runs (job_type, payload) from '%s'\n" % rows)
        took = psql(database, file)
        expect(lab, database, n, "select count(*) from jobrun.job_runs", "copy")
        return took

    def add_jobs(name):
        database = payloads(peers.make_worker(lab))
        took = psql(database, HERE / "sql" / name)
        expect(lab, database, n, "select count(*) from graphile_worker.jobs", "add_jobs")
        return took

    contenders = [
        Contender("jobrun", "jobrun", many),
        Contender("jobrun enqueue --batch", "jobrun", batch),
        Contender("COPY into job_runs", "floor", copy),
    ]
    if lab.peers:
        contenders.append(Contender("graphile-worker", "peer", lambda: add_jobs("worker_many.sql")))
        contenders.append(Contender("graphile-worker, row()", "peer", lambda: add_jobs("worker_rows.sql")))
    targets = [Target(0.8, "COPY into job_runs"), Target(1.1, "graphile-worker"), Target(0, "graphile-worker, row()")]
    rows = [
        Row("enqueue %s runs, `enqueue_many`" % count(n), "rate", "/s", targets),
        Row("the same, `jobrun enqueue --batch`", "rate", "/s", targets, who="jobrun enqueue --batch"),
    ]
    return Work("bulk", contenders, rows)


def single(lab, options):
    """Runs enqueued one by one, each in a transaction of its own, as an application does."""
    each = 50 if options.quick else 3000

    def enqueue(template, name, clients):
        database = lab.fresh(template)
        lab.settle(database)
        command = [lab.programs / "pgbench", "-n", "-c", clients, "-t", each, "-f", HERE / "sql" / name, lab.conninfo(database)]
        return rate(lab.measure(command), each * clients)

    def add_job(clients):
        return enqueue(peers.make_worker(lab), "pgbench_add_job.sql", clients)

    contenders, rows = [], []
    for clients in (1, 4):
        name = "" if clients == 1 else ", 4 clients"
        who, peer = "jobrun" + name, "graphile-worker" + name
        contenders.append(Contender(who, "jobrun", lambda c=clients: enqueue(make_jobrun(lab), "pgbench_enqueue.sql", c)))
        if lab.peers:
            contenders.append(Contender(peer, "peer", lambda c=clients: add_job(c)))
        rows.append(Row("enqueue one by one" + (name or ", 1 client"), "rate", "/s", [Target(1.0, peer)], who=who))
    return Work("single", contenders, rows)


def pickup(lab, options):
    """From the COMMIT of an enqueue to the start of its handler, with a runner that stays."""
    n = 10 if options.quick else 150

    def sample(who):
        environment = dict(lab.environment, PEERS=str(peers.FOLDER))
        p50, p99, most = map(float, text_of([HERE / "latency", "--of", who, "--tsv", n], env=environment).split("\t"))
        return {"p50": p50, "p99": p99, "max": most}

    floor, peer = "C, libpq and posix_spawn", "graphile-worker"
    contenders = [
        Contender("jobrun", "jobrun", lambda: sample("jobrun")),
        Contender(floor, "floor", lambda: sample("floor")),
    ]
    if lab.peers:
        contenders.append(Contender(peer, "peer", lambda: sample(peer)))
    beside = [Target(0, floor), Target(0, peer)]
    rows = [
        Row("from COMMIT to the start of its handler, `run --for`: p50", "p50", "ms", [Target(3), *beside], higher=False),
        Row("p99 of that", "p99", "ms", [Target(10), *beside], higher=False),
    ]
    return Work("pickup", contenders, rows)


CASES = {
    # the case of scripts/bench/claim: what the row says, its target as a multiple of an empty table, and in ms
    "finished": ("with %s finished runs", 1.5, 0),
    "future": ("with %s future runs of a better priority", 1.5, 0),
    "foreign-types": ("with %s waiting runs of foreign types", 1.5, 0),
    "full-key": ("with %s runs of one full lock key", 0, 20),
    "paused-definition": ("with %s runs of one paused definition", 0, 20),
}


def claims(lab, options):
    """A claim of 100 runs, with many rows ahead that cannot be claimed, or beside others. Statements alone, warm; in
    another table each."""
    n = 1000 if options.quick else 1000000

    def sample(case):
        rows = 10 * n if options.full and case == "finished" else n
        conninfo = lab.conninfo(lab.fresh(make_jobrun(lab)))
        numbers = ["--claim", 100, "--rows", rows, "--times", 3 if options.quick else 101]
        line = text_of([HERE / "claim", "--database", conninfo, *numbers, "--tsv", case], env=lab.environment)
        _, candidates, _, claim, _ = line.split("\t")
        return {"ms": float(candidates) + float(claim)}

    base, alone, beside = "an empty table", "one claimer", "claimers"
    sample("nothing")  # the first one finds a cold server
    contenders = [Contender(base, "jobrun", lambda: sample("nothing"))]
    rows = [Row("a claim of 100 runs, nothing else in the table", "ms", "ms", [Target(0)], who=base, higher=False)]
    for case, (title, times, most) in CASES.items():
        contenders.append(Contender(case, "jobrun", lambda c=case: sample(c)))
        targets = [Target(times, base)] if times else [Target(most)]
        many = 10 * n if options.full and case == "finished" else n
        rows.append(Row("... " + (title % count(many) if "%" in title else title), "ms", "ms", targets, who=case, higher=False))
    floor, floor_beside = "C, a lease a row", "C, a lease a row, beside 4"
    contenders.append(Contender(alone, "jobrun", lambda: sample("alone")))
    contenders.append(Contender(beside, "jobrun", lambda: sample("claimers")))
    contenders.append(Contender(floor, "floor", lambda: sample("queue")))
    contenders.append(Contender(floor_beside, "floor", lambda: sample("queue-claimers")))
    rows.append(Row("claims of 100, one after the other, each committed", "ms", "ms", [Target(0, floor)], who=alone, higher=False))
    targets = [Target(3, alone), Target(0, floor_beside)]
    rows.append(Row("... beside 4 others that do the same", "ms", "ms", targets, who=beside, higher=False))
    return Work("claim", contenders, rows)


KINDS = {
    # the kind of handler: its job type, options of the runner, how many runs
    "exec": ("tiny", ["-j", 4], 2000),
    "sql": ("effect", ["--sql-jobs", 4], 2000),
    "sql, batched": (FAST, ["--sql-jobs", 1], 20000),
    "http": ("call0", ["--http-jobs", 64], 2000),
    "jobrun.noop": ("jobrun.noop", ["-j", 64], 20000),
}


def costs(lab, options):
    """What a run costs the server, by kind: its processor time, its write-ahead log, the round trips."""
    tiny(lab)
    effect_handler(lab)
    fast_handler(lab)
    call_handler(lab, 0)

    def sample(kind):
        job_type, arguments, n = KINDS[kind]
        n = n // 100 if options.quick else n
        database = jobrun_with(lab, job_type, n)
        cpu, wal = lab.server_cpu(), lab.wal()
        lab.run(database, *arguments)
        took = {"wal_bytes": (lab.wal() - wal) / n, "cpu_us": (lab.server_cpu() - cpu) * 1e6 / n}
        all_succeeded(lab, database, n)
        took.update(trips(lab, jobrun_with(lab, job_type, n), arguments, n))
        return took

    contenders = [Contender(kind, "jobrun", lambda k=kind: sample(k)) for kind in KINDS]
    title = "write-ahead log of a run that does nothing (jobrun.noop)"
    rows = [Row(title, "wal_bytes", "bytes", [Target(900)], who="jobrun.noop", higher=False)]
    columns = {
        "processor time of the database": ("cpu_us", "us"),
        "write-ahead log": ("wal_bytes", "bytes"),
        "round trips": ("trips", ""),
        "statements": ("statements", ""),
    }
    return Work("cost", contenders, rows, once=True, columns=columns)


def trips(lab, database, arguments, n):
    """The round trips of a runner, for each run: counted between it and the server, which makes it slower."""
    proxy = Proxy(lab.socket)
    try:
        lab.measure([lab.jobrun, "-d", "host=%s user=jobrun dbname=%s" % (proxy.folder, database), "run", *arguments])
    finally:
        proxy.close()
    all_succeeded(lab, database, n)
    return {"trips": proxy.trips / n, "statements": proxy.statements / n}


def count(n):
    return "{:,}".format(n)


ALL = {
    "tick": tick,
    "exec": executables,
    "sql": statements,
    "drain": drain,
    "drain-large": drain_large,
    "http": requests,
    "bulk": bulk,
    "single": single,
    "pickup": pickup,
    "claim": claims,
    "cost": costs,
}

# Works with autovacuum on. The others are too short for it: it would only disturb one of them by chance.
VACUUMED = {"drain-large"}
