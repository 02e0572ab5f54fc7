"""Goals of the reader's own (`--slo "p99<2ms"`): parsed, and held against every path. docs/report.md has the
grammar.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, NoReturn

from fathometer.errors import ExitCode, FathometerError
from fathometer.findings.model import Scenario
from fathometer.findings.words import count, duration
from fathometer.stats.quantiles import share_ends
from fathometer.stats.results import Interval

FIGURES: Final = {
    "mean": "mean",
    "median": "p50",
    "p50": "p50",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p99_9",
    "p99.99": "p99_99",
    "max": "max",
}
"""Metrics that are durations: as they are written, and what a scenario calls them."""
SHARES: Final = ("availability", "loss")
_NS: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}
_FORM: Final = re.compile(
    r"(?:(?P<path>.+):)?\s*(?P<metric>[A-Za-z][A-Za-z0-9_.]*)\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|[A-Za-zµμ]*)"
)
_HOLDS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_EXAMPLE: Final = 'write it as "p99<2ms", "availability>99.9%" or "cross-*: p99<3ms"'
RARE: Final = 3.0
"""Samples that break a limit which must be expected before none of them says anything ("rule of three": with
3 expected and none seen, the limit is kept with 95 % confidence)."""

Status = Literal["met", "not met", "cannot be decided"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit for one figure of the paths whose names match."""

    text: str
    """As it was given."""
    path: str
    """A pattern as of a shell; `*`: every path that is not loaded on purpose."""
    metric: str
    sign: str
    limit: float
    """ns, or a share of 1."""

    @property
    def name(self) -> str:
        """Without the pattern: `p99 < 2.00 ms`."""
        sign = {"<=": "≤", ">=": "≥"}.get(self.sign, self.sign)
        limit = f"{100 * self.limit:.10g} %" if self.metric in SHARES else duration(self.limit)
        return f"{self.metric} {sign} {limit}"

    def shown(self, value: float) -> str:
        """A value of its metric in words."""
        return percent(value) if self.metric in SHARES else duration(value)

    def holds(self, value: float) -> bool:
        """Whether a value keeps the limit."""
        # 1 - 0.001 is not quite 0.999 in binary; a sample in a million million is nothing.
        places = 12 if self.metric in SHARES else 0
        return bool(_HOLDS[self.sign](round(value, places), round(self.limit, places)))

    def concerns(self, scenario: Scenario) -> bool:
        """Whether this path is asked for. One without samples is, unless it was to have none."""
        if not scenario.due and any(run.recording.throughput for run in scenario.runs):
            return False
        if self.path == "*":
            return not scenario.key.under_load
        return any(fnmatchcase(name, self.path) for name in (scenario.name, scenario.key.label))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a goal comes to on one path."""

    goal: Goal
    path: str
    status: Status
    value: float | None
    """None: the samples cannot support it."""
    sure: bool
    """Whether the figure's whole interval is on the same side of the limit."""
    reason: str
    """What makes it unsure or undecided; empty: nothing."""


def percent(value: float) -> str:
    """A share of 1 with as many digits as tell it from 100 %."""
    digits = (
        1 if value in {0.0, 1.0} else min(max(1, 1 - math.floor(math.log10(min(value, 1 - value)) + 2)), 6)
    )
    return f"{100 * value:.{digits}f} %"


