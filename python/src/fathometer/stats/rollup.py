"""Quantiles and means of a series that is only known as histograms of blocks, with the intervals of
`quantiles`.

What is a hundred million samples in the recording is a few hundred histograms here; the figures are the same
but for the rounding of a bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathometer.stats.blocks import FEWEST, Cut, correlated
from fathometer.stats.quantiles import (
    NINES,
    doubt_of,
    few_bursts,
    mean_interval,
    share_interval,
    supported,
    withheld,
)
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Estimate, Interval
from fathometer.stats.series import Blocks, joined, settled


def rollup_estimates(
    blocks: Blocks, ps: Sequence[float] = NINES, level: float = LEVEL
) -> tuple[Estimate, ...]:
    """Quantiles of all samples in the blocks."""
    blocks = _without_empty(blocks)
    base = settled(blocks) if blocks.number else blocks
    worth = _effective(base, base.quantile(0.5), level)[2] if base.number >= FEWEST else float(base.count)
    return tuple(_one(base, p, worth, level) for p in ps)


def rollup_mean(blocks: Blocks, level: float = LEVEL) -> Estimate:
    """The mean of all samples in the blocks."""
    blocks = _without_empty(blocks)
    if blocks.number == 0:
        return Estimate(float("nan"), None, 0, 0, Doubt(DoubtCode.NO_SAMPLES))
    base = settled(blocks)
    at = base.mean()
    if base.number < FEWEST:
        return Estimate(at, None, base.count, 0, Doubt(DoubtCode.FEW_SAMPLES, base.count))
    # Blocks of unequal size: each one's departure from the mean, weighted by its size (a ratio estimator).
    means = at + (base.sums - at * base.sizes) / base.sizes.mean()
    doubt = doubt_of(Cut(base.number, round(base.count / base.number), base.independent))
    return Estimate(at, mean_interval(at, means, level), base.count, base.number, doubt)


def _without_empty(blocks: Blocks) -> Blocks:
    return blocks.pick(np.flatnonzero(blocks.sizes > 0))


def _effective(blocks: Blocks, value: float, level: float) -> tuple[float, float, float]:
    below = blocks.below(value)
    share = float(below.sum()) / blocks.count
    means = share + (below - share * blocks.sizes) / blocks.sizes.mean()
    return share_interval(share, means, blocks.count, level)


def _one(base: Blocks, p: float, worth: float, level: float) -> Estimate:
    n = base.count
    if n == 0:
        return Estimate(float("nan"), None, 0, 0, Doubt(DoubtCode.NO_SAMPLES))
    at = base.quantile(p)
    if not supported(p, n, level):
        return Estimate(at, None, n, 0, Doubt(DoubtCode.UNSUPPORTED, n, quantile=p))
    if base.number < FEWEST:
        return Estimate(at, None, n, 0, Doubt(DoubtCode.FEW_SAMPLES, n))
    while correlated(base.below(at) / base.sizes) and base.number // 2 >= FEWEST:
        base = joined(base, 2)
    low, high, effective = _effective(base, at, level)
    why = withheld(p, n, effective, worth, level)
    if why:
        return Estimate(at, None, n, base.number, why)
    independent = base.independent and not correlated(base.below(at) / base.sizes)
    blocks = Cut(base.number, round(n / base.number), independent)
    doubt = doubt_of(blocks) or few_bursts(p, n, worth, level)
    return Estimate(at, Interval(base.quantile(low), base.quantile(high), level), n, base.number, doubt)
