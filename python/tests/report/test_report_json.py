"""The JSON: its schema, and its numbers against numpy on the samples that went in."""

import copy
import json

import fastjsonschema
import numpy as np
import pytest

from support.recordings import iso
from support.report_schema import keeps_to_schema


@pytest.fixture
def told(report):
    return json.loads(report.machine.read_text())


def test_json_matches_strict_schema(told):
    keeps_to_schema(told, strictly=False)
    keeps_to_schema(told)
    for part in ("scenarios", "comparisons", "changes", "ends", "findings", "advice", "consistency"):
        assert told[part], f"the story has {part}, or the schema is not tried"


@pytest.mark.parametrize(
    "where", ["scenarios", "comparisons", "changes", "findings", "advice", "consistency"]
)
def test_the_schema_refuses_what_lacks_a_field(told, where):
    for field in list(told[where][0]):
        broken = copy.deepcopy(told)
        del broken[where][0][field]
        if (where, field) in {("changes", "recording"), ("changes", "scenario")}:
            continue  # `fathom changes` has none.
        with pytest.raises(fastjsonschema.JsonSchemaException):
            keeps_to_schema(broken, strictly=False)


def test_json_has_the_promised_fields(told):
    promised = {
        "comparisons": {"a", "b", "metric", "ratio", "low", "high", "verdict"},
        "changes": {"index", "at", "kind", "before_ns", "after_ns", "confidence"},
        "findings": {"kind", "at", "statement", "evidence", "confidence"},
        "consistency": {"row", "law", "verdict", "explanation"},
    }
    assert told["format"] == 1
    for part, fields in promised.items():
        assert fields <= set(told[part][0])


def test_json_figures_match_numpy(report, told):
    for label, rtt in report.sent.items():
        (s,) = [s for s in told["scenarios"] if s["label"] == label]
        known = rtt[10:]  # Warm-up is recorded and not counted.
        known = known[known >= 0]
        assert (s["samples"], s["answered"], s["unanswered"]) == (len(rtt) - 10, len(known), 6)
        figures = s["rtt_ns"]
        assert (figures["min"], figures["max"]) == (known.min(), known.max())
        assert figures["stddev"] == pytest.approx(known.std(ddof=1), rel=1e-3)
        # Exact sums, but quantiles by the middles of buckets of a thousandth.
        assert figures["mean"]["value"] == pytest.approx(known.mean(), rel=1e-3)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            if name == "p99" and figures[name]["value"] is None:
                assert figures[name]["doubt_code"] in {"unsupported", "correlated-unsupported"}
                continue
            assert figures[name]["value"] == pytest.approx(np.quantile(known, share), rel=5e-3)
            assert figures[name]["low"] < figures[name]["value"] < figures[name]["high"]


def test_json_ratios_match_its_figures(report, told):
    for c in told["comparisons"]:
        a, b = (report.sent[c[side]][10:] for side in "ab")
        both = (a >= 0) & (b >= 0)
        of = {"mean": np.mean, "p50": np.median}.get(c["metric"])
        if of:
            assert c["ratio"] == pytest.approx(of(b[both]) / of(a[both]), rel=5e-3)
            assert c["low"] <= c["ratio"] <= c["high"]
    verdicts = {(c["a"], c["b"]): c["verdict"] for c in told["comparisons"] if c["metric"] == "p50"}
    assert verdicts["same-zone", "cross-zone"] == "slower"


def test_json_changes_are_where_made(report, told):
    levels = [c for c in told["changes"] if c["kind"] == "level"]
    assert len(levels) == 3
    for c in levels:
        rtt = report.sent[c["scenario"]]
        halves = [np.median(half[half >= 0]) for half in (rtt[:4000], rtt[4000:])]
        assert abs(c["index"] + 10 - 4000) <= 60  # The array begins after the warm-up.
        assert c["before_ns"] == pytest.approx(halves[0], rel=0.01)
        assert c["after_ns"] == pytest.approx(halves[1], rel=0.01)


def test_json_moments_are_exact(told):
    closed = 1_742_428_800_000_000_000 + 5_999 * 10**9
    assert {e["at"] for e in told["ends"]} == {iso(closed)}
