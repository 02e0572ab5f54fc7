"""Live migrations: a host that stood still, and what changed about it, told as one story.

No event says "migrated", but for a cloud's notice where it gives one. What can be seen has a shape: round
trips are longer for a while as memory is copied; then the host does not run for up to some seconds (Azure:
"typically five seconds or less", maintenance-and-updates); then there is a level of its own; and connections
from before are forgotten when their detour ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fathometer.dataset.model import Connection, Pause
from fathometer.dataset.recording import Recording
from fathometer.findings.lives import deaths
from fathometer.findings.model import Confidence, Finding, Moved, Scenario
from fathometer.findings.scenarios import recordings_of
from fathometer.findings.shifts import NOTICE_NS
from fathometer.findings.words import duration, moment

SHORTEST_NS: Final = 400_000_000
"""A shorter standstill has commoner causes: other processes, a hypervisor's scheduler."""
LONGEST_NS: Final = 60_000_000_000
"""A longer one is no migration: Azure names 30 s as a rare case."""
AROUND_NS: Final = 600_000_000_000
"""How long before and after a standstill what changed may belong to it: the articles saw two minutes, clouds
speak of "the minutes before", and the kernel may take a quarter of an hour to notice a lost connection."""
MOMENTS_NS: Final = 2_000_000_000
"""Within which changes are one move."""
_OF: Final = {"remote": "the reflector's host", "local": "this host"}


def findings(scenarios: Sequence[Scenario], moved: Sequence[Moved]) -> list[Finding]:
    """One a standstill that has more than itself to show for a migration."""
    made = []
    for scenario, recording in recordings_of(scenarios):
        changes = [m for m in moved if m.recording is recording and m.change.kind == "level"]
        for pause in recording.pauses:
            if SHORTEST_NS <= pause.duration_ns <= LONGEST_NS:
                found = _story(scenario, recording, pause, changes)
                made += [found] if found else []
    return made


def _story(
    scenario: Scenario, recording: Recording, pause: Pause, changes: Sequence[Moved]
) -> Finding | None:
    before = _longer_before(changes, pause.start_ns)
    after = _change_after(changes, pause.end_ns, pause.duration_ns)
    lost = [c for c in deaths(recording) if _is_lost_to(pause, c)]
    notice = next(
        (
            m
            for m in recording.maintenance
            if m.not_before_ns is not None
            and m.not_before_ns - NOTICE_NS <= pause.start_ns <= m.not_before_ns + NOTICE_NS
        ),
        None,
    )
    if not (notice or lost or (before and after)):
        return None
    host, stood = _OF.get(pause.host, pause.host), duration(pause.duration_ns)
    said = (
        f"{scenario.name}: this has the shape of a live migration of {host}: it stood still for {stood} at "
        f"{moment(pause.start_ns)}"
    )
    evidence = [f"{host} reports that it did not run for {stood}"]
    if before:
        began_ns, was_ns, level_ns = before
        ahead = duration(pause.start_ns - began_ns)
        said += f", after {ahead} of round trips of {duration(level_ns)} instead of {duration(was_ns)}"
        evidence.append(f"round trips were longer for {ahead} before it, as when memory is copied")
    if after:
        later = duration((after.change.at_ns or 0) - pause.end_ns)
        was, level = duration(after.change.before_ns), duration(after.change.after_ns)
        evidence.append(f"{later} after it the level changed from {was} to {level}, as when a detour ends")
    for c in lost[:3]:
        late = duration((c.closed_ns or 0) - pause.end_ns)
        evidence.append(f"connection {c.id}, from before it, was lost {late} after it, when new ones worked")
    if lost:
        who = "a connection" if len(lost) == 1 else f"{len(lost)} connections"
        said += f"; {who} from before it lived through that and was forgotten afterwards"
    if notice:
        evidence.insert(0, f"{notice.cloud} announced {notice.what} for {moment(notice.not_before_ns or 0)}")
    confidence: Confidence = "high" if notice or (lost and before) else "medium"
    return Finding(
        "migration",
        pause.start_ns,
        said,
        tuple(evidence),
        confidence,
        scenario.name,
        recording.manifest.id,
    )


def _longer_before(changes: Sequence[Moved], at_ns: int) -> tuple[int, float, float] | None:
    """Since when round trips were longer when the host stood still, the level before, and theirs. What moves
    several times within moments counts as one move.
    """
    near = [m.change for m in changes if m.change.at_ns and m.change.at_ns < at_ns - SHORTEST_NS]
    if not near or (near[-1].at_ns or 0) < at_ns - AROUND_NS:
        return None
    first = last = near[-1]
    for change in reversed(near[:-1]):
        if (first.at_ns or 0) - (change.at_ns or 0) > MOMENTS_NS:
            break
        first = change
    if last.after_ns <= first.before_ns:
        return None
    return first.at_ns or 0, first.before_ns, last.after_ns


def _change_after(changes: Sequence[Moved], at_ns: int, length_ns: int) -> Moved | None:
    """The first change after that is not the standstill's own queue running empty."""
    near = [m for m in changes if m.change.at_ns and at_ns + length_ns < m.change.at_ns <= at_ns + AROUND_NS]
    return near[0] if near else None


def _is_lost_to(pause: Pause, c: Connection) -> bool:
    verdict = c.explanation.verdict if c.explanation else c.verdict
    return (
        verdict == "flow_forgotten"
        and c.opened_ns is not None
        and c.opened_ns < pause.start_ns
        and c.closed_ns is not None
        and pause.end_ns < c.closed_ns <= pause.end_ns + 2 * AROUND_NS
    )
