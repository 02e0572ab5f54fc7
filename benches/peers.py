#!/usr/bin/env python3
"""Ping-pong round trips of fathom, of its peers and of a minimal C program (floor.c), in turns: a table and a JSON line
for each place and mode.

All send messages of 64 bytes over TCP, one at a time, back to back; the client is pinned to core 0, the server to core 1.
fathom records every sample. Places: loopback, and a veth pair between two namespaces made here. Modes:

* blocking: reads wait;
* awake: the same while this script holds /dev/cpu_dma_latency at 0, so that no processor sleeps deep;
* spinning: reads are tried again without waiting (sockperf: --nonblocked --recv_looping_num -1). qperf, netperf and
  neper have no such mode.

With --long there are rounds of 45 s of fathom, sockperf and the floor on loopback: back to back a segment of the
recording is closed each 2,097,152 samples, which takes processor time beside the probe, and no run of some seconds sees
it. What is told besides: how many were closed while the run went on, and fathom's round trips of those times beside its
others.

With --duties the C program takes on what fathom has to do besides, one duty after the other (floor.c says what they are):
what remains between the last of these rows and fathom's is no duty's.

The order of a round is one of chance, and the next round has its reverse, so that none has the same neighbour always.
Before each run what was written goes to the disk, and the processors are let come to rest; what a run has left is read,
and deleted, after its round.

A ratio is the median of the ratios within a round, with its quartiles and the interval (95 %) that a bootstrap over the
rounds gives it; "within" and "beyond" an aim is that whole interval, and all else is not resolved. The best peer is a
round's best, which of several that scatter is better than any of them. qperf prints a mean only, and half of it.
netperf prints whole microseconds, so that its p50 and p99 are not held against an aim, and it and neper no p99.9. Peers
that are not on PATH are named and left out: sockperf, qperf, netperf with netserver, neper's tcp_rr.
Needs root, iproute2, taskset and a C compiler."""

import argparse
import array
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import closing
import ratios
from shared import awake, settle

