"""What round trips take in a row: the median of their sum is no sum of medians where a few are slow."""

from __future__ import annotations

from typing import Final

import numpy as np

from fathometer.dataset.histogram import Histogram

_POINTS: Final = 512
"""Of the distribution."""
_SUMS: Final = 4_000
"""Their median is off by about a fiftieth of a standard deviation of the sum."""
_MOST: Final = 64
"""Round trips of a sum: of more the median is that of so many, but for what comes once in a hundred."""


def excess(rtt: Histogram | None, number: int) -> float:
    """By how much each of so many round trips takes longer than their median, in the median of their sum: ns,
    by a simulation, the same each time. One alone takes no longer; nothing is known of none.
    """
    if rtt is None or not rtt.count or number < 2:
        return 0.0
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    points = np.array([q.value_ns for q in rtt.quantiles(at.tolist())], dtype=np.float64)
    of = min(number, _MOST)
    drawn = np.random.default_rng(of).integers(0, _POINTS, size=(_SUMS, of))
    return float(np.median(points[drawn].sum(axis=1)) / of - np.median(points))
