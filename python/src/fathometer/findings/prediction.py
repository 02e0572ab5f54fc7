"""How long a query of one path would take over another: its round trips, and how the answers are sent.

N round trips cost N times what the other path's is longer. What the query took beyond them stays, and an
answer of many segments takes longer over a longer round trip: windows that have shut while the connection was
idle grow anew, and a sender that paces spreads an answer over a part of the round trip. Nobody but the
server knows which of them it is. What is told is that of windows, which the default of most kernels (CUBIC)
has; the interval takes in both (docs/databases.md; the laws: windows.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.histogram import Histogram
from fathometer.dataset.queries import NEVER, Queries
from fathometer.findings import windows
from fathometer.findings.databases import Asked, databases
from fathometer.findings.in_a_row import excess
from fathometer.findings.model import Scenario
from fathometer.findings.windows import Floats
from fathometer.stats.results import TOO_NARROW, Estimate, Interval
from fathometer.stats.rollup import rollup_estimates
from fathometer.stats.runs import median_of_runs
from fathometer.stats.series import from_series

MOST: Final = 100
"""Predictions that a report has at most."""
SAVES: Final = 0.1
"""Of the time: what fetching at once would save, to be worth saying."""
_MODES: Final = ("tcp", "connect")
"""Whose round trips are those of a path."""
_HALF: Final = 0.5
"""Of what a paced sender takes: answers that came faster were not paced."""
_SHAKY: Final = 3.0
"""So many times as wide an interval that may be too narrow is taken to be."""
_WAKE_NS: Final = 100e3
"""By so much a round trip of a query may differ from one of an echo or a set-up: each has wake-ups of two
processes of its own, some tens of µs each."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The median of a query's time over a path."""

    ns: float
    low_ns: float | None
    high_ns: float | None
    """Its interval: 95 % of both medians that it is made of, and whatever the server's windows may do. Where
    a path carries bytes more slowly or loses some it is not that of what will be measured. None: one of the
    medians has none, or nobody knows how long the answers are."""
    turns: int
    """Round trips, in the median."""
    at_once_ns: float | None
    """The same in one round trip, where that would save time worth saying."""
    is_doubtful: bool
    """The interval of one of the medians may be too narrow."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A query of one path over another."""

    path: str
    asked: str
    other: str
    other_rtt_ns: float
    predicted: Predicted
    measured: Estimate | None
    """The median of the same query there; None: it was not asked there."""
    within: Interval | None
    """Its interval, by ranks where there are too few queries for blocks; None: it has none."""
    is_shaky: bool
    """That may be too narrow."""

    @property
    def beyond(self) -> Literal["slower", "faster"] | None:
        """The interval of what was measured lies outside the prediction's: more than the round trips differs.
        An interval that may be too narrow counts for three times as wide. None: it does not, or one of them
        has none.
        """
        at, there, measured = self.predicted, self.within, self.measured
        if there is None or measured is None or at.low_ns is None or at.high_ns is None:
            return None
        wider, further = (_SHAKY if of else 1.0 for of in (self.is_shaky, at.is_doubtful))
        if measured.value - wider * (measured.value - there.low) > at.ns + further * (at.high_ns - at.ns):
            return "slower"
        below = measured.value + wider * (there.high - measured.value) < at.ns - further * (at.ns - at.low_ns)
        return "faster" if below else None


@dataclass(frozen=True, slots=True)
class _Answers:
    """What is known of queries, an element each; times in ns."""

    turns: Floats
    own_ns: Floats
    """The path's round trip."""
    first_ns: Floats
    """What the server took to its first row."""
    made_ns: Floats
    """Of each turn: making, carrying and working on the rest of its answer."""
    open_ns: Floats
    """What of that may have been the path's."""
    segments: Floats
    """Of each turn."""
    idle_ns: Floats
    """The server had sent nothing for so long, beyond a round trip, before the first turn's answer."""
    between_ns: Floats
    """The same of the later turns."""
    scheduled: NDArray[np.bool_]
    """The next one begins at its time, however long this one takes."""

    def at_once(self) -> _Answers:
        """The same in one turn each."""
        times = self.turns
        return _Answers(
            np.ones_like(times),
            self.own_ns,
            self.first_ns,
            self.made_ns * times,
            self.open_ns * times,
            self.segments * times,
            self.idle_ns,
            self.between_ns,
            self.scheduled,
        )

    def idle_over(self, rtt_ns: float) -> Floats:
        """Over a path of such round trips."""
        longer = np.where(self.scheduled, self.turns * (rtt_ns - self.own_ns), 0.0)
        return np.where(self.idle_ns >= NEVER, self.idle_ns, np.maximum(self.idle_ns - longer, 0.0))

    def walls(self, rtt_ns: float, sends: _Sends) -> Floats:
        """Over a path of such round trips; `sends`: what an answer takes from its first segment on."""
        streams = sends(self, rtt_ns, self.idle_over(rtt_ns)) + (self.turns - 1) * sends(
            self, rtt_ns, self.between_ns
        )
        return self.turns * rtt_ns + self.first_ns + streams


