"""Throughput tests that ended otherwise than they should: what one end counted, and no more."""

import json

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report.write import as_text
from support.recordings import START, write

SECOND = 1_000_000_000
PROBE = {"mode": "tcp-throughput", "size": None, "interval_ns": None, "bitrate_bits_per_second": None}


def interval(connection, at, carried, way="sent", length=SECOND, **more):
    said = {"kind": "throughput.interval", "connection": connection, "way": way, "interval_ns": length}
    return {"at_ns": START + at * SECOND, **said, "bytes": carried, **more}


def told(finding):
    return " ".join(render.evidence(finding))


def analysed(directory, events, ended=False):
    none = np.zeros(0, dtype=np.int64)
    write(directory, none, label="bulk", events=events, manifest={"probe": PROBE}, ended=ended)
    return analyse(open_recordings([directory]))


def test_interrupted_test_uses_local_counts_after_warm_up(tmp_path):
    kernel = {"retransmits": 2, "cwnd_bytes": 50_000, "srtt_us": 300}
    events = [interval(c, 1, 10**9, omitted=True, retransmits=90) for c in (0, 1)]
    events += [interval(c, at, 10**6 * at, **kernel) for at in (2, 3) for c in (0, 1)]
    events += [interval(2, at, 4 * 10**6, "received") for at in (2, 3)]
    analysis = analysed(tmp_path / "r", events)
    (test,) = json.loads(as_text(analysis, "json"))["throughput"]
    there, back = test["ways"]
    assert there["received"] is None
    assert there["sent"] == {"bytes": 10**7, "duration_ns": 2 * SECOND, "bits_per_second": 4 * 10**7}
    assert [s["sent"]["bytes"] for s in there["streams"]] == [5 * 10**6] * 2
    assert there["retransmits"] == 8
    assert there["srtt_us"] == {"count": 4, "min": 300, "mean": 300, "max": 300}
    assert [s["bits_per_second"] for s in there["seconds"]] == [32 * 10**6, 48 * 10**6]
    assert back["sent"] is None
    assert back["received"]["bits_per_second"] == 32 * 10**6
    assert (back["retransmits"], back["cwnd_bytes"]) == (None, None)
    (finding,) = [f for f in analysis.findings if f.kind == "throughput"]
    assert (
        "40.0 Mbit/s from the probe (10.0 MB in 2.00 s on 2 streams, by the sender's count; 8 segments"
        in render.statement(finding)
    )
    assert "how many segments were sent again is not known" in render.statement(finding)
    assert finding.confidence == "medium"
    assert any("breaks off" in e for e in render.evidence(finding))
    assert "32.0 Mbit/s in the slowest second, 48.0 Mbit/s in the fastest" in told(finding)


@pytest.mark.parametrize("summary", [{}, {"ways": "none"}, {"ways": [{"way": "sideways"}]}])
def test_invalid_summary_is_ignored(tmp_path, summary):
    ended = {"at_ns": START + 3 * SECOND, "kind": "throughput.ended", "summary": summary}
    analysis = analysed(tmp_path / "r", [interval(0, 1, 10**6), ended])
    (test,) = json.loads(as_text(analysis, "json"))["throughput"]
    assert [way["sent"]["bytes"] for way in test["ways"]] == [10**6]


def test_partial_last_interval_is_not_a_second(tmp_path):
    events = [interval(0, 1, 10**6), interval(0, 2, 10**6), interval(0, 3, 10**6, length=SECOND // 50)]
    analysis = analysed(tmp_path / "r", events)
    (finding,) = [f for f in analysis.findings if f.kind == "throughput"]
    assert "8.00 Mbit/s in the slowest second, 8.00 Mbit/s in the fastest" in told(finding)


def test_throughput_summary_has_no_round_trips(tmp_path):
    text = as_text(analysed(tmp_path / "r", [interval(0, 1, 10**6)]), "markdown")
    short = text.split("## What happened")[0]
    assert "Throughput: **1 test** (of 1 path)" in short
    assert "nothing was sent" not in text
    assert "Answered" not in short


def test_what_streams_carried_in_unequal_stretches_is_conserved(tmp_path):
    """A sum of rates over unequal stretches told 0.26 % too much of a test on a busy machine."""
    lengths = [(SECOND, SECOND + 7_000_000), (SECOND, SECOND), (80_000_000, 2_000_000)]
    carried = [(6_250_000, 6_290_000), (6_250_000, 6_200_000), (500_000, 13_000)]
    events = [
        interval(c, at + 1, carried[at][c], length=lengths[at][c])
        for at in range(len(lengths))
        for c in (0, 1)
    ]
    (test,) = json.loads(as_text(analysed(tmp_path / "r", events), "json"))["throughput"]
    (way,) = test["ways"]
    told = [s["interval_ns"] * s["bits_per_second"] / 8e9 for s in way["seconds"]]
    assert told == pytest.approx([sum(pair) for pair in carried], rel=1e-6)
