"""Repeated runs: the run is the unit, not the sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.family import Difference, LogRatio, Metric, restated
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Estimate, Interval

ENOUGH = 20
"""Runs that the articles' rule asks for, and with which the ranks below still give an interval near 95 % (n =
20: ranks 6 and 15, 95.9 %)."""
RUNS_TO_COMPARE = 6
"""Runs below which order statistics give a median no 95 % interval, and scenarios are compared by blocks."""


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
        return Estimate(math.nan, None, 0, 0, Doubt(DoubtCode.NO_RUNS))
    at = float(np.median(ordered))
    # The widest ranks (low, n + 1 - low) whose coverage still is at least the level.
    low = 0
    while low < n // 2 and 1 - 2 * float(binom.cdf(low, n, 0.5)) >= level:
        low += 1
    if low == 0:
        return Estimate(at, None, n, 0, Doubt(DoubtCode.FEW_RUNS, n, needed=RUNS_TO_COMPARE))
    covered = 1 - 2 * float(binom.cdf(low - 1, n, 0.5))
    interval = Interval(float(ordered[low - 1]), float(ordered[n - low]), covered)
    return Estimate(at, interval, n, n, None if n >= ENOUGH else Doubt(DoubtCode.FEW_RUNS, n, needed=ENOUGH))


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


def compare_runs(
    metric: Metric,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    interleaved: bool,
    level: float = LEVEL,
) -> Difference:
    """Compares one figure a run. `interleaved`: a[i] and b[i] ran side by side or in turn, and are pairs.

    From `ENOUGH` runs on by ranks: paired, Hodges & Lehmann (1963) on log-ratios with Wilcoxon's test and
    interval; unpaired, Brunner & Munzel (2000), which needs no equal spreads, with a bootstrap of runs for
    the interval. Ranks of fewer runs cannot reach the level that a family of questions asks for (six runs:
    p = 0.03 at best), so these are compared by Student's t of the logarithms (Welch 1947 where unpaired).

    The verdict is that of a family: `family.judged`.
    """
    n = min(len(a), len(b))
    middle_a, middle_b = (float(np.median(x)) if len(x) else math.nan for x in (a, b))
    units = (len(a), len(b))
    if n < RUNS_TO_COMPARE or min(a.min(), b.min()) <= 0:
        few = Doubt(DoubtCode.FEW_RUNS, n, needed=RUNS_TO_COMPARE)
        doubt = few if n < RUNS_TO_COMPARE else Doubt(DoubtCode.NOT_POSITIVE)
        ratio = middle_b / middle_a if middle_a > 0 and middle_b > 0 else math.nan
        gap = middle_b - middle_a
        return Difference(
            metric,
            middle_a,
            middle_b,
            gap,
            None,
            ratio,
            None,
            None,
            "cannot be decided",
            "runs",
            "",
            units,
            doubt,
        )
    if interleaved:
        method, result = _paired(np.log(b[:n] / a[:n]), level)
    elif n >= ENOUGH:
        method, result = "Brunner-Munzel on runs", brunner_munzel(a, b, level)
    else:
        method, result = "Welch on log figures of runs", _welch(np.log(a), np.log(b)).at(level)
    low, high = math.exp(result.interval.low), math.exp(result.interval.high)
    unshown = Difference(
        metric,
        middle_a,
        middle_b,
        math.nan,
        Interval(middle_a * (low - 1), middle_a * (high - 1), level),
        math.nan,
        Interval(low, high, level),
        result.p_value,
        "no difference shown",
        "runs",
        method,
        units,
        None if n >= ENOUGH else Doubt(DoubtCode.FEW_RUNS, n, needed=ENOUGH),
    )
    # The test's own estimate is another than the ratio of the medians; what is told is b - a and b / a.
    return restated(unshown, middle_a, middle_b)


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The logarithm of B / A of a few runs, for Student's t."""

    middle: float
    error: float
    freedom: float

    def at(self, level: float = LEVEL) -> LogRatio:
        """Its test."""
        return _student(self.middle, self.error, self.freedom, level)


