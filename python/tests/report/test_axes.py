"""Axes: ticks at 1, 10, 100 of units that people write, never an exponent, whatever is drawn."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.report import axes, render
from fathometer.report.vega import base

positive = st.floats(1e-3, 1e9)


def labels(values):
    spec = base(400, 100, [{"v": v} for v in values])
    spec |= {"mark": "point", "encoding": {"x": {"field": "v", **axes.round_trips(values)}}}
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", render.svg(spec, "x", "title"))
    return [t for t in texts if t != "round trip"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, 2_000_000], ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]),
        ([700, 8_000], ["1 ms", "2 ms", "5 ms"]),
        ([900, 3_000_000], ["1 ms", "10 ms", "100 ms", "1 s"]),
        ([0.2, 0.9], ["200 ns", "500 ns"]),
    ],
)
def test_ticks_are_where_people_expect_them(values, expected):
    assert [label for label in labels(values) if label in expected] == expected


@given(st.lists(positive, min_size=1, max_size=5))
def test_scale_has_two_to_eight_ticks(values):
    scale = axes.scale(values)
    assert 2 <= len(scale.ticks) <= 8
    assert list(scale.ticks) == sorted(set(scale.ticks))
    assert all(scale.low <= t * 1.000001 and t <= scale.high * 1.000001 for t in scale.ticks)
    assert scale.low < min(values) <= max(values) < scale.high


def test_nonpositive_values_are_off_log_axis():
    assert axes.scale([0.0, -1.0, math.nan, math.inf]) is None
    assert axes.scale([-5.0, 0.0, 10.0]).low > 0


@pytest.mark.parametrize("values", [[1e-3, 1e9], [123_456_789, 123_456_790], [1.0], [4_999, 5_001]])
def test_no_label_has_an_exponent(values):
    for label in labels(values):
        assert re.fullmatch(r"[\d,]+(\.\d+)? (ns|µs|ms|s)", label), label
