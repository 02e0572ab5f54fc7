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
    differs: bool | None
    """Whether first samples are shown to differ from the others; None with too few connections."""


def first_against_rest(
    first: NDArray[np.float64], rest_median: NDArray[np.float64], level: float = LEVEL
) -> First:
    """One entry a connection: its first answered round trip, and the median of its others. Connections with a
    zero among the two have no ratio and are left out.
    """
    some = (first > 0) & (rest_median > 0)
    logs = np.log(first[some] / rest_median[some])
    if len(logs) == 0:
        return First(math.nan, None, None, 0, None)
    ratio = math.exp(float(np.median(logs)))
    interval = _interval(logs, level) if len(logs) >= FEWEST else None
    if interval is None:
        return First(ratio, None, None, len(logs), None)
    from scipy.stats import wilcoxon  # Imported late: half a second of a report's start.

    p_value = float(wilcoxon(logs, zero_method="zsplit").pvalue) if np.any(logs) else 1.0
    return First(ratio, interval, p_value, len(logs), p_value < 1 - level and 1.0 not in interval)


def _interval(logs: NDArray[np.float64], level: float) -> Interval | None:
    from fathometer.stats.runs import median_of_runs

    interval = median_of_runs(logs, level).interval
    return (
        None
        if interval is None
        else Interval(math.exp(interval.low), math.exp(interval.high), interval.level)
    )
