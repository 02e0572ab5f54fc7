"""Quantiles and means of a series that is only known as histograms of blocks, with the intervals of
`quantiles`.

What is a hundred million samples in the recording is a few hundred histograms here; the figures are the same
but for the rounding of a bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, MOST, Cut, correlated
from fathometer.stats.cycle import cycle_of, without_cycle
from fathometer.stats.quantiles import (
    NINES,
    doubt_of,
    effective_count,
    few_bursts,
    mean_interval,
    shares_around,
    supported,
    withheld,
)
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Estimate, Interval
from fathometer.stats.series import BlockCounts, settled


def rollup_estimates(
    blocks: BlockCounts, ps: Sequence[float] = NINES, level: float = LEVEL
) -> tuple[Estimate, ...]:
    """Quantiles of all samples in the blocks."""
    base = _Base.of(_without_empty(blocks))
    worth = base.worth(level)
    return tuple(_one(base, p, worth, level) for p in ps)


def rollup_mean(blocks: BlockCounts, level: float = LEVEL) -> Estimate:
    """The mean of all samples in the blocks."""
    blocks = _without_empty(blocks)
    if blocks.number == 0:
        return Estimate(float("nan"), None, 0, 0, Doubt(DoubtCode.NO_SAMPLES))
    base = _Base.of(blocks)
    at, n = base.blocks.mean(), base.count
    if base.number < FEWEST:
        return Estimate(at, None, n, 0, Doubt(DoubtCode.FEW_SAMPLES, n))
    # Blocks of unequal size: each one's departure from the mean, weighted by its size (a ratio estimator).
    means = at + base.departures(base.blocks.sums - at * base.sizes)
    doubt = doubt_of(Cut(base.number, round(n / base.number), base.independent))
    if doubt is None and _tail_index(base.blocks) < HEAVY:
        doubt = Doubt(DoubtCode.HEAVY_TAIL, n)
    return Estimate(at, mean_interval(at, means, level), n, base.number, doubt)


@dataclass(frozen=True, slots=True)
class _Base:
    """A series, and from how many blocks its spread is taken, so that these are independent."""

    fine: BlockCounts
    """As it came."""
    blocks: BlockCounts
    """As the spread is looked at first: settled, or where there is a cycle the fine ones."""
    sizes: NDArray[np.int64]
    """Of these blocks."""
    count: int
    """Samples in all."""
    number: int
    """Into how many the blocks are joined."""
    independent: bool
    cycle: int | None
    """A cycle that is no part of the spread."""

    @classmethod
    def of(cls, fine: BlockCounts) -> _Base:
        """Where there is a cycle, blocks are joined until what is left without it is independent."""
        sizes = fine.sizes
        count = int(sizes.sum())
        cycle = cycle_of(fine.below(fine.quantile(0.5)) / sizes) if count else None
        if cycle is None:
            blocks = settled(fine) if count else fine
            return cls(fine, blocks, blocks.sizes, count, blocks.number, blocks.independent, None)
        # Of the sums of means: by their order alone it is judged whether they are correlated.
        every = [without_cycle(m, cycle) for m in (fine.sums / sizes, fine.medians())]
        while len(every[0]) > MOST or (any(map(correlated, every)) and len(every[0]) // 2 >= FEWEST):
            every = [_joined(m) for m in every]
        return cls(fine, fine, sizes, count, len(every[0]), not any(map(correlated, every)), cycle)

    def departures(self, sums: NDArray[np.float64], number: int | None = None) -> NDArray[np.float64]:
        """By how much the mean of each of so many blocks departs, from what `blocks` depart in sum."""
        if self.cycle is not None:
            sums = without_cycle(sums, self.cycle)
        sums = _in_blocks(sums, self.number if number is None else number)
        return np.asarray(sums * (len(sums) / self.count), dtype=np.float64)

    def shares(self, below: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """The share of each block's samples that are below, in so many blocks."""
        share = float(below.sum()) / self.count
        return share + self.departures(below - share * self.sizes, number)

    def is_correlated(self, below: NDArray[np.float64], number: int) -> bool:
        """Whether the share below in one block tells of that in the next."""
        if self.cycle is not None:
            return correlated(self.shares(below, number))
        return correlated(_in_blocks(below, number) / _in_blocks(self.sizes, number))

    def worth(self, level: float) -> float:
        """Independent samples that the series is worth for its median."""
        if self.number < FEWEST:
            return float(self.count)
        sides = _sides(self.blocks, self.blocks.quantile(0.5))
        return min(self.effective(s, self.number, level) for s in sides)

    def effective(self, below: NDArray[np.float64], number: int, level: float) -> float:
        """How many independent samples the share below is worth, by the spread of so many blocks."""
        share = float(below.sum()) / self.count
        return effective_count(share, self.shares(below, number), self.count, level)


def _in_blocks(sums: NDArray[np.float64] | NDArray[np.int64], number: int) -> NDArray[np.float64]:
    """Neighbours joined, two at a time as by `settled`, until there are so many."""
    joined = np.asarray(sums, dtype=np.float64)
    while len(joined) > number:
        joined = _joined(joined)
    return joined


