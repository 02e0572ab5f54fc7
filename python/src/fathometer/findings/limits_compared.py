"""What searches for limits found, by path, and which paths differ in it.

A search gives a bracket, and no figure that varies by chance: the limit lies between its ends
(docs/limits.md). Two paths differ where their brackets do not overlap; where they overlap, nothing tells them
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from fathometer.dataset.model import DECIDED
from fathometer.dataset.recording import Recording
from fathometer.findings.model import Scenario, SearchedFor, is_search
from fathometer.findings.seen import limits
from fathometer.findings.seen.limits import Traffic


@dataclass(frozen=True, slots=True)
class End:
    """One end of a bracket, over the runs of a path."""

    at: int
    """ns of idleness or age; of a rate ceiling packets a second."""
    hits: int
    of: int
    """So many connections of so many, all runs together; each run has lengths of its own. Of a rate ceiling
    packets that were lost, of those that were due."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What the searches on one path found."""

    name: str
    """The scenario's."""
    limit: SearchedFor
    traffic: Traffic | None
    """What moved on connections that were idle otherwise: searches that differ in it have different limits on
    one path."""
    connections: int | None
    """Of a rate ceiling: over how many packets went; another number may have another ceiling."""
    low: End | None
    """The shortest that a run survived, or the lowest rate that one carried; None: nothing was."""
    high: End | None
    """The longest of which most died, or the highest rate that was worse than those below, of the runs that
    found one; None: no run did."""
    unanswered_ns: int | None
    """From which length on requests were acknowledged and not answered, where that is all that was found (the
    shortest of the runs): the application's doing, and no limit."""
    dies_from_ns: int | None
    """From which length on connections died, where that is neither one limit nor none (the shortest of the
    runs)."""
    how: Mapping[str, int]
    """How many connections died, by how, or how many runs saw what begin (docs/limits.md)."""
    by: tuple[str, ...]
    """Who ended them, as far as searches say."""
    runs: int
    sure: bool
    """Every run came to its end, and they do not contradict each other."""

    @property
    def bracket(self) -> tuple[float, float]:
        """As its ends have it; infinite where no limit was found."""
        return self.low.at if self.low else 0.0, self.high.at if self.high else float("inf")


def searched(scenarios: Sequence[Scenario]) -> list[Searched]:
    """By path, the shortest limit first."""
    every = [x for s in scenarios if is_search(s.key.mode) for x in _of(s)]
    return sorted(every, key=lambda x: (_ORDER.index(x.limit), x.bracket, x.name))


_ORDER: Final[tuple[SearchedFor, ...]] = ("idle", "age", "rate")
"""In which they are told."""


def kinds(every: Sequence[Searched]) -> list[list[Searched]]:
    """What may be held against each other: searches for one limit, with the same traffic or none, over as
    many connections.
    """
    found: dict[tuple[str, Traffic | None, int | None], list[Searched]] = {}
    for one in every:
        found.setdefault((one.limit, one.traffic, one.connections), []).append(one)
    return list(found.values())


def alike(every: Sequence[Searched]) -> list[list[Searched]]:
    """Paths in groups: one of another group has another limit; those within one are not told apart, or are
    joined by one that is not told from either.
    """
    groups: list[list[Searched]] = []
    reach = 0.0
    for one in sorted(every, key=lambda x: x.bracket):
        low, high = one.bracket
        if groups and low < reach:
            groups[-1].append(one)
        else:
            groups.append([one])
        reach = max(reach, high)
    return groups


@dataclass(frozen=True, slots=True)
class Beside:
    """A search beside those of its kind on other paths."""

    searched: Searched
    others: tuple[str, ...]
    """Paths that have another limit."""
    several: bool
    """Whether there is anything to compare with."""


def beside(every: Sequence[Searched]) -> list[Beside]:
    """Each of them, in their order."""
    found: dict[int, Beside] = {}
    for kind in kinds(every):
        groups = alike(kind)
        for mine in groups:
            others = tuple(o.name for group in groups if group is not mine for o in group)
            found |= {id(one): Beside(one, others, len(kind) > 1) for one in mine}
    return [found[id(one)] for one in every]


def _of(scenario: Scenario) -> list[Searched]:
    """One for each traffic and number of connections that its runs had."""

    def order(recording: Recording) -> tuple[str, int, int]:
        traffic = limits.traffic(recording)
        connections = limits.packets_over(recording) or 0
        return (traffic.kind, traffic.every_ns, connections) if traffic else ("", 0, connections)

    recordings = sorted((run.recording for run in scenario.runs), key=order)
    return [_over(scenario, list(group)) for _, group in groupby(recordings, order)]


def _over(scenario: Scenario, recordings: Sequence[Recording]) -> Searched:
    results = [limits.result(recording) for recording in recordings]
    limit = limits.kind(recordings[0])
    names = ("good", "bad") if limit == "rate" else ("survived", "died")
    ends = [(_end(r, names[0]), _end(r, names[1])) for r in results]
    lows, highs = [low for low, _ in ends if low], [high for _, high in ends if high]
    found = [high is not None for _, high in ends]
    how: dict[str, int] = {}
    for r in results:
        died_so = r.get("how")
        for name, number in (died_so if isinstance(died_so, dict) else {}).items():
            if isinstance(number, int):
                how[name] = how.get(name, 0) + number
        if (began := r.get("began")) in limits.BEGAN:
            how[began] = how.get(began, 0) + 1
    agree = len(set(found)) == 1 and not (
        lows and highs and max(low.at for low in lows) > min(high.at for high in highs)
    )
    return Searched(
        scenario.name,
        limit,
        limits.traffic(recordings[0]),
        limits.packets_over(recordings[0]),
        _pooled(lows, min) if len(lows) == len(ends) else None,
        _pooled(highs, max),
        _least(limits.unanswered_ns(r) for r in results),
        _least(limits.unclear_from_ns(r) for r in results),
        how,
        tuple(sorted({str(r["by"]) for r in results if r.get("by") in {"reflector", "between"}})),
        len(results),
        agree and all(r.get("verdict") in DECIDED for r in results),
    )


def _least(every: Iterable[int | None]) -> int | None:
    return min((ns for ns in every if ns is not None), default=None)


def _pooled(ends: Sequence[End], which: Any) -> End | None:  # noqa: ANN401 - min or max
    if not ends:
        return None
    return End(which(e.at for e in ends), sum(e.hits for e in ends), sum(e.of for e in ends))


def _end(result: Mapping[str, Any], name: str) -> End | None:
    if end := limits.end(result, name):
        return End(*(int(end[n].value) for n in ("lasted", "hits", "of")))
    if end := limits.rate_end(result, name):
        return End(*(int(end[n].value) for n in ("rate", "lost", "of")))
    return None
