"""What statistics answer with: frozen values that carry their count and their doubts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

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


class DoubtCode(StrEnum):
    """Why a figure has no interval, or one that may not hold. Machines read the code, people the words that
    `findings.doubts` makes of it.
    """

    NO_SAMPLES = "no-samples"
    NO_RUNS = "no-runs"
    UNSUPPORTED = "unsupported"
    """So few samples cannot bound this quantile (Wilks): it is not shown."""
    CORRELATED_UNSUPPORTED = "correlated-unsupported"
    """Correlated as they are, the samples are worth too few independent ones for this quantile: not shown."""
    FEW_SAMPLES = "few-samples"
    """Too few samples to cut into blocks: a figure without an interval."""
    FEW_BLOCKS = "few-blocks"
    """Too few independent blocks to compare."""
    FEW_BURSTS = "few-bursts"
    """Few bursts were seen: the interval may be too narrow."""
    CORRELATED_BLOCKS = "correlated-blocks"
    """Even the longest blocks correlate: the interval may be too narrow."""
    FEW_RUNS = "few-runs"
    """Fewer runs than the rule asks for."""
    TIED = "tied"
    """The quantile lies between a few values that many samples share: it is one of them, and the data cannot
    say which."""
    HEAVY_TAIL = "heavy-tail"
    """A few of the largest samples decide the figure, or its interval ends at the largest one seen."""
    CONNECTIONS_DIFFER = "connections-differ"
    """Connections differ by more than chance, so the interval is computed over connections, not samples."""
    NOT_POSITIVE = "not-positive"
    """A ratio with a round trip of zero says nothing."""


NOT_SHOWN = frozenset(
    {
        DoubtCode.NO_SAMPLES,
        DoubtCode.NO_RUNS,
        DoubtCode.UNSUPPORTED,
        DoubtCode.CORRELATED_UNSUPPORTED,
    }
)
"""Doubts whose figure is not shown at all (DESIGN.md 4)."""


TOO_NARROW = frozenset({DoubtCode.FEW_BURSTS, DoubtCode.CORRELATED_BLOCKS, DoubtCode.HEAVY_TAIL})
"""Doubts whose interval may be too narrow."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A doubt as a code and its numbers."""

    code: DoubtCode
    count: int = 0
    """How many there were: samples, blocks, runs, values; what the code is about."""
    worth: float | None = None
    """Independent samples that they are worth, or samples in a block."""
    needed: int | None = None
    """How many are needed."""
    quantile: float | None = None
    """Which quantile it is about."""


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
    doubt: Doubt | None = None

    @property
    def shown(self) -> bool:
        """Whether the count supports the figure; one that it cannot support is not shown (DESIGN.md 4)."""
        hidden = self.interval is None and self.doubt is not None and self.doubt.code in NOT_SHOWN
        return not math.isnan(self.value) and not hidden
