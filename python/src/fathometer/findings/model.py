"""What an analysis of recordings says: scenarios with their figures, comparisons, changes, findings, advice.

Durations are ns; moments are ns since the Unix epoch, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

from fathometer.dataset.histogram import Histogram
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import Selection
from fathometer.dataset.summaries import OpenedSummary
from fathometer.errors import FathometerError
from fathometer.findings.consistency.model import Remark
from fathometer.stats.calendar import Calendar
from fathometer.stats.changes import Change, Undecided
from fathometer.stats.compare import Comparison
from fathometer.stats.first import First
from fathometer.stats.results import Estimate
from fathometer.stats.runs import RunComparison, WorstOfRuns
from fathometer.stats.segments import Ending
from fathometer.stats.series import Blocks
from fathometer.stats.sweep import Sweep

Confidence = Literal["high", "medium", "low"]
FIGURES = ("mean", "p50", "p95", "p99", "p99_9", "p99_99")
"""The figures of a scenario, by name."""


@dataclass(frozen=True, slots=True)
class Key:
    """What may be pooled: one label at one pacing, size, mode and load (DESIGN.md 4: never across them)."""

    label: str
    mode: str | None
    size: int | None
    interval_ns: int | None
    """None: ping-pong, or not known."""
    under_load: bool = False
    """Whether these are the samples that were sent while the path was loaded on purpose."""

    @property
    def name(self) -> str:
        """The label, and whether it is under load."""
        return f"{self.label} under load" if self.under_load else self.label

    @property
    def pacing(self) -> str:
        """In words: `tcp, 64 bytes, one every 1 s`."""
        parts = [self.mode or "unknown mode"]
        if self.size is not None:
            parts.append(f"{self.size:,} bytes")
        if self.interval_ns:
            parts.append(f"one every {_interval(self.interval_ns)}")
        return ", ".join(parts)


def _interval(ns: int) -> str:
    """`1 s`, `2 ms`, `250 us`, without digits that nobody asked for."""
    for scale, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if ns >= scale:
            return f"{ns / scale:g} {unit}"
    return f"{ns} ns"


@dataclass(frozen=True, slots=True)
class Run:
    """One recording as one run of its scenario."""

    recording: Recording
    selection: Selection
    """Which of its samples: those of one size, where it swept several; those under load, or the others."""
    answered: int
    figures_ns: dict[str, float]
    """mean, p50, p95, p99; those that its count supports."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """All recordings of one key."""

    name: str
    """Unique in the analysis: the label, with the pacing where labels alone are not."""
    key: Key
    runs: tuple[Run, ...]
    rtt: Histogram
    """Of all answered samples after warm-up."""
    latency: Histogram
    """From due instead of sent."""
    sent: int
    unanswered: int
    late: int
    estimates: dict[str, Estimate]
    """By the names of `FIGURES`, ns, from blocks of all runs together."""
    of_runs: dict[str, Estimate]
    """The median of the runs' figures, where there are at least six."""
    worst: WorstOfRuns | None
    """Of the runs' p95, where there are at least six."""
    blocks: Blocks
    calendar: Calendar | None
    first: First | None


@dataclass(frozen=True, slots=True)
class Versus:
    """Scenario B against scenario A."""

    a: str
    b: str
    blocks: Comparison
    """By blocks of all samples."""
    runs: dict[str, RunComparison]
    """By runs, where both have at least six: metric -> result. Where present, its verdict counts."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A change point of one recording."""

    recording: Recording
    scenario: str
    change: Change


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a connection, with its last segments."""

    recording: Recording
    scenario: str
    connection: int
    at_ns: int
    ending: Ending


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement with its evidence."""

    kind: str
    at_ns: int | None
    """None: about the whole."""
    statement: str
    evidence: tuple[str, ...]
    confidence: Confidence
    scenario: str | None = None
    recording: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do or to set."""

    topic: str
    statement: str
    evidence: tuple[str, ...]
    confidence: Confidence


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Everything a report shows."""

    recordings: tuple[Recording, ...]
    summaries: tuple[OpenedSummary, ...]
    """Other tools' figures without samples."""
    zone: tzinfo
    """Where the hours of the calendar and of charts are read; statements are in UTC."""
    refused: tuple[FathometerError, ...]
    """Recordings that could not be opened."""
    scenarios: tuple[Scenario, ...]
    comparisons: tuple[Versus, ...]
    changes: tuple[Moved, ...]
    undecided: tuple[tuple[str, Undecided], ...]
    """Per scenario: what could not be decided about changes of the tail."""
    ends: tuple[Ended, ...]
    sweep: Sweep | None
    findings: tuple[Finding, ...]
    advice: tuple[Advice, ...]
    consistency: tuple[Remark, ...]

    def scenario(self, name: str) -> Scenario:
        """By name."""
        return next(s for s in self.scenarios if s.name == name)
