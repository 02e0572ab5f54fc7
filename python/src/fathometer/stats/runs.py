"""Repeated runs: the run is the unit, not the sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.results import LEVEL, Estimate, Interval

ENOUGH = 20
"""Runs that the articles' rule asks for, and with which the ranks below still give an interval near 95 % (n =
20: ranks 6 and 15, 95.9 %)."""


def median_of_runs(figures: NDArray[np.float64], level: float = LEVEL) -> Estimate:
    """The median of the runs' figures with the order-statistic interval, which assumes nothing but
    independent runs.

    Hoefler & Belli (2015), "Scientific benchmarking of parallel computing systems", SC15; the ranks are those
    of the binomial distribution (David & Nagaraja 2003, Order Statistics, 7.1).
    """
    from scipy.stats import binom  # Imported late: half a second of a report's start.

    ordered = np.sort(figures)
    n = len(ordered)
    if n == 0:
        return Estimate(math.nan, None, 0, 0, "no runs")
    at = float(np.median(ordered))
    # The widest ranks (low, n + 1 - low) whose coverage still is at least the level.
    low = 0
    while low < n // 2 and 1 - 2 * float(binom.cdf(low, n, 0.5)) >= level:
        low += 1
    if low == 0:
        return Estimate(at, None, n, 0, f"{n} runs are too few for an interval (at least 6)")
    covered = 1 - 2 * float(binom.cdf(low - 1, n, 0.5))
    interval = Interval(float(ordered[low - 1]), float(ordered[n - low]), covered)
    return Estimate(at, interval, n, n, None if n >= ENOUGH else f"{n} runs, fewer than {ENOUGH}")


@dataclass(frozen=True, slots=True)
class WorstOfRuns:
    """What "the 95th percentile of at least 20 runs" means."""

    p95: float
    """The smallest figure with at least 95 % of the runs at or below it."""
    worst: float
    runs: int
    confidence_worst: float
    """How sure it is that the worst run lies above the true p95 of runs: 1 - 0.95**runs, 64 % for 20."""
    runs_needed: int
    """Runs for which that would be 95 % (Wilks 1941): 59."""


def percentile_rule(figures: NDArray[np.float64], p: float = 0.95, level: float = LEVEL) -> WorstOfRuns:
    """The articles' rule, with what it can promise (Wilks 1941, "Determination of sample sizes for setting
    tolerance limits").
    """
    ordered = np.sort(figures)
    n = len(ordered)
    if n == 0:
        raise ValueError("no runs")
    rank = max(math.ceil(p * n - 1e-9), 1)
    needed = math.ceil(math.log(1 - level) / math.log(p))
    return WorstOfRuns(float(ordered[rank - 1]), float(ordered[-1]), n, 1 - p**n, needed)


@dataclass(frozen=True, slots=True)
class Variances:
    """Where the spread of a figure comes from."""

    between: float
    """Variance from run to run, beyond what the spread within runs makes of it. Unit squared. Never negative.
    """
    within: float
    """Variance from block to block of one run."""
    share_between: float
    """between / (between + within)."""
    runs_needed: int | None
    """Runs after which the mean of runs would be known to within `precision`; None if it already is."""
    precision: float
    """Half an interval's width, relative to the mean, that was asked for."""


