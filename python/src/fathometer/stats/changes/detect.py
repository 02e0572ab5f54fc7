"""The one entry, for every length of series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fathometer.counts import count
from fathometer.stats.changes.levels import level_changes
from fathometer.stats.changes.model import Change, Examined, Settings, Undecided, confidence_of
from fathometer.stats.changes.tails import tail_changes, too_few_for_tails

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
            f"find changes: {count(len(rtt_ns), 'round trip')}, but {count(len(at_ns), 'time')}; "
            "give one for each"
        )
    given = np.asarray(rtt_ns, dtype=np.float64)
    where = np.flatnonzero(np.isfinite(given))
    rtt = given if len(where) == len(given) else given[where]
    undecided = too_few_for_tails(len(rtt), settings)
    if len(rtt) < settings.fewest:
        reason = f"{count(len(rtt), 'answered sample')}; {settings.fewest} are needed for a change of level"
        return Examined((), (Undecided("level", len(rtt), settings.fewest, reason), *undecided))

    changes = [
        Change(
            index=int(where[level.at]),
            at_ns=None if at_ns is None else int(at_ns[where[level.at]]),
            kind="level",
            before_ns=level.before,
            after_ns=level.after,
            confidence=confidence_of(level.margin),
        )
        for level in level_changes(rtt, settings)
    ]
    if not undecided:
        changes += [
            Change(
                index=int(where[tail.at]),
                at_ns=None if at_ns is None else int(at_ns[where[tail.at]]),
                kind="tail",
                before_ns=tail.before,
                after_ns=tail.after,
                confidence=confidence_of(tail.margin),
            )
            for tail in tail_changes(rtt, settings)
        ]
    return Examined(tuple(sorted(changes, key=lambda c: (c.index, c.kind))), undecided)
