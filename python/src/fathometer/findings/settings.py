"""What the lives of connections say about keepalive, time-outs and refreshing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fathometer.findings.finding import Advice, Fact, ns, number
from fathometer.findings.lives import TOGETHER_NS, deaths, lives
from fathometer.findings.model import Scenario
from fathometer.findings.parts import recordings_of
from fathometer.findings.verdicts import of_refresh
from fathometer.stats.lifetimes import Lives, hazard, refresh_age


def advice(scenarios: Sequence[Scenario]) -> list[Advice]:
    """What to set, and what that saves."""
    return [*_refresh(scenarios), *_idle(scenarios), *_timeout(scenarios)]


def _refresh(scenarios: Sequence[Scenario]) -> Iterator[Advice]:
    every = lives(scenarios)
    observed = Lives(
        np.array([float(one.age_ns) for one in every]),
        np.array([one.died for one in every], dtype=np.bool_),
        # Ends within seconds of each other are one event, on whatever paths.
        np.array([one.ended_ns // TOGETHER_NS for one in every], dtype=np.int64),
    )
    best = refresh_age(hazard(observed))
    if best.age_ns is None:
        return
    counts = {"deaths": number(observed.deaths), "connections": number(len(every))}
    yield Advice(
        "refresh age",
        quantities={"age": ns(best.age_ns)},
        saves=number(best.saved, "share"),
        facts=(Fact("lives", counts), Fact("recorded", terms={"text": of_refresh(best)})),
        confidence="medium",
    )


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
        (scenario.name, s.duration_ns)
        for scenario, recording in recordings_of(scenarios)
        for s in recording.stalls
        if s.recovered and s.duration_ns
    ]
    if waits:
        yield Advice(
            "time-out",
            tuple(dict.fromkeys(path for path, _ in waits)),
            {"longest": ns(max(length for _, length in waits))},
            facts=(Fact("recovered", {"times": number(len(waits))}),),
            confidence="medium",
        )
