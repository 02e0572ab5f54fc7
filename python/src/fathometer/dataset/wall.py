"""Lengths between times of a wall clock that was set, taken from the monotonic clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fathometer.dataset.model import Event


@dataclass(frozen=True, slots=True)
class WallStretch:
    """Wall-clock times between two steps of the clock."""

    from_ns: float
    to_ns: float
    set_ns: int
    """Distance by which the clock had been set by then."""


def stretches(events: Sequence[Event]) -> tuple[WallStretch, ...]:
    """The wall-clock times of a recording, cut at the steps of its clock, in order."""
    steps = [
        (e.at_ns, step)
        for e in sorted(events, key=lambda e: e.mono_ns or 0)
        if e.kind == "clock.stepped" and isinstance(step := e.fields.get("step_ns"), int)
    ]
    begins = [float("-inf"), *(float(at) for at, _ in steps)]
    ends = [*(float(at - step) for at, step in steps), float("inf")]
    sets = accumulate((step for _, step in steps), initial=0)
    return tuple(WallStretch(*row) for row in zip(begins, ends, sets, strict=True))


def elapsed_ns(passed: Sequence[WallStretch], from_ns: int, to_ns: int) -> int:
    """The time that passed between two times of the wall clock, the second of which was later. A clock that
    is set back shows the same times again. If several lengths are possible, this is the shortest.
    """
    every = [
        (to_ns - end.set_ns) - (from_ns - begin.set_ns)
        for n, begin in enumerate(passed)
        if begin.from_ns <= from_ns <= begin.to_ns
        for end in passed[n:]
        if end.from_ns <= to_ns <= end.to_ns
    ]
    return min((ns for ns in every if ns >= 0), default=max(to_ns - from_ns, 0))


def lasted_ns(events: Sequence[Event]) -> int:
    """Time from the first event to the last, by the monotonic clock."""
    told = [e.mono_ns for e in events if e.mono_ns is not None]
    return max(told) - min(told) if told else 0
