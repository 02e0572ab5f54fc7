import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fathometer.stats.coincidence import _pairs, age_or_time, coincidence
from support.tiers import repeated

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=40), st.integers(0, 20))
def test_pairs_are_those_of_counting_all(events, within):
    events = sorted(events)
    brute = sum(
        1 for i, (t, g) in enumerate(events) for u, h in events[i + 1 :] if u - t <= within and g != h
    )
    at = np.array([t for t, _ in events], dtype=np.int64)
    of = np.array([g for _, g in events], dtype=np.int64)
    assert _pairs(at, of, within) == brute


def test_three_deaths_within_three_seconds_are_no_chance():
    day = np.array([2 * HOUR, 5 * HOUR, 9 * HOUR])
    together = np.array([13 * HOUR, 13 * HOUR + SECOND, 13 * HOUR + 3 * SECOND])
    found = coincidence(np.concatenate([day, together]), np.array([0, 1, 2, 0, 1, 2]), 5 * SECOND)
    assert found.pairs == 3
    assert found.p_value < 0.01
    assert found.clusters == ((3, 4, 5),)


@repeated("days", 10, 60)
def test_rush_hours_are_not_coincidence(days):
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(days):
        # All paths have stalls at nine o'clock, each for its own reasons.
        at = np.sort(rng.normal(9 * HOUR, 0.5 * HOUR, 60).astype(np.int64))
        alarms += coincidence(at, rng.integers(0, 3, 60), 5 * SECOND).p_value < 0.05
    assert alarms <= binom.ppf(0.998, days, 0.05)


def test_nothing_is_no_coincidence():
    found = coincidence(np.array([], dtype=np.int64), np.array([], dtype=np.int64), SECOND)
    assert (found.pairs, found.p_value, found.clusters) == (0, 1.0, ())


S = 1 / 3600


@pytest.mark.parametrize(
    ("closed_h", "ages_h", "better"),
    [
        # The article's: opened within minutes of each other (known-mistakes.md).
        ((11.25, 11.54, 11.55), (11.25, 11.54, 11.55), "either"),
        ((10, 10 + S, 10 + 2 * S), (1, 4, 9), "event"),
        ((4, 8, 12), (4, 4 + S, 4), "age"),
    ],
)
def test_deaths_tell_event_from_age_limit(closed_h, ages_h, better):
    closed, ages = (np.round(np.array(hours) * HOUR).astype(np.int64) for hours in (closed_h, ages_h))
    assert age_or_time(closed, ages).better == better


def test_one_death_tells_nothing():
    assert age_or_time(np.array([HOUR]), np.array([HOUR])) is None
