"""The first sample of a connection against the rest: what a new connection costs its first message."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.results import LEVEL, Interval

FEWEST = 6
"""Connections below which Wilcoxon's test cannot reach 0.05."""


@dataclass(frozen=True, slots=True)
class First:
    """First samples against the median of the same connections."""

    ratio: float
    """The median of first / rest."""
    interval: Interval | None
    """Order-statistic interval of that median; None with too few connections."""
    p_value: float | None
    """Wilcoxon's signed-rank test (1945) of the log-ratios, connections being independent."""
    connections: int
    said: str


def first_against_rest(
    first: NDArray[np.float64], rest_median: NDArray[np.float64], level: float = LEVEL
) -> First:
    """One entry a connection: its first answered round trip, and the median of its others."""
    if len(first) == 0:
        return First(math.nan, None, None, 0, "no connection had a first sample and others")
    logs = np.log(first / rest_median)
    ratio = math.exp(float(np.median(logs)))
    interval = _interval(logs, level) if len(first) >= FEWEST else None
    if interval is None:
        said = (
            f"the first sample took {ratio:.2f} times as long as the others; {len(first)} connections are "
            "too few to generalise"
        )
        return First(ratio, None, None, len(first), said)
    from scipy.stats import wilcoxon  # Imported late: half a second of a report's start.

    p_value = float(wilcoxon(logs, zero_method="zsplit").pvalue) if np.any(logs) else 1.0
    if p_value < 1 - level and 1.0 not in interval:
        said = (
            f"the first sample of a connection takes {ratio:.2f} times as long as the others ({len(first)} "
            "connections)"
        )
    else:
        said = (
            f"the first sample of a connection is not shown to differ from the others ({len(first)} "
            "connections)"
        )
    return First(ratio, interval, p_value, len(first), said)


def _interval(logs: NDArray[np.float64], level: float) -> Interval | None:
    from fathometer.stats.runs import median_of_runs

    found = median_of_runs(logs, level).interval
    return None if found is None else Interval(math.exp(found.low), math.exp(found.high), found.level)
