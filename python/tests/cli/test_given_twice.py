"""One recording that is given twice on the command line counts once: as two, its intervals were narrower by a
factor of 1.4, and nothing said so.
"""

import json
import shutil

import numpy as np
import pytest

from support.command_line import run
from support.recordings import START, lognormal_ns, write


@pytest.fixture
def near(tmp_path):
    return write(tmp_path / "near", lognormal_ns(1, 400, 500), label="near")


def told(*paths, cwd, command="report"):
    done = run(command, *paths, "--json", cwd=cwd)
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout), done.stderr


def twice(tmp_path, how):
    """The second name of it."""
    if how == "same":
        return "near"
    if how == "slash":
        return "./near/"
    if how == "manifest":
        return "near/recording.json"
    if how == "tree":
        return "."
    if how == "link":
        (tmp_path / "link").symlink_to("near")
    else:
        shutil.copytree(tmp_path / "near", tmp_path / "copy")
    return how


HOWS = ["same", "slash", "manifest", "tree", "link", "copy"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.usefixtures("near")
def test_it_counts_once_and_that_is_said(tmp_path, how):
    alone, nothing = told("near", cwd=tmp_path)
    assert "once" not in nothing
    document, stderr = told("near", twice(tmp_path, how), cwd=tmp_path)
    assert document["scenarios"] == alone["scenarios"]
    assert len(document["recordings"]) == 1
    assert stderr.count("it counts once") == 1, stderr


def test_copies_in_one_tree_count_once(near, tmp_path):
    shutil.copytree(near, tmp_path / "backup" / "near")
    document, stderr = told(".", cwd=tmp_path)
    assert len(document["recordings"]) == 1
    assert "is a copy of the recording" in stderr


def test_of_copies_the_one_that_holds_most_counts(near, tmp_path):
    """A copy that was made while the recording was still being written."""
    part = shutil.copytree(near, tmp_path / "a-part")
    for segment in part.glob("samples-*"):
        segment.unlink()
    document, stderr = told("a-part", "near", cwd=tmp_path)
    assert [s["samples"] for s in document["scenarios"]] == [400]
    assert "a-part is a copy of the recording near " in stderr


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.usefixtures("near")
def test_it_is_not_compared_with_itself(tmp_path, how):
    write(tmp_path / "else" / "far", lognormal_ns(2, 400, 900), label="far", start_ns=START + 10**13)
    alone, _ = told("near", "else", cwd=tmp_path, command="compare")
    document, stderr = told("near", twice(tmp_path, how), "else", cwd=tmp_path, command="compare")
    assert document["comparisons"] == alone["comparisons"]
    assert "counts once" in stderr
    assert {tuple(sorted((c["a"], c["b"]))) for c in document["comparisons"]} == {("far", "near")}


def test_many_copies_are_reported_in_few_lines(tmp_path):
    for n in range(9):
        write(tmp_path / "a" / f"r{n}", lognormal_ns(n, 30), label=f"p{n}")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    document, stderr = told("a", "b", cwd=tmp_path)
    assert len(document["recordings"]) == 9
    assert sum("once" in line for line in stderr.splitlines()) == 4
    assert "6 other recordings were given more than once" in stderr


def test_a_rollup_of_two_copies_counts_one(near, tmp_path):
    shutil.copytree(near, tmp_path / "copy")
    done = run("rollup", "near", "copy", "--output", "rollup", cwd=tmp_path)
    assert done.returncode == 0
    assert "it counts once" in done.stderr
    (alone, _), (document, _) = told("near", cwd=tmp_path), told("rollup", cwd=tmp_path)
    assert [s["samples"] for s in document["scenarios"]] == [s["samples"] for s in alone["scenarios"]]


@pytest.mark.usefixtures("near")
def test_scenarios_that_cannot_be_compared_are_counted(tmp_path):
    """It said "2 scenario with answered samples" where one of them had none."""
    write(tmp_path / "silent", lognormal_ns(1, 40, 500) * 0 - 1, label="silent")
    done = run("compare", "near", "silent", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 scenario with answered samples" in done.stderr


def test_compare_refuses_throughput_only_recordings(tmp_path):
    """It said "0 scenarios with answered samples", as if nothing had been measured."""
    probe = {"mode": "tcp-throughput", "size": None, "interval_ns": None, "bitrate_bits_per_second": None}
    interval = {"kind": "throughput.interval", "connection": 0, "way": "sent", "interval_ns": 10**9}
    events = [{"at_ns": START + 10**9, **interval, "bytes": 10**6}]
    for name in ("then", "now"):
        nothing = np.zeros(0, dtype=np.int64)
        write(tmp_path / name, nothing, label="bulk", events=events, manifest={"probe": probe})
    for words in (("now", "then"), ("now", "--with", "then")):
        done = run("compare", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert "throughput was measured in now, then, and there is no such comparison" in done.stderr


@pytest.mark.parametrize("how", ["near", "./near/", "link"])
@pytest.mark.usefixtures("near")
def test_a_recording_is_not_held_against_itself(tmp_path, how):
    """It said that no path of it was measured in it."""
    (tmp_path / "link").symlink_to("near")
    done = run("compare", "near", "--with", how, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{how.rstrip('/')}" in done.stderr
    assert "would be compared with itself; name an earlier run of the study" in done.stderr
