"""Which figures a report shows, in tables, pictures, JSON and words alike."""

from __future__ import annotations

from fathometer.stats.results import Estimate


def is_shown(e: Estimate) -> bool:
    """Whether the count supports the figure; a quantile that it cannot support is not shown (DESIGN.md 4)."""
    return e.shown
