"""Numbers as people read them: three digits, SI prefixes, no e-notation, nothing positive below zero."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.findings import words

POSITIVE = st.floats(1e-9, 1e18, allow_nan=False)


@given(POSITIVE)
def test_figure_has_three_significant_digits(value):
    text = words.figure(value)
    assert re.fullmatch(r"[0-9,]+(\.[0-9]+)?", text), text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.0051)


@given(st.floats(0, 1e18))
def test_duration_is_accurate_without_exponent(ns):
    text = words.duration(ns)
    assert "e" not in text
    scales = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "d": 86_400e9}
    parts = text.replace(",", "").split()
    total = sum(float(n) * scales[u] for n, u in zip(parts[::2], parts[1::2], strict=True))
    # Of nanoseconds there are only whole ones; of hours only whole minutes.
    slack = 0.51 if ns < 1e3 else scales[parts[-1]] * 1.01 if ns >= 59.9e9 else 0.0051 * ns
    assert abs(total - ns) <= slack, text
    # No unit is told that the next would hold: not `1000 µs`.
    if len(parts) == 2 and parts[1] != "d":
        assert float(parts[0]) < 1000


@given(POSITIVE, POSITIVE)
def test_positive_interval_never_starts_below_zero(low, high):
    assert not words.span(-low, high).startswith("-")
    assert words.span(-low, high, positive=False).startswith("-") or low < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.count(1, "sample"), "1 sample"),
        (words.count(2_000, "sample"), "2,000 samples"),
        (words.times(1_070.4), "1,070 times"),
        (words.lower(2.26), "55.8 % lower"),
        (words.lower(1 / 2.26), "2.26 times as high"),
        (words.lower(0.8), "25.0 % higher"),
        (words.share(0.123), "12.3 %"),
        (words.rose(1.0, 1.092), "rose 9.20 %"),
        (words.rose(2.0, 1.0), "fell 50.0 %"),
        (words.rose(1.0, 24.1), "rose to 24.1 times as much"),
        (words.rose(0.0, 1.0), "rose from nothing"),
        (words.signed_change(1.0, 1.092), "+9.20 %"),
        (words.signed_change(1.0, 0.5), "-50.0 %"),
        (words.signed_change(1.0, 4.73), "4.73×"),
        (words.signed_change(0.0, 1.0), "from nothing"),
        (words.duration(999_700), "1.00 ms"),
        (words.duration(59_990_000_000), "1 min 0 s"),
        (words.duration(math.nan), "not known"),
        (words.rate(999_999_999), "1.00 Gbit/s"),
        (words.listed(["a", "b", "c", "d"], 2), "a, b and 2 others"),
        (words.often(1), "once"),
    ],
)
def test_texts_read_as_people_write_them(text, expected):
    assert text == expected