def few_runs(a: NDArray[np.float64], b: NDArray[np.float64], pairs: bool) -> RunSpread | None:
    """What runs, at least two of one of both, say by how they differ among themselves; None: nothing.

    A single run is taken to be as far from the others that might have been as those of the other side are
    from each other: nothing else is known of it.
    """
    if min(len(a), len(b)) == 0 or max(len(a), len(b)) < 2 or min(a.min(), b.min()) <= 0:
        return None
    x, y = np.log(a), np.log(b)
    middle = float(y.mean() - x.mean())
    if pairs and len(x) > 2:  # Two pairs have one degree of freedom, two runs each up to two.
        return RunSpread(middle, float(np.std(y - x, ddof=1)) / math.sqrt(len(x)), len(x) - 1)
    if min(len(x), len(y)) == 1:
        several = x if len(x) > 1 else y
        alone = float(np.var(several, ddof=1))
        return RunSpread(middle, math.sqrt(alone * (1 + 1 / len(several))), len(several) - 1)
    return _welch(x, y)


def _paired(logs: NDArray[np.float64], level: float) -> tuple[str, LogRatio]:
    if len(logs) >= ENOUGH:
        return "Wilcoxon on paired log-ratios", wilcoxon_of(logs, level)
    n = len(logs)
    error = float(np.std(logs, ddof=1)) / math.sqrt(n)
    return "t of paired log-ratios", _student(float(logs.mean()), error, n - 1, level)


def _welch(a: NDArray[np.float64], b: NDArray[np.float64]) -> RunSpread:
    va, vb = (float(np.var(x, ddof=1)) / len(x) for x in (a, b))
    whole = va + vb
    freedom = whole**2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)) if whole else len(a) + len(b) - 2
    return RunSpread(float(b.mean() - a.mean()), math.sqrt(whole), freedom)


def _student(middle: float, error: float, freedom: float, level: float) -> LogRatio:
    from scipy.special import stdtr, stdtrit  # Imported late: half a second of a report's start.

    wide = -float(stdtrit(freedom, (1 - level) / 2)) * error
    p_value = 2 * float(stdtr(freedom, -abs(middle) / error)) if error > 0 else float(middle == 0)
    return LogRatio(middle, Interval(middle - wide, middle + wide, level), p_value)


def wilcoxon_of(logs: NDArray[np.float64], level: float = LEVEL) -> LogRatio:
    """Wilcoxon's signed-rank test of paired log-ratios, and Hodges & Lehmann's estimate with its interval."""
    from scipy.stats import wilcoxon  # Imported late: half a second of a report's start.

    n = len(logs)
    i, j = np.triu_indices(n)
    walsh = np.sort((logs[i] + logs[j]) / 2)
    p_value = float(wilcoxon(logs, zero_method="zsplit").pvalue) if np.any(logs) else 1.0
    cut = _wilcoxon_rank(n, level)
    return LogRatio(
        float(np.median(walsh)), Interval(float(walsh[cut]), float(walsh[-1 - cut]), level), p_value
    )


def brunner_munzel(a: NDArray[np.float64], b: NDArray[np.float64], level: float = LEVEL) -> LogRatio:
    """Brunner & Munzel's test (2000, "The nonparametric Behrens-Fisher problem", Biometrical Journal 42), and
    the ratio of the medians with a bootstrap of runs.
    """
    from scipy.stats import brunnermunzel  # Imported late: half a second of a report's start.

    # No arrangement of so many runs is rarer than the two without any overlap; there the test's own spread is
    # zero.
    rarest = 2 / math.comb(len(a) + len(b), len(a))
    if max(a) < min(b) or max(b) < min(a):
        p_value = rarest
    elif len(np.unique(np.concatenate([a, b]))) == 1:
        p_value = 1.0
    else:
        p_value = max(float(brunnermunzel(a, b).pvalue), rarest)
    rng = np.random.default_rng(1)
    again = np.log(np.median(rng.choice(b, (1999, len(b))), axis=1)) - np.log(
        np.median(rng.choice(a, (1999, len(a))), axis=1)
    )
    tail = (1 - level) / 2
    low, high = (float(np.quantile(again, share)) for share in (tail, 1 - tail))
    return LogRatio(math.log(float(np.median(b) / np.median(a))), Interval(low, high, level), p_value)


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
