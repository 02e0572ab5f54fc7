"""Where the rows of the timeline are cut: what a path does every day is seen, whatever happened to it."""

import numpy as np
import pytest

from fathometer.dataset.regroup import Envelope
from fathometer.report.envelopes import coarse
from fathometer.report.overview import TimelineRow, top_us
from fathometer.report.timeline import Mark

BINS, MS = 200, 1_000_000


def row(p50_us, high_us):
    n = len(p50_us)
    ones = np.ones(n, dtype=np.int64)
    low = np.asarray(p50_us) * 0.9e3
    medians, highs = (np.asarray(x, dtype=np.float64) * 1e3 for x in (p50_us, high_us))
    start = np.arange(n, dtype=np.int64) * MS
    return TimelineRow("p", (Envelope(start, MS, ones, 0 * ones, ones, low, highs, medians, highs, 0.001),))


def mark(first, last, *, waited=True, path="p"):
    return Mark(1, first * MS, last * MS - 1, (path,), "", waited=waited)


def everyday(seed=1):
    rng = np.random.default_rng(seed)
    return 1000 * np.exp(0.05 * rng.standard_normal(BINS)), 1300 * np.exp(0.1 * rng.standard_normal(BINS))


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2, 0.6])
def test_standstill_does_not_flatten_row(share):
    """Three seconds of fourteen: the row reached to 3 s, its path of a millisecond was a line at the foot."""
    p50, high = everyday()
    usual = top_us(row(p50, high))
    stalled = slice(50, 50 + round(share * BINS))
    p50[stalled], high[stalled] = 1_500_000, 3_000_000
    top = top_us(row(p50, high), [mark(50, stalled.stop)])
    assert top == pytest.approx(usual, rel=0.1)
    # Of another path, or of nothing through which samples waited, it explains nothing.
    assert top_us(row(p50, high), [mark(50, stalled.stop, path="q")]) == pytest.approx(
        top_us(row(p50, high)), rel=1e-9
    )


@pytest.mark.parametrize("factor", [2, 50])
def test_a_level_that_moved_is_seen_in_full(factor):
    p50, high = everyday()
    moved = slice(100, 160)
    p50[moved] *= factor
    high[moved] *= factor
    top = top_us(row(p50, high), [mark(100, 160, waited=False)])
    assert top >= high[moved].max()


def test_what_is_all_incident_has_a_scale():
    p50, high = everyday()
    assert top_us(row(p50, high), [mark(0, BINS)]) == pytest.approx(top_us(row(p50, high)), rel=1e-9)


def test_merged_bins_take_their_median():
    """Of those that have one: where nothing was answered there is none."""
    p50 = np.random.default_rng(5).random(BINS)
    p50[::7] = p50[60:70] = np.nan
    envelope = row(p50, p50 + 1).envelopes[0]
    joined = coarse(envelope, BINS // 5)
    runs = envelope.p50_ns.reshape(-1, 5)
    known = ~np.isnan(runs).all(axis=1)
    assert np.array_equal(joined.p50_ns[known], np.nanmedian(runs[known], axis=1))
    assert np.isnan(joined.p50_ns[~known]).all()
    assert list(np.flatnonzero(~known)) == [12, 13]
