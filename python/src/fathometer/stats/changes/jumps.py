"""The search, the same for every length: differences of neighbouring windows against their usual size.

`J(t, k)` is the mean of the k samples from t on less the mean of the k before, less what the series drifts
there anyway (the same difference one window earlier and later). For each width k the robust spread of all
these differences is what correlation, day and night, or rounding of *this* series do at that width: no
model of the noise is fitted, and a change of a few samples or of a tenth of the series does not move it. A
difference many times its usual size is a candidate. Moving sums: Eichinger & Kirch (2018), "A MOSUM procedure
for the estimation of multiple random change points", Bernoulli 24; there the scale is a long-run variance,
which needs a bandwidth; here each width brings its own.

The threshold grows with the logarithm of the number of windows and knows no other length, so that one sample
more never changes the kind of search. Time is linear: wide windows are looked at every sixteenth of a width.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.model import Settings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS_A_WIDTH = 16
"""Positions at which a window is looked at while it moves by its own width; the best is then looked for among
all samples between its neighbours."""
GAUSS_MEDIAN = 0.6745
GAUSS_OUTER = 1.2816
"""Median and 80th percentile of the absolute value of a standard normal variable."""
OUTER = 0.8
"""The spread of differences is the larger of what their median and what this quantile say. The median alone
is blind where a series rests for half of the time and drifts for the rest; 0.9 counts real changes as usual
where there are many (F1 on generated traces 0.03 lower)."""


def stride(width: int) -> int:
    """Samples between two positions of a window."""
    return max(1, width // STEPS_A_WIDTH)


def widths(count: int, shortest: int, settings: Settings) -> list[int]:
    """Window widths in steps of the root of two, from `shortest` to the widest of which the series holds
    enough to know what is usual.
    """
    out: list[int] = []
    width = float(shortest)
    while width <= max(shortest, count / settings.fewest_windows):
        whole = round(width)
        whole -= whole % stride(whole)
        if not out or whole != out[-1]:
            out.append(whole)
        width *= math.sqrt(2)
    return out


class Jumps:
    """Differences of neighbouring windows of one series of values."""

    def __init__(
        self,
        values: Floats,
        shortest: int,
        floor: Callable[[int], float],
        settings: Settings,
        contrast: Callable[[Floats, Floats, Integers | int], Floats] | None = None,
        calm: Floats | None = None,
    ) -> None:
        """`floor`: the least spread of differences at a width. `contrast`: the difference of two windows from
        their sums and their width; of their means, where it is not given. `calm`: the values without the
        changes that are known, which say what is usual; `values`, where it is not given.
        """
        self._count = len(values)
        self._sums = np.concatenate([[0.0], np.cumsum(values)])
        usually = self._sums if calm is None else np.concatenate([[0.0], np.cumsum(calm)])
        self._contrast = contrast or (lambda before, after, width: (after - before) / width)
        self.widths = np.array(widths(self._count, shortest, settings), dtype=np.int64)
        self.least = np.empty(len(self.widths))
        """The least jump at each width that chance does not explain."""
        marks = np.zeros(self._count + 1, dtype=np.bool_)
        for at, width in enumerate(self.widths.tolist()):
            if 2 * width > self._count:
                self.least[at] = math.inf
                continue
            moving = self._moving(self._sums, width)
            calmly = moving if calm is None else self._moving(usually, width)
            middle, outer = np.quantile(np.abs(calmly), (0.5, OUTER))
            usual = max(float(middle) / GAUSS_MEDIAN, float(outer) / GAUSS_OUTER, floor(width))
            allowance = math.sqrt(2 * math.log(self._count / width + 1)) + settings.strictness
            self.least[at] = usual * allowance
            # What does not pass with its drift does not pass without it.
            if np.abs(moving).max() > self.least[at]:
                self._pick(moving, width, float(self.least[at]), marks)
        self.candidates: list[int] = [int(at) for at in np.flatnonzero(marks)]

    def _moving(self, sums: Floats, width: int) -> Floats:
        """Differences at `width`, `width + stride`, … samples from the beginning."""
        step, last = stride(width), self._count + 1
        lower = sums[: last - 2 * width : step]
        middle = sums[width : last - width : step]
        upper = sums[2 * width :: step]
        return self._contrast(middle - lower, upper - middle, width)

    def _pick(self, moving: Floats, width: int, least: float, marks: NDArray[np.bool_]) -> None:
        """Marks where jumps are largest, unless a narrower window marked a place near it."""
        from scipy.ndimage import maximum_filter1d  # Imported late: a report's start must not wait for it.

        step = stride(width)
        away = width // step
        before, after = np.full(len(moving), math.nan), np.full(len(moving), math.nan)
        before[away:], after[:-away] = moving[:-away], moving[away:]
        jump = without_drift(moving, before, after)
        near = max(1, width // 2)
        peaks = (jump > least) & (jump >= maximum_filter1d(jump, 2 * max(1, near // step) + 1))
        for at in (np.flatnonzero(peaks) * step + width).tolist():
            around = np.arange(max(width, at - step + 1), min(self._count - width, at + step - 1) + 1)
            place = int(around[np.argmax(np.abs(self._at(around, width)))]) if step > 1 else at
            if not marks[max(0, place - near) : place + near + 1].any():
                marks[place] = True

    def _at(self, at: Integers | int, width: Integers | int) -> Floats:
        lower, middle, upper = (self._sums[at - width], self._sums[at], self._sums[at + width])
        return self._contrast(middle - lower, upper - middle, width)

    def margin(self, at: int, before: int, after: int) -> float:
        """How many times the least jump there is at sample `at`, in the windows that tell best and fit into
        the `before` and `after` samples on its sides; 0 where none fits.
        """
        fitting = self.widths <= max(int(self.widths[0]), min(before, after))
        fitting &= (self.widths <= at) & (self.widths <= self._count - at)
        width = self.widths[fitting]
        if not len(width):
            return 0.0
        sides = []
        for place in (at - width, at + width):
            inside = (place >= width) & (place <= self._count - width)
            moved = np.clip(place, width, self._count - width)
            sides.append(np.where(inside, self._at(moved, width), math.nan))
        jump = without_drift(self._at(at, width), sides[0], sides[1])
        return float(np.max(jump / self.least[fitting]))


def without_drift(jump: Floats, before: Floats, after: Floats) -> Floats:
    """Size of each jump, less the smaller of the same differences one window earlier and later where both
    have its direction: a slope has the same difference everywhere, a step only where it is. NaN: there is
    none.
    """
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    way = np.sign(jump)
    drift = np.nan_to_num(np.minimum(before * way, after * way))
    out: Floats = np.maximum(0.0, np.abs(jump) - np.maximum(0.0, drift))
    return out
