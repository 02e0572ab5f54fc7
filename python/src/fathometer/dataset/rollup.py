"""The rollup: what a recording's samples come to, counted. Everything but excerpts of raw samples is computed
from it, and it is the same table whether this machine's `scan` makes it or an engine (`expression`).

A row counts the round trips of one path (all keys equal: `PathKey`) that began within one step of time and
fall into one bucket. Regroupings add rows up: to one histogram, to blocks of time, to hours, to the bins of a
chart. Nothing is ever pooled across a key unless its caller names the paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fathometer.dataset.histogram import Histogram, Ints
from fathometer.dataset.selection import ALL, Selection
from fathometer.dataset.totals import Group, Totals

SHIFT: Final = 1
"""Coarseness of the buckets: 0.1 %, half the format's own resolution and half its rows."""
LOST: Final = -1
"""Stands in a cell for the bucket of samples without an intact echo."""
BUCKET_BITS: Final = 17


class PathKey(NamedTuple):
    """What samples of one recording must have in common to be counted together. Label, mode and pace are the
    recording's.
    """

    size: int
    """Payload bytes each way."""
    loaded: bool
    """Sent while the path was loaded on purpose."""
    silence: int
    """`Silence.code`; 0: around none."""
    warm_up: bool


@dataclass(frozen=True, slots=True)
class PathCounts:
    """The samples of one path, counted over all of the recording."""

    key: PathKey
    samples: int
    answered: int
    late: int
    """Of the answered: after the timeout."""
    corrupted: int
    """Of the others: an echo came, and was not what had been sent."""
    first_sent_ns: int
    last_sent_ns: int
    min_ns: int
    """Smallest round trip; 0 where none was answered."""
    max_ns: int

    def group(self) -> Group:
        """As `Totals` counts it."""
        return Group(
            self.key.size,
            self.key.loaded,
            self.key.silence,
            self.key.warm_up,
            self.samples,
            self.answered,
            self.late,
            self.corrupted,
            self.first_sent_ns,
            self.last_sent_ns,
        )


Narrow = np.ndarray[tuple[int], np.dtype[np.int32]] | Ints
"""Whole numbers in as few bytes as hold them: calculate with `wide`."""


class Cells(NamedTuple):
    """The rows of one path, sorted by step and bucket, each pair once. A hundred million samples make some
    fifteen million of them, so that columns are narrow where they can be; `packed` makes them.
    """

    step: Narrow
    """Number of the step since the Unix epoch."""
    bucket: Narrow
    """`LOST`, or the bucket at `SHIFT`."""
    number: Narrow
    """Samples: answered ones, or lost ones where the bucket is `LOST`."""
    total_ns: Ints
    """Exact sum of their round trips; 0 of lost ones."""


def packed(step: Ints, bucket: Ints, number: Ints, total_ns: Ints) -> Cells:
    """Rows that are in order."""
    return Cells(narrow(step), narrow(bucket), narrow(number), total_ns)


def narrow(column: Ints) -> Narrow:
    """In four bytes each, where all fit."""
    limits = np.iinfo(np.int32)
    if len(column) and (int(column.min()) < limits.min or int(column.max()) > limits.max):
        return column
    return column.astype(np.int32)


def wide(column: Narrow) -> Ints:
    """To calculate with."""
    return column.astype(np.int64)


class Counted(NamedTuple):
    """Round trips by stretch of time and bucket, sorted, each pair once."""

    stretch: Ints
    bucket: Ints
    number: Ints
    total_ns: Ints


