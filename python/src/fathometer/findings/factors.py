"""What each factor does: paths that are alike in all tags but one, as a study's ``[[vary]]`` makes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fathometer.findings.groups import by_tag
from fathometer.findings.model import Analysis, Scenario, Versus
from fathometer.stats.family import Difference, Metric, Verdict
from fathometer.stats.results import Interval

METRICS: Final[tuple[Metric, ...]] = ("p50", "p99")
_OFF: Final = frozenset(("off", "no", "false", "none", "0"))
"""Levels that are the lack of something: what others are held against."""


_OPPOSITE: Final[dict[Verdict, Verdict]] = {"slower": "faster", "faster": "slower"}


@dataclass(frozen=True, slots=True)
class Effect:
    """One level against another, where all else is alike."""

    factor: str
    level: str
    to_level: str
    path: str
    """The scenario of `level`."""
    to_path: str
    differences: tuple[Difference, ...]
    """Of `to_path` as seen from `path`: p50 and p99."""

    def of(self, metric: Metric) -> Difference | None:
        """The difference in one metric."""
        return next((d for d in self.differences if d.metric == metric), None)


def effects(analysis: Analysis) -> list[Effect]:
    """By factor, and the levels in their order: each against the first that is there."""
    versus = {frozenset((v.a, v.b)): v for v in analysis.comparisons}
    made = []
    for factor, alike in by_tag([s for s in analysis.scenarios if s.rtt.count]):
        first, *others = sorted(alike, key=lambda s: _order(_level(s, factor)))
        for other in others:
            v = versus.get(frozenset((first.name, other.name)))
            if v is not None:
                made.append(_effect(factor, first, other, v))
    return sorted(made, key=lambda e: (e.factor, e.path, _order(e.to_level)))


def _effect(factor: str, first: Scenario, other: Scenario, v: Versus) -> Effect:
    turned = v.a != first.name
    differences = tuple(_turned(d) if turned else d for d in v.differences if d.metric in METRICS)
    return Effect(factor, _level(first, factor), _level(other, factor), first.name, other.name, differences)


def _level(scenario: Scenario, factor: str) -> str:
    return dict(scenario.key.ends.tags)[factor]


def _order(level: str) -> tuple[bool, float, str]:
    """Numbers by their size; what is off comes first."""
    number = re.fullmatch(r"\d+(\.\d+)?", level)
    return (level.lower() not in _OFF, float(level) if number else 0.0, level)


def _turned(d: Difference) -> Difference:
    """A as seen from B."""
    verdict = _OPPOSITE.get(d.verdict, d.verdict)
    low_high = d.ratio_interval
    ratio = (
        None
        if low_high is None or low_high.low <= 0
        else Interval(1 / low_high.high, 1 / low_high.low, low_high.level)
    )
    gap = d.difference_interval
    return replace(
        d,
        a=d.b,
        b=d.a,
        difference=-d.difference,
        difference_interval=None if gap is None else Interval(-gap.high, -gap.low, gap.level),
        ratio=1 / d.ratio if d.ratio else d.ratio,
        ratio_interval=ratio,
        verdict=verdict,
        units=d.units[::-1],
    )


def by_factor(every: Sequence[Effect]) -> Iterator[tuple[str, list[Effect]]]:
    """The effects of each factor."""
    for factor in dict.fromkeys(e.factor for e in every):
        yield factor, [e for e in every if e.factor == factor]
