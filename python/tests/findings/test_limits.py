"""Searches for limits in a report: what they found is told; one that broke off is no empty recording."""

import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings import render
from fathometer.findings.analyse import analyse
from fathometer.report.write import as_text
from support.recordings import START, lognormal_ns, write

SECOND = 1_000_000_000


def end(seconds, key="idle_ns"):
    return {key: int(seconds * SECOND), "hits": 3, "of": 3, "share_95": [0.44, 1.0]}


def analysed(directory, result=None, mode="tcp-idle-limit"):
    events = [{"at_ns": START, "kind": "limits.began", "limit": "idle", "up_to_ns": 1, "connections": 3}]
    if result is not None:
        events.append({"at_ns": START + SECOND, "kind": "limits.ended", "result": result})
    probe = {"mode": mode, "size": None, "interval_ns": None}
    none = np.zeros(0, dtype=np.int64)
    write(directory / "search", none, label="there", events=events, manifest={"probe": probe})
    write(directory / "path", lognormal_ns(1, 2000), label="path")
    return analyse(open_recordings([directory]))


@pytest.mark.parametrize(
    ("result", "mode", "words"),
    [
        ({"verdict": "found", "survived": end(240), "died": end(244)}, "idle", "idle limit between"),
        ({"verdict": "found", "died": end(0.4)}, "idle", "idle limit below"),
        ({"verdict": "not_found", "survived": end(600)}, "idle", "no idle limit up to"),
        (
            {"verdict": "found", "survived": end(9, "age_ns"), "died": end(10, "age_ns")},
            "age",
            "age limit between",
        ),
        (None, "idle", "a search for the idle limit found nothing"),
        ({"verdict": "found", "survived": {"idle_ns": "long"}}, "idle", "found nothing"),
    ],
)
def test_what_a_search_found_is_a_finding(tmp_path, result, mode, words):
    analysis = analysed(tmp_path, result, f"tcp-{mode}-limit")
    (finding,) = [f for f in analysis.findings if "limit" in f.kind]
    assert words in render.statement(finding)
    ends = [
        name for name in ("survived", "died") if isinstance((result or {}).get(name, {}).get("hits"), int)
    ]
    assert [fact.code for fact in finding.facts] == [f"limit {name}" for name in ends]
    assert all("3 of 3 connections" in text for text in render.evidence(finding))
    assert not [f for f in analysis.findings if f.kind == "no samples"]
    assert words in as_text(analysis, "markdown")
