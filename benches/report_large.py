#!/usr/bin/env python3
"""What a report on a hundred million samples costs: time, processor time and memory, of the command as people run it.

Run with the Python half's environment: .venv/bin/python benches/report_large.py [--samples 100000000]. Writes four
recordings that ran side by side, one sample a millisecond, each with a change of level, lateness and a connection that
died; then runs `fathometer report` on them, script cache filled, with the page and the JSON.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000_000, help="in all recordings together (default 100000000)")
    parser.add_argument("--keep", type=Path, help="where the recordings are, or go and stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.keep or Path(scratch) / "recordings"
        if not directory.exists():
            generate(directory, arguments.samples)
        command = [sys.executable, "-c", "from fathometer.cli import main; main()", "report", str(directory)]
        command += ["-o", f"{scratch}/report.html", "--json", f"{scratch}/report.json"]
        began = time.monotonic()
        process = subprocess.Popen(command)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        size = Path(f"{scratch}/report.html").stat().st_size
        print(
            f"{time.monotonic() - began:.1f} s; processor {used.ru_utime:.1f} s + {used.ru_stime:.1f} s of the kernel; "
            f"{used.ru_maxrss / (1 << 20):.2f} GiB; page {size / 1e6:.2f} MB; exit {process.returncode}"
        )


if __name__ == "__main__":
    main()
