"""Silence where nothing changes, power where something does, through what a report calls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fathometer.findings import shifts
from fathometer.stats.changes.jumps import widths
from fathometer.stats.changes.model import Settings
from stats.changes.series import BASE, CORRELATIONS, KINDS, WHITE, correlated, unchanged
from support.tiers import repeated, rows

FEW_OR_MANY = repeated("lengths", ((600, 5), (6_000, 1)), ((600, 20), (6_000, 4)))
"""Samples, and the number of series; benches/changes.py has more and longer ones."""


def told(rtt, monkeypatch):
    """What a report has of a recording with these round trips."""
    times = np.arange(len(rtt), dtype=np.int64) * 10**9
    monkeypatch.setattr(shifts, "series", lambda *_: (rtt, times))
    run = SimpleNamespace(recording=SimpleNamespace(rows=len(rtt)), selection=None)
    moved, _ = shifts.changes([SimpleNamespace(name="path", runs=[run])])
    return [m.change for m in moved]


@FEW_OR_MANY
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_correlated_noise_is_no_change(correlation, lengths, monkeypatch):
    """An AR(1) process of 0.95 without white noise had change points in eight of eight series, 19 each."""
    for count, series in lengths:
        alarms = [
            bool(told(correlated(count, seed, correlation, white), monkeypatch))
            for white in WHITE
            for seed in range(series)
        ]
        assert np.mean(alarms) <= 0.05


@FEW_OR_MANY
@pytest.mark.parametrize("kind", KINDS)
def test_days_rounding_loudness_and_tails_are_no_change(kind, lengths, monkeypatch):
    alarms = [
        bool(told(unchanged(kind, count, seed), monkeypatch))
        for count, series in lengths
        for seed in range(series)
    ]
    assert np.mean(alarms) <= 0.05


@pytest.mark.parametrize(("correlation", "white"), [(0.8, 0.0), (0.95, 0.0), (0.95, 0.25), (0.99, 0.5)])
@repeated("count", 2_000, 41_000)
@pytest.mark.parametrize("size", [0.2, 3 * 0.03])
def test_lasting_step_is_found_in_correlated_noise(correlation, white, count, size, monkeypatch):
    at, hits = int(0.43 * count), 0
    for seed in range(5):
        rtt = correlated(count, seed, correlation, white)
        rtt[at:] += size * BASE
        hits += any(abs(c.index - at) <= max(20, count // 100) for c in told(rtt, monkeypatch))
    assert hits >= (5 if size == 0.2 else 4)


@pytest.mark.parametrize("seed", rows(range(1, 6), (1,)))
def test_one_more_sample_keeps_all_changes(seed, monkeypatch):
    """The same series had 88 changes at 20,000 samples and none at 20,001, where two searches met. Later the
    known steps brought others with them, and one sample more added some: what is usual was told by samples
    cut off at four times the noise from one to the next, here nine tenths of a deviation.
    """
    longest = 20_100
    rtt = correlated(longest, seed, 0.95, 0.0)
    steps = (300, 5_000, 12_000)
    for at in steps:
        rtt[at:] += 0.2 * BASE
    # A window more wherever the width is a new one; tails are decided from 10,000 on.
    grown = [
        n for n in range(700, longest) if len(widths(n, 2, Settings())) != len(widths(n - 1, 2, Settings()))
    ]
    edges = [n for n in (*grown, 10_000, 20_000, 20_001) if all(not 0 <= n - s <= 300 for s in steps)]
    assert len(edges) > 10
    for edge in edges:
        before, after = ([(c.kind, c.index) for c in told(rtt[:n], monkeypatch)] for n in (edge - 1, edge))
        assert before == after
        assert [index for _, index in after] == pytest.approx([s for s in steps if s < edge], abs=5)