_Sends = Callable[[_Answers, float, Floats], Floats]
"""Of the answers, over such round trips, after the connection has been idle for so long."""


def _windowed(a: _Answers, rtt_ns: float, idle_ns: Floats) -> Floats:
    """A sender whose windows shut while it is idle, as RFC 5681 and Linux have it."""
    windows_here = windows.restarted(a.segments, idle_ns + a.own_ns, a.own_ns)
    here = windows.windowed(a.segments, np.zeros_like(idle_ns), a.own_ns, windows_here, windows.DOUBLES)
    made = a.made_ns - np.minimum(a.open_ns, here)
    window = windows.restarted(a.segments, idle_ns + rtt_ns, rtt_ns)
    return windows.windowed(a.segments, made, rtt_ns, window, windows.DOUBLES)


def _fastest(a: _Answers, _: float, __: Floats) -> Floats:
    """Windows that do not shut, and a path that carries the bytes at once."""
    return a.made_ns - a.open_ns


def _slowest(a: _Answers, rtt_ns: float, idle_ns: Floats, *, paces: bool = True) -> Floats:
    """Windows that shut whenever they may, grow slowly, and a server that waits with its rows for them; or a
    slow pace.
    """
    nothing = np.zeros_like(idle_ns)
    may_shut = idle_ns > windows.RTO_MIN_NS
    window = np.where(may_shut, float(windows.INITIAL), a.segments)
    waits = windows.windowed(a.segments, nothing, rtt_ns, window, windows.DELAYED)
    if paces:
        waits = np.maximum(waits, windows.paced(a.segments, nothing, rtt_ns, windows.PACES_SLOWLY))
    return a.made_ns + waits


def _slowest_unpaced(a: _Answers, rtt_ns: float, idle_ns: Floats) -> Floats:
    return _slowest(a, rtt_ns, idle_ns, paces=False)


def predict(
    runs: Sequence[Queries], rtt: Estimate, here: Histogram | None = None, there: Histogram | None = None
) -> Predicted | None:
    """Over a path of such round trips (their median, ns); None: nothing is known of the query's own. `here`
    and `there`: all round trips of either path, by which several in a row take longer than so many medians.
    """
    number = _turns(runs)
    answers = _answers(runs, excess(here, number))
    if answers is None or math.isnan(rtt.value):
        return None
    rtt = _moved(rtt, excess(there, number))
    median = _median(answers.walls(rtt.value, _windowed))
    ns = median.value
    low = high = None
    if median.interval is not None and rtt.interval is not None and answers.segments.all():
        slowest = _slowest_unpaced if _too_fast(answers) else _slowest
        low = max(_end(answers, rtt.value, rtt.interval, _fastest, -1), 0.0)
        high = _end(answers, rtt.value, rtt.interval, slowest, 1)
    at_once = None
    if number > 2:
        once = _median(answers.at_once().walls(rtt.value, _windowed)).value
        at_once = once if ns - once >= SAVES * ns else None
    return Predicted(ns, low, high, number, at_once, _is_narrow(median) or _is_narrow(rtt))


def _is_narrow(estimate: Estimate) -> bool:
    return estimate.doubt is not None and estimate.doubt.code in TOO_NARROW


def _moved(estimate: Estimate, by: float) -> Estimate:
    ends = estimate.interval
    moved = None if ends is None else Interval(ends.low + by, ends.high + by, ends.level)
    return replace(estimate, value=estimate.value + by, interval=moved)


def _end(answers: _Answers, rtt_ns: float, rtt: Interval, sends: _Sends, side: int) -> float:
    """An end of the interval. What two medians may be off by chance adds up as independent errors do; what a
    round trip of a query always differs by is none, and adds to it.
    """
    at = _median(answers.walls(rtt_ns, sends))

    def further(*rtts: float) -> float:
        # Longer round trips may make less of it: windows shut after a rest that is then shorter.
        walls = (_median(answers.walls(max(other, 0.0), sends)).value for other in rtts)
        return max(0.0, *(side * (wall - at.value) for wall in walls))

    ends = at.interval
    of_walls = 0.0 if ends is None else (ends.high if side > 0 else ends.low) - at.value
    by_chance = math.hypot(further(rtt.low, rtt.high), of_walls)
    return at.value + side * (by_chance + further(rtt_ns - _WAKE_NS, rtt_ns + _WAKE_NS))


