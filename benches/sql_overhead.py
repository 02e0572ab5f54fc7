#!/usr/bin/env python3
"""What it costs a query to be measured by `fathom sql`: a real PostgreSQL and MariaDB on loopback, and the same query by

* fathom: as it ships, and recorded: kernel stamps, looks at the server on a second connection, round trips beside;
* unrecorded: the same without --record, which is as much as it can be told to leave out;
* plain: plain_query.c, which sends the same requests, reads the answer and measures nothing but its time; it waits in recv;
* polls: the same, which waits in poll, as fathom does: what measuring adds is against that;
* before (with --before): as fathom, by another build;
* psql (PostgreSQL alone): the time of its `\\timing`; libpq keeps every row of an answer.

What is compared is the query's wall time as each client takes it, from before the request to the end of the answer: so whatever
measuring adds is in it, be it in this client, in the server or in the kernel. Nothing is between the two but loopback, and the
client has one processor and the server the other, with all that looks and round trips beside make each of them do: on
machines of their own, and over a path, it is less. In each round every client asks on two new connections, in an order of chance and then in
the reverse one, so that what drifts hits all alike; the first query of a connection is left out. What is told are the medians of the
rounds' differences and ratios, with the interval (95 %) that a bootstrap over the rounds gives them. As root, with PostgreSQL (Debian: postgresql), MariaDB (mariadb-server-core, mariadb-client-core) and cc.

With --processor it is told instead how much processor time a query takes of each client, with all its threads, user and system: of
runs of one and of three times as many queries the difference, so that beginning and end are in none. It needs no quiet machine, and knows
nothing of what this side's packets make server and kernel do.

With --rtt the two are hosts of the fabric, with a path of this round trip between them; what emulates it needs a processor, too, so that no
process has one of its own there.

With --work the server of PostgreSQL counts before it makes the first row, so that the query takes longer and nothing else is another.

    sudo benches/sql_overhead.py [--rtt MS] [--work N] [--fathom FILE] [--before FILE] [--only DATABASE] [--rounds N] [--rows N,...] [--seconds S]
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from shared import interval

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOST, USER, DATABASE = "127.0.0.1", "reader", "bench"
NEAR, FAR = "10.97.1.1", "10.97.0.1"
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
SERVER_CPU, CLIENT_CPU = 0, 1
ROW_BYTES = 100
QUICK = {1_000: 1.0, 10_000: 6.0, 100_000: 60.0}
"""ms that a query about takes: how many fill the time."""


def on_cpu(cpu, words):
    return ["taskset", "--cpu-list", str(cpu), *words] if cpu is not None else list(words)


def free_port():
    with socket.create_server((HOST, 0)) as free:
        return free.getsockname()[1]


@contextlib.contextmanager
def listening(words, home, ready):
    """A server of which the log says that it is ready."""
    log = home / "log"
    with log.open("w") as out, subprocess.Popen(words, cwd=home, stdout=subprocess.DEVNULL, stderr=out) as server:
        try:
            until = time.monotonic() + 30
            while ready not in log.read_text():
                if time.monotonic() > until or server.poll() is not None:
                    sys.exit(log.read_text())
                time.sleep(0.05)
            yield
        finally:
            server.send_signal(signal.SIGINT if "PostgreSQL" in ready or "database system" in ready else signal.SIGTERM)
            server.wait(20)


def near():
    """On loopback: what a server and a client are started with, and where the server listens."""
    return contextlib.nullcontext(([], [], HOST))


@contextlib.contextmanager
def behind(rtt_ms, fathom, directory):
    """The same over a path of the fabric of this round trip, which is taken away again."""
    name, half = f"bench-sql-{os.getpid()}", f"{round(rtt_ms * 5e5)}ns"
    scenario = directory / "scenario.toml"
    scenario.write_text(
        f'format = 1\n[[host]]\nname = "server"\naddress = "{FAR}"\n[[host]]\nname = "client"\naddress = "{NEAR}"\n'
        f'[[path]]\nlabel = "path"\nfrom = "client"\nto = "server"\nboth = {{ delay = "{half}" }}\n'
    )
    run([fathom, "fabric", "up", str(scenario), "--name", name])
    try:
        yield *([fathom, "fabric", "exec", "--name", name, host, "--"] for host in ("server", "client")), FAR
    finally:
        run([fathom, "fabric", "down", name])


@contextlib.contextmanager
def postgres(directory, cpu, there=(), host=HOST):
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        sys.exit("no PostgreSQL server is installed (Debian: postgresql)")
    home, server = directory / "postgres", str(programs[-1].with_name("postgres"))
    home.mkdir()
    os.chown(home, 65_534, 65_534)
    made = [*AS_NOBODY, str(programs[-1]), "-U", USER, "-N", "--auth=trust", "-D", "data"]
    subprocess.run(made, cwd=home, check=True, stdout=subprocess.DEVNULL)
    single = [*AS_NOBODY, server, "--single", "-D", "data", "postgres"]
    subprocess.run(single, cwd=home, check=True, input=f"CREATE DATABASE {DATABASE};\n", text=True, capture_output=True)
    port = free_port()
    (home / "data/pg_hba.conf").write_text("host all all all trust\n")
    settings = (f"port={port}", f"listen_addresses={host}", "unix_socket_directories=", "fsync=off")
    words = [*there, *on_cpu(cpu, AS_NOBODY), server, "-D", "data", *(word for s in settings for word in ("-c", s))]
    with listening(words, home, "database system is ready to accept connections"):
        yield port


@contextlib.contextmanager
def mariadb(directory, cpu, there=(), host=HOST):
    server = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    install = shutil.which("mariadb-install-db")
    if not (install and os.path.exists(server)):
        sys.exit("no MariaDB server is installed (Debian: mariadb-server-core mariadb-client-core)")
    home = directory / "mariadb"
    for path in (home, home / "data", home / "tmp"):
        path.mkdir()
        os.chown(path, 65_534, 65_534)
    (home / "users.sql").write_text(f"CREATE DATABASE {DATABASE};\nCREATE USER {USER};\nGRANT ALL ON *.* TO {USER};\n")
    common = ["--no-defaults", f"--datadir={home / 'data'}", f"--tmpdir={home / 'tmp'}"]
    made = [*AS_NOBODY, install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, cwd=home, check=True, capture_output=True)
    port = free_port()
    words = [*there, *on_cpu(cpu, AS_NOBODY), server, *common, f"--port={port}", f"--bind-address={host}"]
    words += [f"--init-file={home / 'users.sql'}", "--socket=socket", "--pid-file=pid"]
    with listening(words, home, "ready for connections"):
        yield port


def query_of(database, rows, work=0):
    """What `fathom sql --rows` asks, too; but for the work that comes first."""
    if database == "postgres":
        first = f" WHERE (SELECT count(*) FROM generate_series(1, {work})) > 0" if work else ""
        return f"SELECT repeat('x', {ROW_BYTES}) FROM (SELECT generate_series(1, {rows})) AS made{first}"
    ten = "(SELECT 0 AS n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
    made = " CROSS JOIN ".join(f"{ten} AS d{at}" for at in range(len(str(rows - 1))))
    return f"SELECT REPEAT('x', {ROW_BYTES}) AS body FROM {made} LIMIT {rows}"


def run(words, **more):
    environment = {**os.environ, "FATHOM_CLOUD": "off"}
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, **more)
    if ran.returncode:
        sys.exit(f"{' '.join(words)}: {ran.stderr}")
    return ran.stdout


class Bench:
    def __init__(self, database, port, host, here, fathom, before, plain, directory, cpu, work, only):
        self.database, self.port, self.host, self.fathom, self.before = database, port, host, fathom, before
        self.here, self.plain, self.directory, self.cpu, self.work = here, plain, directory, cpu, work
        self.only = only

    def query(self, rows):
        return query_of(self.database, rows, self.work)

    def client(self, words, **more):
        return run([*self.here, *on_cpu(self.cpu, words)], **more)

    def ways(self):
        ways = {"plain": self.by_plain, "polls": lambda rows, count: self.by_plain(rows, count, "poll")}
        ways |= {"unrecorded": self.by_fathom, "fathom": self.by_fathom_recorded}
        if self.before:
            ways["before"] = lambda rows, count: self.by_fathom_recorded(rows, count, build=self.before)
        if self.database == "postgres" and shutil.which("psql"):
            ways["psql"] = self.by_psql
        return {name: way for name, way in ways.items() if self.only is None or name in self.only}

    def by_fathom(self, rows, count, *more, build=None):
        scheme = "postgres" if self.database == "postgres" else "mysql"
        url = f"{scheme}://{USER}@{self.host}:{self.port}/{DATABASE}?sslmode=disable"
        words = [build or self.fathom, "sql", url, "--query", self.query(rows), "--count", str(count)]
        told = json.loads(self.client([*words, "--quiet", "--json", *more]))
        if told["failed"] or told["rows"] != rows * count:
            sys.exit(f"{told['failed']} failed, {told['rows']} rows")
        return told["wall_ns"]["p50"], told["mean_ns"]["wall"], told["looks"] / (count - 1)

    def by_fathom_recorded(self, rows, count, build=None):
        directory = self.directory / "recording"
        try:
            return self.by_fathom(rows, count, "--record", str(directory), build=build)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def by_plain(self, rows, count, *more):
        where = [self.host, str(self.port), USER, DATABASE, str(count), self.query(rows), *more]
        told = json.loads(self.client([self.plain, self.database, *where]))
        if told["rows"] != rows:
            sys.exit(f"{told['rows']} rows")
        return self.figures(told["wall_ns"][1:])

    def by_psql(self, rows, count):
        words = ["psql", "-X", "-q", "-h", self.host, "-p", str(self.port), "-U", USER, "-d", DATABASE]
        script = "\\timing on\n" + f"{self.query(rows)} \\g /dev/null\n" * count
        told = self.client(words, input=script)
        times = [float(line.split()[1]) * 1e6 for line in told.splitlines() if line.startswith("Time: ")]
        return self.figures(times[1:])

    @staticmethod
    def figures(ns):
        return statistics.median(ns), statistics.fmean(ns), 0.0


def told(values, unit, scale=1):
    within = interval(values)
    ends = f" ({within[0] * scale:+.2f} to {within[1] * scale:+.2f})" if within else ""
    return f"{statistics.median(values) * scale:+.2f}{ends} {unit}"


def measure(bench, rows, arguments, draw):
    count = max(8, round(arguments.seconds * 1e3 / (QUICK.get(rows, rows * 6e-4) + arguments.work * 6e-5)))
    ways, seen = bench.ways(), {name: [] for name in bench.ways()}
    for _ in range(arguments.rounds):
        order = draw.sample(list(ways), len(ways))
        figures = {name: [] for name in ways}
        for name in order + order[::-1]:
            figures[name].append(ways[name](rows, count))
        for name, both in figures.items():
            seen[name].append(tuple(statistics.fmean(of) for of in zip(*both, strict=True)))
    work = f", {arguments.work} counted before" if arguments.work else ""
    print(f"{bench.database}, {rows} rows{work}, twice {count} queries a client and round, {arguments.rounds} rounds:")
    for name, figures in seen.items():
        p50 = statistics.median(f[0] for f in figures) / 1e6
        looks = statistics.fmean(f[2] for f in figures)
        against = ""
        for base in ("plain", "polls"):
            if name in ("plain", base) or base not in seen:
                continue
            pairs = list(zip(figures, seen[base], strict=True))
            more = told([mine[0] - plain[0] for mine, plain in pairs], "µs", 1e-3)
            medians, means = ([mine[at] / plain[at] - 1 for mine, plain in pairs] for at in (0, 1))
            against += f"; against {base}: median {more}, {told(medians, '%', 100)}, mean {told(means, '%', 100)}"
        print(f"  {name}: {p50:.3f} ms" + (f", {looks:.2f} looks a query" if looks else "") + against, flush=True)


def processor_ns():
    """Of what was started and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e9


