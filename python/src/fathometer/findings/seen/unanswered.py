"""For how long paths gave no answers."""

from __future__ import annotations

from collections.abc import Sequence

from fathometer.findings.finding import Finding, Place, ns, number
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of
from fathometer.findings.unanswered import gaps


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """How often, and for how long."""
    every = []
    for scenario, recording in recordings_of(scenarios):
        lengths = [recording.elapsed_ns(from_ns, to_ns) for from_ns, to_ns in gaps(recording)]
        if not lengths:
            continue
        first_ns = recording.totals.first_sent_ns or recording.manifest.started_ns
        whole_ns = max(recording.totals.span_ns, gaps(recording)[-1][1] - first_ns, 1)
        if recording.clock_was_set:
            whole_ns = max(recording.lasted_ns, 1)
        quantities = {
            "times": number(len(lengths)),
            "total": ns(sum(lengths)),
            "longest": ns(max(lengths)),
            "share": number(min(sum(lengths) / whole_ns, 1.0), "share"),
        }
        where = (Place(scenario.name, recording.manifest.id),)
        every.append(Finding("without answers", where, quantities=quantities))
    return every
