"""What an analysis of recordings says: scenarios with their figures, comparisons, changes, findings, advice.

Durations are ns; moments are ns since the Unix epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, Literal

from fathometer.counts import count
from fathometer.dataset.histogram import Histogram
from fathometer.dataset.model import MAKING
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import Selection, Silence
from fathometer.dataset.summaries import OpenedSummary
from fathometer.errors import FathometerError
from fathometer.findings.consistency.model import Remark
from fathometer.findings.finding import Advice, Finding, Incident
from fathometer.findings.growth import Growth
from fathometer.findings.policies import Application, PolicyComparison
from fathometer.stats.calendar import Calendar
from fathometer.stats.changes import Change, Undecided
from fathometer.stats.family import MATTERS, Difference, Metric
from fathometer.stats.first import First
from fathometer.stats.results import Estimate
from fathometer.stats.runs import WorstOfRuns
from fathometer.stats.segments import Ending
from fathometer.stats.series import BlockCounts
from fathometer.stats.sweep import Sweep

FIGURES = ("mean", "p50", "p95", "p99", "p99_9", "p99_99")
"""The figures of a scenario, by name."""


@dataclass(frozen=True, slots=True)
class Between:
    """Between which ends something was measured, and what else the user said of it. Labels are words, and two
    hosts may use the same: recordings that differ in any of this are never pooled.
    """

    start: str | None = None
    """`from`, in the user's words."""
    host: str | None = None
    """Which host the probe ran on, where the user did not say from where; None: said, or not known."""
    to: str | None = None
    via: str | None = None
    target: str | None = None
    """What the probe was to talk to; None: not known."""
    tags: tuple[tuple[str, str], ...] = ()
    """The user's own, by name."""
    marks: tuple[str, ...] = ()
    """What the figures may not be taken for."""


@dataclass(frozen=True, slots=True)
class Key:
    """What may be pooled: one label between the same ends at one pacing, size, mode, silence and load
    (DESIGN.md 4: never across them).
    """

    label: str
    mode: str | None
    size: int | None
    interval_ns: int | None
    """None: ping-pong, or not known."""
    under_load: bool = False
    """Whether these are the samples that were sent while the path was loaded on purpose."""
    silence: Silence | None = None
    """Of a run with silences: whether these are the first after those of one length, or the warm ones that
    followed them.
    """
    ends: Between = Between()

    @property
    def name(self) -> str:
        """The label, which samples around which silence, and whether it is under load."""
        which = ""
        if self.silence:
            which = f", {'first' if self.silence.first else 'warm'} after {_interval(self.silence.gap_ns)}"
        return f"{self.label}{which}{' under load' if self.under_load else ''}"

    @property
    def pacing(self) -> str:
        """In words: `tcp, 64 bytes, one every 1 s`."""
        parts = [mode_in_words(self.mode)]
        if self.size:
            parts.append(count(self.size, "byte"))
        if self.interval_ns:
            parts.append(f"one every {_interval(self.interval_ns)}")
        return ", ".join(parts)


MODES = {
    "connect": "TCP connections made",
    "connect-tls": "TCP connections made, with TLS",
    "stamp": "STAMP",
    "stamp-ping-pong": "STAMP, ping-pong",
    "tcp-idle-gap": "tcp, with silences",
    "udp-idle-gap": "udp, with silences",
    "tcp-throughput": "TCP throughput",
    "tcp-client": "an application under a policy",
    "tcp-idle-limit": "search for the idle limit",
    "tcp-age-limit": "search for the age limit",
    "tcp-rate-ceiling": "search for the rate ceiling",
}
"""Modes whose names say little, in words; the others go by their names."""


SearchedFor = Literal["idle", "age", "rate"]
SEARCHES: Final[Mapping[str, SearchedFor]] = {
    "tcp-idle-limit": "idle",
    "tcp-age-limit": "age",
    "tcp-rate-ceiling": "rate",
}
"""Modes of searches for limits (docs/limits.md), and what each looks for."""


def is_making(mode: str | None) -> bool:
    """Whether each sample is a connection that was made and closed, and no echo."""
    return mode in MAKING


def is_search(mode: str | None) -> bool:
    """Whether a search for a limit was recorded: it has no samples."""
    return mode in SEARCHES


