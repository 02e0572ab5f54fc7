"""Long series: windows, then the exact place; levels and tails; silence on noise."""

from __future__ import annotations

import numpy as np
import pytest

from fathometer.stats.changes import Settings, examine, find_changes
from fathometer.stats.changes.windows import long_run_deviation
from stats.changes.series import BASE, noise

LONG = 200_000


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_no_change_in_correlated_noise(correlation):
    assert [find_changes(noise(LONG, seed, correlation)) for seed in range(4)] == [()] * 4


@pytest.mark.parametrize(("size", "within"), [(1.05, 60), (1.2, 1)])
@pytest.mark.parametrize("at", [50_000, 123_456])
def test_a_step_is_found_once_at_its_sample(size, within, at):
    rtt = noise(LONG, 7)
    rtt[at:] += BASE * (size - 1)
    (change,) = find_changes(rtt)
    assert change.kind == "level"
    assert abs(change.index - at) <= within
    assert change.before_ns == pytest.approx(np.median(rtt[:at]), rel=1e-3)
    assert change.after_ns == pytest.approx(np.median(rtt[at:]), rel=1e-3)


@pytest.mark.parametrize(("factor", "within"), [(0.25, 3_000), (4.0, 1_000)])
def test_a_tail_that_becomes_more_or_less_is_a_change_of_tail_not_of_level(factor, within):
    at = 90_000
    rtt = np.concatenate([noise(LONG, 8, tail=0.01)[:at], noise(LONG, 9, tail=0.01 * factor)[at:]])
    (change,) = find_changes(rtt)
    assert change.kind == "tail"
    # A window of 500 samples has some ten events on the dearer side of 4.0, and three and one of 0.25.
    assert abs(change.index - at) <= within
    assert (change.after_ns > change.before_ns) == (factor > 1)


def test_a_change_of_level_is_not_taken_for_one_of_tail():
    rtt = noise(LONG, 10)
    rtt[100_250:] *= 1.5
    rtt[150_000:] /= 1.5
    assert [c.kind for c in find_changes(rtt)] == ["level", "level"]


def test_a_short_burst_in_a_long_series_is_no_change_of_level():
    rtt = noise(LONG, 11)
    rtt[70_000:70_120] *= 10  # One window of 100 samples and a bit.
    assert [c for c in find_changes(rtt) if c.kind == "level"] == []


def test_both_ways_of_searching_agree_where_both_can():
    rtt = noise(15_000, 12, correlation=0.5, tail=0.002)
    for at, factor in ((4_000, 1.5), (9_500, 1 / 1.5)):
        rtt[at:] *= factor
    precise = [c.index for c in find_changes(rtt)]
    by_windows = [c.index for c in find_changes(rtt, settings=Settings(precise_longest=1_000))]
    assert precise == [4_000, 9_500]
    assert np.allclose(by_windows, precise, atol=2)


def test_the_long_run_deviation_is_that_of_means_over_long_stretches():
    """Of an AR(1) process: deviation / (1 - correlation); of independent values: their own."""
    rng = np.random.default_rng(13)
    from scipy.signal import lfilter

    truth = 1 / (1 - 0.7)
    found = [long_run_deviation(lfilter([1], [1, -0.7], rng.normal(size=2_000))) for _ in range(20)]
    assert np.median(found) == pytest.approx(truth, rel=0.35)
    alone = [long_run_deviation(rng.normal(size=2_000)) for _ in range(20)]
    # The largest over block lengths is above the truth by luck, never much below it.
    assert 0.95 < np.median(alone) < 1.5


def test_unanswered_samples_are_counted_in_the_index():
    rtt = noise(LONG, 14)
    rtt[100_000:] += BASE
    rtt[:50_000][np.random.default_rng(1).random(50_000) < 0.3] = np.nan
    (change,) = find_changes(rtt)
    assert change.index == 100_000


def test_enough_tail_events_leave_nothing_undecided():
    assert examine(noise(40_000, 15)).undecided == ()
