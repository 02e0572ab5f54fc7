"""What idle limits and age limits of a path ask for: keepalives and lifetimes below what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from fathometer.dataset.model import DECIDED, Connection
from fathometer.dataset.recording import Recording
from fathometer.findings import library_settings, values
from fathometer.findings.finding import Advice, Confidence, Fact, ns
from fathometer.findings.lives import deaths
from fathometer.findings.model import Between, Scenario, is_search
from fathometer.findings.parts import recordings_of
from fathometer.findings.seen import limits

_UNCLEAR: Final = frozenset(("unclear", "failed"))
_MOST_TOLD: Final = 3
"""Connections that died idle of which is told what their recordings say."""


@dataclass
class _Evidence:
    """Of one path and one kind of limit."""

    paths: dict[str, None] = field(default_factory=dict)
    survived: list[int] = field(default_factory=list)
    died: list[int] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    finished: bool = True
    """All of it is from searches that came to their end."""
    expired: bool = False
    """Connections in use elsewhere died idle."""

    def fact(self, one: Fact) -> None:
        self.facts.append(one)
        if one.id not in self.ids:
            self.ids.append(one.id)


def advice(scenarios: Sequence[Scenario], stalls: Mapping[str, int]) -> Iterator[Advice]:
    """At the most one a path and kind. `stalls`: the longest that recovered, by path."""
    for path, found in _found(scenarios, "idle").items():
        yield from _keepalive(found, max(_stalls(path, scenarios, stalls), default=0))
    for found in _found(scenarios, "age").values():
        yield from _lifetime(found)


def _stalls(path: Between, scenarios: Sequence[Scenario], stalls: Mapping[str, int]) -> Iterator[int]:
    """Those between these ends, whatever the recordings are called."""
    return (stalls[s.name] for s in scenarios if _path(s) == path and s.name in stalls)


def _path(scenario: Scenario) -> Between:
    """Its ends, without the name of a search: that of a study is no other path than its probes'."""
    ends = scenario.key.ends
    return replace(ends, tags=tuple(tag for tag in ends.tags if tag[0] != "limit"))


def _keepalive(found: _Evidence, stalled_ns: int) -> Iterator[Advice]:
    if not (found.died or found.expired):
        return
    safe = values.known_safe(found.survived, found.died)
    quantities = {"idle": ns(min(found.died))} if found.died else {}
    if safe is not None:
        quantities |= {"setting": ns(values.half(safe)), "survived": ns(safe)}
    yield Advice(
        "keepalive",
        tuple(found.paths),
        quantities,
        facts=tuple(found.facts),
        evidence=tuple(found.ids),
        confidence=_sure(found),
        recipes=() if safe is None else library_settings.keepalive(safe, stalled_ns),
    )


def _lifetime(found: _Evidence) -> Iterator[Advice]:
    safe = values.known_safe(found.survived, found.died)
    if safe is None:
        return
    most = values.most_of(safe)
    yield Advice(
        "lifetime",
        tuple(found.paths),
        {"setting": ns(values.round_below(most)), "survived": ns(safe), "died": ns(min(found.died))},
        facts=tuple(found.facts),
        evidence=tuple(found.ids),
        confidence=_sure(found),
        recipes=library_settings.lifetime(most, safe),
    )


def _sure(found: _Evidence) -> Confidence:
    return "high" if found.finished else "medium"


def _found(scenarios: Sequence[Scenario], kind: Literal["idle", "age"]) -> dict[Between, _Evidence]:
    """By the ends of the path: what is called otherwise may be the same path."""
    every: dict[Between, _Evidence] = {}
    for scenario, recording in recordings_of(scenarios):
        mine = _Evidence()
        if is_search(recording.manifest.mode):
            if limits.kind(recording) == kind:
                _searched(mine, recording)
        elif kind == "idle":
            _expired(mine, recording)
        if mine.ids:
            mine.paths[scenario.name] = None
            one = every.setdefault(_path(scenario), _Evidence())
            one.paths |= mine.paths
            for name in ("survived", "died", "facts"):
                getattr(one, name).extend(getattr(mine, name))
            one.ids += [i for i in mine.ids if i not in one.ids]
            one.finished, one.expired = one.finished and mine.finished, one.expired or mine.expired
    return every


def _searched(into: _Evidence, recording: Recording) -> None:
    """What a search says, where `fathom limits check` would take it."""
    result = limits.result(recording)
    if not _is_usable(result):
        return
    into.finished = result.get("verdict") in DECIDED
    for which, lengths in (("survived", into.survived), ("died", into.died)):
        if end := limits.end(result, which):
            lengths.append(int(end["lasted"].value))
            terms = {"limit": limits.kind(recording)}
            into.fact(Fact(f"limit {which}", end, terms, id=f"{recording.manifest.id}/limits"))


def _is_usable(result: Mapping[str, Any]) -> bool:
    """With keepalives or traffic of its own its lengths are none of idleness; an unclear one found none."""
    moved = result.get("keepalive_ns") is not None or result.get("one_way") is not None
    return not moved and result.get("verdict") not in _UNCLEAR


def _expired(into: _Evidence, recording: Recording) -> None:
    for c in deaths(recording):
        idle = c.evidence.get("idle_ns")
        if not c.explanation or c.explanation.verdict != "idle_expired":
            continue
        into.finished, into.expired = False, True
        into.ids.append(f"{recording.manifest.id}/connection/{c.id}")
        if isinstance(idle, int):
            into.died.append(idle)
        if len(into.ids) <= _MOST_TOLD:
            into.facts += _told(recording, c)


def _told(recording: Recording, c: Connection) -> list[Fact]:
    because = c.explanation.because if c.explanation else ()
    return [
        Fact("recorded", terms={"text": t}, id=f"{recording.manifest.id}/connection/{c.id}") for t in because
    ]
