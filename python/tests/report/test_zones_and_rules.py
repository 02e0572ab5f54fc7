"""What the report says of physical zones, and of the five rules of the SQL Server article."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.findings.comparisons import comparisons
from fathometer.findings.scenarios import scenarios
from fathometer.report.rules import answers
from support.alike import recording
from support.command_line import run
from support.recordings import START, lognormal_ns, write
from support.report_schema import SCHEMA

HOUR = 3_600_000_000_000


def reported(directory, tmp_path, *options):
    done = run("report", directory, "--json-file", tmp_path / "r.json", "--markdown", "-", *options)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "r.json").read_text()), done.stdout


def path(directory, label, start, to, zone, physical, median_us, **tags):
    cloud = {"provider": "azure", "region": "uksouth", "zone": zone, "physical_zone": physical}
    where = {"from": start, "to": to, "via": None, "tags": tags}
    write(
        directory / label,
        lognormal_ns(sum(map(ord, label)), 600, median_us),
        label=label,
        manifest={"path": where, "cloud": cloud},
    )


def three_zones(directory):
    """Zones 1, 2, 3 of this subscription are az2, az3, az1."""
    path(directory, "same", "client", "server-1", "1", "uksouth-az2", 950, **{"zone-to": "1"})
    path(directory, "1-2", "client", "server-2", "1", "uksouth-az2", 1500, **{"zone-to": "2"})
    path(directory, "2-3", "server-2", "server-3", "2", "uksouth-az3", 1200, **{"zone-to": "3"})
    path(directory, "3-1", "server-3", "server-1", "3", "uksouth-az1", 1800, **{"zone-to": "1"})


def test_paths_are_grouped_by_physical_zone(tmp_path):
    three_zones(tmp_path / "in")
    value, page = reported(tmp_path / "in", tmp_path)
    found = value["zones"]
    # Of server-1, which probes nothing, by its number; of the others by what they said themselves.
    assert {(p["scenario"], *p["zones"], *p["numbers"]) for p in found["pairs"]} == {
        ("same", "uksouth-az2", "uksouth-az2", "1", "1"),
        ("1-2", "uksouth-az2", "uksouth-az3", "1", "2"),
        ("2-3", "uksouth-az1", "uksouth-az3", "3", "2"),
        ("3-1", "uksouth-az1", "uksouth-az2", "3", "1"),
    }
    assert found["one_subscription"] is True
    assert found["unknown"] == []
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| uksouth-az")]
    matrix = [[cell.split()[0] for cell in row[2:5]] for row in rows]
    # As it was made: the same from both sides, and nothing where nothing was measured.
    assert [[m[0] if m != "–" else m for m in row] for row in matrix] == [
        ["–", "1", "1"],
        ["1", "9", "1"],
        ["1", "1", "–"],
    ]
    assert matrix == [list(column) for column in zip(*matrix, strict=True)]
    assert "here zone 3" in page


def test_zone_numbers_of_subscriptions_stay_separate(tmp_path):
    three_zones(tmp_path / "in" / "ours")
    path(tmp_path / "in" / "theirs", "theirs", "c", "s", "1", "uksouth-az1", 900, **{"zone-to": "1"})
    value, page = reported(tmp_path / "in", tmp_path)
    found = value["zones"]
    assert found["one_subscription"] is False
    assert {"region": "uksouth", "number": "1", "physical": ["uksouth-az1", "uksouth-az2"]} in found[
        "numbers"
    ]
    # Where its reflector is nobody knows: zone 1 is two zones here. Nor is that of ours.
    assert {"theirs", "same", "3-1"} == set(found["unknown"])
    assert "zone 1 of uksouth is uksouth-az1 and uksouth-az2 here" in page
    assert "must not be compared" in page


def test_zone_with_two_numbers_spans_subscriptions(tmp_path):
    # One of theirs: their zone 2 is our zone 1, and nobody says where their zone 1 is.
    path(tmp_path / "in" / "ours", "ours", "client", "server", "1", "uksouth-az1", 900, **{"zone-to": "2"})
    path(tmp_path / "in" / "theirs", "theirs", "c", "s", "2", "uksouth-az1", 1500, **{"zone-to": "1"})
    value, page = reported(tmp_path / "in", tmp_path)
    found = value["zones"]
    assert (found["one_subscription"], found["pairs"]) == (False, [])
    assert set(found["unknown"]) == {"ours", "theirs"}
    assert "uksouth-az1 of uksouth is zone 1 and 2 here" in page


def test_host_in_two_zones_is_unknown(tmp_path):
    three_zones(tmp_path / "in")
    for number, physical in (("1", "uksouth-az2"), ("3", "uksouth-az1")):
        path(tmp_path / "in", f"moved-{number}", "roaming", "server-2", number, physical, 1500)
    value, _ = reported(tmp_path / "in", tmp_path)
    assert set(value["zones"]["unknown"]) == {"moved-1", "moved-3"}


def test_without_a_cloud_nothing_is_said_of_zones(tmp_path):
    write(tmp_path / "in" / "a", lognormal_ns(1, 200))
    value, page = reported(tmp_path / "in", tmp_path)
    assert value["zones"] == {"pairs": [], "unknown": [], "numbers": [], "one_subscription": True}
    assert "Physical zones" not in page


def hourly(label, median_us, weekend=1.0, evening=1.0, noise=0.0, later=1.0, hours=14 * 24):
    """Round trips of a run an hour for two weeks from a Thursday on: (hour, ns)."""
    rng = np.random.default_rng(sum(map(ord, label)))
    for hour in range(hours):
        day = hour // 24
        level = (
            median_us * (weekend if (day + 3) % 7 in {5, 6} else 1.0) * (evening if hour % 24 == 21 else 1.0)
        )
        level *= np.exp(noise * rng.standard_normal()) * (later if day >= 7 else 1.0)
        yield hour, np.round(level * 1e3 * np.exp(0.05 * rng.standard_normal(120))).astype(np.int64)


def written(directory, label, median_us, **more):
    """The recordings, as `studies/week.toml` makes more of them."""
    for hour, rtt in hourly(label, median_us, **more):
        tags = {"study": "week", "round": str(hour + 1)}
        where = {"from": "client", "to": label, "via": None, "tags": tags}
        write(
            directory / label / f"{hour}",
            rtt,
            label=label,
            start_ns=START + hour * HOUR,
            interval_ns=100_000_000,
            manifest={"path": where},
        )


def held(paths):
    """The rules' answers, without files: rule -> (here, words)."""
    every = scenarios(
        [
            recording(label, rtt, START + hour * HOUR, 100_000_000)
            for label, path in paths.items()
            for hour, rtt in hourly(label, **path)
        ]
    )
    analysis = SimpleNamespace(scenarios=every, comparisons=comparisons(every), changes=())
    return {a.rule: (a.holds, a.words) for a in answers(analysis)}


