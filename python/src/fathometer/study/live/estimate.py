"""How long a study will yet take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathometer.study.outline import Outline


@dataclass(frozen=True, slots=True)
class Pace:
    """Of what is measured again and again."""

    left: int
    """Runs that have not ended."""
    run_ns: int
    """How long one takes: as its finished runs took, else as the plan thinks."""
    gone_ns: int
    """How much of a run has gone by, where one runs now; never more than `run_ns`."""


def left_ns(outline: Outline, paces: Sequence[Pace]) -> int | None:
    """About how long the runs that are left take, with the waits of `every` and without those for hours;
    None: the journal has no plan.
    """
    if not outline.planned:
        return None
    each = [p.left * p.run_ns - p.gone_ns for p in paces if p.left]
    if not each:
        return 0
    measuring = max(each) if outline.side_by_side else sum(each)
    of_round = [p.run_ns for p in paces if p.left]
    took = max(of_round) if outline.side_by_side else sum(of_round)
    rounds = max(p.left for p in paces)
    return max(0, measuring) + (rounds - 1) * max(0, (outline.every_ns or 0) - took)
