from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fathometer.dataset import Histogram, Selection, engine, query
from fathometer.dataset.expression import histogram_expression, rollup
from fathometer.errors import FathometerError

START = 1_750_000_000_000_000_000
N = 4_000


@pytest.fixture
def known(record):
    """A recording and the arrays that it was made of."""
    rng = np.random.default_rng(3)
    sent = START + np.arange(N) * 1_000_000_000 + rng.integers(0, 1_000, N)
    rtt = rng.lognormal(12.5, 1, N).astype(np.int64)
    rtt[::500] += 5_000_000_000
    answered = rng.random(N) > 0.02
    connection = (np.arange(N) // 1_500).astype(np.int64)
    warm_up = np.arange(N) < 10
    recording = record(sent, rtt, answered, connection=connection, warm_up=warm_up, name="a [b] *?'c")
    return recording, sent, rtt, answered, connection, warm_up


def test_histograms_are_those_of_the_values(known):
    recording, sent, rtt, answered, connection, warm_up = known
    good = answered & ~warm_up
    assert query.histogram(recording) == Histogram.of(rtt[good])
    assert query.histogram(recording, selection=Selection(warm_up=True)) == Histogram.of(rtt[answered])
    assert query.histogram(recording, shift=4) == Histogram.of(rtt[good], 4)
    by = query.histograms_by(recording, "connection")
    assert by == {c: Histogram.of(rtt[good & (connection == c)]) for c in range(3)}
    middle = Selection(start_ns=int(sent[1_000]), end_ns=int(sent[2_000]), connection=1)
    inside = good & (connection == 1) & (sent >= sent[1_000]) & (sent < sent[2_000])
    assert query.histogram(recording, selection=middle) == Histogram.of(rtt[inside])
    # Imports have no lateness, so the latency is the round trip; its buckets are computed, not read.
    assert query.histogram(recording, "latency") == Histogram.of(rtt[good])
    assert query.histogram(recording, "network").count == 0


def test_squares_beyond_64_bits_are_exact(record):
    rtt = [2**31 - 1, 2**31, 2**42, 2**45, 7]
    assert query.histogram(record(START + np.arange(5), rtt)) == Histogram.of(rtt)


def test_blocks_cover_the_time_and_merge_to_the_whole(known):
    recording, sent, rtt, answered, _, warm_up = known
    found = query.blocks(recording, 7)
    good = answered & ~warm_up
    for i, histogram in enumerate(found.histograms):
        low = found.start_ns + i * found.width_ns
        inside = good & (sent >= low) & (sent < low + found.width_ns)
        assert histogram == Histogram.of(rtt[inside])
    assert Histogram.merge(found.histograms) == query.histogram(recording)
    again = query.blocks(recording, 3, start_ns=found.start_ns + 10**12, width_ns=5 * 10**11)
    assert (again.start_ns, again.width_ns, len(again.histograms)) == (found.start_ns + 10**12, 5 * 10**11, 3)


def test_an_envelope_has_exact_extremes_and_close_quantiles(known):
    recording, sent, rtt, answered, _, warm_up = known
    found = query.ask(recording, query.bins(recording, 8))
    assert found.start_ns.size == 8
    for i, low in enumerate(found.start_ns):
        inside = ~warm_up & (sent >= low) & (sent < low + found.width_ns)
        values = np.sort(rtt[inside & answered])
        assert (found.sent[i], found.answered[i]) == (inside.sum(), values.size)
        assert found.unanswered[i] == (inside & ~answered).sum()
        assert (found.min_ns[i], found.max_ns[i]) == (values[0], values[-1])
        assert found.p50_ns[i] == pytest.approx(values[int(np.ceil(0.5 * values.size)) - 1], rel=found.error)
        assert found.p99_ns[i] == pytest.approx(values[int(np.ceil(0.99 * values.size)) - 1], rel=found.error)
    few = query.ask(recording, query.bins(recording, 100))
    assert np.isnan(few.p99_ns).all()  # 40 answers do not support a p99.
    assert not np.isnan(few.p50_ns).any()


def test_chunks_are_counted_from_the_end_of_each_connection(known):
    recording, sent, rtt, answered, connection, warm_up = known
    found = query.chunks(recording, 100)
    for c in range(3):
        rows = np.flatnonzero((connection == c) & ~warm_up)[::-1]
        for k in range(5):
            part = rows[100 * k : 100 * k + 100]
            at = np.flatnonzero((found.connection == c) & (found.from_end == k))[0]
            values = rtt[part][answered[part]]
            assert (found.sent[at], found.answered[at]) == (part.size, values.size)
            assert (found.start_ns[at], found.end_ns[at]) == (sent[part].min(), sent[part].max())
            assert found.mean_ns[at] == pytest.approx(values.mean(), rel=1e-12)
            assert (found.min_ns[at], found.max_ns[at]) == (values.min(), values.max())


def test_tails_and_raw_samples(known):
    recording, sent, rtt, answered, connection, _ = known
    tails = query.tails(recording, 50)
    for c in range(3):
        rows = np.flatnonzero((connection == c) & answered)[-50:]
        assert tails[c].value_ns.tolist() == rtt[rows].tolist()
        assert tails[c].sent_ns.tolist() == sent[rows].tolist()
    around = query.around(recording, int(sent[2_000]), 3_000_000_000, 3_000_000_000)
    near = np.abs(sent - sent[2_000]) <= 3_000_000_000
    assert around.sent_ns.tolist() == sent[near & (sent < sent[2_000] + 3_000_000_000)].tolist()
    firsts = query.first_samples(recording)
    assert firsts.connection.tolist() == [0, 1, 2]
    assert (np.isnan(firsts.value_ns) == ~answered[[0, 1_500, 3_000]]).all()
    with pytest.raises(FathometerError, match="more than 100"):
        query.samples(recording, limit=100)


def test_a_tail_after_heavy_loss_reaches_back_as_far_as_it_must(record):
    n = 3_000
    answered = np.ones(n, dtype=bool)
    answered[1_000:2_990] = False
    connection = np.repeat([0, 1, 2], [n - 100, 60, 40])
    recording = record(START + np.arange(n), np.arange(n), answered, connection=connection)
    tails = query.tails(recording, 50)
    assert tails[0].value_ns.tolist() == list(range(950, 1_000))
    assert 1 not in tails
    assert tails[2].value_ns.tolist() == list(range(2_990, 3_000))


def test_the_parts_of_a_stamped_round_trip_are_told_apart(record):
    """`reflector` is what the tool says; a residence it did not tell is none of 0 ns."""
    recording = record([START, START + 1], [1_000, 2_000], reflector_ns=np.array([30, -1]))
    assert query.histogram(recording, "reflector") == Histogram.of([30])


@pytest.mark.parametrize("zone", ["UTC", "Europe/London", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_hours_are_those_of_the_local_clock(record, zone):
    # Across the night of 25 to 26 October 2025, in which London's clock goes back.
    sent = np.arange(0, 48 * 3_600, 600) * 10**9 + 1_761_350_400_000_000_000
    recording = record(sent, np.arange(1, sent.size + 1))
    place = ZoneInfo(zone)
    expected = {}
    for s, v in zip(sent.tolist(), range(1, sent.size + 1), strict=True):
        local = datetime.fromtimestamp(s // 10**9, place)
        expected.setdefault((local.weekday(), local.hour), []).append(v)
    found = {}
    for hour in query.hours(recording, place, shift=0):
        found.setdefault((hour.weekday, hour.hour), []).append(hour.histogram)
    assert {k: Histogram.merge(h) for k, h in found.items()} == {
        k: Histogram.of(v) for k, v in expected.items()
    }


@pytest.mark.filterwarnings("ignore:fetch_arrow_table")  # Ibis 12 on DuckDB 2.
@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("backend", ["duckdb", "polars"])
def test_the_expression_is_bit_identical_everywhere(known, backend, shift):
    ibis = pytest.importorskip("ibis")
    recording = known[0]
    table = engine.arrow(recording.source, "SELECT 'x' AS label, * FROM samples",
                         ["connection", "sent_ns", "size", "rtt_bucket", "flags"])  # fmt: skip
    connection = getattr(ibis, backend).connect()
    if (
        backend == "duckdb"
    ):  # Ibis 12 cannot hand a table to DuckDB 2 by itself; a cluster's tables are there.
        connection.con.register("samples", table)
        samples = connection.table("samples")
    else:
        samples = connection.create_table("samples", table)
    expression = histogram_expression(samples, 60_000_000_000, keys=("label", "connection"), shift=shift)
    theirs = expression.to_pyarrow().select(["connection", "start_ns", "bucket", "count"]).to_pylist()
    ours = rollup(recording, 60_000_000_000, keys=("connection",), shift=shift).to_pylist()

    def rows(found):
        return sorted(tuple(int(v) for v in row.values()) for row in found)

    assert rows(theirs) == rows(ours)
    assert sum(r["count"] for r in ours) == query.histogram(recording).count


def test_times_before_1970_fall_into_their_own_stretch(record):
    recording = record([-1, 0, -60_000_000_000], [5, 5, 5])
    found = rollup(recording, 60_000_000_000).to_pylist()
    assert sorted((r["start_ns"], r["count"]) for r in found) == [(-60_000_000_000, 2), (0, 1)]


@pytest.mark.parametrize("dialect", ["pyspark", "clickhouse", "bigquery", "snowflake"])
def test_the_expression_compiles_for_clusters_without_a_division(dialect):
    ibis = pytest.importorskip("ibis")
    samples = ibis.table(
        {"label": "string", "sent_ns": "int64", "rtt_bucket": "uint16", "flags": "uint16"}, name="samples"
    )
    sql = str(ibis.to_sql(histogram_expression(samples), dialect=dialect))
    assert "/" not in sql  # A division would be one of floats.
    assert "COUNT" in sql.upper()
