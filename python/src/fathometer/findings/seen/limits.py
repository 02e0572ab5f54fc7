"""What searches for limits found (`fathom limits --record`): how long connections lived, idle or in use, and
which rate a path carried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeGuard

from fathometer.dataset.model import DECIDED
from fathometer.dataset.recording import Recording
from fathometer.findings.finding import Fact, Finding, Place, Quantity, ns, number
from fathometer.findings.model import SEARCHES, Scenario, SearchedFor, is_search
from fathometer.findings.parts import recordings_of

KINDS: Final = {
    (True, True): "limit found",
    (False, True): "limit below",
    (True, False): "no limit",
    (False, False): "limit not known",
}
"""By whether connections survived, and whether some died."""


BEGAN: Final = frozenset(("loss", "delay", "both", "held_back"))
"""What begins at a rate ceiling."""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One a search."""
    return [
        (_ceiling if kind(recording) == "rate" else _finding)(scenario, recording)
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
    code = KINDS[bool(low), bool(high)]
    if low and high and _is_whole(of.get("dies_from_ns")):
        code = "limit band"
    if (from_ns := unanswered_ns(of)) is not None:
        code = "limit not answered"
        quantities["from"] = ns(from_ns)
        times = number(of["how"]["not_answered"], "connections")
        given = {"connections": times, "lasted": ns(from_ns)}
        facts.append(Fact("limit not answered", quantities=given, terms={"limit": kind(recording)}))
    elif (from_ns := unclear_from_ns(of)) is not None:
        code = "limit unclear"
        quantities["from"] = ns(from_ns)
        strays = of.get("strays")
        if _is_whole(strays) and strays:
            given = {"connections": number(strays, "connections"), "lasted": ns(from_ns)}
            facts.append(Fact("limit unclear", quantities=given, terms={"limit": kind(recording)}))
    moved = traffic(recording)
    quantities |= {"every": ns(moved.every_ns)} if moved else {}
    return Finding(
        code + (f" despite {TRAFFIC[moved.kind]}" if moved else ""),
        (Place(scenario.name, recording.manifest.id),),
        confidence="high" if of.get("verdict") in DECIDED else "low",
        quantities=quantities,
        terms={"limit": kind(recording)},
        facts=tuple(facts),
    )


def _ceiling(scenario: Scenario, recording: Recording) -> Finding:
    """At how many packets a second loss or delay begins."""
    of = result(recording)
    ends = {name: rate_end(of, name) for name in ("good", "bad")}
    low, high = ends["good"], ends["bad"]
    # A rate that is worse is worse than those below it.
    code = ("ceiling found" if high else "no ceiling") if low else "ceiling not known"
    quantities = {"low": low["rate"]} if low else {}
    quantities |= {"high": high["rate"]} if low and high else {}
    if over := packets_over(recording):
        code += " of one" if over == 1 else " of several"
        quantities["connections"] = number(over, "connections")
    began = of.get("began")
    return Finding(
        code,
        (Place(scenario.name, recording.manifest.id),),
        confidence="high" if of.get("verdict") in DECIDED else "low",
        quantities=quantities,
        terms={"began": began if began in BEGAN else "both", "limit": "rate"},
        facts=tuple(Fact(f"ceiling {name}", quantities=one) for name, one in ends.items() if one),
    )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What moved on connections that were idle otherwise."""

    kind: Literal["keepalive", "here", "there"]
    """Keepalives of the kernel, or segments of this host's or of the reflector's alone."""
    every_ns: int


TRAFFIC: Final = {"keepalive": "keepalives", "here": "traffic from here", "there": "traffic from there"}
"""By its kind, as kinds of findings are called."""


def traffic(recording: Recording) -> Traffic | None:
    """None: they were idle. Known of a search that broke off too."""
    for of in (result(recording), recording.manifest.probe):
        every_ns, one_way = of.get("keepalive_ns"), of.get("one_way")
        if _is_whole(every_ns):
            return Traffic("keepalive", every_ns)
        if isinstance(one_way, dict) and _is_whole(one_way.get("every_ns")):
            side: Literal["here", "there"] = "there" if one_way.get("from") == "there" else "here"
            return Traffic(side, one_way["every_ns"])
    return None


def _is_whole(value: object) -> TypeGuard[int]:
    """JSON's true is a number to Python."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def result(recording: Recording) -> Mapping[str, Any]:
    """What a search ended with; empty: it broke off."""
    ended = [e.fields.get("result") for e in recording.events if e.kind == "limits.ended"]
    return ended[-1] if ended and isinstance(ended[-1], dict) else {}


def unanswered_ns(of: Mapping[str, Any]) -> int | None:
    """From which length on requests were acknowledged and not answered, where that is why no limit is
    claimed.
    """
    how, from_ns = of.get("how"), of.get("dies_from_ns")
    times = how.get("not_answered") if isinstance(how, dict) else None
    return from_ns if _is_whole(times) and _is_whole(from_ns) and not end(of, "died") else None


def unclear_from_ns(of: Mapping[str, Any]) -> int | None:
    """From which length on connections died, where that is neither one limit nor none."""
    from_ns = of.get("dies_from_ns")
    return from_ns if _is_whole(from_ns) and not end(of, "died") and unanswered_ns(of) is None else None


def kind(recording: Recording) -> SearchedFor:
    """What was searched for."""
    return SEARCHES[recording.manifest.mode or ""]


def packets_over(recording: Recording) -> int | None:
    """Over how many connections packets went; None: it was no search for the rate ceiling."""
    over = result(recording).get("connections", recording.manifest.probe.get("connections"))
    return over if kind(recording) == "rate" and _is_whole(over) else None


def rate_end(of: Mapping[str, Any], name: str) -> dict[str, Quantity]:
    """One end of a rate ceiling's bracket; empty: there is none, or it cannot be understood."""
    one = of.get(name)
    given = [one.get(key) for key in ("rate_per_s", "lost", "due")] if isinstance(one, dict) else []
    numbers = [n for n in given if _is_whole(n)]
    if not numbers or len(numbers) < len(given):
        return {}
    rate, lost, due = numbers
    return {"rate": number(rate), "lost": number(lost), "of": number(due)}


def end(of: Mapping[str, Any], name: str) -> dict[str, Quantity]:
    """One end of the bracket; empty: there is none, or it cannot be understood."""
    one = of.get(name)
    if not isinstance(one, dict):
        return {}
    given = (one.get("idle_ns", one.get("age_ns")), one.get("hits"), one.get("of"))
    numbers = [n for n in given if _is_whole(n)]
    if len(numbers) < len(given):
        return {}
    lasted, hits, tried = numbers
    return {"lasted": ns(lasted), "hits": number(hits), "of": number(tried)}
