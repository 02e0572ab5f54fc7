"""`fathometer changes --follow`: a recording that grows, and one that has ended."""

import json

import numpy as np
import pytest

from fathometer.changes_follow import follow, followed
from fathometer.errors import FathometerError
from support.command_line import run
from support.growing import MS, Growing
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


@pytest.fixture
def stepped():
    rtt = lognormal_ns(1, 800, 700, sigma=0.02)
    rtt[500:] = (rtt[500:] * 1.3).astype("int64")
    return rtt


def test_follow_reports_change_once_before_recording_ends(tmp_path, stepped):
    growing = Growing(tmp_path / "r")
    growing.samples(stepped[:64])
    written = 64

    def more():
        nonlocal written
        if written == len(stepped):
            growing.close_segment(START + len(stepped) * 100 * MS)
            growing.event(START + len(stepped) * 100 * MS, "recording.ended", samples=len(stepped))
            return
        if written % 300 < 20:
            growing.close_segment(START + written * 100 * MS)
        end = min(len(stepped), written + 20)
        growing.samples(stepped[written:end])
        written = end

    following = follow(followed(growing.directory), more)
    ((index, when),) = [(change.index, written) for _, change in following]
    assert abs(index - 500) <= 2
    assert index < when < len(stepped), "told before the recording's end"


def test_follow_of_ended_recording_reports_change_and_returns(tmp_path, stepped):
    done = run("changes", write(tmp_path / "r", stepped), "--follow", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert abs(json.loads(line)["index"] - 500) <= 2
    assert json.loads(line)["kind"] == "level"
    (words,) = run("changes", tmp_path / "r", "--follow").stdout.splitlines()
    assert "level 700 µs -> " in words


def test_what_is_no_recording_is_not_waited_for(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nothing"):
        done = run("changes", path, "--follow")
        assert done.returncode != 0
        assert str(path) in done.stderr


@pytest.mark.parametrize(
    "plan",
    [{"sizes": [64, 4096]}, {"idle_gaps_ns": [10**9]}, {"load": {"bits_per_s": None, "connections": 1}}],
)
def test_samples_that_are_never_pooled_are_not_followed(tmp_path, plan):
    growing = Growing(tmp_path / "r", probe=plan)
    with pytest.raises(FathometerError, match="never pooled"):
        followed(growing.directory)


def rotated(root, rtt, label="path", seams=(300,), run="r"):
    """A run in several recordings, as `--rotate` leaves it."""
    places = []
    parts = np.split(rtt, seams)
    for number, part in enumerate(parts):
        begun = START + sum(map(len, parts[:number])) * SECOND
        after = {"next": f"{run}-{number + 1}", "samples": len(part), "not_sent": 0, "lost_of_several": 0}
        seam = {
            "at_ns": begun + len(part) * SECOND,
            "kind": "recording.rotated",
            "connections": [],
            "outages": [],
        }
        manifest = {"id": f"{run}-{number}", "rotation": {"run": f"{run}-0", "every_ns": SECOND}}
        places.append(root / f"{label}-{number}")
        events = [seam | after] if number + 1 < len(parts) else []
        write(places[-1], part, label=label, start_ns=begun, events=events, manifest=manifest)
    return places


@pytest.mark.parametrize("named", ["first recording", "directory"])
def test_follow_goes_on_after_a_rotation(tmp_path, stepped, named):
    """It ended with the first recording, before the change."""
    first, *_ = rotated(tmp_path / "all", stepped, seams=(100, 300, 480))
    done = run("changes", first if named == "first recording" else tmp_path / "all", "--follow", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert abs(json.loads(line)["index"] - 500) <= 2


def test_follow_of_directory_takes_newest_of_each_path(tmp_path, stepped):
    write(tmp_path / "all" / "older", stepped[::-1].copy(), label="a", start_ns=START - 10_000 * SECOND)
    rotated(tmp_path / "all", stepped, label="a", run="a")
    rotated(tmp_path / "all", lognormal_ns(2, 800, 700, sigma=0.02), label="b", run="b")
    done = run("changes", tmp_path / "all", "--follow", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["scenario"], line["recording"]) == ("a", "a-0")
    assert "following " in done.stderr


def test_changes_of_directory_are_told_run_by_run(tmp_path, stepped):
    """A directory with several recordings was refused."""
    rotated(tmp_path / "all", stepped, label="a", run="a", seams=(500,))
    write(
        tmp_path / "all" / "other", lognormal_ns(2, 400, 700, sigma=0.02), label="b", start_ns=START + SECOND
    )
    done = run("changes", tmp_path / "all")
    assert done.returncode == 0, done.stderr
    heading, _, change, *_ = done.stdout.splitlines()
    assert heading == f"{tmp_path}/all/a-0:"
    assert abs(int(change.split()[0].replace(",", "")) - 500) <= 2, "at the seam itself"
    assert done.stdout.splitlines()[-2:] == [f"{tmp_path}/all/other:", "no change found"]
    told = json.loads(run("changes", tmp_path / "all", "--json").stdout)
    assert [(c["recording"], c["scenario"]) for c in told] == [("a-0", "a")]