def variances(runs: list[NDArray[np.float64]], precision: float = 0.01, level: float = LEVEL) -> Variances:
    """Splits the variance into between and within runs by moments, and says how many more runs are worth
    making.

    Each run is given as block means (or any equally weighted repetition). Kalibera & Jones (2013), "Rigorous
    benchmarking in reasonable time", ISMM, equations for two levels; Searle, Casella & McCulloch (1992),
    Variance Components, for runs of unequal length.
    """
    from scipy.stats import t  # Imported late: half a second of a report's start.

    sizes = np.array([len(r) for r in runs], dtype=np.float64)
    if len(runs) < 2 or np.any(sizes < 2):
        raise ValueError("at least two runs of two blocks each are needed to split the variance")
    means = np.array([r.mean() for r in runs])
    total = sizes.sum()
    grand = float((sizes * means).sum() / total)
    within = float(sum(((r - m) ** 2).sum() for r, m in zip(runs, means, strict=True)) / (total - len(runs)))
    between_square = float((sizes * (means - grand) ** 2).sum() / (len(runs) - 1))
    typical = (total - (sizes**2).sum() / total) / (len(runs) - 1)
    between = max((between_square - within) / typical, 0.0)
    share = between / (between + within) if between + within else 0.0
    spread = float(np.std(means, ddof=1))
    needed: int | None = None
    if spread > 0 and grand != 0:
        wish = abs(precision * grand)
        n = len(runs)
        # Student's t shrinks as runs are added, so the number is found by trying.
        while n < 100_000 and float(t.isf((1 - level) / 2, n - 1)) * spread / math.sqrt(n) > wish:
            n += max(1, n // 50)
        needed = n if n > len(runs) else None
    return Variances(between, within, share, needed, precision)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Runs of B against runs of A."""

    ratio: float
    """Paired: the Hodges-Lehmann estimate of the ratio of a pair. Unpaired: the ratio of medians of runs."""
    ratio_interval: Interval | None
    p_value: float
    method: Literal["Wilcoxon on paired log-ratios", "Brunner-Munzel on runs"]
    pairs: int
    """Pairs, or the smaller number of runs."""
    verdict: Literal["slower", "faster", "no difference shown", "cannot be decided"]


def compare_runs(
    a: NDArray[np.float64], b: NDArray[np.float64], *, interleaved: bool, level: float = LEVEL
) -> RunComparison:
    """Compares one figure per run. `interleaved`: a[i] and b[i] ran side by side or in turn, and are compared
    as pairs.

    Paired: Hodges & Lehmann (1963) on log-ratios with Wilcoxon's interval. Unpaired: Brunner & Munzel (2000),
    which does not need equal spreads; its interval of the ratio is a bootstrap of runs.
    """
    from scipy.stats import brunnermunzel, wilcoxon  # Imported late: half a second of a report's start.

    n = min(len(a), len(b))
    if n < 6:
        method: Literal["Wilcoxon on paired log-ratios", "Brunner-Munzel on runs"] = (
            "Wilcoxon on paired log-ratios" if interleaved else "Brunner-Munzel on runs"
        )
        ratio = float(np.median(b) / np.median(a)) if n else math.nan
        return RunComparison(ratio, None, math.nan, method, n, "cannot be decided")
    if interleaved:
        logs = np.log(b[:n] / a[:n])
        i, j = np.triu_indices(n)
        walsh = np.sort((logs[i] + logs[j]) / 2)
        p_value = float(wilcoxon(logs, zero_method="zsplit").pvalue) if np.any(logs) else 1.0
        cut = _wilcoxon_rank(n, level)
        interval = Interval(float(np.exp(walsh[cut])), float(np.exp(walsh[-1 - cut])), level)
        return RunComparison(
            float(np.exp(np.median(walsh))),
            interval,
            p_value,
            "Wilcoxon on paired log-ratios",
            n,
            _verdict(interval, p_value, level),
        )
    # Without any overlap Brunner and Munzel's spread is zero and their p undefined; then there is no doubt at
    # all.
    if max(a) < min(b) or max(b) < min(a):
        p_value = 0.0
    elif len(np.unique(np.concatenate([a, b]))) == 1:
        p_value = 1.0
    else:
        p_value = float(brunnermunzel(a, b).pvalue)
    rng = np.random.default_rng(1)
    again = np.log(np.median(rng.choice(b, (1999, len(b))), axis=1)) - np.log(
        np.median(rng.choice(a, (1999, len(a))), axis=1)
    )
    tail = (1 - level) / 2
    interval = Interval(
        float(np.exp(np.quantile(again, tail))), float(np.exp(np.quantile(again, 1 - tail))), level
    )
    ratio = float(np.median(b) / np.median(a))
    return RunComparison(
        ratio, interval, p_value, "Brunner-Munzel on runs", n, _verdict(interval, p_value, level)
    )


def _verdict(
    interval: Interval, p_value: float, level: float
) -> Literal["slower", "faster", "no difference shown", "cannot be decided"]:
    if p_value >= 1 - level or 1.0 in interval:
        return "no difference shown"
    return "slower" if interval.low > 1 else "faster"


def _wilcoxon_rank(n: int, level: float) -> int:
    """How many Walsh averages to leave out at each end: the largest w with P(W <= w) <= (1 - level) / 2, of
    Wilcoxon's signed-rank distribution.
    """
    if n > 50:
        from scipy.special import ndtri  # Imported late: half a second of a report's start.

        mean, spread = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(int(mean - -float(ndtri((1 - level) / 2)) * spread), 0)
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    below = np.cumsum(ways) / 2.0**n
    return max(int(np.searchsorted(below, (1 - level) / 2, side="right")) - 1, 0)