def _joined(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every two neighbours become one; a remainder at the beginning joins the first."""
    starts = np.arange(len(sums) // 2) * 2 + len(sums) % 2
    starts[0] = 0
    return np.asarray(np.add.reduceat(sums, starts), dtype=np.float64)


def _without_empty(blocks: BlockCounts) -> BlockCounts:
    return blocks.pick(np.flatnonzero(blocks.sizes > 0))


def _one(base: _Base, p: float, worth: float, level: float) -> Estimate:
    blocks, n = base.blocks, base.count
    if n == 0:
        return Estimate(float("nan"), None, 0, 0, Doubt(DoubtCode.NO_SAMPLES))
    at = blocks.quantile(p)
    if not supported(p, n, level):
        return Estimate(at, None, n, 0, Doubt(DoubtCode.UNSUPPORTED, n, quantile=p))
    if base.number < FEWEST:
        return Estimate(at, None, n, 0, Doubt(DoubtCode.FEW_SAMPLES, n))
    # The quantile is where the share of samples below passes `p`: from less, strictly below, to more, at or
    # below. Where many share the value the two differ, and each may be the correlated one.
    sides, number = _sides(blocks, at), base.number
    while any(base.is_correlated(s, number) for s in sides) and number // 2 >= FEWEST:
        number //= 2
    effective = min(base.effective(s, number, level) for s in sides)
    why = withheld(p, n, effective, worth, level)
    if why:
        return Estimate(at, None, n, number, why)
    independent = base.independent and not any(base.is_correlated(s, number) for s in sides)
    low, high = shares_around(p, effective, level)
    interval = Interval(min(blocks.within(low)[0], at), max(blocks.within(high)[1], at), level)
    doubt = (
        doubt_of(Cut(number, round(n / number), independent))
        or few_bursts(p, n, worth, level)
        or _in_few_bursts(base.fine, p, _tail_of(base.fine, p, (at, interval.high), worth), effective)
        or _undetermined(blocks, p, interval, (1 - high) * effective)
    )
    return Estimate(at, interval, n, number, doubt)


def _sides(blocks: BlockCounts, at: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many samples of each block are at or below a value, and how many are below it."""
    k = int(np.searchsorted(blocks.values, at))
    counts = blocks.counts
    strictly = np.asarray(counts[:, :k].sum(axis=1), dtype=np.float64)
    return strictly + counts[:, k], strictly


BURSTS = 20
"""Separate bursts below which the spread of a tail, taken from those that were seen, is doubted: the p99 of
ten bursts of twenty samples covered 87 %."""


FARTHER = 8
"""A share of the tail, one of so many, that few bursts make up: how many there were then moves the quantile
before them, too. The p95 of bursts that are 2 % of samples covered 91 %, and missed on one side only: where
fewer had come than usual."""
CALM = 4
"""One of so many samples that a series must be worth for its median, to be calm but for its bursts. In a
correlated one all excursions are bursts, and its own spread tells of them (AR 0.95: 95 %)."""


def _tail_of(fine: BlockCounts, p: float, ends: tuple[float, float], worth: float) -> tuple[float, ...]:
    """From which values on the tail is looked at: the ends given, and where the farther part begins."""
    return (*ends, fine.quantile(1 - (1 - p) / FARTHER)) if CALM * worth >= fine.count else ends


def _in_few_bursts(fine: BlockCounts, p: float, ends: tuple[float, ...], effective: float) -> Doubt | None:
    """Where the tail came in a few bursts, above the quantile or above its interval: with one burst more or
    less the quantile would be another.
    """
    if any(_few_and_clustered(fine, at) for at in ends):
        return Doubt(DoubtCode.FEW_BURSTS, fine.count, effective, quantile=p)
    return None


def _few_and_clustered(fine: BlockCounts, at: float) -> bool:
    """Whether the samples above a value are in few bursts: neighbouring blocks that hold some are one."""
    above = fine.sizes - fine.below(at)
    some = np.count_nonzero(above)
    if some == 0 or 2 * some > fine.number:
        return False  # None, or everywhere.
    bursts = int(np.count_nonzero(np.diff((above > 0).astype(np.int8), prepend=0) > 0))
    return bursts < BURSTS and bool(above.sum() >= 3 * some)


def _undetermined(blocks: BlockCounts, p: float, interval: Interval, above: float) -> Doubt | None:
    """Where ties or the upper tail leave a quantile open. `above`: independent samples past its end."""
    if above < 1:
        return Doubt(DoubtCode.HEAVY_TAIL, blocks.count, quantile=p)
    inside = blocks.values[(blocks.values >= interval.low) & (blocks.values <= interval.high)]
    taken = int(np.count_nonzero(blocks.counts[:, np.searchsorted(blocks.values, inside)].any(axis=0)))
    if taken == 2 and interval.high - interval.low > COARSE * interval.high:
        return Doubt(DoubtCode.TIED, taken, quantile=p)
    return None


COARSE = 0.01
"""Relative step from which two neighbouring values are told apart: ten times the buckets of a report."""


def _tail_index(blocks: BlockCounts) -> float:
    """How heavy the upper tail is: P(X > x) falls like x to the power of minus this; below 2 the variance is
    infinite. Hill (1975), "A simple general approach to inference about the tail of a distribution", Ann.
    Stat. 3. It is heavy only if it is so at three depths: a step between bursts and the rest is no tail.
    """
    depths = {min(max(blocks.count // share, 20), 500, blocks.count) for share in (50, 100, 200)}
    return max(_hill(blocks, k) for k in depths)


def _hill(blocks: BlockCounts, k: int) -> float:
    counts = blocks.counts.sum(axis=0)[::-1]
    taken = np.minimum(np.diff(np.minimum(np.cumsum(counts), k), prepend=0), counts)
    values = blocks.values[::-1]
    least = float(values[taken > 0][-1])
    if least <= 0:
        return float("inf")
    some = taken > 0
    total = float((taken[some] * np.log(values[some] / least)).sum())
    return k / total if total > 0 else float("inf")


HEAVY = 2.2
"""Tail index below which a mean is doubted: intervals of means of Pareto's distribution with 1.5 cover 60 to
80 %, with 2.5 94 %."""
