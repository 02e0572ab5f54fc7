"""What the recordings say about the measurement itself: losses, lateness, clocks, damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from fathometer.dataset.model import Event
from fathometer.dataset.recording import Recording
from fathometer.dataset.summaries import OpenedSummary
from fathometer.findings import weight
from fathometer.findings.finding import Fact, Finding, Place, Quantity, ns, number
from fathometer.findings.model import Scenario, is_making, is_search
from fathometer.findings.scenarios import recordings_of

LOSS_WORTH_TELLING = 1e-4
"""Share of unanswered samples from which a scenario is said to lose some; fewer stand in the table only."""
PAUSE_WORTH_TELLING_NS: Final = 100_000_000
"""A shorter pause is counted, and told only by what it explains: a scheduler's turn, no event."""
MOST_PAUSES: Final = 50
"""Of a host in a recording that are told one by one: the longest."""
APART_NS: Final = 5_000_000_000
"""Events of one kind that follow each other this closely are told as one."""
STEPPED: Final = "clock.stepped"
_TROUBLES: Final = (STEPPED, "schedule.overrun", "recording.overflowed")
"""Kinds of events that say something of the measurement."""


def findings(scenarios: Sequence[Scenario]) -> list[Finding]:
    """Everything that a reader must know before believing a number."""
    every = [f for scenario, recording in recordings_of(scenarios) for f in _recording(scenario, recording)]
    for scenario in scenarios:
        every += _losses(scenario)
        every += _rhythms(scenario)
        if scenario.first and scenario.first.differs:
            every.append(Finding("first sample", (Place(scenario.name),), result=scenario.first))
    return every


def of_rollups(scenarios: Sequence[Scenario]) -> list[Finding]:
    """What is not looked at where only a rollup is there: silence about it is no answer."""
    rolled = [recording for _, recording in recordings_of(scenarios) if recording.source is None]
    if not rolled:
        return []
    step = max(recording.rollup.step_ns for recording in rolled)
    return [Finding("rolled up", quantities={"recordings": number(len(rolled)), "step": ns(step)})]


def _rhythms(scenario: Scenario) -> list[Finding]:
    calendar = scenario.calendar
    return [
        Finding("rhythm", (Place(scenario.name),), confidence="medium", result=rhythm)
        for rhythm in ((calendar.of_day, calendar.of_week) if calendar else ())
        if rhythm.shown
    ]


def of_summaries(summaries: Sequence[OpenedSummary]) -> list[Finding]:
    """What another tool's figures without samples cannot support."""
    return [
        Finding(
            "summary",
            (Place(one.label),),
            quantities={} if one.count is None else {"values": number(one.count)},
            terms={"tool": one.tool},
            facts=tuple(_recorded(text) for text in (*one.cannot, *one.notes)),
        )
        for one in summaries
    ]


def _recorded(text: str) -> Fact:
    """Somebody else's words."""
    return Fact("recorded", terms={"text": text})


def _losses(scenario: Scenario) -> list[Finding]:
    if any(run.recording.throughput for run in scenario.runs):
        return []  # It has no samples, and a story of its own (`throughput`).
    if is_search(scenario.key.mode):
        return []  # As well (`seen.limits`).
    unit = "connections" if is_making(scenario.key.mode) else "samples"
    quantities = {
        "sent": Quantity(scenario.sent, unit),  # type: ignore[arg-type]  # one of two literals
        "unanswered": Quantity(scenario.unanswered, unit),  # type: ignore[arg-type]
        "corrupt": Quantity(scenario.corrupt, unit),  # type: ignore[arg-type]
    }
    where = (Place(scenario.name),)
    if scenario.sent == 0:
        return [Finding("no samples", where)]
    if scenario.lost == scenario.sent:
        return [Finding("no answers", where, quantities=quantities)]
    if scenario.unanswered / scenario.sent < LOSS_WORTH_TELLING:
        return []
    return [Finding("loss", where, quantities=quantities)]


def _recording(scenario: Scenario, recording: Recording) -> list[Finding]:
    where = (Place(scenario.name, recording.manifest.id),)
    name = {"name": recording.directory.name}
    torn = [d for d in recording.damage if d.torn]
    broken = recording.broken
    every: list[Finding] = []
    if broken:
        every.append(Finding("damage", where, terms=name, facts=tuple(_recorded(str(d)) for d in broken)))
    if recording.running:
        every.append(Finding("running", where, terms=name))
    elif recording.interrupted:
        every.append(Finding("interrupted", where, terms=name, facts=tuple(_recorded(str(d)) for d in torn)))
    totals = recording.totals
    if totals.corrupted:
        every.append(Finding("corrupted", where, quantities={"echoes": number(totals.corrupted)}))
    for kind in _TROUBLES:
        every += _troubles(kind, where, recording)
    every += _pauses(where, recording)
    if "simulated" in recording.manifest.extra:
        every.append(Finding("simulated", where, terms=name))
    if recording.manifest.imported:
        notes = tuple(_recorded(str(n)) for n in recording.manifest.imported.get("notes", ()))
        tool = str(recording.manifest.imported.get("tool", "another tool"))
        every.append(Finding("imported", where, terms={**name, "tool": tool}, facts=notes))
    return every