HERE = pathlib.Path(__file__).resolve().parent
RELEASE = HERE.parent / "target/release/fathom"
PLACES, MODES = ("loopback", "veth"), ("blocking", "awake", "spinning")
LONG = ("floor", "fathom", "sockperf")
PEERS = ("sockperf", "qperf", "netperf", "neper")
COARSE = {("netperf", "p50"), ("netperf", "p99")}
"""Printed in whole µs, and cut off, not rounded: as good as a µs better than it is."""
SIZE, WARM_UP, PORT = 64, 1_000, 7_107
DUTIES = ("looks", "stamps", "checks", "records", "told")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="6 rounds of 1 s (default: 12 of 4 s)")
parser.add_argument("--place", choices=PLACES, action="append", help="this place only; may be given again")
parser.add_argument("--mode", choices=MODES, action="append", help="this mode only; may be given again")
parser.add_argument("--only", metavar="NAME", action="append", help="this contender only; may be given again")
parser.add_argument("--rounds", type=int, metavar="N", help="an even number: each order has its reverse")
parser.add_argument("--seconds", type=int, metavar="S", help="of each run")
parser.add_argument(
    "--long", action="store_true", help="6 rounds of 45 s, in which segments are closed; awake and spinning"
)
parser.add_argument("--seed", type=int, default=1, help="of the order (default 1)")
parser.add_argument(
    "--parts",
    action="store_true",
    help="also our probe with the floor's server, the other way round, and the floor with what else may move its sleep",
)
parser.add_argument(
    "--duties", action="store_true", help="also the floor with fathom's duties, one after the other"
)
parser.add_argument(
    "--fathom", default=str(RELEASE), metavar="FILE", help="the binary to measure (default: %(default)s)"
)
ARGUMENTS = parser.parse_args()
ARGUMENTS.fathom = str(pathlib.Path(ARGUMENTS.fathom).resolve())
ROUNDS = ARGUMENTS.rounds or (6 if ARGUMENTS.quick or ARGUMENTS.long else 12)
SECONDS = ARGUMENTS.seconds or (45 if ARGUMENTS.long else 1 if ARGUMENTS.quick else 4)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where servers and clients run, and the server's address."""

    name: str
    address: str
    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Result:
    """Round trips in ns, and how many there were a second; None: the tool does not tell."""

    p50: float | None
    p99: float | None
    p99_9: float | None
    mean: float | None
    per_s: float
    closing: dict | None = None
    """Of fathom: segments that were closed meanwhile, and the round trips beside that."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """One client with its server; commands are made for (spinning), (address, spinning, work directory)."""

    name: str
    server: Callable[[bool], list[str]]
    client: Callable[[str, bool, str], list[str]]
    read: Callable[[str, str], Result]
    spins: bool = True
    needs: tuple[str, ...] = ()
    port: int = PORT


def read_fathom(out, work):
    summary = json.loads(out)
    rtt = summary["rtt_ns"]
    with subprocess.Popen(
        [ARGUMENTS.fathom, "recording", "export", summary["recording"]], stdout=subprocess.PIPE, text=True
    ) as export:
        columns = export.stdout.readline().split(",")
        sent_at, rtt_at = columns.index("sent_ns"), columns.index("rtt_ns")
        sent, each = array.array("q"), array.array("q")
        for line in export.stdout:
            words = line.split(",", 8)
            sent.append(int(words[sent_at]))
            each.append(int(words[rtt_at] or -1))
    per_s = (len(sent) - 1) * 1e9 / (sent[-1] - sent[0])
    beside = closing.beside(summary["recording"], sent, each)
    return Result(rtt["p50"], rtt["p99"], rtt["p99_9"], rtt["mean"], per_s, beside)


def read_floor(out, work):
    figures = json.loads(out)
    return Result(*(figures[key] for key in ("p50", "p99", "p99_9", "mean", "per_s")))


def read_sockperf(out, work):
    rtt, first = array.array("d"), None
    with pathlib.Path(work, "sockperf.csv").open(errors="replace") as log:
        for line in log:
            if re.match(r"\d+, ", line):
                row = line.split(",")
                first = first or row[1]
                rtt.append(float(row[3]) * 1e3)
    seconds = float(row[1]) - float(first)
    ordered = sorted(rtt)
    p50, p99, p99_9 = (closing.percentile(ordered, share) for share in (0.5, 0.99, 0.999))
    return Result(p50, p99, p99_9, statistics.fmean(rtt), (len(rtt) - 1) / seconds)


def read_qperf(out, work):
    value, unit = re.search(r"latency\s*=\s*([\d.]+) (\w+)", out).groups()
    mean = 2 * float(value) * {"ns": 1, "us": 1e3, "ms": 1e6}[unit]
    return Result(None, None, None, mean, 1e9 / mean)


def read_netperf(out, work):
    p50, p99, mean, rate = out.strip().splitlines()[-1].split(",")
    return Result(float(p50) * 1e3, float(p99) * 1e3, None, float(mean) * 1e3, float(rate))


def read_neper(out, work):
    values = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    ns = {key: float(values[f"latency_{key}"]) * 1e9 for key in ("p50", "p99", "mean")}
    return Result(ns["p50"], ns["p99"], None, ns["mean"], float(values["throughput"]))


def contenders(floor):
    spin = {False: [], True: ["spin"]}
    flag = {False: [], True: ["--spin"]}
    nonblocked = {False: [], True: ["--nonblocked", "--recv_looping_num=-1"]}

    def floor_server(spins, duties=()):
        return [floor, "server", str(PORT), *spin[spins], *duties]

    def floor_client(address, spins, work, duties=()):
        numbers = [str(PORT), str(SECONDS), str(SIZE), str(WARM_UP)]
        return [floor, "client", address, *numbers, *spin[spins], *duties]

    def with_duties(count):
        duties = DUTIES[:count]
        return Contender(
            f"+{duties[-1]}",
            functools.partial(floor_server, duties=duties),
            functools.partial(floor_client, duties=duties),
            read_floor,
        )

    def echo(spins):
        return [ARGUMENTS.fathom, "echo", "--tcp-only", "--listen", f"0.0.0.0:{PORT}", *flag[spins]]

    def probe(address, spins, work):
        options = ["--quiet", "--json", "--ping-pong", "--allow-high-rate", "--size", str(SIZE)]
        options += ["--for", f"{SECONDS}s", "--warm-up", str(WARM_UP), "--record", f"{work}/recording"]
        return [ARGUMENTS.fathom, "probe", f"{address}:{PORT}", *options, *flag[spins]]

    def sockperf(address, spins, work):
        where = ["-i", address, "-p", str(PORT), "-m", str(SIZE), "-t", str(SECONDS)]
        log = ["--full-rtt", "--full-log", f"{work}/sockperf.csv"]
        return ["sockperf", "ping-pong", "--tcp", *where, *log, *nonblocked[spins]]

    def netperf(address, spins, work):
        fields = "P50_LATENCY,P99_LATENCY,MEAN_LATENCY,THROUGHPUT"
        run = ["netperf", "-H", address, "-p", str(PORT), "-t", "TCP_RR", "-l", str(SECONDS), "-P", "0"]
        return [*run, "--", "-r", f"{SIZE},{SIZE}", "-o", fields]

    ports = ["-C", str(PORT), "-P", str(PORT + 1)]
    sizes = ["-Q", str(SIZE), "-R", str(SIZE)]
    yield Contender("floor", floor_server, floor_client, read_floor)
    if ARGUMENTS.duties:
        yield from (with_duties(count) for count in range(1, len(DUTIES) + 1))
    yield Contender("fathom", echo, probe, read_fathom)
    if ARGUMENTS.parts:
        yield Contender("probe>floor", floor_server, probe, read_fathom)
        yield Contender("floor>echo", echo, floor_client, read_floor)
        for duty in ("timeout", "wakes"):
            client = functools.partial(floor_client, duties=(duty,))
            yield Contender(f"floor+{duty}", floor_server, client, read_floor)
    yield Contender(
        "sockperf",
        lambda spins: ["sockperf", "server", "--tcp", "-p", str(PORT), *nonblocked[spins]],
        sockperf,
        read_sockperf,
        needs=("sockperf",),
    )
    yield Contender(
        "qperf",
        lambda _: ["qperf", "-lp", str(PORT)],
        lambda address, _, work: [
            "qperf", "-lp", str(PORT), address, "-t", str(SECONDS), "-m", str(SIZE), "tcp_lat",
        ],
        read_qperf,
        spins=False,
        needs=("qperf",),
    )  # fmt: skip
    yield Contender(
        "netperf",
        lambda _: ["netserver", "-D", "-4", "-p", str(PORT)],
        netperf,
        read_netperf,
        spins=False,
        needs=("netperf", "netserver"),
    )
    yield Contender(
        "neper",
        lambda _: ["tcp_rr", "--no-delay", *ports, *sizes],
        lambda address, _, work: [
            "tcp_rr", "-c", "-H", address, "--no-delay", "-l", str(SECONDS), "-p", "50,99", *ports, *sizes,
        ],
        read_neper,
        spins=False,
        needs=("tcp_rr",),
    )  # fmt: skip


def listens(pid, port):
    """Whether something listens on a port where a process lives."""
    tables = [pathlib.Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return any(row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port for row in rows)


@contextlib.contextmanager
def serving(place, command, port, work):
    """A server on core 1, once it listens. It leaves its files (neper's logs) in `work`."""
    whole = [*place.server, "taskset", "-c", "1", *command]
    with subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work) as process:
        try:
            deadline = time.monotonic() + 10
            while not listens(process.pid, port):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{' '.join(whole)} does not listen on port {port}")
                time.sleep(0.01)
            yield
        finally:
            process.terminate()


