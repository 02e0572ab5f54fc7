"""The detector that is fed one sample at a time."""

from __future__ import annotations

import numpy as np
import pytest

from fathometer.stats.changes import OnlineDetector
from fathometer.stats.changes.online import BASELINE, SECOND_OPINIONS
from stats.changes.series import BASE, noise


def feed(rtt: np.ndarray):
    """(samples pushed when it was reported, change)"""
    detector = OnlineDetector()
    reports = ((i, detector.push(v, i * 1_000)) for i, v in enumerate(rtt))
    return [(i, change) for i, change in reports if change is not None]


@pytest.mark.parametrize("factor", [0.7, 1.1, 1.5, 4.0])
def test_step_is_reported_once_at_its_sample(factor):
    rtt = noise(3_000, 1, correlation=0.5)
    rtt[1_200:] *= factor
    if factor == 1.1:
        # Two standard deviations of the noise: less than the offline search confirms.
        assert all(change.index >= 1_200 for _, change in feed(rtt))
        return
    ((when, change),) = feed(rtt)
    assert abs(change.index - 1_200) <= 2
    assert change.at_ns == change.index * 1_000
    assert when - 1_200 <= SECOND_OPINIONS[-1]
    assert (change.after_ns > change.before_ns) == (factor > 1)


def test_there_and_back_are_two_changes():
    rtt = noise(3_000, 2, correlation=0.5)
    rtt[1_000:1_600] *= 1.5
    indices = [change.index for _, change in feed(rtt)]
    assert len(indices) == 2
    assert np.allclose(indices, [1_000, 1_600], atol=2)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_noise_with_spikes_raises_no_report(correlation):
    assert [feed(noise(4_000, seed, correlation)) for seed in range(4)] == [[]] * 4


def test_gaps_and_stalls_are_not_changes():
    rtt = noise(2_000, 3, correlation=0.5, tail=0.0)
    rtt[500:520] = np.nan
    rtt[900] = 100 * BASE
    rtt[1_500:] *= 1.5
    ((_, change),) = feed(rtt)
    assert abs(change.index - 1_500) <= 2
    detector = OnlineDetector()
    assert detector.push(None) is None


def test_a_nearly_constant_series_that_moves_is_noticed():
    rtt = np.concatenate([np.full(BASELINE + 50, 1e6), np.full(300, 2e6)])
    rtt[np.random.default_rng(5).random(len(rtt)) < 0.05] += 1e4
    indices = [change.index for _, change in feed(rtt)]
    assert indices == [BASELINE + 50]


def test_memory_is_bounded():
    detector = OnlineDetector()
    for value in noise(5_000, 4):
        detector.push(value)
    assert len(detector._values) <= 1_024
    assert len(detector._where) == len(detector._values)
