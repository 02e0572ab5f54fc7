"""The exact search, sample by sample: the cheapest sequence of regimes.

A regime is a level and a spread. A sample costs the negative log-likelihood of Student's t around the level,
cut off at a cap; a change of regime costs a penalty. The sequence of least total cost is found exactly by
dynamic programming over all pairs of candidate level and spread.

This is optimal partitioning (Jackson et al. 2005; Killick, Fearnhead & Eckley 2012, "Optimal detection of
changepoints with a linear computational cost", JASA 107) with a bounded loss (Fearnhead & Rigaill 2019,
"Changepoint detection in the presence of outliers", JASA 114), made linear not by pruning but by taking the
parameter from a grid, as Viterbi's algorithm (1967) does.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.model import Settings

Floats = NDArray[np.float64]

GAUSS_MEDIAN_OF_DIFFERENCES = 0.9539
"""Median of |a - b| for two independent standard normal values: 0.6745 x sqrt(2)."""
MAD_TO_DEVIATION = 1.4826
"""A median absolute deviation times this is the standard deviation of normal noise."""
BLOCK_CELLS = 2_000_000
"""Costs computed at a time: 16 MB."""


def noise_floor(rtt: Floats) -> float:
    """Standard deviation of the noise from one sample to the next, untouched by levels and by up to a quarter
    of spikes; 0 only for a series that never changes.

    Rounded round trips may repeat for more than half of the series: then the error of rounding to the
    smallest step that occurs, a uniform distribution's deviation.
    """
    steps = np.abs(np.diff(rtt))
    if len(steps) == 0:
        return 0.0
    floor = float(np.median(steps)) / GAUSS_MEDIAN_OF_DIFFERENCES
    if floor > 0:
        return floor
    moved = steps[steps > 0]
    return float(moved.min()) / math.sqrt(12) if len(moved) else 0.0


def loss(rtt: Floats, level: Floats | float, spread: Floats | float, freedom: float) -> Floats:
    """Negative log-likelihood of Student's t, up to a constant."""
    distance = (rtt - level) / spread
    out: Floats = 0.5 * (freedom + 1) * np.log1p(distance * distance / freedom) + np.log(spread)
    return out


def candidate_levels(rtt: Floats, step: float, most: int) -> Floats:
    """Levels worth trying: those at which the running median of five rests, rounded to `step`."""
    padded = np.pad(rtt, 2, mode="edge")
    running = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    lowest = float(running.min())
    while True:
        levels = np.unique(np.round((running - lowest) / step))
        if len(levels) <= most:
            return np.asarray(levels * step + lowest, dtype=np.float64)
        step *= 1.4


def regimes(rtt: Floats, noise: float, settings: Settings) -> list[int]:
    """Indices at which the cheapest sequence of regimes changes, in order. `rtt`: answered samples only."""
    n = len(rtt)
    levels = candidate_levels(rtt, noise * settings.level_step, settings.most_levels)
    factors = 2.0 ** np.arange(settings.scales)
    level = np.repeat(levels, settings.scales)
    inverse = 1.0 / (noise * np.tile(factors, len(levels)))
    # In units of the noise, so that a sample's cost and its cap do not depend on the unit of time.
    normaliser = np.log(np.tile(factors, len(levels)))
    penalty = settings.penalty_per_log * math.log(n)
    half = 0.5 * (settings.freedom + 1)

    cost = np.zeros(len(level))  # Of the best sequence that ends in each state, over the best of all.
    begun = np.zeros(len(level), dtype=np.int64)  # When that sequence entered the state.
    best_begun = np.empty(n, dtype=np.int64)
    block = max(1, BLOCK_CELLS // len(level))
    for first in range(0, n, block):
        part = rtt[first : first + block, None] - level
        part *= inverse
        part *= part
        part /= settings.freedom
        np.log1p(part, out=part)
        part *= half
        part += normaliser
        np.minimum(part, settings.loss_cap, out=part)
        for offset, row in enumerate(part):
            t = first + offset
            if t:
                # Whoever is dearer than the best by the penalty had better come from the best.
                switched = cost > penalty
                cost[switched] = penalty
                begun[switched] = t
            cost += row
            best = int(cost.argmin())
            cost -= cost[best]
            best_begun[t] = begun[best]

    # The state before a switch is always the best one at that time, so its beginning is on record.
    found: list[int] = []
    t = int(best_begun[n - 1])
    while t > 0:
        found.append(t)
        t = int(best_begun[t - 1])
    return found[::-1]
