"""Closed segments of format version 2 lack what can be derived: every row reads as it was written."""

import gc

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathometer.dataset import open_recording
from fathometer.dataset.batches import batches
from fathometer.dataset.format import arrow_schema, closed_schema
from fathometer.dataset.layout import is_derived, is_known, row_batches, whole_table
from support.programs import ROOT, tool
from support.recordings import START, UNANSWERED, bucket, lognormal_ns, without_derived, write

ANY = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-1_000, 1_000)
SOME = st.none() | ANY
ROW = st.fixed_dictionaries(
    {
        **dict.fromkeys(("sent_ns", "lateness_ns"), ANY),
        "rtt_ns": st.none() | st.integers(0, (1 << 63) - 1) | st.integers(0, 100_000),
        **dict.fromkeys(
            ("send_stack_ns", "recv_stack_ns", "reflector_ns", "forward_ns", "backward_ns"), SOME
        ),
        "connection": st.integers(0, (1 << 32) - 1),
        "seq": st.integers(0, (1 << 64) - 1),
        "size": st.integers(0, (1 << 32) - 1),
        "srtt_us": st.none() | st.integers(0, (1 << 32) - 1),
        "retransmits": st.none() | st.integers(0, (1 << 16) - 1),
        "flags": st.integers(0, (1 << 16) - 1),
    }
)


def table_of(rows):
    def whole(row):
        rtt = row["rtt_ns"]
        known = None if rtt is None else int(bucket(np.array([min(rtt, (1 << 42) - 1)]))[0])
        return {**row, "rtt_bucket": known}

    return pa.Table.from_pylist([whole(row) for row in rows], schema=arrow_schema())


@given(st.lists(ROW, max_size=40), st.integers(1, 50))
def test_every_row_reads_as_it_was_written(rows, at_once):
    table = table_of(rows)
    for stored in (table, without_derived(table)):
        sink = pa.BufferOutputStream()
        pq.write_table(stored, sink, row_group_size=17)
        file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
        assert is_known(file.schema_arrow)
        assert is_derived(file.schema_arrow) == (stored is not table)
        assert whole_table(file).equals(table)
        for name in table.column_names:
            parts = list(row_batches(file, [name], at_once))
            assert pa.Table.from_batches(parts, table.select([name]).schema).equals(table.select([name]))


@pytest.mark.parametrize("derived", [False, True])
def test_rows_without_read_columns_are_counted(tmp_path, derived):
    # All of one size, which a batch then has without its column.
    directory = write(tmp_path / "it", lognormal_ns(4, 90), derived=lambda _: derived)
    (closed,) = open_recording(directory).source.closed
    assert closed.derived == derived
    read = list(batches(closed, ["size"]))
    assert [(each.rows, each.only_size) for each in read] == [(90, 64)]
    table = pq.read_table(closed.path)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=40)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert sum(part.num_rows for part in row_batches(file, [], 7)) == 90
    assert sum(part.num_rows for part in row_batches(file, [], 7, groups=[0, 2])) == 50


def test_the_columns_are_those_of_the_schema():
    assert without_derived(table_of([])).schema.equals(closed_schema())


@pytest.mark.parametrize("name", ["due_ns", "clock_shift_ns", "seq"])
def test_missing_column_makes_layout_unknown(name):
    assert not is_known(without_derived(table_of([])).drop_columns([name]).schema)


