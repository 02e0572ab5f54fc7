"""Findings folded into incidents: one thing that happened is one entry, with all that it explains inside.

Two findings belong together where a rule of `RULES` says so; what belongs together through a third belongs
together, too (connected components), so that the order of the findings does not matter. A standstill of a
host then claims what follows from it minutes later: `findings.migration`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fathometer.dataset.model import Connection
from fathometer.dataset.recording import Recording
from fathometer.findings import fitting, lives, migration, unanswered, weight
from fathometer.findings.finding import SURENESS, Finding, Incident, Place, Toll

CLOCKS_NS: Final = 1_000_000_000
"""How far the wall clocks of two hosts may differ: NTP over the Internet keeps them well within a second."""
STALLED: Final = frozenset({"stall", "pause"})
DELAYED: Final = frozenset({"delay"})
"""What is no silence: echoes come, late."""
SHIFTED: Final = frozenset({"change", "burst", "restless"})
ENDED: Final = frozenset({"death"})
STEP_SEEN_NS: Final = 100_000_000
"""Two probes may see one step of the clock this far apart, as each reads the clock once a second."""
UNCONNECTED: Final = frozenset({"refused", "schedule.overrun"})
CLAIMS: Final = frozenset({"stall", "delay", "pause", "death", "refused", "schedule.overrun"})
"""What explains a change of level at its moment."""


def tolerance_ns(a: Finding, b: Finding) -> int:
    """How far apart two things may be seen that happened at once: as far as either may be from the truth,
    and as two hosts' clocks may differ where they were not seen in one recording.
    """
    return a.uncertain_ns + b.uncertain_ns + (0 if _one_recording(a, b) else CLOCKS_NS)


def _held_up(a: Finding, b: Finding, within_ns: int) -> bool:
    """Whether one thing held up both. Seen in one recording they may be as far apart as it samples; in two,
    they overlap.
    """
    if _one_recording(a, b) or _names(a) & _names(b):
        return _overlap(a, b, within_ns)
    return _overlap(a, b, 0 if _one_clock(a, b) else CLOCKS_NS)


def _stood_still(a: Finding, b: Finding, within_ns: int) -> bool:
    """Whether one thing held up both so that nothing came. Of two recordings it is the same host, or a path
    that loses now this and now that, or they begin together: hosts that stand still at the same time, but
    from different moments, are as many things.
    """
    if not _held_up(a, b, within_ns):
        return False
    if _one_recording(a, b) or _names(a) & _names(b):
        return True
    if "path_down" in {a.cause, b.cause} and fitting.fit(a, b):
        return True
    return _begin_together(a, b, within_ns - CLOCKS_NS if _one_clock(a, b) else within_ns)


def _names(f: Finding) -> set[str]:
    """Of the host that stood still, as far as it is known by anything."""
    return set(f.terms.get("who", "").split())


def _one_clock(a: Finding, b: Finding) -> bool:
    clock = a.terms.get("clock", "")
    return bool(clock) and clock == b.terms.get("clock")


def _one_recording(a: Finding, b: Finding) -> bool:
    return a.recording is not None and a.recording == b.recording


def _end(f: Finding) -> int:
    """What has not ended is known up to the moment that it was seen."""
    return max(f.to_ns if f.to_ns is not None else f.from_ns or 0, f.from_ns or 0)


def _overlap(a: Finding, b: Finding, within_ns: int) -> bool:
    return (a.from_ns or 0) - within_ns <= _end(b) and (b.from_ns or 0) - within_ns <= _end(a)


def _drained(a: Finding, b: Finding, within_ns: int) -> bool:
    """Whether a shift came with a standstill, or with the running empty of the queue behind it, which takes
    no longer than it took to fill.
    """
    at = b.from_ns or 0
    length = _end(a) - (a.from_ns or 0)
    return (a.from_ns or 0) - within_ns <= at <= _end(a) + length + within_ns


def _begin_together(a: Finding, b: Finding, within_ns: int) -> bool:
    return abs((a.from_ns or 0) - (b.from_ns or 0)) <= within_ns


def _one_step(a: Finding, b: Finding, within_ns: int) -> bool:
    """True if two recordings report the same step of the clock; one recording reports each step once."""
    sizes = [f.quantities["step"].value if "step" in f.quantities else 0 for f in (a, b)]
    alike = abs(sizes[0] - sizes[1]) <= STEP_SEEN_NS
    return alike and not _one_recording(a, b) and _begin_together(a, b, within_ns)


def _end_together(a: Finding, b: Finding, within_ns: int) -> bool:
    return _begin_together(a, b, within_ns) or abs(_end(a) - _end(b)) <= within_ns


def _ended_together(a: Finding, b: Finding, within_ns: int) -> bool:
    """Whether one thing may have ended two connections."""
    return _end_together(a, b, within_ns) and fitting.fit(a, b)


def _fell_silent_together(a: Finding, b: Finding, within_ns: int) -> bool:
    """Whether a connection fell silent as another stood still (or its host did) and ended so; of one that was
    answered to its end the same cause must be possible.
    """
    stall, death = (b, a) if a.kind == "death" else (a, b)
    alike = stall.kind == "pause" or fitting.fell_silent(death) or fitting.fit(stall, death)
    return _begin_together(a, b, within_ns) and alike


def _involves(a: Finding, b: Finding, within_ns: int) -> bool:
    """Whether a coincidence is of that stall or end."""
    return bool(set(a.where) & set(b.where)) and _overlap(a, b, within_ns)


@dataclass(frozen=True, slots=True)
class Rule:
    """Two kinds of findings that are one thing where `holds`, given their tolerance."""

    kinds: frozenset[str]
    others: frozenset[str]
    one_recording: bool
    """Whether both must have been seen in one recording."""
    holds: Callable[[Finding, Finding, int], bool]


RULES: Final = (
    # Whatever holds up several connections or paths at the same time is one thing.
    Rule(STALLED, STALLED, False, _stood_still),
    # What waits behind it comes late.
    Rule(STALLED | DELAYED, DELAYED, False, _held_up),
    # Connections that fall silent, or are given up, at the same time.
    Rule(ENDED, ENDED, False, _ended_together),
    # A connection that fell silent while others stood still, and never came back.
    Rule(STALLED, ENDED, False, _fell_silent_together),
    # What could not be sent, and attempts to connect, while a connection was gone or silent.
    Rule(ENDED | STALLED, UNCONNECTED, True, _overlap),
    Rule(UNCONNECTED, UNCONNECTED, True, _overlap),
    # Attempts that fail at several hosts at once.
    Rule(frozenset({"refused"}), frozenset({"refused"}), False, _overlap),
    # A level that moves with what holds its samples up.
    Rule(CLAIMS, SHIFTED, True, _drained),
    # Levels of several paths, or the level and the tail of one, that move at one moment.
    Rule(SHIFTED, SHIFTED, False, _begin_together),
    # That ends fell together; freezes are one thing where they overlap, and else so many.
    Rule(frozenset({"coincidence"}), ENDED, False, _involves),
    # A wall clock that is set takes what was seen by it along.
    Rule(frozenset({"clock.stepped"}), frozenset({"clock.stepped"}), False, _one_step),
    Rule(frozenset({"recording.overflowed"}), frozenset({"schedule.overrun"}), True, _overlap),
)


def related(a: Finding, b: Finding) -> bool:
    """Whether some rule makes one thing of two findings, whichever of them comes first."""
    within = tolerance_ns(a, b)
    for rule in RULES:
        if rule.one_recording and not _one_recording(a, b):
            continue
        if (a.kind in rule.kinds and b.kind in rule.others and rule.holds(a, b, within)) or (
            b.kind in rule.kinds and a.kind in rule.others and rule.holds(b, a, within)
        ):
            return True
    return False


def numbered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """In order of time, those about the whole last, each with its id."""
    ordered = sorted(findings, key=_order)
    return tuple(replace(f, id=f"f{n}") for n, f in enumerate(ordered, 1))


def _order(f: Finding) -> tuple[bool, int, int, str, tuple[tuple[str, str, int], ...], tuple[str, ...]]:
    """By time, kind and place, and then by all the rest: what differs in anything has an order of its own."""
    rest = (
        f.cause or "",
        f.confidence,
        repr(sorted(f.terms.items())),
        repr(sorted((name, repr(q)) for name, q in f.quantities.items())),
        repr((f.to_ns, f.uncertain_ns, f.doubts, f.facts, f.result)),
        f.id,
    )
    return f.from_ns is None, f.from_ns or 0, _end(f), f.kind, tuple(map(_place_order, f.where)), rest


def incidents(findings: Sequence[Finding], recordings: Sequence[Recording] = ()) -> tuple[Incident, ...]:
    """Every finding that is an event, in exactly one incident; in order of time.

    `recordings`: where it is looked up which hosts the flows were of, and what a cloud announced.
    """
    events = sorted((f for f in findings if f.is_event), key=_order)
    groups = _with_coincidences(_fitting(events))
    stories = migration.claim(groups, recordings)
    levels = Levels.of(events, recordings)
    folded = [_incident(parts, story, levels) for parts, story in stories]
    silent = {r.manifest.id: unanswered.gaps(r) for r in recordings}
    untold = {
        r.manifest.id: sorted(lives.deaths(r)[lives.MOST_STORIES :], key=_closed_ns) for r in recordings
    }
    by_id = {r.manifest.id: r for r in recordings}
    folded = [_of_the_path(incident, silent, untold, by_id) for incident in folded]
    folded.sort(key=lambda i: (i.from_ns, _order(i.parts[0])))
    return tuple(replace(incident, id=f"i{n}") for n, incident in enumerate(folded, 1))


def _components(events: Sequence[Finding]) -> list[list[int]]:
    """Indices of what belongs together, by the rules."""
    parent = list(range(len(events)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in _near(events):
        a, b = root(i), root(j)
        if a != b and related(events[i], events[j]):
            parent[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for i in range(len(events)):
        groups.setdefault(root(i), []).append(i)
    return list(groups.values())


def _fitting(events: Sequence[Finding]) -> list[list[Finding]]:
    """What belongs together by the rules, but for ends that no one cause fits."""
    groups: list[list[Finding]] = []
    for component in _components(events):
        clusters, left = fitting.apart([events[i] for i in component], related)
        groups += [sorted(cluster, key=_order) for cluster in clusters]
        groups += [[left[i] for i in group] for group in _components(left)]
    return groups


def _with_coincidences(groups: Sequence[list[Finding]]) -> list[list[Finding]]:
    """Each coincidence that is of one group alone, in that group: it is no other thing."""
    alone = [g for g in groups if all(f.kind == "coincidence" for f in g)]
    others = [list(g) for g in groups if any(f.kind != "coincidence" for f in g)]
    for one in alone:
        involved = [g for g in others if any(_involves(c, f, CLOCKS_NS) for c in one for f in g)]
        if len(involved) == 1:
            involved[0][:] = sorted([*involved[0], *one], key=_order)
        else:
            others.append(one)
    return others


def _near(events: Sequence[Finding]) -> Iterator[tuple[int, int]]:
    """Pairs that may be near enough for a rule: a sweep in order of time, so that far ones cost nothing."""
    widest = max((f.uncertain_ns for f in events), default=0)
    open_: list[tuple[int, int]] = []
    for j, f in enumerate(events):
        began = f.from_ns or 0
        open_ = [(until, i) for until, i in open_ if until >= began]
        for _, i in open_:
            yield i, j
        length = _end(f) - began
        open_.append((_end(f) + length + f.uncertain_ns + widest + CLOCKS_NS, j))


@dataclass(frozen=True, slots=True)
class Levels:
    """When the level of a path moved, in any incident, and when its recording was over."""

    moved_ns: Mapping[tuple[str, str], Sequence[int]]
    """By path and recording, ascending."""
    over_ns: Mapping[str, int]

    @classmethod
    def of(cls, events: Sequence[Finding], recordings: Sequence[Recording]) -> Levels:
        """`events` in order of time."""
        moved: dict[tuple[str, str], list[int]] = {}
        for f in events:
            if f.kind in SHIFTED and f.terms.get("of", "level") == "level":
                for p in f.where:
                    moved.setdefault((p.path, p.recording), []).append(f.from_ns or 0)
        return cls(moved, {r.manifest.id: r.totals.last_sent_ns or 0 for r in recordings})

    def until_ns(self, f: Finding) -> int | None:
        """How long the level lasted that a shift began; None: its recording is not known."""
        ends = []
        for p in f.where:
            moments = self.moved_ns.get((p.path, p.recording), ())
            at = bisect_right(moments, f.from_ns or 0)
            ends.append(moments[at] if at < len(moments) else self.over_ns.get(p.recording))
        return max((e for e in ends if e is not None), default=None)


def _incident(parts: Sequence[Finding], story: migration.Story | None, levels: Levels) -> Incident:
    main = _main(parts)
    cause, confidence = main.cause, main.confidence
    kind = _kind(parts, main)
    if story is not None:
        kind, cause, confidence = story.kind, story.cause, story.confidence
    where = tuple(sorted({p for f in parts for p in f.where}, key=_place_order))
    # A place without its connection says nothing where that of a connection of it is there.
    named = {p.recording for p in where if p.connection is not None}
    where = tuple(p for p in where if p.connection is not None or p.recording not in named)
    return Incident(
        id="",
        kind=kind,
        from_ns=min(f.from_ns or 0 for f in parts),
        to_ns=max(_end(f) for f in parts),
        where=where,
        cause=cause,
        confidence=confidence,
        toll=_toll(parts, levels),
        parts=tuple(parts),
        quantities=story.quantities if story else {},
        terms=story.terms if story else {},
        remedies=tuple(_remedies(kind, parts)),
    )


def _place_order(p: Place) -> tuple[str, str, int]:
    return p.path, p.recording, -1 if p.connection is None else p.connection


_WEIGHT: Final = {
    "death": 5,
    "refused": 4,
    "pause": 3,
    "stall": 2,
    "delay": 1,
    "schedule.overrun": 1,
}
"""Which part gives an incident its cause: the one that tells most."""


def _main(parts: Sequence[Finding]) -> Finding:
    def rank(f: Finding) -> tuple[bool, int, int, int]:
        length = _end(f) - (f.from_ns or 0)
        return f.cause not in {None, "unknown"}, _WEIGHT.get(f.kind, 0), SURENESS[f.confidence], length

    candidates = [f for f in _telling(parts) if f.kind != "coincidence"] or list(parts)
    # The cause of a stall is that of the ends beside it only where it may have been, that of a level never.
    ends = [f for f in parts if f.kind == "death"]
    if ends and all(f.cause in {None, "unknown"} for f in ends):
        candidates = [f for f in candidates if f.kind not in SHIFTED]
        candidates = [f for f in candidates if f.kind != "stall" or fitting.fits_each(f.cause, ends)]
    return max(candidates or ends, key=rank)


def _telling(parts: Sequence[Finding]) -> list[Finding]:
    """Without the pauses that are too short for the silence that they fell into: they are no reason of it."""
    silences = [f.quantities[_SILENCE[f.kind]].value for f in parts if _SILENCE.get(f.kind) in f.quantities]
    longest = max(silences, default=0)
    return [f for f in parts if f.kind != "pause" or weight.covers(f.quantities["length"].value, longest)]


_SILENCE: Final = {"stall": "length", "death": "silent"}
"""What says for how long samples were without answers, by kind."""


_OF_ENDS: Final = {
    "flow_forgotten": "flow loss",
    "idle_expired": "idle limit",
    "path_down": "outage",
    "peer_down": "outage",
    "peer_paused": "standstill",
    "local_paused": "standstill",
    "local": "local fault",
}


def _kind(parts: Sequence[Finding], main: Finding) -> str:
    kinds = {f.kind for f in parts}
    if "death" in kinds:
        ends = [f for f in parts if f.kind == "death" and f.cause not in {None, "unknown"}]
        return _OF_ENDS.get(ends[0].cause or "", "end") if ends else "end"
    if "refused" in kinds:
        local = all(f.cause == "local" for f in parts if f.kind == "refused")
        return "local fault" if local else "outage"
    if kinds & STALLED and main.cause == "local":
        return "local fault"
    if kinds & STALLED:
        return "standstill" if main.cause in {"peer_paused", "local_paused"} else "stall"
    if kinds & DELAYED:
        return "delay"
    return "shift" if kinds & SHIFTED else main.kind


def _toll(parts: Sequence[Finding], levels: Levels) -> Toll:
    deaths = [f for f in parts if f.kind == "death"]

    def total(of: Sequence[Finding], name: str) -> int:
        return int(sum(f.quantities[name].value for f in of if name in f.quantities))

    silences = [f.quantities["silent"].value for f in deaths]
    silences += [
        f.quantities["length"].value for f in parts if f.kind in STALLED and "length" in f.quantities
    ]
    added, lasted = _added(parts, levels)
    return Toll(
        lost=total(deaths, "lost") + total([f for f in parts if f.kind == "stall"], "lost"),
        unsent=total([f for f in parts if f.kind == "schedule.overrun"], "samples"),
        silent_ns=int(max(silences, default=0)),
        added_ns=added,
        added_for_ns=lasted,
        connections=len(deaths),
    )


def _closed_ns(connection: Connection) -> int:
    return connection.closed_ns or 0


def _of_the_path(
    incident: Incident,
    silent: Mapping[str, list[unanswered.Span]],
    untold: dict[str, list[Connection]],
    by_id: Mapping[str, Recording],
) -> Incident:
    """With the silence of the whole path, of which connections that were made in vain are parts; and with
    the deaths in it that are counted and not told one by one.

    `silent` and `untold`: by recording, in order of time. Each of `untold` belongs to one incident, and is
    taken out.
    """
    longest, ends, lost = 0, 0, 0
    for recording in sorted({f.recording or "" for f in incident.parts if f.kind == "death"}):
        gaps = silent.get(recording, [])
        first = bisect_left(gaps, incident.from_ns, key=lambda g: g[1])
        spans = gaps[first : bisect_right(gaps, incident.to_ns, key=lambda g: g[0])]
        longest = max([longest, *(by_id[recording].elapsed_ns(*span) for span in spans)])
        spans.append((incident.from_ns, incident.to_ns))
        left = untold.get(recording, [])
        for began, ended in unanswered.joined(spans):
            these = slice(bisect_left(left, began, key=_closed_ns), bisect_right(left, ended, key=_closed_ns))
            ends += len(left[these])
            lost += sum(n for c in left[these] if isinstance(n := c.evidence.get("outstanding"), int))
            del left[these]
    t = incident.toll
    toll = replace(
        t, connections=t.connections + ends, lost=t.lost + lost, silent_ns=max(t.silent_ns, longest)
    )
    return replace(incident, toll=toll)


def _added(parts: Sequence[Finding], levels: Levels) -> tuple[float, int]:
    """The largest rise of a level, and how long it lasted: until the next shift of that path, which is an
    incident of its own, or to the end of its recording.
    """
    best, lasted = 0.0, 0
    still = [f for f in parts if f.kind in STALLED]
    for f in parts:
        # What waited through a standstill is told as silence, and not as a level.
        if f.kind in SHIFTED and any(
            s.recording == f.recording and (s.from_ns or 0) - f.uncertain_ns <= (f.from_ns or 0) <= _end(s)
            for s in still
        ):
            continue
        if f.kind == "burst":
            rise, until = f.quantities["during"].value - f.quantities["before"].value, f.to_ns
        elif f.kind == "change" and f.terms["of"] == "level":
            rise = f.quantities["after"].value - f.quantities["before"].value
            until = levels.until_ns(f)
        else:
            continue
        if rise > best:
            best, lasted = rise, max((until or 0) - (f.from_ns or 0), 0) if until else 0
    return best, lasted


def _remedies(kind: str, parts: Sequence[Finding]) -> Iterator[str]:
    causes = {f.cause for f in _telling(parts) if f.kind in {"death", "stall", "pause"}}
    ends = {f.cause for f in parts if f.kind == "death"}
    if "idle_expired" in ends:
        yield "keepalive"
    if "flow_forgotten" in ends:
        yield "user timeout"
    if kind == "outage" or ends & {"path_down", "peer_down"}:
        yield "retry"
    if any(f.kind == "stall" and f.terms["end"] == "recovered" for f in parts):
        yield "timeout"
    if "local_paused" in causes:
        yield "host"
    if kind == "local fault":
        yield "own network"
    if any(f.kind == "schedule.overrun" and f.terms.get("reason") == "late" for f in parts):
        yield "probe host"
