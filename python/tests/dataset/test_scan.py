"""The local scan against counting one by one, whatever the order and the cut of the rows."""

import itertools
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathometer.dataset import batches, open_recording, scan
from fathometer.dataset.format import Flags
from fathometer.dataset.histogram import bucket_low
from fathometer.dataset.rollup import LOST, SHIFT, wide
from fathometer.dataset.selection import SILENCE
from fathometer.dataset.source import opened
from fathometer.dataset.steps import LADDER, MOST, step_of
from fathometer.errors import FathometerError
from support.random_recordings import random_recording
from support.recordings import START, UNANSWERED, write
from support.recordings import bucket as bucket_by_hand

SEEDS = range(14)


def rows_of(recording):
    """Every sample as a dictionary, by pyarrow alone."""
    source = recording.source
    tables = [] if source.open is None else [source.open]
    for segment in source.closed:
        with opened(segment) as file:
            tables.append(pq.read_table(file))
    return [row for table in tables for row in table.to_pylist()]


def one_by_one(recording):
    """The rollup by a loop: key and cell -> (number, sum)."""
    rollup = recording.rollup
    cells = defaultdict(lambda: [0, 0])
    for row in rows_of(recording):
        flags = Flags(row["flags"])
        key = (
            row["size"],
            Flags.UNDER_LOAD in flags,
            row.get(SILENCE, 0),
            Flags.WARM_UP in flags,
        )
        answered = row["rtt_ns"] is not None
        bucket = int(bucket_by_hand(row["rtt_ns"])) >> SHIFT << SHIFT if answered else LOST
        cell = cells[(*key, row["sent_ns"] // rollup.step_ns, bucket)]
        cell[0] += 1
        cell[1] += row["rtt_ns"] or 0
    return {k: tuple(v) for k, v in cells.items()}


def told(rollup):
    return {
        (*path.key, step, bucket): (number, total)
        for path, cells in zip(rollup.paths, rollup.cells, strict=True)
        for step, bucket, number, total in zip(*(c.tolist() for c in cells), strict=True)
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_rollup_cells_match_naive_count(tmp_path, monkeypatch, seed):
    recording = open_recording(random_recording(tmp_path / "r", seed))
    expected = one_by_one(recording)
    assert told(recording.rollup) == expected
    # Batches so small that every segment has many, joined many times.
    monkeypatch.setattr(batches, "ROWS", 37)
    assert told(open_recording(tmp_path / "r").rollup) == expected
    # No table is dense enough: everything is sorted.
    monkeypatch.setattr(scan, "_DENSE", 0)
    assert told(open_recording(tmp_path / "r").rollup) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_samples_and_sums_are_conserved(tmp_path, seed):
    """The law: sent = answered + unanswered + corrupt, in each path and over all."""
    recording = open_recording(random_recording(tmp_path / "r", seed))
    rows, totals = rows_of(recording), recording.totals
    assert totals.samples == len(rows) == recording.rows
    assert totals.samples == totals.answered + totals.unanswered + totals.corrupted
    assert totals.samples == totals.answered + totals.lost
    for path, cells in zip(recording.rollup.paths, recording.rollup.cells, strict=True):
        lost = cells.bucket == LOST
        assert int(cells.number[~lost].sum()) == path.answered
        assert int(cells.number[lost].sum()) == path.samples - path.answered
        assert (cells.total_ns[lost] == 0).all()
        # A mean lies in its bucket.
        low = bucket_low(cells.bucket[~lost])
        high = bucket_low(cells.bucket[~lost] + (1 << SHIFT))
        mean = cells.total_ns[~lost] / cells.number[~lost]
        assert ((low <= mean) & (mean < high)).all()
        sent = recording.rollup.step_ns * wide(cells.step)
        assert sent.min() <= path.first_sent_ns <= path.last_sent_ns < sent.max() + recording.rollup.step_ns
    known = [r["rtt_ns"] for r in rows if r["rtt_ns"] is not None and not r["flags"] & Flags.WARM_UP]
    histogram = recording.rollup.histogram()
    assert (histogram.count, histogram.sum_ns) == (len(known), sum(known))
    assert (histogram.min_ns, histogram.max_ns) == ((min(known), max(known)) if known else (None, None))


def test_steps_nest_and_are_few():
    assert all(b % a == 0 for a, b in itertools.pairwise(LADDER))
    quarter = 900 * 10**9
    assert all(quarter % s == 0 for s in LADDER if s <= quarter)
    rng = np.random.default_rng(1)
    for length in (10.0 ** rng.uniform(0, 17, 500)).astype(np.int64).tolist():
        first = START + int(rng.integers(0, 10**12))
        step = step_of(first, first + length)
        assert (first + length) // step - first // step < MOST
        finer = [s for s in LADDER if s < step]
        assert not finer or (first + length) // finer[-1] - first // finer[-1] >= MOST


def test_hour_at_one_hertz_has_one_second_steps():
    assert step_of(START, START + 3_599 * 10**9) == 10**9


def test_rounded_rtts_keep_exact_quantiles(tmp_path):
    """Four fifths 1 ms and one fifth 2 ms: a bucket's middle would be 1.000 ms and something."""
    rtt = np.where(np.arange(20_000) % 5, 1_000_000, 2_000_000)
    recording = open_recording(write(tmp_path / "r", rtt))
    assert recording.rollup.histogram().quantile(0.5).value_ns == 1_000_000
    assert recording.rollup.histogram().quantile(0.9).value_ns == 2_000_000


BAD = {
    "before 1970 or after 2100": {"sent_ns": lambda seq: np.where(seq == 5, 1 << 62, START + seq)},
    "more than ten years apart": {"sent_ns": lambda seq: np.where(seq == 5, 1, START + seq)},
    "negative or longer than a hundred days": {
        "rtt_ns": lambda seq: np.where(seq == 5, 1 << 62, 1000),
        "rtt_bucket": lambda seq: np.full(len(seq), 1000),
    },
    "is not that of its rtt_ns": {"rtt_bucket": lambda seq: np.full(len(seq), 77)},
}


@pytest.mark.parametrize("why", BAD)
def test_impossible_values_are_one_line_error(tmp_path, why):
    write(tmp_path / "r", np.full(10, 1000), columns=BAD[why])
    with pytest.raises(FathometerError, match=why) as refused:
        open_recording(tmp_path / "r").rollup  # noqa: B018
    assert "\n" not in str(refused.value)


def test_rtt_beyond_last_bucket_sums_exactly(tmp_path):
    rtt = np.array([1 << 43, (1 << 43) + 1, (1 << 44) + 3, UNANSWERED, 7], dtype=np.int64)
    bucket = pa.array([65_535, 65_535, 65_535, 0, 7], mask=rtt < 0)
    recording = open_recording(write(tmp_path / "r", rtt, columns={"rtt_bucket": lambda _: bucket}))
    assert recording.rollup.histogram().sum_ns == int(rtt[rtt > 0].sum())
