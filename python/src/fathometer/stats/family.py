"""Verdicts of a whole family of questions: every metric of every pair that a report asks about.

Holm (1979), "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6: the chance that
any "slower" or "faster" of a report is false stays below 5 %, however the questions depend on each other.

A difference must be sure *and* matter. Where its interval lies within the threshold either way, the two are
shown to be alike for practical purposes (Schuirmann 1987, "A comparison of the two one-sided tests procedure
and the power approach for assessing the equivalence of average bioavailability", J. Pharmacokin. Biopharm.
15: an interval within the bounds is the two tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fathometer.stats.results import LEVEL, Doubt, Interval

Metric = Literal["mean", "p50", "p95", "p99"]
METRICS: tuple[Metric, ...] = ("mean", "p50", "p95", "p99")
QUANTILE: dict[Metric, float] = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
Verdict = Literal[
    "slower", "faster", "no difference that matters", "no difference shown", "cannot be decided"
]
MATTERS = 0.05
"""A difference below this share does not matter, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of B against A: the one answer that tables, charts, advice and sentences use."""

    metric: Metric
    a: float
    b: float
    difference: float
    """b - a, in the unit of the series."""
    difference_interval: Interval | None
    ratio: float
    """b / a; NaN where one of them is zero."""
    ratio_interval: Interval | None
    p_value: float | None
    """Before any correction; None where nothing can be decided."""
    verdict: Verdict
    """Of B, as seen from A, within the family that it was judged in (`judged`)."""
    basis: Literal["blocks", "connections", "runs"] = "blocks"
    method: str = "bootstrap of blocks"
    units: tuple[int, int] = (0, 0)
    """Blocks, connections or runs of A and of B."""
    doubt: Doubt | None = None

    @property
    def differs(self) -> bool:
        """Whether B is slower or faster than A."""
        return self.verdict in {"slower", "faster"}

    @property
    def decided(self) -> bool:
        """Whether the data can say anything."""
        return self.verdict != "cannot be decided"


@dataclass(frozen=True, slots=True)
class LogRatio:
    """What a test says of the logarithm of B / A."""

    middle: float
    interval: Interval
    p_value: float


def restated(d: Difference, a: float, b: float) -> Difference:
    """The same answer of these figures, which are what a reader sees of both; its intervals reach as far."""
    ratio = b / a if a > 0 and b > 0 else math.nan
    of_ratio, of_difference = d.ratio_interval, d.difference_interval
    if of_ratio is not None and of_difference is not None and not math.isnan(ratio):
        of_ratio, of_difference = _reaching(of_ratio, ratio, ratio), _reaching(of_difference, b - a, b - a)
    return replace(
        d, a=a, b=b, difference=b - a, ratio=ratio, ratio_interval=of_ratio, difference_interval=of_difference
    )


def no_surer(d: Difference, other: LogRatio) -> Difference:
    """The difference, no surer than another test of it is, too."""
    if d.ratio_interval is None or d.difference_interval is None or d.p_value is None:
        return d
    low, high = (ratio_of(end) for end in (other.interval.low, other.interval.high))
    return replace(
        d,
        p_value=max(d.p_value, other.p_value),
        ratio_interval=_reaching(d.ratio_interval, low, high),
        difference_interval=_reaching(d.difference_interval, d.a * (low - 1), d.a * (high - 1)),
    )


def _reaching(interval: Interval, low: float, high: float) -> Interval:
    return replace(interval, low=min(interval.low, low), high=max(interval.high, high))


def ratio_of(logarithm: float) -> float:
    """Of a logarithm; two runs that differ give intervals beyond any number."""
    return math.exp(max(min(logarithm, _FARTHEST), -_FARTHEST))


_FARTHEST = math.log(1e6)
"""A ratio of a million, or of a millionth, is as good as any."""


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjusted p-values: each may be held against the level as if it were alone."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def judged(
    differences: Sequence[Difference], matters: float = MATTERS, level: float = LEVEL
) -> tuple[Difference, ...]:
    """The same differences, each with its verdict in this family. `matters`: 0.05 for 5 %, either way."""
    asked = [i for i, d in enumerate(differences) if d.p_value is not None]
    adjusted = dict(zip(asked, holm([differences[i].p_value or 0.0 for i in asked]), strict=True))
    return tuple(
        replace(d, verdict=_verdict(d, float(adjusted[i]), matters, level) if i in adjusted else _UNDECIDED)
        for i, d in enumerate(differences)
    )


_UNDECIDED: Verdict = "cannot be decided"


def _verdict(d: Difference, p_value: float, matters: float, level: float) -> Verdict:
    if d.ratio_interval is None:
        return _UNDECIDED
    edge = math.log1p(matters)
    low, high = _log(d.ratio_interval.low), _log(d.ratio_interval.high)
    # The interval's middle is what was tested; between rounded values the ratio may lie far off it.
    if (
        p_value < 1 - level
        and not low <= 0 <= high
        and min(abs(math.log(d.ratio)), abs(low + high) / 2) > edge
    ):
        return "slower" if low > 0 else "faster"
    if -edge <= low and high <= edge:
        return "no difference that matters"
    return "no difference shown"


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
