#!/usr/bin/env python3
"""Whether `fathom sql` gives a query's time to whom it belongs: a real PostgreSQL, and causes that are known.

* client: the client works on each row for a while (`--think`);
* path: round trips of 5 to 100 ms, one or several a query;
* sleep: `pg_sleep`;
* starved: the server's backend is stopped for part of each 40 ms (SIGSTOP, SIGCONT), while it computes or makes rows.

10 of each, drawn by chance. Every part is held against the truth: what was put in and what the same query takes without it (of a
starved server: all but the round trips). As root, with PostgreSQL (Debian: postgresql) and iproute2, in hosts of the fabric that it
takes away again. About 5 minutes.

    sudo benches/attribution.py [--fathom FILE] [--only KIND] [--of-each N]
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("client", "path", "sleep", "starved")
NAME = f"bench-attribution-{os.getpid()}"
SERVER = "10.97.0.1"
PASSWORD = "bench"
NEAR_MS = 2.0
"""The round trip of what is not about the path."""
WITHIN, WITHIN_MS = 0.1, 5.0
GRAIN = 1 / 30
"""Of all time: so far beyond a bound the truth may lie (docs/databases.md)."""
NOBODY = 65_534


@contextlib.contextmanager
def fabric(fathom, directory, round_trips_ms):
    """A server, and a client for each of these round trips: c0, c1, …"""
    text = f'format = 1\n[[host]]\nname = "server"\naddress = "{SERVER}"\n'
    for i, ms in enumerate(round_trips_ms):
        text += f'[[host]]\nname = "c{i}"\naddress = "10.97.1.{i + 1}"\n'
        text += f'[[path]]\nlabel = "p{i}"\nfrom = "c{i}"\nto = "server"\nboth = {{ delay = "{round(ms * 5e5)}ns" }}\n'
    scenario = pathlib.Path(directory, "scenario.toml")
    scenario.write_text(text)
    subprocess.run(
        [fathom, "fabric", "up", str(scenario), "--name", NAME],
        check=True,
        capture_output=True,
    )
    try:
        yield
    finally:
        subprocess.run(
            [fathom, "fabric", "down", NAME], check=False, capture_output=True
        )


def on(fathom, host, *words):
    return [fathom, "fabric", "exec", "--name", NAME, host, "--", *words]


@contextlib.contextmanager
def postgres(fathom, directory):
    """On the server, as nobody; gives the port and the postmaster's process."""
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        sys.exit("no PostgreSQL server is installed (Debian: postgresql)")
    home = pathlib.Path(directory, "postgres")
    home.mkdir()
    (home / "password").write_text(PASSWORD)
    os.chown(home, NOBODY, NOBODY)
    os.chmod(directory, 0o755)
    as_nobody = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--",
    ]
    made = [*as_nobody, str(programs[-1]), "-U", "owner", "-N", "--auth=scram-sha-256"]
    subprocess.run(
        [*made, "--pwfile=password", "-D", "data"],
        cwd=home,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (home / "data/pg_hba.conf").write_text("host all all all scram-sha-256\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = (
        f"port={port}",
        f"listen_addresses={SERVER}",
        "unix_socket_directories=",
        "fsync=off",
        "jit=off",
        "max_parallel_workers=0",
    )
    words = [*as_nobody, str(programs[-1].with_name("postgres")), "-D", "data"]
    for setting in settings:
        words += ["-c", setting]
    log = home / "log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            on(fathom, "server", *words),
            cwd=home,
            stdout=subprocess.DEVNULL,
            stderr=out,
        ) as started,
    ):
        try:
            until = time.monotonic() + 30
            while "ready to accept connections" not in log.read_text():
                if time.monotonic() > until:
                    sys.exit(log.read_text())
                time.sleep(0.05)
            yield port, int((home / "data/postmaster.pid").read_text().split()[0])
        finally:
            with contextlib.suppress(OSError, ValueError):
                os.kill(
                    int((home / "data/postmaster.pid").read_text().split()[0]),
                    signal.SIGINT,
                )
            started.wait(20)


def ask(fathom, port, host, *options):
    words = [
        fathom,
        "sql",
        f"postgres://owner@{SERVER}:{port}/postgres",
        "--quiet",
        "--json",
        *options,
    ]
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "FATHOM_CLOUD": "off"}
    ran = subprocess.run(
        on(fathom, host, *words),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ran.returncode:
        sys.exit(f"{' '.join(words)}: {ran.stderr}")
    return json.loads(ran.stdout)


def parts(outcome):
    """Medians of the three parts, ms; None: no estimate."""
    return {
        party: None if (p50 := outcome[f"{party}_ns"]["p50"]) is None else p50 / 1e6
        for party in ("server", "path", "client")
    }


def without(outcome):
    """What the query takes without the cause: where it is too short for estimates, the path's known round trips and the rest."""
    path = outcome["turns"] * NEAR_MS
    known = {
        "server": max(0.0, outcome["wall_ns"]["p50"] / 1e6 - path),
        "path": path,
        "client": 0.0,
    }
    return {
        party: known[party] if ms is None else ms
        for party, ms in parts(outcome).items()
    }


def backend(postmaster):
    """The backend that has computed most."""

    def ticks(pid):
        with contextlib.suppress(OSError):
            return int(
                pathlib.Path(f"/proc/{pid}/stat")
                .read_text()
                .rsplit(")", 1)[1]
                .split()[11]
            )
        return 0

    children = (
        pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children")
        .read_text()
        .split()
    )
    return max(((ticks(pid), int(pid)) for pid in children), default=(0, 0))


def starve(postmaster, share, over):
    """Stops the backend that computes for this share of each 40 ms."""
    while not over.is_set():
        ticks, pid = backend(postmaster)
        if ticks >= 5:
            break
        time.sleep(0.02)
    while not over.is_set():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.04 * share)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.04 * (1 - share))


