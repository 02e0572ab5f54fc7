"""What a watcher sees: frozen values. Times are ns since the Unix epoch; None means not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fathometer.study.live.happenings import Happening
from fathometer.study.outline import title_of

RowState = Literal["waiting", "running", "stalled", "finished", "failed", "interrupted"]
StudyState = Literal["running", "finished", "interrupted", "gone"]
"""`gone`: its runner ended without a word, as by `kill -9`; its next `study run` goes on."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """What is measured again and again: a scenario with one probe and one size."""

    directory: str
    state: RowState
    """`failed`: its latest run failed; `stalled`: a stall is open."""
    done: int
    """Runs that are finished."""
    of: int | None
    """Runs in the plan."""
    failed: int
    """Runs that failed since the study was last begun or resumed."""
    within: float | None
    """How far its run now is, 0 to 1; None: no run now, or nothing to tell it by."""
    count: int
    """Answered samples behind `p50_ns` and `p99_ns`: of finished runs and of the one now, without warm-up."""
    unanswered: int
    """Samples of the same runs that no echo came to."""
    last_ns: int | None
    """The round trip of the sample that was sent last, of those that were answered."""
    p50_ns: int | None
    """Of the round trips so far; None where `count` cannot support it, as in reports."""
    p99_ns: int | None
    happened: Happening | None
    """The latest, but for begins and ends of runs."""
    short_pauses: int
    """Pauses of either host that are too short to be told (`SHORT_PAUSE_NS`)."""
    longest_short_ns: int
    """The longest of them; 0: there was none."""

    @property
    def title(self) -> str:
        """Scenario, probe and size, as far as the study has several."""
        return title_of(self.directory)


@dataclass(frozen=True, slots=True)
class Board:
    """A study at one moment."""

    study: str
    state: StudyState
    rows: tuple[BoardRow, ...]
    """In the order of the study file."""
    happenings: tuple[Happening, ...]
    """The latest, oldest first."""
    done: int
    of: int
    failed: int
    share: float
    """Of the study, 0 to 1, runs half-way counted by half."""
    began_ns: int | None
    ended_ns: int | None
    """None while it runs."""
    left_ns: int | None
    """About how long it will yet take; None: it does not run, or nobody knows."""
    hours: bool
    """Its rounds wait for hours or weekdays, and `left_ns` does not count that."""
