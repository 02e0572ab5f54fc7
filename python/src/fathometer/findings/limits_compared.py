"""What searches for limits found, by path, and which paths differ in it.

A search gives a bracket, and no figure that varies by chance: the limit lies between its ends
(docs/limits.md). Two paths differ where their brackets do not overlap; where they overlap, nothing tells them
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fathometer.dataset.recording import Recording
from fathometer.findings.model import Scenario, is_search

DECIDED: Final = frozenset(("found", "not_found"))
"""Verdicts of searches that came to their end."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a bracket, over the runs of a path."""

    ns: int
    hits: int
    of: int
    """So many connections of so many, all runs together; each run has lengths of its own."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What the searches on one path found."""

    name: str
    """The scenario's."""
    limit: str
    """`idle` or `age`."""
    keepalive_ns: int | None
    """How often the kernel sent keepalives; None: never."""
    low: End | None
    """The shortest that a run survived; None: nothing was."""
    high: End | None
    """The longest of which most died, of the runs that found one; None: no run did."""
    how: Mapping[str, int]
    """How many connections died, by how (docs/limits.md)."""
    by: tuple[str, ...]
    """Who ended them, as far as searches say."""
    runs: int
    sure: bool
    """Every run came to its end, and they do not contradict each other."""

    @property
    def bracket(self) -> tuple[float, float]:
        """ns; infinite where no limit was found."""
        return self.low.ns if self.low else 0.0, self.high.ns if self.high else float("inf")


def searched(scenarios: Sequence[Scenario]) -> list[Searched]:
    """By path, the shortest limit first."""
    every = [_of(s) for s in scenarios if is_search(s.key.mode)]
    return sorted(every, key=lambda x: (x.limit != "idle", x.bracket, x.name))


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


def apart(every: Sequence[Searched]) -> dict[str, list[str]]:
    """By path: those that have another limit of the same kind."""
    found: dict[str, list[str]] = {}
    for kind in {x.limit for x in every}:
        groups = alike([x for x in every if x.limit == kind])
        for mine in groups:
            others = [o.name for group in groups if group is not mine for o in group]
            found |= {x.name: others for x in mine}
    return found


def _of(scenario: Scenario) -> Searched:
    results = [_result(run.recording) for run in scenario.runs]
    manifest = scenario.runs[0].recording.manifest
    ends = [(_end(r, "survived"), _end(r, "died")) for r in results]
    lows, highs = [low for low, _ in ends if low], [high for _, high in ends if high]
    found = [high is not None for _, high in ends]
    how: dict[str, int] = {}
    for r in results:
        for name, number in _table(r, "how").items():
            if isinstance(number, int):
                how[name] = how.get(name, 0) + number
    agree = len(set(found)) == 1 and not (
        lows and highs and max(low.ns for low in lows) > min(high.ns for high in highs)
    )
    keepalive = manifest.probe.get("keepalive_ns")
    return Searched(
        scenario.name,
        "age" if scenario.key.mode == "tcp-age-limit" else "idle",
        keepalive if isinstance(keepalive, int) else None,
        _pooled(lows, min) if len(lows) == len(ends) else None,
        _pooled(highs, max),
        how,
        tuple(sorted({str(r["by"]) for r in results if r.get("by") in {"reflector", "between"}})),
        len(results),
        agree and all(r.get("verdict") in DECIDED for r in results),
    )


def _pooled(ends: Sequence[End], which: Any) -> End | None:  # noqa: ANN401 - min or max
    if not ends:
        return None
    return End(which(e.ns for e in ends), sum(e.hits for e in ends), sum(e.of for e in ends))


def _result(recording: Recording) -> Mapping[str, Any]:
    results = [e.fields.get("result") for e in recording.events if e.kind == "limits.ended"]
    return results[-1] if results and isinstance(results[-1], dict) else {}


def _table(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = result.get(name)
    return value if isinstance(value, dict) else {}


def _end(result: Mapping[str, Any], name: str) -> End | None:
    end = _table(result, name)
    given = [end.get("idle_ns", end.get("age_ns")), end.get("hits"), end.get("of")]
    numbers = [n for n in given if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    return End(*numbers) if len(numbers) == len(given) else None
