"""Samples counted by key and bucket, and their exact sums by key: histograms and envelopes in the making."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fathometer.dataset.batches import Batch
from fathometer.dataset.histogram import Ints

Exact = npt.NDArray[np.object_]
"""Python's integers: sums of squares pass 64 bits."""
_WIDE: Final = 1 << 17
"""More than there are buckets."""
_DENSE: Final = 4
"""Cells a sample up to which counting goes by a dense table, an order of magnitude faster than sorting."""
_HALF: Final = 21
"""Bits of each half of a value below 2^42 that is squared by halves."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Stretches of time of equal length, numbered from 0. `count` None: without an end on either side."""

    start_ns: int
    width_ns: int
    count: int | None = None


By = Grid | str | None
"""What samples are counted by: a grid of time, a column, or nothing."""


def keyed(batch: Batch, by: By) -> tuple[Batch, Ints]:
    """The samples that have a key, and the key of each."""
    if by is None:
        return batch, np.zeros(batch.rows, dtype=np.int64)
    if isinstance(by, str):
        return batch, batch.column(by).astype(np.int64)
    sent = batch.column("sent_ns")
    if by.count is not None and batch.rows:
        inside = (by.start_ns, by.start_ns + by.count * by.width_ns)
        # In the order of sending: the first and the last tell of all.
        if sent[0] < inside[0] or sent[-1] >= inside[1]:
            batch = batch.between(*inside)
            sent = batch.column("sent_ns")
    key: Ints = (sent - by.start_ns) // by.width_ns
    return batch, key


def runs(*keys: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Where each stretch of equal keys begins; needs at least one row."""
    new = np.zeros(len(keys[0]), dtype=np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


class Counts(NamedTuple):
    """How many samples have a key and a bucket, each pair once, in ascending order."""

    cell: Ints
    """Key times `_WIDE` plus bucket: one number sorts and joins twice as fast as two."""
    number: Ints

    @property
    def key(self) -> Ints:
        """The key of each pair."""
        return self.cell // _WIDE

    @property
    def bucket(self) -> Ints:
        """Its bucket."""
        return self.cell % _WIDE


def counted(key: Ints, bucket: Ints) -> Counts:
    """Counts samples; needs at least one."""
    first_key, first = int(key.min()), int(bucket.min())
    wide = int(bucket.max()) - first + 1
    cells = (int(key.max()) - first_key + 1) * wide
    if cells <= _DENSE * max(len(key), 1 << 14):
        table = np.bincount((key - first_key) * wide + (bucket - first), minlength=cells)
        at = np.flatnonzero(table)
        return Counts((at // wide + first_key) * _WIDE + at % wide + first, table[at])
    cell = np.sort(key * _WIDE + bucket)
    at = runs(cell)
    return Counts(cell[at], np.diff(at, append=len(cell)))


def joined_counts(parts: Sequence[Counts]) -> Counts:
    """Counts added up."""
    return parts[0] if len(parts) == 1 else Counts(*joined_runs(parts, (np.add,)))


class Sums(NamedTuple):
    """Exact sums by key, ascending, each key once."""

    key: Ints
    low: Ints
    high: Ints
    total: Exact
    squares: Exact


def summed(key: Ints, values: Ints) -> Sums:
    """Sums of values; needs at least one, none below 0."""
    at = runs(key)
    made = Sums(
        key[at],
        np.minimum.reduceat(values, at),
        np.maximum.reduceat(values, at),
        _exact(values, at),
        _squares(values, at),
    )
    return made if (made.key[1:] > made.key[:-1]).all() else joined_sums([made])


def joined_sums(parts: Sequence[Sums]) -> Sums:
    """Sums added up; a part may have a key several times."""
    key, *columns = joined_runs(parts, (np.minimum, np.maximum, np.add, np.add))
    return Sums(key, *columns)


def joined_runs(
    parts: Sequence[tuple[npt.NDArray[Any], ...]], how: Sequence[np.ufunc], keys: int = 1
) -> list[npt.NDArray[Any]]:
    """Rows of equal keys made one: the first `keys` columns, ascending, and each other one put together as
    told.
    """
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    # Parts are sorted and nearly follow one another, which a stable sort is quick with.
    order = np.argsort(columns[0], kind="stable") if keys == 1 else np.lexsort(columns[:keys][::-1])
    for i, column in enumerate(columns):
        columns[i] = column[order]
    at = runs(*columns[:keys])
    joined = [f.reduceat(column, at) for f, column in zip(how, columns[keys:], strict=True)]
    return [*(column[at] for column in columns[:keys]), *joined]


def _exact(values: Ints, at: npt.NDArray[np.intp]) -> Exact:
    """Sums in 64 bits where they surely fit."""
    if int(values.max()) < (1 << 62) // len(values):
        return np.add.reduceat(values, at).astype(object)
    return np.asarray(np.add.reduceat(values.astype(object), at))


def _squares(values: Ints, at: npt.NDArray[np.intp]) -> Exact:
    largest = int(values.max())
    if largest * largest < (1 << 62) // len(values):
        return np.add.reduceat(values * values, at).astype(object)
    if largest >> 2 * _HALF:
        return np.asarray(np.add.reduceat(values.astype(object) ** 2, at))
    # (h 2^21 + l)^2, each product below 2^42: no batch has enough samples to pass 64 bits.
    high, low = values >> _HALF, values & ((1 << _HALF) - 1)
    outer, middle, inner = (
        np.add.reduceat(x, at).astype(object) for x in (high * high, high * low, low * low)
    )
    return np.asarray((outer << 2 * _HALF) + (middle << _HALF + 1) + inner)
