"""What bounds a run on another machine: after how long it ends when nobody comes back to end it, and how
large its recording can be.
"""

from __future__ import annotations

from typing import Final

from fathometer.study.limit import USUAL_MOST, Limit
from fathometer.study.model import Study
from fathometer.study.plan import PlannedRun
from fathometer.study.policy import Policy
from fathometer.study.query import Query

MARGIN_NS: Final = 3_600_000_000_000
"""An hour: how long after its time something may linger on another's machine."""
_SLOWEST_NS: Final = 1_000_000_000
"""A round trip of a counted ping-pong, whose pace nobody knows before; a slower path's run is cut short."""
_BASE_BYTES: Final = 64 << 20
"""What a recording may have beside its samples: events, and what is written ahead."""
_SAMPLE_BYTES: Final = 512
"""What a sample takes at most, in a segment that is not compressed yet and in the one that replaces it."""
_REQUEST_BYTES: Final = 8_192
"""What a request takes at most: ten tries or so, each with a row, an event and perhaps a connection."""
_ANEW: Final = 5
"""How often a search may begin, where something else than a limit ends its connections (docs/limits.md)."""
_SEARCHED_BYTES: Final = 8_192
"""What a connection of a search takes at most: it has two events or three."""
_FASTEST_PER_S: Final = 200_000
"""Round trips a second of a connection whose path sets the pace: more than twice what loopback has."""


def deadline_ns(run: PlannedRun) -> int:
    """A probe's time: its own, and the margin."""
    probe = run.probe
    if isinstance(probe, Limit):
        return _ANEW * run.estimate_ns + MARGIN_NS
    if isinstance(probe, Query):
        return probe.slowest_ns + MARGIN_NS
    if probe.interval_ns is None and probe.count is not None:
        return probe.count * _SLOWEST_NS + MARGIN_NS
    return run.estimate_ns + MARGIN_NS


def round_deadline_ns(study: Study, runs: tuple[PlannedRun, ...]) -> int:
    """The longest round's time: that of its probes, one after another, or beside each other."""
    together = max if study.order == "side-by-side" else sum
    return max(
        together(deadline_ns(r) for r in runs if r.round == number) for number in {r.round for r in runs}
    )


def _most_queries(query: Query) -> int:
    """For how many queries there is time, where they are not counted: each is a round trip at the least."""
    if query.for_ns is None:
        return query.in_all
    if query.every_ns is not None:
        return (query.for_ns // query.every_ns + 1) * query.connections
    return round(query.for_ns / 1e9 * _FASTEST_PER_S) * query.connections


def most_bytes(run: PlannedRun) -> int:
    """What a run's recording can have at most: who says that it has more says what is not so."""
    probe = run.probe
    if isinstance(probe, Limit):
        return _BASE_BYTES + _ANEW * (probe.max_connections or USUAL_MOST) * _SEARCHED_BYTES
    if isinstance(probe, Query):
        # Set-ups of connections beside them have two events and a row each, two a second.
        return _BASE_BYTES + (_most_queries(probe) + probe.slowest_ns // 100_000_000) * _SAMPLE_BYTES
    seconds = (probe.for_ns or 0) / 1e9
    samples = probe.count or round(seconds * (probe.per_second or _FASTEST_PER_S))
    if isinstance(probe, Policy):
        return _BASE_BYTES + samples * _REQUEST_BYTES
    if probe.fills:
        return _BASE_BYTES  # An event a second and stream.
    return _BASE_BYTES + samples * probe.connections * _SAMPLE_BYTES