CALM_AND_BUSY = {
    "calm": {"median_us": 900},
    "busy": {"median_us": 1500, "weekend": 1.3, "evening": 1.2, "noise": 0.1},
}
MOVED = {"moved": {"median_us": 900, "later": 1.4}}


def five_rules_of_calm_and_busy(said):
    assert len(said) == 5
    assert said["all places perform alike"][0] == "differs"
    here, words = said["weekends are quieter"]
    assert here == "differs"
    assert "weekend 1.9" in words
    # Some weekday is the highest of any noise; a third of a percent matters to nobody.
    assert words.split("; ")[0].startswith("calm: no")
    assert "highest at 21h" in said["all hours are alike"][1]
    assert said["it stays the same"][0] == "no difference shown"
    assert said["one run is enough"][0] == "differs"


def rules_of_moved(said):
    assert said["it stays the same"][0] == "differs"
    assert said["all places perform alike"][0] == "cannot be decided"
    assert said["all hours are alike"][0] == "no difference shown"


def test_two_weeks_answer_the_five_rules():
    five_rules_of_calm_and_busy(held(CALM_AND_BUSY))


def test_level_change_between_weeks_is_reported():
    rules_of_moved(held(MOVED))


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("paths", "check"), [(CALM_AND_BUSY, five_rules_of_calm_and_busy), (MOVED, rules_of_moved)]
)
def test_report_of_two_weeks_has_five_rules(tmp_path, paths, check):
    for label, path in paths.items():
        written(tmp_path / "in", label, **path)
    value, page = reported(tmp_path / "in", tmp_path, "-o", tmp_path / "r.html")
    check({a["rule"]: (a["here"], a["words"]) for a in value["rules"]})
    assert "Five rules" in page


def test_report_of_a_day_has_five_rules(tmp_path):
    written(tmp_path / "in", "calm", 900, hours=24)
    value, page = reported(tmp_path / "in", tmp_path)
    assert len(value["rules"]) == 5
    assert "Five rules" in page
    for answer in value["rules"]:
        assert answer["rule"] in page.lower()
        assert answer["here"] in page


def test_a_report_of_a_minute_answers_no_rule(tmp_path):
    write(tmp_path / "in" / "a", lognormal_ns(1, 200))
    value, page = reported(tmp_path / "in", tmp_path)
    assert value["rules"] == []
    assert "Five rules" not in page
    assert {"rules", "zones", "carried", "factors"} <= set(SCHEMA["required"])
