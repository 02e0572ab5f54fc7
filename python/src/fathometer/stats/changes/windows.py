"""Long series: changes between windows, then their exact place among the raw samples.

At most 2,000 windows, each with two features: the median, and how many samples lie far above it (Anscombe's
transform of the count, 2 sqrt(c + 3/8), whose variance does not depend on the rate: Anscombe 1948,
"The transformation of Poisson, binomial and negative-binomial data", Biometrika 35). Features
are scaled by their long-run standard deviation, since round trips are correlated far beyond one window; the
scale of independent samples gave 29 false alarms a series. The search is `ruptures.KernelCPD` with the linear
kernel (PELT: Killick et al. 2012) and a penalty of 3 ln(windows) a feature.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes.model import Settings
from fathometer.stats.changes.states import GAUSS_MEDIAN_OF_DIFFERENCES, MAD_TO_DEVIATION, loss

Floats = NDArray[np.float64]

FEWEST_BLOCKS = 20
"""Blocks that the long-run variance is taken from at least: the spread of a median of ten differences is
already 30 % of itself."""
WINSORISED_AT = 8.0
"""Long-run deviations at which a window's count of tail events is cut off: one window of outage must not look
like a lasting change."""
SHORTEST_TAIL = 3
"""Windows that a tail must last: a change inside one window shows in two."""
SHORTEST_LEVEL = 2


def cut(rtt: Floats, most: int) -> tuple[Floats, int]:
    """Windows as rows, and their length; the remainder at the end is left out of the search."""
    width = math.ceil(len(rtt) / most)
    count = len(rtt) // width
    return rtt[: count * width].reshape(count, width), width


def long_run_deviation(feature: Floats) -> float:
    """Standard deviation of a mean over many windows, times the root of their number.

    From the differences of neighbouring block means, by their median so that changes do not count, at growing
    block lengths; the largest is taken. The flat-bottomed alternative of de Jong & Davidson (2000) trusts one
    bandwidth; a too small scale costs false alarms, a too large one only faint changes.
    """
    largest = 0.0
    length = 1
    while len(feature) // length >= FEWEST_BLOCKS:
        count = len(feature) // length
        means = feature[: count * length].reshape(count, length).mean(axis=1)
        deviation = float(np.median(np.abs(np.diff(means)))) / GAUSS_MEDIAN_OF_DIFFERENCES
        largest = max(largest, deviation * math.sqrt(length))
        length *= 2
    return largest


def running_median_of_three(values: Floats) -> Floats:
    """Each value's median with its neighbours; the ends with themselves."""
    padded = np.pad(values, 1, mode="edge")
    out: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, 3), axis=1)
    return out


def search(feature: Floats, shortest: int, settings: Settings) -> list[int]:
    """Windows at which a scaled feature changes its mean."""
    from ruptures import KernelCPD  # Imported late: a third of a second of a report's start.

    if len(feature) < 2 * shortest:
        return []
    penalty = settings.penalty_windows * math.log(len(feature))
    found = KernelCPD(kernel="linear", min_size=shortest).fit(feature[:, None]).predict(pen=penalty)
    return sorted({int(at) for at in found if 0 < at < len(feature)})


def gains(feature: Floats, bounds: list[int]) -> list[float]:
    """What each inner boundary saves in squared deviations, against the two stretches as one."""
    out = []
    for a, b, c in zip(bounds, bounds[1:], bounds[2:], strict=False):
        left, right = feature[a:b], feature[b:c]
        share = len(left) * len(right) / (len(left) + len(right))
        out.append(float(share * (left.mean() - right.mean()) ** 2))
    return out


def level_changes(rtt: Floats, settings: Settings) -> list[tuple[int, float]]:
    """Indices of changes of level and how far each passed (`Change.confidence`)."""
    rows, width = cut(rtt, settings.windows)
    medians = np.median(rows, axis=1)
    deviation = long_run_deviation(medians)
    if deviation <= 0:
        return []
    # One odd window (a burst of tens of samples, in a series of tens of thousands) is no change of level.
    feature = running_median_of_three(medians) / deviation
    bounds = [0, *search(feature, SHORTEST_LEVEL, settings), len(feature)]
    penalty = settings.penalty_windows * math.log(len(feature))
    while len(bounds) > 2:
        levels = [float(np.median(medians[a:b])) for a, b in pairwise(bounds)]
        passed = [
            min(gain / penalty, abs(b - a) / (settings.least_relative * min(abs(a), abs(b))))
            if min(abs(a), abs(b)) > 0
            else gain / penalty
            for gain, a, b in zip(gains(feature, bounds), levels, levels[1:], strict=False)
        ]
        least = int(np.argmin(passed))
        if passed[least] >= 1:
            placed = [place_level(rtt, bounds[at : at + 3], width, settings) for at in range(len(passed))]
            return merged(placed, passed, width)
        del bounds[least + 1]
    return []


