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
    said: str
    """The judgement in words."""


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
            None if i == 0 else float(mean / tail[i - 1] - 1),
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
    change = float(means[-1] / means[-2] - 1)
    # The end's own two stretches are not among the windows that it is compared with.
    others = np.abs(means[1:-2] / means[:-3] - 1) if len(means) > 3 else np.array([])
    if len(others) < FEWEST_PLACEBOS:
        said = (
            f"the connection was too short to say what is usual for it ({len(others)} windows, "
            f"{FEWEST_PLACEBOS} are needed)"
        )
        return Ending(segments, change, None, len(others), None, said)
    p_value = float((1 + np.sum(others >= abs(change))) / (1 + len(others)))
    usual = float(np.quantile(others, 0.95))
    if p_value < 0.05:
        said = (
            f"the last {length} samples changed by {change:+.1%}; at other times of this connection "
            f"only {p_value:.1%} of windows did as much"
        )
    else:
        said = (
            f"the last {length} samples changed by {change:+.1%}, which is usual for this connection: "
            f"{p_value:.0%} of its windows changed as much"
        )
    return Ending(segments, change, p_value, len(others), usual, said)


def pooled_p_value(p_values: list[float]) -> float:
    """Several endings together: Fisher's method (1925), for independent connections."""
    from scipy.special import chdtrc  # Imported late: half a second of a report's start.

    return float(chdtrc(2 * len(p_values), -2 * float(np.sum(np.log(p_values)))))
