"""Round trips of a few ns, as an import in a wrong unit has: a bucket of the rollup holds two of them."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathometer.dataset import open_recordings
from fathometer.dataset.histogram import bucket_of
from fathometer.dataset.rollup import SHIFT, Counted
from fathometer.findings.parts import to_blocks
from fathometer.findings.scenarios import scenarios
from support.recordings import write

LEVELS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@pytest.mark.parametrize("each", [20, 1_000])
def test_three_tied_values_are_quantiles_of_themselves(tmp_path, each):
    """Of 1, 2 and 3 ns the median was 2.5 ns, and so was the p95."""
    rtt = np.array([1, 2, 3] * each)
    write(tmp_path / "r", rtt, interval_ns=10_000_000)
    (path,) = scenarios(open_recordings([tmp_path]))
    shown = {name for name in LEVELS if path.figure(name).shown}
    assert shown == ({"p50", "p95"} if each == 20 else set(LEVELS))
    for name in shown:
        e = path.figure(name)
        assert e.value == np.quantile(rtt, LEVELS[name], method="inverted_cdf")
        assert e.interval is None or (e.interval.low, e.interval.high) == (e.value, e.value)


def test_of_three_values_no_quantile_is_shown(tmp_path):
    write(tmp_path / "r", np.array([1, 2, 3]), interval_ns=10_000_000)
    (path,) = scenarios(open_recordings([tmp_path]))
    assert not [name for name in LEVELS if path.figure(name).shown]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4_200), min_size=1, max_size=30), min_size=1, max_size=6))
def test_below_2048_ns_blocks_hold_the_values_themselves(blocks):
    rows = []
    for stretch, values in enumerate(blocks):
        coarse = bucket_of(values) >> SHIFT << SHIFT
        for bucket in np.unique(coarse):
            mine = np.array(values)[coarse == bucket]
            rows.append((stretch, bucket, len(mine), mine.sum()))
    counted = Counted(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))
    joined = to_blocks([counted], [np.arange(len(blocks), dtype=np.int64)])
    assert joined.sums.tolist() == [sum(values) for values in blocks]
    for row, values in zip(joined.counts, blocks, strict=True):
        assert row.sum() == len(values)
        held = SimpleNamespace(**{str(int(v)): int(n) for v, n in zip(joined.values, row, strict=True) if n})
        small = [v for v in values if v < 2_048]
        assert {v: getattr(held, str(v)) for v in set(small)} == {v: small.count(v) for v in set(small)}
