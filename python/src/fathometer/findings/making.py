"""What the making of a connection consists of, where TLS is a part of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathometer.dataset.recording import Recording
from fathometer.findings.finding import Finding, Place, ns, number
from fathometer.findings.model import Scenario, Setup
from fathometer.stats.rollup import rollup_estimates
from fathometer.stats.series import from_series

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def setups(scenarios: Sequence[Scenario]) -> tuple[Setup, ...]:
    """One a scenario that made connections with TLS."""
    every = []
    for scenario in scenarios:
        both = [times for run in scenario.runs for times in _times(run.recording)]
        if both:
            connect, tls = (
                dict(zip(SHARES, rollup_estimates(from_series(part), tuple(SHARES.values())), strict=True))
                for part in np.array(both, dtype=np.float64).T
            )
            every.append(Setup(scenario.name, connect, tls))
    return tuple(every)


def _times(recording: Recording) -> list[tuple[int, int]]:
    """Both parts of each connection that was made, in order; the first of a run may be warm-up."""
    warm_up = recording.manifest.probe.get("warm_up")
    least = warm_up if isinstance(warm_up, int) else 0
    return [
        (c.connect_ns, c.tls_ns)
        for c in recording.connections
        if c.id >= least and c.connect_ns is not None and c.tls_ns is not None
    ]


def findings(every: Sequence[Setup]) -> list[Finding]:
    """How much of the time is TLS's."""
    return [_finding(setup) for setup in every]


def _finding(setup: Setup) -> Finding:
    tcp, tls = setup.connect["p50"], setup.tls["p50"]
    return Finding(
        "tls",
        (Place(setup.scenario),),
        confidence="high" if tls.interval else "low",
        quantities={
            "tcp": ns(tcp.value, tcp.interval),
            "tls": ns(tls.value, tls.interval),
            "connections": number(tls.count, "connections"),
        },
    )
