"""What the tests of recordings share."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from fathometer.dataset import open_recording
from fathometer.dataset.importers import Series
from fathometer.dataset.write import write_recording

ROOT = Path(__file__).resolve().parents[3]


def missing(what):
    """A peer that is not there: a visible skip, and a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def fathom():
    """The Rust half's binary."""
    places = [ROOT / "target" / kind / "fathom" for kind in ("release", "debug")]
    built = [p for p in places if p.exists()]
    if built:
        return max(built, key=lambda p: p.stat().st_mtime)
    found = shutil.which("fathom")
    return found or missing("fathom (cargo build -p fathom)")


@pytest.fixture
def tool():
    """Finds a program by name."""
    return lambda name: shutil.which(name) or missing(name)


@pytest.fixture
def record(tmp_path):
    """Writes samples as a recording and opens it."""

    def make(sent, rtt, answered=None, name="recording", **more):
        sent, rtt = np.asarray(sent, dtype=np.int64), np.asarray(rtt, dtype=np.int64)
        answered = np.ones(rtt.size, dtype=bool) if answered is None else np.asarray(answered)
        directory = tmp_path / name
        series = Series("label", "tcp", 64, sent, rtt, answered, **more)
        write_recording(series, directory, tool="test", file="test")
        return open_recording(directory)

    return make
