#!/usr/bin/env python3
"""Whether `fathom sql` gives a query's time to whom it belongs: a real PostgreSQL, and causes that are known.

* client: the client works on each row for a while (`--think`);
* path: round trips of 5 to 100 ms, one or several a query;
* sleep: `pg_sleep`;
* starved: the server's backend is stopped for part of each 40 ms (SIGSTOP, SIGCONT), while it computes or makes rows.

10 of each, drawn by chance. What was asked for is not the truth: a sleep lasts longer on a busy machine, and a packet waits for whom it
is to wake. So the truth is measured, of each query, by captures on both hosts (wire.py), whose clock is one: from when a
request leaves the client's host until it is at the server's, and from when the answer is made until the last of it is here, is the
path's; between the two is the server's; the rest is the client's. Of a client that works on rows the first whole row counts instead
of the last; where it may have waited for a later one, at the speed that it was asked to work at, it is open whose that is. As
root, with PostgreSQL (Debian: postgresql) and iproute2, in hosts of the fabric that it takes away again, and with the Python half's
environment. About 5 minutes.

    sudo .venv/bin/python benches/attribution.py [--fathom FILE] [--only KIND] [--of-each N]
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import wire
from hosts import PASSWORD, ROOT, SERVER, captured, fabric, on, postgres
from pyarrow import parquet

KINDS = ("client", "path", "sleep", "starved")
NEAR_MS = 2.0
"""The round trip of what is not about the path."""
WITHIN, WITHIN_MS = 0.1, 5.0
GRAIN = 1 / 30
"""Of a query's time: so far beyond a bound the truth may lie (docs/databases.md)."""
PARTIES = ("server", "path", "client")
QUERY_WORDS, SYNC = (b"generate_series", b"pg_sleep"), b"S\x00\x00\x00\x04"
HEAD_BYTES, ROW_HEAD_BYTES = 60, 11
"""Before the first row of an answer of one column at most, and of each row (PostgreSQL's documentation, Message Formats)."""


