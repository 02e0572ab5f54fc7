"""After how long what a study started on another machine ends, when nobody comes back to end it."""

from __future__ import annotations

from typing import Final

from fathometer.study.model import Study
from fathometer.study.plan import PlannedRun

MARGIN_NS: Final = 3_600_000_000_000
"""An hour: how long after its time something may linger on another's machine."""
_SLOWEST_NS: Final = 1_000_000_000
"""A round trip of a counted ping-pong, whose pace nobody knows before; a slower path's run is cut short."""


def deadline_ns(run: PlannedRun) -> int:
    """A probe's time: its own, and the margin."""
    probe = run.probe
    if probe.interval_ns is None and probe.count is not None:
        return probe.count * _SLOWEST_NS + MARGIN_NS
    return run.estimate_ns + MARGIN_NS


def round_deadline_ns(study: Study, runs: tuple[PlannedRun, ...]) -> int:
    """The longest round's time: that of its probes, one after another, or beside each other."""
    together = max if study.order == "side-by-side" else sum
    return max(
        together(deadline_ns(r) for r in runs if r.round == number) for number in {r.round for r in runs}
    )
