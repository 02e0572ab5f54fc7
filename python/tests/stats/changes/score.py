"""Scores change points on labelled traces: `python tests/stats/changes/score.py [DIRECTORY] [--by-trace]`.

DIRECTORY holds `real/` and `synthetic/`, CSV files `epoch;rtt;cp`; without it the packed traces beside this
file are unpacked (Wenqin Shao's `rtt` data set, MIT; licence and description are in the archive). A detection
counts where a label lies within two samples, one to one; counts are pooled over the traces. Traces are also
divided into two halves by a seeded shuffle (docs/change-points.md says what was chosen on which).
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathometer.stats.changes import find_changes

WINDOW = 2
MS = 1e6


@dataclass
class Trace:
    name: str
    rtt_ns: np.ndarray
    labels: list[int]


@dataclass
class Tally:
    matched: int = 0
    found: int = 0
    labelled: int = 0

    def add(self, other: Tally) -> None:
        self.matched += other.matched
        self.found += other.found
        self.labelled += other.labelled

    @property
    def precision(self) -> float:
        return self.matched / max(1, self.found)

    @property
    def recall(self) -> float:
        return self.matched / max(1, self.labelled)

    @property
    def f1(self) -> float:
        return 2 * self.matched / max(1, self.found + self.labelled)


def match(found: list[int], labels: list[int], window: int = WINDOW) -> int:
    """Size of the largest one-to-one matching of points no further apart than `window`. On a line, taking the
    earliest pair that fits is optimal.
    """
    found, labels = sorted(found), sorted(labels)
    i = j = pairs = 0
    while i < len(found) and j < len(labels):
        distance = found[i] - labels[j]
        if abs(distance) <= window:
            pairs, i, j = pairs + 1, i + 1, j + 1
        elif distance < 0:
            i += 1
        else:
            j += 1
    return pairs


def unpack(into: Path) -> Path:
    """The labelled traces, unpacked into a directory."""
    with tarfile.open(Path(__file__).parent / "traces" / "rtt-changepoints.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into / "rtt-changepoints"


def read(path: Path) -> Trace:
    """One file; rtt in ms with a point or a comma, negative where missing."""
    rtt, labels = [], []
    for row, line in enumerate(path.read_text().splitlines()[1:]):
        _, value, label = line.strip().split(";")
        ms = float(value.replace(",", ".")) if value else -1.0
        rtt.append(ms * MS if ms > 0 else np.nan)
        if float(label or 0):
            labels.append(row)
    return Trace(path.stem, np.array(rtt), labels)


def halves(count: int) -> list[str]:
    """Half A or B for each trace, the same whenever it is asked."""
    order = np.random.default_rng(7).permutation(count)
    half = ["B"] * count
    for at in order[: (count + 1) // 2]:
        half[at] = "A"
    return half


def score(directory: Path, by_trace: bool = False) -> dict[tuple[str, str], Tally]:
    """Pooled tallies by (collection, half), "all" among the halves."""
    tallies: dict[tuple[str, str], Tally] = {}
    for collection in ("real", "synthetic"):
        paths = sorted((directory / collection).glob("*.csv"), key=str)
        for path, half in zip(paths, halves(len(paths)), strict=True):
            trace = read(path)
            found = [change.index for change in find_changes(trace.rtt_ns)]
            tally = Tally(match(found, trace.labels), len(found), len(trace.labels))
            for part in (half, "all"):
                tallies.setdefault((collection, part), Tally()).add(tally)
            if by_trace:
                print(line(f"{collection} {half} {trace.name}", tally))
    return tallies


def line(name: str, tally: Tally) -> str:
    return (
        f"{name:<20} F1 {tally.f1:.3f}  precision {tally.precision:.2f}  recall {tally.recall:.2f}  "
        f"({tally.matched} of {tally.found} found, {tally.labelled} labelled)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--by-trace", action="store_true", help="one line for each trace, too")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        tallies = score(arguments.directory or unpack(Path(scratch)), arguments.by_trace)
    for (collection, half), tally in sorted(tallies.items()):
        print(line(f"{collection} half {half}".replace("half all", "all"), tally))
    print(f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
