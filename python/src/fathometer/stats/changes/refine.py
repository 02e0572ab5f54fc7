"""The exact sample of a change that was found in medians of stretches of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.consolidate import describe, split
from fathometer.stats.changes.levels import noise_floor
from fathometer.stats.changes.model import Settings

Floats = NDArray[np.float64]


def placed(excerpt: Floats, settings: Settings | None = None) -> int | None:
    """Where in an excerpt around a change of level its first quarter's regime gives way to that of its last.
    None: the excerpt is too short, or both ends are alike.
    """
    settings = settings or Settings()
    quarter = len(excerpt) // 4
    noise = noise_floor(excerpt)
    if quarter < settings.fewest or noise <= 0:
        return None
    before, after = describe(excerpt, 0, quarter), describe(excerpt, len(excerpt) - quarter, len(excerpt))
    if before.middle == after.middle:
        return None
    return split(excerpt, quarter, len(excerpt) - quarter, before, after, noise, settings)
