#!/usr/bin/env python3
"""What a report costs: time, processor time and memory, of the command as people run it.

Run with the Python half's environment: .venv/bin/python benches/report_large.py [--shape large|many|small]
[--engine duckdb|clickhouse|spark|local]. `large`: a hundred million samples in four recordings that ran side by side,
one sample a millisecond, each with a change of level, lateness and a connection that died; `many`: a thousand
recordings of an hour; `small`: three of 41,000 samples. Runs `fathometer report` on them, with the page and the JSON;
with `--engine` `fathometer rollup` by that engine, and then a report of what it made.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from support.recordings import START, lognormal_ns, write

PATHS = {"same-zone": 700, "cross-zone": 1_300, "peered": 1_310, "cross-region": 2_400}
"""Labels, and their medians in microseconds."""
SEGMENT = 2 << 20
INTERVAL_NS = 1_000_000
HOUR_S = 3_600


def series(seed: int, median_us: float, count: int) -> Iterator[np.ndarray]:
    """Round trips in parts as large as the recorder's segments; the last third is 15 % slower."""
    rng = np.random.default_rng(seed)
    base = lognormal_ns(seed, SEGMENT, median_us)
    for start in range(0, count, SEGMENT):
        part = np.roll(base, int(rng.integers(SEGMENT)))[: count - start].copy()
        if start > 2 * count // 3:
            part = (part * 1.15).astype(np.int64)
        part[:: 1 << 17] = -1
        yield part


def generate(directory: Path, samples: int) -> None:
    """The four recordings."""
    each = samples // len(PATHS)
    lateness = np.random.default_rng(1).exponential(20_000, SEGMENT).astype(np.int64)
    end = START + each * INTERVAL_NS
    evidence = {"sent": each, "answered": each, "outstanding": 0}
    closed = {"at_ns": end, "connection": 0, "kind": "connection.closed", "cause": "reset", "errno": 104}
    closed |= {"age_ns": end - START, "evidence": evidence}
    for number, (label, median_us) in enumerate(PATHS.items()):
        write(
            directory / label,
            series(number, median_us, each),
            label=label,
            interval_ns=INTERVAL_NS,
            columns={"lateness_ns": lambda seq: lateness[: len(seq)]},
            events=[closed],
        )


def many(directory: Path, recordings: int) -> None:
    """Recordings of an hour of one sample a second, of the four paths in turn."""
    for number in range(recordings):
        label = list(PATHS)[number % len(PATHS)]
        write(
            directory / f"{number:04}-{label}",
            lognormal_ns(number, HOUR_S, PATHS[label]),
            label=label,
            start_ns=START + number * HOUR_S * 1_000_000_000,
        )


def small(directory: Path) -> None:
    """Three recordings of 41,000 samples side by side, a second apart: the articles' eleven hours."""
    for number, label in enumerate(list(PATHS)[:3]):
        write(directory / label, lognormal_ns(number, 41_000, PATHS[label]), label=label)


def measured(*command: str) -> str:
    """Runs the command line; what it cost."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", "from fathometer.cli import main; main()", *command])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (
        f"{time.monotonic() - began:.1f} s; processor {used.ru_utime:.1f} s + {used.ru_stime:.1f} s of the kernel; "
        f"{used.ru_maxrss / (1 << 20):.2f} GiB; exit {process.returncode}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=("large", "many", "small"), default="large")
    parser.add_argument(
        "--samples", type=int, default=100_000_000, help="of `large`, in all recordings (default 100000000)"
    )
    parser.add_argument("--recordings", type=int, default=1_000, help="of `many` (default 1000)")
    parser.add_argument("--engine", help="roll up by this engine first (local, duckdb, clickhouse, spark)")
    parser.add_argument("--keep", type=Path, help="where the recordings are, or go and stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.keep or Path(scratch) / "recordings"
        if not directory.exists():
            if arguments.shape == "large":
                generate(directory, arguments.samples)
            elif arguments.shape == "many":
                many(directory, arguments.recordings)
            else:
                small(directory)
        if arguments.engine:
            rolled = Path(scratch) / "rollup"
            cost = measured("rollup", str(directory), "--engine", arguments.engine, "--output", str(rolled))
            print(f"rollup by {arguments.engine}: {cost}", flush=True)
            directory = rolled
        page = Path(scratch) / "report.html"
        cost = measured("report", str(directory), "-o", str(page), "--json-file", str(page.with_suffix(".json")))
        print(f"report: {cost}; page {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
