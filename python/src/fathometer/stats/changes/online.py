"""Watching a running probe: Page's cumulative sums, and a second opinion before anything is said.

E. S. Page (1954), "Continuous inspection schemes", Biometrika 41. Two one-sided sums of residuals, winsorised
so that one stall is not an alarm. Round trips are correlated, which makes any alarm threshold a guess;
therefore an alarm only asks the offline search to look at what is remembered, and only what that confirms is
reported. A confirmed change restarts the baseline behind it.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.consolidate import MAD_TO_DEVIATION
from fathometer.stats.changes.levels import level_changes, noise_floor
from fathometer.stats.changes.model import Change, Settings, confidence_of

BASELINE = 64
"""Answered samples that a baseline is learnt from; the error of its median is then 0.16 deviations, well
under the slack."""
REMEMBERED = 1_024
"""Answered samples kept for the second opinion: its time is bounded (tens of milliseconds), and a change that
was not confirmed within them is a drift."""
SLACK = 0.5
"""k of Page's sums, in deviations: half of the smallest shift to be noticed at once (Page's own advice)."""
ALARM = 10.0
"""h of Page's sums. With k = 0.5 independent normal residuals reach it once in 220,000 samples a side
(Siegmund 1985, eq. 2.57); correlation makes that far more often, which costs a second opinion, no more."""
WINSORISED_AT = 3.0
"""Deviations beyond which a residual counts no more: the alarm needs at least four samples."""
SECOND_OPINIONS = (0, 8, 32, 128)
"""Answered samples after an alarm at which the offline search looks (again): a change is only confirmed once
it lasted. After the last the alarm is dropped and the baseline learnt anew."""

CERTAIN = 1.5
"""Times every threshold that the second opinion asks (confidence 2/3): it looks again and again, at few
samples, where the offline search looks once at all."""


def correlation_factor(known: NDArray[np.float64], middle: float, deviation: float) -> float:
    """By how much sums of correlated residuals spread more than of independent ones: sqrt((1 + r) / (1 - r))
    for an AR(1) process with correlation r of neighbours, here at most 0.95 and of winsorised residuals.
    """
    if deviation <= 0:
        return 1.0
    residual = np.clip((known - middle) / deviation, -WINSORISED_AT, WINSORISED_AT)
    residual -= residual.mean()
    power = float(residual @ residual)
    r = float(residual[1:] @ residual[:-1]) / power if power > 0 else 0.0
    r = min(0.95, max(0.0, r))
    return math.sqrt((1 + r) / (1 - r))


class OnlineDetector:
    """Feeds on one sample at a time, in order; reports each change once, when it is confirmed."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._pushed = 0
        self._values: deque[float] = deque(maxlen=REMEMBERED)
        self._where: deque[tuple[int, int | None]] = deque(maxlen=REMEMBERED)
        self._reported = 0
        self._relearn()

    def _relearn(self) -> None:
        self._baseline: list[float] = []
        self._middle = self._deviation = math.nan
        self._clear()

    def _clear(self) -> None:
        self._high = self._low = 0.0
        self._since_alarm: int | None = None

    def push(self, rtt_ns: float | None, at_ns: int | None = None) -> Change | None:
        """Takes a sample (None or NaN where never answered) and returns a change that it confirms, whose
        index counts pushed samples from 0. The change lies a few samples to a few hundred in the past.
        """
        index = self._pushed
        self._pushed += 1
        if rtt_ns is None or not math.isfinite(rtt_ns):
            return None
        value = float(rtt_ns)
        self._values.append(value)
        self._where.append((index, at_ns))
        if math.isnan(self._middle):
            self._learn(value)
            return None
        if self._since_alarm is not None:
            self._since_alarm += 1
        else:
            residual = (value - self._middle) / self._deviation
            residual = max(-WINSORISED_AT, min(WINSORISED_AT, residual))
            self._high = max(0.0, self._high + residual - SLACK)
            self._low = max(0.0, self._low - residual - SLACK)
            if max(self._high, self._low) <= ALARM:
                return None
            self._since_alarm = 0
        if self._since_alarm not in SECOND_OPINIONS:
            return None
        change = self._confirm()
        if change is None and self._since_alarm == SECOND_OPINIONS[-1]:
            self._relearn()
        return change

    def _learn(self, value: float) -> None:
        self._baseline.append(value)
        if len(self._baseline) < BASELINE:
            return
        known = np.asarray(self._baseline)
        middle = float(np.median(known))
        deviation = max(MAD_TO_DEVIATION * float(np.median(np.abs(known - middle))), noise_floor(known))
        deviation *= correlation_factor(known, middle, deviation)
        if deviation > 0:
            self._middle, self._deviation = middle, deviation
        else:
            # Perfectly constant so far: any other value is a thousand deviations away.
            self._middle, self._deviation = middle, max(abs(middle), 1.0) * 1e-6
        self._clear()

    def _confirm(self) -> Change | None:
        """The first change in memory that was not reported yet."""
        values = np.asarray(self._values)
        for place, passed, before, after in level_changes(values, self._settings):
            index, at_ns = self._where[place]
            if index <= self._reported or passed < CERTAIN:
                continue
            self._reported = index
            self._forget(place)
            return Change(index, at_ns, "level", before, after, confidence_of(passed))
        return None

    def _forget(self, place: int) -> None:
        """Starts anew from the change: what was before it belongs to another regime."""
        values, where = list(self._values)[place:], list(self._where)[place:]
        self._values.clear()
        self._where.clear()
        self._values.extend(values)
        self._where.extend(where)
        self._relearn()
        for value in values[-BASELINE:]:
            if math.isnan(self._middle):
                self._learn(value)
