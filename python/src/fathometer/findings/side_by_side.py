"""Whether two paths were measured side by side or in turn, by when each of their runs began and ended: what
both shared then is taken out of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.runs import RUNS_TO_COMPARE

SIDE_BY_SIDE: Final = 0.8
"""Share of the shorter one's time that both must have in common to be compared as pairs of blocks."""
PAIRED_BLOCKS: Final = 256
Span = tuple[int, int]
"""When a run began and ended, ns since the Unix epoch."""


def common_share(a: Sequence[Span], b: Sequence[Span]) -> float:
    """How much of the shorter one's time was measured by both."""
    common = sum(max(0, min(e, f) - max(s, t)) for s, e in a for t, f in b)
    shorter = min(sum(e - s for s, e in a), sum(f - t for t, f in b))
    return common / shorter if shorter else 0.0


def are_interleaved(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether runs that began then went in turn: no path ever ran three times in a row."""
    order = sorted([(began, 0) for began in a] + [(began, 1) for began in b])
    row, last = 0, -1
    for _, which in order:
        row = row + 1 if which == last else 1
        last = which
        if row > 2:
            return False
    return True


def pairs_of_runs(
    a: Sequence[float | None], b: Sequence[float | None], interleaved: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """The figures of the runs, and whether they are pairs: of runs side by side or in turn, where both have
    the figure (None: a run has not). A run without it must not make pairs of what ran an hour apart.
    """
    if len(a) == len(b) and interleaved:
        both = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
        if len(both) >= min(RUNS_TO_COMPARE, len(a)):
            return _known([x for x, _ in both]), _known([y for _, y in both]), True
    return _known(a), _known(b), False


def _known(figures: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([x for x in figures if x is not None], dtype=np.float64)
