"""What may be pooled: a label is a word that several hosts may use, and two targets may bear."""

import json

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import marks
from fathometer.findings.analyse import analyse
from fathometer.findings.scenarios import scenarios
from support.command_line import run as fathometer
from support.recordings import START, lognormal_ns, write

HOUR = 3_600_000_000_000
A, B = ("hmac-sha256:" + digit * 32 for digit in "ab")
NOBODY = {"from": None, "to": None, "via": None, "tags": {}}


def recorded(
    root, name, *, median=1000.0, n=300, hours=0, path=NOBODY, host=(), target="192.0.2.7:7", **more
):
    """A recording under the label that all share."""
    manifest = {
        "path": {**NOBODY, **path},
        "host": dict(host),
        "reflector": {"address": target, "resolved": None, "software": None, "stamps": None},
        **more,
    }
    rtt = lognormal_ns(len(name) + hours, n, median)
    write(root / name, rtt, label="same-zone", start_ns=START + hours * HOUR, manifest=manifest)


def of(root):
    """The scenarios by name, with the directories that were pooled in each."""
    return {
        s.name: sorted(run.recording.directory.name for run in s.runs)
        for s in scenarios(open_recordings([root]))
    }


def test_two_hosts_under_one_label_stay_separate(tmp_path):
    """They were one, whose p50 was between that of a near host and that of a far one."""
    recorded(tmp_path, "near 1", host={"name": "vm-1", "machine_id": A}, median=300)
    recorded(tmp_path, "near 2", host={"name": "vm-1", "machine_id": A}, median=300, hours=1)
    recorded(tmp_path, "far", host={"name": "vm-2", "machine_id": B}, median=3000)
    assert of(tmp_path) == {
        "same-zone (from vm-1)": ["near 1", "near 2"],
        "same-zone (from vm-2)": ["far"],
    }
    near, far = scenarios(open_recordings([tmp_path]))
    assert near.figure("p50").value < 400_000 < 2_000_000 < far.figure("p50").value


def test_same_hostname_is_split_by_machine_id(tmp_path):
    recorded(tmp_path, "a", host={"name": "localhost", "machine_id": A})
    recorded(tmp_path, "b", host={"name": "localhost", "machine_id": B})
    names = of(tmp_path)
    assert sorted(names.values()) == [["a"], ["b"]]


DIFFERENT = {
    "target": ({"target": "db1:7007"}, {"target": "db1:5432"}, "target db1:5432"),
    "from": ({"path": {"from": "az1"}}, {"path": {"from": "az2"}}, "from az2"),
    "to": ({"path": {"to": "az1"}}, {"path": {"to": "az2"}}, "to az2"),
    "via": ({"path": {"via": "peering"}}, {"path": {"via": None}}, "via peering"),
    "tags": ({"path": {"tags": {"vm": "D3"}}}, {"path": {"tags": {"vm": "D5"}}}, "vm=D5"),
    "marks": ({"marks": ["emulated"]}, {}, "emulated"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_paths_the_user_distinguishes_stay_separate(tmp_path, what):
    one, other, told = DIFFERENT[what]
    recorded(tmp_path, "one", **one)
    recorded(tmp_path, "two", **other)
    names = of(tmp_path)
    assert sorted(names.values()) == [["one"], ["two"]]
    assert any(told in name for name in names), names


def test_study_rounds_are_pooled_across_machines(tmp_path):
    for n in range(3):
        tags = {"study": "zones", "round": str(n), "vm": "D3"}
        # Who says from where it was measured decides what one place is: machines may be made anew.
        host = {"name": f"vm-{n}", "machine_id": "hmac-sha256:" + str(n) * 32}
        recorded(tmp_path, f"r{n}", host=host, hours=n, path={"from": "az1", "to": "az2", "tags": tags})
    assert of(tmp_path) == {"same-zone": ["r0", "r1", "r2"]}


def test_hostless_recording_joins_the_only_host(tmp_path):
    recorded(tmp_path, "old")
    recorded(tmp_path, "new", hours=1, host={"name": "vm-1", "machine_id": A})
    assert of(tmp_path) == {"same-zone": ["new", "old"]}
    # With two hosts nobody knows whose it is.
    recorded(tmp_path, "other", hours=2, host={"name": "vm-2", "machine_id": B})
    assert sorted(of(tmp_path).values()) == [["new"], ["old"], ["other"]]


def test_rollup_keeps_hosts_separate(tmp_path):
    recorded(tmp_path / "all", "near", host={"name": "vm-1", "machine_id": A})
    recorded(tmp_path / "all", "far", host={"name": "vm-2", "machine_id": B})
    out = fathometer("rollup", tmp_path / "all", "--output", tmp_path / "rolled")
    assert out.returncode == 0, out.stderr
    assert len(scenarios(open_recordings([tmp_path / "rolled"]))) == 2


def test_marks_come_before_all_figures(tmp_path):
    """A report of emulated or quick runs read like any other."""
    recorded(tmp_path, "fast", path={"from": "a", "tags": {"quick": "true"}}, marks=["emulated"])
    recorded(tmp_path, "slow", median=2000, path={"from": "b"}, simulated={"scenario": "x", "seed": 1})
    opened = open_recordings([tmp_path])
    assert {mark: len(ids) for mark, ids in marks.marks_of(opened).items()} == {
        "emulated": 1, "quick": 1, "simulated": 1,
    }  # fmt: skip
    page, out, text = (tmp_path / name for name in ("page.html", "report.json", "report.md"))
    wanted = ("-o", page, "--json-file", out, "--markdown", text)
    done = fathometer("report", tmp_path / "fast", tmp_path / "slow", *wanted)
    assert done.returncode == 0, done.stderr
    for told in (page.read_text(), text.read_text()):
        for word in ("Emulated", "Simulated, not measured", "Quick"):
            assert told.index(f"{word} (1 of 2 recordings)") < told.index("p50")
    document = json.loads(out.read_text())
    assert [m["mark"] for m in document["marks"]] == ["emulated", "quick", "simulated"]
    assert document["marks"][0]["recordings"] == [document["recordings"][0]["id"]]
    compared = fathometer("compare", tmp_path / "fast", tmp_path / "slow")
    assert compared.stdout.startswith("Emulated (1 of 2 recordings)"), compared.stdout
    compared = json.loads(fathometer("compare", tmp_path / "fast", tmp_path / "slow", "--json").stdout)
    assert [m["mark"] for m in compared["marks"]] == ["emulated", "quick", "simulated"]


def test_real_network_report_has_no_marks(tmp_path):
    recorded(tmp_path, "real", host={"name": "vm-1", "machine_id": A})
    assert marks.told(open_recordings([tmp_path])) == ()
    assert analyse(open_recordings([tmp_path])).scenarios[0].name == "same-zone"
