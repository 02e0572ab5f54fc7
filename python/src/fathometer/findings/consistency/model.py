"""What a table of published figures says, in one form whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Verdict = Literal["impossible", "implausible", "ok"]

ORDER = ("min", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "max")
"""Statistics of one series that can only rise in this order."""
SHARES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}


@dataclass(frozen=True, slots=True)
class Remark:
    """One line of the check: a row, the law it was held against, and what came of it."""

    row: str
    law: str
    verdict: Verdict
    explanation: str


@dataclass(frozen=True, slots=True)
class StatisticsRow:
    """One row of statistics of one series, all in one unit."""

    row: str
    figures: dict[str, float]
    """By the names of `ORDER`, and `mean`, `sd`."""
    unit: str
    count: int | None = None

    def show(self, name: str) -> str:
        """A figure as people read it: `p95 3,800 us`."""
        return f"{name.replace('_', '.')} {number(self.figures[name])} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as text: the first column names the rows."""

    title: str
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Steps:
    """Figures in order, with the change of each to the one before as it was printed."""

    row: str
    values: tuple[float, ...]
    percent: tuple[float | None, ...]
    """As long as `values`; the first is None, or each that was not printed."""
    unit: str
    of: str | None = None
    """The series that these are segments of, if it is a row of the same document."""
    length: int = 100
    """Samples behind each figure."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A figure with the unit it was printed in, to be recognised elsewhere."""

    row: str
    value: float
    text: str
    """As printed: "72.9"."""
    unit: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """Figures under names that go in one direction (sizes, settings)."""

    row: str
    names: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Single figures of several configurations at the same places."""

    row: str
    rows: tuple[str, ...]
    places: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    unit: str
    dispersion: bool = False
    """Whether intervals or spreads were printed with them."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio, a difference or a percent change that was printed, with what it was computed from."""

    row: str
    kind: Literal["ratio", "difference", "percent"]
    a: float
    b: float
    """`b` compared with `a`: b / a, b - a, 100 (b / a - 1)."""
    printed: float
    step: float
    """The value of one unit in its last printed digit."""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Ends:
    """When connections ended that were opened together and sent at one pace."""

    row: str
    at: dict[str, datetime]
    age_s: dict[str, float]
    """By count and pace, for those whose count is known."""
    cadence_s: float


@dataclass(slots=True)
class Document:
    """All that a file said that can be checked."""

    summaries: list[StatisticsRow] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    printed: list[Printed] = field(default_factory=list)
    ladders: list[Ladder] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    ends: list[Ends] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """The chosen reading of each ambiguous notation, a sentence each."""

    def empty(self) -> bool:
        """Whether nothing was understood."""
        return not (self.summaries or self.steps or self.ladders or self.grids or self.claims or self.ends)


def number(value: float) -> str:
    """A figure with thousands separated and no digits that were not printed."""
    return f"{value:,.10g}" if value != int(value) or abs(value) >= 1e15 else f"{int(value):,}"
