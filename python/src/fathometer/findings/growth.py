"""One part of a recording against another that differs in one thing done on purpose: load, silence."""

from __future__ import annotations

from typing import Final

from fathometer.findings.finding import Fact, Quantity, ns, times
from fathometer.stats.family import Difference, Metric
from fathometer.stats.results import Doubt, Interval

TOLD: tuple[Metric, ...] = ("p50", "p99")
"""What is told of a growth."""
NAMES: Final = {"p50": "median"}
"""How figures are called in sentences."""


class Growth:
    """One figure against what it is without what was done, whichever of them the comparison has first."""

    def __init__(self, difference: Difference, turned: bool) -> None:
        self.difference = difference
        self.plain, self.changed = (difference.b, difference.a) if turned else (difference.a, difference.b)
        # An import in whole microseconds may have a round trip of 0.
        self.ratio = self.changed / self.plain if self.plain else float("nan")
        self.cost = self.changed - self.plain
        self.cost_interval = _seen(difference.difference_interval, turned)
        self.decided = difference.decided
        self.shown = difference.differs
        self.grows = difference.verdict == ("faster" if turned else "slower")
        interval = difference.ratio_interval
        self.ratio_interval = interval
        if interval is not None and turned:
            self.ratio_interval = Interval(_inverse(interval.high), _inverse(interval.low), interval.level)

    @property
    def fact(self) -> Fact:
        """As evidence."""
        verdict = "shown" if self.shown else self.difference.verdict
        return Fact(
            "growth",
            {
                "plain": ns(self.plain),
                "changed": ns(self.changed),
                "ratio": times(self.ratio, self.ratio_interval),
            },
            {"figure": NAMES.get(self.difference.metric, self.difference.metric), "verdict": verdict},
        )

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What makes it less sure."""
        return (self.difference.doubt,) if self.difference.doubt else ()

    @property
    def added(self) -> Quantity:
        """How much longer it takes."""
        return ns(self.cost, self.cost_interval)


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else float("inf")


def _seen(interval: Interval | None, turned: bool) -> Interval | None:
    if interval is None or not turned:
        return interval
    return Interval(-interval.high, -interval.low, interval.level)