def _turns(runs: Sequence[Queries]) -> int:
    """Of those that are reckoned with, in the median."""
    turns = [np.maximum(q.turns[_known(q)], 1) for q in runs]
    return int(np.median(np.concatenate(turns))) if sum(map(len, turns)) else 0


def _known(q: Queries) -> NDArray[np.bool_]:
    return q.counted & (q.rtt_ns > 0)


def _too_fast(answers: _Answers) -> bool:
    """Whether the answers surely came faster than a sender that paces sends them."""
    spread = windows.paced(answers.segments, np.zeros_like(answers.turns), answers.own_ns, windows.PACES)
    # Where several rows came at once the first one was told of when all were there.
    took = _median(answers.made_ns + answers.first_ns / answers.turns)
    return took.interval is not None and took.interval.high + _WAKE_NS < _HALF * float(np.median(spread))


def _answers(runs: Sequence[Queries], excess_ns: float) -> _Answers | None:
    """Those that count, of which a round trip is known, which takes so much longer in a row of theirs; None:
    there are none.
    """
    every = [_of(q, _known(q), excess_ns) for q in runs]
    if not sum(len(one.turns) for one in every):
        return None
    return _Answers(*(np.concatenate(each) for each in zip(*map(_fields, every), strict=True)))


def _fields(a: _Answers) -> tuple[NDArray[np.generic], ...]:
    return (
        a.turns,
        a.own_ns,
        a.first_ns,
        a.made_ns,
        a.open_ns,
        a.segments,
        a.idle_ns,
        a.between_ns,
        a.scheduled,
    )


def _of(q: Queries, known: NDArray[np.bool_], excess_ns: float) -> _Answers:
    def column(values: NDArray[np.int64]) -> Floats:
        return values[known].astype(np.float64)

    turns, own = np.maximum(column(q.turns), 1.0), column(q.rtt_ns) + excess_ns
    # What looks shorter than its round trips had some that were shorter than those beside it.
    rest = np.maximum(column(q.wall_ns) - turns * own, 0.0)
    first_row = column(q.first_row_ns)
    first = np.where(first_row > 0, np.clip(first_row - own, 0.0, rest), rest)
    paths = np.clip(column(q.high_ns["path"]) - turns * own, 0.0, rest - first)
    by_bytes = np.ceil(column(q.bytes_received) / turns / windows.SEGMENT_BYTES)
    idle = column(q.idle_ns)
    every = q.asked.get("every_ns")
    return _Answers(
        turns=turns,
        own_ns=own,
        first_ns=first,
        made_ns=(rest - first) / turns,
        open_ns=paths / turns,
        # The other path's segments may be no larger than Ethernet's.
        segments=np.maximum(column(q.segments) / turns, by_bytes),
        idle_ns=np.where(idle >= NEVER, idle, idle + first),
        between_ns=(column(q.part_ns["server"]) + column(q.part_ns["client"])) / turns,
        scheduled=np.full(len(turns), isinstance(every, int) and every > 0),
    )


def _median(values: Floats) -> Estimate:
    """With the interval that correlation leaves; of fewer samples that of their ranks."""
    (estimate,) = rollup_estimates(from_series(values), (0.5,))
    return estimate if estimate.interval is not None else median_of_runs(values)


@lru_cache(maxsize=1)
def elsewhere(scenarios: tuple[Scenario, ...]) -> tuple[Elsewhere, ...]:
    """Each query over each other path whose round trip is known."""
    every = databases(scenarios)
    of_path = {s.name: s.rtt for s in scenarios}
    told: list[Elsewhere] = []
    for one in every:
        # What each of several takes at the server, and of a path's rate, depends on how many others are there
        # at that moment, and so on the path: nobody knows it of another.
        if one.each:
            continue
        for other in scenarios:
            if other.name == one.path or other.key.mode not in _MODES or not other.rtt.count:
                continue
            rtt = other.figure("p50")
            predicted = predict(one.runs, rtt, of_path.get(one.path), other.rtt) if rtt.shown else None
            if predicted is not None and len(told) < MOST:
                there = _there(every, one, other.name)
                measured = None if there is None else there.wall["p50"]
                at = None if there is None else _measured(there.runs)
                within, is_shaky = (None, False) if at is None else (at.interval, _is_narrow(at))
                told.append(
                    Elsewhere(
                        one.path, one.asked, other.name, rtt.value, predicted, measured, within, is_shaky
                    )
                )
    return tuple(told)


def _there(every: Sequence[Asked], one: Asked, path: str) -> Asked | None:
    same = (x for x in every if x.path == path and x.shape is not None and x.shape == one.shape and x.counted)
    return next(same, None)


def _measured(runs: Sequence[Queries]) -> Estimate:
    return _median(np.concatenate([q.wall_ns[q.counted].astype(np.float64) for q in runs]))
