"""Axes of round trips: ticks at 1, 10, 100 of a unit that people write, and never an exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fathometer.report.vega import Spec

_MOST = 7
"""Labelled ticks of an axis; more of them stand in each other's way."""
_STEPS: tuple[tuple[float, ...], ...] = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
"""Ticks of a decade, from coarse to fine: the coarsest that gives at least three is taken."""
UNIT_LABEL = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',~r') + ' s' : datum.value >= 1e3 ? "
    "format(datum.value / 1e3, ',~r') + ' ms' : datum.value >= 1 ? format(datum.value, ',~r') + ' µs' : "
    "format(datum.value * 1e3, ',~r') + ' ns'"
)
"""Microseconds as people write durations."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where an axis of microseconds begins and ends, and its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]


def scale(values: Sequence[float], least: int = 3) -> Scale | None:
    """A log scale around positive values, with room for at least `least` ticks; None where there are none."""
    positive = [v for v in values if v > 0 and math.isfinite(v)]
    if not positive:
        return None
    low, high = min(positive) / 1.06, max(positive) * 1.06
    for steps in _STEPS:
        ticks = _ticks(low, high, steps)
        if len(ticks) >= least:
            break
    else:
        ticks = _even(low, high, least)
    while len(ticks) > _MOST:
        ticks = ticks[::2]
    return Scale(low, high, tuple(ticks))


def _ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [tick for tick in every if low <= tick <= high]


def _even(low: float, high: float, least: int) -> list[float]:
    """Where less than a third of a decade is shown: equal steps of 1, 2 or 5."""
    for exponent in range(math.floor(math.log10(high - low)), math.floor(math.log10(high - low)) - 3, -1):
        for step in (5, 2, 1):
            size = step * 10.0**exponent
            ticks = [k * size for k in range(math.ceil(low / size), math.floor(high / size) + 1)]
            if len(ticks) >= least:
                # Whole multiples of a decimal step: without the noise of binary fractions.
                return [float(f"{tick:.6g}") for tick in ticks]
    return []


def round_trips(values: Sequence[float], title: str | None = "round trip") -> Spec:
    """An axis of round trips in microseconds, on a log scale."""
    return _axis(values, title, UNIT_LABEL)


def ratio_axis(values: Sequence[float], title: str) -> Spec:
    """An axis of ratios on a log scale: half, once, twice."""
    return _axis(values, title, "format(datum.value, ',~r') + '×'")


def _axis(values: Sequence[float], title: str | None, label: str) -> Spec:
    axis: Spec = {"labelExpr": label, "labelOverlap": "greedy", "labelSeparation": 6}
    limits: Spec = {"type": "log", "nice": False}
    shown = scale(values)
    if shown is not None:
        limits |= {"domain": [shown.low, shown.high]}
        axis |= {"values": list(shown.ticks)}
    return {"type": "quantitative", "title": title, "scale": limits, "axis": axis}
