"""Each connection's samples, counted in the same pass as the rollup: round trips by bucket, and the level of
each connection over the recording's time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fathometer.dataset.histogram import Floats, Ints, grouped_quantile
from fathometer.dataset.rollup import BUCKET_BITS, SHIFT, Counted, PathKey, added
from fathometer.dataset.selection import Selection

_SLICE_BITS: Final = 6
SLICES: Final = 1 << _SLICE_BITS
"""Number of equal time slices of a recording, the same for all connections."""
_JOIN_AT: Final = 32
"""Number of parts that are merged before more are collected."""
Rows = tuple[Ints, ...]
"""Key, number and total; sorted by key, each key once."""


@dataclass(slots=True)
class ConnectionTally:
    """Counts of one path's connections so far."""

    counts: list[Rows] = field(default_factory=list)
    """Cells by connection and bucket; the total is of round trips, ns."""
    levels: list[Rows] = field(default_factory=list)
    """Cells by connection and time slice; the total is of bucket numbers."""

    def count(self, cells: Rows, connection: Ints, slices: Ints, bucket: Ints) -> None:
        """Adds answered samples. `cells`: the same samples by connection and bucket."""
        self.counts.append(cells)
        first = int(connection.min())
        place = (connection - first) << _SLICE_BITS | slices
        if int(place.max()) < 4 * max(len(place), 1 << 14):
            number = np.bincount(place)
            at = np.flatnonzero(number)
            # Bucket numbers are small: their sums stay exact in floating point.
            total = np.bincount(place, weights=bucket)[at].astype(np.int64)
            rows: Rows = (at, number[at], total)
        else:
            order = np.argsort(place, kind="stable")
            rows = added(place[order], np.ones_like(place), bucket[order])
        self.levels.append((rows[0] + (first << _SLICE_BITS), *rows[1:]))
        self._shrink()

    def add(self, other: ConnectionTally) -> None:
        """Adds another part's."""
        self.counts += other.counts
        self.levels += other.levels
        self._shrink()

    def _shrink(self) -> None:
        if len(self.counts) >= _JOIN_AT:
            self.join()

    def join(self) -> None:
        """Puts equal keys together."""
        self.counts, self.levels = [_joined(self.counts)], [_joined(self.levels)]


def _joined(parts: Sequence[Rows]) -> Rows:
    return added(*(np.concatenate(c) for c in zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class ByConnection:
    """Answered samples by connection; warm-up is left out."""

    ids: Ints
    """Numbers of the connections, ascending."""
    counted: Counted
    """Their round trips; a stretch is the index of a connection in `ids`."""
    slices: Rows
    """Number of samples and sum of their bucket numbers, by index in `ids` and time slice."""

    def medians(self) -> Floats:
        """The median of each connection, ns."""
        return grouped_quantile(*self.counted[:3], 0.5, SHIFT)[1]

    def sizes(self) -> Ints:
        """Samples of each connection."""
        return np.bincount(self.counted.stretch, weights=self.counted.number).astype(np.int64)

    def levels(self) -> tuple[Ints, Ints]:
        """Number of samples and sum of their bucket numbers, which are roughly logarithmic: [connection,
        slice]. This takes a kilobyte a connection, so ask it for few.
        """
        key, *columns = self.slices
        number, level = (np.zeros(len(self.ids) * SLICES, dtype=np.int64) for _ in columns)
        number[key], level[key] = columns
        return number.reshape(-1, SLICES), level.reshape(-1, SLICES)


def by_connection(tallies: Mapping[PathKey, ConnectionTally], selection: Selection) -> ByConnection:
    """The connections of the selected paths."""
    silence = None if selection.silence is None else selection.silence.code
    chosen = [
        tally
        for key, tally in tallies.items()
        if selection.size in {None, key.size}
        and selection.under_load in {None, key.loaded}
        and silence in {None, key.silence}
    ]
    none = np.zeros(0, dtype=np.int64)
    if not chosen:
        return ByConnection(none, Counted(none, none, none, none), (none, none, none))
    cell, number, total = _joined([rows for tally in chosen for rows in tally.counts])
    ids, place = np.unique(cell >> BUCKET_BITS, return_inverse=True)
    # Buckets are numbered from 1 in cells.
    counted = Counted(place.astype(np.int64), (cell & ((1 << BUCKET_BITS) - 1)) - 1, number, total)
    key, sent, level = _joined([rows for tally in chosen for rows in tally.levels])
    key = np.searchsorted(ids, key >> _SLICE_BITS) << _SLICE_BITS | key & (SLICES - 1)
    return ByConnection(ids, counted, (key, sent, level))
