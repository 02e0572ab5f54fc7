"""A proxy or balancer between a probe and its server: a handshake much shorter than the shortest round trip.
A handshake and a small message take the same path, so something nearer answers the handshake, or the server
is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Final

from fathometer.findings.finding import Finding, Place, ns
from fathometer.findings.model import Scenario

MODES: Final = frozenset({"tcp", "tcp-ping-pong"})
"""Modes with requests over lasting connections."""
SMALL: Final = 256
"""Largest payload, in bytes, of a message that takes as long as a handshake on a slow path."""
FEW: Final = 8
"""Minimum number of round trips for a reliable shortest one."""
NOISE_NS: Final = 500_000
"""Scheduling delay of server and host in a round trip; kernels answer a handshake. The numbers are those of
the Rust half's story (`story/between.rs`).
"""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One finding for each path whose handshakes are answered nearer than its requests."""
    return [f for scenario in scenarios if (f := _finding(scenario)) is not None]


def _finding(scenario: Scenario) -> Finding | None:
    recordings = [run.recording for run in scenario.runs]
    small = scenario.key.size is not None and 0 < scenario.key.size <= SMALL
    if scenario.key.mode not in MODES or not small or any(r.queries is not None for r in recordings):
        return None
    made = sorted(c.connect_ns for r in recordings for c in r.connections if c.connect_ns)
    middle = scenario.rtt.quantile(0.5)
    shortest_ns = scenario.rtt.min_ns
    if not made or middle is None or shortest_ns is None or scenario.rtt.count < FEW:
        return None
    # A handshake whose first packet was lost takes a second more.
    connect_ns = median_low(made)
    behind_ns = shortest_ns - connect_ns
    # A queue that never empties spreads the round trips; that spread is no sign of a proxy.
    if behind_ns <= max(connect_ns, NOISE_NS, middle.value_ns - shortest_ns):
        return None
    # Its reflector stamps, so its own time is known to be short.
    stamps = all(r.manifest.reflector.get("stamps") is True for r in recordings)
    return Finding(
        "third party",
        (Place(scenario.name),),
        confidence="medium" if stamps else "low",
        quantities={"connect": ns(connect_ns), "shortest": ns(shortest_ns), "behind": ns(behind_ns)},
        terms={"server": "" if stamps else "possible"},
    )
