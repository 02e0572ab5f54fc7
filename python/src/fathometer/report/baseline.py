"""An earlier report (`--baseline REPORT.json`) against this one: what became slower or faster, by the verdict
that comparisons of paths have, too (`stats.family`: Holm over all paths and metrics, and what does not matter
is not told as a difference).

An earlier report has figures with their intervals, and no samples: the interval of a ratio is that of two
independent figures, on a log scale. Only paths that were measured alike (mode, size and pace) are compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fathometer.errors import FathometerError
from fathometer.findings.model import Key, Scenario
from fathometer.findings.words import listed
from fathometer.report.losses import Answers, LostShare, answered, lost
from fathometer.stats.blocks import FEWEST
from fathometer.stats.compare import SHAKY
from fathometer.stats.family import MATTERS, METRICS, Difference, Metric, judged
from fathometer.stats.results import LEVEL, TOO_NARROW, Estimate, Interval

_OPERATION = "read a baseline"


@dataclass(frozen=True, slots=True)
class EarlierFigure:
    """One figure of the earlier report, ns."""

    value: float
    low: float
    high: float
    level: float = LEVEL
    freedom: int = FEWEST - 1
    """Degrees of freedom of its interval: a report does not say how many blocks it had, but there were so
    many; of fewer runs theirs."""
    shaky: bool = False
    """Whether the interval is known to be too narrow."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an earlier report said of its paths."""

    file: str
    figures: Mapping[str, Mapping[Metric, EarlierFigure]]
    """By path and metric; those that have an interval."""
    lost: Mapping[str, tuple[int, int]]
    """By path: how many were not answered, and of how many that were due."""
    measured: Mapping[str, Key] = field(default_factory=dict)
    """The measurement settings of each path, as far as the report has them."""


ASPECTS: Final = {"mode": "mode", "size": "size", "pace": "interval_ns"}
"""Settings that must agree before two measurements of a path are compared, and their names in a key."""


@dataclass(frozen=True, slots=True)
class Differs:
    """The reason why a path is not compared: it was measured in another way."""

    aspects: tuple[str, ...]
    """Of `ASPECTS`."""
    then: str
    """The settings in words: `tcp, 64 bytes, one every 1 s`."""
    now: str

    def __str__(self) -> str:
        verb = "differs" if len(self.aspects) == 1 else "differ"
        return f"{listed(list(self.aspects))} {verb}: {self.then}; now {self.now}"


@dataclass(frozen=True, slots=True)
class Since:
    """What a path did since then."""

    path: str
    differences: tuple[Difference, ...]
    """One a metric that both reports have; A is the earlier one."""
    availability: tuple[float | None, float | None]
    """Then and now; None: nothing was due."""
    answers: Answers
    """Whether more or less of what was due was answered."""
    differs: Differs | None = None
    """None: the settings agree, as far as is known."""

    @property
    def slower(self) -> tuple[Difference, ...]:
        """What became worse, surely and so that it matters."""
        return tuple(d for d in self.differences if d.verdict == "slower")

    @property
    def faster(self) -> tuple[Difference, ...]:
        """What became better."""
        return tuple(d for d in self.differences if d.verdict == "faster")

    @property
    def worse(self) -> bool:
        """Whether anything became worse."""
        return bool(self.slower) or self.answers == "fewer"

    @property
    def better(self) -> bool:
        """Whether anything became better."""
        return bool(self.faster) or self.answers == "more"

    @property
    def decided(self) -> bool:
        """Whether there was anything to compare: what nothing is known of any more is not unchanged."""
        return bool(self.differences) or self.answers in {"fewer", "more"}


@dataclass(frozen=True, slots=True)
class Drift:
    """This report against an earlier one."""

    file: str
    paths: tuple[Since, ...]
    only_then: tuple[str, ...]
    only_now: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing became worse, as far as every path of then shows; a new one is no fault."""
        return not self.worse and all(p.decided for p in self.paths)

    @property
    def worse(self) -> bool:
        """True if a path became worse, or is no longer measured."""
        return bool(self.only_then) or any(p.worse for p in self.paths)


def read(path: Path) -> Baseline:
    """An earlier report's JSON."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FathometerError(
            _OPERATION, f"{path}: {error.strerror}", "name a file that `fathom report --json` wrote"
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
            {name: _lost(s) for name, s in scenarios.items()},
            {name: key for name, s in scenarios.items() if (key := _measured(name, s)) is not None},
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise _foreign(path) from None


def _foreign(path: Path) -> FathometerError:
    return FathometerError(
        _OPERATION, f"{path} is no report of format 1", "name a file that `fathom report --json` wrote"
    )


def _measured(name: str, scenario: Mapping[str, Any]) -> Key | None:
    """None: the report is older than these fields."""
    if not set(ASPECTS.values()) <= scenario.keys():
        return None
    mode, size, interval = (scenario[known] for known in ASPECTS.values())
    if not isinstance(mode, str | None) or not all(isinstance(n, int | None) for n in (size, interval)):
        raise TypeError("mode, size and interval_ns are of other types")
    return Key(name, mode, size, interval)


