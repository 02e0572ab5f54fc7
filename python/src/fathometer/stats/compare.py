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
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, MOST, correlated, variance_of_mean
from fathometer.stats.family import METRICS, QUANTILE, Difference, Metric, judged, ratio_of
from fathometer.stats.quantiles import freedom as freedom_of
from fathometer.stats.quantiles import supported
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Interval
from fathometer.stats.series import BlockCounts, joined, mid_quantiles_of, paired, settled
from fathometer.stats.units import added, no_surer_than_connections

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
    shaky: frozenset[Metric] = frozenset()
    """Metrics whose intervals are known to be too narrow."""
    connections: int = 1
    between: Spreads | None = None
    """The same, resampled by connection; None: connections do not differ."""


SHAKY = 2.0
"""By how much a spread is widened whose figure is doubted to be too sure: without it 12 % of the reports
of twelve scenarios that are alike called two of them different (benches/verdicts.py)."""


def spreads(
    blocks: BlockCounts,
    seed: int = 1,
    shaky: Collection[Metric] = (),
    connections: int = 1,
    units: BlockCounts | None = None,
) -> Spreads:
    """Settles a series into independent blocks and resamples them.

    Args:
        blocks: the series.
        seed: of the resampling.
        shaky: metrics whose intervals are known to be too narrow.
        connections: how many carried the samples.
        units: their histograms, where they differ.
    """
    rng = np.random.default_rng(seed)
    full = blocks.pick(np.flatnonzero(blocks.sizes > 0))
    plain = _spread(settled(full) if full.number else full, rng)
    between = None if units is None else _spread_by(units, _weights(rng, units.number))
    return replace(plain, shaky=frozenset(shaky), connections=connections, between=between)


def _spread(blocks: BlockCounts, rng: np.random.Generator) -> Spreads:
    weights = _weights(rng, blocks.number) if blocks.number >= FEWEST else None
    return _spread_by(blocks, weights)


def _spread_by(blocks: BlockCounts, weights: NDArray[np.float64] | None) -> Spreads:
    if not blocks.count:
        nothing = dict.fromkeys(METRICS, math.nan)
        return Spreads(blocks, nothing, nothing, {})
    # Values that no sample has would bend the mid-quantiles.
    blocks = blocks.occurring()
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
    shaky: Collection[Metric] = (),
    level: float = LEVEL,
    seed: int = 1,
) -> Comparison:
    """B against A.

    Args:
        a: a series, or its spreads, where it is compared several times.
        b: the other one.
        side_by_side: both have times (`from_windows`, with one window); blocks of the same time are resampled
            together. Blocks that only one has are left out.
        shaky: metrics whose interval is known to be too narrow in one of both; `Spreads` have theirs.
        level: of the intervals.
        seed: of the resampling, so that a report reads the same twice.
    """
    if side_by_side:
        if isinstance(a, Spreads) or isinstance(b, Spreads):
            raise TypeError("pairs of blocks are resampled together: give the blocks, not their spreads")
        one, two = _settled_together(*paired(a, b))
        weights = _weights(np.random.default_rng(seed), one.number) if one.number >= FEWEST else None
        x, y = (replace(_spread_by(s, weights), shaky=frozenset(shaky)) for s in (one, two))
    else:
        # Of their own seeds: two scenarios that are resampled alike would look paired.
        x = a if isinstance(a, Spreads) else spreads(a, seed, shaky)
        y = b if isinstance(b, Spreads) else spreads(b, seed + 1, shaky)
    differences = tuple(_difference(x, y, m, side_by_side, level) for m in METRICS)
    return Comparison(
        judged(differences, level=level),
        superiority(x.blocks, y.blocks),
        "paired in time" if side_by_side else "unpaired",
        (x.blocks.number, y.blocks.number),
        (x.blocks.count, y.blocks.count),
    )


