"""The same path idle and under load: what waits in its queues when something else is sent, too (bufferbloat).

RFC 9097 and draft-ietf-ippm-responsiveness call the difference the latency under working conditions. Both are
measured in one run, in turns, and never pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathometer.findings.comparisons import within_path
from fathometer.findings.doubts import in_words
from fathometer.findings.growth import TOLD, Growth
from fathometer.findings.model import Advice, Confidence, Finding, Key, Scenario, Versus
from fathometer.findings.words import count, listed

WORTH_ADVICE = 2.0
"""Times by which p99 must grow under load for advice."""


def _loaded(key: Key) -> Key | None:
    return None if key.under_load else replace(key, under_load=True)


def findings(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> list[Finding]:
    """By how much the median and p99 grow under load."""
    return [
        _finding(idle, versus, turned)
        for idle, _, versus, turned in within_path(scenarios, comparisons, _loaded)
    ]


def _finding(idle: Scenario, versus: Versus, turned: bool) -> Finding:
    told = [Growth(versus.of(m), turned) for m in TOLD]
    said = listed([g.said for g in told])
    evidence = [f"blocks {versus.pairing}, {' and '.join(f'{n:,}' for n in versus.blocks)} of them"]
    evidence += [words for g in told if (words := in_words(g.difference.doubt))]
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
    for idle, _, versus, turned in within_path(scenarios, comparisons, _loaded):
        growth = Growth(versus.of("p99"), turned)
        if growth.grows and growth.ratio >= WORTH_ADVICE:
            said = (
                f"{idle.name}: keep bulk transfers off this path, or hold them below its rate (pacing, a "
                f"smaller send buffer, fair queueing): beside them p99 is {growth.ratio:.3g} times as long"
            )
            confidence: Confidence = "medium" if growth.difference.doubt else "high"
            made.append(Advice("under load", said, (growth.said,), confidence))
    return made
