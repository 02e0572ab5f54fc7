"""One pass that answers many questions: as one by one, whatever the order and the cut of the rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import Flags, Histogram, Selection, batches, engine, open_recording, query, scan
from fathometer.dataset.tally import counted, joined_counts, joined_sums, runs, summed
from support.recordings import START, UNANSWERED, lognormal_ns, write

N = 30_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Four segments, three connections in turn, sizes, load, warm-up, losses, echoes that come very late."""
    rng = np.random.default_rng(5)
    rtt = lognormal_ns(5, N)
    rtt[rng.random(N) < 0.02] = UNANSWERED
    sent = START + np.arange(N) * 1_000_000
    sent[rng.random(N) < 0.01] -= 5_000_000_000  # Resolved long after it was sent.
    flags = np.where(np.arange(N) // 500 % 2, Flags.UNDER_LOAD, 0) | np.where(
        rng.random(N) < 0.1, Flags.WARM_UP, 0
    )
    columns = {
        "connection": lambda seq: seq % 3,
        "size": lambda seq: np.where(seq // 7 % 2, 64, 1024),
        "sent_ns": lambda seq: sent[seq],
        "lateness_ns": lambda seq: seq % 1000,
        "flags": lambda seq: flags[seq],
    }
    directory = tmp_path_factory.mktemp("scan") / "r"
    return open_recording(write(directory, np.array_split(rtt, 4), columns=columns))


QUESTIONS = [
    query.Histograms(),
    query.Histograms("latency", Selection(under_load=True, size=64)),
    query.Histograms("rtt", query.EVERYTHING, "connection", 3),
    query.Histograms("rtt", Selection(connection=1), query.Grid(START, 700_000_000, 20), 1),
    query.quarters(),
    query.firsts(),
]


def test_together_is_as_one_by_one(recording, monkeypatch):
    # Batches so small that every segment has many.
    monkeypatch.setattr(batches, "ROWS", 777)
    query.prepare(recording, QUESTIONS)
    together = [query.ask(recording, q) for q in QUESTIONS]
    assert not recording.answers
    monkeypatch.setattr(batches, "ROWS", 1 << 20)
    for question, answer in zip(QUESTIONS, together, strict=True):
        alone = query.ask(recording, question)
        if isinstance(answer, dict):
            assert answer == alone
        else:
            assert all(
                np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                for a, b in zip(answer, alone, strict=True)
            )


def test_a_prepared_answer_is_kept_as_often_as_it_was_named(recording, monkeypatch):
    passes = []
    real = scan._pass
    monkeypatch.setattr(scan, "_pass", lambda r, q: passes.append(q) or real(r, q))
    question = query.Histograms()
    query.prepare(recording, [question, query.firsts(), question])
    first, second = query.ask(recording, question), query.ask(recording, question)
    assert first == second
    assert len(passes) == 1
    query.ask(recording, question)
    assert len(passes) == 2
    query.ask(recording, query.firsts())
    assert not recording.answers


def test_an_envelope_does_not_depend_on_the_cut(recording, monkeypatch):
    asked = query.bins(recording, 200, selection=Selection(under_load=False))
    monkeypatch.setattr(batches, "ROWS", 501)
    small = query.ask(recording, asked)
    monkeypatch.setattr(batches, "ROWS", 1 << 20)
    large = query.ask(recording, asked)
    for name in ("start_ns", "sent", "unanswered", "answered", "min_ns", "max_ns", "p50_ns", "p99_ns"):
        assert np.array_equal(getattr(small, name), getattr(large, name), equal_nan=name.endswith("_ns"))


WHICH = st.builds(
    Selection,
    connection=st.none() | st.integers(0, 3),
    start_ns=st.none() | st.just(START + 10_000_000_000),
    end_ns=st.none() | st.just(START + 20_000_000_000),
    size=st.none() | st.sampled_from([64, 1024, 9]),
    under_load=st.none() | st.booleans(),
    first=st.none() | st.booleans(),
    warm_up=st.booleans(),
    pauses=st.booleans(),
)


@given(WHICH)
def test_a_selection_means_the_same_in_arrays_and_in_sql(recording, chosen):
    sql = f"SELECT count(*), sum(rtt_ns) FROM samples WHERE {chosen.where()} AND rtt_ns IS NOT NULL"
    ((count, total),) = engine.rows(
        recording.source, sql, ["connection", "sent_ns", "size", "flags", "rtt_ns"]
    )
    found = query.histogram(recording, selection=chosen)
    assert (found.count, found.sum_ns) == (count, total or 0)


@given(WHICH)
def test_totals_of_a_part_are_those_of_its_samples(recording, chosen):
    chosen = Selection(size=chosen.size, under_load=chosen.under_load, warm_up=True)
    sql = f"SELECT count(*), count(rtt_ns), min(sent_ns) FROM samples WHERE {chosen.where()}"
    ((count, answered, first),) = engine.rows(recording.source, sql, ["size", "flags", "rtt_ns", "sent_ns"])
    part = recording.totals.part(chosen)
    assert (part.samples, part.answered, part.first_sent_ns) == (count, answered, first)


PAIRS = st.lists(st.tuples(st.integers(-3, 40), st.integers(0, 65_535)), min_size=1, max_size=200)


@given(PAIRS, st.integers(1, 5))
def test_counts_are_those_of_counting_one_by_one(pairs, cuts):
    expected = {}
    for pair in pairs:
        expected[pair] = expected.get(pair, 0) + 1
    key, bucket = (np.array(x, dtype=np.int64) for x in zip(*pairs, strict=True))
    parts = [
        counted(k, b)
        for k, b in zip(np.array_split(key, cuts), np.array_split(bucket, cuts), strict=True)
        if len(k)
    ]
    found = joined_counts(parts)
    told = list(zip(found.key.tolist(), found.bucket.tolist(), found.number.tolist(), strict=True))
    assert told == [(*pair, n) for pair, n in sorted(expected.items())]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**45)), min_size=1, max_size=100),
    st.integers(1, 4),
)
def test_sums_are_exact_however_large(pairs, cuts):
    key, value = (np.array(x, dtype=np.int64) for x in zip(*pairs, strict=True))
    parts = [
        summed(k, v)
        for k, v in zip(np.array_split(key, cuts), np.array_split(value, cuts), strict=True)
        if len(k)
    ]
    found = joined_sums(parts)
    for i, k in enumerate(found.key.tolist()):
        mine = [v for key_, v in pairs if key_ == k]
        assert (found.low[i], found.high[i]) == (min(mine), max(mine))
        assert (found.total[i], found.squares[i]) == (sum(mine), sum(v * v for v in mine))


def test_many_keys_far_apart_are_counted_without_a_table_of_them_all():
    key = np.array([0, 2**40, 0, 5], dtype=np.int64)
    found = counted(key, np.array([9, 9, 9, 65_535], dtype=np.int64))
    assert found.key.tolist() == [0, 5, 2**40]
    assert found.number.tolist() == [2, 1, 1]


def test_runs_begin_where_a_key_changes():
    assert runs(np.array([1, 1, 2, 1]), np.array([0, 0, 0, 0])).tolist() == [0, 2, 3]


def test_a_histogram_of_a_whole_recording_is_that_of_its_parts(recording):
    loads = [query.histogram(recording, selection=Selection(under_load=x)) for x in (True, False)]
    sizes = [query.histogram(recording, selection=replace(query.ALL, size=x)) for x in (64, 1024)]
    whole = query.histogram(recording)
    assert Histogram.merge(loads) == Histogram.merge(sizes) == whole
