"""How long a query would take over another path."""

import json

import fastjsonschema
import numpy as np
import pytest

from fathometer.dataset import open_recordings
from fathometer.findings.analyse import analyse
from fathometer.findings.prediction import elsewhere, predict
from fathometer.report.databases_json import as_json
from fathometer.report.sections import databases_elsewhere
from fathometer.stats.results import Estimate, Interval
from support.queries import MS, recording, sure
from support.recordings import write
from support.report_schema import SCHEMA


def queries(root, turns, count=30, server_ms=4, rtt_ms=2, **more):
    """Of each the server's time and so many round trips, give or take a percent by chance."""
    rng = np.random.default_rng(turns)
    rows = [
        sure(
            int(server_ms * MS * f),
            int(turns * rtt_ms * MS),
            0,
            turns=turns,
            rtt_ns=rtt_ms * MS,
            segments_received=turns,
            bytes_received=100 * turns,
        )
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
        # At once ten segments: the first window takes them.
        (10, 304, 34),
    ],
)
def test_round_trips_cost_what_the_other_paths_are(tmp_path, turns, at_ms, once_ms):
    queries(tmp_path / "r", turns)
    rtt = Estimate(30 * MS, Interval(29 * MS, 31 * MS), 100, 20)
    told = predict([known(tmp_path / "r")], rtt)
    assert told.turns == turns
    assert told.ns == pytest.approx(at_ms * MS, rel=0.01)
    # A millisecond either way of each round trip, and a tenth for wake-ups; the server's own spread is
    # hundredths of one.
    assert told.low_ns == pytest.approx((at_ms - 1.1 * turns) * MS, rel=0.01)
    assert told.high_ns == pytest.approx((at_ms + 1.1 * turns) * MS, rel=0.01)
    if once_ms is None:
        assert told.at_once_ns is None
    else:
        assert told.at_once_ns == pytest.approx(once_ms * MS, rel=0.01)


FAR = Estimate(80 * MS, Interval(79.9 * MS, 80.1 * MS), 100, 20)


def long_answers(
    root, *, rtt_ms=0.5, transfer_ms=2.0, segments=1_400, pause_ms=0, every_ms=None, path_ms=0.0
):
    """Each a round trip, a millisecond of the server, and rows that come for so long; told in ns."""
    started, rows = 10**18, []
    rng = np.random.default_rng(segments)
    for factor in np.exp(0.01 * rng.standard_normal(30)):
        wall = int((rtt_ms + 1 + transfer_ms * factor) * MS)
        paths = int((rtt_ms + path_ms) * MS)
        row = sure(wall - paths, paths, 0, turns=1, rtt_ns=int(rtt_ms * MS), started_ns=started)
        row |= {"first_row_ns": int((rtt_ms + 1) * MS), "transfer_ns": wall - int((rtt_ms + 1) * MS)}
        rows.append(row | {"segments_received": segments, "bytes_received": segments * 1_448})
        started += max(wall + pause_ms * MS, 0 if every_ms is None else every_ms * MS)
    recording(root, rows, every_ns=None if every_ms is None else every_ms * MS)
    return predict([known(root)], FAR)


def test_long_answer_interval_covers_both_senders(tmp_path):
    told = long_answers(tmp_path / "r")
    # At once, or spread over R / (g - 1) of a round trip R by a sender that paces with a gain of 2 / ln 2.
    at_once, paced = 80 + 1 + 2, 80 + 1 + 80 / (2 / np.log(2) - 1)
    assert told.ns == pytest.approx(at_once * MS, rel=0.01)
    assert told.low_ns < at_once * MS
    assert told.high_ns > paced * MS
    short = long_answers(tmp_path / "short", segments=2, transfer_ms=0.1)
    assert short.ns == pytest.approx(81.1 * MS, rel=0.01)
    assert short.high_ns - short.low_ns < 2 * MS


