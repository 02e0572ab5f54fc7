"""Change points, and what else happened when they did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset import query
from fathometer.dataset.recording import Recording
from fathometer.dataset.selection import Selection
from fathometer.findings.model import Confidence, Finding, Moved, Scenario
from fathometer.findings.parts import Part
from fathometer.findings.words import change as percent
from fathometer.findings.words import count, duration, moment
from fathometer.stats.changes import Change, Undecided, examine

RAW = 2_000_000
"""Samples up to which every one is looked at; a longer recording is first made into as many medians of equal
time."""
BINS = 40_000
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


def series(
    recording: Recording, selection: Selection = query.ALL
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Round trips in order of time (NaN: unanswered) with the times of sending; medians of stretches where
    there are too many.
    """
    if recording.rows <= RAW:
        found = query.samples(recording, selection=selection)
        return found.value_ns, found.sent_ns
    medians = query.ask(recording, query.bins(recording, BINS, selection=selection))
    return medians.p50_ns, medians.start_ns


def questions(part: Part) -> Iterator[query.Question[Any, Any]]:
    """What `series` will ask of a part."""
    if part.recording.rows > RAW:
        yield query.bins(part.recording, BINS, selection=part.selection)


def changes(scenarios: Sequence[Scenario]) -> tuple[tuple[Moved, ...], tuple[tuple[str, Undecided], ...]]:
    """Every recording's change points, in order of time."""
    moved: list[Moved] = []
    undecided: list[tuple[str, Undecided]] = []
    for scenario in scenarios:
        for run in scenario.runs:
            values, at = series(run.recording, run.selection)
            if not len(values):
                continue
            found = examine(values, at_ns=at)
            moved += [Moved(run.recording, scenario.name, c) for c in found.changes]
            undecided += [(scenario.name, u) for u in found.undecided]
    return tuple(sorted(moved, key=lambda m: m.change.at_ns or 0)), tuple(undecided)


def findings(moved: Sequence[Moved]) -> list[Finding]:
    """Each change as a statement, with the best-supported explanation of its moment; many in a row as one."""
    made: list[Finding] = []
    for group in _groups([m for m in moved if m.change.at_ns is not None]):
        if len(group) >= RESTLESS:
            made.append(_restless(group))
        elif len(group) >= 2 and _returns(group):
            made.append(_burst(group))
        else:
            made += [_finding(m) for m in group]
    return made


