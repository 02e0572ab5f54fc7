"""How long a query of one path would take over another: N round trips cost N times what the other path's
round trip is longer.

What the query took without its round trips stays: the server's work, the client's, and what the path took to
carry the bytes. The answer holds where both paths carry bytes equally fast, and windows have grown as far on
the other one as they did on this (docs/databases.md has both, and how far it was off where it was tried).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.queries import Queries
from fathometer.findings.databases import Asked, databases
from fathometer.findings.model import Scenario
from fathometer.stats.results import Estimate
from fathometer.stats.rollup import rollup_estimates
from fathometer.stats.runs import median_of_runs
from fathometer.stats.series import from_series

MOST: Final = 100
"""Predictions that a report has at most."""
SAVES: Final = 0.1
"""Of the time: what fetching at once would save, to be worth saying."""
_MODES: Final = ("tcp", "connect")
"""Whose round trips are those of a path."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The median of a query's time over a path."""

    ns: float
    low_ns: float | None
    high_ns: float | None
    """Its 95 % interval, of both medians that it is made of; None: one of them has none."""
    turns: int
    """Round trips, in the median."""
    at_once_ns: float | None
    """The same in one round trip, where that would save time worth saying."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A query of one path over another."""

    path: str
    asked: str
    other: str
    other_rtt_ns: float
    predicted: Predicted
    measured: Estimate | None
    """The median of the same query there; None: it was not asked there."""


def predict(runs: Sequence[Queries], rtt: Estimate) -> Predicted | None:
    """Over a path of such round trips (their median, ns); None: nothing is known of the query's own."""
    known = [(q, q.counted & (q.rtt_ns > 0)) for q in runs]
    turns = np.concatenate([q.turns[k] for q, k in known])
    if not len(turns) or math.isnan(rtt.value):
        return None
    number = int(np.median(turns))
    wall = np.concatenate([q.wall_ns[k] for q, k in known]).astype(np.float64)
    own = np.concatenate([q.rtt_ns[k] for q, k in known]).astype(np.float64)
    # What looks shorter than its round trips had some that were shorter than those beside it.
    rest = _median(np.maximum(wall - turns * own, 0.0))
    ns = rest.value + number * rtt.value
    saved = (number - 1) * rtt.value
    low = high = None
    if rest.interval is not None and rtt.interval is not None:
        # Two medians of their own: what each may be off adds up as independent errors do.
        low = ns - math.hypot(rest.value - rest.interval.low, number * (rtt.value - rtt.interval.low))
        high = ns + math.hypot(rest.interval.high - rest.value, number * (rtt.interval.high - rtt.value))
    once = ns - saved if number > 2 and saved >= SAVES * ns else None
    return Predicted(ns, low, high, number, once)


def _median(values: NDArray[np.float64]) -> Estimate:
    """With the interval that correlation leaves; of fewer samples that of their ranks."""
    (estimate,) = rollup_estimates(from_series(values), (0.5,))
    return estimate if estimate.interval is not None else median_of_runs(values)


@lru_cache(maxsize=1)
def elsewhere(scenarios: tuple[Scenario, ...]) -> tuple[Elsewhere, ...]:
    """Each query over each other path whose round trip is known."""
    every = databases(scenarios).every
    told: list[Elsewhere] = []
    for one in every:
        for other in scenarios:
            if other.name == one.path or other.key.mode not in _MODES or not other.rtt.count:
                continue
            rtt = other.estimates["p50"]
            predicted = predict(one.runs, rtt) if rtt.shown else None
            if predicted is not None and len(told) < MOST:
                there = _there(every, one, other.name)
                told.append(Elsewhere(one.path, one.asked, other.name, rtt.value, predicted, there))
    return tuple(told)


def _there(every: Sequence[Asked], one: Asked, path: str) -> Estimate | None:
    same = (x for x in every if x.path == path and x.shape is not None and x.shape == one.shape and x.counted)
    return next((x.wall["p50"] for x in same), None)
