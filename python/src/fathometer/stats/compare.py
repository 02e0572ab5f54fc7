"""Two scenarios against each other: which is faster, by how much, how surely.

Ratios and differences of the mean, median, p95 and p99 come with intervals from a bootstrap of whole blocks
(Künsch 1989, "The jackknife and the bootstrap for general stationary observations", Ann. Stat. 17; Kalibera &
Jones 2013, "Rigorous benchmarking in reasonable time", for the ratio). Where both paths were measured side by
side, blocks of the same time are resampled together ("duet", Bulej et al. 2020), which takes out whatever
both shared; a difference of 1.5 % was then seen in half the runs, against one in twenty-five unpaired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, MOST, correlated
from fathometer.stats.quantiles import supported
from fathometer.stats.results import LEVEL, Interval
from fathometer.stats.series import Blocks, joined, paired, quantiles_of, same_values, settled

Metric = Literal["mean", "p50", "p95", "p99"]
METRICS: tuple[Metric, ...] = ("mean", "p50", "p95", "p99")
QUANTILE: dict[Metric, float] = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
Verdict = Literal["slower", "faster", "no difference shown", "cannot be decided"]
RESAMPLES = 499
"""Enough for a standard deviation, all that is taken from them: its own error is 1 / sqrt(2 * 499), 3 %."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of B against A."""

    metric: Metric
    a: float
    b: float
    difference: float
    """b - a, in the unit of the series."""
    difference_interval: Interval | None
    ratio: float
    """b / a."""
    ratio_interval: Interval | None
    verdict: Verdict
    """Of B, as seen from A. With `len(METRICS)` questions asked at once, a difference is only called one if
    it stands after Bonferroni's correction: an interval that just misses 1 may go with "no difference shown".
    """
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A."""

    differences: tuple[Difference, ...]
    superiority: float
    """Chance that a sample of B is larger than one of A, ties half (Vargha & Delaney 2000, A12): 0.5 is no
    effect."""
    pairing: Literal["paired in time", "unpaired"]
    blocks: tuple[int, int]
    counts: tuple[int, int]
    verdict: Verdict
    """The strictest reading of all metrics together: a difference if one of them shows it; "mixed" cases are
    told by the metrics."""

    def of(self, metric: Metric) -> Difference:
        """The difference in one metric."""
        return next(d for d in self.differences if d.metric == metric)


def compare(
    a: Blocks, b: Blocks, *, side_by_side: bool = False, level: float = LEVEL, seed: int = 1
) -> Comparison:
    """Compares two series. `side_by_side`: both were measured at the same time and cut by the same windows
    (`series.from_windows`).
    """
    if side_by_side:
        a, b = paired(a, b)
        a, b = _settled_together(a, b)
    else:
        a, b = settled(a), settled(b)
    a, b = same_values(a, b)
    few = min(a.number, b.number) < FEWEST
    rng = np.random.default_rng(seed)
    if few:
        differences = tuple(_bare(a, b, m) for m in METRICS)
    else:
        weights_a = _weights(rng, a.number)
        weights_b = weights_a if side_by_side else _weights(rng, b.number)
        again_a, again_b = _resampled(a, weights_a), _resampled(b, weights_b)
        freedom = _freedom(a, b, again_a["mean"], again_b["mean"], side_by_side)
        differences = tuple(_judge(a, b, m, again_a[m], again_b[m], freedom, level) for m in METRICS)
    return Comparison(
        differences,
        superiority(a, b),
        "paired in time" if side_by_side else "unpaired",
        (a.number, b.number),
        (a.count, b.count),
        _together(differences),
    )


def superiority(a: Blocks, b: Blocks) -> float:
    """Vargha & Delaney's A12 of B over A, exactly, from counts. Both on the same values."""
    in_a, in_b = a.counts.sum(axis=0).astype(np.float64), b.counts.sum(axis=0).astype(np.float64)
    if not in_a.sum() or not in_b.sum():
        return math.nan
    less = np.cumsum(in_a) - in_a
    return float((in_b * (less + in_a / 2)).sum() / (in_a.sum() * in_b.sum()))


def _settled_together(a: Blocks, b: Blocks) -> tuple[Blocks, Blocks]:
    # Joined alike, so that pairs stay pairs; what must be independent from block to block is the log-ratio.
    while a.number // 2 >= FEWEST:
        ratio = np.log(a.medians()) - np.log(b.medians())
        means = np.log(a.sums / a.sizes) - np.log(b.sums / b.sizes)
        if a.number <= MOST and not correlated(ratio) and not correlated(means):
            break
        a, b = joined(a, 2), joined(b, 2)
    return a, b


