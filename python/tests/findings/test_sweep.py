"""A sweep of sizes is never pooled across them, and what happened to it is told once."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.regroup import envelope as envelope_of
from fathometer.findings import shifts
from fathometer.findings.analyse import analyse
from fathometer.report import envelopes
from support.recordings import START, UNANSWERED, lognormal_ns, write

SIZES = np.array([64, 1024, 4096], dtype=np.int64)


@pytest.fixture
def analysis(tmp_path):
    n = 3000
    size = np.tile(SIZES, n // 3)
    rtt = lognormal_ns(1, n) + size * 100
    rtt[::30] = UNANSWERED  # Only samples of 64 bytes.
    probe = {"mode": "tcp", "size": None, "interval_ns": 1_000_000_000}
    write(tmp_path / "sweep", rtt, label="sweep", size=size, manifest={"probe": probe}, ended=False)
    return analyse(open_recordings([tmp_path / "sweep"])), size, rtt


def test_each_size_has_its_own_figures(analysis):
    found, size, rtt = analysis
    assert sorted(s.key.size for s in found.scenarios) == SIZES.tolist()
    for scenario in found.scenarios:
        mine = rtt[size == scenario.key.size]
        answered = mine[mine != UNANSWERED]
        assert (scenario.sent, scenario.rtt.count) == (len(mine), len(answered))
        assert scenario.unanswered == len(mine) - len(answered)
        assert scenario.estimates["mean"].value == pytest.approx(answered.mean(), rel=1e-6)
        exact = np.quantile(answered, 0.5, method="inverted_cdf")
        assert scenario.estimates["p50"].value == pytest.approx(exact, rel=2e-3)


def test_the_fit_finds_the_cost_of_a_byte(analysis):
    found, _, _ = analysis
    assert found.sweep is not None
    assert found.sweep.lines[0].per_byte == pytest.approx(100, rel=0.1)


def test_figures_over_time_are_not_pooled(analysis):
    found, size, rtt = analysis
    shown = envelopes.answered(found.recordings)
    assert [part.selection.size for part in shown] == SIZES.tolist()
    for part in shown:
        mine = rtt[(size == part.selection.size) & (rtt != UNANSWERED)]
        envelope = envelope_of(part.recording.rollup, 600, part.selection)
        extremes = (np.nanmin(envelope.min_ns), np.nanmax(envelope.max_ns))
        assert extremes == pytest.approx((mine.min(), mine.max()), rel=envelope.error)
    for scenario in found.scenarios:
        (run,) = scenario.runs
        values, _ = shifts.series(run.recording, run.selection)
        mine = rtt[size == scenario.key.size].astype(float)
        assert np.array_equal(values, np.where(mine == UNANSWERED, np.nan, mine), equal_nan=True)


def test_mixed_sizes_give_no_end_segments(tmp_path):
    n = 3000
    probe = {"mode": "tcp", "size": None, "interval_ns": 1_000_000_000}
    closed = {"at_ns": START + n * 10**9, "connection": 0, "kind": "connection.closed", "cause": "reset"}
    closed |= {"age_ns": n * 10**9, "evidence": {"sent": n, "answered": n, "outstanding": 0}}
    size = np.tile(SIZES, n // 3)
    write(tmp_path / "s", lognormal_ns(1, n), size=size, manifest={"probe": probe}, events=[closed])
    found = analyse(open_recordings([tmp_path]))
    assert [f.kind for f in found.findings].count("death") == 1
    assert found.ends == ()


def test_recording_events_are_reported_once(analysis):
    found, _, _ = analysis
    assert [f.kind for f in found.findings].count("interrupted") == 1