def superiority(a: BlockCounts, b: BlockCounts) -> float:
    """Vargha & Delaney's A12 of B over A, from counts: exactly, but that samples of one bucket are ties. A
    bucket's mean is another in each series, and would be a difference of all its samples.
    """
    if not a.count or not b.count:
        return math.nan
    by_bucket = a.buckets is not None and b.buckets is not None
    of_a, of_b = (x.buckets.numbers if by_bucket and x.buckets else x.values for x in (a, b))
    values = np.union1d(of_a, of_b)
    in_a, in_b = np.zeros(len(values)), np.zeros(len(values))
    in_a[np.searchsorted(values, of_a)] = a.counts.sum(axis=0)
    in_b[np.searchsorted(values, of_b)] = b.counts.sum(axis=0)
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
            return replace(a, independent=True), replace(b, independent=True)
        a, b = joined(a, 2), joined(b, 2)
    return replace(a, independent=False), replace(b, independent=False)


def _logs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # A block of zeros ranks below every other, and has no logarithm.
    return np.log(np.maximum(values, 1e-9))


def _weights(rng: np.random.Generator, number: int) -> NDArray[np.float64]:
    return rng.multinomial(number, np.full(number, 1 / number), size=RESAMPLES).astype(np.float64)


def _resampled(blocks: BlockCounts, weights: NDArray[np.float64]) -> dict[Metric, NDArray[np.float64]]:
    ps = [QUANTILE[m] for m in METRICS if m in QUANTILE]
    quantiles = mid_quantiles_of(blocks.values, blocks.counts, weights, ps)
    middles: dict[Metric, NDArray[np.float64]] = {"mean": (weights @ blocks.sums) / (weights @ blocks.sizes)}
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


def _difference(x: Spreads, y: Spreads, metric: Metric, side_by_side: bool, level: float) -> Difference:
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
    widenings = _widenings(x, y, logs, metric, side_by_side)
    spread, freedom = _spread_of(*logs, widenings, side_by_side)
    gap, _ = _spread_of(x.again[metric], y.again[metric], widenings, side_by_side)
    drawn = [_drawn(s.between, metric) for s in (x, y) if s.between is not None]
    if drawn:
        spread, freedom = added([(spread, freedom), *((d.log, d.freedom) for d in drawn)])
        gap = math.hypot(gap, *(d.gap for d in drawn))
    # Neither figure is known better than its bucket, however often it is resampled.
    of_a, of_b = _resolution(x, metric), _resolution(y, metric)
    wide = -float(stdtrit(freedom, (1 - level) / 2))
    half, half_gap = wide * spread + of_a / a + of_b / b, wide * gap + of_a + of_b
    shown = math.log(b / a)
    low, high = min(middle - half, shown), max(middle + half, shown)
    beyond = max(abs(middle) - of_a / a - of_b / b, 0.0)
    p_value = 2 * float(stdtr(freedom, -beyond / spread)) if spread > 0 else float(beyond == 0)
    doubt: Doubt | None = None
    if abs(shown - middle) > max(spread / 2, _COARSE):
        doubt = Doubt(DoubtCode.TIED, 2, quantile=QUANTILE.get(metric))
    if not (x.blocks.independent and y.blocks.independent):
        doubt = Doubt(
            DoubtCode.CORRELATED_BLOCKS, min(units), min(x.blocks.count, y.blocks.count) // min(units)
        )
    between = y.middles[metric] - x.middles[metric]
    told = Difference(
        metric,
        a,
        b,
        b - a,
        Interval(min(between - half_gap, b - a), max(between + half_gap, b - a), level),
        b / a,
        Interval(ratio_of(low), ratio_of(high), level),
        p_value,
        "no difference shown",
        units=units,
        doubt=doubt,
    )
    if not drawn:
        return told
    sides = [(None if s.between is None else s.between.blocks, s.connections) for s in (x, y)]
    return no_surer_than_connections(told, sides, level)


_COARSE = 0.005
"""Distance of a quantile from its mid-quantile from which the values are coarse: ten times the buckets'
rounding."""


def _resolution(x: Spreads, metric: Metric) -> float:
    """How far a figure may be from the truth for its bucket alone; sums, and so means, are exact."""
    if metric not in QUANTILE:
        return 0.0
    low, high = x.blocks.ends(QUANTILE[metric])
    return high - low


