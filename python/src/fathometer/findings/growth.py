"""One part of a recording against another that differs in one thing done on purpose: load, silence."""

from __future__ import annotations

from fathometer.findings.words import duration
from fathometer.stats.family import Difference, Metric
from fathometer.stats.results import Interval

TOLD: tuple[Metric, ...] = ("p50", "p99")
"""What is told of a growth."""
_NAMES = {"p50": "median"}


class Growth:
    """One figure against what it is without what was done, whichever of them the comparison has first."""

    def __init__(self, difference: Difference, turned: bool) -> None:
        self.difference = difference
        plain, changed = (difference.b, difference.a) if turned else (difference.a, difference.b)
        self.ratio = changed / plain
        self.cost = changed - plain
        self.cost_interval = _seen(difference.difference_interval, turned)
        self.decided = difference.decided
        self.grows = difference.verdict == ("faster" if turned else "slower")
        name = _NAMES.get(difference.metric, difference.metric)
        if not self.decided:
            self.said = f"whether the {name} differs cannot be decided"
            return
        change = f"from {duration(plain)} to {duration(changed)}"
        interval = difference.ratio_interval
        times = f"{self.ratio:.3g} times"
        if interval is not None:
            low, high = (1 / interval.high, 1 / interval.low) if turned else (interval.low, interval.high)
            times += f", {low:.3g} to {high:.3g}"
        shown = "" if difference.differs else f", {difference.verdict}"
        self.said = f"the {name} goes {change} ({times}{shown})"


def _seen(interval: Interval | None, turned: bool) -> Interval | None:
    if interval is None or not turned:
        return interval
    return Interval(-interval.high, -interval.low, interval.level)
