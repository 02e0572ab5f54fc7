"""The lengths of time that a rollup counts by.

Every length divides the next one, and a quarter of an hour is a whole number of each one below it. So steps
of two recordings, of whatever lengths, lie within each other, and hours of the calendar are whole steps.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import Final

MOST: Final = 4_096
"""Steps of a recording at most: enough for a chart and for 256 blocks, and so few that the rollup of a
hundred million samples is some million rows."""
_FACTORS: Final = (*(5,) * 9, *(2,) * 11, 3, 5, 3, 5, 2, 2, 2, 2, 3, 2, 7)
LADDER: Final[tuple[int, ...]] = tuple(accumulate((1, *_FACTORS), mul))
"""In ns: 1, 5, 25 … 1,953,125 (a 512th of a second), then doubled up to 1, 2 and 4 s; 12 s, 1 min, 3 min,
15 min, 30 min, 1, 2, 4, 12 h, a day, a week."""


def step_of(first_ns: int, last_ns: int) -> int:
    """The shortest length of which at most `MOST` steps, counted from the Unix epoch, hold both moments."""
    for step in LADDER:
        if last_ns // step - first_ns // step < MOST:
            return step
    return LADDER[-1]
