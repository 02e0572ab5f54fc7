"""What the report says of physical zones, and of the five rules of the SQL Server article."""

import json

import numpy as np

from support.command_line import run
from support.recordings import START, lognormal_ns, write
from support.report_schema import SCHEMA

HOUR = 3_600_000_000_000


def reported(directory, tmp_path, *options):
    done = run("report", directory, "--json", tmp_path / "r.json", "--markdown", "-", *options)
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
    value, page = reported(tmp_path / "in", tmp_path, "-o", tmp_path / "r.html")
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


def two_weeks(directory, label, median_us, weekend=1.0, evening=1.0, noise=0.0, later=1.0):
    """A run an hour for two weeks from a Thursday on, as `studies/week.toml` makes more of them."""
    rng = np.random.default_rng(sum(map(ord, label)))
    for hour in range(14 * 24):
        day = hour // 24
        level = (
            median_us * (weekend if (day + 3) % 7 in {5, 6} else 1.0) * (evening if hour % 24 == 21 else 1.0)
        )
        level *= np.exp(noise * rng.standard_normal()) * (later if day >= 7 else 1.0)
        rtt = np.round(level * 1e3 * np.exp(0.05 * rng.standard_normal(120))).astype(np.int64)
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


def test_two_weeks_answer_the_five_rules(tmp_path):
    two_weeks(tmp_path / "in", "calm", 900)
    two_weeks(tmp_path / "in", "busy", 1500, weekend=1.3, evening=1.2, noise=0.1)
    value, page = reported(tmp_path / "in", tmp_path, "-o", tmp_path / "r.html")
    said = {a["rule"]: a for a in value["rules"]}
    assert len(said) == 5
    assert said["all places perform alike"]["here"] == "differs"
    assert said["weekends are quieter"]["here"] == "differs"
    assert "weekend 1.9" in said["weekends are quieter"]["words"]
    # Some weekday is the highest of any noise; a third of a percent matters to nobody.
    assert said["weekends are quieter"]["words"].split("; ")[0].startswith("calm: no")
    assert "highest at 21h" in said["all hours are alike"]["words"]
    assert said["it stays the same"]["here"] == "no difference shown"
    assert said["one run is enough"]["here"] == "differs"
    assert "Five rules" in page


def test_level_change_between_weeks_is_reported(tmp_path):
    two_weeks(tmp_path / "in", "moved", 900, later=1.4)
    value, _ = reported(tmp_path / "in", tmp_path)
    said = {a["rule"]: a for a in value["rules"]}
    assert said["it stays the same"]["here"] == "differs"
    assert said["all places perform alike"]["here"] == "cannot be decided"
    assert said["all hours are alike"]["here"] == "no difference shown"


def test_a_report_of_a_minute_answers_no_rule(tmp_path):
    write(tmp_path / "in" / "a", lognormal_ns(1, 200))
    value, page = reported(tmp_path / "in", tmp_path)
    assert value["rules"] == []
    assert "Five rules" not in page
    assert {"rules", "zones", "carried", "factors"} <= set(SCHEMA["required"])
