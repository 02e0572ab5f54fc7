"""What names hosts is its owner's alone, as the recorder has it: imported recordings, rollups, mirrors."""

import os
import stat

import pytest

from fathometer.dataset import importers, open_recording
from fathometer.dataset.rollup_writer import write_rollups
from fathometer.dataset.write import write_imported
from fathometer.study.ssh.answers import read_look
from fathometer.study.ssh.mirror import Mirror
from support.outputs import CASES

LOOK = b"""
{"is":"fathom-host","format":1}
{"is":"state","state":"running"}
{"is":"file","name":"events.jsonl","inode":1,"size":3,"modified_ns":9}
{"is":"piece","name":"events.jsonl","inode":1,"size":3,"modified_ns":9,"offset":0,"length":3}
abc{"is":"end"}
"""


@pytest.fixture(autouse=True)
def usual_umask():
    """Under which whatever asks for nothing can be read by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def imported(tmp_path):
    (tmp_path / "run.csv").write_text(CASES["echo-client"])
    (place,) = write_imported(importers.read(tmp_path / "run.csv"), tmp_path / "out")
    return place


def test_an_imported_recording_is_private(tmp_path):
    assert mode(imported(tmp_path)) == 0o700


def test_a_rollup_is_private(tmp_path):
    recording = open_recording(imported(tmp_path))
    write_rollups([recording], [recording.rollup], "local", tmp_path / "rollup")
    assert mode(tmp_path / "rollup") == 0o700


def test_a_mirror_of_a_host_is_private(tmp_path):
    mirror = Mirror(tmp_path / "m" / "r", 1 << 20)
    mirror.take(read_look(LOOK), 1 << 20)
    assert mode(tmp_path / "m" / "r") == 0o700
    assert mode(tmp_path / "m" / "r" / "events.jsonl") == 0o600
