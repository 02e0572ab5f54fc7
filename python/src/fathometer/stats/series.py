"""A series as histograms of blocks: the one form in which raw samples and rollups of hundreds of millions of
rows are compared.

Each block holds how many samples took each value (values rounded by at most 0.05 %, as the recording's
buckets are), and their exact sum. A quantile of any union of blocks is then a matter of adding counts, which
makes resampling whole blocks cheap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, MOST, correlated, cut

RELATIVE_STEP = 1 / 2048
"""Steps of rounding where a series has more distinct values than `DISTINCT`: as fine as the recording's
buckets."""
DISTINCT = 4096


_OF_MANY = 0.02
"""Share of all samples up to which a bucket is one of many: those within it lie about evenly."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Samples that were counted by bucket are known no better than by its ends."""

    numbers: NDArray[np.int64]
    """Ascending; the same for every series."""
    lows: NDArray[np.float64]
    """The smallest value that a sample of each bucket may have; that value itself, where all are known to be
    the same."""
    highs: NDArray[np.float64]
    """The largest one."""

    def pick(self, columns: NDArray[np.bool_]) -> Buckets:
        """Some of them."""
        return Buckets(self.numbers[columns], self.lows[columns], self.highs[columns])


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """A series in order of time, cut into blocks."""

    values: NDArray[np.float64]
    """The distinct values, ascending. Unit: the caller's."""
    counts: NDArray[np.int64]
    """counts[block, value]."""
    sums: NDArray[np.float64]
    """Exact sum of each block's samples."""
    began_ns: NDArray[np.int64] | None = None
    """When each block began, ns since the Unix epoch; None where the series has no times."""
    independent: bool = True
    """False where neighbouring blocks still are correlated."""
    buckets: Buckets | None = None
    """What `values` stand for; None: each for itself."""

    @property
    def count(self) -> int:
        """Samples in all."""
        return int(self.counts.sum())

    @property
    def number(self) -> int:
        """Blocks."""
        return len(self.counts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Samples in each block."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    def mean(self) -> float:
        """The mean of all samples."""
        return float(self.sums.sum()) / self.count if self.count else math.nan

    def quantile(self, p: float) -> float:
        """The smallest value with at least a share `p` of all samples at or below it."""
        return float(quantiles_of(self.values, self.counts.sum(axis=0)[np.newaxis, :], (p,))[0, 0])

    def ends(self, p: float) -> tuple[float, float]:
        """Between which values the quantile of all samples lies: it is known no better than its bucket."""
        at = self.quantile(p)
        if self.buckets is None or math.isnan(at):
            return at, at
        k = int(np.searchsorted(self.values, at))
        return float(self.buckets.lows[k]), float(self.buckets.highs[k])

    def within(self, share: float) -> tuple[float, float]:
        """Between which values that share of all samples ends, for the ends of intervals: one value within a
        bucket that is one of many, by how much of it the share takes; the bucket's ends where it holds so
        much of the series that nobody knows how its samples lie in it.
        """
        low, high = self.ends(share)
        counts = self.counts.sum(axis=0)
        k = int(np.searchsorted(self.values, self.quantile(share))) if self.count else 0
        if low == high or counts[k] > _OF_MANY * self.count:
            return low, high
        taken = (share * self.count - float(counts[:k].sum())) / float(counts[k])
        at = low + min(max(taken, 0.0), 1.0) * (high - low)
        return at, at

    def medians(self) -> NDArray[np.float64]:
        """The median of each block; NaN for an empty one."""
        return quantiles_of(self.values, self.counts, (0.5,))[:, 0]

    def below(self, value: float) -> NDArray[np.float64]:
        """How many samples of each block are at or below `value`."""
        k = int(np.searchsorted(self.values, value, side="right"))
        return np.asarray(self.counts[:, :k].sum(axis=1), dtype=np.float64)

    def occurring(self) -> BlockCounts:
        """Without the values that no sample has."""
        some: NDArray[np.bool_] = np.asarray(self.counts.any(axis=0), dtype=np.bool_)
        if some.all():
            return self
        return replace(
            self,
            values=self.values[some],
            counts=self.counts[:, some],
            buckets=None if self.buckets is None else self.buckets.pick(some),
        )

    def pick(self, rows: NDArray[np.intp]) -> BlockCounts:
        """Some of the blocks."""
        return replace(
            self,
            counts=self.counts[rows],
            sums=self.sums[rows],
            began_ns=None if self.began_ns is None else self.began_ns[rows],
        )


def quantiles_of(
    values: NDArray[np.float64], counts: NDArray[np.int64] | NDArray[np.float64], ps: Sequence[float]
) -> NDArray[np.float64]:
    """Quantiles of each row of counts: result[row, p]. NaN for a row without samples."""
    running = np.cumsum(counts, axis=1)
    totals = running[:, -1]
    result = np.full((len(counts), len(ps)), math.nan)
    some = totals > 0
    for j, p in enumerate(ps):
        rank = np.maximum(np.ceil(p * totals - 1e-9), 1)
        result[some, j] = values[_reached(running, rank)[some]]
    return result


def mid_quantiles_of(
    values: NDArray[np.float64], blocks: NDArray[np.int64], weights: NDArray[np.float64], ps: Sequence[float]
) -> NDArray[np.float64]:
    """Mid-quantiles of weighted sums of rows of counts: result[row of weights, p]; see `compare`. NaN for a
    sum without samples.
    """
    # Sums of the rows' own middles: exact, for they are halves of integers.
    middle = weights @ (np.cumsum(blocks, axis=1) - blocks / 2)
    totals = weights @ blocks.sum(axis=1)
    result = np.full((len(weights), len(ps)), math.nan)
    some = totals > 0
    every = np.arange(len(weights))
    for j, p in enumerate(ps):
        rank = p * totals
        right = _reached(middle, rank)
        left = np.maximum(right - 1, 0)
        low, high = middle[every, left], middle[every, right]
        step = np.where(high > low, high - low, 1.0)
        share = np.clip((rank - low) / step, 0.0, 1.0)
        result[some, j] = (values[left] + share * (values[right] - values[left]))[some]
    return result


def _reached(running: NDArray[Any], rank: NDArray[np.float64]) -> NDArray[np.intp]:
    """The first column of each row, none of which falls, that reaches its rank; else the last one."""
    every = np.arange(len(running))
    low = np.zeros(len(running), dtype=np.intp)
    high = np.full(len(running), running.shape[1] - 1, dtype=np.intp)
    for _ in range(running.shape[1].bit_length()):
        middle = (low + high) // 2
        beyond = (running[every, middle] < rank) & (low < high)
        low, high = np.where(beyond, middle + 1, low), np.where(beyond, high, middle)
    return low


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values rounded to `RELATIVE_STEP` of their octave, where there are more than `DISTINCT`."""
    if len(np.unique(values)) <= DISTINCT:
        return values
    _, exponent = np.frexp(values)
    step = np.ldexp(RELATIVE_STEP, exponent)
    return np.asarray(np.round(values / step) * step, dtype=np.float64)


def from_series(values: NDArray[np.float64], at_ns: NDArray[np.int64] | None = None) -> BlockCounts:
    """Blocks of equal length, long enough to be independent, of answered samples."""
    if len(values) == 0:
        return BlockCounts(np.zeros(0), np.zeros((0, 0), dtype=np.int64), np.zeros(0))
    blocks = cut(values)
    number = blocks.count or 1
    length = len(values) // number
    # The remainder joins the first block: no sample is left out of a figure.
    index = np.maximum(np.arange(len(values)) - (len(values) - number * length), 0) // length
    return _gather(values, index.astype(np.intp), number, at_ns, blocks.independent)


def from_windows(values: NDArray[np.float64], at_ns: NDArray[np.int64], window_ns: int) -> BlockCounts:
    """Blocks of equal time, aligned to multiples of `window_ns`, so that those of two series can be paired.
    Empty windows are left out.
    """
    windows, index = np.unique(at_ns // window_ns, return_inverse=True)
    blocks = _gather(values, index, len(windows), None, True)
    return replace(
        blocks, began_ns=np.asarray(windows * window_ns, dtype=np.int64), independent=_calm(blocks)
    )


def _gather(
    values: NDArray[np.float64],
    index: NDArray[np.intp],
    number: int,
    at_ns: NDArray[np.int64] | None,
    independent: bool,
) -> BlockCounts:
    distinct, column = np.unique(rounded(values), return_inverse=True)
    counts = np.zeros((number, len(distinct)), dtype=np.int64)
    np.add.at(counts, (index, column), 1)
    sums = np.asarray(np.bincount(index, weights=values, minlength=number), dtype=np.float64)
    began = None
    if at_ns is not None:
        began = np.full(number, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(began, index, at_ns)
    return BlockCounts(distinct, counts, sums, began, independent)


def _calm(blocks: BlockCounts) -> bool:
    full = blocks.sizes > 0
    return not correlated(blocks.sums[full] / blocks.sizes[full]) and not correlated(blocks.medians()[full])


def settled(blocks: BlockCounts, *, most: int = MOST, fewest: int = FEWEST) -> BlockCounts:
    """The same series in fewer, longer blocks: neighbours are joined until their means and medians are no
    longer correlated, or `fewest` are left.
    """
    current = blocks
    while current.number > most or (not _calm(current) and current.number // 2 >= fewest):
        current = joined(current, 2)
    return replace(current, independent=_calm(current))


def joined(blocks: BlockCounts, neighbours: int) -> BlockCounts:
    """Every `neighbours` blocks become one; a remainder at the beginning joins the first."""
    number = max(blocks.number // neighbours, 1)
    spare = blocks.number - number * neighbours
    index = np.maximum(np.arange(blocks.number) - max(spare, 0), 0) // neighbours
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    return replace(
        blocks,
        counts=np.add.reduceat(blocks.counts, starts, axis=0),
        sums=np.add.reduceat(blocks.sums, starts),
        began_ns=None if blocks.began_ns is None else blocks.began_ns[starts],
    )


def paired(a: BlockCounts, b: BlockCounts) -> tuple[BlockCounts, BlockCounts]:
    """The blocks of both series that began at the same time; for series made by `from_windows` with one
    window.
    """
    if a.began_ns is None or b.began_ns is None:
        raise ValueError("blocks without times cannot be paired: make both with from_windows and one window")
    _, in_a, in_b = np.intersect1d(a.began_ns, b.began_ns, return_indices=True)
    return a.pick(in_a), b.pick(in_b)
