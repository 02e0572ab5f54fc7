"""An earlier report (`--baseline REPORT.json`) against this one: what became slower or faster, by the verdict
that comparisons of paths have, too (`stats.family`: Holm over all paths and metrics, and what does not matter
is not told as a difference).

An earlier report has figures with their intervals, and no samples: the interval of a ratio is that of two
independent figures, on a log scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathometer.errors import FathometerError
from fathometer.findings.model import Scenario
from fathometer.stats.family import MATTERS, METRICS, Difference, Metric, judged
from fathometer.stats.results import Estimate, Interval

_OPERATION = "read a baseline"


@dataclass(frozen=True, slots=True)
class EarlierFigure:
    """One figure of the earlier report, ns."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an earlier report said of its paths."""

    file: str
    figures: Mapping[str, Mapping[Metric, EarlierFigure]]
    """By path and metric; those that have an interval."""
    availability: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Since:
    """What a path did since then."""

    path: str
    differences: tuple[Difference, ...]
    """One a metric that both reports have; A is the earlier one."""
    availability: tuple[float, float] | None
    """Then and now."""

    @property
    def slower(self) -> tuple[Difference, ...]:
        """What became worse, surely and so that it matters."""
        return tuple(d for d in self.differences if d.verdict == "slower")

    @property
    def faster(self) -> tuple[Difference, ...]:
        """What became better."""
        return tuple(d for d in self.differences if d.verdict == "faster")


@dataclass(frozen=True, slots=True)
class Drift:
    """This report against an earlier one."""

    file: str
    paths: tuple[Since, ...]
    only_then: tuple[str, ...]
    only_now: tuple[str, ...]


def read(path: Path) -> Baseline:
    """An earlier report's JSON."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FathometerError(
            _OPERATION, f"{path}: {error.strerror}", "name a file that `fathom report --json FILE` wrote"
        ) from None
    except (ValueError, RecursionError):
        raise _foreign(path) from None
    try:
        if report["format"] != 1:
            raise _foreign(path)
        scenarios = {str(s["name"]): s for s in report["scenarios"]}
        return Baseline(
            str(path),
            {name: dict(_figures(s["rtt_ns"])) for name, s in scenarios.items()},
            {n: a for n, s in scenarios.items() if (a := _answered(s)) is not None},
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise _foreign(path) from None


def _foreign(path: Path) -> FathometerError:
    return FathometerError(
        _OPERATION, f"{path} is no report of format 1", "name a file that `fathom report --json FILE` wrote"
    )


def _answered(scenario: Mapping[str, Any]) -> float | None:
    """The share of what was due; a report of before `unsent` knows of what was sent alone."""
    unsent = int(scenario.get("unsent", 0))
    due = scenario["samples"] + unsent
    return 1 - (scenario["unanswered"] + unsent) / due if due else None


def _figures(rtt: Mapping[str, Any]) -> list[tuple[Metric, EarlierFigure]]:
    figures: list[tuple[Metric, EarlierFigure]] = []
    for metric in METRICS:
        given = rtt[metric]
        if given["value"] is not None and given["low"] is not None and given["high"] is not None:
            figures.append((metric, EarlierFigure(*(float(given[k]) for k in ("value", "low", "high")))))
    return figures


def drift(baseline: Baseline, scenarios: Sequence[Scenario], matters: float = MATTERS) -> Drift:
    """Every path that both reports have; all of it is one family of questions."""
    common = [s for s in scenarios if s.name in baseline.figures]
    if not common:
        raise FathometerError(
            _OPERATION,
            f"{baseline.file} has no path of these recordings",
            "paths are the same where their labels and settings are",
        )
    unjudged = [(s, _differences(baseline.figures[s.name], s)) for s in common]
    verdicts = iter(judged([d for _, each in unjudged for d in each], matters))
    paths = tuple(
        Since(s.name, tuple(next(verdicts) for _ in each), _availability(baseline, s)) for s, each in unjudged
    )
    names = {s.name for s in scenarios}
    return Drift(
        baseline.file,
        paths,
        tuple(sorted(set(baseline.figures) - names)),
        tuple(sorted(names - set(baseline.figures))),
    )


def _availability(baseline: Baseline, s: Scenario) -> tuple[float, float] | None:
    then, now = baseline.availability.get(s.name), s.availability
    return None if then is None or now is None else (then, now)


def _differences(then: Mapping[Metric, EarlierFigure], scenario: Scenario) -> list[Difference]:
    pairs = [(m, then[m], scenario.figure(m)) for m in METRICS if m in then]
    return [d for m, a, b in pairs if (d := _difference(m, a, b)) is not None]


def _difference(metric: Metric, a: EarlierFigure, b: Estimate) -> Difference | None:
    """None: one of both has no interval on a log scale."""
    if not b.shown or b.interval is None or min(a.value, a.low, b.value, b.interval.low) <= 0:
        return None
    from scipy.special import ndtr  # Imported late: half a second of a report's start.

    spreads = [math.log(high / low) / (2 * _WIDE) for low, high in ((a.low, a.high), _of(b.interval))]
    spread = math.hypot(*spreads)
    ratio = math.log(b.value / a.value)
    p_value = 2 * float(ndtr(-abs(ratio) / spread)) if spread else float(ratio == 0)
    gap = (b.value - a.value) / ratio if ratio else a.value
    low, high = ratio - _WIDE * spread, ratio + _WIDE * spread
    return Difference(
        metric,
        a.value,
        b.value,
        b.value - a.value,
        Interval(low * gap, high * gap),
        math.exp(ratio),
        Interval(math.exp(low), math.exp(high)),
        p_value,
        "cannot be decided",
        method="two intervals",
    )


_WIDE = 1.959963984540054
"""Standard deviations of a normal distribution on either side of a 95 % interval."""


def _of(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high