def measure(contender, place, spins, work):
    """What the client printed. It and the server leave their files in `work`."""
    with serving(place, contender.server(spins), contender.port, work):
        whole = [*place.client, "taskset", "-c", "0", *contender.client(place.address, spins, work)]
        done = subprocess.run(
            whole,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60 + 10 * SECONDS,
            cwd=work,
        )
    if done.returncode:
        sys.exit(f"{' '.join(whole)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def veth():
    """Two namespaces with a veth pair between them."""
    near, far = (f"peers-{end}-{os.getpid()}" for end in "ab")

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    try:
        for name in (near, far):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", near, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", far)
        for name, address in ((near, "10.98.0.1/24"), (far, "10.98.0.2/24")):
            ip("-n", name, "address", "add", address, "dev", "veth0")
            ip("-n", name, "link", "set", "veth0", "up")
        within = [("ip", "netns", "exec", name) for name in (far, near)]
        yield Place("veth", "10.98.0.2", *within)
    finally:
        for name in (near, far):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)


def middle(results, key):
    values = [getattr(result, key) for result in results if getattr(result, key) is not None]
    return statistics.median(values) if values else None


def tell(place, mode, results, orders, restless):
    print(f"{place}, {mode}: {ROUNDS} rounds of {SECONDS} s, µs; medians over the rounds")
    print(f"  {'':<12} {' '.join(f'{name:>8}' for name in ratios.LABELS.values())}")
    figures = {}
    for name, runs in results.items():
        row = figures[name] = {key: middle(runs, key) for key in ratios.KEYS}
        cells = [f"{row[key] / 1e3:8.2f}" if row[key] else f"{'-':>8}" for key in ratios.KEYS[:-1]]
        print(f"  {name:<12} {' '.join(cells)} {row['per_s']:8.0f}")
        if any(run.closing and run.closing["segments"] for run in runs):
            closing.tell(runs)
    found, who = ratios.all_of(results, PEERS, COARSE)
    ratios.tell(found, who)
    if restless:
        print(f"  {restless} of {ROUNDS * len(results)} runs began before the processors had come to rest")
    line = {
        "place": place,
        "mode": mode,
        "rounds": ROUNDS,
        "seconds": SECONDS,
        "seed": ARGUMENTS.seed,
        "results": figures,
    }
    line |= {
        "ratios": [one.told() for one in found],
        "best_peers": who,
        "restless": restless,
        "orders": orders,
    }
    line["runs"] = {name: [dataclasses.asdict(run) for run in runs] for name, runs in results.items()}
    print(json.dumps(line), flush=True)


