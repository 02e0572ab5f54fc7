"""From every regime that the search found to the changes that are worth a person's attention.

The search reports what is improbable; people mark what matters. Boundaries are taken away, least first, until
every one that is left passes four thresholds: relative to the level (the magnitude filter of Hunter:
Fleming et al. 2023, "Hunter: using change point detection to hunt for performance regressions", ICPE), to
the noise, to the spread of the calmer side, and impact, which weighs size against duration. Taking the least
away first and measuring its neighbours again is bottom-up segmentation (Keogh et al. 2001). How the weights
were chosen, and what they reach on traces they were not chosen on: docs/change-points.md.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.model import Settings
from fathometer.stats.changes.states import MAD_TO_DEVIATION, loss

Floats = NDArray[np.float64]


class Segment(NamedTuple):
    """Samples between two boundaries."""

    first: int
    end: int
    """One past the last."""
    middle: float
    spread: float
    """Robust standard deviation."""
    low: float
    """The 40th percentile: a stretch that rises above its neighbour counts by what most of it reaches, so
    that a mixture with the old level weighs less than a clean step."""
    high: float
    """The 60th percentile, for stretches below."""


def describe(rtt: Floats, first: int, end: int) -> Segment:
    """Robust figures of rtt[first:end]."""
    part = rtt[first:end]
    low, middle, high = (float(v) for v in np.quantile(part, (0.4, 0.5, 0.6)))
    spread = MAD_TO_DEVIATION * float(np.median(np.abs(part - middle)))
    return Segment(first, end, middle, spread, low, high)


def describe_all(rtt: Floats, boundaries: list[int]) -> list[Segment]:
    """Segments between the boundaries."""
    ends = [0, *boundaries, len(rtt)]
    return [describe(rtt, a, b) for a, b in pairwise(ends)]


def margin(segments: list[Segment], at: int, noise: float, settings: Settings) -> float:
    """How far the boundary between segments `at` and `at + 1` is above the threshold it is nearest to: the
    smallest ratio of found to asked; below 1 it fails.
    """
    before, after = segments[at], segments[at + 1]
    size = abs(after.middle - before.middle)
    level = min(abs(before.middle), abs(after.middle))
    asked = max(
        settings.least_relative * level,
        settings.least_noise * noise,
        settings.least_spread * min(before.spread, after.spread),
    )
    return min(size / asked, impact(segments, at, noise, settings) / settings.least_impact)


def impact(segments: list[Segment], at: int, noise: float, settings: Settings) -> float:
    """Size x duration ** 1.4 of the shorter side of a boundary, up to twice that where the level beyond the
    shorter side is not the old one again: what stays matters more than what passes.
    """
    before, after = segments[at], segments[at + 1]
    size = abs(after.middle - before.middle)
    forward = before.end - before.first >= after.end - after.first
    short, long = (after, before) if forward else (before, after)
    beyond = at + 2 if forward else at - 1
    reached = short.low - long.middle if short.middle > long.middle else long.middle - short.high
    lasting = 1.0
    if 0 <= beyond < len(segments) and size > 0:
        lasting = min(1.0, abs(segments[beyond].middle - long.middle) / size)
    level = min(abs(before.middle), abs(after.middle))
    unit = math.pow(noise, settings.noise_share) * math.pow(0.001 * level, 1 - settings.noise_share)
    if unit <= 0:
        unit = noise
    length = short.end - short.first
    return max(0.0, reached) * (1 + lasting) / unit * math.pow(length, settings.impact_exponent)


def consolidate(rtt: Floats, boundaries: list[int], noise: float, settings: Settings) -> list[Segment]:
    """The segments that remain; one fewer boundaries than segments."""
    segments = describe_all(rtt, boundaries)
    margins = [margin(segments, at, noise, settings) for at in range(len(segments) - 1)]
    while margins:
        least = int(np.argmin(margins))
        if margins[least] >= 1:
            break
        segments[least : least + 2] = [describe(rtt, segments[least].first, segments[least + 1].end)]
        del margins[least]
        for at in range(max(0, least - 2), min(len(margins), least + 2)):
            margins[at] = margin(segments, at, noise, settings)
    return replace_boundaries(rtt, without_ramps(rtt, segments, noise, settings), noise, settings)


def without_ramps(rtt: Floats, segments: list[Segment], noise: float, settings: Settings) -> list[Segment]:
    """Gives a short, unsteady stretch between two levels back to them: it is one change."""
    segments = list(segments)
    at = 1
    while at < len(segments) - 1:
        before, ramp, after = segments[at - 1 : at + 2]
        up, further = ramp.middle - before.middle, after.middle - ramp.middle
        if (
            ramp.end - ramp.first <= settings.ramp_longest
            and up * further > 0
            and ramp.spread > settings.ramp_spread * min(abs(up), abs(further))
        ):
            middle = split(rtt, ramp.first, ramp.end, before, after, noise, settings)
            segments[at - 1 : at + 2] = [
                describe(rtt, before.first, middle),
                describe(rtt, middle, after.end),
            ]
        else:
            at += 1
    return segments


def replace_boundaries(
    rtt: Floats, segments: list[Segment], noise: float, settings: Settings
) -> list[Segment]:
    """Each boundary where it fits its final neighbours best, within reach."""
    bounds = [s.first for s in segments] + [len(rtt)]
    for at in range(1, len(segments)):
        first = max(bounds[at] - settings.placement_reach, bounds[at - 1] + 1)
        end = min(bounds[at] + settings.placement_reach, bounds[at + 1] - 1)
        if first < end:
            bounds[at] = split(rtt, first, end, segments[at - 1], segments[at], noise, settings)
    return describe_all(rtt, bounds[1:-1])


def split(
    rtt: Floats, first: int, end: int, before: Segment, after: Segment, noise: float, settings: Settings
) -> int:
    """The index in first ..= end at which rtt[first:end] is best divided between two known regimes."""
    part = rtt[first:end]
    as_before = loss(part, before.middle, max(before.spread, noise), settings.placement_freedom)
    as_after = loss(part, after.middle, max(after.spread, noise), settings.placement_freedom)
    return first + int(np.argmin(np.concatenate([[0.0], np.cumsum(as_before - as_after)])))
