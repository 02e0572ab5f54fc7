"""Live migrations: a standstill of a host, and what follows from it minutes later, told as one story.

No event says "migrated", but for a cloud's notice where it gives one. What can be seen has a shape: round
trips are longer for a while as memory is copied; then the host does not run for up to some seconds (Azure:
"typically five seconds or less", maintenance-and-updates); then there is a level of its own; and connections
from before are forgotten when their detour ends.

A process that was stopped, and a firewall that forgot a flow for a reason of its own, have much of that
shape. So it is called a migration only with what only a migration shows: a cloud's notice; time that the
host's own accounts say was stolen from it; or flows of different hosts that were forgotten together.
Otherwise it is told as what was seen: a pause, and that the flow was lost afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fathometer.dataset.recording import Recording
from fathometer.findings import weight
from fathometer.findings.finding import Confidence, Finding, Quantity, ns, number

SHORTEST_NS: Final = 400_000_000
"""A shorter standstill has commoner causes: other processes, a hypervisor's scheduler."""
LONGEST_NS: Final = 60_000_000_000
"""A longer one is no migration: Azure names 30 s as a rare case."""
AROUND_NS: Final = 600_000_000_000
"""How long before and after a standstill what changed may belong to it: the articles saw two minutes, clouds
speak of "the minutes before", and the kernel may take a quarter of an hour to notice a lost connection."""
NOTICE_NS: Final = 60_000_000_000
"""How vague an announced time is: a minute on either side."""
SHIFTS: Final = frozenset({"change", "burst", "restless"})


@dataclass(frozen=True, slots=True)
class Story:
    """What a standstill and its consequences are told as."""

    kind: str
    """`migration`, or `pause then loss`."""
    cause: str
    confidence: Confidence
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)


Group = list[Finding]


def claim(groups: Sequence[Group], recordings: Sequence[Recording]) -> list[tuple[Group, Story | None]]:
    """Joins each standstill with the groups that follow from it. What two standstills could claim belongs to
    the one that is nearer in time.
    """
    by_id = {r.manifest.id: r for r in recordings}
    freezes = [(n, f) for n, f in enumerate(map(_freeze, groups)) if f is not None]
    claimed: dict[int, int] = {}
    for n, group in enumerate(groups):
        if any(n == m for m, _ in freezes):
            continue
        near = [
            (distance, m)
            for m, freeze in freezes
            if (distance := _distance(groups[m], freeze, group, by_id)) is not None
        ]
        if near:
            claimed[n] = min(near)[1]
    stories: list[tuple[Group, Story | None]] = []
    for n, group in enumerate(groups):
        if n in claimed:
            continue
        freeze = next((f for m, f in freezes if m == n), None)
        mine = [groups[k] for k, m in claimed.items() if m == n]
        if freeze is None:
            stories.append((group, None))
            continue
        earlier = [one for one in mine if _end(one) < (freeze.from_ns or 0)]
        if not _brownout([f for one in earlier for f in one]):
            # Levels that had moved before, and were not up when it stood still, are a matter of their own.
            mine = [one for one in mine if one not in earlier]
            stories += [(one, None) for one in earlier]
        story = _story(freeze, group, mine, by_id)
        if story is None:
            # Levels that move near a pause alone are not its doing.
            stories.append((group, None))
            stories += [(one, None) for one in mine]
        else:
            whole = sorted((f for part in (group, *mine) for f in part), key=lambda f: f.from_ns or 0)
            stories.append((whole, story))
    return stories


def _freeze(group: Group) -> Finding | None:
    """The longest standstill of a host in a group, where it is of a length for a migration."""
    stalls = [f.quantities["length"].value for f in group if f.kind == "stall" and "length" in f.quantities]
    pauses = [
        f
        for f in group
        if f.kind == "pause"
        and SHORTEST_NS <= f.quantities["length"].value <= LONGEST_NS
        # A second in which the host did not run is no reason of a minute without answers.
        and weight.covers(f.quantities["length"].value, max(stalls, default=0))
    ]
    return max(pauses, key=lambda f: (f.quantities["length"].value, -(f.from_ns or 0)), default=None)


def _recordings(group: Group) -> set[str]:
    return {p.recording for f in group for p in f.where if p.recording}


def _distance(
    frozen: Group, freeze: Finding, group: Group, recordings: Mapping[str, Recording]
) -> int | None:
    """How far from a standstill a group is that may follow from it, ns; None: it does not."""
    began, ended = freeze.from_ns or 0, freeze.to_ns or freeze.from_ns or 0
    if not _recordings(group) <= _recordings(frozen):
        return None
    deaths = [f for f in group if f.kind == "death"]
    if deaths:
        late = min(f.from_ns or 0 for f in deaths) - ended
        forgotten = all(f.cause == "flow_forgotten" and _is_older(f, began, recordings) for f in deaths)
        return late if forgotten and 0 <= late <= AROUND_NS else None
    if not all(f.kind in SHIFTS for f in group):
        return None
    first, last = group[0].from_ns or 0, _end(group)
    if last < began:
        return began - first if began - first <= AROUND_NS else None
    return first - ended if 0 <= first - ended <= AROUND_NS else None


