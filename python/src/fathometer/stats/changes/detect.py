"""One entry for every length of series."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.changes import windows
from fathometer.stats.changes.consolidate import consolidate, margin
from fathometer.stats.changes.model import Change, Examined, Settings, Undecided
from fathometer.stats.changes.states import noise_floor, regimes

Series = NDArray[np.int64] | NDArray[np.float64]


def find_changes(
    rtt_ns: Series, *, at_ns: NDArray[np.int64] | None = None, settings: Settings | None = None
) -> tuple[Change, ...]:
    """Changes of a series of round trips in order of sending.

    `rtt_ns`: nanoseconds (any unit will do; figures come back in it), NaN where never answered. `at_ns`: when
    each was sent, Unix epoch. `examine` says in addition what could not be decided.
    """
    return examine(rtt_ns, at_ns=at_ns, settings=settings).changes


def examine(
    rtt_ns: Series, *, at_ns: NDArray[np.int64] | None = None, settings: Settings | None = None
) -> Examined:
    """`find_changes`, with the questions that the series is too short for."""
    settings = settings or Settings()
    if at_ns is not None and len(at_ns) != len(rtt_ns):
        raise ValueError(
            f"find changes: {len(rtt_ns)} round trips, but {len(at_ns)} times; give one for each"
        )
    given = np.asarray(rtt_ns, dtype=np.float64)
    where = np.flatnonzero(np.isfinite(given))
    rtt = given if len(where) == len(given) else given[where]
    if len(rtt) < settings.fewest:
        reason = f"{len(rtt)} answered samples; {settings.fewest} are needed for a change of level"
        lacking = Undecided("level", len(rtt), settings.fewest, reason)
        return Examined((), (lacking, *too_few_for_tails(len(rtt), settings)))

    if len(rtt) <= settings.precise_longest:
        levels = with_large(rtt, precise_levels(rtt, settings), settings)
    else:
        levels = long_levels(rtt, settings)
    found = [("level", *level) for level in levels]
    undecided = too_few_for_tails(len(rtt), settings)
    if not undecided:
        tails = windows.tail_changes(rtt, [level[0] for level in levels], settings)
        found += [("tail", *tail) for tail in tails]
    found.sort()
    changes = tuple(
        Change(
            index=int(where[index]),
            at_ns=None if at_ns is None else int(at_ns[where[index]]),
            kind="level" if kind == "level" else "tail",
            before_ns=before,
            after_ns=after,
            confidence=1 - 1 / (2 * max(1.0, passed)),
        )
        for kind, index, passed, before, after in sorted(found, key=lambda f: (f[1], f[0]))
    )
    return Examined(changes, undecided)


def precise_levels(rtt: NDArray[np.float64], settings: Settings) -> list[tuple[int, float, float, float]]:
    """Every sample a possible change: index, margin, level before and after."""
    noise = noise_floor(rtt)
    if noise <= 0:
        return []
    segments = consolidate(rtt, regimes(rtt, noise, settings), noise, settings)
    return [
        (after.first, margin(segments, at, noise, settings), before.middle, after.middle)
        for at, (before, after) in enumerate(pairwise(segments))
    ]


def with_large(
    rtt: NDArray[np.float64], precise: list[tuple[int, float, float, float]], settings: Settings
) -> list[tuple[int, float, float, float]]:
    """What is found sample by sample, and large lasting changes that stand out of noisy samples only by their
    mean.
    """
    if len(rtt) < settings.fewest_large:
        return precise
    wide = replace(settings, windows=len(rtt) // settings.large_window)
    far = [
        level
        for level in long_levels(rtt, wide)
        if abs(level[3] / level[2] - 1) >= settings.large_relative
        and all(abs(level[0] - other[0]) > 2 * settings.large_window for other in precise)
    ]
    if not far:
        return precise
    together = sorted(
        [*((at, passed) for at, passed, *_ in precise), *((at, passed) for at, passed, *_ in far)]
    )
    edges = [0, *(at for at, _ in together), len(rtt)]
    middles = [float(np.median(rtt[a:b])) for a, b in pairwise(edges)]
    return [(at, passed, a, b) for (at, passed), (a, b) in zip(together, pairwise(middles), strict=True)]


def long_levels(rtt: NDArray[np.float64], settings: Settings) -> list[tuple[int, float, float, float]]:
    """The same by windows."""
    found = windows.level_changes(rtt, settings)
    edges = [0, *(index for index, _ in found), len(rtt)]
    middles = [float(np.median(rtt[a:b])) for a, b in pairwise(edges)]
    return [
        (index, passed, before, after)
        for (index, passed), (before, after) in zip(found, pairwise(middles), strict=True)
    ]


def too_few_for_tails(count: int, settings: Settings) -> tuple[Undecided, ...]:
    """Whether tail events are too few to decide about, which is an answer of its own."""
    needed = settings.fewest_tail_windows * settings.tail_events_a_window
    events = int(count * (1 - settings.tail_quantile))
    if count // windows.tail_width(count, settings) >= settings.fewest_tail_windows:
        return ()
    reason = (
        f"too few tail events: {count} samples have about {events} above their p"
        f"{settings.tail_quantile * 100:g}, and {needed} are needed to tell a change of tail from chance"
    )
    return (Undecided("tail", events, needed, reason),)
