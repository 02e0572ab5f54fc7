"""The article's run, simulated by the fabric in virtual time, and what we make of it.

The simulation knows what it did (scenarios/azure-eleven-hours.toml, truth.jsonl); every number here is
computed again from the raw samples with numpy.
"""

import json
import subprocess
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from support.programs import ROOT, fathom


# The article has a sample a second.
@pytest.fixture(scope="module", params=["3s", pytest.param("1s", marks=pytest.mark.acceptance)])
def eleven(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("eleven") / "run"
    scenario = ROOT / "scenarios" / "azure-eleven-hours.toml"
    command = [fathom(), "fabric", "simulate", scenario, "--every", request.param, "--record", directory]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return directory


@pytest.fixture(scope="module")
def analysis(eleven):
    return analyse(open_recordings([eleven]))


def raw(directory, label):
    """The round trips and times of a recording's first connection, straight from Parquet."""
    tables = [pq.read_table(f) for f in sorted((directory / label).glob("samples-*.parquet"))]
    connection, seq, sent, rtt = (
        np.concatenate([t.column(c).to_numpy(zero_copy_only=False).astype(float) for t in tables])
        for c in ("connection", "seq", "sent_ns", "rtt_ns")
    )
    order = np.lexsort((seq, connection))
    return connection[order], sent[order], rtt[order]


def test_figures_are_those_of_the_raw_samples(eleven, analysis):
    assert {s.name for s in analysis.scenarios} == {"same-zone", "cross-zone", "cross-region"}
    for scenario in analysis.scenarios:
        _, _, rtt = raw(eleven, scenario.name)
        answered = rtt[~np.isnan(rtt)]
        assert scenario.rtt.count == len(answered)
        assert scenario.unanswered == int(np.isnan(rtt).sum())
        assert scenario.estimates["mean"].value == pytest.approx(answered.mean(), rel=1e-6)
        assert (scenario.rtt.min_ns, scenario.rtt.max_ns) == (answered.min(), answered.max())
        for name, p in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)):
            exact = np.quantile(answered, p, method="inverted_cdf")
            assert scenario.estimates[name].value == pytest.approx(exact, rel=2e-3), name


def test_ratios_and_their_order(eleven, analysis):
    assert [s.name for s in analysis.scenarios] == ["same-zone", "cross-zone", "cross-region"]
    means = {s.name: np.nanmean(raw(eleven, s.name)[2]) for s in analysis.scenarios}
    for versus in analysis.comparisons:
        mean = versus.of("mean")
        assert mean.ratio == pytest.approx(means[versus.b] / means[versus.a], rel=0.02)
        assert versus.of("p50").verdict == "slower"
        assert mean.ratio in mean.ratio_interval


def test_the_articles_table_is_rebuilt(eleven, analysis):
    """The last five hundreds before each death, as numpy has them: means and changes."""
    first = {e.scenario: e for e in analysis.ends if e.connection == 0}
    assert set(first) == {"same-zone", "cross-zone", "cross-region"}
    for name, ended in first.items():
        connection, _, rtt = raw(eleven, name)
        last = rtt[connection == 0][-500:]
        means = [np.nanmean(part) for part in np.split(last, 5)]
        # Stretches without any answer cannot be a segment; the report then goes further back.
        if not np.isnan(rtt[connection == 0][-500:]).any():
            assert [s.mean for s in ended.ending.segments] == pytest.approx(means)
            changes = [b / a - 1 for a, b in pairwise(means)]
            assert [s.change for s in ended.ending.segments[1:]] == pytest.approx(changes)
        assert ended.ending.p_value is not None
        assert ended.ending.placebos > 100


def test_every_death_is_a_finding(analysis):
    told = [f for f in analysis.findings if f.kind == "death"]
    assert {f.scenario for f in told} == {"same-zone", "cross-zone", "cross-region"}
    for finding in told:
        assert render.evidence(finding)


def test_deaths_within_seconds_are_one_event(eleven, analysis):
    closed = {}
    for directory in (d for d in eleven.iterdir() if d.is_dir()):
        for line in map(json.loads, (directory / "events.jsonl").read_text().splitlines()):
            if line["kind"] == "connection.closed" and line["cause"] not in {"finished", "refreshed"}:
                closed[directory.name] = line["age_ns"]
    # The article's ages: 11.25 to 11.55 h, by count and cadence.
    assert sorted(closed) == ["cross-region", "cross-zone", "same-zone"]
    assert all(11.2 < age / 3.6e12 < 11.6 for age in closed.values())
    (together,) = [f for f in analysis.findings if f.kind == "coincidence"]
    assert set(together.paths) == {"cross-zone", "cross-region"}
    # Two things happened, and two always agree in something: nothing is said of an age limit.
    assert not [f for f in analysis.findings if f.kind == "ages"]


def test_each_migration_that_was_played_is_one_incident(analysis):
    """The server's was told as three: what could not be sent after it, to the end of the run, had entries of
    its own, dated to that end.
    """
    # What took connections, or kept samples from being sent, is one of the two standstills played.
    costly = [i for i in analysis.incidents if i.toll.connections or i.toll.unsent]
    assert [(i.kind, i.paths) for i in costly] == [
        ("pause then loss", ("same-zone",)),
        ("migration", ("cross-region", "cross-zone")),
    ]
    for incident in costly:
        for path in incident.paths:
            (recording,) = [r for r in analysis.recordings if r.label == path]
            due = [f.quantities["samples"].value for f in incident.parts if f.kind == "schedule.overrun"]
            # It is not connected again, and so nothing is due after its end.
            assert (recording.unsent, due) == (0, [])
    assert sum(i.toll.unsent for i in costly) == sum(r.unsent for r in analysis.recordings)


def test_our_own_tables_obey_the_laws(analysis):
    assert [r for r in analysis.consistency if r.verdict == "impossible"] == []
