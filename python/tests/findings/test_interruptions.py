"""How a study's paths were interrupted: by run, compared, and only where that says something."""

import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.interruptions import interrupted, steps
from fathometer.report.write import as_text
from support.rounds import MS, path


def found(directory):
    return interrupted(analyse(open_recordings([directory])))


def test_paths_rank_by_longest_wait_per_run(tmp_path):
    path(tmp_path, "short", [50, 52, 51])
    path(tmp_path, "long", [500, 520, 510])
    short, long = found(tmp_path)
    assert (short.name, short.rank, long.name, long.rank) == ("short", 1, "long", 2)
    assert (short.longest_ns.mean, long.longest_ns.mean) == (51 * MS, 510 * MS)
    assert (short.runs, short.ended, short.of) == (3, 0, 3)
    assert [[x.name for x in group] for group in steps([long, short])] == [["short"], ["long"]]


def test_overlapping_waits_share_a_rank(tmp_path):
    path(tmp_path, "a", [50, 900, 400])
    path(tmp_path, "b", [700, 100, 600])
    assert [[x.rank for x in group] for group in steps(found(tmp_path))] == [[1, 1]]


def test_fatal_silence_counts_as_wait(tmp_path):
    path(tmp_path, "stalls", [50, 51, 52])
    path(tmp_path, "ends", [9000, 9100, 20], died=(1, 2))
    (ends,) = [x for x in found(tmp_path) if x.name == "ends"]
    assert ends.longest_ns.mean == pytest.approx((9000 + 9100 + 20) / 3 * MS)
    assert (ends.ended, ends.of, dict(ends.verdicts)) == (2, 3, {"flow_forgotten": 2})
    text = as_text(analyse(open_recordings([tmp_path])), "markdown")
    (tile,) = [line for line in text.splitlines() if line.startswith("- Connections that ended")]
    assert "ends: 2 of 3; none of stalls" in tile
    assert "something on the way forgot the flow (2)" in text


def test_only_repeated_study_paths_are_compared(tmp_path):
    path(tmp_path / "x", "a", [50, 51], rounds=False)
    path(tmp_path / "x", "b", [50, 51], rounds=False)
    assert found(tmp_path / "x") == []
    path(tmp_path / "y", "a", [50])
    path(tmp_path / "y", "b", [50])
    assert found(tmp_path / "y") == []
    path(tmp_path / "z", "a", [50, 51])
    assert found(tmp_path / "z") == []
    assert "Interruptions" not in as_text(analyse(open_recordings([tmp_path / "z"])), "markdown")
