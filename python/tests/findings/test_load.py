"""Idle and loaded samples of one recording: two scenarios, never pooled, and by how much load slows."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support.recordings import START, UNANSWERED, lognormal_ns, write

SECOND = 1_000_000_000
UNDER_LOAD, WARM_UP = 64, 2
PHASE = 250
"""Samples of a phase."""
N = 20_000


def phases(seq):
    """Every second phase is loaded; its first ten samples, while the load comes, are of no figure."""
    loaded = (seq // PHASE) % 2 == 1
    return np.where(loaded, UNDER_LOAD, 0) | np.where(loaded & (seq % PHASE < 10), WARM_UP, 0)


def recorded(directory, growth, flags=phases, **more):
    flagged = flags(np.arange(N))
    loaded = flagged & UNDER_LOAD != 0
    rtt = lognormal_ns(7, N, sigma=0.1)
    rtt = np.where(loaded, rtt * growth, rtt).astype(np.int64)
    rtt[::400] = UNANSWERED
    load = {"duration_ns": 25 * SECOND, "sent_bytes": 10**9, "echoed_bytes": 10**9}
    load |= {"sent_bits_per_s": 200_000_000, "echoed_bits_per_s": 180_000_000}
    ended = [{"at_ns": START + 50 * SECOND, "kind": "load.ended", **load}]
    write(
        directory, rtt, label="path", interval_ns=SECOND // 10, columns={"flags": flags}, events=ended, **more
    )
    return rtt, flagged


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    directory = tmp_path_factory.mktemp("load") / "both"
    rtt, flags = recorded(directory, 3)
    return analyse(open_recordings([directory])), rtt, flags


def test_idle_and_loaded_samples_are_separate_scenarios(told):
    analysis, rtt, flags = told
    assert {s.name for s in analysis.scenarios} == {"path", "path under load"}
    for scenario in analysis.scenarios:
        mine = (flags & UNDER_LOAD != 0) == scenario.key.under_load
        mine &= flags & WARM_UP == 0
        answered = rtt[mine & (rtt != UNANSWERED)]
        assert (scenario.sent, scenario.rtt.count) == (mine.sum(), answered.size)
        assert scenario.unanswered == (mine & (rtt == UNANSWERED)).sum()
        assert (scenario.rtt.min_ns, scenario.rtt.max_ns) == (answered.min(), answered.max())
        assert scenario.estimates["mean"].value == pytest.approx(answered.mean(), rel=1e-9)
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            exact = np.quantile(answered, q, method="inverted_cdf")
            assert scenario.estimates[name].value == pytest.approx(exact, rel=1e-3)
    assert sum(s.sent for s in analysis.scenarios) == (flags & WARM_UP == 0).sum()


def test_no_histogram_of_a_run_holds_both(told):
    analysis, rtt, flags = told
    idle = rtt[(flags == 0) & (rtt != UNANSWERED)]
    loaded = rtt[(flags == UNDER_LOAD) & (rtt != UNANSWERED)]
    assert idle.max() < loaded.min()  # So a pooled figure would show.
    for scenario in analysis.scenarios:
        mine = loaded if scenario.key.under_load else idle
        extremes = (mine.min(), mine.max())
        assert extremes[0] * 0.999 <= scenario.blocks.values.min()
        assert scenario.blocks.values.max() <= extremes[1] * 1.001
        assert scenario.first is None


def test_load_slowdown_shows_interval_and_load(told):
    analysis, _, _ = told
    (finding,) = [f for f in analysis.findings if f.kind == "under load"]
    assert finding.scenario == "path"
    assert "queues on the path fill" in render.statement(finding)
    (versus,) = analysis.comparisons
    assert (versus.a, versus.b) == ("path", "path under load")
    for metric in ("p50", "p99"):
        difference = versus.of(metric)
        assert difference.verdict == "slower"
        assert difference.ratio_interval.low < 3 < difference.ratio_interval.high
        assert (
            f"{difference.ratio_interval.low:#.3g} to {difference.ratio_interval.high:#.3g}"
            in render.statement(finding)
        )
    assert any("200 Mbit/s sent and 180 Mbit/s came back" in e for e in render.evidence(finding))
    (advice,) = [a for a in analysis.advice if a.topic == "under load"]
    assert f"p99 is {versus.of('p99').ratio:#.3g} times as long" in render.advice(advice)
    # What a path is fit for is said of the idle one only.
    assert [a.paths for a in analysis.advice if a.topic == "placement"] == [("path",)]


def test_harmless_load_is_no_slowdown(tmp_path):
    recorded(tmp_path / "calm", 1)
    analysis = analyse(open_recordings([tmp_path]))
    (finding,) = [f for f in analysis.findings if f.kind == "under load"]
    assert "no difference that matters" in render.statement(finding)
    assert "queues" not in render.statement(finding)
    assert not [a for a in analysis.advice if a.topic == "under load"]


def test_fully_loaded_recording_stays_apart_from_idle(tmp_path):
    recorded(tmp_path / "idle", 1, lambda seq: seq * 0)
    recorded(tmp_path / "loaded", 2, lambda seq: seq * 0 + UNDER_LOAD, start_ns=START + 10**15)
    analysis = analyse(open_recordings([tmp_path]))
    assert {s.name: len(s.runs) for s in analysis.scenarios} == {"path": 1, "path under load": 1}
    assert [f.kind for f in analysis.findings].count("under load") == 1


def test_death_is_reported_once_for_idle_scenario(tmp_path):
    closed = {
        "at_ns": START + N * SECOND // 10,
        "connection": 0,
        "kind": "connection.closed",
        "cause": "reset",
    }
    closed |= {"age_ns": N * SECOND // 10, "evidence": {"sent": N, "answered": N, "outstanding": 0}}
    rtt = lognormal_ns(7, N)
    write(tmp_path / "r", rtt, interval_ns=SECOND // 10, columns={"flags": phases}, events=[closed])
    analysis = analyse(open_recordings([tmp_path]))
    assert [f.scenario for f in analysis.findings if f.kind == "death"] == ["path"]
    # Its last hundreds would be idle and loaded ones mixed.
    assert analysis.ends == ()
