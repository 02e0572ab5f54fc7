"""Round trips by physical zone. A cloud numbers its zones for each subscription anew, and says of each host
in which physical one it is; whoever compares by number compares different buildings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fathometer.findings.model import Analysis, Scenario
from fathometer.findings.parts import recordings_of

Numbered = tuple[str, str]
"""A region, and what a subscription calls a zone of it."""


@dataclass(frozen=True, slots=True)
class ZonePair:
    """A path between two hosts whose physical zones are known."""

    zones: tuple[str, str]
    """In order, whichever end the probe was at: a round trip goes both ways."""
    numbers: tuple[str, str]
    """What the subscription calls them."""
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Zones:
    """What is known of physical zones."""

    pairs: tuple[ZonePair, ...]
    unknown: tuple[str, ...]
    """Paths of a cloud one of whose ends is in a zone that nobody said."""
    physical: dict[Numbered, tuple[str, ...]]
    """Several behind one number: the recordings are of several subscriptions."""

    @property
    def several(self) -> dict[Numbered, tuple[str, ...]]:
        """Numbers that mean different zones here: they must not be compared."""
        return {number: names for number, names in self.physical.items() if len(names) > 1}

    @property
    def shared(self) -> dict[Numbered, tuple[str, ...]]:
        """Physical zones, with their region, of several numbers here; in one subscription each has one."""
        numbers = _numbers(self.physical)
        return {zone: tuple(sorted(found)) for zone, found in sorted(numbers.items()) if len(found) > 1}

    @property
    def one_subscription(self) -> bool:
        """Whether the numbers may be of one."""
        return not self.several and not self.shared

    @property
    def names(self) -> list[str]:
        """The physical zones, in order."""
        return sorted({name for pair in self.pairs for name in pair.zones})


@dataclass(frozen=True, slots=True)
class _Place:
    region: str
    number: str
    physical: str


def zones(analysis: Analysis) -> Zones:
    """By what each probe's host said of itself. Of a reflector's host it is known where that probes, too, or
    where the scenario's tag `zone-to` is a number that means one zone here, and the numbers of its region may
    be those of one subscription: nobody says of which the tag's is.
    """
    hosts: dict[str, set[_Place]] = {}
    physical: dict[Numbered, set[str]] = {}
    for _, recording in recordings_of(analysis.scenarios):
        place = _place(recording.manifest.cloud)
        if place is None:
            continue
        physical.setdefault((place.region, place.number), set()).add(place.physical)
        hosts.setdefault(recording.manifest.path.start or recording.manifest.host_id or "", set()).add(place)
    names = {number: tuple(sorted(found)) for number, found in sorted(physical.items())}
    numbered = Zones((), (), names)
    mixed = {region for region, _ in (*numbered.several, *numbered.shared)}
    of_one = {number: found for number, found in physical.items() if number[0] not in mixed}
    pairs, unknown = [], []
    for scenario in analysis.scenarios:
        ends = list(_ends(scenario, hosts, of_one))
        if not ends:
            continue
        if None in ends or not scenario.rtt.count:
            unknown.append(scenario.name)
            continue
        here, there = sorted((e for e in ends if e), key=lambda place: place.physical)
        pairs.append(ZonePair((here.physical, there.physical), (here.number, there.number), scenario))
    return Zones(tuple(sorted(pairs, key=lambda p: (p.zones, p.scenario.name))), tuple(unknown), names)


def _numbers(physical: Mapping[Numbered, Iterable[str]]) -> dict[Numbered, set[str]]:
    """By region and physical zone: what it is called."""
    found: dict[Numbered, set[str]] = {}
    for (region, number), names in physical.items():
        for name in names:
            found.setdefault((region, name), set()).add(number)
    return found


def _place(cloud: object) -> _Place | None:
    if not isinstance(cloud, dict):
        return None
    region, number, physical = (cloud.get(key) for key in ("region", "zone", "physical_zone"))
    # Google's zones are called alike for everybody.
    physical = physical or (number if cloud.get("provider") == "gcp" else None)
    return _Place(str(region), str(number), str(physical)) if region and number and physical else None


def _ends(
    scenario: Scenario, hosts: dict[str, set[_Place]], physical: dict[Numbered, set[str]]
) -> Iterator[_Place | None]:
    """Of the probe and of the reflector; nothing where the probe's host is in no zone that is known."""
    ends = scenario.key.ends
    said = hosts.get(ends.start or ends.host or "", set())
    start = _only(said)
    if start is None:
        if said:
            yield None
        return
    yield start
    there = _only(hosts.get(ends.to or "", set()))
    if there is None:
        tags = dict(ends.tags)
        number, region = tags.get("zone-to"), tags.get("region-to", start.region)
        found = physical.get((region, number), set()) if number else set()
        there = _Place(region, str(number), next(iter(found))) if len(found) == 1 else None
    yield there


def _only(found: set[_Place]) -> _Place | None:
    """A host that said two things was two hosts of one name."""
    return next(iter(found)) if len(found) == 1 else None


def of_pair(found: Zones, one: str, other: str) -> Sequence[Scenario]:
    """The paths between two physical zones, the fastest first."""
    wanted = tuple(sorted((one, other)))
    mine = [pair.scenario for pair in found.pairs if pair.zones == wanted]
    return sorted(mine, key=lambda s: s.figure("p50").value)
