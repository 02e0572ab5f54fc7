"""Long series: levels and tails; silence on noise."""

from __future__ import annotations

import numpy as np
import pytest

from fathometer.stats.changes import examine, find_changes
from stats.changes.series import BASE, noise
from support.tiers import repeated

LONG = 200_000


@repeated("series", 1, 4)
@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_no_change_in_correlated_noise(correlation, series):
    assert [find_changes(noise(LONG, seed, correlation)) for seed in range(series)] == [()] * series


@pytest.mark.parametrize(("size", "within"), [(1.05, 60), (1.2, 1)])
@repeated("at", 123_456, 50_000)
def test_a_step_is_found_once_at_its_sample(size, within, at):
    rtt = noise(LONG, 7)
    rtt[at:] += BASE * (size - 1)
    (change,) = find_changes(rtt)
    assert change.kind == "level"
    assert abs(change.index - at) <= within
    assert change.before_ns == pytest.approx(np.median(rtt[:at]), rel=1e-3)
    assert change.after_ns == pytest.approx(np.median(rtt[at:]), rel=1e-3)


@pytest.mark.parametrize(("factor", "within"), [(0.25, 3_000), (4.0, 1_000)])
def test_tail_rate_change_is_tail_not_level(factor, within):
    at = 90_000
    rtt = np.concatenate([noise(LONG, 8, tail=0.01)[:at], noise(LONG, 9, tail=0.01 * factor)[at:]])
    (change,) = find_changes(rtt)
    assert change.kind == "tail"
    # A window of 500 samples has some ten events on the dearer side of 4.0, and three and one of 0.25.
    assert abs(change.index - at) <= within
    assert (change.after_ns > change.before_ns) == (factor > 1)


def test_level_change_is_not_tail_change():
    rtt = noise(LONG, 10)
    rtt[100_250:] *= 1.5
    rtt[150_000:] /= 1.5
    assert [c.kind for c in find_changes(rtt)] == ["level", "level"]


def test_burst_edges_are_found_at_every_length():
    """Windows of a hundred samples used to hide in a long series what a short one told."""
    for count in (2_000, LONG):
        rtt = noise(count, 11)
        rtt[700:820] += 9 * BASE
        assert [c.index for c in find_changes(rtt) if c.kind == "level"] == [700, 820]
        rtt = noise(count, 11)
        rtt[700:703] *= 10  # A spike of three samples is no level.
        assert find_changes(rtt) == ()


def test_unanswered_samples_are_counted_in_the_index():
    rtt = noise(LONG, 14)
    rtt[100_000:] += BASE
    rtt[:50_000][np.random.default_rng(1).random(50_000) < 0.3] = np.nan
    (change,) = find_changes(rtt)
    assert change.index == 100_000


def test_enough_tail_events_leave_nothing_undecided():
    assert examine(noise(40_000, 15)).undecided == ()