def case(kind, draw, number, ms, run, postmaster):
    """(what it was, whose it is, the truth in ms by party, outcome)."""
    near, count = "c0", ("--count", "7")
    if kind == "client":
        rows, think = draw.randrange(10, 60), draw.uniform(3, 9)
        words = (
            "--rows",
            str(rows),
            "--row-bytes",
            str(draw.choice((100, 2_000, 20_000))),
        )
        before = without(run(near, *words, *count))
        outcome = run(near, *words, *count, "--think", f"{round(think * 1e6)}ns")
        return (
            f"{rows} x {think:.2f} ms, {words[3]} bytes",
            "client",
            {**before, "client": before["client"] + rows * think},
            outcome,
        )
    if kind == "path":
        pieces = draw.choice((None, 100, 50, 25))
        words = (
            "--rows",
            "200",
            "--row-bytes",
            "30",
            *(("--fetch-size", str(pieces)) if pieces else ()),
        )
        before = run(near, *words, *count)
        outcome = run(f"c{number + 1}", *words, *count)
        added = outcome["turns"] * (ms[number + 1] - NEAR_MS)
        before = without(before)
        return (
            f"{outcome['turns']} x {ms[number + 1]:.1f} ms",
            "path",
            {**before, "path": before["path"] + added},
            outcome,
        )
    if kind == "sleep":
        sleep = draw.uniform(20, 500)
        before = without(run(near, "--query", "SELECT pg_sleep(0)", *count))
        outcome = run(near, "--query", f"SELECT pg_sleep({sleep / 1e3:.6f})", *count)
        return (
            f"{sleep:.0f} ms",
            "server",
            {**before, "server": before["server"] + sleep},
            outcome,
        )
    share = draw.uniform(0.3, 0.8)
    makes_rows = draw.random() < 0.5
    query = (
        "SELECT repeat('x', 100), (SELECT count(md5((m + n)::text)) FROM generate_series(1, 500) m)"
        " FROM generate_series(1, 600) n"
        if makes_rows
        else "SELECT count(md5(n::text)) FROM generate_series(1, 300000) n"
    )
    over = threading.Event()
    stopper = threading.Thread(target=starve, args=(postmaster, share, over))
    stopper.start()
    try:
        outcome = run(near, "--query", query, *count)
    finally:
        over.set()
        stopper.join()
    truth = {"path": outcome["turns"] * NEAR_MS, "client": 0.0}
    truth["server"] = outcome["wall_ns"]["p50"] / 1e6 - truth["path"]
    return (
        f"{share:.0%} stopped, {'rows' if makes_rows else 'one row'}",
        "server",
        truth,
        outcome,
    )


def judged(truth, owner, outcome):
    """How far a part is at most from the truth, ms; whether all are near enough; whether a wrong party is sure; the parts;
    whether the truth lies beyond a bound."""
    got = parts(outcome)
    off = {
        party: None if got[party] is None else got[party] - truth[party]
        for party in truth
    }
    near = all(
        off[party] is not None
        and abs(off[party]) <= max(WITHIN * truth[party], WITHIN_MS)
        for party in truth
    )
    verdict = outcome["verdict"]
    wrong = verdict["confidence"] == "high" and verdict["party"] != owner
    worst = max((abs(o) for o in off.values() if o is not None), default=float("nan"))
    shares, wall = outcome["shares"], outcome["wall_ns"]["p50"] / 1e6
    beyond = any(
        not shares[party]["low"] - GRAIN
        <= truth[party] / wall
        <= shares[party]["high"] + GRAIN
        for party in truth
    )
    return worst, near, wrong, got, beyond


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--fathom",
        default=str(ROOT / "target/release/fathom"),
        metavar="FILE",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--only",
        choices=KINDS,
        action="append",
        help="this kind only; may be given again",
    )
    parser.add_argument(
        "--of-each",
        type=int,
        default=10,
        metavar="N",
        help="cases of each kind (default 10)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the cases (default 1)")
    arguments = parser.parse_args()
    fathom, draw = os.path.abspath(arguments.fathom), random.Random(arguments.seed)
    ms = [NEAR_MS, *(draw.uniform(5, 100) for _ in range(arguments.of_each))]
    with (
        tempfile.TemporaryDirectory() as directory,
        fabric(fathom, directory, ms),
        postgres(fathom, directory) as (port, postmaster),
    ):
        for kind in arguments.only or KINDS:
            good = wrong_ones = beyond_ones = 0
            farthest, lines = 0.0, []
            for number in range(arguments.of_each):
                what, owner, truth, outcome = case(
                    kind,
                    draw,
                    number,
                    ms,
                    lambda *words: ask(fathom, port, *words),
                    postmaster,
                )
                worst, near, wrong, got, beyond = judged(truth, owner, outcome)
                beyond_ones += beyond
                good, wrong_ones, farthest = (
                    good + near,
                    wrong_ones + wrong,
                    max(farthest, worst),
                )
                told = ", ".join(
                    f"{party} {'-' if got[party] is None else f'{got[party]:.1f}'} ({truth[party]:.1f})"
                    for party in got
                )
                verdict = outcome["verdict"]
                lines.append(
                    f"  {'ok' if near and not wrong else 'NO'} {what}: {told} ms; {verdict['party']}, {verdict['confidence']}"
                )
            print(
                f"{kind}: {good} of {arguments.of_each} within 10 % or 5 ms, farthest {farthest:.1f} ms; the wrong party with high confidence: {wrong_ones}; the truth beyond a bound: {beyond_ones}"
            )
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
