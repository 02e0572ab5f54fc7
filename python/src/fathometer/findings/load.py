"""The same path idle and under load: what waits in its queues when something else is sent, too (bufferbloat).

RFC 9097 and draft-ietf-ippm-responsiveness call the difference the latency under working conditions. Both are
measured in one run, in turns, and never pooled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fathometer.findings.model import Advice, Confidence, Finding, Scenario, Versus
from fathometer.findings.words import count, duration, listed
from fathometer.stats.compare import Difference, Metric

WORTH_ADVICE = 2.0
"""Times by which p99 must grow under load for advice."""
_TOLD: tuple[Metric, ...] = ("p50", "p99")
_NAMES = {"p50": "median", "p99": "p99"}


def pairs(
    scenarios: Sequence[Scenario], comparisons: Sequence[Versus]
) -> Iterator[tuple[Scenario, Versus, bool]]:
    """Every idle scenario with its comparison with itself under load; and whether that has the loaded one
    first.
    """
    by_key = {s.key: s for s in scenarios}
    for idle in scenarios:
        loaded = by_key.get(replace(idle.key, under_load=True))
        if loaded is None or idle.key.under_load:
            continue
        for versus in comparisons:
            if {versus.a, versus.b} == {idle.name, loaded.name}:
                yield idle, versus, versus.a == loaded.name


def findings(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> list[Finding]:
    """By how much the median and p99 grow under load."""
    return [_finding(idle, versus, turned) for idle, versus, turned in pairs(scenarios, comparisons)]


def _finding(idle: Scenario, versus: Versus, turned: bool) -> Finding:
    told = [_Growth(versus.blocks.of(m), turned) for m in _TOLD]
    said = listed([g.said for g in told])
    evidence = [
        f"blocks {versus.blocks.pairing}, {' and '.join(f'{n:,}' for n in versus.blocks.blocks)} of them"
    ]
    evidence += [g.difference.doubt for g in told if g.difference.doubt]
    evidence += _achieved(idle)
    sure = all(g.decided and not g.difference.doubt for g in told)
    return Finding(
        "under load",
        None,
        f"{idle.name}: under load {said}"
        + (": queues on the path fill" if any(g.grows for g in told) else ""),
        tuple(evidence),
        "high" if sure else "low" if not any(g.decided for g in told) else "medium",
        idle.name,
    )


class _Growth:
    """One figure under load against idle, whichever of them the comparison has first."""

    def __init__(self, difference: Difference, turned: bool) -> None:
        self.difference = difference
        idle, loaded = (difference.b, difference.a) if turned else (difference.a, difference.b)
        self.ratio = loaded / idle
        self.decided = difference.verdict != "cannot be decided"
        self.grows = difference.verdict == ("faster" if turned else "slower")
        name = _NAMES[difference.metric]
        if not self.decided:
            self.said = f"whether the {name} differs cannot be decided"
            return
        change = f"from {duration(idle)} to {duration(loaded)}"
        interval = difference.ratio_interval
        times = f"{self.ratio:.3g} times"
        if interval is not None:
            low, high = (1 / interval.high, 1 / interval.low) if turned else (interval.low, interval.high)
            times += f", {low:.3g} to {high:.3g}"
        shown = "" if difference.verdict != "no difference shown" else ", no difference shown"
        self.said = f"the {name} goes {change} ({times}{shown})"


def _achieved(idle: Scenario) -> list[str]:
    """What the load was, by the events of its phases."""
    ended = [e.fields for run in idle.runs for e in run.recording.events if e.kind == "load.ended"]
    told = []
    for name, way in (("sent_bits_per_s", "sent"), ("echoed_bits_per_s", "came back")):
        rates = [rate for f in ended if isinstance(rate := f.get(name), int)]
        if rates:
            told.append(f"{sum(rates) / len(rates) / 1e6:,.3g} Mbit/s {way}")
    return [f"the load: {listed(told)}, the mean of {count(len(ended), 'phase')}"] if told else []


def advice(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> list[Advice]:
    """Where the tail grows much."""
    made = []
    for idle, versus, turned in pairs(scenarios, comparisons):
        growth = _Growth(versus.blocks.of("p99"), turned)
        if growth.grows and growth.ratio >= WORTH_ADVICE:
            said = (
                f"{idle.name}: keep bulk transfers off this path, or hold them below its rate (pacing, a "
                f"smaller send buffer, fair queueing): beside them p99 is {growth.ratio:.3g} times as long"
            )
            confidence: Confidence = "medium" if growth.difference.doubt else "high"
            made.append(Advice("under load", said, (growth.said,), confidence))
    return made
