import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import Histogram, bucket_low, bucket_of, supports
from fathometer.dataset.histogram import MAX_NS, grouped_quantile

GOLDEN = Path(__file__).resolve().parents[3] / "schema" / "golden"
VALUES = st.lists(st.integers(0, MAX_NS), min_size=1, max_size=200)


def by_definition(value):
    """schema/recording.md, word for word, in Python's integers."""
    v = min(max(value, 0), 2**42 - 1)
    if v < 2048:
        return v
    o = math.floor(math.log2(v)) - 11 if v < 2**40 else v.bit_length() - 12
    return 2048 * o + (v >> o)


def test_the_bucket_numbers_are_the_formats():
    # By hand: 2,048 steps an octave above 2,048.
    by_hand = {-1: 0, 0: 0, 2_047: 2_047, 2_048: 2_048, 4_095: 4_095, 4_096: 4_096, 4_098: 4_097}
    assert bucket_of(list(by_hand)).tolist() == list(by_hand.values())
    assert bucket_of([MAX_NS, MAX_NS + 1, 2**62]).tolist() == [65_535] * 3


def test_the_golden_files_agree():
    expected = json.loads((GOLDEN / "expected.json").read_text())
    rtt, bucket = (expected["columns"].index(c) for c in ("rtt_ns", "rtt_bucket"))
    rows = [r for r in expected["closed"]["rows"] if r[rtt] is not None]
    assert len(rows) == 7
    assert bucket_of([r[rtt] for r in rows]).tolist() == [r[bucket] for r in rows]


@given(st.integers(0, MAX_NS))
def test_bucket_matches_definition_and_contains_value(value):
    bucket = int(bucket_of([value])[0])
    assert bucket == by_definition(value)
    low, end = bucket_low([bucket, bucket + 1]).tolist()
    assert low <= value < end
    assert end - low == 1 or (end - low) / low < 0.0005


@given(VALUES, VALUES, st.integers(0, 11))
def test_merging_is_the_histogram_of_both(a, b, shift):
    assert Histogram.merge([Histogram.of(a, shift), Histogram.of(b, shift)]) == Histogram.of(a + b, shift)
    assert Histogram.of(a + b).coarser(shift) == Histogram.of(a + b, shift)


@given(VALUES, st.floats(0.001, 0.9999), st.integers(0, 5))
def test_exact_quantile_lies_within_bounds(values, q, shift):
    exact = sorted(values)[min(max(math.ceil(q * len(values)), 1), len(values)) - 1]
    found = Histogram.of(values, shift).quantile(q)
    assert found.low_ns <= exact <= found.high_ns
    assert found.low_ns <= found.value_ns <= found.high_ns
    assert found.high_ns - found.low_ns <= max(exact * 2.0 ** (shift - 11), 2**shift)
    keys, grouped = grouped_quantile(
        np.zeros(len(values), dtype=np.int64), bucket_of(values), np.ones(len(values), dtype=np.int64), q
    )
    assert keys.tolist() == [0]
    assert abs(grouped[0] - exact) <= exact * 0.0005 + 1


@given(st.lists(st.integers(0, 2**50), min_size=2, max_size=50))
def test_moments_are_exact(values):
    histogram = Histogram.of(values)
    assert histogram.count == len(values)
    assert (histogram.min_ns, histogram.max_ns) == (min(values), max(values))
    assert histogram.sum_ns == sum(values)
    assert histogram.sum_of_squares == sum(v * v for v in values)
    assert histogram.stddev_ns == pytest.approx(np.std([float(v) for v in values], ddof=1), rel=1e-6, abs=1)


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50), st.integers(0, 11))
def test_totals_are_exact_or_not_there(values, shift):
    parts = [Histogram.of(values[::2], shift), Histogram.of(values[1::2], shift)]
    for histogram in (Histogram.of(values, shift), Histogram.merge(parts)):
        if sum(values) < 2**63:
            assert sum(histogram.totals_ns.tolist()) == sum(values)
        else:
            assert histogram.totals_ns is None


@given(VALUES, st.integers(0, MAX_NS))
def test_the_count_above_a_threshold_is_bounded(values, threshold):
    low, high = Histogram.of(values).count_above(threshold)
    assert low <= sum(v > threshold for v in values) <= high


def test_an_empty_histogram_says_nothing():
    empty = Histogram.empty()
    assert (empty.count, empty.quantile(0.5), empty.mean_ns, empty.stddev_ns) == (0, None, None, None)
    assert Histogram.merge([]) == empty == Histogram.of([])


def test_percentiles_need_their_count():
    # Wilks 1941: the least n with 1 - q^n >= 0.95.
    for q, needed in [(0.5, 5), (0.95, 59), (0.99, 299), (0.999, 2_995), (0.9999, 29_956)]:
        assert supports(needed, q)
        assert not supports(needed - 1, q)
        assert 1 - q**needed >= 0.95 > 1 - q ** (needed - 1)
