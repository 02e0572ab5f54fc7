#!/usr/bin/env python3
"""How often change points are reported where there are none: simulated round trips of one level and one tail.

Run with the Python half's environment: .venv/bin/python benches/silence.py. Prints one row a length and a correlation:
the series in which anything was reported. docs/change-points.md holds the figures; minutes, most of them the longest.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from fathometer.stats.changes import find_changes
from stats.changes.series import noise

ROWS = ((1_000, 100), (5_000, 30), (10_000, 20), (41_000, 20), (1_000_000, 3))
CORRELATIONS = (0.0, 0.9, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longest", type=int, default=1_000_000, help="leave longer series out")
    arguments = parser.parse_args()
    print(f"{'samples':>9} {'correlation':>11} {'series':>6} {'level':>5} {'tail':>5}")
    for count, series in ROWS:
        if count > arguments.longest:
            continue
        for correlation in CORRELATIONS:
            false = {"level": 0, "tail": 0}
            for seed in range(series):
                found = find_changes(noise(count, seed, correlation))
                for kind in {change.kind for change in found}:
                    false[kind] += 1
            print(
                f"{count:>9} {correlation:>11} {series:>6} {false['level']:>5} {false['tail']:>5}", flush=True
            )


if __name__ == "__main__":
    main()
