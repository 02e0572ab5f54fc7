"""What the lives of connections say about keepalive, time-outs and refreshing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fathometer.dataset.recording import Recording
from fathometer.findings import library_settings, path_limits, values
from fathometer.findings.ageing import events, lives, of_age
from fathometer.findings.finding import Advice, Fact, Finding, Incident, Quantity, ns, number
from fathometer.findings.lives import TOGETHER_NS
from fathometer.findings.model import Between, Scenario
from fathometer.findings.parts import recordings_of
from fathometer.findings.unanswered import Span, gaps
from fathometer.stats.family import MATTERS
from fathometer.stats.lifetimes import Lives, hazard, refresh_age


def advice(scenarios: Sequence[Scenario], incidents: Sequence[Incident]) -> list[Advice]:
    """What to set, and what that saves; what would have spared most comes first."""
    waits = _recovered(scenarios)
    by_length = sorted(waits, key=lambda w: w.lasted_ns)
    forgotten = list(_forgotten(scenarios, incidents, waits))
    limited = list(path_limits.advice(scenarios, {w.path: w.lasted_ns for w in by_length}))
    return [
        *limited,
        *forgotten,
        *_outages(scenarios, incidents),
        *_timeout(waits, told=bool(forgotten)),
        *_refresh(scenarios, limited),
    ]


@dataclass(frozen=True, slots=True)
class _Wait:
    """A stall after which the echo came by itself."""

    path: str
    ends: Between
    connection: tuple[str, int | None]
    began_ns: int
    lasted_ns: int


def _recovered(scenarios: Sequence[Scenario]) -> list[_Wait]:
    return [
        _Wait(
            scenario.name,
            scenario.key.ends,
            (recording.manifest.id, s.connection),
            s.began_ns,
            s.duration_ns,
        )
        for scenario, recording in recordings_of(scenarios)
        for s in recording.stalls
        if s.recovered and s.duration_ns
    ]


def _moments(waits: Sequence[_Wait]) -> list[int]:
    """The longest of each moment, ns: what stopped twenty connections at once is one stall of a path."""
    longest: list[int] = []
    last_ns = None
    for w in sorted(waits, key=lambda w: w.began_ns):
        if last_ns is not None and w.began_ns - last_ns <= TOGETHER_NS:
            longest[-1] = max(longest[-1], w.lasted_ns)
        else:
            longest.append(w.lasted_ns)
        last_ns = w.began_ns
    return longest


@dataclass(frozen=True, slots=True)
class _Bound:
    """Lower bound of a timeout for several paths."""

    recovered: list[int]
    """The stalls of all paths, ns."""
    few: bool
    """True if a path showed too few stalls to predict its next one. Stalls of one path say nothing about
    another path.
    """

    @property
    def setting(self) -> int:
        """The longest timeout that one of the paths needs."""
        return values.user_timeout(self.recovered, few=self.few)


def _bound(waits: Sequence[_Wait], ends: Iterable[Between]) -> _Bound:
    by_path = [_moments([w for w in waits if w.ends == one]) for one in dict.fromkeys(ends)]
    few = any(len(one) < values.ENOUGH_STALLS for one in by_path) or not by_path
    return _Bound([ns for one in by_path for ns in one], few)


def _forgotten(
    scenarios: Sequence[Scenario], incidents: Sequence[Incident], waits: Sequence[_Wait]
) -> Iterator[Advice]:
    """Silences that a shorter TCP_USER_TIMEOUT would have ended: flows that nobody knew any more."""
    mine = [i for i in incidents if any(_is_forgotten(f) for f in i.parts)]
    silences = [f.quantities["silent"].value for i in mine for f in i.parts if _is_forgotten(f)]
    # Shorter than what recovers by itself it would end connections that live.
    paths = {path for i in mine for path in i.paths}
    bound = _bound(waits, (s.key.ends for s in scenarios if s.name in paths))
    setting = bound.setting
    if not silences or max(silences) - setting < MATTERS * max(silences):
        return
    saved = max(silences) - setting
    yield Advice(
        "user timeout",
        tuple(dict.fromkeys(path for i in mine for path in i.paths)),
        {"setting": ns(setting), "silent": ns(max(silences))},
        saves=Quantity(saved, "ns", min(max(s - setting, 0.0) for s in silences), saved),
        facts=(Fact("forgotten", {"connections": number(len(silences), "connections")}), *_margin(bound)),
        evidence=tuple(i.id for i in mine),
        confidence="medium",
        recipes=library_settings.user_timeout(setting),
    )


def _margin(bound: _Bound) -> Iterator[Fact]:
    """What a user timeout stays above."""
    if not bound.recovered:
        yield Fact("no stall recovered", {"least": ns(values.USER_TIMEOUT_NS)})
        return
    yield Fact(
        "longest stall",
        {
            "times": number(len(bound.recovered)),
            "longest": ns(max(bound.recovered)),
            "margin": number(values.MARGIN),
            "least": ns(values.USER_TIMEOUT_NS if bound.few else values.LEAST_TIMEOUT_NS),
        },
        {"few": "yes" if bound.few else "no"},
    )


def _is_forgotten(f: Finding) -> bool:
    return f.kind == "death" and f.cause == "flow_forgotten"


def _goes_on(incident: Incident, last_gaps: Sequence[tuple[Recording, Sequence[Span]]]) -> bool:
    """Whether the end of an outage was not seen: one of its paths was not answered from then on."""
    mine = {p.recording for p in incident.where}
    for recording, last in last_gaps:
        if recording.manifest.id not in mine:
            continue
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
    last_gaps = [(recording, gaps(recording)[-1:]) for _, recording in recordings_of(scenarios)]
    over = not any(_goes_on(i, last_gaps) for i in mine if (i.toll.silent_ns or i.lasted_ns) == longest)
    if longest <= 0:
        return  # Of one attempt at a moment nobody knows how long to retry.
    lost = sum(i.toll.lost + i.toll.unsent for i in mine)
    # How long one lasts whose end was not seen nobody knows.
    patience = values.patience(longest) if over else None
    quantities = {"longest": ns(longest), "outages": number(len(mine))}
    facts: tuple[Fact, ...] = ()
    if patience is not None:
        quantities |= {"retries": number(patience.retries), "deadline": ns(patience.deadline_ns)}
        facts = (Fact("retries of each", {"retries": number(patience.retries)}),)
    yield Advice(
        "retry budget",
        tuple(dict.fromkeys(path for i in mine for path in i.paths)),
        quantities,
        {} if over else {"over": "no"},
        saves=number(lost, "samples") if lost else None,
        facts=facts,
        evidence=tuple(i.id for i in mine),
        confidence="medium",
        recipes=() if patience is None else library_settings.retries(patience),
    )


def _refresh(scenarios: Sequence[Scenario], limited: Sequence[Advice]) -> Iterator[Advice]:
    every = lives(scenarios)
    observed = Lives(
        np.array([float(one.age_ns) for one in every]),
        np.array([one.died for one in every], dtype=np.bool_),
        events(every),
    )
    best = refresh_age(hazard(observed))
    if best.age_ns is None:
        return
    # What seems to rise with age may rise with the clock: a new connection would die at that moment too.
    told = of_age(every)
    if told is None or told.better != "age":
        return
    counts = {"deaths": number(observed.deaths), "connections": number(len(every))}
    # Below the limits that were found it would be a second answer to one question.
    lifetimes = [a.quantities["setting"].value for a in limited if a.topic == "lifetime"]
    if min(lifetimes, default=best.age_ns) < best.age_ns:
        return
    yield Advice(
        "refresh age",
        quantities={"age": ns(best.age_ns), "setting": ns(values.round_below(int(best.age_ns)))},
        saves=number(best.saved, "share"),
        facts=(Fact("lives", counts), Fact("refresh", result=best)),
        confidence="medium",
        recipes=library_settings.lifetime(int(best.age_ns), int(best.age_ns)),
    )


def _timeout(waits: Sequence[_Wait], *, told: bool) -> Iterator[Advice]:
    """`told`: that of forgotten flows says how to set it already."""
    if not waits:
        return
    bound = _bound(waits, (w.ends for w in waits))
    yield Advice(
        "time-out",
        tuple(dict.fromkeys(w.path for w in waits)),
        {"longest": ns(max(bound.recovered)), "setting": ns(bound.setting)},
        saves=number(len({w.connection for w in waits}), "connections"),
        facts=(Fact("recovered", {"times": number(len(waits))}), *_margin(bound)),
        confidence="medium",
        recipes=() if told else library_settings.user_timeout(bound.setting),
    )
