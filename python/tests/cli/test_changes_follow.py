"""`fathometer changes --follow`: a recording that grows, and one that has ended."""

import json

import pytest

from fathometer.changes_follow import follow
from fathometer.errors import FathometerError
from support.command_line import run
from support.growing import MS, Growing
from support.recordings import START, lognormal_ns, write


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

    ((index, when),) = [(change.index, written) for change in follow(growing.directory, more)]
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
        next(follow(growing.directory, lambda: pytest.fail("nothing is waited for")))
