"""From the candidates of the search to the changes that are worth a person's attention.

Boundaries are taken away, least first, until every one that is left passes. It must be no chance: in the
windows that tell best its jump is above what this series does there anyway (`jumps`). And it must matter: its
size is a fraction of the level (the magnitude filter of Hunter: Fleming et al. 2023, "Hunter: using change
point detection to hunt for performance regressions", ICPE), it stands out of the samples of the calmer side,
and size times duration is enough. Taking the least away first and measuring its neighbours again is bottom-up
segmentation (Keogh et al. 2001).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.jumps import Jumps
from fathometer.stats.changes.model import LEAST_SAMPLES, Settings

MAD_TO_DEVIATION = 1.4826
"""A median absolute deviation times this is the standard deviation of normal noise."""

Floats = NDArray[np.float64]

FEW = 8
"""Samples of which a spread is hardly known."""
LABELLED = 10_000
"""Samples of the traces on which `Settings.least_impact` was chosen."""


class Regime(NamedTuple):
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


def describe(rtt: Floats, first: int, end: int) -> Regime:
    """Robust figures of rtt[first:end]."""
    part = rtt[first:end]
    low, middle, high = (float(v) for v in np.quantile(part, (0.4, 0.5, 0.6)))
    spread = MAD_TO_DEVIATION * float(np.median(np.abs(part - middle)))
    return Regime(first, end, middle, spread, low, high)


def describe_all(rtt: Floats, boundaries: list[int]) -> list[Regime]:
    """Segments between the boundaries."""
    ends = [0, *boundaries, len(rtt)]
    return [describe(rtt, a, b) for a, b in pairwise(ends)]


def margin(segments: list[Regime], at: int, jumps: Jumps, noise: float, settings: Settings) -> float:
    """How far the boundary between segments `at` and `at + 1` is above the threshold it is nearest to: the
    smallest ratio of found to asked; below 1 it fails.
    """
    before, after = segments[at], segments[at + 1]
    lengths = before.end - before.first, after.end - after.first
    size = abs(after.middle - before.middle)
    # The longer a change lasts, the more samples may overlap.
    overlap = min(1.0, math.sqrt(settings.spread_length / min(lengths)))
    asked = max(
        settings.least_relative * min(abs(before.middle), abs(after.middle)),
        settings.least_spread * calmer(before, after) * overlap,
    )
    return min(
        size / asked if asked > 0 else math.inf,
        impact(segments, at, noise) / asked_impact(segments[-1].end, settings),
        jumps.margin(before.end, *lengths),
    )


def calmer(a: Regime, b: Regime) -> float:
    """Spread of the calmer of two sides. That of a few samples may be small by luck: it is mixed with the
    other side's as if `FEW` of the other side's samples were among them.
    """
    few, many = sorted((a, b), key=lambda s: s.end - s.first)
    share = (few.end - few.first) / (few.end - few.first + FEW)
    return min(many.spread, share * few.spread + (1 - share) * many.spread)


def asked_impact(count: int, settings: Settings) -> float:
    """Who looks at a longer series looks at longer changes: what is asked grows with the root of its length,
    from the length of the labelled traces on.
    """
    return settings.least_impact * max(1.0, math.sqrt(count / LABELLED))


def impact(segments: list[Regime], at: int, noise: float) -> float:
    """Size (in noise) x length of the shorter side of a boundary, up to twice that where the level beyond the
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
    return max(0.0, reached) / noise * (short.end - short.first) * (1 + lasting)


def consolidate(rtt: Floats, jumps: Jumps, noise: float, settings: Settings) -> list[Regime]:
    """The segments that remain; one fewer boundaries than segments."""
    segments = take_least_away(rtt, describe_all(rtt, jumps.candidates), jumps, noise, settings)
    segments = replace_boundaries(rtt, without_ramps(rtt, segments, noise, settings), noise, settings)
    if next(spikes(rtt, segments), None) is None:
        return segments
    return take_least_away(rtt, without_spikes(rtt, segments), jumps, noise, settings)


