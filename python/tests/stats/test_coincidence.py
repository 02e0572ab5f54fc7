import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fathometer.stats.coincidence import _pairs, age_or_time, coincidence

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


def test_rush_hours_are_not_coincidence():
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(60):
        # Everybody has stalls at nine o'clock, each for reasons of their own.
        at = np.sort(rng.normal(9 * HOUR, 0.5 * HOUR, 60).astype(np.int64))
        alarms += coincidence(at, rng.integers(0, 3, 60), 5 * SECOND).p_value < 0.05
    assert alarms <= 9


def test_nothing_is_no_coincidence():
    found = coincidence(np.array([], dtype=np.int64), np.array([], dtype=np.int64), SECOND)
    assert (found.pairs, found.p_value, found.clusters) == (0, 1.0, ())


def test_article_deaths_leave_age_possible():
    # Opened within minutes of each other, dead at ages of 11.25 to 11.55 h (known-mistakes.md).
    closed = np.array([11.25, 11.54, 11.55]) * HOUR
    rivals = age_or_time(closed.astype(np.int64), (np.array([11.25, 11.54, 11.55]) * HOUR).astype(np.int64))
    assert rivals.better == "either"


def test_one_moment_and_mixed_ages_mean_event():
    closed = np.array([10 * HOUR, 10 * HOUR + SECOND, 10 * HOUR + 2 * SECOND])
    rivals = age_or_time(closed, np.array([1 * HOUR, 4 * HOUR, 9 * HOUR]))
    assert rivals.better == "event"
    assert age_or_time(closed[:1], closed[:1]) is None


def test_one_age_and_mixed_moments_mean_limit():
    rivals = age_or_time(np.array([4, 8, 12]) * HOUR, np.array([4 * HOUR, 4 * HOUR + SECOND, 4 * HOUR]))
    assert rivals.better == "age"
