"""Whether connections die of their age: over all of them, of whatever paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fathometer.findings.finding import Fact, Finding, Incident, ns, number
from fathometer.findings.lives import OURS, TOGETHER_NS
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of
from fathometer.stats.ages import Ages, Spans, ages

FEWEST_EVENTS: Final = 3
"""In which connections died, from which age is asked about: two always agree in something."""


@dataclass(frozen=True, slots=True)
class Life:
    """One connection's life as far as it was seen."""

    path: str
    age_ns: int
    ended_ns: int
    """Or last seen."""
    died: bool
    """False: it was closed by us, or was still open when the recording ends, and would have lived on."""
    incident: Incident | None = None
    """What it died in, where that is known."""


def lives(scenarios: Sequence[Scenario], incidents: Sequence[Incident] = ()) -> list[Life]:
    """Every connection that samples went over, those still open in a running or interrupted recording too:
    left out, they would make the others' deaths look like a law.
    """
    of = {(f.recording, f.connection): i for i in incidents for f in i.parts if f.kind == "death"}
    every = []
    for scenario, recording in recordings_of(scenarios):
        last_ns = recording.over_ns
        for c in recording.lasting:
            if c.closed_ns is None and c.opened_ns is not None and last_ns > c.opened_ns:
                every.append(Life(scenario.name, last_ns - c.opened_ns, last_ns, died=False))
            elif c.closed_ns is not None and c.age_ns:
                incident = of.get((recording.manifest.id, c.id))
                died = c.cause not in OURS
                every.append(Life(scenario.name, c.age_ns, c.closed_ns, died, incident))
    return every


def events(every: Sequence[Life]) -> NDArray[np.int64]:
    """Which deaths were one event: those that follow each other within seconds, on whatever paths, and those
    of one incident (only the first of a recording's deaths are in any). Who lived on is no part of any.
    """
    event = np.arange(len(every), dtype=np.int64) + len(every)
    number_of: dict[str | int, int] = {}
    moment, last_ns, known = 0, 0, 0
    for i in sorted((i for i, one in enumerate(every) if one.died), key=lambda i: every[i].ended_ns):
        one = every[i]
        moment += one.ended_ns - last_ns > TOGETHER_NS
        last_ns = one.ended_ns
        keys: list[str | int] = [moment, *([one.incident.id] if one.incident else [])]
        mine = next((number_of[k] for k in keys if k in number_of), known)
        known += mine == known
        number_of |= dict.fromkeys(keys, mine)
        event[i] = mine
    return event


def of_age(every: Sequence[Life]) -> Ages | None:
    """Whether they die of their age; None where too little happened to ask. What a migration took has its
    explanation, and counts as if it had lived on.
    """
    died = np.array([_counts(one) for one in every], dtype=np.bool_)
    event = events(every)
    if len(np.unique(event[died])) < FEWEST_EVENTS:
        return None
    ended = np.array([one.ended_ns for one in every], dtype=np.int64)
    begun = ended - np.array([one.age_ns for one in every], dtype=np.int64)
    paths = {name: i for i, name in enumerate(dict.fromkeys(one.path for one in every))}
    path = np.array([paths[one.path] for one in every], dtype=np.int64)
    return ages(Spans(begun, ended, died, event, path))


def _counts(one: Life) -> bool:
    return one.died and (one.incident is None or one.incident.kind != "migration")


def findings(scenarios: Sequence[Scenario], incidents: Sequence[Incident]) -> list[Finding]:
    """What all deaths together say of an age limit."""
    every = lives(scenarios, incidents)
    told = of_age(every)
    if told is None:
        return []
    dead = [one for one in every if _counts(one)]
    age, ended = ([getattr(one, name) for one in dead] for name in ("age_ns", "ended_ns"))
    facts = (
        Fact("ages", {"youngest": ns(min(age)), "oldest": ns(max(age))}),
        Fact("moments", {"last": number(max(ended))}, at_ns=min(ended)),
    )
    deaths = {"deaths": number(len(dead), "connections")}
    return [Finding("ages", confidence="medium", quantities=deaths, facts=facts, result=told)]
