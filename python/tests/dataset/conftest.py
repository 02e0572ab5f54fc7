"""What the tests of recordings share."""

import numpy as np
import pytest

from fathometer.dataset import open_recording
from fathometer.dataset.importers import Series
from fathometer.dataset.write import write_recording
from support import programs


@pytest.fixture(scope="session")
def fathom():
    """The Rust half's binary."""
    return programs.fathom()


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
