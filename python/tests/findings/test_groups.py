"""Which paths are compared with each other: what the user grouped, however many there are."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.model import Path
from fathometer.dataset.selection import Silence
from fathometer.findings import comparisons as module
from fathometer.findings.analyse import analyse
from fathometer.findings.groups import by_tag, grouped, grouped_pairs
from fathometer.findings.model import Between, Key
from fathometer.report import interest
from fathometer.report.interest import foremost_pairs
from support.recordings import lognormal_ns, write

REGIONS, NICS = 4, ("on", "off")


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Pairs that differ in one tag, each pair between ends of its own, and none of them with the fastest."""
    monkeypatch.setattr(module, "MOST_PAIRS", 12)
    monkeypatch.setattr(interest, "MOST_PAIRS", 8)
    write(tmp_path / "local", lognormal_ns(99, 600, 100), label="local")
    for region in range(REGIONS):
        for nic in NICS:
            name = f"region {region} {nic}"
            tags = {"nic": nic, "region": str(region)}
            manifest = {"path": {"from": f"{name} a", "to": f"{name} b", "via": None, "tags": tags}}
            median = 400 * (1 + region) * (1.5 if nic == "off" else 1.0)
            rtt = lognormal_ns(region * 2 + (nic == "off"), 600, median)
            write(tmp_path / name, rtt, label=name, manifest=manifest)
    return analyse(open_recordings([tmp_path]))


def test_alternatives_are_compared_however_many_paths_there_are(fleet):
    """With more than twenty paths each was compared with the fastest of all only: who had set region against
    region, and card against card, was told nothing of either.
    """
    compared = {frozenset((v.a, v.b)) for v in fleet.comparisons}
    by_card = {frozenset(f"region {region} {nic}" for nic in NICS) for region in range(REGIONS)}
    assert by_card <= compared
    assert {frozenset(("local", s.name)) for s in fleet.scenarios if s.name != "local"} <= compared
    advised = {frozenset(a.paths) for a in fleet.advice if a.topic == "choice"}
    assert by_card <= advised
    # Too many for all of them: each with the fastest of its alternatives at least.
    assert len(compared) < len(fleet.scenarios) * (len(fleet.scenarios) - 1) / 2


def test_alternatives_stand_in_the_open(fleet):
    shown = {frozenset((v.a, v.b)) for v in foremost_pairs(fleet)}
    assert {frozenset(("region 0 on", "region 0 off")), frozenset(("region 3 on", "region 3 off"))} <= shown
    assert not any("local" in pair for pair in shown)


def paths(rng):
    """Some paths with few tags, values and ends: many are alternatives, and several are equal."""
    made = []
    for number in range(int(rng.integers(2, 12))):
        tags = {f"tag {i}": str(rng.integers(2)) for i in range(int(rng.integers(0, 4)))}
        start, to = (str(rng.integers(3)) if rng.random() < 0.8 else None for _ in range(2))
        ends = Between(start, None, to, tags=tuple(sorted(tags.items())))
        key = Key(f"path {number}", "tcp", int(rng.choice([64, 128])), 1_000, ends=ends)
        manifest = SimpleNamespace(path=Path(start, to, None, tags))
        runs = [SimpleNamespace(recording=SimpleNamespace(manifest=manifest))]
        made.append(SimpleNamespace(name=key.label, key=key, runs=runs))
    return made


def alike_but(tag, path):
    """Everything that must agree if two paths differ in one tag: the tuple that took quadratic memory."""
    others = tuple((k, v) for k, v in path.key.ends.tags if k != tag)
    return path.key.size, others


@pytest.mark.parametrize("seed", range(200))
def test_groups_are_those_of_plain_definition(seed):
    every = paths(np.random.default_rng(seed))
    expected = {}
    for path in every:
        if len(path.key.ends.tags) > 1:
            for tag, value in path.key.ends.tags:
                expected.setdefault((tag, *alike_but(tag, path)), []).append((path.name, value))
    wanted = {
        (tag, tuple(name for name, _ in group))
        for (tag, *_), group in expected.items()
        if 1 < len(group) == len({value for _, value in group})
    }
    found = [(tag, tuple(path.name for path in group)) for tag, group in by_tag(every)]
    assert len(found) == len(set(found))
    assert set(found) == wanted


@pytest.mark.parametrize("seed", range(200))
def test_pairs_are_those_of_plain_definition(seed):
    every = paths(np.random.default_rng(seed))
    order = {path.name: n for n, path in enumerate(every)}
    wanted = [(a.name, b.name) for b in every for a in every[: order[b.name]] if grouped(a, b)]
    assert [(a.name, b.name) for a, b in grouped_pairs(every, 1_000)] == wanted
    few = [(a.name, b.name) for a, b in grouped_pairs(every, 1)]
    if len(wanted) > 1:
        assert set(few) <= set(wanted)
        assert few == sorted(set(few), key=lambda p: (order[p[1]], order[p[0]]))
        # Each path with an alternative before it is in some pair.
        assert {b for _, b in few} == {b for _, b in wanted}


def test_pairs_grow_as_paths_do():
    """Thirty silences have 1,770 pairs of parts, and a hundred have 19,900."""

    def pairs(silences):
        whole = Key("path", "tcp-idle-gap", 64, None)
        parts = [
            SimpleNamespace(name=f"{gap} {first}", key=replace(whole, silence=Silence(gap, first)), runs=[])
            for gap in range(1, silences + 1)
            for first in (True, False)
        ]
        return module._foremost_pairs(parts)

    for silences in (30, 100):
        found = {(a.name, b.name) for a, b in pairs(silences)}
        assert {(f"{gap} True", f"{gap} False") for gap in range(1, silences + 1)} <= found
        assert len(found) < 4 * silences