def test_idle_pause_adds_window_regrowth(tmp_path):
    back_to_back, rested = (long_answers(tmp_path / f"p{n}", pause_ms=n) for n in (0, 5_000))
    # 10, 20, …, 1,280 segments: seven round trips more until 1,400 are sent.
    windowed = 80 * 8 + 1
    assert rested.ns == pytest.approx(windowed * MS, rel=0.02)
    assert rested.low_ns == pytest.approx(back_to_back.low_ns, rel=0.01)
    assert rested.high_ns > windowed * MS > back_to_back.high_ns


def test_a_schedule_rests_less_where_queries_take_longer(tmp_path):
    # 250 ms between begins: 246 of rest here, more than a timeout; 166 over the other path.
    kept = long_answers(tmp_path / "r", every_ms=250)
    assert kept.high_ns == pytest.approx(long_answers(tmp_path / "b").high_ns, rel=0.01)


def test_answers_that_came_too_fast_were_not_paced(tmp_path):
    # Of 40 ms of round trip a paced sender takes 21 for so many segments.
    fast, slow = (long_answers(tmp_path / f"t{ms}", rtt_ms=40, transfer_ms=ms) for ms in (4, 22))
    assert fast.ns == pytest.approx((80 + 1 + 4) * MS, rel=0.01)
    assert fast.high_ns < (80 + 1 + 40) * MS < slow.high_ns


def test_transfer_time_may_reflect_pacing(tmp_path):
    told = long_answers(tmp_path / "r", rtt_ms=160, transfer_ms=85, path_ms=80)
    # With open windows it is what the path carries; a paced sender's 85 ms of 160 are 42 of 80.
    assert told.ns == pytest.approx((81 + 85) * MS, rel=0.02)
    assert told.low_ns < 87 * MS < (81 + 42.4) * MS < told.high_ns


def test_uncounted_answer_has_no_interval(tmp_path):
    told = long_answers(tmp_path / "r", segments=0)
    assert told.ns == pytest.approx(83 * MS, rel=0.01)
    assert told.low_ns is None
    assert told.high_ns is None


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


def test_concurrent_connections_are_not_predicted(tmp_path):
    for name, number in (("one", 1), ("two", 2)):
        queries(tmp_path / name, 10, label=f"{name}:5432/shop", connections=number, start_ns=number * 10**18)
    analysis = analyse(open_recordings([tmp_path]))
    assert {one.path for one in elsewhere(analysis.scenarios)} == {"one:5432/shop"}
    value = json.loads(json.dumps(as_json(analysis)))
    schema = {**SCHEMA, "required": list(value), "properties": {n: SCHEMA["properties"][n] for n in value}}
    fastjsonschema.compile(schema)(value)
    each = {one["path"]: one["connections"] for one in value["databases"]}
    assert each["one:5432/shop"] is None
    # All rows are of the first: the other was asked nothing that is recorded.
    assert [(of["queries"], of["mean_ns"] is None) for of in each["two:5432/shop"]] == [
        (30, False),
        (0, True),
    ]


def test_of_many_round_trips_the_slow_ones_count(tmp_path):
    """N medians are less than the median of N round trips, of which a few are slow (a reviewer)."""
    queries(tmp_path / "near", 10, rtt_ms=1, label="near:5432/shop")
    rng = np.random.default_rng(7)
    rtt = (10 * MS * np.exp(0.5 * rng.standard_normal(4_000))).astype(np.int64)
    write(tmp_path / "probe", rtt, label="elsewhere", start_ns=2 * 10**18)
    (one,) = elsewhere(analyse(open_recordings([tmp_path])).scenarios)
    # 4 ms of the server, and ten round trips of that path, by other draws of the same.
    sums = (10 * MS * np.exp(0.5 * rng.standard_normal((20_000, 10)))).sum(axis=1)
    assert one.predicted.ns == pytest.approx(4 * MS + np.median(sums), rel=0.02)
    assert one.predicted.ns > 1.08 * (4 * MS + 10 * np.median(rtt))


