"""Tests whether connections differ, and how uncertain a figure then is: against scipy, and against series
with known answers.
"""

import numpy as np
import pytest
from scipy import stats

from fathometer.findings.parts import to_blocks
from fathometer.stats import units
from fathometer.stats.series import BlockCounts
from support.alike import counted
from support.flows import Flows, lognormal

LEAST = 100.0
"""Bucket numbers: about 5 %."""


def compared(values):
    """The samples of connections, a row each and all at the same times, as a scan counts them."""
    values = np.rint(values).astype(np.int64)
    return counted(values.T.ravel(), np.tile(np.arange(len(values)), values.shape[1]))


def differ(values):
    one = compared(values)
    return units.differ(*one.levels(), LEAST)


def groups(values, apart=50_000, share=0.05):
    one = compared(values)
    return [g.tolist() for g in units.groups(*one.levels(), one.medians(), apart, share)]


def noise(seed, connections=8, samples=400):
    return 500_000 * lognormal(np.random.default_rng(seed), connections, samples)


def test_longer_way_makes_connections_differ():
    longer = noise(1)
    longer[[1, 4, 6]] += 2_600_000
    assert differ(longer)
    assert [sorted(g) for g in groups(longer)] == [[0, 2, 3, 5, 7], [1, 4, 6]]


def test_alike_connections_do_not_differ():
    assert not any(differ(noise(seed)) for seed in range(10))
    assert not differ(np.full((4, 400), 500_000))


def test_shared_drift_is_no_difference():
    drift = 1 + np.linspace(0, 3, 400)
    assert not any(differ(noise(seed) * drift) for seed in range(10))


def test_connections_one_after_another_are_not_compared():
    """Eight connections, each opened when the one before died, while the path became slower."""
    values = np.repeat(np.arange(1, 9), 500) * 500_000
    one = counted(values, np.repeat(np.arange(8), 500))
    assert not units.differ(*one.levels(), LEAST)
    assert units.groups(*one.levels(), one.medians(), 50_000, 0.05) == []


def test_small_difference_does_not_matter():
    values = noise(3)
    values[0] *= 1.02
    assert not differ(values)


def test_connection_that_moved_is_in_no_group():
    values = noise(4)
    values[[1, 4, 6]] += 2_600_000
    values[7, 200:] += 2_600_000
    assert [sorted(g) for g in groups(values)] == [[0, 2, 3, 5], [1, 4, 6]]


def test_connections_that_wander_have_no_groups():
    rng = np.random.default_rng(5)
    values = noise(5) + 2_600_000 * np.repeat(rng.integers(2, size=(8, 8)), 50, axis=1)
    assert groups(values) == []


def test_three_ways_are_three_groups():
    values = noise(6)
    values[[0, 1]] += 600_000
    values[[2, 3, 4]] += 1_500_000
    assert [sorted(g) for g in groups(values)] == [[5, 6, 7], [0, 1], [2, 3, 4]]


def test_small_steps_beside_large_ones_are_none():
    """The first connection of a busy host's round waits a little longer than the others."""
    values = noise(9)
    values[0] += 150_000
    assert [sorted(g) for g in groups(values)] == [[1, 2, 3, 4, 5, 6, 7], [0]]
    values[[4, 5, 6]] += 2_600_000
    assert [sorted(g) for g in groups(values)] == [[0, 1, 2, 3, 7], [4, 5, 6]]


def test_two_connections_are_compared_by_t():
    """For two connections Welch's analysis of variance is his test; so it is for two halves of one
    difference.
    """
    middle, variance = np.array([-3.0, 3.0]), np.array([1.5, 1.5])
    expected = 2 * stats.t.sf(6 / np.sqrt(4 * 1.5), 2 * (units._BATCHES - 1))
    assert units._welch(middle, variance) == pytest.approx(expected)


def blocks(rows):
    """Connections of a few samples each as histograms."""
    values = np.unique(np.concatenate(rows))
    counts = np.array([[np.count_nonzero(row == v) for v in values] for row in rows])
    return BlockCounts(values.astype(float), counts, np.array([float(np.sum(row)) for row in rows]))


def test_mean_interval_is_students_over_connections():
    rows = [np.array([i, i + 2]) for i in (10, 12, 15, 16, 21, 22)]
    interval = units.mean_over_units(blocks(rows))
    means = [row.mean() for row in rows]
    expected = stats.t.interval(0.95, len(means) - 1, np.mean(means), stats.sem(means))
    assert (interval.low, interval.high) == pytest.approx(expected)


def test_one_odd_connection_costs_degrees_of_freedom():
    rows = [np.array([10, 12])] * 7 + [np.array([110, 112])]
    interval = units.mean_over_units(blocks(rows))
    means = [row.mean() for row in rows]
    low, high = stats.t.interval(0.95, 7, np.mean(means), stats.sem(means))
    assert interval.low < low
    assert high < interval.high


def test_median_of_two_levels_reaches_both():
    rows = [np.array([10, 11, 12])] * 4 + [np.array([50, 51, 52])] * 4
    interval = units.quantile_over_units(blocks(rows), 0.5)
    assert interval.low < 13
    assert interval.high > 49


def test_quantile_between_alike_connections_is_narrow():
    rng = np.random.default_rng(7)
    one = compared(1_000_000 * lognormal(rng, 8, 2_000))
    interval = units.quantile_over_units(to_blocks([one.counted], [one.ids]), 0.5)
    assert interval.low < 1_000_000 < interval.high < 1.05 * interval.low


def test_flow_generator_keeps_connections_on_their_ways():
    values, connection = Flows(4, (0, 9_000_000)).draw(np.random.default_rng(8))
    longer = values > 9_000_000
    assert all(len(set(longer[connection == c])) == 1 for c in range(4))
