"""Counts per connection, made in the rollup's pass, equal numpy's."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.by_connection import SLICES
from fathometer.dataset.histogram import bucket_of
from fathometer.dataset.selection import ALL, Selection
from support.recordings import UNANSWERED, lognormal_ns, write


def opened(directory, rtt, connections, **more):
    write(
        directory / "r",
        rtt,
        interval_ns=1_000_000,
        columns={
            "connection": lambda seq: (seq % connections * 7).astype(np.uint32),
            **more.pop("columns", {}),
        },
        **more,
    )
    (recording,) = open_recordings([directory])
    return recording


@pytest.mark.parametrize("connections", [3, 5_000])
def test_counts_of_connections_equal_numpy(tmp_path, connections):
    """In several segments, with losses and warm-up; few connections by tables, many by sorting."""
    rtt = lognormal_ns(1, 30_000, sigma=0.5)
    rtt[::97] = UNANSWERED
    one = opened(tmp_path, np.split(rtt, 3), connections, warm_up=40).by_connection(ALL)
    seq = np.arange(len(rtt))
    counts = (seq >= 40) & (rtt >= 0)
    ids, place = np.unique(seq[counts] % connections * 7, return_inverse=True)
    values = rtt[counts]
    assert (one.ids == ids).all()
    assert (one.sizes() == np.bincount(place)).all()
    totals = np.zeros(len(ids), dtype=np.int64)
    np.add.at(totals, one.counted.stretch, one.counted.total_ns)
    assert (totals == [values[place == c].sum() for c in range(len(ids))]).all()
    assert one.medians() == pytest.approx(
        [np.quantile(values[place == c], 0.5, method="inverted_cdf") for c in range(len(ids))], rel=1e-3
    )
    length = (len(rtt) - 1) * 1_000_000 // SLICES + 1
    slices = seq[counts] * 1_000_000 // length
    levels = np.zeros((len(ids), SLICES), dtype=np.int64)
    np.add.at(levels, (place, slices), bucket_of(values))
    numbers = np.zeros_like(levels)
    np.add.at(numbers, (place, slices), 1)
    assert all((a == b).all() for a, b in zip(one.levels(), (numbers, levels), strict=True))


def test_parts_of_a_recording_are_counted_apart(tmp_path):
    sizes = {"size": lambda seq: np.where(seq % 5 < 2, 64, 1_000)}
    one = opened(tmp_path, lognormal_ns(2, 5_000), 2, columns=sizes)
    small, all_of_it = one.by_connection(Selection(size=64)), one.by_connection(ALL)
    assert small.sizes().sum() == 2_000
    assert all_of_it.sizes().sum() == 5_000
    assert len(one.by_connection(Selection(size=7)).ids) == 0
