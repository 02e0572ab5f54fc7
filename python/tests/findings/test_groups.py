"""Which paths are compared with each other: what the user grouped, however many there are."""

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import comparisons as module
from fathometer.findings.analyse import analyse
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