def test_one_round_trip_is_a_median(tmp_path):
    queries(tmp_path / "near", 1, rtt_ms=1, label="near:5432/shop")
    rtt = (10 * MS * np.exp(0.5 * np.random.default_rng(7).standard_normal(4_000))).astype(np.int64)
    write(tmp_path / "probe", rtt, label="elsewhere", start_ns=2 * 10**18)
    (one,) = elsewhere(analyse(open_recordings([tmp_path])).scenarios)
    assert one.predicted.ns == pytest.approx(4 * MS + np.median(rtt), rel=0.01)


@pytest.mark.parametrize(
    ("there_ms", "to", "back"),
    # 4 ms here, and ten round trips of 1 ms on either path; and 14 ms there.
    [(40, "slower", "faster"), (4, None, None), (0.5, "faster", "slower")],
)
def test_measurement_beyond_prediction_is_reported(tmp_path, there_ms, to, back):
    """A study's paths carried bytes at different speeds, and nothing told that the predictions had missed."""
    for at, (label, server_ms) in enumerate({"near:5432/shop": 4, "far:5432/shop": there_ms}.items()):
        for run in range(8):
            where = {"label": label, "start_ns": 10**18 + (8 * at + run) * 10**13}
            queries(tmp_path / f"{at}{run}", 10, server_ms=server_ms, rtt_ms=1, **where)
    analysis = analyse(open_recordings([tmp_path]))
    rows = {row["over"]: row for row in as_json(analysis)["database_predictions"]}
    assert {over: row["beyond"] for over, row in rows.items()} == {
        "far:5432/shop": to,
        "near:5432/shop": back,
    }
    for row in rows.values():
        ends = [row[f"{of}_ns"] for of in ("low", "high", "measured_low", "measured_high")]
        assert row["beyond"] == ("slower" if ends[2] > ends[1] else "faster" if ends[3] < ends[0] else None)
    for row in databases_elsewhere.table(analysis.scenarios).rows:
        says = rows[row[1].text]["beyond"]
        assert row[4].note.split(" than predicted")[0] == (says or ""), row


@pytest.mark.parametrize(("there_ms", "beyond"), [(4.6, None), (40, "slower")])
def test_doubtful_interval_counts_as_wider(tmp_path, there_ms, beyond):
    """Runs that differ made one note say "beyond both intervals" and that they may not hold; then it never
    came, as most medians are so doubted (a reviewer, and a stranger).
    """
    for at, (label, server_ms) in enumerate({"near:5432/shop": 4, "far:5432/shop": there_ms}.items()):
        for run in range(8):
            where = {"label": label, "start_ns": 10**18 + (8 * at + run) * 10**13}
            of_run = server_ms * (0.98 if run < 4 else 1.02)
            queries(tmp_path / f"{at}{run}", 1, server_ms=of_run, rtt_ms=1, **where)
    analysis = analyse(open_recordings([tmp_path]))
    (one,) = (one for one in elsewhere(analysis.scenarios) if one.other == "far:5432/shop")
    assert one.is_shaky
    assert one.predicted.is_doubtful
    assert one.beyond == beyond
    notes = [row[4].note for row in databases_elsewhere.table(analysis.scenarios).rows]
    assert all(("predicted" in note) != ("too narrow" in note) for note in notes), notes


def test_few_queries_have_an_interval_by_ranks(tmp_path):
    """Of a hundred that took ten times as long nothing was said, as of those that agree (a reviewer)."""
    for at, (label, server_ms) in enumerate({"near:5432/shop": 4, "far:5432/shop": 400}.items()):
        for run in range(8):
            where = {"label": label, "start_ns": 10**18 + (8 * at + run) * 10**13}
            queries(tmp_path / f"{at}{run}", 10, count=9, server_ms=server_ms, rtt_ms=1, **where)
    told = {one.other: one for one in elsewhere(analyse(open_recordings([tmp_path])).scenarios)}
    assert {over: one.beyond for over, one in told.items()} == {
        "far:5432/shop": "slower",
        "near:5432/shop": "faster",
    }
    assert all(one.measured.interval is None for one in told.values())