def measure_processor(bench, rows, arguments, draw):
    count = max(8, round(arguments.seconds * 1e3 / QUICK.get(rows, rows * 6e-4)))
    ways = {name: way for name, way in bench.ways().items() if name != "psql"}
    seen, walls = {name: [] for name in ways}, []
    for _ in range(arguments.rounds):
        for name, way in draw.sample(list(ways.items()), len(ways)):
            used = []
            for times in (1, 3):
                before = processor_ns()
                p50 = way(rows, times * count)[0]
                used.append(processor_ns() - before)
            seen[name].append((used[1] - used[0]) / (2 * count))
            walls += [p50] if name == "plain" else []
    wall = statistics.median(walls)
    print(f"{bench.database}, {rows} rows, processor time of a query, whose wall time is {wall / 1e3:.1f} µs for the plain client:")
    for name, each in seen.items():
        more = [mine - plain for mine, plain in zip(each, seen["plain"], strict=True)]
        beyond = f", {told(more, 'µs', 1e-3)} to plain, {statistics.median(more) / wall * 100:+.1f} % of that"
        print(f"  {name}: {statistics.median(each) / 1e3:.1f} µs" + (beyond if name != "plain" else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--fathom", default=str(ROOT / "target/release/fathom"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument("--before", metavar="FILE", help="another build, to be held against the plain client too")
    parser.add_argument("--only", choices=("postgres", "mysql"), help="this database only")
    parser.add_argument("--ways", metavar="NAME,...", help="these alone, and plain, which they are held against")
    parser.add_argument("--rtt", type=float, metavar="MS", help="a path of this round trip between the two (default: loopback)")
    parser.add_argument("--work", type=int, default=0, metavar="N", help="the server of PostgreSQL counts to this first (60 ns each, about)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="default %(default)s")
    parser.add_argument("--rows", default="1000,10000,100000", metavar="N,...", help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=1.5, metavar="S", help="of a client in a round, about (default %(default)s)")
    parser.add_argument("--processor", action="store_true", help="processor time of the clients, and not the queries' wall time")
    parser.add_argument("--free", action="store_true", help="let the system choose the processors")
    parser.add_argument("--seed", type=int, default=1, help="of the order (default 1)")
    arguments = parser.parse_args()
    only = arguments.ways and {"plain", *arguments.ways.split(",")}
    fathom, draw = os.path.abspath(arguments.fathom), random.Random(arguments.seed)
    server_cpu, client_cpu = (None, None) if arguments.free or arguments.rtt else (SERVER_CPU, CLIENT_CPU)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        plain = str(directory / "plain_query")
        subprocess.run(["cc", "-O2", "-o", plain, str(ROOT / "benches/plain_query.c")], check=True)
        for database, started in (("postgres", postgres), ("mysql", mariadb)):
            if arguments.only not in (None, database):
                continue
            path = behind(arguments.rtt, fathom, directory) if arguments.rtt else near()
            with path as (there, here, host), started(directory, server_cpu, there, host) as port:
                before = arguments.before and os.path.abspath(arguments.before)
                bench = Bench(database, port, host, here, fathom, before, plain, directory, client_cpu, arguments.work, only)
                for rows in map(int, arguments.rows.split(",")):
                    (measure_processor if arguments.processor else measure)(bench, rows, arguments, draw)


if __name__ == "__main__":
    main()
