"""Changes of recordings that are too long to look at each sample: found in medians, placed among samples."""

from dataclasses import replace

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import shifts
from support.recordings import START, UNANSWERED, lognormal_ns, write

SAMPLES = 30_000
SECOND = 1_000_000_000


@pytest.fixture
def few(monkeypatch):
    """As if a recording of this length were one of a hundred million samples."""
    monkeypatch.setattr(shifts, "RAW", 1_000)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("at", [17_003, 17_026, 17_045])
def test_change_is_placed_at_its_sample(tmp_path, at):
    # It was told at the beginning of its step, up to half a minute beside the truth, with what happened there
    # as its cause.
    rtt = lognormal_ns(1, SAMPLES, 1_000, sigma=0.05)
    rtt[at:] = rtt[at:] * 5 // 4
    rtt[::40] = UNANSWERED
    (recording,) = open_recordings([write(tmp_path / "long", rtt)])
    assert recording.rollup.step_ns > 5 * SECOND
    (change,) = [c for c in shifts.examined(recording).changes if c.kind == "level"]
    assert abs(change.at_ns - (START + at * SECOND)) <= 3 * SECOND
    assert change.after_ns / change.before_ns == pytest.approx(1.25, rel=0.02)


def test_rollup_change_is_located_within_two_steps(tmp_path):
    rtt = lognormal_ns(2, SAMPLES, 1_000, sigma=0.05)
    rtt[17_026:] = rtt[17_026:] * 5 // 4
    (recording,) = open_recordings([write(tmp_path / "long", rtt)])
    rolled = replace(recording, source=None, precounted=recording.rollup)
    (change,) = [c for c in shifts.examined(rolled).changes if c.kind == "level"]
    assert abs(change.at_ns - (START + 17_026 * SECOND)) <= 2 * rolled.rollup.step_ns
    # How far from the truth that may be is what may have to do with it.
    assert shifts.near_ns(rolled) >= rolled.rollup.step_ns


def test_nothing_is_placed_where_both_ends_are_alike():
    from fathometer.stats.changes import placed

    assert placed(np.full(1_000, 1e6)) is None
    assert placed(np.arange(20.0)) is None
