"""Connections of a run that differ all run long: their names, and the differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fathometer.dataset.by_connection import ByConnection
from fathometer.dataset.histogram import SUB_BUCKETS
from fathometer.findings.parts import Piece, to_blocks
from fathometer.stats.family import MATTERS
from fathometer.stats.series import BlockCounts
from fathometer.stats.units import differ, groups

MOST: Final = 1_000
"""Maximum number of compared connections of a recording."""
APART_NS: Final = 100_000
"""Minimum gap between two levels. A host serves its connections in turn, so the last of them waits a little
longer, some ten microseconds on a busy host. The path is not to blame for that.
"""
_LEAST: Final = SUB_BUCKETS * math.log2(1 + MATTERS)
"""The smallest difference that matters, in bucket numbers."""


@dataclass(frozen=True, slots=True)
class ConnectionLevel:
    """Connections with about the same level."""

    connections: tuple[int, ...]
    median_ns: float
    """The median of the connections' medians."""


def _compared(piece: Piece) -> ByConnection | None:
    """The connections of a recording, if they differ by more than chance; None: they do not, or the recording
    does not show it.
    """
    every = piece.recording.by_connection(piece.selection)
    if every is None or not 2 <= len(every.ids) <= MOST:
        return None
    return every if differ(*every.levels(), _LEAST) else None


def differing(group: Sequence[Piece]) -> BlockCounts | None:
    """The connections of all recordings, a row each, if those of one recording differ by more than chance."""
    if not any(_compared(piece) for piece in group):
        return None
    rows, ids, counted = 0, [], []
    for piece in group:
        one = piece.recording.by_connection(piece.selection)
        # The first of many recordings show how connections vary.
        if one is not None and rows + len(one.ids) <= MOST:
            counted.append(one.counted._replace(stretch=one.counted.stretch + rows))
            ids.append(one.ids)
            rows += len(one.ids)
    return to_blocks(counted, ids)


def levels(piece: Piece) -> list[ConnectionLevel]:
    """Levels, the lowest first; empty if connections do not differ, or have no distinct levels."""
    every = _compared(piece)
    if every is None:
        return []
    medians = every.medians()
    return [
        ConnectionLevel(tuple(sorted(every.ids[at].tolist())), float(np.median(medians[at])))
        for at in groups(*every.levels(), medians, APART_NS, MATTERS)
    ]
