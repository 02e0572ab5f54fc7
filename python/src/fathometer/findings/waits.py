"""Which samples waited through a stall: they measure its length, and not the level of the path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.recording import Recording

Ints = NDArray[np.int64]


def of_samples(recording: Recording, connection: Ints, sent_ns: Ints) -> NDArray[np.bool_]:
    """Of samples in order of time: those that were sent in a stall of their own connection."""
    waited = np.zeros(len(sent_ns), dtype=np.bool_)
    spans = _spans(recording)
    if not spans or not len(sent_ns):
        return waited
    order = np.argsort(connection, kind="stable")
    numbers, sent = connection[order], sent_ns[order]
    for number, (began, ended) in spans.items():
        first, last = np.searchsorted(numbers, [number, number + 1])
        mine = sent[first:last]
        place = np.searchsorted(began, mine, side="right") - 1
        waited[order[first:last]] = (place >= 0) & (mine <= ended[place])
    return waited


def of_steps(recording: Recording, start_ns: Ints, width_ns: int) -> NDArray[np.bool_]:
    """Steps in the middle of which half of the connections stood still, or more: their median is of those."""
    still = np.zeros(len(start_ns), dtype=np.int64)
    middle = start_ns + width_ns // 2
    spans = _spans(recording)
    for began, ended in spans.values():
        place = np.searchsorted(began, middle, side="right") - 1
        still += (place >= 0) & (middle <= ended[place])
    beside = recording.manifest.probe.get("connections")
    return 2 * still >= max(beside if isinstance(beside, int) else 1, 1) if spans else still > 0


def _spans(recording: Recording) -> dict[int, tuple[Ints, Ints]]:
    """By connection: when its stalls began and ended, in order of time. A connection has one at a time."""
    every: dict[int, list[tuple[int, int]]] = {}
    for s in recording.stalls:
        if s.connection is not None and s.ended_ns is not None and s.duration_ns is not None:
            every.setdefault(s.connection, []).append((s.ended_ns - s.duration_ns, s.ended_ns))
    return {
        number: (np.array([b for b, _ in mine]), np.array([e for _, e in mine]))
        for number, mine in ((number, sorted(mine)) for number, mine in every.items())
    }