def _weights(rng: np.random.Generator, number: int) -> NDArray[np.float64]:
    return rng.multinomial(number, np.full(number, 1 / number), size=RESAMPLES).astype(np.float64)


def _resampled(blocks: Blocks, weights: NDArray[np.float64]) -> dict[Metric, NDArray[np.float64]]:
    counts = weights @ blocks.counts.astype(np.float64)
    ps = [QUANTILE[m] for m in METRICS if m in QUANTILE]
    quantiles = quantiles_of(blocks.values, counts, ps)
    found: dict[Metric, NDArray[np.float64]] = {"mean": (weights @ blocks.sums) / counts.sum(axis=1)}
    for j, metric in enumerate(m for m in METRICS if m in QUANTILE):
        found[metric] = quantiles[:, j]
    return found


def _freedom(
    a: Blocks, b: Blocks, means_a: NDArray[np.float64], means_b: NDArray[np.float64], side_by_side: bool
) -> float:
    if side_by_side:
        return a.number - 1
    # Welch-Satterthwaite: how many degrees of freedom two spreads of unequal size are worth.
    va, vb = float(np.var(np.log(means_a))), float(np.var(np.log(means_b)))
    if va + vb == 0:
        return a.number + b.number - 2
    return (va + vb) ** 2 / (va**2 / (a.number - 1) + vb**2 / (b.number - 1))


def _value(blocks: Blocks, metric: Metric) -> float:
    return blocks.mean() if metric == "mean" else blocks.quantile(QUANTILE[metric])


def _bare(a: Blocks, b: Blocks, metric: Metric) -> Difference:
    x, y = _value(a, metric), _value(b, metric)
    few = f"{min(a.number, b.number)} independent blocks are too few (at least {FEWEST})"
    return Difference(metric, x, y, y - x, None, y / x, None, "cannot be decided", few)


def _judge(
    a: Blocks,
    b: Blocks,
    metric: Metric,
    again_a: NDArray[np.float64],
    again_b: NDArray[np.float64],
    freedom: float,
    level: float,
) -> Difference:
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    x, y = _value(a, metric), _value(b, metric)
    if metric in QUANTILE and not supported(QUANTILE[metric], min(a.count, b.count)):
        few = f"{min(a.count, b.count):,} samples are too few for {metric}"
        return Difference(metric, x, y, y - x, None, y / x, None, "cannot be decided", few)
    log_ratio, spread = math.log(y / x), float(np.std(np.log(again_b) - np.log(again_a), ddof=1))
    gap = float(np.std(again_b - again_a, ddof=1))
    # A quantile that sits between two rounded values resamples to the very same one; its spread is at least
    # the rounding.
    spread = max(spread, _rounding(a, x) + _rounding(b, y))
    gap = max(gap, _rounding(a, x) * x + _rounding(b, y) * y)
    wide = -float(stdtrit(freedom, (1 - level) / 2))
    strict = -float(stdtrit(freedom, (1 - level) / 2 / len(METRICS)))
    verdict: Verdict = "no difference shown"
    if abs(log_ratio) > strict * spread:
        verdict = "slower" if log_ratio > 0 else "faster"
    doubt: str | None = None
    if not (a.independent and b.independent):
        doubt = "neighbouring blocks are still correlated: the interval may be too narrow"
    return Difference(
        metric,
        x,
        y,
        y - x,
        Interval(y - x - wide * gap, y - x + wide * gap, level),
        y / x,
        Interval(math.exp(log_ratio - wide * spread), math.exp(log_ratio + wide * spread), level),
        verdict,
        doubt,
    )


def _rounding(blocks: Blocks, at: float) -> float:
    """Half the relative distance to the neighbouring values, as a standard deviation of a uniform error (step
    / sqrt 12).
    """
    k = int(np.searchsorted(blocks.values, at))
    near = blocks.values[max(k - 1, 0) : k + 2]
    return float(np.max(np.diff(near), initial=0.0)) / at / math.sqrt(12) if at and len(near) > 1 else 0.0


def _together(differences: tuple[Difference, ...]) -> Verdict:
    verdicts = {d.verdict for d in differences}
    shown = verdicts & {"slower", "faster"}
    if len(shown) == 1:
        return shown.pop()
    if len(shown) == 2:
        # Faster in one metric and slower in another: the median decides what is said first.
        return next(d.verdict for d in differences if d.metric == "p50")
    return "cannot be decided" if verdicts == {"cannot be decided"} else "no difference shown"
