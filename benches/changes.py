#!/usr/bin/env python3
"""How often change points are reported where there are none, and how many are found where there is one.

Run with the Python half's environment: .venv/bin/python benches/changes.py [--series 40] [--outer]. A row a
generator, a column a length: series with a change of level + with a change of tail, of those looked at. Then steps of
20 % and of three deviations: found, of those made. With --outer also the cross-validated F1 on labelled traces
(python/tests/stats/changes/score.py). docs/change-points.md holds the figures; minutes.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from fathometer.stats.changes import find_changes
from stats.changes.score import GRID, outer, unpack
from stats.changes.series import generators

MOST_SAMPLES = 400_000
"""In a cell of the table."""


def silence(lengths, most, only) -> None:
    print(f"{'':<28}" + "".join(f"{length:>12,}" for length in lengths))
    for name, generator in generators():
        if only not in name:
            continue
        row = ""
        for length in lengths:
            series = max(10, min(most, MOST_SAMPLES // length))
            kinds = [{c.kind for c in find_changes(generator(length, seed))} for seed in range(series)]
            level, tail = (sum(kind in k for k in kinds) for kind in ("level", "tail"))
            row += f"{f'{level}+{tail} of {series}':>12}"
        print(f"{name:<28}{row}", flush=True)


def power(lengths, most, only) -> None:
    print(f"\n{'step found, 20 % / 3 dev.':<28}" + "".join(f"{length:>18,}" for length in lengths))
    for name, generator in generators():
        if only not in name or not name.startswith(("AR", "log", "GARCH")):
            continue
        row = ""
        for length in lengths:
            series = max(10, min(most, MOST_SAMPLES // length // 2))
            hits = [0, 0]
            for seed in range(series):
                calm = generator(length, seed)
                at, middle = int(0.43 * length), np.median(calm)
                for kind, size in enumerate((0.2 * middle, 3 * 1.4826 * np.median(np.abs(calm - middle)))):
                    changes = find_changes(calm + size * (np.arange(length) >= at))
                    hits[kind] += any(abs(c.index - at) <= max(20, length // 100) for c in changes)
            row += f"{f'{hits[0]} / {hits[1]} of {series}':>18}"
        print(f"{name:<28}{row}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=40, help="in a cell, at most")
    parser.add_argument("--lengths", type=int, nargs="+", default=[500, 2_000, 10_000, 20_000, 50_000])
    parser.add_argument("--only", default="", help="generators whose name contains this")
    parser.add_argument("--outer", action="store_true", help="cross-validated F1 on labelled traces, too")
    arguments = parser.parse_args()
    silence(arguments.lengths, arguments.series, arguments.only)
    power(arguments.lengths, arguments.series // 2, arguments.only)
    for length in (3_600, 41_000):
        _, generator = next(generators())
        calm = generator(length, 0)
        begun = time.process_time()
        for _ in range(5):
            find_changes(calm)
        print(f"{length:,} samples: {(time.process_time() - begun) / 5 * 1e3:.0f} ms of processor")
    if arguments.outer:
        with tempfile.TemporaryDirectory() as scratch:
            for collection, result in outer(unpack(Path(scratch)), GRID).items():
                print(f"{collection}: outer F1 {result.mean:.3f} ({result.by_traces:.3f} by draw of traces)")


if __name__ == "__main__":
    main()
