"""Cutting a series into blocks that may be treated as independent.

Round trips are correlated: statistics that take each sample as independent give intervals several times too
narrow (nominal 95 % covered 8 to 48 % of the time when it was tried). Means over blocks much longer than the
correlation time are nearly independent; so the length of the blocks is chosen by looking whether the block
means still are correlated.

Method: batch means with von Neumann's ratio test of the batch means, as in Fishman & Yarberry (1997), "An
implementation of the batch means method", INFORMS J. Computing 9(3); von Neumann (1941), "Distribution of the
ratio of the mean square successive difference to the variance", Ann. Math. Stat. 12(4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST = 256
"""Blocks to begin with: more would not make an interval narrower (Student's t with 255 degrees of freedom is
the normal)."""
FEWEST = 16
"""Blocks to end with: with fewer the interval is wide and its coverage poor (t with 15 degrees of freedom:
2.13)."""
SHORTEST = 8
"""Samples in a block: shorter ones would measure the noise of single samples."""
SIGNIFICANCE = 0.20
"""One-sided level of the test of correlation, below which blocks are made longer. Higher than usual, because
a correlation that goes unnoticed makes intervals too narrow, and a false one only makes them slightly wider:
at 0.10 the interval of a mean covered 92.9 %, at 0.20 93.5 % (benches/coverage.py)."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a series was cut."""

    count: int
    """Blocks."""
    length: int
    """Samples in each; a remainder shorter than that, at the beginning, is left out of the spread but not of
    the figure."""
    independent: bool
    """False where even the longest blocks are still correlated."""


def correlated(means: NDArray[np.float64], significance: float = SIGNIFICANCE) -> bool:
    """Whether block means show positive correlation of neighbours, by von Neumann's ratio on ranks.

    The ratio is taken of the ranks (Bartels 1982, "The rank version of von Neumann's ratio test for
    randomness", JASA 77), so that a single burst does not hide the correlation of the rest.
    """
    b = len(means)
    if b < 4 or np.all(means == means[0]):
        return False
    order = np.argsort(np.argsort(means, kind="stable"), kind="stable").astype(np.float64)
    # Ties share their mean rank; otherwise plateaus of equal values would look like a trend.
    _, inverse, counts = np.unique(means, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=order)
    ranks = (sums / counts)[inverse]
    deviation = ranks - ranks.mean()
    total = float(deviation @ deviation)
    ratio = float(np.sum(np.diff(ranks) ** 2)) / total
    # Under independence the ratio has mean 2 and, for the rank version, variance 4 (b-2)(5b^2-2b-9) / (5b
    # (b+1) (b-1)^2).
    variance = 4 * (b - 2) * (5 * b * b - 2 * b - 9) / (5 * b * (b + 1) * (b - 1) ** 2)
    quantile = {0.20: 0.8416212335729143, 0.10: 1.2815515655446004}.get(significance)
    if quantile is None:
        from scipy.special import ndtri  # Imported late: half a second of a report's start.

        quantile = -float(ndtri(significance))
    return (2 - ratio) / math.sqrt(variance) > quantile


def cut(series: NDArray[np.float64], *, most: int = MOST, fewest: int = FEWEST) -> Cut:
    """Chooses blocks for the mean of `series` (of values, or of an indicator such as "above the p99")."""
    n = len(series)
    count = min(most, n // SHORTEST)
    if count < fewest:
        return Cut(count=0, length=0, independent=False)
    while True:
        length = n // count
        means = block_means(series, Cut(count, length, True))
        if not correlated(means):
            return Cut(count, length, True)
        if count // 2 < fewest:
            return Cut(count, length, False)
        count //= 2


def block_means(series: NDArray[np.float64], blocks: Cut) -> NDArray[np.float64]:
    """The mean of each block."""
    tail = series[len(series) - blocks.count * blocks.length :]
    return np.asarray(tail.reshape(blocks.count, blocks.length).mean(axis=1), dtype=np.float64)


def variance_of_mean(means: NDArray[np.float64]) -> float:
    """The variance of the mean of block means. What correlation of neighbours is left, too little to be seen
    by `correlated`, is put back: without it, intervals of series with regimes covered 88 to 90 %.
    """
    b = len(means)
    deviation = means - means.mean()
    total = float(deviation @ deviation)
    if total == 0:
        return 0.0
    neighbours = float(deviation[1:] @ deviation[:-1]) / total + 1 / b  # Its own bias is -1 / b.
    return total / (b - 1) / b * (1 + 2 * max(neighbours, 0.0))
