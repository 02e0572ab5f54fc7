"""Intervals and comparisons over connections, for runs whose connections differ by more than chance.

A router chooses among ways of equal cost by addresses and ports, so a connection keeps its way, and its
delay, for life: Pelsser, Cittadini, Vissicchio & Bush (2013), "From Paris to Tokyo: on the suitability of
ping to measure network latency", IMC. However many samples eight connections carry, they are then only eight
draws from all possible connections.

The test compares the connections' levels in slices of time, each minus the slice's mean over all
connections, because shared drift is no difference. It is Welch's analysis of variance (1951), "On the
comparison of several mean values", Biometrika 38. The variance of each connection's mean comes from batch
means, as in `blocks`. If connections differ, an interval's variance is the variance over time plus the
variance between connections. For the latter, Student's t has one degree of freedom less than there are
connections, or fewer if a single connection dominates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, variance_of_mean
from fathometer.stats.family import QUANTILE, Difference, LogRatio, Metric, no_surer
from fathometer.stats.quantiles import freedom, shares_around
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Estimate, Interval
from fathometer.stats.series import BlockCounts, quantiles_of

SIGNIFICANCE = 0.01
"""Level of the test. A false difference widens intervals, and is reported as a finding."""
LASTING = 0.75
"""Share of the slices in which a connection must have samples to be compared. Connections opened one after
another share no time, so the hour may explain their difference.
"""
_FULL = 4
"""Minimum number of samples of a connection in a slice, on average; with fewer, slices are joined."""


def differ(number: NDArray[np.int64], level: NDArray[np.int64], least: float) -> bool:
    """Whether connections differ all run long by more than chance.

    Args:
        number: samples, by connection and slice of time.
        level: sum of what is compared, likewise.
        least: twice the standard deviation between connections must be this at least, or it does not matter.
    """
    means = _means(number, level)
    if len(means) < 2 or means.shape[1] < FEWEST:
        return False
    apart = means - means.mean(axis=0)
    middle = apart.mean(axis=1)
    variance = np.array([_variance(one) for one in apart])
    between = float(middle.var(ddof=1) - variance.mean())
    if between <= 0 or 2 * math.sqrt(between) < least:
        return False
    return _welch(middle, variance) < SIGNIFICANCE and _kept(apart) < SIGNIFICANCE


def _means(number: NDArray[np.int64], level: NDArray[np.int64]) -> NDArray[np.float64]:
    """Means of the lasting connections in the slices in which all of them have samples."""
    while number.shape[1] // 2 >= FEWEST and number.sum() < _FULL * np.count_nonzero(number):
        number, level = (x.reshape(len(x), -1, 2).sum(axis=2) for x in (number, level))
    lasting = (number > 0).mean(axis=1) >= LASTING
    number, level = number[lasting], level[lasting]
    whole = (number > 0).all(axis=0)
    return np.asarray(level[:, whole] / number[:, whole], dtype=np.float64)


def _variance(series: NDArray[np.float64]) -> float:
    """The variance of the mean of a possibly autocorrelated series: the largest of batch means of every
    length.
    """
    largest = _ROUNDING / len(series)
    while len(series) >= _BATCHES:
        largest = max(largest, variance_of_mean(series))
        series = series[len(series) % 2 :].reshape(-1, 2).mean(axis=1)
    return largest


_BATCHES = FEWEST // 2
"""Minimum number of batches. With more, connections whose levels wander for a tenth of the run seemed to
differ.
"""
_ROUNDING = 1 / 12
"""Variance of a level that is rounded to whole numbers, the minimum for a level that never varies."""


def _welch(middle: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """The probability that equal means lie this far apart. Their variances are known as well as the fewest
    blocks allow.
    """
    from scipy.special import fdtrc  # Imported late: half a second of a report's start.

    k = len(middle)
    weights = 1 / variance
    whole = float(weights.sum())
    away = middle - float(weights @ middle) / whole
    shares = float(((1 - weights / whole) ** 2).sum()) / (_BATCHES - 1)
    # The overall mean was subtracted from each, which reduces their variance by 1 / k.
    ratio = float(weights @ away**2) / k / (1 + 2 * (k - 2) / (k * k - 1) * shares)
    return float(fdtrc(k - 1, (k * k - 1) / (3 * shares), ratio))


def _kept(apart: NDArray[np.float64]) -> float:
    """The probability that connections with wandering levels keep this much of their differences from one
    quarter of the run to the next: analysis of variance of the quarters' means.
    """
    from scipy.special import fdtrc  # Imported late: half a second of a report's start.

    quarters = np.array([part.mean(axis=1) for part in np.array_split(apart, PARTS, axis=1)]).T
    k, middle = len(quarters), quarters.mean(axis=1, keepdims=True)
    # Each quarter's mean over all connections is zero already.
    within = float(((quarters - middle) ** 2).sum()) / ((k - 1) * (PARTS - 1)) + _ROUNDING
    between = PARTS * float((middle**2).sum()) / (k - 1)
    return float(fdtrc(k - 1, (k - 1) * (PARTS - 1), between / within))


PARTS = 4
"""Number of parts of a run in each of which connections must differ in the same way."""


def groups(
    number: NDArray[np.int64],
    level: NDArray[np.int64],
    medians: NDArray[np.float64],
    apart: float,
    share: float,
) -> list[NDArray[np.intp]]:
    """The lasting connections by their medians, the lowest first; none where they are one group.

    A group ends where the next median is higher by `apart`, by this share, and by a tenth of the largest such
    step. A connection that is in another group for a part of the run has moved, and is in none; where many
    have, there are no groups.
    """
    lasting = np.flatnonzero((number > 0).mean(axis=1) >= LASTING)
    order = lasting[np.argsort(medians[lasting], kind="stable")]
    steps, below = np.diff(medians[order]), medians[order][:-1]
    least = np.maximum(max(apart, float(steps.max(initial=0.0)) / 10), share * below)
    ends = np.flatnonzero(steps >= least) + 1
    if not len(ends):
        return []
    own = np.searchsorted(ends, np.arange(len(order)), side="right")
    whole = _levels(number[order], level[order], 1)
    centres = np.array([whole[own == g].mean() for g in range(len(ends) + 1)])
    parts = _levels(number[order], level[order], PARTS)
    nearest = np.abs(parts[:, :, np.newaxis] - centres).argmin(axis=2)
    kept = ((nearest == own[:, np.newaxis]) | np.isnan(parts)).all(axis=1)
    told = [order[kept & (own == g)] for g in range(len(centres))]
    told = [g for g in told if len(g)]
    return told if len(told) > 1 and kept.mean() >= LASTING else []


def _levels(number: NDArray[np.int64], level: NDArray[np.int64], parts: int) -> NDArray[np.float64]:
    """Levels in parts of the run, each minus the mean over all connections; NaN without samples."""
    numbers, levels = (x.reshape(len(x), parts, -1).sum(axis=2) for x in (number, level))
    means = np.where(numbers > 0, levels / np.maximum(numbers, 1), math.nan)
    # A part without any samples stays unknown.
    some = np.maximum((numbers > 0).sum(axis=0), 1)
    return np.asarray(means - np.nansum(means, axis=0) / some, dtype=np.float64)


def widened(estimate: Estimate, interval: Interval, units: BlockCounts) -> Estimate:
    """An estimate whose interval over time blocks also includes the spread between connections."""
    e, at = estimate.interval, estimate.value
    if e is None:
        return estimate
    low = max(at - math.hypot(at - e.low, at - interval.low), float(units.values[0]))
    high = at + math.hypot(e.high - at, interval.high - at)
    doubt = estimate.doubt or Doubt(DoubtCode.CONNECTIONS_DIFFER, units.number)
    return replace(
        estimate, interval=Interval(min(low, e.low), high, e.level), blocks=units.number, doubt=doubt
    )


def mean_over_units(units: BlockCounts, level: float = LEVEL) -> Interval:
    """The mean over connections: a ratio estimator, as they carry unequal numbers of samples."""
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    at, means = units.mean(), _of_units(units, units.sums)
    half = -float(stdtrit(freedom(means), (1 - level) / 2)) * math.sqrt(variance_between(means))
    return Interval(at - half, at + half, level)


def quantile_over_units(units: BlockCounts, p: float, level: float = LEVEL) -> Interval:
    """A quantile over connections: the share below one in each of them, as in `quantiles`."""
    at = units.quantile(p)
    k = int(np.searchsorted(units.values, at))
    strictly = units.counts[:, :k].sum(axis=1)
    sides = (strictly.astype(np.float64), (strictly + units.counts[:, k]).astype(np.float64))
    worth = min(_worth(units, below, level) for below in sides)
    low, high = shares_around(p, worth, level)
    return Interval(min(units.within(low)[0], at), max(units.within(high)[1], at), level)


def _worth(units: BlockCounts, below: NDArray[np.float64], level: float) -> float:
    """Effective number of samples of the share below, over connections (`effective_count`)."""
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    count, shares = units.count, _of_units(units, below)
    share, variance = float(below.sum()) / count, variance_between(shares)
    if variance <= 0 or not 0 < share < 1:
        return float(count)
    tail = (1 - level) / 2
    correction = float(stdtrit(count - 1, tail)) / float(stdtrit(freedom(shares), tail))
    return min(float(count), share * (1 - share) / variance * correction**2)


def _of_units(units: BlockCounts, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The overall mean, as each connection would give it."""
    at, sizes = float(sums.sum()) / units.count, units.sizes
    return np.asarray(at + (sums - at * sizes) * (units.number / units.count), dtype=np.float64)


