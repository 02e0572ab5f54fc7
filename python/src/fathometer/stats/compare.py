"""Two scenarios against each other: which is faster, by how much, how surely.

Ratios and differences of the mean, median, p95 and p99 come with intervals from a bootstrap of whole blocks
(Künsch 1989, "The jackknife and the bootstrap for general stationary observations", Ann. Stat. 17; Kalibera &
Jones 2013, "Rigorous benchmarking in reasonable time", for the ratio). Where both paths were measured side by
side, blocks of the same time are resampled together ("duet", Bulej et al. 2020), which takes out whatever
both shared; a difference of 1.5 % was then seen in half the runs, against one in twenty-five unpaired.

What is resampled of a quantile is its mid-quantile, a line between the middles of the steps of the
distribution: where many samples share a value, a plain quantile jumps from one value to the next or does not
move at all, and its spread is worth nothing (Ma, Genton & Parzen 2011, "Asymptotic properties of sample
quantiles of discrete distributions", Ann. Inst. Stat. Math. 63). Where few samples share a value the two are
the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, MOST, correlated, variance_of_mean
from fathometer.stats.family import METRICS, QUANTILE, Difference, Metric, judged
from fathometer.stats.quantiles import supported
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Interval
from fathometer.stats.series import BlockCounts, joined, mid_quantiles_of, paired, settled

__all__ = ["METRICS", "Comparison", "Difference", "Metric", "Spreads", "compare", "spreads", "superiority"]

RESAMPLES = 499
"""Enough for a standard deviation, all that is taken from them: its own error is 1 / sqrt(2 * 499), 3 %."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A."""

    differences: tuple[Difference, ...]
    """Judged as a family of their own; a report judges those of all its pairs together (`family.judged`)."""
    superiority: float
    """Chance that a sample of B is larger than one of A, ties half (Vargha & Delaney 2000, A12): 0.5 is no
    effect."""
    pairing: Literal["paired in time", "unpaired"]
    blocks: tuple[int, int]
    counts: tuple[int, int]

    def of(self, metric: Metric) -> Difference:
        """The difference in one metric."""
        return next(d for d in self.differences if d.metric == metric)


@dataclass(frozen=True, slots=True, eq=False)
class Spreads:
    """One scenario, resampled by whole blocks: all that an unpaired comparison needs of it, so that each is
    resampled once however many it is compared with.
    """

    blocks: BlockCounts
    values: dict[Metric, float]
    middles: dict[Metric, float]
    """The mean, and mid-quantiles."""
    again: dict[Metric, NDArray[np.float64]]
    """The middles of every resample; empty with too few blocks."""


SHAKY = 2.0
"""By how much a spread is widened whose figure is doubted to be too sure: without it 12 % of the reports
of twelve scenarios that are alike called two of them different (benches/verdicts.py)."""


def spreads(blocks: BlockCounts, seed: int = 1, shaky: Collection[Metric] = ()) -> Spreads:
    """Settles a series into independent blocks and resamples them. `shaky`: metrics whose intervals are known
    to be too narrow.
    """
    full = blocks.pick(np.flatnonzero(blocks.sizes > 0))
    plain = _spread(settled(full) if full.number else full, np.random.default_rng(seed))
    if not plain.again:
        return plain
    means = plain.blocks.sums / plain.blocks.sizes
    alone = float(np.var(means, ddof=1)) / len(means)
    # What correlation is left between blocks; resampling takes them as independent.
    left = math.sqrt(variance_of_mean(means) / alone) if alone > 0 else 1.0
    again = {
        m: plain.middles[m] + left * (SHAKY if m in shaky else 1.0) * (values - plain.middles[m])
        for m, values in plain.again.items()
    }
    return replace(plain, again=again)


def _spread(blocks: BlockCounts, rng: np.random.Generator) -> Spreads:
    weights = _weights(rng, blocks.number) if blocks.number >= FEWEST else None
    return _spread_by(blocks, weights)