def _end(group: Group) -> int:
    return max(f.to_ns or f.from_ns or 0 for f in group)


def _rises(f: Finding) -> bool:
    if f.kind == "change":
        return f.terms["of"] == "level" and f.quantities["after"].value > f.quantities["before"].value
    return f.kind == "burst" and f.quantities["during"].value > f.quantities["before"].value


def _brownout(shifts: Sequence[Finding]) -> list[Finding]:
    """The rises that still held when the host stood still: the last level of each recording before that."""
    last = {f.recording: f for f in sorted(shifts, key=lambda f: f.from_ns or 0) if f.kind != "restless"}
    return [f for f in last.values() if f.kind == "change" and _rises(f)]


def _is_older(death: Finding, at_ns: int, recordings: Mapping[str, Recording]) -> bool:
    """Whether the connection was open at that moment."""
    age = death.quantities.get("age")
    if age is not None and death.to_ns is not None:
        return death.to_ns - age.value < at_ns
    recording = recordings.get(death.recording or "")
    opened = [c.opened_ns for c in recording.connections if c.id == death.connection] if recording else []
    return bool(opened) and opened[0] is not None and opened[0] < at_ns


def _story(
    freeze: Finding, group: Group, claimed: Sequence[Group], recordings: Mapping[str, Recording]
) -> Story | None:
    every = [f for one in (group, *claimed) for f in one]
    began = freeze.from_ns or 0
    lost = [f for f in every if f.kind == "death" and f.cause == "flow_forgotten" and (f.to_ns or 0) > began]
    before = _brownout([f for one in claimed for f in one if f.kind in SHIFTS and (f.to_ns or 0) < began])
    after = [f for one in claimed for f in one if f.kind in SHIFTS and (f.from_ns or 0) > began]
    notice = _notice(_recordings(every), freeze.terms["host"], began, recordings)
    stolen = freeze.terms["reason"] == "steal"
    # Of flows that were lost at different times each has a story of its own.
    hosts = max((_hosts([f for f in one if f in lost], recordings) for one in (group, *claimed)), key=len)
    if not (lost or notice or (stolen and before and after)):
        return None
    quantities = {"stood": freeze.quantities["length"]}
    if before:
        rise = min(before, key=lambda f: f.from_ns or 0)
        quantities["brownout"] = ns(began - (rise.from_ns or 0))
        level = rise.quantities.get("before")
        if level is not None:
            quantities["level before"] = level
            quantities["level during"] = rise.quantities["after"]
    if lost:
        first = min(f.from_ns or 0 for f in lost)
        quantities["lost after"] = ns(first - (freeze.to_ns or began))
        quantities["lost"] = number(len(lost), "connections")
    terms = {"host": freeze.terms["host"], "reason": freeze.terms["reason"]}
    if notice:
        terms |= {"cloud": notice[0], "what": notice[1]}
    # A process that was stopped, as its host says itself, was not moved with its host.
    stopped = freeze.terms["reason"] in {"stopped", "host_scheduling"}
    signs = [
        sign
        for sign, there in (
            ("notice", bool(notice)),
            ("stolen", stolen),
            ("hosts", len(hosts) > 1 and not stopped),
            ("copied", bool(before and lost) and not stopped),
        )
        if there
    ]
    if not signs:
        return Story("pause then loss", "unknown", "low", quantities, terms)
    quantities["hosts"] = number(len(hosts))
    terms["signs"] = " ".join(signs)
    sure: Confidence = "high" if "notice" in signs or len(signs) > 1 else "medium"
    return Story("migration", "migration", sure, quantities, terms)


def _hosts(lost: Sequence[Finding], recordings: Mapping[str, Recording]) -> set[str]:
    """The addresses whose flows were forgotten together."""
    hosts = set()
    for f in lost:
        recording = recordings.get(f.recording or "")
        for c in recording.connections if recording else ():
            if c.id == f.connection and c.local:
                hosts.add(c.local.rpartition(":")[0])
    return hosts


def _notice(
    ids: set[str], host: str, began_ns: int, recordings: Mapping[str, Recording]
) -> tuple[str, str] | None:
    """The cloud's notice for the host that stood still: a notice explains only the host it names."""
    for name in sorted(ids):
        recording = recordings.get(name)
        for m in recording.maintenance if recording else ():
            at = m.not_before_ns
            if m.host == host and at is not None and at - NOTICE_NS <= began_ns <= at + NOTICE_NS:
                return m.cloud, m.what
    return None
