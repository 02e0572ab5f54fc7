"""How paths of a study were interrupted: the longest that each run waited for an answer, compared over the
runs, and how many connections ended. What is compared met the same rounds (`stats.repeated`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fathometer.dataset.recording import Recording
from fathometer.findings.lives import deaths, silence_before
from fathometer.findings.model import Analysis, Scenario, is_search
from fathometer.stats.repeated import Mean, mean, ranked

FEWEST: Final = 2
"""Paths, and runs of each, from which they are compared."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """One path over its runs."""

    name: str
    """The scenario's."""
    runs: int
    longest_ns: Mean
    """The longest that a connection of a run waited for an answer: a round trip, a stall, or the silence in
    which it ended."""
    rank: int
    """By that, from 1, the shortest first; those that are not told apart share one."""
    ended: int
    """Connections that ended, by no doing of ours."""
    of: int
    """Connections that samples went over."""
    verdicts: Mapping[str, int]
    """Why they ended: how many by the recording's verdict, or cause where it has none."""


def interrupted(analysis: Analysis) -> list[Interrupted]:
    """The least interrupted first. Empty: this is no study of several paths and runs, or nothing happened."""
    paths = [s for s in analysis.scenarios if not is_search(s.key.mode) and s.rtt.count]
    every = [r for s in paths for r in _recordings(s)]
    if len(paths) < FEWEST or any(len(_recordings(s)) < FEWEST for s in paths):
        return []
    if any("round" not in r.manifest.path.tags for r in every):
        return []
    if not any(deaths(r) or r.stalls for r in every):
        return []
    values = {s.name: _longest(s) for s in paths}
    places = ranked(values)
    by_name = {s.name: s for s in paths}
    made = []
    for place in places:
        longest = mean(list(values[place.name].values()))
        if longest is not None:
            made.append(_of(by_name[place.name], longest, place.rank))
    return made


def _recordings(scenario: Scenario) -> list[Recording]:
    return list({r.manifest.id: r for r in (run.recording for run in scenario.runs)}.values())


def _longest(scenario: Scenario) -> Mapping[str, float]:
    """ns, by round."""
    longest: dict[str, float] = {}
    for run in scenario.runs:
        recording = run.recording
        slowest = recording.rollup.histogram(run.selection).max_ns or 0
        stalls = (s.duration_ns or recording.over_ns - s.began_ns for s in recording.stalls)
        silent = max((*stalls, *(silence_before(recording, c) for c in deaths(recording))), default=0)
        number = recording.manifest.path.tags["round"]
        longest[number] = max(longest.get(number, 0.0), float(max(slowest, silent)))
    return longest


def _of(scenario: Scenario, longest: Mean, rank: int) -> Interrupted:
    recordings = _recordings(scenario)
    died = [c for r in recordings for c in deaths(r)]
    verdicts = Counter(
        (c.explanation.verdict if c.explanation else c.verdict) or c.cause or "unknown" for c in died
    )
    return Interrupted(
        scenario.name,
        len(recordings),
        longest,
        rank,
        len(died),
        sum(len(r.lasting) for r in recordings),
        dict(verdicts.most_common()),
    )


def steps(every: Sequence[Interrupted]) -> list[list[Interrupted]]:
    """By rank."""
    ranks = sorted({x.rank for x in every})
    return [[x for x in every if x.rank == rank] for rank in ranks]
