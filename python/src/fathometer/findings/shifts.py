"""Change points, and what else happened when they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset import raw
from fathometer.dataset.model import Pause
from fathometer.dataset.recording import Recording
from fathometer.dataset.regroup import envelope
from fathometer.dataset.selection import ALL, Selection
from fathometer.dataset.steps import MOST
from fathometer.findings import waits, weight
from fathometer.findings.finding import Confidence, Fact, Finding, Place, ns, number
from fathometer.findings.model import Moved, Scenario
from fathometer.findings.quality import PAUSE_WORTH_TELLING_NS, pause_fact
from fathometer.stats.changes import Change, Examined, Undecided, examine, placed

RAW = 2_000_000
"""Samples up to which every one is looked at; a longer recording is first made into medians of equal time,
the steps of its rollup, and its changes are then placed among the samples around them."""
MOST_PLACED = 100
"""Changes of a recording that are placed among its samples: each reads some row groups."""
NEAR_NS = 1_000_000_000
"""What happened this long before or after a change may have to do with it, ns; or `NEAR_SAMPLES`, where that
is longer. A minute would be too long: in eleven hours something always happens within a minute."""
NEAR_SAMPLES = 5
"""A change point is placed to within a few samples."""
NOTICE_NS = 60_000_000_000
"""How vague an announced time is: a minute on either side."""
RESTLESS = 4
"""Changes that follow each other this closely (see `_groups`), from which they are told as one restless time.
"""


def series(recording: Recording, selection: Selection = ALL) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Round trips in order of time with the times of sending; medians of stretches where there are too many.
    NaN: unanswered, or sent in a stall, whose length it measures and not the level of the path.
    """
    if recording.source is not None and recording.rows <= RAW:
        samples = raw.samples(recording, selection)
        waited = waits.of_samples(recording, samples.connection, samples.sent_ns)
        return np.where(waited, np.nan, samples.value_ns), samples.sent_ns
    medians = envelope(recording.rollup, MOST, selection)
    waited = waits.of_steps(recording, medians.start_ns, medians.width_ns)
    return np.where(waited, np.nan, medians.p50_ns), medians.start_ns


def examined(recording: Recording, selection: Selection = ALL) -> Examined:
    """The changes of a recording, each at its sample where there are samples."""
    values, at = series(recording, selection)
    if not len(values):
        return Examined((), ())
    coarse = examine(values, at_ns=at)
    if recording.rows <= RAW:
        return coarse
    return placed_among_samples(recording, selection, coarse)


def placed_among_samples(recording: Recording, selection: Selection, coarse: Examined) -> Examined:
    """Changes of level that were found in medians of steps, at the samples that they began with."""
    if recording.source is None:
        return coarse
    levels = [c for c in coarse.changes if c.kind == "level"][:MOST_PLACED]
    exact = {id(c): _at_its_sample(recording, selection, c) for c in levels}
    return replace(coarse, changes=tuple(exact.get(id(c), c) for c in coarse.changes))


def _at_its_sample(recording: Recording, selection: Selection, change: Change) -> Change:
    # The step that moved is known; the sample lies in it or in one of its neighbours.
    around = 2 * recording.rollup.step_ns
    at = change.at_ns or 0
    near = replace(selection, start_ns=at - around, end_ns=at + around)
    samples = raw.samples(recording, near)
    answered = np.flatnonzero(~np.isnan(samples.value_ns))
    place = placed(samples.value_ns[answered])
    if place is None or place >= len(answered):
        return change
    return replace(change, at_ns=int(samples.sent_ns[answered[place]]))


def changes(scenarios: Sequence[Scenario]) -> tuple[tuple[Moved, ...], tuple[tuple[str, Undecided], ...]]:
    """Every recording's change points, in order of time."""
    moved: list[Moved] = []
    undecided: list[tuple[str, Undecided]] = []
    for scenario in scenarios:
        for run in scenario.runs:
            answer = examined(run.recording, run.selection)
            moved += [Moved(run.recording, scenario.name, c) for c in answer.changes]
            undecided += [(scenario.name, u) for u in answer.undecided]
    return tuple(sorted(moved, key=lambda m: m.change.at_ns or 0)), tuple(undecided)


def findings(moved: Sequence[Moved]) -> list[Finding]:
    """Each change with the best-supported explanation of its moment; many in a row as one."""
    every: list[Finding] = []
    for group in _groups([m for m in moved if m.change.at_ns is not None]):
        if len(group) >= RESTLESS:
            every.append(_restless(group))
        elif len(group) >= 2 and _returns(group):
            every.append(_burst(group))
        else:
            every += [_shift(m) for m in group]
    return every


