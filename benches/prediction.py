#!/usr/bin/env python3
"""How well the report predicts what a query takes over another path: a real PostgreSQL in the fabric.

12 queries are asked over a near path. Each of 4 farther paths is measured by connection set-ups alone; from both the report
predicts, and then each query is asked there. How the server's kernel sends is what no client knows: --sender sets it, in the
server's namespace alone. As root, with PostgreSQL (Debian: postgresql) and iproute2, in hosts of the fabric that it takes away
again. About 5 minutes.

    sudo benches/prediction.py [--fathom FILE] [--count N] [--sender NAME] [--keep DIR]
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from hosts import PASSWORD, ROOT, SERVER, fabric, on, postgres

sys.path.insert(0, str(ROOT / "python/src"))
from fathometer.dataset import open_recordings  # noqa: E402
from fathometer.findings.analyse import analyse  # noqa: E402
from fathometer.findings.prediction import predict  # noqa: E402

NEAR_MS = 0.5
FAR_MS = (2.0, 8.0, 25.0, 80.0)
SHAPES = {
    "one row": ("--query", "SELECT 1"),
    "100 rows": ("--rows", "100"),
    "1,000 rows": ("--rows", "1000"),
    "1,000 rows by 100": ("--rows", "1000", "--fetch-size", "100"),
    "300 rows by 10": ("--rows", "300", "--fetch-size", "10"),
    "20 rows by 1": ("--rows", "20", "--fetch-size", "1"),
    "10,000 rows": ("--rows", "10000"),
    "10,000 rows by 1,000": ("--rows", "10000", "--fetch-size", "1000"),
    "2 MB": ("--rows", "2000", "--row-bytes", "1000"),
    "2 MB by 100": ("--rows", "2000", "--row-bytes", "1000", "--fetch-size", "100"),
    "a server that sleeps": ("--query", "SELECT pg_sleep(0.03)"),
    "a client that works": ("--rows", "50", "--think", "500us"),
}


def run(fathom, host, *words):
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "FATHOM_CLOUD": "off"}
    argv = on(fathom, host, fathom, *words, "--quiet", "--json")
    ran = subprocess.run(
        argv, capture_output=True, text=True, env=environment, check=False
    )
    if ran.returncode:
        sys.exit(f"{' '.join(words)}: {ran.stderr}")


def read(directory):
    (recording,) = open_recordings([directory])
    return recording


def median_ms(queries):
    return statistics.median(queries.wall_ns[queries.counted].tolist()) / 1e6


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
        "--count",
        type=int,
        default=15,
        metavar="N",
        help="queries of each shape and path (default 15)",
    )
    parser.add_argument(
        "--sender",
        metavar="NAME",
        help="how the server's kernel sends: reno, or what net.ipv4.tcp_allowed_congestion_control has (default: as this host does)",
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        help="a new directory for the recordings (default: they go with the fabric)",
    )
    arguments = parser.parse_args()
    fathom = os.path.abspath(arguments.fathom)
    with (
        tempfile.TemporaryDirectory() as directory,
        fabric(fathom, directory, (NEAR_MS, *FAR_MS)),
        postgres(fathom, directory) as (port, postmaster),
    ):
        within_it = ("nsenter", f"--target={postmaster}", "--net", "sysctl", "-q")
        name = "net.ipv4.tcp_congestion_control"
        if arguments.sender:
            subprocess.run([*within_it, f"{name}={arguments.sender}"], check=True)
        named = subprocess.run(
            [*within_it, "-n", name], check=True, capture_output=True, text=True
        )
        print(f"the server sends by {named.stdout.strip()}", flush=True)
        kept = pathlib.Path(arguments.keep or pathlib.Path(directory, "kept"))
        kept.mkdir()

        def ask(host, words, name):
            url = f"postgres://owner@{SERVER}:{port}/postgres"
            count = ("--count", str(arguments.count))
            run(fathom, host, "sql", url, *words, *count, "--record", str(kept / name))
            return read(kept / name).queries

        near = {
            shape: ask("c0", words, f"near-{n}")
            for n, (shape, words) in enumerate(SHAPES.items())
        }
        (nearest,) = analyse([read(kept / f"near-{n}") for n in range(len(SHAPES))]).scenarios
        errors, within = [], 0
        for at, ms in enumerate(FAR_MS):
            probe = ("--connect", "--count", "200", "--every", "20ms")
            run(
                fathom,
                f"c{at + 1}",
                "probe",
                f"{SERVER}:{port}",
                *probe,
                "--record",
                str(kept / f"probe-{at}"),
            )
            (scenario,) = analyse([read(kept / f"probe-{at}")]).scenarios
            rtt = scenario.estimates["p50"]
            print(f"a round trip of {rtt.value / 1e6:.2f} ms ({ms:g} ms of delay)")
            for n, (shape, words) in enumerate(SHAPES.items()):
                told = predict([near[shape]], rtt, nearest.rtt, scenario.rtt)
                if told is None:
                    sys.exit(f"{shape}: no prediction")
                measured = median_ms(ask(f"c{at + 1}", words, f"far-{at}-{n}"))
                error = told.ns / 1e6 / measured - 1
                errors.append(abs(error))
                ends = ""
                if told.low_ns is not None and told.high_ns is not None:
                    within += told.low_ns / 1e6 <= measured <= told.high_ns / 1e6
                    ends = f" ({told.low_ns / 1e6:.2f} to {told.high_ns / 1e6:.2f})"
                print(
                    f"  {shape}, {told.turns} round trips: {median_ms(near[shape]):.2f} ms near,"
                    f" {told.ns / 1e6:.2f}{ends} ms predicted, {measured:.2f} ms measured: {error:+.1%}",
                    flush=True,
                )
        ordered = sorted(errors)
        print(
            f"{len(errors)} predictions: median error {statistics.median(errors):.1%}, nine in ten within"
            f" {ordered[int(0.9 * len(ordered))]:.1%}, worst {ordered[-1]:.1%}; measured medians within the interval: {within}"
        )


if __name__ == "__main__":
    main()