def _scaled(x: Spreads, metric: Metric) -> NDArray[np.float64]:
    """The resamples' logarithms; where one of them is zero, the departures from the middle instead."""
    again, middle = x.again[metric], x.middles[metric]
    return np.log(again) if np.all(again > 0) else np.asarray((again - middle) / middle)


Widenings = tuple[tuple[float, float], tuple[float, float]]
"""Of A and of B, or of their pairs twice: by how much a resampled spread is too small, and its degrees of
freedom."""


def _widenings(
    x: Spreads,
    y: Spreads,
    logs: tuple[NDArray[np.float64], NDArray[np.float64]],
    metric: Metric,
    side_by_side: bool,
) -> Widenings:
    a, b = (
        _influences(s.blocks, metric, float(np.std(r, ddof=1))) for s, r in zip((x, y), logs, strict=True)
    )
    if side_by_side:
        both = _left(b - a, metric in x.shaky | y.shaky)
        return both, both
    return _left(a, metric in x.shaky), _left(b, metric in y.shaky)


def _spread_of(
    a: NDArray[np.float64], b: NDArray[np.float64], widenings: Widenings, side_by_side: bool
) -> tuple[float, float]:
    """The standard deviation of b - a, and its degrees of freedom."""
    if side_by_side:
        widening, freedom = widenings[0]
        return float(np.std(b - a, ddof=1)) * widening, freedom
    return added([(float(np.std(s, ddof=1)) * w, f) for s, (w, f) in zip((a, b), widenings, strict=True)])


class _Drawn(NamedTuple):
    """Variation of a figure with the draw of connections."""

    log: float
    gap: float
    """Spread in the unit of the series."""
    freedom: float


def _drawn(s: Spreads, metric: Metric) -> _Drawn:
    k = s.blocks.number
    # Resamples of a few values vary less than the few values do.
    few = math.sqrt(k / (k - 1))
    log, gap = (few * float(np.std(of, ddof=1)) for of in (_scaled(s, metric), s.again[metric]))
    return _Drawn(log, gap, freedom_of(_influences(s.blocks, metric, 1.0)))


def _influences(blocks: BlockCounts, metric: Metric, spread: float) -> NDArray[np.float64]:
    """By how much each block moves a figure, scaled so that the sum of so many independent ones has this
    spread. A quantile moves with the share of a block's samples that lie below it.
    """
    if metric in QUANTILE:
        k = int(np.searchsorted(blocks.values, blocks.quantile(QUANTILE[metric])))
        of_block = -(blocks.counts[:, :k].sum(axis=1) + blocks.counts[:, k] / 2)
    else:
        of_block = blocks.sums
    moved = of_block - float(of_block.sum()) / blocks.count * blocks.sizes
    deviation = float(np.std(moved, ddof=1))
    return moved * (spread / deviation) if deviation > 0 else np.zeros(len(moved))


def _left(influences: NDArray[np.float64], shaky: bool) -> tuple[float, float]:
    """By how much resampling, which takes blocks as independent, has the spread too small, and how many
    degrees of freedom it has: by the batch means of all lengths, the one that says least.

    Neighbours may look independent while a tail, or what comes twice an hour, correlates over many of them.
    """
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    alone = float(np.var(influences, ddof=1)) / len(influences)
    freedom = float(len(influences) - 1)
    more = SHAKY if shaky else 1.0
    if alone <= 0:
        return more, freedom
    widest, answer, means = 0.0, (more, freedom), influences
    while len(means) >= FEWEST:
        widening = math.sqrt(variance_of_mean(means) / alone)
        width = -widening * float(stdtrit(len(means) - 1, _FAR))
        if width > widest:
            widest, answer = width, (more * widening, float(len(means) - 1))
        means = means[len(means) % 2 :].reshape(-1, 2).mean(axis=1)
    return answer


_FAR = 0.005
"""Tail at which lengths of batches are compared: about that of a verdict among a handful."""