def _groups(moved: Sequence[Moved]) -> list[list[Moved]]:
    """Changes of one path in one recording that follow each other within a hundredth of its length: sizes
    that step at one moment are so many paths of one change, and no restless time of one.
    """
    groups: list[list[Moved]] = []
    last: dict[tuple[str, str], list[Moved]] = {}
    for m in moved:
        gap = max(m.recording.totals.span_ns // 100, near_ns(m.recording))
        key = m.scenario, m.recording.manifest.id
        group = last.get(key)
        if group and (m.change.at_ns or 0) - (group[-1].change.at_ns or 0) <= gap:
            group.append(m)
        else:
            last[key] = [m]
            groups.append(last[key])
    return groups


def _returns(group: Sequence[Moved]) -> bool:
    """Whether the level is back where it was."""
    levels = [m.change for m in group if m.change.kind == "level"]
    return len(levels) >= 2 and abs(levels[-1].after_ns - levels[0].before_ns) < 0.2 * levels[0].before_ns


def _place(moved: Moved) -> tuple[Place, ...]:
    return (Place(moved.scenario, moved.recording.manifest.id),)


def _burst(group: Sequence[Moved]) -> Finding:
    levels = [m.change for m in group if m.change.kind == "level"]
    first, recording = levels[0], group[0].recording
    cause, facts, confidence = explain(recording, first)
    # A path that changes and changes back at once is not what that word means.
    if cause == "path changed":
        cause, confidence = "passing", "low"
    return Finding(
        "burst",
        _place(group[0]),
        first.at_ns,
        levels[-1].at_ns,
        cause,
        confidence,
        quantities={"before": ns(first.before_ns), "during": ns(first.after_ns)},
        facts=tuple(facts),
        uncertain_ns=near_ns(recording),
    )


def near_ns(recording: Recording) -> int:
    """How far from a change something may be that explains it."""
    # Without samples a change is known to a step.
    step = recording.rollup.step_ns if recording.source is None else 0
    return max(NEAR_NS, NEAR_SAMPLES * (recording.manifest.interval_ns or 0), step)


def _restless(group: Sequence[Moved]) -> Finding:
    first, last, recording = group[0].change, group[-1].change, group[0].recording
    began, ended = first.at_ns or 0, last.at_ns or 0
    levels = [
        level for m in group if m.change.kind == "level" for level in (m.change.before_ns, m.change.after_ns)
    ]
    quantities = {"changes": number(len(group))}
    if levels:
        quantities |= {"lowest": ns(min(levels)), "highest": ns(max(levels))}
    _, facts, _ = explain(recording, first)
    pauses = [p for p in recording.pauses if began - NEAR_NS <= p.start_ns <= ended + NEAR_NS]
    quantities["pauses"] = number(len(pauses))
    busy = 2 * sum(_is_of_a_pause(m.change, recording, pauses) for m in group) > len(group)
    return Finding(
        "restless",
        _place(group[0]),
        began,
        ended,
        "busy host" if busy else "unknown",
        "medium" if busy else "low",
        quantities=quantities,
        facts=tuple(facts),
        uncertain_ns=near_ns(recording),
    )


def _is_of_a_pause(change: Change, recording: Recording, pauses: Sequence[Pause]) -> bool:
    """Whether a host did not run just then for long enough: no sample waits longer than that."""
    size, at, near = abs(change.after_ns - change.before_ns), change.at_ns or 0, near_ns(recording)
    return any(p.duration_ns >= size and p.start_ns - near <= at <= p.end_ns + near for p in pauses)


def _shift(moved: Moved) -> Finding:
    c, recording = moved.change, moved.recording
    cause, facts, confidence = explain(recording, c)
    return Finding(
        "change",
        _place(moved),
        c.at_ns,
        c.at_ns,
        cause,
        confidence,
        quantities={"before": ns(c.before_ns), "after": ns(c.after_ns)},
        terms={"of": c.kind, "across": "outage" if _across(recording, c) else ""},
        facts=tuple(facts),
        uncertain_ns=near_ns(recording),
    )


def explain(recording: Recording, change: Change) -> tuple[str, list[Fact], Confidence]:
    """The cascade: a pause, a new connection, a changed address or a notice at that moment; else the path, if
    TCP had nothing to repair.
    """
    at, near, name = change.at_ns or 0, near_ns(recording), recording.manifest.id

    def close(began_ns: int, ended_ns: int) -> bool:
        return began_ns - near <= at <= ended_ns + near

    stalls = [(n, s) for n, s in enumerate(recording.stalls) if close(s.began_ns, s.ended_ns or s.began_ns)]
    silence_ns = max((s.duration_ns or 0 for _, s in stalls), default=0)
    pauses = [
        (n, p)
        for n, p in enumerate(recording.pauses)
        if close(p.start_ns, p.end_ns)
        # A scheduler's turn is no reason to move, nor one of a silence of seconds.
        and p.duration_ns >= PAUSE_WORTH_TELLING_NS
        and weight.covers(p.duration_ns, silence_ns)
    ]
    local = [n for n, p in pauses if p.host == "local"]
    remote = [n for n, p in pauses if p.host == "remote"]
    first = _first_ns(recording)
    opened = [
        c
        for c in recording.lasting
        if c.opened_ns is not None and close(c.opened_ns, c.opened_ns) and c.opened_ns - first > near
    ]
    addresses = [
        (n, e)
        for n, e in enumerate(recording.events)
        if e.kind == "address.changed" and close(e.at_ns, e.at_ns)
    ]
    # A notice explains only the host it names.
    paused = {host for host, pauses in (("local", local), ("remote", remote)) if pauses}
    notices = [
        (n, m)
        for n, m in enumerate(recording.maintenance)
        if m.not_before_ns is not None
        and m.host in (paused or {"local", "remote"})
        and m.not_before_ns - NOTICE_NS <= at <= m.not_before_ns + (m.duration_ns or 0) + NOTICE_NS
    ]
    facts = [pause_fact(recording, n) for n in (*local[:3], *remote[:3])]
    facts += [notice_fact(recording, n) for n, _ in notices[:3]]
    facts += [
        Fact(
            "address changed",
            terms={k: str(e.fields.get(k, "not recorded")) for k in ("what", "from", "to")},
            at_ns=e.at_ns,
            id=f"{name}/events/{n}",
        )
        for n, e in addresses[:3]
    ]
    facts += [
        Fact("opened", terms={"connection": str(c.id)}, at_ns=c.opened_ns, id=f"{name}/connection/{c.id}")
        for c in opened[:3]
    ]
    facts += [
        Fact("stall", {"length": ns(s.duration_ns or 0)}, at_ns=s.began_ns, id=f"{name}/stall/{n}")
        for n, s in stalls[:3]
    ]
    if notices:
        return "maintenance", facts, "high" if stalls or remote or local else "medium"
    if addresses:
        return "address changed", facts, "high"
    if opened:
        return "new connection", facts, "medium"
    if stalls and not local:
        return "stall", facts, "medium"
    if remote:
        return "peer_paused", facts, "medium"
    if local:
        return "local_paused", facts, "medium"
    again = sum(s.retransmits or 0 for _, s in stalls)
    facts.append(Fact("nothing near", {"retransmissions": number(again), "within": ns(near)}))
    if change.kind == "tail":
        return "unknown", facts, "low"
    return "path changed", facts, "medium" if change.confidence >= 0.75 else "low"


def _first_ns(recording: Recording) -> int:
    """Time of the first sample. If the clock was set, a later sample may have an earlier time of day."""
    if recording.clock_was_set:
        return recording.manifest.started_ns
    return recording.totals.first_sent_ns or 0


def _across(recording: Recording, change: Change) -> bool:
    """Whether the two levels are those before and after a silence or another connection."""
    at, near = change.at_ns or 0, near_ns(recording)
    spans = [(s.began_ns - s.threshold_ns, s.ended_ns or s.began_ns) for s in recording.stalls]
    first = _first_ns(recording) + near
    moments = [
        m for c in recording.lasting for m in (c.opened_ns, c.closed_ns) if m is not None and m > first
    ]
    spans += [(m, m) for m in moments]
    return any(began - near <= at <= ended + near for began, ended in spans)


def notice_fact(recording: Recording, n: int) -> Fact:
    """One notice of a cloud as evidence."""
    m = recording.maintenance[n]
    return Fact(
        "notice",
        terms={"cloud": m.cloud, "what": m.what, "host": m.host},
        at_ns=m.not_before_ns,
        id=f"{recording.manifest.id}/maintenance/{n}",
    )
