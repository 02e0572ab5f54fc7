"""Change points, and what else happened when they did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fathometer.dataset import query
from fathometer.dataset.recording import Recording
from fathometer.findings.model import Confidence, Finding, Moved, Scenario
from fathometer.findings.words import change as percent
from fathometer.findings.words import count, duration, moment
from fathometer.stats.changes import Change, Undecided, examine

RAW = 2_000_000
"""Samples up to which every one is looked at; a longer recording is first made into as many medians of equal
time."""
BINS = 200_000
NEAR_NS = 10_000_000_000
"""What happened this long before or after a change may have to do with it, ns. A minute's quiet would be too
long: in eleven hours something always happens within a minute."""


def series(recording: Recording) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Round trips in order of time (NaN: unanswered) with the times of sending; medians of stretches where
    there are too many.
    """
    if recording.rows <= RAW:
        found = query.samples(recording)
        return found.value_ns, found.sent_ns
    medians = query.envelope(recording, BINS)
    return medians.p50_ns, medians.start_ns


def changes(scenarios: Sequence[Scenario]) -> tuple[tuple[Moved, ...], tuple[tuple[str, Undecided], ...]]:
    """Every recording's change points, in order of time."""
    moved: list[Moved] = []
    undecided: list[tuple[str, Undecided]] = []
    for scenario in scenarios:
        for run in scenario.runs:
            values, at = series(run.recording)
            if not len(values):
                continue
            found = examine(values, at_ns=at)
            moved += [Moved(run.recording, scenario.name, c) for c in found.changes]
            undecided += [(scenario.name, u) for u in found.undecided]
    return tuple(sorted(moved, key=lambda m: m.change.at_ns or 0)), tuple(undecided)


def findings(moved: Sequence[Moved]) -> list[Finding]:
    """Each change as a statement, with the best-supported explanation of its moment."""
    return [_finding(m) for m in moved if m.change.at_ns is not None]


def _finding(moved: Moved) -> Finding:
    c, recording = moved.change, moved.recording
    assert c.at_ns is not None
    what = "level" if c.kind == "level" else "tail"
    way = "rose" if c.after_ns > c.before_ns else "fell"
    said = (
        f"{moved.scenario}: the {what} {way} by {percent(c.before_ns, c.after_ns)} at {moment(c.at_ns)}, "
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
    evidence: list[str] = []
    local = [p for p in recording.pauses if p.host == "local" and _near(at, p.start_ns, p.end_ns)]
    remote = [p for p in recording.pauses if p.host == "remote" and _near(at, p.start_ns, p.end_ns)]
    opened = [
        c for c in recording.connections if c.opened_ns is not None and _near(at, c.opened_ns, c.opened_ns)
    ]
    first = recording.totals.first_sent_ns or 0
    opened = [c for c in opened if (c.opened_ns or 0) - first > NEAR_NS]
    moved = [e for e in recording.events if e.kind == "address.changed" and _near(at, e.at_ns, e.at_ns)]
    notices = [
        m
        for m in recording.maintenance
        if m.not_before_ns is not None
        and m.not_before_ns - NEAR_NS <= at <= m.not_before_ns + (m.duration_ns or 0) + 60 * NEAR_NS
    ]
    stalls = [s for s in recording.stalls if _near(at, s.began_ns, s.ended_ns or s.began_ns)]
    for pauses, host in ((local, "this host"), (remote, "the reflector's host")):
        evidence += [
            f"{host} was paused for {duration(p.duration_ns)} at {moment(p.start_ns)} ({p.reason or 'reason not known'})"
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
        f"no pause, no new connection, no notice and {count(retransmits, 'retransmission')} within {duration(NEAR_NS)}"
    )
    if change.kind == "tail":
        return "cause not known", evidence, "low"
    return (
        "a change of the path is the likeliest explanation",
        evidence,
        "medium" if change.confidence >= 0.75 else "low",
    )


def _near(at_ns: int, began_ns: int, ended_ns: int) -> bool:
    return began_ns - NEAR_NS <= at_ns <= ended_ns + NEAR_NS