def variance_between(of_units: NDArray[np.float64]) -> float:
    """The variance of the mean of these independent values."""
    return float(np.var(of_units, ddof=1)) / len(of_units)


def no_surer_than_connections(
    d: Difference, sides: Sequence[tuple[BlockCounts | None, int]], level: float = LEVEL
) -> Difference:
    """The difference, no surer than Welch's test of what each connection's own figure is.

    Args:
        d: B against A.
        sides: of A and of B: the connections, None where they do not differ, and how many there are. Where
            those of one side do not, they may be alike by chance, and are taken to be as far apart as the
            other's.
        level: of the interval.
    """
    from scipy.special import stdtr, stdtrit  # Imported late: half a second of a report's start.

    figures = [None if units is None else figures_of(units, d.metric) for units, _ in sides]
    known = [(float(f.mean()), float(np.var(f, ddof=1)), len(f)) for f in figures if f is not None]
    # Values of one side or of both, in their order.
    of_a, of_b = known[0], known[-1]
    if figures[0] is None:
        of_a = (d.a, *of_b[1:])
    if figures[1] is None:
        of_b = (d.b, *of_a[1:])
    away = of_b[0] - of_a[0]
    spread, of = added(
        [
            (math.sqrt(variance / (k if f is not None else connections)), k - 1.0)
            for (_, variance, k), f, (_, connections) in zip((of_a, of_b), figures, sides, strict=True)
        ]
    )
    wide = -float(stdtrit(of, (1 - level) / 2)) * spread
    p_value = 2 * float(stdtr(of, -abs(away) / spread)) if spread > 0 else float(away == 0)
    # No figure is below the smallest sample.
    least = min(float(units.values[0]) for units, _ in sides if units is not None)
    low, high = (math.log(max(d.a + end, least, 1.0) / d.a) for end in (away - wide, away + wide))
    connections = (sides[0][1], sides[1][1])
    return replace(
        no_surer(d, LogRatio(away, Interval(low, high, level), p_value)),
        basis="connections",
        method="bootstrap of connections",
        units=connections,
        doubt=d.doubt or Doubt(DoubtCode.CONNECTIONS_DIFFER, sum(connections)),
    )


def figures_of(units: BlockCounts, metric: Metric) -> NDArray[np.float64]:
    """The figure of each connection, without those that carried far fewer samples than the others."""
    sizes = units.sizes
    units = units.pick(np.flatnonzero(4 * sizes >= np.median(sizes)))
    if metric in QUANTILE:
        return quantiles_of(units.values, units.counts, (QUANTILE[metric],))[:, 0]
    return np.asarray(units.sums / units.sizes, dtype=np.float64)


def added(spreads: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The spread of a sum, and its effective degrees of freedom for unequal spreads (Welch and
    Satterthwaite).
    """
    variances = [spread**2 for spread, _ in spreads]
    whole = sum(variances)
    if whole == 0:
        return 0.0, sum(of for _, of in spreads)
    return math.sqrt(whole), whole**2 / sum(v**2 / of for v, (_, of) in zip(variances, spreads, strict=True))
