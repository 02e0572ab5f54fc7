"""Which paths the user set against each other. How labels are spelled says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fathometer.findings.model import Between, Key, Scenario
from fathometer.findings.parts import OF_STUDIES


@dataclass(frozen=True, slots=True)
class _Place:
    """What of a path says whose alternative it is."""

    measured: Key
    """How, whatever its label: a difference of size, pacing or load is not a choice of path."""
    ends: tuple[str, str] | None
    tags: dict[str, str]
    """Those that all runs have in common, without a study's own."""

    @classmethod
    def of(cls, s: Scenario) -> _Place:
        paths = [run.recording.manifest.path for run in s.runs]
        start, to = (
            (paths[0].start, paths[0].to) if len({(p.start, p.to) for p in paths}) == 1 else (None, None)
        )
        first = paths[0].tags if paths else {}
        tags = {
            k: v for k, v in first.items() if k not in OF_STUDIES and all(p.tags.get(k) == v for p in paths)
        }
        return cls(replace(s.key, label="", ends=Between()), (start, to) if start and to else None, tags)


def grouped(a: Scenario, b: Scenario) -> bool:
    """Whether they are alternatives: measured alike, and between the same ends or with tags that differ in
    one alone.
    """
    return _apart(_Place.of(a), _Place.of(b)) is not None


def _apart(a: _Place, b: _Place) -> str | None:
    """In what alternatives differ: the name of a tag, or empty between the same ends; None: they are none."""
    if a.measured != b.measured:
        return None
    if a.ends is not None and a.ends == b.ends:
        return ""
    x, y = a.tags, b.tags
    if len(x) < 2 or x.keys() != y.keys():
        return None
    differ = [k for k in x if x[k] != y[k]]
    return differ[0] if len(differ) == 1 else None


def by_tag(scenarios: Sequence[Scenario]) -> Iterator[tuple[str, list[Scenario]]]:
    """Tags in which paths differ that are alike in all else but their ends; and each group of such paths."""
    places = [(s, _Place.of(s)) for s in scenarios]
    groups: dict[tuple[str, Key, tuple[tuple[str, str], ...]], list[Scenario]] = {}
    for s, place in places:
        if len(place.tags) > 1:
            for tag in place.tags:
                others = tuple(sorted((k, v) for k, v in place.tags.items() if k != tag))
                groups.setdefault((tag, place.measured, others), []).append(s)
    for (tag, _, _), alike in groups.items():
        # Of paths that are alike in their tags, too, nobody knows which belong together.
        if 1 < len(alike) == len({dict(s.key.ends.tags).get(tag) for s in alike}):
            yield tag, alike


def grouped_pairs(scenarios: Sequence[Scenario], most: int) -> list[tuple[Scenario, Scenario]]:
    """The pairs of alternatives, in the order of `scenarios`; where they are more than `most`, each with the
    first one that differs from it in the same.
    """
    places = [_Place.of(s) for s in scenarios]
    every = [
        (m, n, apart)
        for n, b in enumerate(places)
        for m, a in enumerate(places[:n])
        if (apart := _apart(a, b)) is not None
    ]
    first: dict[tuple[int, str], int] = {}
    for m, n, apart in every:
        first.setdefault((n, apart), m)
    return [
        (scenarios[m], scenarios[n]) for m, n, apart in every if len(every) <= most or first[n, apart] == m
    ]
