"""What the first echo after a silence costs, against the warm ones that follow back to back (`--idle-gap`).

Sleeping processors, caches, flow tables and routes that have to be found again; and above the congestion
window after idle (RFC 5681 4.1: restart window) whole round trips. Samples around silences of different
lengths are never pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathometer.dataset.engine import Group
from fathometer.dataset.format import Flags
from fathometer.dataset.selection import Silence
from fathometer.findings.comparisons import within_path
from fathometer.findings.doubts import in_words
from fathometer.findings.growth import Growth
from fathometer.findings.model import Confidence, Cost, Finding, Key, Scenario, Versus
from fathometer.findings.words import count, duration, listed
from fathometer.stats.family import Metric

_TOLD: tuple[Metric, ...] = ("p50", "p95")
"""Silences are long and their samples few: p99 would need 299 of each."""


def costs(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> tuple[Cost, ...]:
    """One a silence, by label and length."""
    made = []
    for warm, first, versus, turned in within_path(scenarios, comparisons, _first):
        median, tail = (Growth(versus.of(m), turned) for m in _TOLD)
        if first.key.silence is not None:
            made.append(Cost(first, warm, first.key.silence.gap_ns, median, tail))
    return tuple(sorted(made, key=lambda c: (c.first.key.label, c.gap_ns, c.first.name)))


def _first(key: Key) -> Key | None:
    if key.silence is None or key.silence.first:
        return None
    return replace(key, silence=Silence(key.silence.gap_ns, first=True))


def findings(made: Sequence[Cost]) -> list[Finding]:
    """What each silence costs, or that it is not shown to cost anything."""
    return [_finding(cost) for cost in made]


def _finding(cost: Cost) -> Finding:
    median = cost.median
    what = f"{cost.first.key.label}: after {duration(cost.gap_ns)} of silence"
    if not median.decided:
        said = f"{what} it cannot be decided whether the first echo takes longer than a warm one"
    elif not median.difference.differs:
        said = f"{what} the first echo is not shown to differ from a warm one"
    else:
        interval = median.cost_interval
        within = f" ({duration(interval.low)} to {duration(interval.high)})" if interval else ""
        longer = f"{duration(median.cost)} longer{within}"
        said = f"{what} the first echo takes {longer if median.grows else 'less than a warm one'}"
    told = [g.said for g in (median, cost.tail) if g.decided]
    if told:
        said += f": {listed(told)}"
    first, warm = (s.rtt.count for s in (cost.first, cost.warm))
    evidence = [f"{count(first, 'first sample')} and {count(warm, 'warm one')}"]
    lost = cost.first.unanswered
    if lost:
        evidence.append(f"{lost:,} of {count(cost.first.sent, 'first sample')} never answered")
    outside = sum(_outside(run.recording.totals.groups) for run in cost.first.runs)
    if outside:
        evidence.append(f"{count(outside, 'sample')} after a loss or a step of the clock left out")
    evidence += [doubt for g in (median, cost.tail) if (doubt := in_words(g.difference.doubt))]
    confidence: Confidence = "low" if not median.decided else "medium" if median.difference.doubt else "high"
    return Finding("silence", None, said, tuple(evidence), confidence, cost.first.name)


def _outside(groups: Sequence[Group]) -> int:
    """Samples that are around no silence, and are not the warm-up after a handshake either."""
    return sum(g.samples for g in groups if not g.silence and not g.flags & Flags.WARM_UP)