def _groups(moved: Sequence[Moved]) -> list[list[Moved]]:
    """Changes of one recording that follow each other within a hundredth of its length."""
    groups: list[list[Moved]] = []
    last: dict[str, list[Moved]] = {}
    for m in moved:
        gap = max(m.recording.totals.span_ns // 100, near_ns(m.recording))
        key = m.recording.manifest.id
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
    return len(levels) >= 2 and abs(levels[-1].after_ns / levels[0].before_ns - 1) < 0.2


def _burst(group: Sequence[Moved]) -> Finding:
    levels = [m.change for m in group if m.change.kind == "level"]
    first, recording = levels[0], group[0].recording
    began, ended = first.at_ns or 0, levels[-1].at_ns or 0
    said = (
        f"{group[0].scenario}: for {duration(ended - began)} from {moment(began)} the level was "
        f"{duration(first.after_ns)} instead of {duration(first.before_ns)}"
    )
    cause, evidence, confidence = explain(recording, first)
    # A path that changes and changes back at once is not what that word means.
    if "change of the path" in cause:
        cause, confidence = "a passing disturbance; cause not known", "low"
    return Finding(
        "change",
        began,
        f"{said}: {cause}",
        tuple(evidence),
        confidence,
        group[0].scenario,
        recording.manifest.id,
    )


def near_ns(recording: Recording) -> int:
    """How far from a change something may be that explains it."""
    return max(NEAR_NS, NEAR_SAMPLES * (recording.manifest.interval_ns or 0))


def _restless(group: Sequence[Moved]) -> Finding:
    first, last, recording = group[0].change, group[-1].change, group[0].recording
    began, ended = first.at_ns or 0, last.at_ns or 0
    levels = [
        level for m in group if m.change.kind == "level" for level in (m.change.before_ns, m.change.after_ns)
    ]
    said = (
        f"{group[0].scenario}: restless for {duration(ended - began)} from {moment(began)}: "
        f"{count(len(group), 'change')}"
    )
    if levels:
        said += f", the level between {duration(min(levels))} and {duration(max(levels))}"
    _, evidence, _ = explain(recording, first)
    pauses = [p for p in recording.pauses if began - NEAR_NS <= p.start_ns <= ended + NEAR_NS]
    cause = "cause not known"
    if pauses:
        cause = (
            f"{count(len(pauses), 'pause')} of a host in that time; a busy host is the likeliest explanation"
        )
    return Finding(
        "change",
        began,
        f"{said}; {cause}",
        tuple(evidence),
        "medium" if pauses else "low",
        group[0].scenario,
        recording.manifest.id,
    )


def _finding(moved: Moved) -> Finding:
    c, recording = moved.change, moved.recording
    assert c.at_ns is not None
    what = "level" if c.kind == "level" else "tail"
    way = "rose" if c.after_ns > c.before_ns else "fell"
    said = (
        f"{moved.scenario}: the {what} {way} {percent(c.before_ns, c.after_ns)} at {moment(c.at_ns)}, "
        f"from {duration(c.before_ns)} to {duration(c.after_ns)}"
    )
    cause, evidence, confidence = explain(recording, c)
    return Finding(
        "change",
        c.at_ns,
        f"{said}: {cause}",
        tuple(evidence),
        confidence,
        moved.scenario,
        recording.manifest.id,
    )


def explain(recording: Recording, change: Change) -> tuple[str, list[str], Confidence]:
    """The cascade: a pause, a new connection, a changed address or a notice at that moment; else the path, if
    TCP had nothing to repair.
    """
    at = change.at_ns or 0
    near = near_ns(recording)

    def close(began_ns: int, ended_ns: int) -> bool:
        return began_ns - near <= at <= ended_ns + near

    evidence: list[str] = []
    local = [p for p in recording.pauses if p.host == "local" and close(p.start_ns, p.end_ns)]
    remote = [p for p in recording.pauses if p.host == "remote" and close(p.start_ns, p.end_ns)]
    opened = [c for c in recording.lasting if c.opened_ns is not None and close(c.opened_ns, c.opened_ns)]
    first = recording.totals.first_sent_ns or 0
    opened = [c for c in opened if (c.opened_ns or 0) - first > near]
    moved = [e for e in recording.events if e.kind == "address.changed" and close(e.at_ns, e.at_ns)]
    notices = [
        m
        for m in recording.maintenance
        if m.not_before_ns is not None
        and m.not_before_ns - NOTICE_NS <= at <= m.not_before_ns + (m.duration_ns or 0) + NOTICE_NS
    ]
    stalls = [s for s in recording.stalls if close(s.began_ns, s.ended_ns or s.began_ns)]
    for pauses, host in ((local, "this host"), (remote, "the reflector's host")):
        evidence += [
            f"{host} was paused for {duration(p.duration_ns)} at {moment(p.start_ns)} "
            f"({p.reason or 'reason not known'})"
            for p in pauses[:3]
        ]
    evidence += [f"{m.cloud} announced {m.what} for {moment(m.not_before_ns or 0)}" for m in notices[:3]]
    evidence += [
        f"{e.kind}: {e.fields.get('what', '')} {e.fields.get('from', '')} -> {e.fields.get('to', '')}".strip()
        for e in moved[:3]
    ]
    evidence += [f"connection {c.id} was opened at {moment(c.opened_ns or 0)}" for c in opened[:3]]
    evidence += [
        f"a stall of {duration(s.duration_ns or 0)} began at {moment(s.began_ns)}" for s in stalls[:3]
    ]
    retransmits = sum(s.retransmits or 0 for s in stalls)
    if notices:
        return (
            "it falls into an announced maintenance",
            evidence,
            "high" if stalls or remote or local else "medium",
        )
    if moved:
        return "the connection's address or interface changed", evidence, "high"
    if opened:
        return (
            "a new connection was opened, perhaps over another path or to another backend",
            evidence,
            "medium",
        )
    if stalls and not local:
        return "it came with a stall, as a live migration or a rerouting makes it", evidence, "medium"
    if remote:
        return "the reflector's host was paused; it may have moved", evidence, "medium"
    if local:
        return "this host was paused; it may have moved", evidence, "medium"
    evidence.append(
        f"no pause, no new connection, no notice and {count(retransmits, 'retransmission')} within "
        f"{duration(near)}"
    )
    if change.kind == "tail":
        return "cause not known", evidence, "low"
    return (
        "a change of the path is the likeliest explanation",
        evidence,
        "medium" if change.confidence >= 0.75 else "low",
    )
