"""What the lives of connections say about keepalive, time-outs and refreshing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fathometer.findings.finding import Advice, Fact, Finding, Incident, Quantity, ns, number
from fathometer.findings.lives import TOGETHER_NS, Life, deaths, lives
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of
from fathometer.findings.unanswered import gaps
from fathometer.stats.family import MATTERS
from fathometer.stats.lifetimes import Lives, hazard, refresh_age

USER_TIMEOUT_NS: Final = 30_000_000_000
"""What Azure recommends for TCP_USER_TIMEOUT where live migrations happen, and longer than any of
their pauses."""


def advice(scenarios: Sequence[Scenario], incidents: Sequence[Incident]) -> list[Advice]:
    """What to set, and what that saves; what would have spared most comes first."""
    return [
        *_idle(scenarios),
        *_forgotten(incidents),
        *_outages(scenarios, incidents),
        *_timeout(scenarios),
        *_refresh(scenarios),
    ]


def _forgotten(incidents: Sequence[Incident]) -> Iterator[Advice]:
    """Silences that a shorter TCP_USER_TIMEOUT would have ended: flows that nobody knew any more."""
    mine = [i for i in incidents if any(_is_forgotten(f) for f in i.parts)]
    silences = [f.quantities["silent"].value for i in mine for f in i.parts if _is_forgotten(f)]
    if not silences or max(silences) <= USER_TIMEOUT_NS:
        return
    # Shorter than what recovers by itself it would end connections that live.
    recovered = [
        f.quantities["length"].value
        for i in incidents
        for f in i.parts
        if f.kind == "stall" and f.terms["end"] == "recovered" and "length" in f.quantities
    ]
    setting = max(USER_TIMEOUT_NS, 2 * max(recovered, default=0.0))
    saved = max(silences) - setting
    if saved < MATTERS * max(silences):
        return
    yield Advice(
        "user timeout",
        tuple(dict.fromkeys(path for i in mine for path in i.paths)),
        {"setting": ns(setting), "silent": ns(max(silences))},
        saves=Quantity(saved, "ns", min(max(s - setting, 0.0) for s in silences), saved),
        facts=(Fact("forgotten", {"connections": number(len(silences), "connections")}),),
        evidence=tuple(i.id for i in mine),
        confidence="medium",
    )


def _is_forgotten(f: Finding) -> bool:
    return f.kind == "death" and f.cause == "flow_forgotten"


def _goes_on(incident: Incident, scenarios: Sequence[Scenario]) -> bool:
    """Whether the end of an outage was not seen: one of its paths was not answered from then on."""
    mine = {p.recording for p in incident.where}
    for _, recording in recordings_of(scenarios):
        if recording.manifest.id not in mine:
            continue
        last = gaps(recording)[-1:]
        if last and last[0][1] >= recording.over_ns and last[0][0] <= incident.to_ns:
            return True
        if not recording.connections or incident.to_ns >= recording.over_ns:
            return True
    return False


def _outages(scenarios: Sequence[Scenario], incidents: Sequence[Incident]) -> Iterator[Advice]:
    """For how long a retry budget must last: the longest outage."""
    mine = [i for i in incidents if i.kind == "outage"]
    if not mine:
        return
    # Of one path: what several went through one after another nobody waits for.
    longest = max(i.toll.silent_ns or i.lasted_ns for i in mine)
    over = not any(_goes_on(i, scenarios) for i in mine if (i.toll.silent_ns or i.lasted_ns) == longest)
    if longest <= 0:
        return  # Of one attempt at a moment nobody knows how long to retry.
    lost = sum(i.toll.lost + i.toll.unsent for i in mine)
    yield Advice(
        "retry budget",
        tuple(dict.fromkeys(path for i in mine for path in i.paths)),
        {"longest": ns(longest), "outages": number(len(mine))},
        {} if over else {"over": "no"},
        saves=number(lost, "samples") if lost else None,
        evidence=tuple(i.id for i in mine),
        confidence="medium",
    )


def _refresh(scenarios: Sequence[Scenario]) -> Iterator[Advice]:
    every = lives(scenarios)
    observed = Lives(
        np.array([float(one.age_ns) for one in every]),
        np.array([one.died for one in every], dtype=np.bool_),
        _events(every),
    )
    best = refresh_age(hazard(observed))
    if best.age_ns is None:
        return
    counts = {"deaths": number(observed.deaths), "connections": number(len(every))}
    yield Advice(
        "refresh age",
        quantities={"age": ns(best.age_ns)},
        saves=number(best.saved, "share"),
        facts=(Fact("lives", counts), Fact("refresh", result=best)),
        confidence="medium",
    )


def _events(every: Sequence[Life]) -> NDArray[np.int64]:
    """Which deaths were one event, on whatever paths: those that follow each other within seconds. Who lived
    on is no part of any.
    """
    died = np.array([one.died for one in every], dtype=np.bool_)
    ended = np.array([one.ended_ns for one in every], dtype=np.int64)
    event = np.arange(len(every)) + len(every)
    order = np.flatnonzero(died)[np.argsort(ended[died], kind="stable")]
    event[order] = np.cumsum(np.diff(ended[order], prepend=ended[order[:1]]) > TOGETHER_NS)
    return event


def _idle(scenarios: Sequence[Scenario]) -> Iterator[Advice]:
    expired = [
        (scenario.name, recording.manifest.id, c)
        for scenario, recording in recordings_of(scenarios)
        for c in deaths(recording)
        if c.explanation and c.explanation.verdict == "idle_expired"
    ]
    if not expired:
        return
    idle = [int(i) for _, _, c in expired if isinstance(i := c.evidence.get("idle_ns"), int)]
    yield Advice(
        "keepalive",
        tuple(dict.fromkeys(path for path, _, _ in expired)),
        quantities={"idle": ns(min(idle))} if idle else {},
        facts=tuple(
            Fact("recorded", terms={"text": text}, id=f"{name}/connection/{c.id}")
            for _, name, c in expired[:3]
            for text in (c.explanation.because if c.explanation else ())
        ),
        evidence=tuple(f"{name}/connection/{c.id}" for _, name, c in expired),
    )


def _timeout(scenarios: Sequence[Scenario]) -> Iterator[Advice]:
    waits = [
        (scenario.name, s.duration_ns, (recording.manifest.id, s.connection))
        for scenario, recording in recordings_of(scenarios)
        for s in recording.stalls
        if s.recovered and s.duration_ns
    ]
    if waits:
        yield Advice(
            "time-out",
            tuple(dict.fromkeys(path for path, _, _ in waits)),
            {"longest": ns(max(length for _, length, _ in waits))},
            saves=number(len({connection for _, _, connection in waits}), "connections"),
            facts=(Fact("recovered", {"times": number(len(waits))}),),
            confidence="medium",
        )