def take_least_away(
    rtt: Floats, segments: list[Regime], jumps: Jumps, noise: float, settings: Settings
) -> list[Regime]:
    """The segments that remain once all boundaries pass."""
    margins = [margin(segments, at, jumps, noise, settings) for at in range(len(segments) - 1)]
    while margins:
        least = int(np.argmin(margins))
        if margins[least] >= 1:
            break
        segments[least : least + 2] = [describe(rtt, segments[least].first, segments[least + 1].end)]
        del margins[least]
        for at in range(max(0, least - 2), min(len(margins), least + 2)):
            margins[at] = margin(segments, at, jumps, noise, settings)
    return segments


def without_spikes(rtt: Floats, segments: list[Regime]) -> list[Regime]:
    """Gives stretches with too few samples for a level to the nearer neighbour. Boundaries are final here:
    before, three samples of a level may look like two and one of its neighbour.
    """
    segments = list(segments)
    while (at := next(spikes(rtt, segments), None)) is not None:
        beside = [n for n in (at - 1, at + 1) if 0 <= n < len(segments)]
        to = min(beside, key=lambda n: abs(segments[n].middle - segments[at].middle))
        first = min(at, to)
        segments[first : first + 2] = [describe(rtt, segments[first].first, segments[first + 1].end)]
    return segments


def spikes(rtt: Floats, segments: list[Regime]) -> Iterator[int]:
    """Stretches in which too few samples for a level are nearer to it than to a neighbour's level."""
    for at, segment in enumerate(segments):
        # In a longer stretch, as many samples lie on either side of its median.
        if segment.end - segment.first >= 2 * LEAST_SAMPLES:
            continue
        part = rtt[segment.first : segment.end]
        for beside in segments[max(0, at - 1) : at] + segments[at + 1 : at + 2]:
            here = np.abs(part - segment.middle) <= np.abs(part - beside.middle)
            if np.count_nonzero(here) < LEAST_SAMPLES:
                yield at
                break


def without_ramps(rtt: Floats, segments: list[Regime], noise: float, settings: Settings) -> list[Regime]:
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


def replace_boundaries(rtt: Floats, segments: list[Regime], noise: float, settings: Settings) -> list[Regime]:
    """Each boundary where it fits its final neighbours best, within reach."""
    bounds = [s.first for s in segments] + [len(rtt)]
    for at in range(1, len(segments)):
        before, after = segments[at - 1], segments[at]
        spread = max(before.spread, after.spread, noise)
        # A place is known to within some (noise / size)^2 samples; what repeats by correlation, to more.
        blurred = (spread / max(abs(after.middle - before.middle), noise)) ** 2
        reach = settings.placement_reach * max(1, math.ceil(2 * blurred))
        first = max(bounds[at] - reach, (bounds[at - 1] + bounds[at]) // 2, bounds[at - 1] + 1)
        end = min(bounds[at] + reach, (bounds[at] + bounds[at + 1] + 1) // 2, bounds[at + 1] - 1)
        if first < end:
            bounds[at] = split(rtt, first, end, before, after, noise, settings)
    return describe_all(rtt, bounds[1:-1])


def loss(rtt: Floats, level: float, spread: float, freedom: float) -> Floats:
    """Negative log-likelihood of Student's t, up to a constant."""
    distance = (rtt - level) / spread
    out: Floats = 0.5 * (freedom + 1) * np.log1p(distance * distance / freedom) + math.log(spread)
    return out


def split(
    rtt: Floats, first: int, end: int, before: Regime, after: Regime, noise: float, settings: Settings
) -> int:
    """The index in first ..= end at which rtt[first:end] is best divided between two known regimes."""
    part = rtt[first:end]
    as_before = loss(part, before.middle, max(before.spread, noise), settings.placement_freedom)
    as_after = loss(part, after.middle, max(after.spread, noise), settings.placement_freedom)
    return first + int(np.argmin(np.concatenate([[0.0], np.cumsum(as_before - as_after)])))
