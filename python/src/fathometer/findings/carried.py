"""How much TCP carried on paths of a study that measured it again and again, compared over the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fathometer.counts import count
from fathometer.dataset.recording import Recording
from fathometer.dataset.throughput import Name, Way
from fathometer.findings import throughput
from fathometer.findings.model import Analysis
from fathometer.stats.repeated import Mean, mean, ranked

FEWEST: Final = 2
"""Runs of each path from which they are compared."""
Settings = tuple[int | None, str | None, int | None, int | None]
"""Streams, direction, block and limit of a test: what differs in them is not compared."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One path over its runs, one way."""

    name: str
    """The scenario's; with the settings, where it has several."""
    way: Name
    runs: int
    bits_per_s: Mean
    rank: int
    """From 1, the most first, of the same way and settings; those that are not told apart share one."""
    less: Mean | None
    """By how much it is below the first, bits a second, the interval as wide as the ranking's; None: it is
    the first.
    """
    first: float
    """The first's mean, bits a second."""


def carried(analysis: Analysis) -> list[Carried]:
    """Each group by rank. Empty: nothing was measured twice."""
    groups: dict[tuple[Settings, Name], dict[str, dict[str, float]]] = {}
    settings: dict[str, set[Settings]] = {}
    for scenario, recording, test in throughput.tests(analysis.scenarios):
        mine = _settings(recording)
        settings.setdefault(scenario.name, set()).add(mine)
        run = recording.manifest.path.tags.get("round", recording.manifest.id)
        for way in test.ways:
            if (rate := _rate(way)) is not None and test.ended_early is None:
                groups.setdefault((mine, way.name), {}).setdefault(scenario.name, {})[run] = rate
    made = []
    for (mine, way_name), values in groups.items():
        several = {n: v for n, v in values.items() if len(v) >= FEWEST}
        made += _ranked(several, way_name, {n: _words(mine) for n in several if len(settings[n]) > 1})
    return made


def _ranked(values: Mapping[str, Mapping[str, float]], way: Name, more: Mapping[str, str]) -> list[Carried]:
    made: list[Carried] = []
    # The most first, where a ranking has the least first.
    for place in ranked({n: {run: -rate for run, rate in v.items()} for n, v in values.items()}):
        of = mean(list(values[place.name].values()))
        if of is not None:
            name = ", ".join(filter(None, (place.name, more.get(place.name))))
            first = made[0].first if made else of.mean
            made.append(Carried(name, way, of.count, of, place.rank, place.behind, first))
    return made


def _rate(way: Way) -> float | None:
    counted = way.total.carried
    return None if counted is None else float(counted.bits_per_second)


def _settings(recording: Recording) -> Settings:
    probe = recording.manifest.probe
    names = ("connections", "direction", "block_bytes", "bitrate_bits_per_second")
    streams, direction, block, limit = (probe.get(name) for name in names)
    return streams, direction, block, limit


def _words(settings: Settings) -> str:
    streams, direction, block, limit = settings
    held = f"at most {limit} bit/s a stream" if limit else ""
    of = count(streams or 1, "stream")
    return ", ".join(filter(None, (of, str(direction or ""), f"{block} B", held)))


def steps(every: Sequence[Carried]) -> list[list[Carried]]:
    """By rank, of one group."""
    return [[x for x in every if x.rank == rank] for rank in sorted({x.rank for x in every})]
