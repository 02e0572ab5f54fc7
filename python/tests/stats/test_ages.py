import math
from itertools import combinations

import numpy as np
import pytest

from fathometer.stats.ages import Spans, _alike, _clock, _order, _Stratum, ages
from support.tiers import repeated

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


def spans(rows, path=None):
    """Rows of beginning and end in hours, and the number of the event; None: it lived on."""
    begun, ended, event = zip(*rows, strict=True)
    return Spans(
        np.array([round(h * HOUR) for h in begun]),
        np.array([round(h * HOUR) for h in ended]),
        np.array([e is not None for e in event]),
        np.array([-1 if e is None else e for e in event]),
        np.zeros(len(rows), dtype=np.int64) if path is None else np.array(path),
    )


def one_after_another(ends, begin=0.0):
    """One connection at a time, each from the end of the one before."""
    begins = [begin, *ends[:-1]]
    return [(b, e, i) for i, (b, e) in enumerate(zip(begins, ends, strict=True))]


def test_rank_chance_matches_full_enumeration():
    strata = [_Stratum(np.array([4.0, 1, 2, 3]), 1), _Stratum(np.array([3.0, 5, 1, 2, 4]), 2)]

    def z(ranks, chosen):
        n, k = len(ranks), len(chosen)
        return (np.mean(chosen) - ranks.mean()) / math.sqrt(ranks.var() / k * (n - k) / (n - 1))

    seen = sum(z(s.ages, s.ages[: s.deaths]) for s in strata)
    all_choices = [
        z(strata[0].ages, a) + z(strata[1].ages, b)
        for a in combinations(strata[0].ages, 1)
        for b in combinations(strata[1].ages, 2)
    ]
    exact = np.mean([one >= seen - 1e-9 for one in all_choices])
    # Of 1,999 trials: four standard deviations.
    assert _order(strata) == pytest.approx(exact, abs=4 * math.sqrt(exact / 1999))


@repeated("trials", 300, 2_000)
def test_equal_age_p_value_is_uniform(trials):
    """The total time on test of complete exponential lives: P(p < x) = x, for few and for many."""
    rng = np.random.default_rng(1)
    for n in (4, 12, 60):
        events = [np.array([i]) for i in range(n)]
        p = np.array([_alike(rng.exponential(1, n), events) for _ in range(trials)])
        for level in (0.01, 0.05, 0.5):
            # Binomial, four standard deviations.
            assert np.mean(p < level) == pytest.approx(level, abs=4 * math.sqrt(level / trials))


def test_the_oldest_went_first():
    """Three connections begun hours apart, each of which lives for 4 h, beside maintenance-free paths."""
    rows = [row for lane in range(3) for row in one_after_another([1.0 + lane + 4 * k for k in range(6)])]
    rows = [(b, e, round(10 * e)) for b, e, _ in rows]
    found = ages(spans(rows))
    assert (found.better, found.told_by) == ("age", "order")
    assert found.p_value <= 0.001


def test_deaths_at_any_age_are_chance():
    """At each moment one of four dies, whatever its age."""
    rng = np.random.default_rng(2)
    begun, rows = [0.0, 0.1, 0.2, 0.3], []
    for k in range(40):
        lane = int(rng.integers(4))
        at = 1 + k * 0.77
        rows.append((begun[lane], at, k))
        begun[lane] = at
    found = ages(spans([*rows, *((b, 40.0, None) for b in begun)]))
    assert (found.better, found.told_by) == ("chance", "order")


def test_one_connection_at_a_time_of_one_age():
    """Nobody to compare with: 11 h each, at any hour of the day."""
    found = ages(spans(one_after_another([11.01, 22.02, 33.03, 44.04])))
    assert (found.better, found.told_by, found.every_ns) == ("age", "alike", None)
    assert found.typical_ns == pytest.approx(11.01 * HOUR)


def test_every_night_is_a_clock_or_an_age():
    nights = [24 * k + 3.2 + 0.3 * (k % 2) for k in range(12)]
    found = ages(spans(one_after_another(nights)[1:]))
    assert (found.better, found.every_ns) == ("either", 24 * HOUR)


def test_common_start_leaves_age_or_event_open():
    # The article's: opened within minutes, dead at ages of 11.25 to 11.55 h (known-mistakes.md).
    found = ages(spans([(0, 11.25, 0), (0, 11.54, 1), (0, 11.56, 2)]))
    assert (found.better, found.every_ns) == ("either", None)


def test_ages_of_another_path_are_no_rivals():
    """A path without a limit has older connections: no reason that there is none on the other."""
    limited = [row for lane in range(3) for row in one_after_another([1.0 + lane + 4 * k for k in range(6)])]
    rows = [(b, e, round(10 * e)) for b, e, _ in limited] + [(-100.0, 24.0, None)] * 5
    found = ages(spans(rows, [0] * len(limited) + [1] * 5))
    assert (found.better, found.told_by) == ("age", "order")


def test_a_path_where_nothing_died_says_nothing():
    assert ages(spans([(0, 5, None), (1, 6, None)])) is None


@pytest.mark.parametrize(
    ("hours", "every"),
    [
        ([0, 1, 2, 3], 1),
        ([0, 11, 22, 33], None),
        ([0, 24.5, 71.6, 96], 24),
        ([0, 3, 7.7, 9], None),
        ([5], None),
    ],
)
def test_clocks(hours, every):
    at = np.array([round(h * HOUR) for h in hours])
    assert _clock(at) == (None if every is None else every * HOUR)
