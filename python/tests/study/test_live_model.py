"""The board of a study, in virtual time."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset.follow import NONE, NewOnDisk, NewSamples
from fathometer.dataset.model import Event
from fathometer.study.live.estimate import Pace, left_ns
from fathometer.study.live.happenings import of_entry, of_event, span
from fathometer.study.live.model import KEPT, LiveStudy
from fathometer.study.live.series import BinnedSeries
from fathometer.study.outline import Outline, Planned, outline_of, read_outline, title_of
from fathometer.study.plan import plan
from fathometer.study.read import parse
from support.recordings import START, iso

SECOND = 1_000_000_000
PATHS = [{"directory": f"label={name}", "runs": 4, "run_ns": 10 * SECOND} for name in ("near", "far")]


def entry(kind, at_s=0, **fields):
    return {"at": iso(START + at_s * SECOND), "kind": kind, **fields}


def samples(rtt_ns, first_s=0, warm_up=0):
    rtt = np.asarray(rtt_ns, dtype=np.int64)
    sent = START + (first_s + np.arange(len(rtt))) * SECOND
    return NewSamples(sent, rtt, np.arange(len(rtt)) < warm_up)


def event(kind, at_s=0, connection=0, **fields):
    return Event(START + at_s * SECOND, 0, kind, connection, fields, known=True)


def grown(rtt_ns=(), events=(), manifest=None, **options):
    return NewOnDisk(manifest, tuple(events), samples(rtt_ns, **options), more=False)


def began(order="one-by-one", **more):
    live = LiveStudy()
    live.journal(entry("study.started", study="s", runs=8, plan={"order": order, "paths": PATHS, **more}))
    return live


def row(live, at_s=0, name="near", alive=True):
    board = live.board(START + at_s * SECOND, alive=alive)
    return next(r for r in board.rows if r.directory == f"label={name}")


def test_rows_stand_there_before_anything_runs():
    board = began().board(START, alive=True)
    assert [(r.title, r.state, r.done, r.of) for r in board.rows] == [
        ("near", "waiting", 0, 4),
        ("far", "waiting", 0, 4),
    ]
    assert (board.done, board.of, board.share) == (0, 8, 0)
    assert board.left_ns == 80 * SECOND


def test_a_run_from_begin_to_end():
    live = began()
    live.journal(entry("run.started", 1, run="label=near/run=01"))
    assert row(live).state == "running"
    live.grown("label=near/run=01", grown([7000, *range(1000, 1118, 2), NONE], warm_up=1))
    now = row(live)
    # Two nanoseconds apart, each value has a bucket of its own, and the median is exact.
    # The warm-up sample is the largest, and no percentile knows of it; 59 samples support no p99.
    assert (now.count, now.unanswered, now.last_ns, now.p50_ns, now.p99_ns) == (59, 1, 1116, 1058, None)
    live.grown("label=near/run=01", grown([1030] * 240, first_s=100))
    assert row(live).p99_ns is not None
    live.journal(entry("run.finished", 21, run="label=near/run=01", samples=300, answered=299))
    assert (row(live).state, row(live).done, row(live).count) == ("waiting", 1, 299)
    # Finished runs took 20 s and not 10; of the other scenario only the plan knows.
    assert live.board(START + 21 * SECOND, alive=True).left_ns == (3 * 20 + 4 * 10) * SECOND


def test_a_failed_run_counts_in_no_figure():
    live = began()
    for number, rtt, end in (("01", 1000, "run.finished"), ("02", 9000, "run.failed")):
        run = f"label=near/run={number}"
        live.journal(entry("run.started", run=run))
        live.grown(run, grown([rtt] * 10))
        live.journal(entry(end, run=run, reason="no"))
    assert (row(live).state, row(live).failed, row(live).count, row(live).p50_ns) == ("failed", 1, 10, 1000)
    assert row(live).happened.text == "failed: no"
    live.journal(entry("study.interrupted", reason="x"))
    live.journal(entry("study.resumed"))
    assert (row(live).state, row(live).failed) == ("waiting", 0)


def test_a_stall_and_its_end():
    live = began()
    run = "label=far/run=01"
    live.journal(entry("run.started", run=run))
    stall = {"seq": 1, "outstanding": 3, "threshold_ns": SECOND}
    live.grown(run, grown(events=[event("stall.began", 5, 0, **stall), event("stall.began", 5, 1, **stall)]))
    assert row(live, name="far").state == "stalled"
    over = {"duration_ns": SECOND, "samples": 3, "recovered": True}
    live.grown(run, grown(events=[event("stall.ended", 6, 0, **over)]))
    assert row(live, name="far").state == "stalled"
    closed = {"cause": "reset", "age_ns": SECOND, "evidence": {}, "verdict": "flow_forgotten"}
    live.grown(run, grown(events=[event("connection.closed", 7, 1, **closed)]))
    assert row(live, name="far").state == "running"
    assert row(live, name="far").happened.text == "connection closed: reset, flow_forgotten, after 1.00 s"


def test_short_pauses_are_counted_long_reported():
    live = began()
    run = "label=far/run=01"
    live.journal(entry("run.started", run=run))
    pauses = [event("pause", i, None, host="local", duration_ns=(30 + i) * 1_000_000) for i in range(100)]
    assert live.grown(run, grown(events=pauses)) == []
    told = live.grown(run, grown(events=[event("pause", 50, None, host="remote", duration_ns=3 * SECOND)]))
    assert [h.text for h in told] == ["pause: the reflector's host did not run for 3.00 s"]
    far = row(live, name="far")
    assert (far.short_pauses, far.longest_short_ns) == (100, 129_000_000)
    assert far.happened == told[0]


@pytest.mark.parametrize(
    ("ends", "alive", "state", "rows"),
    [
        ([], True, "running", "running"),
        ([], False, "gone", "interrupted"),
        (["study.interrupted"], False, "interrupted", "interrupted"),
        (["study.stopped"], False, "interrupted", "interrupted"),
        (["study.interrupted", "study.resumed"], True, "running", "waiting"),
        (["study.ended"], False, "finished", "finished"),
        # Whoever stops a finished study changes nothing of what it is.
        (["study.ended", "study.stopped"], False, "finished", "finished"),
    ],
)
def test_how_a_study_is(ends, alive, state, rows):
    live = began()
    live.journal(entry("run.started", run="label=near/run=01"))
    for kind in ends:
        live.journal(entry(kind, 9))
    assert live.board(START, alive=alive).state == state
    assert row(live, alive=alive).state == rows


def test_how_far_a_run_is():
    def manifest(**probe):
        return SimpleNamespace(probe=probe, started_ns=START)

    live = began()
    run = "label=near/run=01"
    live.journal(entry("run.started", run=run))
    assert row(live, 50).within is None
    live.grown(run, grown(manifest=manifest(duration_ns=100 * SECOND)))
    assert row(live, 25).within == 0.25
    assert row(live, 900).within == 1
    live.grown(run, grown([1000] * 10, manifest=manifest(count=20, connections=2)))
    assert row(live).within == 0.25
    # Of eight runs one is done by a quarter.
    assert live.board(START, alive=True).share == pytest.approx(0.25 / 8)


def test_latest_happenings_ignore_reading_order():
    live = began()
    run = "label=near/run=01"
    live.journal(entry("run.started", run=run))
    notes = [event("note", at, text=str(at)) for at in range(500)]
    np.random.default_rng(1).shuffle(notes)
    live.grown(run, grown(events=notes))
    kept = live.board(START, alive=True).happenings
    assert [h.text for h in kept] == [str(n) for n in range(500 - KEPT, 500)]


OUTLINE = (Planned("a", 4, 10), Planned("b", 4, 30))


@pytest.mark.parametrize(
    ("outline", "paces", "left"),
    [
        (Outline(False, None, False, OUTLINE), [Pace(4, 10, 0), Pace(4, 30, 0)], 160),
        (Outline(False, None, False, OUTLINE), [Pace(4, 10, 4), Pace(3, 30, 0)], 126),
        (Outline(True, None, False, OUTLINE), [Pace(4, 10, 0), Pace(4, 30, 0)], 120),
        # A round takes 40, and the next begins after 100: three waits of 60 between four rounds.
        (Outline(False, 100, False, OUTLINE), [Pace(4, 10, 0), Pace(4, 30, 0)], 160 + 3 * 60),
        (Outline(False, 100, False, OUTLINE), [Pace(0, 10, 0), Pace(0, 30, 0)], 0),
        (Outline(False, None, False, ()), [], None),
    ],
)
def test_how_long_it_will_yet_take(outline, paces, left):
    assert left_ns(outline, paces) == left


def test_the_outline_is_the_plans():
    text = "format = 1\nname = 's'\nrepetitions = 3\norder = 'side-by-side'\n"
    text += "[[host]]\nname = 'h'\nlocal = true\n"
    text += "".join(f"[[scenario]]\nlabel = '{n}'\nfrom = 'h'\nto = 'h'\n" for n in ("b", "a"))
    text += "[[probe]]\nname = 'p'\nsizes = [64, 128]\ncount = 10\n[schedule]\nevery = '1h'\n"
    study, problems = parse(text)
    assert problems == []
    outline = read_outline(outline_of(study, plan(study)))
    assert (outline.side_by_side, outline.every_ns, outline.hours) == (True, 3600 * SECOND, False)
    # Scenarios in the order of the file, whatever the order in which they are run first.
    assert [p.directory.split("/")[0] for p in outline.planned] == ["label=b"] * 2 + ["label=a"] * 2
    assert {p.runs for p in outline.planned} == {3}
    assert {p.directory for p in outline.planned} == {str(r.directory.parent) for r in plan(study)}
    assert title_of("label=hub/probe=p/size=1024") == "hub  p  1024 B"
    assert read_outline(None) == read_outline({"paths": 3}) == Outline(False, None, False, ())


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_234, "1.23 µs"),
        (46_240, "46.2 µs"),
        (999_400, "999 µs"),
        (999_600, "1.00 ms"),
        (12_345_678, "12.3 ms"),
        (2_974_000_000, "2.97 s"),
        (125 * SECOND, "2 min 5 s"),
        (40_500 * SECOND, "11 h 15 min"),
        (273_600 * SECOND, "3 d 4 h"),
    ],
)
def test_durations_in_words(ns, text):
    assert span(ns) == text


def test_nothing_that_moves_the_cursor_comes_through():
    bad = "\x1b[2Jgone\r\nand \x9b31m" + "x" * 1000
    told = of_entry(entry("run.failed", run="label=a/run=01", reason=bad))
    assert told.text.isprintable()
    assert len(told.text) <= 400
    assert of_event("label=a", "run=01", event("note", text=bad)).text.isprintable()


def test_later_version_event_is_not_interpreted():
    unknown = Event(START, 0, "stall.began", 0, {}, known=False)
    assert of_event("label=a", "run=01", unknown) is None


CHUNKS = st.lists(st.lists(st.tuples(st.integers(0, 10**4), st.integers(-1, 10**9)), max_size=30), max_size=6)


def told(series):
    bins = [(at, b.low_ns, b.high_ns, b.sum_ns, b.answered, b.unanswered) for at, b in series.bins()]
    return series.width_ns, bins


def as_samples(pairs):
    sent, rtt = (np.array([p[i] for p in pairs], dtype=np.int64) for i in (0, 1))
    return NewSamples(START + sent * SECOND, rtt, np.zeros(len(pairs), dtype=np.bool_))


@given(CHUNKS, st.booleans(), st.integers(1, 20))
def test_a_series_does_not_depend_on_the_pieces(chunks, folds, most):
    pieces, whole = BinnedSeries(folds=folds, most=most), BinnedSeries(folds=folds, most=most)
    for chunk in chunks:
        pieces.add(as_samples(chunk))
    every = [pair for chunk in chunks for pair in chunk]
    whole.add(as_samples(every))
    assert told(pieces) == told(whole)
    assert len(whole.bins()) <= most
    if folds:
        # Nothing is lost by folding.
        assert sum(b.answered for _, b in whole.bins()) == sum(rtt >= 0 for _, rtt in every)
        assert sum(b.unanswered for _, b in whole.bins()) == sum(rtt < 0 for _, rtt in every)


def test_three_weeks_fit_into_a_screen():
    series = BinnedSeries(folds=True)
    day = 86_400
    for n in range(21):
        rtt = np.full(day, 1000 + n, dtype=np.int64)
        series.add(
            NewSamples(START + (n * day + np.arange(day)) * SECOND, rtt, np.zeros(day, dtype=np.bool_))
        )
    bins = series.bins()
    assert 300 < len(bins) <= 600
    assert series.width_ns == 4096 * SECOND
    assert (bins[0][1].low_ns, bins[-1][1].high_ns) == (1000, 1020)
