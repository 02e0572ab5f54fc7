"""For how long a path gave no answers, over all its connections: from the last answer of any of them to the
next one, and not as long as each single connection was silent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from fathometer.dataset.recording import Recording
from fathometer.dataset.rollup import LOST
from fathometer.findings.lives import deaths, silence_before

Span = tuple[int, int]
"""From, to: ns."""


def gaps(recording: Recording) -> list[Span]:
    """The stretches around stalls and deaths in which no connection answered, in order of time. One after
    which nothing answered lasts to the end of the recording.
    """
    troubles = sorted(_troubles(recording))
    if not troubles:
        return []
    began_ns = min(c.opened_ns for c in recording.lasting if c.opened_ns is not None)
    over_ns = recording.over_ns
    edges = [*joined(_answering(recording)), (over_ns, over_ns)]
    empty: list[Span] = []
    for from_ns, to_ns in edges:
        if from_ns > began_ns:
            empty.append((began_ns, from_ns))
        began_ns = max(began_ns, to_ns)
    ended_ns = max(ended for _, ended in troubles)
    if empty and empty[-1][1] == over_ns and _last_answered(recording) > ended_ns:
        # Its samples were answered by what its events do not tell of.
        empty[-1] = (empty[-1][0], max(ended_ns, empty[-1][0]))
    # Between a connection that we closed and the next one there is nothing to tell. Of the troubles that
    # began before a stretch was over it is enough to know the latest end.
    begins = [began for began, _ in troubles]
    latest = list(accumulate((ended for _, ended in troubles), max))
    return [
        (from_ns, to_ns)
        for from_ns, to_ns in empty
        if (before := bisect_right(begins, to_ns)) and latest[before - 1] >= from_ns
    ]


def _last_answered(recording: Recording) -> int:
    """When the step began that holds the last answered sample."""
    rollup = recording.rollup
    steps = [int(c.step[c.bucket != LOST].max()) for c in rollup.cells if (c.bucket != LOST).any()]
    return max(steps, default=0) * rollup.step_ns


def _stalled(recording: Recording) -> Iterator[tuple[int | None, Span]]:
    """Stalls by connection. One that has not ended is one to the end."""
    for s in recording.stalls:
        if s.ended_ns is not None and s.duration_ns is not None:
            yield s.connection, (s.ended_ns - s.duration_ns, s.ended_ns)
        elif s.ended_ns is None:
            yield s.connection, (s.began_ns - s.threshold_ns, recording.over_ns)


def _troubles(recording: Recording) -> Iterator[Span]:
    known = {c.id for c in recording.lasting if c.opened_ns is not None}
    for c in deaths(recording):
        if c.id in known:
            closed_ns = c.closed_ns or 0
            yield closed_ns - silence_before(recording, c), closed_ns
    yield from (span for connection, span in _stalled(recording) if connection in known)


def _answering(recording: Recording) -> Iterator[Span]:
    """When some connection answered: its life without its stalls, and without the silence before its end."""
    died = {c.id: silence_before(recording, c) for c in deaths(recording)}
    over_ns = recording.over_ns
    stalled: dict[int | None, list[Span]] = {}
    for connection, span in _stalled(recording):
        stalled.setdefault(connection, []).append(span)
    for c in recording.lasting:
        # One that never answered ends no outage by being opened: a datagram's always is.
        if c.opened_ns is None or c.evidence.get("answered") == 0:
            continue
        at_ns, end_ns = c.opened_ns, over_ns if c.closed_ns is None else c.closed_ns
        end_ns -= died.get(c.id, 0)
        for from_ns, to_ns in sorted(stalled.get(c.id, ())):
            if at_ns < min(from_ns, end_ns):
                yield at_ns, min(from_ns, end_ns)
            at_ns = max(at_ns, to_ns)
        if at_ns < end_ns:
            yield at_ns, end_ns


def joined(spans: Iterable[Span]) -> list[Span]:
    """Those that touch as one, in order of time."""
    apart: list[Span] = []
    for from_ns, to_ns in sorted(spans):
        if apart and from_ns <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], to_ns))
        else:
            apart.append((from_ns, to_ns))
    return apart
