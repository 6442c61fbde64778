"""The peers: graphile-worker and pg-boss from the npm registry, as peers/package-lock.json says; PGMQ from a file."""

import json
import re
import shutil

from lab import BUILD, HERE, Failed, text_of

FOLDER = BUILD / "peers"
OLDEST_NODE = 20  # pg-boss 10 asks for it; graphile-worker 0.17 is content with 14


def install(lab, say):
    """Put them into build/bench/peers; what is missing for that is said, and then they are not measured."""
    reason = missing()
    if not reason and not is_installed():
        say("installing the peers into %s" % FOLDER)
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(HERE / "peers", FOLDER)
        try:
            text_of(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=FOLDER)
        except Failed as failed:
            reason = str(failed)
            shutil.rmtree(FOLDER, ignore_errors=True)
    if reason:
        say("peers are not measured: %s" % reason)
        return
    # The programs of this folder are small and change without the packages.
    shutil.copytree(HERE / "peers", FOLDER, dirs_exist_ok=True)
    lab.peers = versions()


def missing():
    try:
        node = text_of(["node", "--version"])
        text_of(["npm", "--version"])
    except (OSError, Failed):
        return "no node and npm here; install Node.js %d or newer (Debian 12 has 18, Debian 13 has 20)" % OLDEST_NODE
    if int(re.match(r"v(\d+)", node).group(1)) < OLDEST_NODE:
        return "Node.js is %s; install %d or newer (Debian 12 has 18, Debian 13 has 20)" % (node, OLDEST_NODE)
    return ""


def is_installed():
    if not (FOLDER / "node_modules" / ".package-lock.json").exists():
        return False
    return (FOLDER / "package-lock.json").read_bytes() == (HERE / "peers" / "package-lock.json").read_bytes()


def versions():
    found = {"node": text_of(["node", "--version"]).lstrip("v")}
    for name in ("graphile-worker", "pg-boss"):
        found[name] = json.loads((FOLDER / "node_modules" / name / "package.json").read_text())["version"]
    return found


# --- graphile-worker ---


def run_worker(lab, database, settings, *options, **environment):
    program = FOLDER / "node_modules" / ".bin" / "graphile-worker"
    command = [program, "-c", lab.url(database), "-C", FOLDER / "graphile.config.js", *(options or ["--once"])]
    return lab.measure(command, GW=settings, NODE_ENV="production", **environment)


def make_worker(lab):
    def make(name):
        run_worker(lab, name, "single", "--schema-only")
        lab.sql(name, "create table public.effects (n bigint)")

    return lab.template("worker", make)


def worker_with(lab, task, n):
    database = lab.fresh(make_worker(lab))
    lab.sql(database, (HERE / "sql" / "worker_fill.sql").read_text(), job_type=task, n=n)
    return database


def worker_is_empty(lab, database):
    left = lab.sql(database, "select count(*) from graphile_worker.jobs")
    if left != "0":
        raise Failed("graphile-worker: %s jobs are left" % left)


# --- pg-boss ---


def run_boss(lab, database, *arguments):
    return lab.measure(["node", FOLDER / "pg-boss.js", *arguments], database, NODE_ENV="production")


def boss_with(lab, n):
    database = lab.fresh(lab.template("boss", lambda name: run_boss(lab, name, "migrate")))
    run_boss(lab, database, "fill", n)
    return database


# --- PGMQ: no registry has it as SQL alone, so it is measured if a file is named ---


def pgmq_with(lab, n):
    def make(name):
        lab.sql(name, lab.pgmq.read_text())
        lab.sql(name, "select pgmq.create('noop')")

    database = lab.fresh(lab.template("pgmq", make))
    lab.sql(database, (HERE / "sql" / "pgmq_fill.sql").read_text(), n=n)
    return database
