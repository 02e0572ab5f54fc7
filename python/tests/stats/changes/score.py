"""Scores change points on labelled traces: `python score.py [DIRECTORY] [--by-trace] [--outer]`.

DIRECTORY holds `real/` and `synthetic/`, CSV files `epoch;rtt;cp`; without it the packed traces beside this
file are unpacked (Wenqin Shao's `rtt` data set, MIT; licence and description are in the archive). A detection
counts where a label lies within two samples, one to one; counts are pooled over the traces.

`--outer` estimates the score on traces that nothing was chosen on: nested cross-validation. What was chosen
on labels (`GRID`) is chosen again without each fifth of the traces, then scored on that fifth; the spread is
that of twenty divisions, and, larger, of drawing other traces (bootstrap).
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathometer.stats.changes import Settings, examine

WINDOW = 2
MS = 1e6
COLLECTIONS = ("real", "synthetic")
GRID = tuple(
    Settings(filter_width=width, least_impact=impact)
    for width in (5, 7, 9)
    for impact in (160.0, 200.0, 250.0, 320.0, 400.0)
)
"""What was chosen with labels in view."""


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
        # By the attribute: Debian 12's Python 3.11.2 knows no `filter=` yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(into)
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


def traces(directory: Path) -> dict[str, list[Trace]]:
    """Both collections, in order of name."""
    return {
        collection: [read(path) for path in sorted((directory / collection).glob("*.csv"), key=str)]
        for collection in COLLECTIONS
    }


def tally(trace: Trace, settings: Settings | None = None) -> Tally:
    """One trace against its labels, as a report would look at it."""
    changes = examine(trace.rtt_ns, settings=settings).changes
    levels = [change.index for change in changes if change.kind == "level"]
    return Tally(match(levels, trace.labels), len(levels), len(trace.labels))


def total(tallies: Iterable[Tally]) -> Tally:
    """Pooled counts."""
    pooled = Tally()
    for each in tallies:
        pooled.add(each)
    return pooled


def score(directory: Path, by_trace: bool = False, every: int = 1) -> dict[str, Tally]:
    """Pooled tallies by collection; `every`: 5 is every fifth trace."""
    pooled = {}
    for collection, known in traces(directory).items():
        members = known[::every]
        each = [tally(trace) for trace in members]
        pooled[collection] = total(each)
        if by_trace:
            for trace, result in zip(members, each, strict=True):
                print(line(f"{collection} {trace.name}", result))
    return pooled


@dataclass(frozen=True)
class Outer:
    """F1 on traces that nothing was chosen on."""

    mean: float
    by_division: float
    """Standard deviation over divisions of the same traces."""
    by_traces: float
    """Standard deviation over other draws of as many traces."""


def outer(directory: Path, grid: Sequence[Settings], divisions: int = 20, folds: int = 5) -> dict[str, Outer]:
    """Nested cross-validation. The inner choice maximises the mean of both collections' F1."""
    known = traces(directory)
    counts = {
        collection: [[tally(trace, settings) for trace in members] for settings in grid]
        for collection, members in known.items()
    }
    rng = np.random.default_rng(11)
    scores: dict[str, list[float]] = {collection: [] for collection in known}
    drawn: dict[str, list[float]] = {collection: [] for collection in known}
    for _ in range(divisions):
        fold = {c: rng.permutation(len(members)) % folds for c, members in known.items()}
        held: dict[str, list[Tally]] = {c: [Tally()] * len(members) for c, members in known.items()}
        for out in range(folds):
            inner = [
                sum(
                    total(t for t, f in zip(counts[c][s], fold[c], strict=True) if f != out).f1 for c in known
                )
                for s in range(len(grid))
            ]
            best = int(np.argmax(inner))
            for c in known:
                for at in np.flatnonzero(fold[c] == out):
                    held[c][at] = counts[c][best][at]
        for c, each in held.items():
            scores[c].append(total(each).f1)
            drawn[c] += [total(each[i] for i in rng.integers(0, len(each), len(each))).f1 for _ in range(20)]
    return {
        c: Outer(float(np.mean(f1)), float(np.std(f1)), float(np.std(drawn[c]))) for c, f1 in scores.items()
    }


def line(name: str, tally: Tally) -> str:
    return (
        f"{name:<20} F1 {tally.f1:.3f}  precision {tally.precision:.2f}  recall {tally.recall:.2f}  "
        f"({tally.matched} of {tally.found} found, {tally.labelled} labelled)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--by-trace", action="store_true", help="one line for each trace, too")
    parser.add_argument("--outer", action="store_true", help="nested cross-validation, too (minutes)")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.directory or unpack(Path(scratch))
        for collection, pooled in score(directory, arguments.by_trace).items():
            print(line(collection, pooled))
        for collection, result in outer(directory, GRID).items() if arguments.outer else ():
            print(
                f"{collection:<20} outer F1 {result.mean:.3f}  deviation by division "
                f"{result.by_division:.3f}, by traces {result.by_traces:.3f}"
            )
    print(f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