class Sent(NamedTuple):
    """Samples by stretch of time, ascending; stretches in which nothing was sent are left out."""

    stretch: Ints
    sent: Ints
    lost: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Rollup:
    """The rollup of one recording."""

    step_ns: int
    """Length of a step; steps are counted from the Unix epoch."""
    paths: tuple[PathCounts, ...]
    """Sorted by key."""
    cells: tuple[Cells, ...]
    """Of each path."""
    connections: int | None
    """How many connections carried samples; None: not counted."""

    def totals(self) -> Totals:
        """Counts over all samples, warm-up included."""
        return Totals(tuple(p.group() for p in self.paths), self.connections or 0)

    def _chosen(self, selection: Selection) -> list[tuple[PathCounts, Cells]]:
        """The paths that a selection wants; it may name no time and no connection, which a rollup does not
        have.
        """
        if selection.connection is not None or selection.start_ns is not None or selection.end_ns is not None:
            raise ValueError("a rollup knows no connections and no moments: ask `raw.samples`")
        silence = None if selection.silence is None else selection.silence.code
        return [
            (p, c)
            for p, c in zip(self.paths, self.cells, strict=True)
            if selection.size in {None, p.key.size}
            and selection.under_load in {None, p.key.loaded}
            and silence in {None, p.key.silence}
            and (selection.warm_up or not p.key.warm_up)
        ]

    def histogram(self, selection: Selection = ALL) -> Histogram:
        """All answered samples of the chosen paths."""
        chosen = [(p, c) for p, c in self._chosen(selection) if p.answered]
        if not chosen:
            return Histogram.empty(SHIFT)
        counted = regrouped([c for _, c in chosen], None)
        return Histogram(
            counted.bucket,
            counted.number,
            min(p.min_ns for p, _ in chosen),
            max(p.max_ns for p, _ in chosen),
            int(counted.total_ns.sum()),
            squares(counted.number, counted.total_ns),
            SHIFT,
            counted.total_ns,
        )

    def counted(self, start_ns: int, width_ns: int, selection: Selection = ALL) -> Counted:
        """Round trips by stretch of `width_ns`, numbered from the one that begins at `start_ns`. A step is
        counted where it begins: choose both as multiples of `step_ns`.
        """
        return regrouped([c for _, c in self._chosen(selection)], (start_ns, width_ns, self.step_ns))

    def sent(self, start_ns: int, width_ns: int, selection: Selection = ALL) -> Sent:
        """Samples by the same stretches."""
        none = np.zeros(0, dtype=np.int64)
        cells = [c for _, c in self._chosen(selection) if len(c.step)]
        if not cells:
            return Sent(none, none, none)
        step = np.concatenate([wide(c.step) for c in cells])
        number = np.concatenate([wide(c.number) for c in cells])
        lost = np.where(np.concatenate([c.bucket for c in cells]) == LOST, number, 0)
        keys, place = np.unique((step * self.step_ns - start_ns) // width_ns, return_inverse=True)
        return Sent(keys, _added(place, number, len(keys)), _added(place, lost, len(keys)))


def squares(number: Ints, total_ns: Ints) -> int:
    """Sum of squares, as if all round trips of a bucket were their mean: a spread that is short of the exact
    one by at most a bucket's width, and exact where values are few.
    """
    pairs = zip(number.tolist(), total_ns.tolist(), strict=True)
    # Multiplied up before it is divided: rounding stays below one square nanosecond a bucket.
    return sum(-(-total * total // n) for n, total in pairs)


def regrouped(cells: Sequence[Cells], stretches: tuple[int, int, int] | None) -> Counted:
    """The answered rows of several paths added up: over all time, or by (start, width, step) of stretches."""
    none = np.zeros(0, dtype=np.int64)
    answered = [c.bucket != LOST for c in cells]
    if not any(a.any() for a in answered):
        return Counted(none, none, none, none)

    def column(name: str) -> Ints:
        return np.concatenate([wide(getattr(c, name)[a]) for c, a in zip(cells, answered, strict=True)])

    bucket, number, total = (column(name) for name in ("bucket", "number", "total_ns"))
    if stretches is None:
        key = np.zeros(len(bucket), dtype=np.int64)
    else:
        start_ns, width_ns, step_ns = stretches
        key = (column("step") * step_ns - start_ns) // width_ns
    joined = added(key << BUCKET_BITS | bucket, number, total)
    return Counted(joined[0] >> BUCKET_BITS, joined[0] & ((1 << BUCKET_BITS) - 1), joined[1], joined[2])


def added(key: Ints, *columns: Ints) -> tuple[Ints, ...]:
    """Rows of equal keys made one, ascending, their columns added."""
    if not len(key):
        return key, *columns
    if (key[1:] < key[:-1]).any():
        # Mostly runs that ascend, which a stable sort is quick with.
        order = np.argsort(key, kind="stable")
        key, columns = key[order], tuple(c[order] for c in columns)
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = key[1:] != key[:-1]
    if new.all():
        return key, *columns
    at = np.flatnonzero(new)
    return key[at], *(np.add.reduceat(c, at) for c in columns)


def _added(place: Ints, number: Ints, length: int) -> Ints:
    sums = np.zeros(length, dtype=np.int64)
    np.add.at(sums, place, number)
    return sums
