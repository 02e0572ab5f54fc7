"""What one long, correlated series says of a quantile and of its mean: the rules that `rollup` applies.

A quantile's interval is found by turning the question round (Woodruff 1952, "Confidence intervals for medians
and other position measures", JASA 47): how sure is the share of samples at or below the value? That share is
a mean of zeros and ones, whose variance is taken from block means; it becomes an effective number of
independent samples, with which the exact binomial interval (Clopper & Pearson 1934) is made around the
quantile's own share, after Korn & Graubard (1998), "Confidence intervals for proportions with small expected
number of positive counts estimated from survey data", Survey Methodology 24(2). Both ends of the share are
then read off the series' own distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.blocks import FEWEST, Cut, variance_of_mean
from fathometer.stats.results import LEVEL, Doubt, DoubtCode, Interval

NINES = (0.5, 0.95, 0.99, 0.999, 0.9999)
"""The quantiles that reports show."""


def supported(p: float, count: int, level: float = LEVEL) -> bool:
    """Whether `count` independent samples can give a quantile a finite upper bound.

    Wilks (1941), "Determination of sample sizes for setting tolerance limits", Ann. Math. Stat. 12: the
    largest of n samples lies above the p-quantile with confidence 1 - p**n. 59 samples for p95, 299 for p99,
    2,995 for p99.9, 29,956 for p99.99.
    """
    return count > 0 and 1 - p**count >= level - 1e-12


WITHHELD = 5
"""A tail whose need of samples exceeds by this factor what the series is worth gets no interval.