def _lost(scenario: Mapping[str, Any]) -> tuple[int, int]:
    """Of what was due; a report of before `unsent` knows of what was sent alone, and one of before `corrupt`
    counts those among the unanswered.
    """
    unsent, sent = int(scenario.get("unsent", 0)), int(scenario["samples"])
    lost = int(scenario["unanswered"]) + int(scenario.get("corrupt", 0))
    if unsent < 0 or not 0 <= lost <= sent:
        raise ValueError("more is lost than was sent")
    return lost + unsent, sent + unsent


def _figures(rtt: Mapping[str, Any]) -> list[tuple[Metric, EarlierFigure]]:
    figures: list[tuple[Metric, EarlierFigure]] = []
    for metric in METRICS:
        given = rtt[metric]
        if given["value"] is not None and given["low"] is not None and given["high"] is not None:
            value, low, high = (float(given[k]) for k in ("value", "low", "high"))
            level = float(given.get("level") or LEVEL)
            # Of a mean with a heavy tail the interval may reach below zero.
            if not (all(map(math.isfinite, (value, low))) and low <= high < math.inf and 0 < level < 1):
                raise ValueError(f"{metric} has no such interval")
            freedom = max(min(int(given.get("count", FEWEST)), FEWEST) - 1, 1)
            shaky = given.get("doubt_code") in TOO_NARROW
            figures.append((metric, EarlierFigure(value, low, high, level, freedom, shaky)))
    return figures


def drift(baseline: Baseline, scenarios: Sequence[Scenario], matters: float = MATTERS) -> Drift:
    """Every path that both reports have; all of it is one family of questions."""
    # What has no round trips, then and now, as throughput, is not compared.
    common = [s for s in scenarios if s.name in baseline.figures and (s.due or baseline.lost[s.name][1])]
    otherwise = {s.name: differs for s in common if (differs := _differs(baseline, s)) is not None}
    alike = [s for s in common if s.name not in otherwise]
    unjudged = [_differences(baseline.figures[s.name], s) for s in alike]
    verdicts = iter(judged([d for each in unjudged for d in each], matters))
    then = {s.name: LostShare(*baseline.lost[s.name]) for s in common}
    answers = answered([(then[s.name], lost(s)) for s in alike], matters)
    decided = {
        s.name: (tuple(next(verdicts) for _ in each), answer)
        for s, each, answer in zip(alike, unjudged, answers, strict=True)
    }
    paths = []
    for s in common:
        differences, answer = decided.get(s.name, ((), "cannot be decided"))
        before = then[s.name]
        availability = (1 - before.share if before.due else None, s.availability)
        paths.append(Since(s.name, differences, availability, answer, otherwise.get(s.name)))
    names = {s.name for s in scenarios}
    return Drift(
        baseline.file,
        tuple(paths),
        tuple(sorted(set(baseline.figures) - names)),
        tuple(sorted(names - set(baseline.figures))),
    )


def _differs(baseline: Baseline, scenario: Scenario) -> Differs | None:
    then, now = baseline.measured.get(scenario.name), scenario.key
    if then is None:
        return None
    aspects = tuple(a for a, known in ASPECTS.items() if getattr(then, known) != getattr(now, known))
    return Differs(aspects, then.pacing, now.pacing) if aspects else None


def _differences(then: Mapping[Metric, EarlierFigure], scenario: Scenario) -> list[Difference]:
    pairs = [(m, then[m], scenario.figure(m)) for m in METRICS if m in then]
    return [d for m, a, b in pairs if (d := _difference(m, a, b)) is not None]


def _difference(metric: Metric, a: EarlierFigure, b: Estimate) -> Difference | None:
    """None: one of both has no interval, or is zero."""
    if not b.shown or b.interval is None or min(a.value, b.value) <= 0:
        return None
    from scipy.special import stdtr, stdtrit  # Imported late: half a second of a report's start.

    shaky = b.doubt is not None and b.doubt.code in TOO_NARROW
    ends = b.interval
    now = EarlierFigure(b.value, ends.low, ends.high, ends.level, max(b.blocks, 2) - 1, shaky)
    variances = [_spread(f) ** 2 for f in (a, now)]
    whole, freedom = sum(variances), float(now.freedom)
    if whole:
        # Welch-Satterthwaite.
        freedom = whole**2 / sum(v**2 / f.freedom for v, f in zip(variances, (a, now), strict=True))
    spread, wide = math.sqrt(whole), -float(stdtrit(freedom, (1 - LEVEL) / 2))
    ratio = math.log(b.value / a.value)
    p_value = 2 * float(stdtr(freedom, -abs(ratio) / spread)) if spread else float(ratio == 0)
    gap = (b.value - a.value) / ratio if ratio else a.value
    low, high = ratio - wide * spread, ratio + wide * spread
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


def _spread(f: EarlierFigure) -> float:
    """The standard deviation of a figure's logarithm, by its interval; of one that reaches to zero (a mean of
    a heavy tail) that of the figure, in shares of it.
    """
    from scipy.special import stdtrit  # Imported late: half a second of a report's start.

    length = math.log(f.high / f.low) if f.low > 0 else (f.high - f.low) / f.value
    return length / (-2 * float(stdtrit(f.freedom, (1 - f.level) / 2))) * (SHAKY if f.shaky else 1.0)
