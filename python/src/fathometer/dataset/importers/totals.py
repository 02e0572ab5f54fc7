"""A tool's own totals, compared with the samples read from its output. The law of all importers: they are
equal, or the file is refused. Otherwise a missing or misread line would pass for loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

REMEDY: Final = "import the tool's whole output, unchanged: a missing line would pass for loss"


@dataclass(frozen=True, slots=True)
class Total:
    """One count of a tool."""

    what: str
    """A plural: ``packets sent``."""
    printed: int
    """The count as the tool printed it."""
    read: int
    """The same count of what was read."""
    apart: int = 0
    """Difference that the tool's own counters may have."""


def totals(*each: tuple[str, int | None, int]) -> tuple[Total, ...]:
    """Totals as (what, printed, read), without those that the tool did not print."""
    return tuple(Total(what, printed, read) for what, printed, read in each if printed is not None)


def difference(each: Iterable[Total]) -> str | None:
    """The first total that contradicts the samples, as a sentence; None if there is none."""
    for total in each:
        if abs(total.printed - total.read) > total.apart:
            return f"the tool counts {total.printed:,} {total.what}, and its lines give {total.read:,}"
    return None