Found by simulation (tests/stats/test_coverage.py): the spread of a tail's share, taken from the few bursts
that happened to be seen, is too small just when too few were seen. Where the series is worth enough for the
quantile, intervals cover 93 to 96 %; where it is worth a fifth, 85 to 90 % (said as a doubt); below that as
little as 25 %.
"""


def withheld(p: float, count: int, effective: float, worth: float, level: float) -> Doubt | None:
    """Why a quantile gets no interval: what the samples are worth, there or as a whole, is too little."""
    if supported(p, int(min(effective, worth * WITHHELD)), level):
        return None
    return Doubt(DoubtCode.CORRELATED_UNSUPPORTED, count, min(effective, worth), quantile=p)


BEYOND = 7
"""Independent samples past a quantile that a correlated series must be worth: with fewer its tail is a
handful of excursions, and the p99 of AR(1) of 0.95 covered 61 % in the runs that a mere three let pass."""


def few_bursts(p: float, count: int, worth: float, level: float) -> Doubt | None:
    """What to say of an interval whose tail is supported although the whole series is worth less."""
    correlated = 2 * worth < count
    if supported(p, int(worth), level) and not (correlated and (1 - p) * worth < BEYOND):
        return None
    return Doubt(DoubtCode.FEW_BURSTS, count, worth, quantile=p)


def doubt_of(blocks: Cut) -> Doubt | None:
    """What to say of an interval whose blocks are still correlated."""
    if blocks.independent:
        return None
    return Doubt(DoubtCode.CORRELATED_BLOCKS, blocks.count, blocks.length)


def effective_count(share: float, means: NDArray[np.float64], count: int, level: float = LEVEL) -> float:
    """How many independent samples a share of samples is worth.

    `means`: the share in each block, blocks of equal length. Korn & Graubard: share (1 - share) / variance,
    corrected for the variance's own uncertainty by the ratio of Student's t quantiles; never more than the
    count.
    """
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    variance = variance_of_mean(means) * (1 + _one_more(means))
    if variance <= 0 or not 0 < share < 1:
        return float(count)
    tail = (1 - level) / 2
    correction = (float(stdtrit(count - 1, tail)) / float(stdtrit(freedom(means), tail))) ** 2
    return min(float(count), share * (1 - share) / variance * correction)


def _one_more(means: NDArray[np.float64]) -> float:
    """The share of the variance that one more of the blocks that decide it would add, beyond that of normal
    means: who sees four bursts where ten are usual sees too small a spread just when the quantile is too low.
    """
    squares = (means - means.mean()) ** 2
    total = float(squares.sum())
    return max(0.0, float((squares**2).sum()) / total**2 - 3 / len(means)) if total else 0.0


def freedom(means: NDArray[np.float64]) -> float:
    """Degrees of freedom that the variance of block means is worth: one less than blocks where they are
    normal, fewer where a few of them decide it. Satterthwaite (1946), "An approximate distribution of
    estimates of variance components", Biometrics Bulletin 2: 2 / (the variance's own relative variance),
    which is (kurtosis - 1) / blocks. The p95 of bursts, of which ten decide, covered 89 % with the number of
    blocks.
    """
    b = len(means)
    squares = (means - means.mean()) ** 2
    total = float(squares.sum())
    if total == 0:
        return float(b - 1)
    kurtosis = b * float((squares**2).sum()) / total**2
    return min(float(b - 1), max(2.0 * b / max(kurtosis - 1.0, 1e-9), 2.0))


def share_worth(hits: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
    """How many independent samples one is worth for a share, from the hits of blocks in order of time: by the
    blocks' spread at every length of blocks, the least.
    """
    count, share = int(sizes.sum()), float(hits.sum()) / max(int(sizes.sum()), 1)
    if not 0 < share < 1:
        return 1.0
    least = float(count)
    means = share + (hits - share * sizes) / sizes.mean()
    while len(means) >= FEWEST:
        least = min(least, effective_count(share, means, count))
        means = means[len(means) % 2 :].reshape(-1, 2).mean(axis=1)
    return least / count


def share_ends(hits: float, count: float, level: float = LEVEL) -> tuple[float, float]:
    """One-sided bounds of a share by so many hits of so many independent samples (Clopper & Pearson): below
    each of them, or above it, the share is with this confidence alone.
    """
    from scipy.special import betaincinv  # Imported late: half a second of a report's start.

    low = 0.0 if hits <= 0 else float(betaincinv(hits, count - hits + 1, 1 - level))
    high = 1.0 if hits >= count else float(betaincinv(hits + 1, count - hits, level))
    return low, high


def shares_around(p: float, effective: float, level: float = LEVEL) -> tuple[float, float]:
    """Between which shares of the samples the quantile lies: the binomial interval around `p` itself.

    Not around the share of samples at or below the quantile: where a fifth of all samples share one value,
    that may be far from `p`, and an interval around it missed the median of two values in a quarter of runs.
    """
    from scipy.special import betainccinv, betaincinv  # Imported late: half a second of a report's start.

    hits, tail = p * effective, (1 - level) / 2
    low = 0.0 if hits <= 0 else float(betaincinv(hits, effective - hits + 1, tail))
    high = 1.0 if hits >= effective else float(betainccinv(hits + 1, effective - hits, tail))
    return low, high


def mean_interval(at: float, means: NDArray[np.float64], level: float = LEVEL) -> Interval:
    """Student's t with a correction for skewness, without which the upper end of a heavy-tailed series' mean
    is too low.

    Johnson (1978), "Modified t tests and confidence intervals for asymmetrical populations", JASA 73, in the
    monotone form of Hall (1992), "On the removal of skewness by transformation", J. R. Stat. Soc. B 54.
    """
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    b = len(means)
    spread = float(np.std(means, ddof=1))
    if spread == 0:
        return Interval(at, at, level)
    skew = float(np.mean((means - means.mean()) ** 3)) / spread**3
    quantile_t = -float(stdtrit(b - 1, (1 - level) / 2))
    error = math.sqrt(variance_of_mean(means))

    def untransformed(u: float) -> float:
        # Hall's transformation of the studentised mean T is T + skew (T^2/3 + 1/6) / sqrt(b) + skew^2 T^3 /
        # (27 b); this is its inverse.
        if abs(skew) < 1e-9:
            return u
        inner = 1 + skew * (u / math.sqrt(b) - skew / (6 * b))
        return 3 * math.sqrt(b) / skew * (math.copysign(abs(inner) ** (1 / 3), inner) - 1)

    upper, lower = untransformed(-quantile_t), untransformed(quantile_t)
    return Interval(at - error * lower, at - error * upper, level)