def orders_of(names):
    """An order of chance for each round, then its reverse in the next."""
    draw = random.Random(ARGUMENTS.seed)
    order = []
    for at in range(ROUNDS):
        order = order[::-1] if at % 2 else draw.sample(names, len(names))
        yield order


def compare(place, mode, chosen, work):
    spins = mode == "spinning"
    able = {contender.name: contender for contender in chosen if contender.spins or not spins}
    results = {name: [] for name in able}
    orders, restless = list(orders_of(list(able))), 0
    with awake(mode == "awake"):
        for order in orders:
            printed = {}
            for name in order:
                pathlib.Path(work, f"of-{name}").mkdir()
                restless += not settle()
                printed[name] = measure(able[name], place, spins, f"{work}/of-{name}")
            for name in order:
                results[name].append(able[name].read(printed[name], f"{work}/of-{name}"))
                shutil.rmtree(f"{work}/of-{name}")
    tell(place.name, mode, results, orders, restless)


def main():
    # So that a terminated run takes its namespaces and servers along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if os.geteuid() != 0:
        sys.exit("peers.py needs root, for namespaces and /dev/cpu_dma_latency")
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        floor = f"{work}/floor"
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", floor, str(HERE / "floor.c")], check=True)
        chosen = []
        wanted = ARGUMENTS.only or (LONG if ARGUMENTS.long else ())
        for contender in contenders(floor):
            missing = [name for name in contender.needs if shutil.which(name) is None]
            if missing:
                print(f"{contender.name}: {', '.join(missing)} not on PATH, left out")
            elif contender.name in wanted or not wanted:
                chosen.append(contender)
        for name in ARGUMENTS.place or (PLACES[:1] if ARGUMENTS.long else PLACES):
            place = Place("loopback", "127.0.0.1") if name == "loopback" else stack.enter_context(veth())
            for mode in ARGUMENTS.mode or (MODES[1:] if ARGUMENTS.long else MODES):
                compare(place, mode, chosen, work)


if __name__ == "__main__":
    main()
