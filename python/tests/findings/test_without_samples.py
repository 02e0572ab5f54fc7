"""Recordings and imports that hold no samples: what they are is said, nothing is made up, nothing breaks."""

import json

import numpy as np
import pytest

from fathometer.dataset import open_recordings, open_summaries
from fathometer.dataset.importers import File, Imported, Summary
from fathometer.dataset.write import write_imported
from fathometer.errors import FathometerError
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report.write import as_text
from support.recordings import lognormal_ns, write


def summarised(directory, **more):
    given = {"min": 50_000, "mean": 70_000, "p99": 90_000, "max": 120_000} | more.pop("statistics", {})
    one = Summary("run", "tcp", 1, 1_000, given, cannot=("no intervals: there are no samples",), **more)
    (made,) = write_imported(
        Imported("sometool", File(directory.parent / "x.txt").path, (), (one,)), directory
    )
    return made


def test_empty_throughput_test_is_reported_as_such(tmp_path):
    probe = {"mode": "tcp-throughput", "size": None, "interval_ns": None}
    none = np.zeros(0, dtype=np.int64)
    write(tmp_path / "t", none, label="bulk", manifest={"probe": probe})
    write(tmp_path / "p", lognormal_ns(1, 2000), label="path")
    analysis = analyse(open_recordings([tmp_path]))
    (finding,) = [f for f in analysis.findings if f.kind == "throughput"]
    assert render.statement(finding) == "bulk: throughput was to be measured, and nothing was counted"
    assert not [f for f in analysis.findings if f.kind == "no samples"]
    told = json.loads(as_text(analysis, "json"))
    by_name = {s["name"]: s for s in told["scenarios"]}
    assert (by_name["bulk"]["samples"], by_name["bulk"]["rtt_ns"]["p50"]["value"]) == (0, None)
    assert by_name["path"]["samples"] == 2000
    assert told["comparisons"] == []
    text = as_text(analysis, "markdown")
    assert "nothing was counted" in text
    assert "| bulk " not in text.split("## Findings about")[0]


def test_empty_recording_says_nothing_was_sent(tmp_path):
    write(tmp_path / "e", np.zeros(0, dtype=np.int64), label="empty")
    (finding,) = [f for f in analyse(open_recordings([tmp_path])).findings if f.kind == "no samples"]
    assert render.statement(finding) == "empty: nothing was sent; there is nothing to report"


def test_summary_states_its_limits_and_is_checked(tmp_path):
    summarised(tmp_path / "good")
    # A mean above the maximum: impossible, whoever printed it.
    summarised(tmp_path / "bad", statistics={"mean": 200_000})
    summaries = open_summaries([tmp_path])
    analysis = analyse([], summaries=summaries)
    assert [f.kind for f in analysis.findings] == ["summary", "summary"]
    assert all("no intervals: there are no samples" in render.evidence(f) for f in analysis.findings)
    wrong = [r for r in analysis.consistency if r.verdict == "impossible"]
    assert "mean between min and max" in {r.law for r in wrong}
    assert {r.row for r in wrong} == {"run (sometool)"}
    told = json.loads(as_text(analysis, "json"))
    assert [s["rtt_ns"]["mean"] for s in told["summaries"]] == [200_000, 70_000]
    assert told["summaries"][1]["rtt_ns"] == {"min": 50_000, "mean": 70_000, "p99": 90_000, "max": 120_000}
    text = as_text(analysis, "markdown")
    assert "2 summaries** (sometool)" in text
    assert "mean between min and max" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v | {"format": 2}, "newer fathometer"),
        (lambda v: {k: x for k, x in v.items() if k != "rtt_ns"}, "rtt_ns"),
        (lambda v: v | {"rtt_ns": {"count": None, "mean": "fast"}}, "rtt_ns"),
        (lambda _: [], "object"),
    ],
)
def test_invalid_summary_is_refused(tmp_path, change, message):
    path = summarised(tmp_path / "s") / "summary.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(FathometerError, match=message):
        open_summaries([tmp_path])
    refused = []
    assert open_summaries([tmp_path], on_error=refused.append) == ()
    assert len(refused) == 1
    path.write_text("{")
    with pytest.raises(FathometerError, match="no JSON"):
        open_summaries([tmp_path])


def test_summary_inside_recording_is_ignored(tmp_path):
    directory = write(tmp_path / "r", lognormal_ns(1, 10))
    (directory / "summary.json").write_text("{}")
    assert open_summaries([tmp_path]) == ()
