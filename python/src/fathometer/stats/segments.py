"""The last samples before a connection's end: the article's table, and whether it means anything.

The article cut the last 500 records into five segments of 100 and found changes of several percent between
them. Whether that is unusual is asked of the same connection: the same statistic is taken at many other times
of its life ("placebo windows"), and the end's is ranked among them. That is randomisation inference (Fisher
1935; Rosenbaum 2002): it holds for correlated series, where Mann-Whitney, Welch and Newey-West called 18 to
57 % of nothing significant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LENGTH = 100
NUMBER = 5
FEWEST_PLACEBOS = 19
"""With fewer windows to compare with, even the most extreme end could not reach a p-value of 0.05."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One row of the table."""

    first: int
    """Samples before the end, at the segment's beginning (500 for the first of five segments of 100)."""
    last: int
    mean: float
    change: float | None
    """To the segment before, as a fraction of it; None for the first."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a connection's last samples compare with the rest of its life."""

    segments: tuple[Segment, ...]
    last_change: float
    """Of the last segment against the one before, as a fraction."""
    p_value: float | None
    """Share of the placebo windows (and the end itself) whose last change was at least as large, either way;
    None with too few of them."""
    placebos: int
    usual_change: float | None
    """The 95th percentile of the same change, either way, at other times of this connection."""
    length: int
    """Samples in each segment."""

    @property
    def unusual(self) -> bool | None:
        """Whether the last change is larger than this connection's others; None where it was too short."""
        return None if self.p_value is None else self.p_value < 0.05


def means_of(rtt: NDArray[np.float64], length: int = LENGTH) -> NDArray[np.float64]:
    """Means of consecutive stretches of `length` samples, counted from the end, oldest first; an incomplete
    first is left out.
    """
    number = len(rtt) // length
    return np.asarray(
        rtt[len(rtt) - number * length :].reshape(number, length).mean(axis=1), dtype=np.float64
    )


def table(means: NDArray[np.float64], length: int = LENGTH, number: int = NUMBER) -> tuple[Segment, ...]:
    """The last `number` of the means, oldest first; fewer where the connection was shorter."""
    tail = means[-number:]
    rows = len(tail)
    return tuple(
        Segment(
            (rows - i) * length,
            (rows - i - 1) * length + 1,
            float(mean),
            None if i == 0 else float(_change(tail[i : i + 1], tail[i - 1 : i])[0]),
        )
        for i, mean in enumerate(tail)
    )


def ending(means: NDArray[np.float64], length: int = LENGTH, number: int = NUMBER) -> Ending | None:
    """Judges the end of one connection by the means of its stretches of `length` samples, oldest first; None
    with fewer than two.
    """
    segments = table(means, length, number)
    if len(segments) < 2:
        return None
    # The end's own two stretches are not among the windows that it is compared with.
    changes = _change(means[1:], means[:-1])
    change, others = float(changes[-1]), np.abs(changes[:-2])
    if len(others) < FEWEST_PLACEBOS:
        return Ending(segments, change, None, len(others), None, length)
    p_value = float((1 + np.sum(others >= abs(change))) / (1 + len(others)))
    return Ending(segments, change, p_value, len(others), float(np.quantile(others, 0.95)), length)


def _change(to: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]:
    """As a fraction of the stretch before. From zeros to zeros nothing changed, to anything else all did."""
    some = of > 0
    return np.where(some, to / np.where(some, of, 1.0) - 1, np.where(to > 0, 1.0, 0.0))
