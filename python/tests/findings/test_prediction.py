"""How long a query would take over another path."""

import json

import fastjsonschema
import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.prediction import elsewhere, predict
from fathometer.report.databases_json import as_json
from fathometer.stats.results import Estimate, Interval
from support.queries import MS, recording, sure
from support.recordings import write
from support.report_schema import SCHEMA


def queries(root, turns, count=30, server_ms=4, rtt_ms=2, **more):
    """Of each the server's time and so many round trips, give or take a percent by chance."""
    rng = np.random.default_rng(turns)
    rows = [
        sure(int(server_ms * MS * f), int(turns * rtt_ms * MS), 0, turns=turns, rtt_ns=rtt_ms * MS)
        for f in np.exp(0.01 * rng.standard_normal(count))
    ]
    recording(root, rows, **more)


def known(root):
    (one,) = open_recordings([root])
    return one.queries


@pytest.mark.parametrize(
    ("turns", "at_ms", "once_ms"),
    [
        # 4 ms of the server, and round trips of 30 ms.
        (1, 34, None),
        (10, 304, 34),
    ],
)
def test_round_trips_cost_what_the_other_paths_are(tmp_path, turns, at_ms, once_ms):
    queries(tmp_path / "r", turns)
    rtt = Estimate(30 * MS, Interval(29 * MS, 31 * MS), 100, 20)
    told = predict([known(tmp_path / "r")], rtt)
    assert told.turns == turns
    assert told.ns == pytest.approx(at_ms * MS, rel=0.01)
    # A millisecond either way of each round trip; the server's own spread is hundredths of one.
    assert told.low_ns == pytest.approx((at_ms - turns) * MS, rel=0.01)
    assert told.high_ns == pytest.approx((at_ms + turns) * MS, rel=0.01)
    if once_ms is None:
        assert told.at_once_ns is None
    else:
        assert told.at_once_ns == pytest.approx(once_ms * MS, rel=0.01)


def test_without_round_trips_beside_it_nothing_is_predicted(tmp_path):
    recording(tmp_path / "r", [sure(1, 2, 3)] * 9)
    assert predict([known(tmp_path / "r")], Estimate(MS, None, 9, 0)) is None


def test_the_prediction_stands_beside_what_was_measured_there(tmp_path):
    queries(tmp_path / "near", 10, label="near:5432/shop")
    queries(tmp_path / "far", 10, rtt_ms=20, label="far:5432/shop", start_ns=10**18)
    write(tmp_path / "probe", np.full(300, 20 * MS), label="elsewhere", start_ns=2 * 10**18)
    analysis = analyse(open_recordings([tmp_path]))
    told = {(one.path, one.other): one for one in elsewhere(analysis.scenarios)}
    there = told["near:5432/shop", "elsewhere"]
    assert there.measured is None
    assert there.predicted.ns == pytest.approx(204 * MS, rel=0.01)
    assert told["near:5432/shop", "far:5432/shop"].measured.value == pytest.approx(204 * MS, rel=0.01)
    assert not any(one.path == "elsewhere" for one in told.values())
    value = json.loads(json.dumps(as_json(analysis)))
    schema = {**SCHEMA, "required": list(value), "properties": {n: SCHEMA["properties"][n] for n in value}}
    fastjsonschema.compile(schema)(value)
    row = next(r for r in value["database_predictions"] if r["over"] == "elsewhere")
    assert row["at_once_ns"] == pytest.approx(24 * MS, rel=0.01)
