"""What a client that waits for so long and no longer would give up: the answers that came later, and those
that never came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fathometer.findings.finding import Finding, Place, number
from fathometer.findings.model import Scenario, is_making

WAITS_NS: Final = {
    "10 ms": 10_000_000,
    "100 ms": 100_000_000,
    "1 s": 1_000_000_000,
    "10 s": 10_000_000_000,
}
"""Time-outs as people set them."""
USUAL: Final = 10
"""Times its median that a time-out must be: a shorter one would be a mistake whatever happens on the path."""
WORTH_TELLING: Final = 1e-4
"""Share of the samples that a time-out cuts off, from which it is told."""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One a path some of whose samples took longer than a generous time-out."""
    return [finding for s in scenarios if (finding := _finding(s)) is not None]


def _finding(s: Scenario) -> Finding | None:
    median = s.figure("p50")
    if s.key.under_load or s.key.silence or is_making(s.key.mode) or not median.shown:
        return None
    cut = {name: later_than(s, wait) for name, wait in WAITS_NS.items() if wait >= USUAL * median.value}
    told = {name: n for name, n in cut.items() if n > s.lost and n >= WORTH_TELLING * s.sent}
    if not told:
        return None
    # The longest that still cuts answers off: what a client is best set above.
    longest = max(told, key=lambda name: WAITS_NS[name])
    return Finding(
        "time-outs",
        (Place(s.name),),
        quantities={
            **{name: number(n, "samples") for name, n in cut.items()},
            "sent": number(s.sent, "samples"),
            "later": number(told[longest], "samples"),
            "never": number(s.lost, "samples"),
            "share": number(told[longest] / s.sent, "share"),
        },
        terms={"longest": longest},
    )


def later_than(s: Scenario, wait_ns: int) -> int:
    """Samples without an answer after so long; those in the bucket that it falls into count as answered."""
    return s.lost + int(s.rtt.counts[s.rtt.lows_ns >= wait_ns].sum())
