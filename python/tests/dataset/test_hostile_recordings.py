"""One recording that is not what a recorder writes is refused by name, in one line; the others are shown.

A hostile recording used to end the report of all others (a traceback, or an abort of the renderer).
"""

import os

import pytest

from fathometer.dataset import open_recordings
from support.hostile_recordings import REFUSED, SHOWN, TIMES, refused
from support.recordings import lognormal_ns, write


@pytest.fixture
def many(tmp_path):
    for name in (*REFUSED, *TIMES):
        refused(tmp_path / "r" / name, name)
    for number, (name, spoil) in enumerate({**SHOWN, "sound": lambda _: None}.items()):
        directory = write(tmp_path / "r" / name, lognormal_ns(number, 200), label=name)
        spoil(directory)
    return tmp_path / "r"


def test_hostile_recordings_are_refused_and_others_read(many):
    told = []
    found = open_recordings([many], on_error=told.append, counted=True)
    assert {r.directory.name for r in found} == {*SHOWN, "sound"}
    assert all("\n" not in str(error) and len(str(error)) < 800 for error in told)
    for name in (*REFUSED, *TIMES):
        assert sum(f"r/{name}" in str(error) for error in told) == 1, (name, list(map(str, told)))


@pytest.mark.parametrize("name", ["events.jsonl", ".lock", "samples-00001.arrows", "samples-00001.parquet"])
def test_fifo_in_recording_does_not_block(name, tmp_path):
    """Issue 16, row 16."""
    directory = write(tmp_path / "r", lognormal_ns(1, 100))
    (directory / name).unlink(missing_ok=True)
    os.mkfifo(directory / name)
    (recording,) = open_recordings([directory], counted=True)
    assert recording.rows == (0 if name == "events.jsonl" else 100)
