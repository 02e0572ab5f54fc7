"""Changes of level: candidates of the search, then what is worth a person's attention (`consolidate`)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.consolidate import consolidate, margin
from fathometer.stats.changes.jumps import GAUSS_MEDIAN, Jumps
from fathometer.stats.changes.model import Settings

Floats = NDArray[np.float64]

GAUSS_MEDIAN_OF_DIFFERENCES = 0.9539
"""Median of |a - b| for two independent standard normal values: 0.6745 x sqrt(2)."""
SHORTEST = 2
"""Samples in the narrowest window."""
LEAST_SHARE = 0.5
"""Of the noise, that the difference of windows has at least where most samples are equal."""


class Level(NamedTuple):
    """One change of level."""

    at: int
    """The first sample of the new level."""
    margin: float
    """How many times over it passed the threshold it is nearest to."""
    before: float
    after: float


def noise_floor(rtt: Floats) -> float:
    """Standard deviation of the noise from one sample to the next, untouched by levels and by up to a quarter
    of spikes; 0 only for a series that never changes.

    Where more than half of the samples repeat the one before, the differences' root mean square, the largest
    hundredth cut off, or at least the error of rounding to the smallest step that occurs.
    """
    steps = np.abs(np.diff(rtt))
    if len(steps) == 0:
        return 0.0
    floor = float(np.median(steps)) / GAUSS_MEDIAN_OF_DIFFERENCES
    if floor > 0:
        return floor
    moved = steps[steps > 0]
    if not len(moved):
        return 0.0
    capped = np.minimum(steps, np.quantile(steps, 0.99))
    return max(math.sqrt(float(np.mean(capped * capped)) / 2), float(moved.min()) / math.sqrt(12))


def winsorised(rtt: Floats, noise: float, settings: Settings) -> Floats:
    """Samples no further than a few times the noise from the running median, which keeps steps as they are:
    means of windows then stand for levels, whatever a spike's height.
    """
    from scipy.ndimage import median_filter  # Imported late: a report's start must not wait for it.

    width = settings.filter_width
    middle = median_filter(rtt, width, mode="nearest")
    # At an end the filter repeats the outermost sample, so that one sample would become a level.
    middle[: width // 2] = np.median(rtt[:width])
    middle[len(rtt) - width // 2 :] = np.median(rtt[len(rtt) - width :])
    out: Floats = np.clip(rtt, middle - settings.clip * noise, middle + settings.clip * noise)
    return out


def level_changes(rtt: Floats, settings: Settings) -> list[Level]:
    """Every change of level of answered samples, in order."""
    noise = noise_floor(rtt)
    if noise <= 0:
        return []
    # Sums of what is far from zero lose digits.
    values = winsorised(rtt, noise, settings) - rtt[0]

    def floor(width: int) -> float:
        return LEAST_SHARE * noise * math.sqrt(2 / width)

    jumps = Jumps(values, SHORTEST, floor, settings)
    segments = consolidate(rtt, jumps, noise, settings)
    if len(segments) == 1:
        return []
    # Once more, what is usual being said by data free of the changes that are known: a stall would hide
    # a smaller change beside it. Silence does not depend on this: without a first change there is no second.
    parts = (values[s.first : s.end] for s in segments)
    calm = np.concatenate([part - np.median(part) for part in parts])
    # Cut off by the spread around the levels: of correlated round trips the noise from one sample to the next
    # is a part of it, and what is cut off by that looks calmer than the series is.
    most = settings.clip * max(noise, float(np.median(np.abs(calm))) / GAUSS_MEDIAN)
    calm = np.clip(calm, -most, most)
    jumps = Jumps(values, SHORTEST, floor, settings, calm=calm)
    segments = consolidate(rtt, jumps, noise, settings)
    return [
        Level(after.first, margin(segments, at, jumps, noise, settings), before.middle, after.middle)
        for at, (before, after) in enumerate(pairwise(segments))
    ]
