"""The five rules of the SQL Server article ("Don't assume ..."), held against what a study of days saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.counts import count
from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.verdicts import of_rhythm
from fathometer.findings.words import duration, listed, times
from fathometer.stats.calendar import HOUR_NS, Rhythm
from fathometer.stats.family import MATTERS
from fathometer.stats.runs import ENOUGH, RUNS_TO_COMPARE, few_runs

Holds = Literal["differs", "no difference shown", "cannot be decided"]
"""Of what the rule says not to take for granted."""


@dataclass(frozen=True, slots=True)
class RuleHeld:
    """One rule."""

    rule: str
    holds: Holds
    words: str


def answers(analysis: Analysis) -> list[RuleHeld]:
    """Empty where no path was measured over a day's hours again and again."""
    paths = [s for s in analysis.scenarios if s.calendar is not None and len(s.runs) >= ENOUGH]
    if not paths:
        return []
    return [
        _places(analysis, paths),
        _weekend(paths),
        _over_time(analysis, paths),
        _hours(paths),
        _runs(paths),
    ]


def _places(analysis: Analysis, paths: list[Scenario]) -> RuleHeld:
    rule = "all places perform alike"
    names = {s.name for s in paths}
    among = [v for v in analysis.comparisons if {v.a, v.b} <= names]
    if not among:
        return RuleHeld(rule, "cannot be decided", "one path was measured")
    differ = sorted((v for v in among if v.headline.differs), key=lambda v: -v.headline.ratio)
    if differ:
        most = differ[0]
        words = f"{len(differ)} of {count(len(among), 'pair')} differ, the most {most.b} from {most.a}: "
        return RuleHeld(rule, "differs", words + times(most.headline.ratio))
    if all(not v.headline.decided for v in among):
        return RuleHeld(rule, "cannot be decided", "no pair of paths can be compared")
    return RuleHeld(rule, "no difference shown", f"in {count(len(among), 'pair')}")


def _weekend(paths: list[Scenario]) -> RuleHeld:
    said = [(s, s.calendar.of_week) for s in paths if s.calendar]
    told = [f"{s.name}: {_rhythm(r)}{_days(s) if _matters(r) else ''}" for s, r in said]
    return RuleHeld(
        "weekends are quieter", _holds([(r.p_value, _matters(r)) for _, r in said]), "; ".join(told)
    )


def _matters(rhythm: Rhythm) -> bool:
    return rhythm.shown and (rhythm.swing is None or rhythm.swing >= MATTERS)


def _rhythm(rhythm: Rhythm) -> str:
    if rhythm.shown and not _matters(rhythm):
        return f"none that matters ({100 * (rhythm.swing or 0):.1f} % apart)"
    return of_rhythm(rhythm)


def _days(scenario: Scenario) -> str:
    """The level of Saturday and Sunday against that of the other days."""
    if scenario.calendar is None:
        return ""
    cell = scenario.calendar.cell
    off, on = cell[5:][~np.isnan(cell[5:])], cell[:5][~np.isnan(cell[:5])]
    if not len(off) or not len(on):
        return ""
    both = tuple(duration(float(np.median(x))) for x in (off, on))
    return f", weekend {both[0]}, other days {both[1]} in the median of their hours"


def _over_time(analysis: Analysis, paths: list[Scenario]) -> RuleHeld:
    names = {s.name for s in paths}
    moved = [m for m in analysis.changes if m.scenario in names]
    if moved:
        where = listed(sorted({m.scenario for m in moved}), 4)
        return RuleHeld("it stays the same", "differs", f"{count(len(moved), 'change')}: {where}")
    # Runs of a minute are too short for a change within them: the days of the first half against the others.
    told, decided = [], []
    for s in paths:
        days = _of_days(s)
        if len(days) < 2 * RUNS_TO_COMPARE:
            continue
        spread = few_runs(days[: len(days) // 2], days[len(days) // 2 :], pairs=False)
        if spread is not None:
            test = spread.at()
            decided.append((test.p_value, test.p_value < 0.05 / len(paths) and abs(test.middle) > MATTERS))
            told.append(
                f"{s.name}: second half {times(math.exp(test.middle))} the first (p = {test.p_value:.3f})"
            )
    few = f"fewer than {count(2 * RUNS_TO_COMPARE, 'day')} were measured"
    return RuleHeld("it stays the same", _holds(decided), "; ".join(told) or few)


def _of_days(scenario: Scenario) -> NDArray[np.float64]:
    """The median of the runs' medians, one a day (UTC): runs of one day resemble each other."""
    by_day: dict[int, list[float]] = {}
    for run in scenario.runs:
        if (figure := run.figures_ns.get("p50")) is not None:
            by_day.setdefault(run.recording.manifest.started_ns // (24 * HOUR_NS), []).append(figure)
    return np.array([float(np.median(of)) for _, of in sorted(by_day.items())])


def _hours(paths: list[Scenario]) -> RuleHeld:
    said = [(s, s.calendar.of_day) for s in paths if s.calendar]
    told = [f"{s.name}: {_rhythm(r)}" for s, r in said]
    return RuleHeld(
        "all hours are alike", _holds([(r.p_value, _matters(r)) for _, r in said]), "; ".join(told)
    )


def _runs(paths: list[Scenario]) -> RuleHeld:
    """What one run would have said: how far runs lie from their median."""
    told, wide = [], False
    for s in paths:
        runs = np.array([run.figures_ns["p95"] for run in s.runs if "p95" in run.figures_ns])
        if len(runs) < ENOUGH or s.worst is None:
            continue
        middle = float(np.median(runs))
        share = float(np.mean(np.abs(runs / middle - 1) > MATTERS)) if middle else 0.0
        wide = wide or share > _OFTEN
        told.append(
            f"{s.name}: {100 * share:.0f} % of {count(len(runs), 'run')} have a p95 more than 5 % from their "
            f"median ({duration(middle)}); 95 % of runs are at or below {duration(s.worst.p95)}"
        )
    if not told:
        return RuleHeld("one run is enough", "cannot be decided", "runs have too few samples for a p95")
    return RuleHeld("one run is enough", "differs" if wide else "no difference shown", "; ".join(told))


_OFTEN = 0.05
"""A run may be taken for all of them where 19 of 20 would have said the same."""


def _holds(said: Sequence[tuple[float | None, bool]]) -> Holds:
    if any(shown for _, shown in said):
        return "differs"
    return "no difference shown" if any(p is not None for p, _ in said) else "cannot be decided"
