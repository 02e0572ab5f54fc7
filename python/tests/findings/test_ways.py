"""Connections of a run over ways of unequal length: the slower ones, the advice, and the comparison of two
such runs of one path.
"""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report.templates import _quiet
from support.command_line import run as fathometer
from support.ends import opened
from support.recordings import START, lognormal_ns, write

LONGER = 2_600_000
EVERY = 5_000_000


def recorded(
    directory, label, slow, *, connections=8, each=400, seed=1, start=START, remote="192.0.2.7:7", of=None
):
    """Connections in turn; those in `slow` take the longer way all run long. `of`: the connection of each
    sample.
    """
    of = of or (lambda seq: seq % connections)
    seq = np.arange(connections * each)
    rtt = lognormal_ns(seed, len(seq), 100) + LONGER * np.isin(of(seq), slow)
    events = [{**opened(c, start + c), "remote": remote} for c in range(connections)]
    columns = {"connection": lambda seq: of(seq).astype(np.uint32)}
    write(
        directory / label, rtt, label=label, interval_ns=EVERY, start_ns=start, columns=columns, events=events
    )


def differ(analysis):
    return [f for f in analysis.findings if f.kind == "connections differ"]


def ways(analysis):
    return [a for a in analysis.advice if a.topic == "ways"]


def test_slower_connections_are_named(tmp_path):
    recorded(tmp_path, "path", [1, 4, 6])
    analysis = analyse(open_recordings([tmp_path]))
    (finding,) = differ(analysis)
    assert [p.connection for p in finding.where] == [1, 4, 6]
    assert finding.quantities["gap"].value == pytest.approx(LONGER, rel=0.01)
    told = render.statement(finding)
    assert "3 of 8 connections are 2.60 ms slower than the others all run long" in told
    assert told.endswith("1, 4 and 6")
    assert any("1 (port 40001), 4 (port 40004) and 6 (port 40006)" in e for e in render.evidence(finding))
    assert "3 of 8 connections" in _quiet(analysis)
    (advice,) = ways(analysis)
    assert advice.evidence == (finding.id,)
    assert "equal cost (ECMP)" in render.advice(advice)


def test_differences_on_loopback_bring_no_advice(tmp_path):
    recorded(tmp_path, "path", [2], remote="127.0.0.1:7")
    analysis = analyse(open_recordings([tmp_path]))
    assert len(differ(analysis)) == 1
    assert ways(analysis) == []


def test_runs_over_other_ways_do_not_differ(tmp_path):
    """One run was called slower by 2.60 ms, 46.9 times as long."""
    recorded(tmp_path, "run1", [1, 4, 6])
    recorded(tmp_path, "run2", [0, 2, 3, 5, 7], seed=2, start=START + 3_600_000_000_000)
    analysis = analyse(open_recordings([tmp_path]))
    (versus,) = analysis.comparisons
    for difference in versus.differences:
        assert difference.verdict == "no difference shown"
        assert difference.basis == "connections"
        assert difference.units == (8, 8)
    assert versus.of("mean").difference_interval.low < 0 < versus.of("mean").difference_interval.high
    for scenario in analysis.scenarios:
        mean = scenario.figure("mean").interval
        assert mean.high - mean.low > 1_000_000


def test_other_path_far_away_still_differs(tmp_path):
    recorded(tmp_path, "near", [1, 4, 6])
    write(tmp_path / "far", lognormal_ns(3, 3_200, 20_000), label="far", interval_ns=EVERY)
    (versus,) = analyse(open_recordings([tmp_path])).comparisons
    assert {d.verdict for d in versus.differences} == {"slower"}


def test_reconnections_on_one_path_change_nothing(tmp_path):
    """A connection that died eight times, each time after some minutes."""
    recorded(tmp_path, "path", [], of=lambda seq: seq // 400)
    again, one = tmp_path / "path", tmp_path / "one"
    recorded(one, "path", [], of=lambda seq: seq * 0)
    (many,), (single,) = (analyse(open_recordings([d])).scenarios for d in (again, one / "path"))
    assert many.units is None
    assert many.estimates == single.estimates


def test_alike_connections_are_no_finding(tmp_path):
    recorded(tmp_path, "path", [])
    analysis = analyse(open_recordings([tmp_path]))
    assert differ(analysis) == []
    assert analysis.scenarios[0].units is None


def test_recordings_of_one_path_share_a_finding(tmp_path):
    for n, slow in enumerate(([1], [2, 3])):
        recorded(tmp_path / str(n), "path", slow, seed=n, start=START + n * 3_600_000_000_000)
    analysis = analyse(open_recordings([tmp_path]))
    assert analysis.scenarios[0].units.number == 16
    (finding,) = differ(analysis)
    assert "2 of 2 recordings" in render.statement(finding)


def test_compare_tells_which_connections_are_slower(tmp_path):
    recorded(tmp_path, "run1", [1, 4, 6])
    recorded(tmp_path, "run2", [0, 2], seed=2, start=START + 3_600_000_000_000)
    told = fathometer("compare", tmp_path / "run1", tmp_path / "run2")
    assert "no difference shown" in told.stdout
    assert "by 8 and 8 connections" in told.stdout
    assert "run1: 3 of 8 connections" in told.stdout
    assert "run2: 2 of 8 connections" in told.stdout
