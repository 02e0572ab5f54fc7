"""Changes of the tail: the same search over how often samples lie far above their level.

A sample is a tail event where it is further above the running median than the 99th percentile of such
distances in the whole series. Windows are wide enough for five expected events; their counts are compared
after Anscombe's transform, 2 sqrt(c + 3/8), whose variance does not depend on the rate (Anscombe 1948, "The
transformation of Poisson, binomial and negative-binomial data", Biometrika 35).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fathometer import counts
from fathometer.stats.changes.jumps import Jumps
from fathometer.stats.changes.levels import Level
from fathometer.stats.changes.model import Settings, Undecided

Floats = NDArray[np.float64]

FEWEST = 20
"""Narrowest windows below which no change of tail is decided."""
LOCAL = 51
"""Samples that the running median is taken of: it follows what wanders, and keeps steps."""


def narrowest(settings: Settings) -> int:
    """Samples in a window with enough expected events."""
    return round(settings.tail_events_a_window / (1 - settings.tail_quantile))


def too_few_for_tails(count: int, settings: Settings) -> tuple[Undecided, ...]:
    """Whether tail events are too few to decide about, which is an answer of its own."""
    needed = FEWEST * settings.tail_events_a_window
    if count >= FEWEST * narrowest(settings):
        return ()
    events = int(count * (1 - settings.tail_quantile))
    reason = (
        f"too few tail events: of {counts.count(count, 'sample')} about {events} lie above p"
        f"{settings.tail_quantile * 100:g}, and {needed} are needed to tell a change of tail from chance"
    )
    return (Undecided("tail", events, needed, reason),)


def tail_changes(rtt: Floats, settings: Settings) -> list[Level]:
    """Changes in how often samples lie far above their level; `before`, `after`: the p99 of that distance."""
    from scipy.ndimage import median_filter  # Imported late: a report's start must not wait for it.

    excess = rtt - median_filter(rtt, LOCAL, mode="nearest")
    far = excess > np.quantile(excess, settings.tail_quantile)
    shortest = narrowest(settings)
    asked = replace(settings, strictness=settings.tail_strictness)
    # The transformed counts of independent events differ by sqrt(2): less is luck.
    jumps = Jumps(far.astype(np.float64), shortest, lambda _: math.sqrt(2), asked, _anscombe)
    bounds = [0, *jumps.candidates, len(rtt)]
    while len(bounds) > 2:
        passed = [
            jumps.margin(b, b - a, c - b) for a, b, c in zip(bounds, bounds[1:], bounds[2:], strict=False)
        ]
        least = int(np.argmin(passed))
        if passed[least] >= 1:
            break
        del bounds[least + 1]
    if len(bounds) == 2:
        return []
    places = [
        _place(far, (begin, hit, end), shortest)
        for begin, hit, end in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]
    edges = [0, *places, len(rtt)]
    figures = [float(np.quantile(excess[a:b], settings.tail_quantile)) for a, b in pairwise(edges)]
    return [Level(*row) for row in zip(places, passed, figures, figures[1:], strict=False)]


def _anscombe(before: Floats, after: Floats, _: object) -> Floats:
    out: Floats = 2 * np.sqrt(after + 0.375) - 2 * np.sqrt(before + 0.375)
    return out


def _place(far: NDArray[np.bool_], bounds: tuple[int, int, int], reach: int) -> int:
    """The sample from which events have the new rate, by the likelihood of Bernoulli trials with the rates of
    both sides.
    """
    begin, hit, end = bounds
    rates = [min(max(float(far[a:b].mean()), 1e-6), 0.5) for a, b in ((begin, hit), (hit, end))]
    first, last = max((begin + hit) // 2, hit - 2 * reach), min((hit + end) // 2, hit + 2 * reach)
    before, after = (np.where(far[first:last], -math.log(r), -math.log1p(-r)) for r in rates)
    return first + int(np.argmin(np.concatenate([[0.0], np.cumsum(before - after)])))