def ask(fathom, port, host, *options):
    """(what it says at its end, its queries as they were recorded, the ways there and back)."""
    words = [fathom, "sql", f"postgres://owner@{SERVER}:{port}/postgres", "--quiet"]
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "FATHOM_CLOUD": "off"}
    with tempfile.TemporaryDirectory() as directory:
        words += ["--json", "--record", f"{directory}/recording", *options]
        with captured(fathom, port, (host, "server"), directory) as files:
            ran = subprocess.run(
                on(fathom, host, *words),
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
        if ran.returncode:
            sys.exit(f"{' '.join(words)}: {ran.stderr}")
        rows = parquet.read_table(
            sorted(pathlib.Path(directory, "recording").glob("queries-*.parquet"))
        ).to_pylist()
        ways = wire.connection(*(wire.read(file) for file in files), is_asked)
    return json.loads(ran.stdout), rows, ways


def is_asked(packet):
    return any(words in packet.payload for words in QUERY_WORDS)


@dataclasses.dataclass
class Truth:
    """From least to most, ns."""

    server: tuple[int, int]
    path: tuple[int, int]
    client: tuple[int, int]


def turns_of(there):
    """The requests of each query: the first has its words, and what ends it (Sync) is nobody's wait."""
    queries = []
    for packet in there.packets:
        if is_asked(packet):
            queries.append([packet])
        elif queries and not packet.payload.startswith(SYNC):
            queries[-1].append(packet)
    return queries


def measured(rows, ways, makes_rows):
    """The truth of each query of which every row is taken as it comes. An answer that is made at once leaves the server with its first
    byte: what its kernel takes to pace the rest (BBR) is the path's."""
    there, back = ways
    truths = []
    sent_ns = [packet.at_ns for packet in there.packets]
    for row, query in zip(rows, turns_of(there), strict=True):
        server = path = 0
        for request in query:
            asked_ns = there.came_ns(there.end(request))
            following_ns = (at_ns for at_ns in sent_ns if at_ns > request.at_ns)
            first, last = (
                back.came_by(request.at_ns) + 1,
                back.came_by(next(following_ns, math.inf)),
            )
            made_ns = back.left_ns(last if makes_rows else first)
            server += made_ns - asked_ns
            path += asked_ns - request.at_ns + back.came_ns(last) - made_ns
        client = row["wall_ns"] - server - path
        truths.append(Truth((server, server), (path, path), (client, client)))
    return truths


def measured_of_work(rows, ways, count, row_bytes, think_ns):
    """The same of a client that works on each row for so long: nobody else is waited for once it has the first one, unless it waits."""
    there, back = ways
    truths = []
    queries = [request for (request,) in turns_of(there)]
    following_ns = [request.at_ns for request in queries[1:]] + [math.inf]
    for row, request, over_ns in zip(rows, queries, following_ns, strict=True):
        asked_ns = there.came_ns(there.end(request))
        before, last = back.came_by(request.at_ns), back.came_by(over_ns)
        ends = [
            min(before + HEAD_BYTES + (row_bytes + ROW_HEAD_BYTES) * (at + 1), last)
            for at in range(count)
        ]
        left_ns = back.left_ns(ends[0])
        came_ns = now = back.came_ns(ends[0])
        idle_ns = 0
        for end in ends:
            here_ns = back.came_ns(end)
            idle_ns += max(0, here_ns - now)
            now = max(now, here_ns) + think_ns
        server, path = (
            left_ns - asked_ns,
            asked_ns - request.at_ns + came_ns - left_ns,
        )
        client = row["wall_ns"] - server - path
        truths.append(
            Truth(
                (server, server + idle_ns),
                (path, path + idle_ns),
                (client - idle_ns, client),
            )
        )
    return truths


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
    """(what it was, whose it is, what the run says, its queries, the truth of each)."""
    near, count, makes_rows = "c0", ("--count", "7"), False
    if kind == "client":
        rows, think = draw.randrange(10, 60), draw.uniform(3, 9)
        row_bytes, think_ns = draw.choice((100, 2_000, 20_000)), round(think * 1e6)
        words = ("--rows", str(rows), "--row-bytes", str(row_bytes))
        outcome, queries, ways = run(near, *words, *count, "--think", f"{think_ns}ns")
        return (
            f"{rows} x {think:.2f} ms, {row_bytes} bytes",
            "client",
            outcome,
            queries,
            measured_of_work(queries, ways, rows, row_bytes, think_ns),
        )
    if kind == "path":
        pieces = draw.choice((None, 100, 50, 25))
        # It fills no buffer of the server, which writes it at once.
        words = ("--rows", "150", "--row-bytes", "30")
        words += ("--fetch-size", str(pieces)) if pieces else ()
        outcome, queries, ways = run(f"c{number + 1}", *words, *count)
        what, owner = f"{outcome['turns']} x {ms[number + 1]:.1f} ms", "path"
    elif kind == "sleep":
        sleep = draw.uniform(20, 500)
        sql = f"SELECT pg_sleep({sleep / 1e3:.6f})"
        outcome, queries, ways = run(near, "--query", sql, *count)
        what, owner = f"{sleep:.0f} ms", "server"
    else:
        share = draw.uniform(0.3, 0.8)
        makes_rows = draw.random() < 0.5
        sql = (
            "SELECT repeat('x', 100), (SELECT count(md5((m + n)::text)) FROM generate_series(1, 500) m)"
            " FROM generate_series(1, 600) n"
            if makes_rows
            else "SELECT count(md5(n::text)) FROM generate_series(1, 300000) n"
        )
        over = threading.Event()
        stopper = threading.Thread(target=starve, args=(postmaster, share, over))
        stopper.start()
        try:
            outcome, queries, ways = run(near, "--query", sql, *count)
        finally:
            over.set()
            stopper.join()
        what = f"{share:.0%} stopped, {'rows' if makes_rows else 'one row'}"
        owner = "server"
    return what, owner, outcome, queries, measured(queries, ways, makes_rows)


def outside(value, bounds):
    """How far it is from them."""
    return max(bounds[0] - value, value - bounds[1], 0)


def missed(query, truth):
    """Where the truth lies beyond a bound: how."""
    for party in PARTIES:
        low, high = query[f"{party}_low_ns"], query[f"{party}_high_ns"]
        least, most = getattr(truth, party)
        grain = GRAIN * query["wall_ns"]
        if low > most + grain or high < least - grain:
            return f"{party} {least / 1e6:.1f} ms is not {low / 1e6:.1f} to {high / 1e6:.1f}"
    return None


@dataclasses.dataclass
class Judged:
    farthest_ms: float
    """How far a part is at most from the truth, in the median of the queries with estimates; NaN: there are none."""
    estimates: tuple[int, int]
    """How many queries have one, of so many."""
    is_near: bool
    """Whether at least half of the queries have estimates, and the parts are all near enough."""
    names_owner: bool
    is_sure: bool
    """That it is the owner."""
    is_wrong: bool
    """Sure that it is another."""
    got: dict | None
    truth: dict
    beyond: list
    """Of queries in which the truth lies beyond a bound: how."""

    @property
    def is_ok(self):
        return self.is_near and not self.is_wrong


def judged(owner, outcome, queries, truths):
    verdict = outcome["verdict"]
    is_high, names_owner = verdict["confidence"] == "high", verdict["party"] == owner
    # The first finds nothing warm.
    pairs = list(zip(queries[1:], truths[1:], strict=True))
    split = [pair for pair in pairs if pair[0]["server_ns"] is not None]

    def medians(of, pairs):
        return {
            party: statistics.median(of(pair, party) for pair in pairs) / 1e6
            for party in PARTIES
        }

    low = medians(lambda pair, party: getattr(pair[1], party)[0], split or pairs)
    high = medians(lambda pair, party: getattr(pair[1], party)[1], split or pairs)
    truth = {party: (low[party], high[party]) for party in PARTIES}
    got, off, is_near = None, {"none": float("nan")}, False
    if split:
        got = medians(lambda pair, party: pair[0][f"{party}_ns"], split)
        off = {party: outside(got[party], truth[party]) for party in PARTIES}
        is_near = 2 * len(split) >= len(pairs) and all(
            off[party] <= max(WITHIN * truth[party][1], WITHIN_MS) for party in PARTIES
        )
    return Judged(
        farthest_ms=max(off.values()),
        estimates=(len(split), len(pairs)),
        is_near=is_near,
        names_owner=names_owner,
        is_sure=names_owner and is_high,
        is_wrong=is_high and not names_owner,
        got=got,
        truth=truth,
        beyond=list(filter(None, map(missed, queries, truths))),
    )


def told(got, truth):
    def span(low, high):
        return f"{low:.1f}" if high - low < 0.1 else f"{low:.1f} to {high:.1f}"

    return ", ".join(
        f"{party} {f'{got[party]:.1f}' if got else '-'} ({span(*truth[party])})"
        for party in PARTIES
    )


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
            cases, lines, asked = [], [], 0
            for number in range(arguments.of_each):
                what, owner, outcome, queries, truths = case(
                    kind,
                    draw,
                    number,
                    ms,
                    lambda *words: ask(fathom, port, *words),
                    postmaster,
                )
                one = judged(owner, outcome, queries, truths)
                cases.append(one)
                asked += len(queries)
                verdict, (some, of) = outcome["verdict"], one.estimates
                lines.append(
                    f"  {'ok' if one.is_ok else 'NO'} {what}: {told(one.got, one.truth)} ms, estimates of {some} of {of};"
                    f" {verdict['party']}, {verdict['confidence']}"
                    + "".join(f"; {how}" for how in one.beyond)
                )
            known = [one.farthest_ms for one in cases if one.got]
            print(
                f"{kind}: {sum(one.is_near for one in cases)} of {len(cases)} within 10 % or 5 ms with estimates of half of the"
                f" queries or more, farthest {max(known, default=float('nan')):.1f} ms; queries with estimates:"
                f" {sum(one.estimates[0] for one in cases)} of {sum(one.estimates[1] for one in cases)}; the right party named:"
                f" {sum(one.names_owner for one in cases)}, sure of it: {sum(one.is_sure for one in cases)}; the wrong party with"
                f" high confidence: {sum(one.is_wrong for one in cases)}; the truth beyond a bound in"
                f" {sum(len(one.beyond) for one in cases)} of {asked} queries"
            )
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
