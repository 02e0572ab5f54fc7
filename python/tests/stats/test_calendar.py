import numpy as np
import pytest
from scipy.stats import binom

from fathometer.stats.calendar import HOUR_NS, calendar
from support.tiers import repeated

MONDAY = 1_732_492_800_000_000_000  # 2024-11-25 00:00 UTC, a Monday.


def hours(days):
    return MONDAY + np.arange(24 * days) * HOUR_NS


def noise(rng, n, time=6):
    """Hours that resemble their neighbours, without any rhythm."""
    from scipy.signal import lfilter

    rho = np.exp(-1 / time)
    return lfilter([1], [1, -rho], rng.standard_normal(n + 200))[200:] * 0.02


def test_cells_are_medians_of_their_hour():
    figure = 1 + np.arange(24.0 * 14)
    found = calendar(hours(14), figure)
    assert found.cell[0, 0] == np.median([1, 169])
    assert found.cell[6, 23] == np.median([168, 336])
    assert (found.hours == 2).all()


def test_local_time_moves_the_cells():
    figure = 1 + np.arange(24.0)
    assert calendar(hours(1), figure, offset_ns=HOUR_NS).cell[0, 1] == 1


def test_too_few_days_are_not_judged():
    found = calendar(hours(2), np.ones(48))
    assert found.of_day.p_value is None
    assert (found.of_day.seen, found.of_day.needed) == (2, 3)
    assert found.of_week.p_value is None


def test_a_daily_rhythm_is_seen():
    rng = np.random.default_rng(1)
    hour = np.arange(24 * 7) % 24
    figure = 1000 * np.exp(noise(rng, 24 * 7) + 0.05 * np.cos((hour - 15) / 24 * 2 * np.pi))
    found = calendar(hours(7), figure)
    assert found.of_day.p_value < 0.05
    assert found.of_day.swing == pytest.approx(0.1, abs=0.06)


@repeated("weeks", 15, 100)
def test_correlated_hours_without_rhythm_raise_few_alarms(weeks):
    rng = np.random.default_rng(2)
    alarms = sum(
        calendar(hours(7), 1000 * np.exp(noise(rng, 24 * 7))).of_day.p_value < 0.05 for _ in range(weeks)
    )
    assert alarms <= binom.ppf(0.998, weeks, 0.05)


def test_a_slow_weekend_is_seen():
    rng = np.random.default_rng(3)
    day = np.arange(24 * 28) // 24
    figure = 1000 * np.exp(noise(rng, 24 * 28) + np.where(day % 7 >= 5, 0.2, 0.0))
    found = calendar(hours(28), figure)
    assert found.of_week.p_value < 0.05
    assert found.of_week.shown


def test_missing_hours_are_left_out():
    figure = np.full(24 * 4, 5.0)
    figure[7] = np.nan
    found = calendar(hours(4), figure)
    assert found.hours[0, 7] == 0
    assert np.isnan(found.cell[0, 7])
