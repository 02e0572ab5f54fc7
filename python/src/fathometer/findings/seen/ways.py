"""Connections of one run that differ all run long, as they do over ways of equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fathometer.dataset.recording import Recording
from fathometer.findings.connections import ConnectionLevel, levels
from fathometer.findings.finding import Advice, Fact, Finding, Place, ns, number
from fathometer.findings.model import Run, Scenario
from fathometer.findings.words import listed

KIND: Final = "connections differ"
NAMED: Final = 8
"""Maximum number of connections of a level that a sentence names; all slower ones are in `Finding.where`."""
_LOOPBACK: Final = ("127.", "[::1]", "::1")


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """One finding for each path, about the recording whose connections are farthest apart."""
    every: list[Finding] = []
    seen: set[str] = set()
    for s in scenarios:
        if s.units is None:
            continue
        told = [(run, found) for run in s.runs if _is_new(run, seen) and (found := levels(run))]
        if told:
            run, found = max(told, key=lambda one: one[1][-1].median_ns - one[1][0].median_ns)
            every.append(_finding(s, run.recording, found, len(told)))
    return every


def _is_new(run: Run, seen: set[str]) -> bool:
    """True if no other scenario of the recording, as that of another size, has reported it."""
    new = run.recording.manifest.id not in seen
    seen.add(run.recording.manifest.id)
    return new


def _finding(s: Scenario, recording: Recording, found: Sequence[ConnectionLevel], recordings: int) -> Finding:
    slower = sorted(c for level in found[1:] for c in level.connections)
    remote = next((c.remote for c in recording.connections if c.remote), "")
    return Finding(
        KIND,
        tuple(Place(s.name, recording.manifest.id, c) for c in slower),
        quantities={
            "slower": number(len(slower), "connections"),
            "of": number(sum(len(level.connections) for level in found), "connections"),
            "levels": number(len(found)),
            "gap": ns(found[-1].median_ns - found[0].median_ns),
            "low": ns(found[0].median_ns),
            "high": ns(found[-1].median_ns),
            "recordings": number(recordings),
            "recordings of all": number(len(s.runs)),
        },
        terms={
            "connections": listed([str(c) for c in slower], NAMED),
            # There are no alternative ways to this host itself.
            "reached": "loopback" if remote.startswith(_LOOPBACK) else "network",
        },
        facts=tuple(_level(recording, level) for level in found),
    )


def _level(recording: Recording, level: ConnectionLevel) -> Fact:
    local = {c.id: c.local for c in recording.connections if c.local}
    names = [f"{c} (port {local[c].rpartition(':')[2]})" if c in local else f"{c}" for c in level.connections]
    return Fact(
        "level of connections",
        {"median": ns(level.median_ns), "connections": number(len(names), "connections")},
        {"names": listed(names, NAMED)},
        id=f"{recording.manifest.id}/connections",
    )


def advice(told: Sequence[Finding]) -> list[Advice]:
    """Advice if connections take ways of unequal length."""
    return [
        Advice(
            "ways",
            f.paths,
            {"gap": f.quantities["gap"]},
            saves=f.quantities["gap"],
            evidence=(f.id,),
            confidence="medium",
        )
        for f in told
        if f.kind == KIND and f.terms["reached"] == "network"
    ]
