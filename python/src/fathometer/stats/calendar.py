"""Hours and weekdays: is there a rhythm, or only noise that was sorted into a table?

A heat map of hour by weekday always has warm cells. Whether they mean something is asked with the day as the
unit:

* **hour of the day**: every day's 24 figures are turned round by a random number of hours; that keeps how
  neighbouring hours resemble each other and destroys only the agreement between days (a cyclic-shift
  randomisation test; Edgington & Onghena 2007, Randomization Tests).
* **day of the week**: the days' names are dealt anew among the days, compared by their medians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

HOUR_NS = 3_600_000_000_000
TRIALS = 999
FEWEST_DAYS = 3
"""Whole days below which nothing is said of hours."""
FEWEST_WEEKS = 2
"""Times that each of at least two weekdays must have been seen."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """One question about the calendar."""

    of: Literal["day", "week"]
    p_value: float | None
    """None where there is not enough to ask."""
    swing: float | None
    """The largest typical figure over the smallest (of hours, or of weekdays), less 1; None where the
    smallest is zero, too."""
    seen: int
    """Whole days; of weekdays the days, and where there are not enough to ask the weekdays seen often enough.
    """
    needed: int
    highest: int | None = None
    """The hour, or the weekday (Monday is 0), of the largest typical figure."""
    lowest: int | None = None

    @property
    def shown(self) -> bool:
        """Whether there is a rhythm."""
        return self.p_value is not None and self.p_value < 0.05


@dataclass(frozen=True, slots=True)
class Calendar:
    """Hour by weekday."""

    cell: NDArray[np.float64]
    """cell[weekday, hour]: the median of that cell's hourly figures; Monday is 0; NaN where nothing was
    measured."""
    hours: NDArray[np.int64]
    """How many hours stand behind each cell."""
    of_day: Rhythm
    of_week: Rhythm


def calendar(
    hour_began_ns: NDArray[np.int64], figure: NDArray[np.float64], offset_ns: int = 0, seed: int = 1
) -> Calendar:
    """The calendar of one figure per hour (a median, or a p99 that the hour's count supports).

    `hour_began_ns`: UTC, ns since the Unix epoch. `offset_ns` is added for local time. Hours without a figure
    are NaN or left out.
    """
    keep = np.isfinite(figure)
    local = hour_began_ns[keep] + offset_ns
    value = figure[keep]
    hour = (local // HOUR_NS % 24).astype(np.intp)
    day = local // (24 * HOUR_NS)
    weekday = ((day + 3) % 7).astype(np.intp)  # 1 January 1970 was a Thursday.
    cell = np.full((7, 24), math.nan)
    hours = np.zeros((7, 24), dtype=np.int64)
    for w in range(7):
        for h in range(24):
            here = value[(weekday == w) & (hour == h)]
            hours[w, h] = len(here)
            if len(here):
                cell[w, h] = float(np.median(here))
    rng = np.random.default_rng(seed)
    return Calendar(cell, hours, _of_day(day, hour, value, rng), _of_week(day, value, rng))


def _of_day(
    day: NDArray[np.int64], hour: NDArray[np.intp], value: NDArray[np.float64], rng: np.random.Generator
) -> Rhythm:
    names, row = np.unique(day, return_inverse=True)
    table = np.full((len(names), 24), math.nan)
    table[row, hour] = value
    whole = table[~np.isnan(table).any(axis=1)]
    if len(whole) < FEWEST_DAYS:
        return Rhythm("day", None, None, len(whole), FEWEST_DAYS)
    # Each day against its own level: what differs from day to day is another question.
    relative = _logs(whole) - _logs(whole).mean(axis=1, keepdims=True)
    seen = float(relative.mean(axis=0).var())
    turned = np.empty(TRIALS)
    rows = np.arange(len(whole))[:, np.newaxis]
    for trial in range(TRIALS):
        shift = rng.integers(0, 24, len(whole))[:, np.newaxis]
        turned[trial] = relative[rows, (np.arange(24) + shift) % 24].mean(axis=0).var()
    p_value = _share(turned, seen)
    typical = np.median(whole, axis=0)
    high, low = int(typical.argmax()), int(typical.argmin())
    return Rhythm("day", p_value, _swing(typical[high], typical[low]), len(whole), FEWEST_DAYS, high, low)


def _logs(figure: NDArray[np.float64]) -> NDArray[np.float64]:
    # What a clock of milliseconds calls zero has no logarithm; it is shorter than the shortest that has one.
    some = figure[figure > 0]
    return np.log(np.maximum(figure, some.min() / 2 if len(some) else 1.0))


def _share(by_chance: NDArray[np.float64], seen: float) -> float:
    """How many of the arrangements, and what was seen itself, are at least as large. Figures that are all
    alike are no less alike in another order, whatever their last digits.
    """
    return float((1 + np.sum(by_chance >= seen * (1 - 1e-9) - 1e-24)) / (1 + len(by_chance)))


def _swing(high: float, low: float) -> float | None:
    return float(high / low - 1) if low > 0 else None


def _of_week(day: NDArray[np.int64], value: NDArray[np.float64], rng: np.random.Generator) -> Rhythm:
    names, row, count = np.unique(day, return_inverse=True, return_counts=True)
    # A day that was measured for less than half would be compared by its hours, not by its name.
    full = count >= 12
    middle = np.array([float(np.median(value[row == i])) for i in range(len(names)) if full[i]])
    level = _logs(middle)
    weekday = ((names[full] + 3) % 7).astype(np.intp)
    seen_often = int(np.sum(np.bincount(weekday, minlength=7) >= FEWEST_WEEKS))
    if seen_often < 2:
        return Rhythm("week", None, None, seen_often, 2)

    def spread(names_of: NDArray[np.intp]) -> float:
        totals = np.bincount(names_of, weights=level, minlength=7)
        number = np.bincount(names_of, minlength=7)
        some = number > 0
        return float(np.sum(number[some] * (totals[some] / number[some] - level.mean()) ** 2))

    seen = spread(weekday)
    dealt = np.array([spread(rng.permutation(weekday)) for _ in range(TRIALS)])
    p_value = _share(dealt, seen)
    typical = {w: float(np.median(middle[weekday == w])) for w in np.unique(weekday).tolist()}
    high, low = max(typical, key=typical.__getitem__), min(typical, key=typical.__getitem__)
    return Rhythm("week", p_value, _swing(typical[high], typical[low]), len(level), 2, high, low)