def parsed(text: str) -> Goal:
    """A goal from the command line; what cannot be one is an error that says how to write it."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        _refuse(text, "is not PATH:METRIC<VALUE", _EXAMPLE)
    metric, sign, number, unit = (match[name] for name in ("metric", "sign", "number", "unit"))
    metric = metric.lower().replace("_", ".")
    if metric not in FIGURES and metric not in SHARES:
        known = ", ".join([*FIGURES, *SHARES])
        _refuse(text, f"names {metric!r}, which is no figure of a report", f"name one of {known}")
    floor = metric == "availability"
    if sign.startswith(">") != floor:
        way = "above" if floor else "below"
        _refuse(
            text, f"limits {metric} from the wrong side", f"{metric} is to stay {way} its limit: {_EXAMPLE}"
        )
    if metric in SHARES:
        if unit != "%" or float(number) > 100:
            _refuse(text, f"gives {metric} in {unit or 'no unit'}", f"give {metric} in percent, up to 100%")
        limit = round(float(number) / 100, 12)
    elif unit in _NS:
        limit = float(number) * _NS[unit]
    else:
        _refuse(text, f"gives {metric} in {unit or 'no unit'}", "give a duration in ns, us, ms, s or min")
    return Goal(text.strip(), (match["path"] or "*").strip(), metric, sign, limit)


def _refuse(text: str, wrong: str, remedy: str) -> NoReturn:
    raise FathometerError("report", f"--slo {text!r} {wrong}", remedy, exit_code=ExitCode.USAGE)


def judged(
    goals: Sequence[Goal], scenarios: Sequence[Scenario], refused: Sequence[FathometerError] = ()
) -> tuple[Outcome, ...]:
    """Every goal on every path that it concerns; a goal that concerns none is an error.

    `refused`: recordings that cannot be opened. Any goal may be of them, so none is met by the others alone.
    """
    outcomes: list[Outcome] = []
    for goal in goals:
        concerned = [s for s in scenarios if goal.concerns(s)]
        if not concerned and not refused:
            names = ", ".join(sorted({s.key.label for s in scenarios})[:5]) or "there is none"
            _refuse(goal.text, "concerns no path of these recordings", f"paths are: {names}")
        outcomes += [_of_readable(_outcome(goal, scenario), scenario) for scenario in concerned]
        outcomes += [_undecided(goal, "a recording that was left out", error.object) for error in refused]
    return tuple(outcomes)


def _undecided(goal: Goal, path: str, reason: str) -> Outcome:
    return Outcome(goal, path, "cannot be decided", None, False, reason)


def _of_readable(outcome: Outcome, scenario: Scenario) -> Outcome:
    """What a part of a recording misses is missed; what it meets says nothing of the part that is lost."""
    broken = [(run.recording.directory.name, d) for run in scenario.runs for d in run.recording.broken]
    if not broken or outcome.status == "not met":
        return outcome
    name, first = broken[0]
    others = f", and {count(len(broken) - 1, 'other part')}" if len(broken) > 1 else ""
    return _undecided(outcome.goal, outcome.path, f"{name} is damaged ({first.file}: {first.reason}{others})")


def _outcome(goal: Goal, scenario: Scenario) -> Outcome:
    if goal.metric in SHARES:
        return _of_share(goal, scenario)
    if goal.metric == "max":
        return _of_max(goal, scenario)
    if not scenario.due:
        return _undecided(goal, scenario.name, "no sample of it is there")
    estimate = scenario.figure(FIGURES[goal.metric])
    if not estimate.shown:
        few = f"{count(scenario.rtt.count, 'answered sample')}: too few for {goal.metric}"
        return _undecided(goal, scenario.name, few)
    status: Status = "met" if goal.holds(estimate.value) else "not met"
    interval = estimate.interval
    if interval is None:
        return Outcome(goal, scenario.name, status, estimate.value, False, "its interval is not known")
    sure = goal.holds(interval.low) == goal.holds(interval.high)
    reason = "" if sure else f"its 95 % interval, {_ends(interval)}, reaches across the limit"
    return Outcome(goal, scenario.name, status, estimate.value, sure, reason)


def _ends(interval: Interval) -> str:
    return f"{duration(max(interval.low, 0.0))} to {duration(interval.high)}"


def _of_max(goal: Goal, scenario: Scenario) -> Outcome:
    largest = scenario.rtt.max_ns
    if largest is None:
        return _undecided(goal, scenario.name, "no sample was answered")
    return Outcome(goal, scenario.name, "met" if goal.holds(largest) else "not met", largest, True, "")


def _of_share(goal: Goal, scenario: Scenario) -> Outcome:
    """Availability is of the samples that were due, loss of those that were sent; nothing is said beyond
    them, but whether they are enough to be sure.
    """
    if goal.metric == "availability":
        behind, value = scenario.due, scenario.availability
    else:
        behind = scenario.sent
        value = scenario.lost / behind if behind else None
    if value is None:
        return _undecided(goal, scenario.name, "nothing was sent")
    status: Status = "met" if goal.holds(value) else "not met"
    broken = 1 - value if goal.metric == "availability" else value
    ends = share_ends(broken * behind * scenario.worth, behind * scenario.worth)
    far = ends[1 if status == "met" else 0]
    sure = goal.holds(1 - far if goal.metric == "availability" else far) == (status == "met")
    return Outcome(goal, scenario.name, status, value, sure, "" if sure else _few(goal, behind, broken, far))


def _few(goal: Goal, behind: int, broken: float, far: float) -> str:
    """Why a share is not sure. `far`: how many there may as well be that break the limit."""
    if broken:
        kind = "not answered" if goal.metric == "availability" else "lost"
        return f"{count(behind, 'sample')} do not rule out that {percent(far)} are {kind}"
    allowed = 1 - goal.limit if goal.metric == "availability" else goal.limit
    needed = f"{math.ceil(RARE / allowed - 1e-6):,} are" if allowed > 0 else "no number is"
    return f"{count(behind, 'sample')}; {needed} needed to be sure"
