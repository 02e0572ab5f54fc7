"""The same path idle and under load: what waits in its queues when something else is sent, too (bufferbloat).

RFC 9097 and draft-ietf-ippm-responsiveness call the difference the latency under working conditions. Both are
measured in one run, in turns, and never pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathometer.findings.comparisons import within_path
from fathometer.findings.finding import (
    Advice,
    Confidence,
    Fact,
    Finding,
    Place,
    Quantity,
    number,
    times,
)
from fathometer.findings.growth import TOLD, Growth
from fathometer.findings.model import Key, Scenario, Versus

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
    growths = [Growth(versus.of(m), turned) for m in TOLD]
    doubts = tuple(dict.fromkeys(code for g in growths for code in g.doubts))
    blocks = Fact(
        "blocks",
        {"a": number(versus.blocks[0]), "b": number(versus.blocks[1])},
        {"pairing": versus.pairing},
    )
    sure: Confidence = "high"
    if doubts or not all(g.decided for g in growths):
        sure = "medium" if any(g.decided for g in growths) else "low"
    return Finding(
        "under load",
        (Place(idle.name),),
        confidence=sure,
        terms={"queues": "fill" if any(g.grows for g in growths) else ""},
        facts=(*(g.fact for g in growths), blocks, *_achieved(idle)),
        doubts=doubts,
    )


def _achieved(idle: Scenario) -> list[Fact]:
    """What the load was, by the events of its phases."""
    ended = [e.fields for run in idle.runs for e in run.recording.events if e.kind == "load.ended"]
    rates: dict[str, Quantity] = {}
    for name, way in (("sent_bits_per_s", "sent"), ("echoed_bits_per_s", "came back")):
        measured = [rate for f in ended if isinstance(rate := f.get(name), int)]
        if measured:
            rates[way] = number(sum(measured) / len(measured), "bit/s")
    return [Fact("load", {**rates, "phases": number(len(ended))})] if rates else []


def advice(scenarios: Sequence[Scenario], comparisons: Sequence[Versus]) -> list[Advice]:
    """Where the tail grows much."""
    advice_ = []
    for idle, _, versus, turned in within_path(scenarios, comparisons, _loaded):
        growth = Growth(versus.of("p99"), turned)
        if growth.grows and growth.ratio >= WORTH_ADVICE:
            advice_.append(
                Advice(
                    "under load",
                    (idle.name,),
                    {"ratio": times(growth.ratio, growth.ratio_interval)},
                    saves=growth.added,
                    facts=(growth.fact,),
                    confidence="medium" if growth.doubts else "high",
                )
            )
    return advice_
