"""Which paths the user set against each other. How labels are spelled says nothing.

Memory grows with the tags and paths that there are, never with pairs of them: a recording may have thousands
of tags, and what is compared is a hash of those that are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

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
    differ = list(islice((k for k in x if x[k] != y[k]), 2))
    return differ[0] if len(differ) == 1 else None


def by_tag(scenarios: Sequence[Scenario]) -> Iterator[tuple[str, list[Scenario]]]:
    """Tags in which paths differ that are alike in all else but their ends; and each group of such paths."""
    places = [_Place.of(s) for s in scenarios]
    for tag, alike in _by_tag(places):
        # Of paths that are alike in their tags, too, nobody knows which belong together.
        if 1 < len(alike) == len({places[n].tags[tag] for n in alike}):
            yield tag, [scenarios[n] for n in alike]


def _by_tag(places: Sequence[_Place]) -> Iterator[tuple[str, list[int]]]:
    """Groups of paths, by index, that agree in all tags, or in all but one."""
    families: dict[tuple[Key, frozenset[str]], list[int]] = {}
    for n, place in enumerate(places):
        if len(place.tags) > 1:
            families.setdefault((place.measured, frozenset(place.tags)), []).append(n)
    for family in families.values():
        first = places[family[0]].tags
        differing = [k for k, v in first.items() if any(places[n].tags[k] != v for n in family)]
        # The sum without one tag's own hash is equal for paths that differ only in that tag.
        sums = {n: sum(_hashed(k, places[n].tags[k]) for k in differing) for n in family}
        for tag in differing:
            groups: dict[int, list[int]] = {}
            for n in family:
                groups.setdefault(sums[n] - _hashed(tag, places[n].tags[tag]), []).append(n)
            yield from ((tag, group) for group in groups.values())


def _hashed(tag: str, value: str) -> int:
    """Hash of a text. Tuples of similar texts have hashes so similar that their sums coincide."""
    return hash(f"{len(tag)} {tag} {value}")


@dataclass(frozen=True, slots=True)
class _Alike:
    """Paths that are alternatives of each other, by index."""

    tag: str
    """Tags in which they may differ; empty: they have the same ends."""
    members: list[int]

    def pairs(self, places: Sequence[_Place]) -> Iterator[tuple[int, int]]:
        for place, n in enumerate(self.members):
            yield from ((m, n) for m in self.members[:place] if _apart(places[m], places[n]) == self.tag)

    def nearest(self, places: Sequence[_Place]) -> Iterator[tuple[int, int]]:
        """Pairs each path with the first one before it that differs in the tag."""
        first: dict[str, int] = {}
        for n in self.members:
            before = (m for m in first.values() if _apart(places[m], places[n]) == self.tag)
            yield from ((m, n) for m in islice(before, 1))
            first.setdefault(places[n].tags[self.tag] if self.tag else "", n)


def _alternatives(places: Sequence[_Place]) -> list[_Alike]:
    ends: dict[tuple[Key, tuple[str, str]], list[int]] = {}
    for n, place in enumerate(places):
        if place.ends is not None:
            ends.setdefault((place.measured, place.ends), []).append(n)
    found = [_Alike("", members) for members in ends.values()]
    return found + [_Alike(tag, members) for tag, members in _by_tag(places)]


def grouped_pairs(scenarios: Sequence[Scenario], most: int) -> list[tuple[Scenario, Scenario]]:
    """The pairs of alternatives, in the order of `scenarios`; where they are more than `most`, each with the
    first one that differs from it in the same.
    """
    places = [_Place.of(s) for s in scenarios]
    alike = _alternatives(places)

    def ordered(pairs: Iterable[tuple[int, int]]) -> list[tuple[Scenario, Scenario]]:
        return [(scenarios[m], scenarios[n]) for m, n in sorted(set(pairs), key=lambda p: (p[1], p[0]))]

    every = list(islice((pair for one in alike for pair in one.pairs(places)), most + 1))
    return ordered(every if len(every) <= most else (p for one in alike for p in one.nearest(places)))
