"""Ties, zeros, NaN, one value, two values: no traceback anywhere, and no certainty out of nothing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathometer.stats.calendar import HOUR_NS, calendar
from fathometer.stats.compare import compare
from fathometer.stats.family import judged
from fathometer.stats.first import first_against_rest
from fathometer.stats.rollup import rollup_estimates, rollup_mean
from fathometer.stats.runs import compare_runs, median_of_runs
from fathometer.stats.segments import ending
from fathometer.stats.series import from_series, from_windows
from fathometer.stats.sweep import sweep
from support.generators import shipped

# Few distinct values, so that ties and zeros are the rule.
tied = st.lists(st.sampled_from([0, 0, 1_000, 1_000_000, 1_000_000, 2_000_000]), min_size=1, max_size=600)
verdicts = {"slower", "faster", "no difference that matters", "no difference shown", "cannot be decided"}


def long(values):
    """At least as long as an interval needs."""
    return np.tile(np.array(values, dtype=np.int64), max(1, 800 // len(values)))


@settings(max_examples=40, deadline=None)
@given(tied)
def test_quantiles_and_means_of_ties_and_zeros(values):
    x = long(values)
    blocks = shipped(x)
    for p, e in zip((0.5, 0.95, 0.99), rollup_estimates(blocks, (0.5, 0.95, 0.99)), strict=True):
        assert e.value == pytest.approx(np.quantile(x, p, method="inverted_cdf"), rel=1e-3)
        if e.interval:
            assert 0 <= e.interval.low <= e.value <= e.interval.high
    mean = rollup_mean(blocks)
    assert mean.value == pytest.approx(x.mean())
    if mean.interval:
        assert math.isfinite(mean.interval.low)
        assert mean.interval.low <= mean.value <= mean.interval.high


@settings(max_examples=30, deadline=None)
@given(tied, tied, st.booleans())
def test_comparisons_of_ties_and_zeros(a, b, side_by_side):
    at = np.arange(800, dtype=np.int64) * HOUR_NS
    x, y = (np.resize(long(v), 800).astype(float) for v in (a, b))
    blocks = [from_windows(v, at, 10 * HOUR_NS) for v in (x, y)]
    found = compare(*blocks, side_by_side=side_by_side)
    for d in found.differences:
        assert d.verdict in verdicts
        assert (d.ratio_interval is None) == (d.p_value is None)
        if d.ratio_interval:
            assert d.ratio_interval.low <= d.ratio * (1 + 1e-12)
            assert d.ratio * (1 - 1e-12) <= d.ratio_interval.high
        if d.a == d.b > 0:
            assert not d.differs
    assert 0 <= found.superiority <= 1


@pytest.mark.parametrize("values", [[0.0], [5.0], [0.0, 0.0], [1.0, 2.0], []])
def test_one_or_two_values_have_no_intervals(values):
    blocks = from_series(np.array(values))
    for e in (*rollup_estimates(blocks), rollup_mean(blocks)):
        assert e.interval is None
        assert e.doubt is not None
    assert not any(d.decided for d in compare(blocks, blocks).differences)
    assert median_of_runs(np.array(values)).interval is None


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("runs", [6, 20])
def test_runs_of_zeros_have_no_ratio(runs, interleaved):
    zeros, ones = np.zeros(runs), np.ones(runs)
    for a, b in ((zeros, ones), (ones, zeros), (zeros, zeros)):
        (d,) = judged([compare_runs("p50", a, b, interleaved=interleaved)])
        assert d.verdict == "cannot be decided"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, math.nan]), min_size=1, max_size=24 * 15))
def test_calendars_with_zeros_and_gaps(figure):
    found = calendar(np.arange(len(figure)) * HOUR_NS, np.array(figure))
    for rhythm in (found.of_day, found.of_week):
        assert rhythm.p_value is None or 0 < rhythm.p_value <= 1
        assert rhythm.swing is None or math.isfinite(rhythm.swing)


def test_constant_calendar_has_no_rhythm():
    for value in (0.0, 0.1):
        found = calendar(np.arange(24 * 21) * HOUR_NS, np.full(24 * 21, value))
        assert not found.of_day.shown
        assert not found.of_week.shown


@given(st.lists(st.sampled_from([0.0, 0.0, 1.0, 3.0]), min_size=2, max_size=60))
def test_endings_with_zeros(means):
    found = ending(np.array(means))
    assert math.isfinite(found.last_change)
    assert all(s.change is None or math.isfinite(s.change) for s in found.segments)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([0.0, 1.0, 2.0])), max_size=12),
)
def test_first_samples_of_zero(pairs):
    first, rest = (np.array([p[i] for p in pairs], dtype=float) for i in (0, 1))
    found = first_against_rest(first, rest)
    assert found.connections == sum(a > 0 and b > 0 for a, b in pairs)
    assert found.differs in {None, True, False}


def test_a_sweep_of_zeros_is_borne():
    found = sweep(np.array([64.0, 256.0, 1024.0, 4096.0]), np.array([0.0, 0.0, 1000.0, 2000.0]))
    assert all(math.isfinite(line.fixed) and math.isfinite(line.per_byte) for line in found.lines)
    assert math.isfinite(found.worst_residual)
