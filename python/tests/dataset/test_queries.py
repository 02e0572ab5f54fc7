"""What a recording of `fathom sql` says of its queries, and what of it cannot be read."""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fathometer.dataset import open_recordings
from fathometer.dataset.queries import NEVER, failure
from support.queries import MS, query, recording, sure
from support.recordings import lognormal_ns, write


def read(directory):
    (one,) = open_recordings([directory])
    return one.queries


def test_each_query_has_its_parts_and_its_end(tmp_path):
    rows = [
        sure(9 * MS, 0, 0),
        sure(1 * MS, 2 * MS, 3 * MS, retransmits=4),
        query(10 * MS, (2 * MS, 0, 0), None, (6 * MS, 8 * MS, 4 * MS)),
        sure(0, 0, 5 * MS, error="canceling statement due to user request (57014)"),
    ]
    recording(tmp_path / "r", rows)
    known = read(tmp_path / "r")
    assert known.wall_ns.tolist() == [9 * MS, 6 * MS, 10 * MS, 5 * MS]
    assert known.first.tolist() == [True, False, False, False]
    # Neither the first, which finds nothing warm, nor what failed.
    assert known.counted.tolist() == [False, True, True, False]
    assert known.failures == {"SQLSTATE 57014": 1}
    assert known.retransmits == (None, 4, None, None)
    # Without an estimate: 8 of the 16 ms between the bounds are left, so half of each.
    assert [known.part_ns[p][2] for p in ("server", "path", "client")] == [4 * MS, 4 * MS, 2 * MS]
    assert known.damage == ()


def test_single_query_is_counted(tmp_path):
    recording(tmp_path / "r", [sure(1, 2, 3)])
    assert read(tmp_path / "r").counted.tolist() == [True]


def test_other_recording_has_no_queries(tmp_path):
    write(tmp_path / "r", lognormal_ns(1, 10))
    assert read(tmp_path / "r") is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ('syntax error at or near "SELEC" (42601)', "SQLSTATE 42601"),
        ("the connection broke: Connection reset by peer (os error 104)", "connection lost"),
        ("the server closed the connection", "connection lost"),
        ("Invalid object name 'x'. (error 208)", "error 208"),
        ("made up by the server (error -7)", "error -7"),
        ("the query was cancelled (attention)", None),
        ("cancelled by the user: canceling statement due to user request (57014)", None),
        ("canceling statement due to user request (57014)", "SQLSTATE 57014"),
        ("the server says that the statement failed (no error number)", "no error number"),
        ("its answer was not waited for", None),
        ("no whole answer within 5s", "timed out"),
        ("no whole answer within 5s, nor to the request to cancel it within 2s", "timed out"),
    ],
)
def test_failures_have_kinds(error, kind):
    assert failure(error) == kind


def gone(file):
    file.unlink()


def no_parquet(file):
    file.write_bytes(b"PAR1 and nothing else")


def another_table(file):
    table = pq.read_table(file)
    pq.write_table(table.rename_columns(["ordinal", *table.column_names[1:]]), file)


def more_than_the_whole(file):
    table = pq.read_table(file)
    at = table.schema.get_field_index("path_high_ns")
    field = table.schema.field(at)
    pq.write_table(table.set_column(at, field, [np.full(table.num_rows, 10**12)]), file)


def forged(file, column, value):
    table = pq.read_table(file)
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, table.schema.field(at), [np.full(table.num_rows, value)]), file)


def a_negative_number(file):
    forged(file, "rtt_ns", -7)


def another_sum(file):
    # Within its bounds, which the wall time lies between.
    for end in ("low", "high"):
        forged(file, f"client_{end}_ns", 2 if end == "low" else 3)
    forged(file, "client_ns", 2)


def a_pipe(file):
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (gone, "3 rows that sql.ended counts cannot be found"),
        (a_negative_number, "it has impossible times"),
        (another_sum, "it has impossible times"),
        (no_parquet, "it is no Parquet file"),
        (another_table, "its columns are not those of schema/queries.json"),
        (more_than_the_whole, "it has impossible times"),
        (a_pipe, "cannot be read"),
    ],
)
def test_unreadable_query_file_is_damage(tmp_path, harm, reason):
    recording(tmp_path / "r", [sure(1, 2, 3)] * 3)
    harm(tmp_path / "r" / "queries-00000.parquet")
    known = read(tmp_path / "r")
    assert known.number == 0
    (damage,) = known.damage
    assert damage.reason.startswith(reason)


