"""Series of recordings for charts: how many bins, of which recordings, and the same in fewer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.recording import Recording
from fathometer.dataset.regroup import Envelope, envelope
from fathometer.findings.parts import Part, parts, totals_of

BINS: Final = 600
"""Of a still picture: more than its pixels would show nothing."""
ZOOM_BINS: Final = 30_000
"""Of all zooming charts together; each gets its share, at least `BINS`. At some 22 bytes a bin they are
0.7 MB."""
FINEST: Final = 14_000
"""Bins of one zooming chart at most: a browser redraws them fast enough to drag."""
MOST_CHARTS: Final = 12
"""Recordings that get a chart of their own. Beyond that the page would be a scroll of lines."""


def answered(recordings: Sequence[Recording]) -> list[Part]:
    """The parts of recordings that there is something to draw of, by path and time."""
    every = [part for recording in recordings for part in parts(recording)]
    return sorted((p for p in every if totals_of(p).answered > 1), key=_place)


def _place(part: Part) -> tuple[str, int, int]:
    return part.key.name, part.recording.manifest.started_ns, part.selection.size or 0


def series(part: Part, shown: int) -> Envelope:
    """The bins of a part for a chart that zooms, where so many parts have one."""
    share = min(max(BINS, ZOOM_BINS // max(shown, 1)), FINEST)
    return envelope(part.recording.rollup, share, part.selection)


def spans(envelopes: Sequence[Envelope]) -> Iterator[tuple[int, int]]:
    """Where each begins and ends, ns."""
    for e in envelopes:
        if len(e.start_ns):
            yield int(e.start_ns[0]), int(e.start_ns[-1]) + e.width_ns


def halved(fine: Envelope) -> Envelope:
    """The same series in half as many bins: a phone has no pixels for more."""
    return coarse(fine, max(-(-_width(fine) // 2), 1))


def _width(e: Envelope) -> int:
    """Bins from the first to the last, missing ones too."""
    return int((e.start_ns[-1] - e.start_ns[0]) // e.width_ns) + 1 if len(e.start_ns) else 0


def coarse(fine: Envelope, most: int = BINS) -> Envelope:
    """The same series in at most `most` bins: extremes stay, medians and p99 are the middle (the largest) of
    what they join.
    """
    factor = -(-_width(fine) // most)
    if factor <= 1:
        return fine
    key = (fine.start_ns - fine.start_ns[0]) // (fine.width_ns * factor)
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    with np.errstate(all="ignore"):
        p50 = _middles(fine.p50_ns, starts)
        p99 = np.fmax.reduceat(fine.p99_ns, starts)
        low, high = np.fmin.reduceat(fine.min_ns, starts), np.fmax.reduceat(fine.max_ns, starts)
    return Envelope(
        start_ns=fine.start_ns[0] + key[starts] * fine.width_ns * factor,
        width_ns=fine.width_ns * factor,
        sent=np.add.reduceat(fine.sent, starts),
        unanswered=np.add.reduceat(fine.unanswered, starts),
        answered=np.add.reduceat(fine.answered, starts),
        min_ns=low,
        max_ns=high,
        p50_ns=p50,
        p99_ns=p99,
        error=fine.error,
    )


def _middles(values: NDArray[np.float64], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """The medians of runs of values, of which each begins at one of `starts`; NaN is no value."""
    runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    # What is no value comes last in its run.
    ordered = values[np.lexsort((values, runs))]
    known = np.add.reduceat((~np.isnan(values)).astype(np.intp), starts)
    return np.asarray((ordered[starts + np.maximum(known - 1, 0) // 2] + ordered[starts + known // 2]) / 2)
