"""Connections of a run that differ all run long: which, and by how much."""

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
"""Connections of a recording that are compared."""
APART_NS: Final = 100_000
"""Levels that are told apart differ by this: a host serves its connections in turn, and the last of them
waits a little longer, on a busy host some ten microseconds, which is no matter of the path."""
_LEAST: Final = SUB_BUCKETS * math.log2(1 + MATTERS)
"""The least difference that matters, in bucket numbers: there are so many to an octave."""


@dataclass(frozen=True, slots=True)
class ConnectionLevel:
    """Connections of about one level."""

    connections: tuple[int, ...]
    median_ns: float
    """The median of their medians."""


def _compared(piece: Piece) -> ByConnection | None:
    """The connections of a recording, where they differ by more than chance; None: they do not, or it does
    not say.
    """
    every = piece.recording.by_connection(piece.selection)
    if every is None or not 2 <= len(every.ids) <= MOST:
        return None
    return every if differ(*every.levels(), _LEAST) else None


def differing(group: Sequence[Piece]) -> BlockCounts | None:
    """The connections of all recordings, a row each, where those of one differ by more than chance."""
    if not any(_compared(piece) for piece in group):
        return None
    rows, ids, counted = 0, [], []
    for piece in group:
        one = piece.recording.by_connection(piece.selection)
        # Of many recordings the first ones tell how connections vary.
        if one is not None and rows + len(one.ids) <= MOST:
            counted.append(one.counted._replace(stretch=one.counted.stretch + rows))
            ids.append(one.ids)
            rows += len(one.ids)
    return to_blocks(counted, ids)


def levels(piece: Piece) -> list[ConnectionLevel]:
    """The lowest first; empty where connections do not differ, or have no levels that can be told apart."""
    every = _compared(piece)
    if every is None:
        return []
    medians = every.medians()
    return [
        ConnectionLevel(tuple(sorted(every.ids[at].tolist())), float(np.median(medians[at])))
        for at in groups(*every.levels(), medians, APART_NS, MATTERS)
    ]