def of_connections(number, each):
    """So many queries of each connection in turn."""
    return [sure(MS, MS, MS, connection=n % number) for n in range(number * each)]


def counted(*each, unrecorded=0):
    """What `sql.ended` says of connections that were asked so often."""
    of = [{"queries": n, "failed": 0, "unrecorded": unrecorded} for n in each]
    return {"connections": of, "unrecorded": unrecorded * len(each)}


def test_each_query_is_of_its_connection(tmp_path):
    rows = of_connections(3, 2)
    recording(tmp_path / "r", rows, connections=3, result=counted(2, 2, 2))
    known = read(tmp_path / "r")
    assert (known.side_by_side, known.damage) == (3, ())
    assert known.connections.tolist() == [0, 1, 2, 0, 1, 2]
    # A query a second, each of 3 ms: the one before on the same connection began three seconds before.
    assert known.idle_ns.tolist() == [NEVER] * 3 + [3 * 10**9 - 3 * MS] * 3


def test_older_recording_has_one_connection(tmp_path):
    recording(tmp_path / "r", [sure(1, 2, 3)] * 2)
    file = tmp_path / "r" / "queries-00000.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["connection"]), file)
    known = read(tmp_path / "r")
    assert (known.side_by_side, known.connections.tolist(), known.damage) == (1, [0, 0], ())


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        ((2, 2, 2), None),
        # There are as many in all, and one stands with another connection.
        ((3, 1, 2), "of connection 0 sql.ended counts 3 rows, and 2 can be found"),
        ((2, 2, 3), "1 row that sql.ended counts cannot be found"),
    ],
)
def test_what_each_connection_counted_is_found(tmp_path, each, reason):
    told = {"told": sum(each), "connections": 3, "result": counted(*each)}
    recording(tmp_path / "r", of_connections(3, 2), **told)
    assert [d.reason for d in read(tmp_path / "r").damage] == ([reason] if reason else [])


def test_row_of_unknown_connection_is_damage(tmp_path):
    recording(tmp_path / "r", of_connections(3, 2), connections=2)
    (damage,) = read(tmp_path / "r").damage
    assert damage.reason == "there are rows of connection 2, and 2 asked"


def test_rows_lost_to_full_disk_are_not_damage(tmp_path):
    told = {"told": 9, "connections": 3, "result": counted(3, 3, 3, unrecorded=1)}
    recording(tmp_path / "r", of_connections(3, 2), **told)
    assert read(tmp_path / "r").damage == ()


def flipped(file, at):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


MISSING = "it is missing"
ENDS = [{"killed": killed, "states": states} for killed in (True, False) for states in (True, False)]


@pytest.mark.parametrize(
    ("number", "harm", "reason", "how"),
    [
        *((number, Path.unlink, MISSING, how) for number in (0, 1) for how in ENDS),
        # Without its event nothing says that a killed run had another file.
        (2, Path.unlink, MISSING, {"killed": True, "states": True}),
        (1, no_parquet, "", {}),
        (1, lambda file: forged(file, "bytes_sent", 5), "it should have ", {"states": True}),
        (1, lambda file: flipped(file, 100), "it does not have the checksum its event", {"states": True}),
    ],
)
def test_harmed_file_is_damage_and_others_read(tmp_path, number, harm, reason, how):
    recording(tmp_path / "r", [sure(n + 1, 2, 3) for n in range(6)], per_file=2, **how)
    known = read(tmp_path / "r")
    assert (known.number, known.damage) == (6, ())
    name = f"queries-{number:05}.parquet"
    harm(tmp_path / "r" / name)
    known = read(tmp_path / "r")
    (damage,) = known.damage
    assert damage.file == name
    assert damage.reason.startswith(reason)
    assert known.ordinals.tolist() == [n for n in range(6) if n // 2 != number]


@pytest.mark.parametrize(
    ("lost", "reasons"),
    [(0, ["2 rows between others cannot be found, and no event tells why"]), (2, [])],
)
def test_killed_run_gap_is_damage_unless_recovered(tmp_path, lost, reasons):
    rows = [sure(1, 2, 3, query=n) for n in (0, 1, 4, 5)]
    recording(tmp_path / "r", rows, killed=True, lost=lost)
    known = read(tmp_path / "r")
    assert known.number == 4
    assert [d.reason for d in known.damage] == reasons
