"""Settings of a database's queries that were asked in turn: each against the first.

The rule is that of `fathom sql` (`fathom-core/query/sweep.rs`): of the ratio of a setting's time to the first
one's in the same round, the median (on the scale of logarithms) with the order-statistic interval
(`stats.runs.median_of_runs`), at a level that makes the settings of a sweep one family (Bonferroni). The unit
is a round where the settings share a session. Where each has connections of its own, of which one is not like
another, it is what lies between two logins, as the median of its rounds. Where a path has runs enough, a run
is the unit, as in every comparison (docs/statistics.md); of several, but fewer, the units of all are taken
together, and the interval is no narrower than what the runs differ by among themselves allows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset.queries import Queries
from fathometer.findings.databases import setting_words, words_of
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of
from fathometer.stats.family import ratio_of
from fathometer.stats.results import LEVEL, Estimate, Interval
from fathometer.stats.rollup import rollup_estimates
from fathometer.stats.runs import RUNS_TO_COMPARE, few_runs, median_of_runs
from fathometer.stats.series import from_series

Verdict = Literal["slower", "faster", "no difference shown", "cannot be decided"]
Basis = Literal["rounds", "logins", "runs"]
_SAME: Final = ("protocol", "database", "source", "think_ns", "simple", "settings", "encrypted")
"""What of a run's settings makes its sweep another one."""


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """One setting over one path, all runs together."""

    words: str
    asked: Queries
    """Of the first run, for what was asked."""
    counted: int
    """Queries that the figures are of."""
    wall: Estimate
    """Its median, ns."""
    ratio: Estimate | None
    """Of its time to the first setting's; None: it is the first."""
    basis: Basis
    verdict: Verdict


@dataclass(frozen=True, slots=True, eq=False)
class QuerySweep:
    """Settings of one query over one path."""

    path: str
    asked: str
    ids: tuple[str, ...]
    """Of its recordings."""
    each: tuple[Swept, ...]


@lru_cache(maxsize=1)
def sweeps(scenarios: tuple[Scenario, ...]) -> tuple[QuerySweep, ...]:
    """Of each path and query."""
    groups: dict[tuple[str, str], list[tuple[str, Queries]]] = {}
    for scenario, recording in recordings_of(scenarios):
        queries = recording.queries
        if queries is not None and len(queries.by_setting()) > 1:
            shape = json.dumps({n: queries.asked.get(n) for n in _SAME}, sort_keys=True)
            groups.setdefault((scenario.name, shape), []).append((recording.manifest.id, queries))
    return tuple(_sweep(path, runs) for (path, _), runs in sorted(groups.items()))


def _sweep(path: str, runs: Sequence[tuple[str, Queries]]) -> QuerySweep:
    runs = sorted(runs, key=lambda run: int(run[1].started_ns[0]) if run[1].number else 0)
    split = [queries.by_setting() for _, queries in runs]
    number = len(split[0])
    level = 1 - (1 - LEVEL) / (number - 1)
    unit: Basis = "logins" if _has_own_sessions(split[0][0]) else "rounds"
    each = []
    for at in range(number):
        mine = [one[at] for one in split]
        wall = np.concatenate([q.wall_ns[q.counted] for q in mine]).astype(np.float64)
        (median,) = rollup_estimates(from_series(wall), (0.5,))
        ratio, basis = ratio_of_units([of_units(one[0], one[at], number) for one in split], level, unit)
        words = setting_words(mine[0].asked)
        none = at == 0
        each.append(
            Swept(
                words,
                mine[0],
                len(wall),
                median,
                None if none else ratio,
                basis,
                verdict_of(None if none else ratio),
            )
        )
    whole = {**runs[0][1].asked, "fetch_size": None, "packet_size": None}
    return QuerySweep(path, words_of(whole), tuple(i for i, _ in runs), tuple(each))


def _has_own_sessions(of_setting: Queries) -> bool:
    """Sizes of packets have a connection each, because the login agrees on them."""
    return isinstance(of_setting.asked.get("packet_size"), dict)


def of_units(first: Queries, other: Queries, settings: int) -> NDArray[np.float64]:
    """The ratio of the two times in each unit: a round that has both, or all such rounds between two logins.
    The first round, and the first of a login, finds nothing warm and has none.
    """
    a, b = (q.ordinals[_warm(q)] // settings for q in (first, other))
    _, of_a, of_b = np.intersect1d(a, b, return_indices=True)
    x, y = (
        np.maximum(q.wall_ns[_warm(q)][at], 1).astype(np.float64) for q, at in ((first, of_a), (other, of_b))
    )
    ratios = np.asarray(y / x, dtype=np.float64)
    if not _has_own_sessions(other):
        return ratios
    logins = other.logins[_warm(other)][of_b]
    return np.array([_middle(ratios[logins == n]) for n in np.unique(logins)])


def _middle(ratios: NDArray[np.float64]) -> float:
    """The median on the scale of logarithms, as the summary of a recording has it."""
    return float(np.exp(np.median(np.log(ratios))))


def _median_ratio(ratios: NDArray[np.float64], level: float) -> Estimate:
    of_logs = median_of_runs(np.log(ratios), level)
    ends = of_logs.interval
    within = None if ends is None else Interval(math.exp(ends.low), math.exp(ends.high), ends.level)
    return replace(of_logs, value=math.exp(of_logs.value), interval=within)


def _warm(q: Queries) -> NDArray[np.bool_]:
    return np.asarray(q.counted & ~q.first, dtype=np.bool_)


def ratio_of_units(
    units: Sequence[NDArray[np.float64]], level: float, unit: Basis = "rounds"
) -> tuple[Estimate, Basis]:
    """The median ratio, of the units of each run."""
    some = [ratios for ratios in units if len(ratios)]
    medians = np.array([_middle(ratios) for ratios in some])
    if len(some) >= RUNS_TO_COMPARE:
        by_run = _median_ratio(medians, level)
        # Many settings ask for more runs than six.
        if by_run.interval is not None:
            return by_run, "runs"
    return _no_surer(_median_ratio(np.concatenate([np.zeros(0), *some]), level), medians, level), unit


def _no_surer(of_units: Estimate, medians: NDArray[np.float64], level: float) -> Estimate:
    """The ratio of one run tells nothing of the next one's: units of several runs do not make up for few."""
    runs = few_runs(np.ones(len(medians)), medians, pairs=True)
    if of_units.interval is None or runs is None:
        return of_units
    own, ends = of_units.interval, runs.at(level).interval
    low, high = min(own.low, ratio_of(ends.low)), max(own.high, ratio_of(ends.high))
    return replace(of_units, interval=Interval(low, high, level))


def verdict_of(ratio: Estimate | None) -> Verdict:
    """Of a setting, as seen from the first."""
    if ratio is None or ratio.interval is None:
        return "cannot be decided"
    if ratio.interval.low > 1:
        return "slower"
    return "faster" if ratio.interval.high < 1 else "no difference shown"
