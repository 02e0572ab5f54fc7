"""Which paths a reader looks at first: where not all have room, these get it, and the others are counted."""

from __future__ import annotations

from collections.abc import Sequence

from fathometer.findings.finding import Incident
from fathometer.findings.groups import grouped_pairs
from fathometer.findings.model import Analysis, Scenario, Versus
from fathometer.report.goals import Outcome

MOST_PAIRS = 15
"""Pairs in the open; with more, those of alternatives, or those with the fastest path."""


MOST_INCIDENTS = 5
"""Number of incidents with a line, besides the costliest, which is shown in full; the others are folded."""


def harm(incident: Incident) -> tuple[int, int, int, float]:
    """What an incident cost, the worst first: samples, those not sent too, connections, silence,
    longer round trips.
    """
    toll = incident.toll
    return toll.lost + toll.unsent, toll.connections, toll.silent_ns, toll.added_ns * toll.added_for_ns


def as_shown(incidents: Sequence[Incident]) -> list[Incident]:
    """Incidents in the order of a report, by which they are numbered: the costliest, the next ones by time,
    and then the others by time. `incidents`: in order of time.
    """
    by_harm = sorted(range(len(incidents)), key=lambda n: harm(incidents[n]), reverse=True)
    worst, lines, others = by_harm[:1], by_harm[1 : MOST_INCIDENTS + 1], by_harm[MOST_INCIDENTS + 1 :]
    return [incidents[n] for n in (*worst, *sorted(lines), *sorted(others))]


def by_interest(analysis: Analysis, outcomes: Sequence[Outcome] = ()) -> list[Scenario]:
    """Every path: those that miss a goal, those that something happened to by what it cost them, those that
    lost samples, and then the slowest in the tail and the fastest by turns.
    """
    missed = {o.path for o in outcomes if o.status != "met"}
    worst: dict[str, tuple[int, int, int, float]] = {}
    for incident in analysis.incidents:
        for path in incident.paths:
            worst[path] = max(worst.get(path, (0, 0, 0, 0.0)), harm(incident))
    have = [s for s in analysis.scenarios if s.rtt.count]
    slow = sorted(have, key=_tail, reverse=True)
    rank = {s.name: 2 * n for n, s in enumerate(slow)}
    # Scenarios come in order of their medians.
    for n, s in enumerate(have):
        rank[s.name] = min(rank[s.name], 2 * n + 1)

    def key(s: Scenario) -> tuple[bool, bool, tuple[float, ...], float, int]:
        lost = 1 - (1.0 if s.availability is None else s.availability)
        harms = tuple(-h for h in worst.get(s.name, (0, 0, 0, 0.0)))
        return s.name not in missed, s.name not in worst, harms, -lost, rank.get(s.name, len(rank) * 2)

    return sorted(analysis.scenarios, key=key)


def _tail(s: Scenario) -> float:
    for name in ("p99", "p95", "p50"):
        estimate = s.figure(name)
        if estimate.shown:
            return estimate.value
    return float(s.rtt.max_ns or 0)


def foremost_pairs(analysis: Analysis) -> list[Versus]:
    """Every pair where they are few; else those that the user grouped, or without any those with the fastest
    scenario.
    """
    if len(analysis.comparisons) <= MOST_PAIRS:
        return list(analysis.comparisons)
    have = [s for s in analysis.scenarios if s.rtt.count]
    names = {(a.name, b.name) for a, b in grouped_pairs(have, max(MOST_PAIRS, len(have)))}
    chosen = [v for v in analysis.comparisons if (v.a, v.b) in names]
    fastest = analysis.comparisons[0].a
    return chosen or [v for v in analysis.comparisons if fastest in {v.a, v.b}]
