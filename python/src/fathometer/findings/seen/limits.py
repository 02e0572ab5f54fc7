"""What searches for limits found (`fathom limits --record`): how long connections lived, idle or in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from fathometer.dataset.recording import Recording
from fathometer.findings.finding import Fact, Finding, Place, Quantity, ns, number
from fathometer.findings.model import Scenario, is_search
from fathometer.findings.parts import recordings_of

KINDS: Final = {
    (True, True): "limit found",
    (False, True): "limit below",
    (True, False): "no limit",
    (False, False): "limit not known",
}
"""By whether connections survived, and whether some died."""

WHOLE: Final = frozenset(("found", "not_found"))
"""Verdicts of searches that came to their end."""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One a search."""
    return [
        _finding(scenario, recording)
        for scenario, recording in recordings_of(scenarios)
        if is_search(recording.manifest.mode)
    ]


def _finding(scenario: Scenario, recording: Recording) -> Finding:
    of = result(recording)
    ends = {name: end(of, name) for name in ("survived", "died")}
    low, high = ends["survived"], ends["died"]
    facts = [
        Fact(f"limit {name}", quantities=one, terms={"limit": kind(recording)})
        for name, one in ends.items()
        if one
    ]
    quantities = {"low": low["lasted"]} if low else {}
    quantities |= {"high": high["lasted"]} if high else {}
    meanwhile, every_ns = _meanwhile(of)
    quantities |= {"every": ns(every_ns)} if meanwhile else {}
    return Finding(
        KINDS[bool(low), bool(high)] + meanwhile,
        (Place(scenario.name, recording.manifest.id),),
        confidence="high" if of.get("verdict") in WHOLE else "low",
        quantities=quantities,
        terms={"limit": kind(recording)},
        facts=tuple(facts),
    )


def _meanwhile(of: Mapping[str, Any]) -> tuple[str, int]:
    """What moved on connections that were idle otherwise, as kinds of findings are called, and how often."""
    traffic = of.get("one_way")
    if isinstance(every_ns := of.get("keepalive_ns"), int):
        return " despite keepalives", every_ns
    if isinstance(traffic, dict) and isinstance(every_ns := traffic.get("every_ns"), int):
        side = "there" if traffic.get("from") == "there" else "here"
        return f" despite traffic from {side}", every_ns
    return "", 0


def result(recording: Recording) -> Mapping[str, Any]:
    """What a search ended with; empty: it broke off."""
    ended = [e.fields.get("result") for e in recording.events if e.kind == "limits.ended"]
    return ended[-1] if ended and isinstance(ended[-1], dict) else {}


def kind(recording: Recording) -> Literal["idle", "age"]:
    """What was searched for."""
    return "age" if recording.manifest.mode == "tcp-age-limit" else "idle"


def end(of: Mapping[str, Any], name: str) -> dict[str, Quantity]:
    """One end of the bracket; empty: there is none, or it cannot be understood."""
    one = of.get(name)
    if not isinstance(one, dict):
        return {}
    given = (one.get("idle_ns", one.get("age_ns")), one.get("hits"), one.get("of"))
    numbers = [n for n in given if isinstance(n, int) and n >= 0]
    if len(numbers) < len(given):
        return {}
    lasted, hits, tried = numbers
    return {"lasted": ns(lasted), "hits": number(hits), "of": number(tried)}
