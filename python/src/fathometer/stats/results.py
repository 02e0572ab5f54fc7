"""What statistics answer with: frozen values that carry their count and their doubts."""

from __future__ import annotations

from dataclasses import dataclass

LEVEL = 0.95
"""Confidence of every interval, unless asked otherwise."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, ends included, in the unit of what it is about."""

    low: float
    high: float
    level: float = LEVEL

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure of a series, with what it rests on.

    `interval` is None where the data cannot give one; `doubt` then says why. A figure whose interval exists
    but is known to be shaky (blocks that are still correlated, too few of them) has both.
    """

    value: float
    interval: Interval | None
    count: int
    """Samples behind the figure."""
    blocks: int
    """Blocks (or runs) that the interval's spread was taken from; 0 where there is no interval."""
    doubt: str | None = None