def mode_in_words(mode: str | None) -> str:
    """How a reader calls a mode."""
    return MODES.get(mode, mode) if mode else "unknown mode"


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
    sent: int
    """After warm-up, as all counts here, and without what was lost in this host: answered (`rtt.count`),
    unanswered and corrupt add up to it.
    """
    unsent: int
    """Due and not sent, as nothing could carry them (`Recording.unsent`). Of a recording that is several
    scenarios (sizes, load, silences) each has its share by samples: events do not say of which they were."""
    unanswered: int
    """No echo came."""
    corrupt: int
    """An echo came, and was not what had been sent."""
    late: int
    estimates: dict[str, Estimate]
    """By the names of `FIGURES`, ns, from blocks of all runs together."""
    of_runs: dict[str, Estimate]
    """The median of the runs' figures, where there are at least six."""
    worst: WorstOfRuns | None
    """Of the runs' p95, where there are at least six."""
    blocks: BlockCounts
    calendar: Calendar | None
    first: First | None
    worth: float = 1.0
    """Independent samples that one is worth where losses are counted: they come in bursts."""
    connections: int = 1
    """That carried its samples."""
    units: BlockCounts | None = None
    """One row per connection, if connections of a run differ by more than chance; None: they do not."""

    @property
    def lost(self) -> int:
        """Sent, and without an intact echo."""
        return self.unanswered + self.corrupt

    @property
    def due(self) -> int:
        """Samples that somebody who uses the path would have sent: availability is of these."""
        return self.sent + self.unsent

    @property
    def availability(self) -> float | None:
        """The share of what was due that was answered; None: nothing was due."""
        return 1 - (self.lost + self.unsent) / self.due if self.due else None

    def figure(self, name: str) -> Estimate:
        """The one figure of this name that tables, charts and advice show: the median of runs where there are
        enough of them, that of all samples otherwise.
        """
        return self.of_runs.get(name) or self.estimates[name]


@dataclass(frozen=True, slots=True)
class Versus:
    """Scenario B against scenario A: the one verdict that tables, charts, advice and sentences use."""

    a: str
    b: str
    differences: tuple[Difference, ...]
    """One a metric, by runs where both have at least six (`Difference.basis`), by blocks otherwise, and by
    connections where those of one differ."""
    pairing: Literal["paired in time", "unpaired"]
    """Of the blocks."""
    blocks: tuple[int, int]
    """Independent blocks of A and of B."""
    superiority: float
    """Chance that a sample of B is larger than one of A, ties half."""

    def of(self, metric: Metric) -> Difference:
        """The difference in one metric."""
        return next(d for d in self.differences if d.metric == metric)

    @property
    def headline(self) -> Difference:
        """The one that a sentence tells: the median's, unless others alone were asked about."""
        return next((d for d in self.differences if d.metric == "p50"), self.differences[0])


@dataclass(frozen=True, slots=True)
class Cost:
    """What the first sample after a silence costs, against the warm ones that follow it."""

    first: Scenario
    warm: Scenario
    gap_ns: int
    median: Growth
    tail: Growth
    """Of p95."""


@dataclass(frozen=True, slots=True)
class OneWay:
    """What each way took, in the median, by the clocks of both ends."""

    recording: Recording
    scenario: str
    forward_ns: int
    """0 also stands for less: the clocks differ by more than the way takes."""
    backward_ns: int
    error_ns: int
    """Each of the two is at most so far from the truth; their sum is not touched by it."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the making of connections with TLS consists of, ns, by the names `p50`, `p95`, `p99`."""

    scenario: str
    connect: dict[str, Estimate]
    """SYN to established."""
    tls: dict[str, Estimate]
    """From there to the end of the handshake."""


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
    silences: tuple[Cost, ...]
    """Runs with silences: what each costs."""
    one_ways: tuple[OneWay, ...]
    """Of recordings whose clocks' difference is bounded."""
    setups: tuple[Setup, ...]
    findings: tuple[Finding, ...]
    """In order of time; those about the whole at the end."""
    incidents: tuple[Incident, ...]
    """What happened: each finding that is an event is a part of exactly one."""
    advice: tuple[Advice, ...]
    consistency: tuple[Remark, ...]
    applications: tuple[Application, ...] = ()
    """Recordings of applications under policies. They are in no scenario: their rows are no samples."""
    policies: tuple[PolicyComparison, ...] = ()
    """Of each path over which several policies were recorded."""
    matters: float = MATTERS
    """A difference below this share is none that matters."""

    @property
    def sampled(self) -> tuple[Recording, ...]:
        """The recordings that have samples of a path, or were to have."""
        return tuple(r for r in self.recordings if not r.manifest.is_client)

    def scenario(self, name: str) -> Scenario:
        """By name."""
        return next(s for s in self.scenarios if s.name == name)