def _spread_by(blocks: BlockCounts, weights: NDArray[np.float64] | None) -> Spreads:
    if not blocks.count:
        nothing = dict.fromkeys(METRICS, math.nan)
        return Spreads(blocks, nothing, nothing, {})
    # Values that no sample has would bend the mid-quantiles.
    some = blocks.counts.any(axis=0)
    if not some.all():
        blocks = replace(blocks, values=blocks.values[some], counts=blocks.counts[:, some])
    values: dict[Metric, float] = {
        m: blocks.quantile(QUANTILE[m]) if m in QUANTILE else blocks.mean() for m in METRICS
    }
    once = _resampled(blocks, np.ones((1, blocks.number)))
    again = {} if weights is None else _resampled(blocks, weights)
    return Spreads(blocks, values, {m: float(v[0]) for m, v in once.items()}, again)


def compare(
    a: BlockCounts | Spreads,
    b: BlockCounts | Spreads,
    *,
    side_by_side: bool = False,
    least: Mapping[Metric, float] | None = None,
    level: float = LEVEL,
    seed: int = 1,
) -> Comparison:
    """B against A.

    Args:
        a: a series, or its spreads, where it is compared several times.
        b: the other one.
        side_by_side: both have times (`from_windows`, with one window); blocks of the same time are resampled
            together. BlockCounts that only one has are left out.
        least: spread of the log-ratio, by metric, that is known to be there from elsewhere (runs that differ
            more than their blocks).
        level: of the intervals.
        seed: of the resampling, so that a report reads the same twice.
    """
    if side_by_side:
        if isinstance(a, Spreads) or isinstance(b, Spreads):
            raise TypeError("pairs of blocks are resampled together: give the blocks, not their spreads")
        one, two = _settled_together(*paired(a, b))
        weights = _weights(np.random.default_rng(seed), one.number) if one.number >= FEWEST else None
        x, y = _spread_by(one, weights), _spread_by(two, weights)
    else:
        # Of their own seeds: two scenarios that are resampled alike would look paired.
        x = a if isinstance(a, Spreads) else spreads(a, seed)
        y = b if isinstance(b, Spreads) else spreads(b, seed + 1)
    differences = tuple(_difference(x, y, m, side_by_side, (least or {}).get(m, 0.0), level) for m in METRICS)
    return Comparison(
        judged(differences, level=level),
        superiority(x.blocks, y.blocks),
        "paired in time" if side_by_side else "unpaired",
        (x.blocks.number, y.blocks.number),
        (x.blocks.count, y.blocks.count),
    )


def superiority(a: BlockCounts, b: BlockCounts) -> float:
    """Vargha & Delaney's A12 of B over A, exactly, from counts."""
    if not a.count or not b.count:
        return math.nan
    values = np.union1d(a.values, b.values)
    in_a, in_b = np.zeros(len(values)), np.zeros(len(values))
    in_a[np.searchsorted(values, a.values)] = a.counts.sum(axis=0)
    in_b[np.searchsorted(values, b.values)] = b.counts.sum(axis=0)
    less = np.cumsum(in_a) - in_a
    return float((in_b * (less + in_a / 2)).sum() / (in_a.sum() * in_b.sum()))


def _settled_together(a: BlockCounts, b: BlockCounts) -> tuple[BlockCounts, BlockCounts]:
    # Joined alike, so that pairs stay pairs; what must be independent from block to block is the log-ratio.
    full = np.flatnonzero((a.sizes > 0) & (b.sizes > 0))
    a, b = a.pick(full), b.pick(full)
    while a.number // 2 >= FEWEST:
        ratio = _logs(a.medians()) - _logs(b.medians())
        means = _logs(a.sums / a.sizes) - _logs(b.sums / b.sizes)
        if a.number <= MOST and not correlated(ratio) and not correlated(means):
            break
        a, b = joined(a, 2), joined(b, 2)
    return a, b


def _logs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # A block of zeros ranks below every other, and has no logarithm.
    return np.log(np.maximum(values, 1e-9))


def _weights(rng: np.random.Generator, number: int) -> NDArray[np.float64]:
    return rng.multinomial(number, np.full(number, 1 / number), size=RESAMPLES).astype(np.float64)


def _resampled(blocks: BlockCounts, weights: NDArray[np.float64]) -> dict[Metric, NDArray[np.float64]]:
    counts = weights @ blocks.counts.astype(np.float64)
    ps = [QUANTILE[m] for m in METRICS if m in QUANTILE]
    quantiles = mid_quantiles_of(blocks.values, counts, ps)
    middles: dict[Metric, NDArray[np.float64]] = {"mean": (weights @ blocks.sums) / counts.sum(axis=1)}
    for j, metric in enumerate(m for m in METRICS if m in QUANTILE):
        middles[metric] = quantiles[:, j]
    return middles