def test_whole_derived_and_mixed_layouts_read_equal(tmp_path):
    rtt = lognormal_ns(5, 3_000)
    rtt[::50] = UNANSWERED
    noise = np.random.default_rng(6).integers(0, 90_000, len(rtt))

    def answered(values):
        return lambda seq: pa.array(values[seq], mask=rtt[seq] < 0)

    columns = {
        "lateness_ns": lambda seq: noise[seq],
        "sent_ns": lambda seq: START + seq * 10**9 + noise[seq],
        "reflector_ns": answered(noise // 9),
        "forward_ns": answered(rtt // 3 - 400_000),
        "backward_ns": answered(rtt - noise // 9 - rtt // 3 + 400_000 + (noise < 30) * 77),
    }
    kinds = {"whole": lambda _: False, "derived": lambda _: True, "both": lambda ordinal: ordinal == 1}
    opened = [
        open_recording(write(tmp_path / kind, iter(np.array_split(rtt, 3)), columns=columns, derived=derived))
        for kind, derived in kinds.items()
    ]
    assert [[c.derived for c in r.source.closed] for r in opened] == [
        [False] * 3,
        [True] * 3,
        [False, True, False],
    ]
    assert all(not r.damage for r in opened)

    def read(recording):
        every = [b for closed in recording.source.closed for b in batches(closed, arrow_schema().names)]
        names = [n for n in arrow_schema().names if n != "size"]
        return {
            n: [
                None if b.known(n) is not None and not b.known(n)[i] else int(v)
                for b in every
                for i, v in enumerate(b.column(n))
            ]
            for n in names
        }

    first, *others = opened
    assert read(first)["backward_ns"][7] == int((rtt - noise // 9 - rtt // 3)[7] + 400_000)
    for other in others:
        assert read(other) == read(first)
        assert other.rollup.paths == first.rollup.paths
        assert other.totals == first.totals


EDGES = [None, 0, *sorted({min((1 << k) + d, (1 << 63) - 1) for k in range(64) for d in (-1, 0, 1)} - {0})]
"""Round trips on either side of where octaves of buckets begin, and where they end."""


def of_edges(**more):
    """One sample of each."""
    rows = [
        dict.fromkeys(arrow_schema().names, 0)
        | {
            "seq": seq,
            "sent_ns": START + seq,
            "rtt_ns": rtt,
            "backward_ns": None if rtt is None else 50,
            "reflector_ns": None if seq % 3 else 7,
            "forward_ns": None if seq % 2 else -9,
        }
        | more
        for seq, rtt in enumerate(EDGES)
    ]
    return table_of(rows)


def by_duckdb(query, directory):
    return duckdb.sql(query.replace("'samples", f"'{directory}/samples")).to_arrow_table()


@pytest.fixture(scope="module")
def by_spark():
    tool("java")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    # As Spark 4 comes; a session before in this process may have left it off.
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.sparkContext.setLogLevel("OFF")

    def run(query, directory):
        files = f"parquet.`{directory}/samples-*.parquet`"
        return session.sql(query.replace("'samples-*.parquet'", files)).toArrow()

    yield run
    session.stop()
    gc.collect()


# PySpark drops the sockets of its answers without closing them, which pytest makes a failure.
DROPS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=(pytest.mark.acceptance, DROPS))])
def by_sql(request):
    """The query of the format's description, run by an engine."""
    text = (ROOT / "schema/recording.md").read_text()
    _, after = text.split("### Closed segments")
    query = after.split("```sql\n")[1].split("```")[0]
    assert query.count("'samples-*.parquet'") == 1
    run = request.getfixturevalue("by_spark") if request.param == "spark" else by_duckdb
    return lambda directory: run(query, directory)


def values(table):
    return sorted(table.to_pylist(), key=lambda row: (row["connection"], row["seq"]))


def test_documented_sql_restores_version_1_rows(by_sql, tmp_path):
    golden = ROOT / "schema/golden"
    made = by_sql(golden / "derived")
    assert made.column_names == arrow_schema().names
    assert values(made) == values(pq.read_table(golden / "closed/samples-00000.parquet"))
    edges = of_edges()
    pq.write_table(without_derived(edges), tmp_path / "samples-00000.parquet")
    assert values(by_sql(tmp_path)) == values(edges)


def test_documented_sql_fails_where_reader_wraps_overflow(by_sql, tmp_path):
    hostile = of_edges(sent_ns=-(1 << 63), lateness_ns=5)
    pq.write_table(without_derived(hostile), tmp_path / "samples-00000.parquet")
    with pq.ParquetFile(tmp_path / "samples-00000.parquet") as file:
        assert whole_table(file).equals(hostile)
    with pytest.raises(Exception, match=r"(?i)overflow in subtraction|ARITHMETIC_OVERFLOW"):
        by_sql(tmp_path)