def merged(placed: list[int], passed: list[float], width: int) -> list[tuple[int, float]]:
    """A window in which the level changes has a median of its own, so one change may be hit on both sides of
    it; both then find the same place, and the more certain of them stands for it.
    """
    out: list[tuple[int, float]] = []
    for index, sure in zip(placed, passed, strict=True):
        if out and index <= out[-1][0] + width:
            if sure > out[-1][1]:
                out[-1] = (index, sure)
        else:
            out.append((index, sure))
    return out


def place_level(rtt: Floats, bounds: list[int], width: int, settings: Settings) -> int:
    """The sample at which a change between windows begins: up to four windows on either side say what the two
    regimes are, two on either side are searched.
    """
    begin, hit, end = bounds
    left = rtt[max(begin, hit - 5) * width : max(begin + 1, hit - 1) * width]
    right = rtt[min(end - 1, hit + 1) * width : min(end, hit + 5) * width]
    first, last = max(begin, hit - 2) * width, min(end, hit + 2) * width
    part = rtt[first:last]
    costs = []
    for side in (left, right):
        middle = float(np.median(side))
        spread = MAD_TO_DEVIATION * float(np.median(np.abs(side - middle)))
        costs.append((middle, spread))
    floor = max(min(costs[0][1], costs[1][1]), abs(costs[1][0] - costs[0][0]) * 1e-3)
    as_left, as_right = (loss(part, m, max(s, floor), settings.freedom) for m, s in costs)
    place = first + int(np.argmin(np.concatenate([[0.0], np.cumsum(as_left - as_right)])))
    return min(max(place, 1), len(rtt) - 1)


def tail_width(count: int, settings: Settings) -> int:
    """Samples in a window so that `tail_events_a_window` are expected and no more than `windows` are cut."""
    needed = round(settings.tail_events_a_window / (1 - settings.tail_quantile))
    return max(needed, math.ceil(count / settings.windows))


def tail_changes(rtt: Floats, levels: list[int], settings: Settings) -> list[tuple[int, float, float, float]]:
    """Changes in how often samples lie far above the level: index, margin, and the tail's p99 before and
    after. `levels`: the changes of level, whose windows say nothing about tails.
    """
    width = tail_width(len(rtt), settings)
    count = len(rtt) // width
    rows = rtt[: count * width].reshape(count, width)
    excess = rows - np.median(rows, axis=1)[:, None]
    mixed = np.unique([at // width for at in levels if at // width < count]).astype(np.int64)
    clean = np.ones(count, dtype=bool)
    clean[mixed] = False
    if clean.sum() < settings.fewest_tail_windows:
        return []
    threshold = float(np.quantile(excess[clean], settings.tail_quantile))
    far = excess > threshold
    feature = 2 * np.sqrt(far.sum(axis=1) + 0.375)
    feature = np.interp(np.arange(count), np.flatnonzero(clean), feature[clean])
    deviation = long_run_deviation(feature)
    # The count of independent events has deviation 1 after the transform: less is luck.
    scaled = feature / max(deviation, 1.0)
    middle = float(np.median(scaled))
    scaled = np.clip(scaled, middle - WINSORISED_AT, middle + WINSORISED_AT)
    bounds = [0, *search(scaled, SHORTEST_TAIL, settings), count]
    penalty = settings.penalty_windows * math.log(count)
    inner = [place_tail(far, bounds[at : at + 3], width) for at in range(len(bounds) - 2)]
    edges = [0, *inner, count * width]
    flat = excess.reshape(-1)
    figures = [float(np.quantile(flat[a:b], settings.tail_quantile)) for a, b in pairwise(edges)]
    found = zip(edges[1:-1], gains(scaled, bounds), figures, figures[1:], strict=False)
    return [(index, max(1.0, gain / penalty), before, after) for index, gain, before, after in found]


def place_tail(far: NDArray[np.bool_], bounds: list[int], width: int) -> int:
    """The sample from which events have the new rate, by the likelihood of Bernoulli trials with the rates of
    both sides, within two windows.
    """
    begin, hit, end = bounds
    rates = [min(max(float(far[a:b].mean()), 1e-6), 0.5) for a, b in ((begin, hit), (hit, end))]
    first, last = max(begin, hit - 2), min(end, hit + 2)
    part = far[first:last].reshape(-1)
    before, after = (np.where(part, -math.log(r), -math.log1p(-r)) for r in rates)
    place = first * width + int(np.argmin(np.concatenate([[0.0], np.cumsum(before - after)])))
    return min(max(place, begin * width + 1), end * width - 1)