def _troubles(kind: str, where: tuple[Place, ...], recording: Recording) -> list[Finding]:
    """One a cluster of events of a kind that have one reason."""
    clusters: list[list[tuple[int, Event]]] = []
    last: dict[str, list[tuple[int, Event]]] = {}
    for n, event in enumerate(recording.events):
        if event.kind != kind:
            continue
        reason = _reason(event)
        # Each step of the clock counts by itself: their sum is no event.
        cluster = None if kind == STEPPED else last.get(reason)
        if cluster and event.at_ns - cluster[-1][1].at_ns <= APART_NS:
            cluster.append((n, event))
        else:
            last[reason] = [(n, event)]
            clusters.append(last[reason])
    return [_trouble(kind, where, cluster) for cluster in clusters]


def _reason(event: Event) -> str:
    """Empty: it tells none."""
    return str(event.fields.get("reason", ""))


def _trouble(kind: str, where: tuple[Place, ...], cluster: Sequence[tuple[int, Event]]) -> Finding:
    events = [e for _, e in cluster]
    quantities = {"times": number(len(cluster))}
    for field in ("skipped", "lost"):
        amounts = [v for e in events if isinstance(v := e.fields.get(field), int)]
        if amounts:
            quantities["samples"] = number(sum(amounts), "samples")
    steps = [v for e in events if isinstance(v := e.fields.get("step_ns"), int)]
    if steps:
        quantities["step"] = ns(sum(steps))
    reason = _reason(events[0])
    return Finding(
        kind,
        where,
        min(map(_began_ns, events)),
        events[-1].at_ns,
        quantities=quantities,
        terms={"reason": reason} if reason else {},
        facts=tuple(
            Fact(
                "fields",
                terms={k: str(v) for k, v in e.fields.items() if isinstance(v, (int, str))},
                at_ns=e.at_ns,
                id=f"{where[0].recording}/events/{n}",
            )
            for n, e in cluster[:5]
        ),
    )


def _began_ns(event: Event) -> int:
    """When an event's matter began: samples that were not sent are told when they are given up, hours after
    the first of them was due where a run goes on without a connection.
    """
    behind = event.fields.get("behind_ns")
    return max(event.at_ns - behind, 0) if isinstance(behind, int) else event.at_ns


def _pauses(where: tuple[Place, ...], recording: Recording) -> list[Finding]:
    """The long ones each; and what all of a host's come to, where there are others."""
    every = []
    for host in ("local", "remote"):
        mine = [(n, p) for n, p in enumerate(recording.pauses) if p.host == host]
        worth = [(n, p) for n, p in mine if p.duration_ns >= PAUSE_WORTH_TELLING_NS]
        longest = sorted(worth, key=lambda one: -one[1].duration_ns)[:MOST_PAUSES]
        for n, p in sorted(longest, key=lambda one: one[1].start_ns):
            every.append(
                Finding(
                    "pause",
                    where,
                    p.start_ns,
                    p.end_ns,
                    cause="local_paused" if host == "local" else "peer_paused",
                    quantities={"length": ns(p.duration_ns)},
                    terms={
                        "host": host,
                        "reason": p.reason or "",
                        "clock": weight.names(recording, "local"),
                        "who": weight.names(recording, host),
                    },
                    facts=(pause_fact(recording, n),),
                    # A remote pause is known by the first echo after it.
                    uncertain_ns=0 if host == "local" else recording.manifest.interval_ns or 0,
                )
            )
        if len(mine) > len(longest):
            reasons = Counter(p.reason or "reason not known" for _, p in mine)
            every.append(
                Finding(
                    "pauses",
                    where,
                    quantities={
                        "times": number(len(mine)),
                        "total": ns(sum(p.duration_ns for _, p in mine)),
                        "longest": ns(max(p.duration_ns for _, p in mine)),
                    },
                    terms={"host": host},
                    facts=tuple(
                        Fact("reasons", {"times": number(n)}, {"reason": reason})
                        for reason, n in reasons.most_common(3)
                    ),
                )
            )
    return every


def pause_fact(recording: Recording, n: int) -> Fact:
    """One pause of a recording as evidence."""
    p = recording.pauses[n]
    return Fact(
        "pause",
        {"length": ns(p.duration_ns)},
        {"host": p.host, "reason": p.reason or ""},
        p.start_ns,
        f"{recording.manifest.id}/pause/{n}",
    )
