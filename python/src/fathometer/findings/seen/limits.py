"""What searches for limits found (`fathom limits --record`): how long connections lived, idle or in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

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


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One a search."""
    return [
        _finding(scenario, recording)
        for scenario, recording in recordings_of(scenarios)
        if is_search(recording.manifest.mode)
    ]


def _finding(scenario: Scenario, recording: Recording) -> Finding:
    ended = [e.fields.get("result") for e in recording.events if e.kind == "limits.ended"]
    result = ended[-1] if ended and isinstance(ended[-1], dict) else {}
    ends = {name: _end(result, name) for name in ("survived", "died")}
    low, high = ends["survived"], ends["died"]
    facts = [
        Fact(f"limit {name}", quantities=end, terms={"limit": _limit(recording)})
        for name, end in ends.items()
        if end
    ]
    quantities = {"low": low["lasted"]} if low else {}
    quantities |= {"high": high["lasted"]} if high else {}
    return Finding(
        KINDS[bool(low), bool(high)],
        (Place(scenario.name, recording.manifest.id),),
        confidence="high" if result.get("verdict") in {"found", "not_found"} else "low",
        quantities=quantities,
        terms={"limit": _limit(recording)},
        facts=tuple(facts),
    )


def _limit(recording: Recording) -> str:
    return "age" if recording.manifest.mode == "tcp-age-limit" else "idle"


def _end(result: Mapping[str, Any], name: str) -> dict[str, Quantity]:
    """One end of the bracket; empty: there is none, or it cannot be understood."""
    end = result.get(name)
    if not isinstance(end, dict):
        return {}
    given = (end.get("idle_ns", end.get("age_ns")), end.get("hits"), end.get("of"))
    numbers = [n for n in given if isinstance(n, int) and n >= 0]
    if len(numbers) < len(given):
        return {}
    lasted, hits, of = numbers
    return {"lasted": ns(lasted), "hits": number(hits), "of": number(of)}
