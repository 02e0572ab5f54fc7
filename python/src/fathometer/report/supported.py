"""Which figures a report shows, in tables, pictures, JSON and words alike."""

from __future__ import annotations

import math

from fathometer.stats.results import Estimate


def is_shown(e: Estimate) -> bool:
    """Whether the count supports the figure; a quantile that it cannot support is not shown (DESIGN.md 4)."""
    if math.isnan(e.value):
        return False
    return e.interval is not None or not (e.doubt and "too few for p" in e.doubt)
