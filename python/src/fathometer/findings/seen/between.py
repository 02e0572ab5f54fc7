"""A third party between a probe and its server: a handshake much shorter than the shortest round trip.
No path is shorter for a handshake than for a small message: something nearer answers it, or the server takes
its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Final

from fathometer.findings.finding import Finding, Place, ns
from fathometer.findings.model import Scenario

MODES: Final = frozenset({"tcp", "tcp-ping-pong"})
"""Requests over connections that last."""
SMALL: Final = 256
"""Payload up to which a message takes no longer on a slow path than a handshake, bytes."""
FEW: Final = 8
"""Fewer round trips have no shortest one to rely on."""
NOISE_NS: Final = 500_000
"""What a server's and this host's scheduling add to a round trip; a handshake is answered by kernels. These
are the numbers of the Rust half's story (`story/between.rs`)."""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One a path whose connections are answered nearer by than its requests."""
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
    # One whose first packet was lost takes a second more.
    connect_ns = median_low(made)
    behind_ns = shortest_ns - connect_ns
    # A queue that never empties makes round trips differ: what they differ by is no sign.
    if behind_ns <= max(connect_ns, NOISE_NS, middle.value_ns - shortest_ns):
        return None
    # Its reflector stamps, so the time in it is known to be short.
    stamps = all(r.manifest.reflector.get("stamps") is True for r in recordings)
    return Finding(
        "third party",
        (Place(scenario.name),),
        confidence="medium" if stamps else "low",
        quantities={"connect": ns(connect_ns), "shortest": ns(shortest_ns), "behind": ns(behind_ns)},
        terms={"server": "" if stamps else "possible"},
    )