def _undecided(x: Spreads, y: Spreads, metric: Metric) -> Doubt | None:
    """Why a metric cannot be compared."""
    if min(x.blocks.count, y.blocks.count) == 0:
        return Doubt(DoubtCode.NO_SAMPLES)
    number = min(x.blocks.number, y.blocks.number)
    if number < FEWEST:
        return Doubt(DoubtCode.FEW_BLOCKS, number, needed=FEWEST)
    count = min(x.blocks.count, y.blocks.count)
    if metric in QUANTILE and not supported(QUANTILE[metric], count):
        return Doubt(DoubtCode.UNSUPPORTED, count, quantile=QUANTILE[metric])
    if not (x.values[metric] > 0 and y.values[metric] > 0):
        return Doubt(DoubtCode.NOT_POSITIVE)
    return None


def _difference(
    x: Spreads, y: Spreads, metric: Metric, side_by_side: bool, least: float, level: float
) -> Difference:
    from scipy.special import stdtr, stdtrit  # Imported late: half a second of a report's start.

    a, b = x.values[metric], y.values[metric]
    units = (x.blocks.number, y.blocks.number)
    lacking = _undecided(x, y, metric)
    if lacking:
        ratio = b / a if a > 0 and b > 0 else math.nan
        return Difference(
            metric, a, b, b - a, None, ratio, None, None, "cannot be decided", units=units, doubt=lacking
        )
    middle = math.log(y.middles[metric] / x.middles[metric])
    logs = (_scaled(x, metric), _scaled(y, metric))
    spread, freedom = _spread_of(*logs, units, side_by_side)
    spread = max(spread, least)
    gap, _ = _spread_of(x.again[metric], y.again[metric], units, side_by_side)
    gap = max(gap, least * max(a, b))
    wide = -float(stdtrit(freedom, (1 - level) / 2))
    shown = math.log(b / a)
    low, high = min(middle - wide * spread, shown), max(middle + wide * spread, shown)
    p_value = 2 * float(stdtr(freedom, -abs(middle) / spread)) if spread > 0 else float(middle == 0)
    doubt: Doubt | None = None
    if abs(shown - middle) > max(spread / 2, _COARSE):
        doubt = Doubt(DoubtCode.TIED, 2, quantile=QUANTILE.get(metric))
    if not (x.blocks.independent and y.blocks.independent):
        doubt = Doubt(
            DoubtCode.CORRELATED_BLOCKS, min(units), min(x.blocks.count, y.blocks.count) // min(units)
        )
    between = y.middles[metric] - x.middles[metric]
    return Difference(
        metric,
        a,
        b,
        b - a,
        Interval(min(between - wide * gap, b - a), max(between + wide * gap, b - a), level),
        b / a,
        Interval(math.exp(low), math.exp(high), level),
        p_value,
        "no difference shown",
        units=units,
        doubt=doubt,
    )


_COARSE = 0.005
"""Distance of a quantile from its mid-quantile from which the values are coarse: ten times the buckets'
rounding."""


def _scaled(x: Spreads, metric: Metric) -> NDArray[np.float64]:
    """The resamples' logarithms; where one of them is zero, the departures from the middle instead."""
    again, middle = x.again[metric], x.middles[metric]
    return np.log(again) if np.all(again > 0) else np.asarray((again - middle) / middle)


def _spread_of(
    a: NDArray[np.float64], b: NDArray[np.float64], units: tuple[int, int], side_by_side: bool
) -> tuple[float, float]:
    """The standard deviation of b - a, and its degrees of freedom."""
    if side_by_side:
        return float(np.std(b - a, ddof=1)), units[0] - 1
    va, vb = float(np.var(a, ddof=1)), float(np.var(b, ddof=1))
    if va + vb == 0:
        return 0.0, sum(units) - 2
    # Welch-Satterthwaite: how many degrees of freedom two spreads of unequal size are worth.
    freedom = (va + vb) ** 2 / (va**2 / (units[0] - 1) + vb**2 / (units[1] - 1))
    return math.sqrt(va + vb), freedom
