"""What the first echo after a silence costs, against the warm ones that follow back to back (`--idle-gap`).

Sleeping processors, caches, flow tables and routes that have to be found again; and above the congestion
window after idle (RFC 5681 4.1: restart window) whole round trips. Samples around silences of different
lengths are never pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathometer.dataset.selection import Silence
from fathometer.dataset.totals import Group
from fathometer.findings.comparisons import within_path
from fathometer.findings.finding import Confidence, Fact, Finding, Place, ns, number
from fathometer.findings.growth import Growth
from fathometer.findings.model import Cost, Key, Scenario, Versus
from fathometer.stats.family import Metric

_TOLD: tuple[Metric, ...] = ("p50", "p95")
"""Silences are long and their samples few: p99 would need 299 of each."""


def costs(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> tuple[Cost, ...]:
    """One a silence, by label and length."""
    every = []
    for warm, first, versus, turned in within_path(scenarios, comparisons, _first):
        median, tail = (Growth(versus.of(m), turned) for m in _TOLD)
        if first.key.silence is not None:
            every.append(Cost(first, warm, first.key.silence.gap_ns, median, tail))
    return tuple(sorted(every, key=lambda c: (c.first.key.label, c.gap_ns, c.first.name)))


def _first(key: Key) -> Key | None:
    if key.silence is None or key.silence.first:
        return None
    return replace(key, silence=Silence(key.silence.gap_ns, first=True))


def findings(costs: Sequence[Cost]) -> list[Finding]:
    """What each silence costs, or that it is not shown to cost anything."""
    return [_finding(cost) for cost in costs]


def _finding(cost: Cost) -> Finding:
    median, first = cost.median, cost.first
    verdict = "cannot be decided" if not median.decided else "no difference shown"
    if median.shown:
        verdict = "longer" if median.grows else "shorter"
    counts = {
        "first": number(first.rtt.count, "samples"),
        "warm": number(cost.warm.rtt.count, "samples"),
        "first unanswered": number(first.unanswered, "samples"),
        "first sent": number(first.sent, "samples"),
        "outside": number(sum(_outside(run.recording.totals.groups) for run in first.runs), "samples"),
    }
    confidence: Confidence = "low" if not median.decided else "medium" if median.doubts else "high"
    return Finding(
        "silence",
        (Place(first.name),),
        confidence=confidence,
        quantities={"gap": ns(cost.gap_ns), "cost": median.added},
        terms={"label": first.key.label, "verdict": verdict},
        facts=(*(g.fact for g in (median, cost.tail) if g.decided), Fact("silences", counts)),
        doubts=tuple(dict.fromkeys((*median.doubts, *cost.tail.doubts))),
    )


def _outside(groups: Sequence[Group]) -> int:
    """Samples that are around no silence, and are not the warm-up after a handshake either."""
    return sum(g.samples for g in groups if not g.silence and not g.warm_up)
