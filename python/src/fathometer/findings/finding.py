"""What happened, whom it concerns, and what to do about it: codes, places, moments and quantities. No
sentence is kept here and none is read; `findings.render` makes them, last.

A finding is made by the module that saw it (`Finding(kind, ...)`), gets its `id` and is folded into an
incident by `findings.incidents`, and is put into words by `render.statement` and `render.evidence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from fathometer.stats.ages import Ages
from fathometer.stats.calendar import Rhythm
from fathometer.stats.coincidence import Rivals
from fathometer.stats.first import First
from fathometer.stats.lifetimes import Refresh
from fathometer.stats.results import Doubt, Interval
from fathometer.stats.segments import Ending

Confidence = Literal["high", "medium", "low"]
SURENESS: Mapping[Confidence, int] = {"high": 2, "medium": 1, "low": 0}
"""Confidences in their order."""
Unit = Literal["ns", "times", "share", "samples", "connections", "round trips", "bytes", "bit/s", "count", ""]
"""Of a quantity: `share` is of 1, `times` is a ratio, "" a bare number."""


Result = Rhythm | Rivals | Ages | First | Ending | Refresh
"""Statistics whose numbers belong together."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something happened: a path, a recording of it, a connection in that."""

    path: str
    """The scenario's name."""
    recording: str = ""
    """The recording's id; empty: of all of the path's."""
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, and how far it may be off."""

    value: float
    unit: Unit
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval; None: there is none."""


def ns(value: float, interval: Interval | None = None) -> Quantity:
    """A duration."""
    return _with(value, "ns", interval)


def times(value: float, interval: Interval | None = None) -> Quantity:
    """A ratio."""
    return _with(value, "times", interval)


def number(value: float, unit: Unit = "count") -> Quantity:
    """How many."""
    return Quantity(value, unit)


def _with(value: float, unit: Unit, interval: Interval | None) -> Quantity:
    return Quantity(value, unit) if interval is None else Quantity(value, unit, interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence."""

    code: str
    """What it says; `render` has the words."""
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    """Names and codes: a host, a verdict, the words of a recording."""
    at_ns: int | None = None
    id: str = ""
    """Where it stands, as `RECORDING/pause/3`: the fourth pause of that recording; empty: it was computed."""
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen."""

    kind: str
    where: tuple[Place, ...] = ()
    """Empty: about the whole."""
    from_ns: int | None = None
    """None: it is about the whole time, and no event."""
    to_ns: int | None = None
    """None: it is a moment, or has not ended."""
    cause: str | None = None
    """A code: a verdict of the recording, or what `findings` concluded; None: there is nothing to explain."""
    confidence: Confidence = "high"
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    result: Result | None = None
    doubts: tuple[str | Doubt, ...] = ()
    """Codes of what makes it less sure."""
    uncertain_ns: int = 0
    """How far `from_ns` may be from the truth: a sampling interval, a detection time."""
    id: str = ""
    """Unique in an analysis: `f1`, in order of time."""

    @property
    def is_event(self) -> bool:
        """Whether it happened at a time, and so belongs to an incident."""
        return self.from_ns is not None

    @property
    def paths(self) -> tuple[str, ...]:
        """The names of the scenarios, each once."""
        return tuple(dict.fromkeys(p.path for p in self.where))

    @property
    def scenario(self) -> str | None:
        """The path, where it is one."""
        return self.paths[0] if len(self.paths) == 1 else None

    @property
    def recording(self) -> str | None:
        """The recording, where it is one."""
        ids = {p.recording for p in self.where if p.recording}
        return ids.pop() if len(ids) == 1 else None

    @property
    def connection(self) -> int | None:
        """The connection, where it is one."""
        return self.where[0].connection if len(self.where) == 1 else None


@dataclass(frozen=True, slots=True)
class Toll:
    """What an incident cost those whom it concerned."""

    lost: int = 0
    """Samples that were never answered."""
    unsent: int = 0
    """Samples that were due and not sent."""
    silent_ns: int = 0
    """The longest time that a connection had no answers."""
    added_ns: float = 0.0
    """By how much round trips were longer, where it moved their level."""
    added_for_ns: int = 0
    """How long they were."""
    connections: int = 0
    """Connections that ended by it."""


STILL: Final = frozenset({"stall", "pause", "death"})
"""Kinds of findings that are a silence."""
SILENT: Final = frozenset({"outage", "standstill", "stall", "flow loss"})
"""Kinds of incidents that are a silence."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happened, with everything that it explains."""

    id: str
    kind: str
    """`migration`, `pause then loss`, `host pause`, `stall`, `flow loss`, `outage`, `shift`, ..."""
    from_ns: int
    to_ns: int
    where: tuple[Place, ...]
    cause: str | None
    confidence: Confidence
    toll: Toll
    parts: tuple[Finding, ...]
    """In order of time; each finding that is an event is a part of exactly one incident."""
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[str, ...] = ()
    """Codes of what to change."""

    @property
    def lasted_ns(self) -> int:
        """For how long: where it stopped answers, as long as there were none on a whole path or connection,
        or from the first of several paths that fell silent to the last; else from its first part to its
        last. What follows an outage, as levels that settle, is no part of it.
        """
        if self.kind not in SILENT or not self.toll.silent_ns:
            return self.to_ns - self.from_ns
        # On several paths it may have begun, and ended, at different times.
        still = [f for f in self.parts if f.kind in STILL] if len(self.paths) > 1 else []
        began_ns = min((f.from_ns or 0 for f in still), default=0)
        return max(self.toll.silent_ns, max((f.to_ns or f.from_ns or 0 for f in still), default=0) - began_ns)

    def of_path(self, path: str) -> tuple[int, int]:
        """From when to when it was seen on one path of it, ns: the silence, where it was one."""
        mine = [f for f in self.parts if path in f.paths]
        mine = [f for f in mine if f.kind != "coincidence"] or mine
        mine = [f for f in mine if f.kind in STILL] or mine
        return min(f.from_ns or 0 for f in mine), max(f.to_ns or f.from_ns or 0 for f in mine)

    @property
    def paths(self) -> tuple[str, ...]:
        """The names of the scenarios whom it concerned, each once."""
        return tuple(dict.fromkeys(p.path for p in self.where))

    @property
    def connections(self) -> int:
        """How many connections it concerned."""
        return len({(p.recording, p.connection) for p in self.where if p.connection is not None})


SettingUnit = Literal["s", "ms", "go", "duration", "switch", "count", "text"]
"""How a file has a value: a number of seconds or milliseconds, a duration as Go or as we write it, a switch,
a number of things, or words."""
TIMES: Final = frozenset(("s", "ms", "go", "duration"))
"""Those that are times."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What to write somewhere."""

    name: str
    value: int | str
    """Of a time ns, of a switch 0 or 1."""
    unit: SettingUnit


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of one library, or of the kernel, that go together."""

    library: str
    """A code; `render.snippets` has its name and how its files are written."""
    settings: tuple[Setting, ...]
    """Empty: its defaults do."""
    default_by: str = ""
    """Which default does."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change, and what that saves."""

    topic: str
    paths: tuple[str, ...] = ()
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    saves: Quantity | None = None
    """What the change is expected to save; None: it cannot be told from these recordings."""
    facts: tuple[Fact, ...] = ()
    evidence: tuple[str, ...] = ()
    """Ids of findings, incidents and figures that it rests on."""
    confidence: Confidence = "high"
    actionable: bool = True
    """False: it describes a path, and is no change to make."""
    recipes: tuple[Recipe, ...] = ()
    """Where the value is set, library by library."""
