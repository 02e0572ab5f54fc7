"""The files of queries of a recording: which there are, which are missing, and their rows.

A file that a ``queries.closed`` event states counts where its size, CRC-32 and rows are so; recordings of
earlier versions state none. The rules are those of ``schema/recording.md``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fathometer.counts import count
from fathometer.dataset.format import queries_schema
from fathometer.dataset.model import Damage, Event
from fathometer.dataset.places import Place, RemotePath, names_in, regular_for_arrow
from fathometer.dataset.segments import Listed, checksum

PARTIES: Final = ("server", "path", "client")
"""Whose time it may be, in the order in which they are shown."""
ADDED: Final = ("setting", "fetch_size", "packet_size", "login", "connection")
"""Columns that recordings of earlier versions lack."""
_NAME: Final = re.compile(r"queries-(\d{5,})\.parquet\Z")
Ints = NDArray[np.int64]


def read_files(directory: Place, events: Sequence[Event]) -> tuple[pa.Table, tuple[Damage, ...]]:
    """All rows that can be read, in order, and what cannot be, or is missing."""
    stated = _stated(events)
    there = _there(directory)
    tables: list[pa.Table] = []
    damage: list[Damage] = []
    following = 0
    for ordinal in sorted(there | set(stated)):
        if ordinal > following:
            damage.append(_missing(following, ordinal - following, 0))
        following = ordinal + 1
        listed = stated.get(ordinal)
        path = directory / _name(ordinal)
        if not path.exists():
            damage.append(_missing(ordinal, 1, listed.bytes if listed else 0))
            continue
        table = _table(path, listed)
        if isinstance(table, Damage):
            damage.append(table)
        else:
            tables.append(table)
    rows = pa.concat_tables(tables) if tables else queries_schema().empty_table()
    return rows, tuple(damage)


def last_name(directory: Place, events: Sequence[Event]) -> str:
    """The name of the last file there is a trace of."""
    return _name(max([*_there(directory), *_stated(events), 0]))


def column(table: pa.Table, name: str) -> Ints:
    """Integers; those that are absent are 0."""
    values: Ints = table[name].fill_null(0).to_numpy()
    return values


def _stated(events: Iterable[Event]) -> dict[int, Listed]:
    """What ``queries.closed`` events say, by the file's number."""
    stated: dict[int, Listed] = {}
    for e in events:
        if e.kind == "queries.closed" and e.known:
            ordinal = _ordinal(e.fields["file"])
            if ordinal is not None:
                stated[ordinal] = Listed(e.fields["rows"], e.fields["bytes"], e.fields["crc32"])
    return stated


def _there(directory: Place) -> set[int]:
    """Numbers of the files that the directory has."""
    try:
        names = names_in(directory)
    except OSError:
        return set()
    return {n for name in names if (n := _ordinal(name)) is not None}


def _name(ordinal: int) -> str:
    return f"queries-{ordinal:05}.parquet"


def _ordinal(name: str) -> int | None:
    found = _NAME.match(name)
    if found is None or _name(int(found[1])) != name:
        return None
    return int(found[1])


def _missing(ordinal: int, files: int, length: int) -> Damage:
    """So many files from this one on."""
    reason = "it is missing" if files == 1 else f"it is missing, as are the {files - 1:,} after it"
    return Damage(_name(ordinal), 0, length, False, reason)


def _table(path: Place, listed: Listed | None) -> pa.Table | Damage:
    """The rows of a file, or why they do not count."""
    length = 0
    data: Any

    def broken(reason: str) -> Damage:
        return Damage(path.name, 0, length, False, reason)

    try:
        if isinstance(path, RemotePath):
            content = path.read_bytes()
            length, data = len(content), pa.BufferReader(content)
        else:
            length = path.stat().st_size
            data = regular_for_arrow(path)
        with data:
            if listed is not None:
                if length != listed.bytes:
                    return broken(f"it should have {count(listed.bytes, 'byte')}")
                crc = zlib.crc32(content) if isinstance(path, RemotePath) else checksum(path)
                if crc != listed.crc32:
                    return broken("it does not have the checksum its event states")
            with pq.ParquetFile(data) as file:
                if not file.schema_arrow.remove_metadata().equals(_schema_of(file.schema_arrow)):
                    return broken("its columns are not those of schema/queries.json")
                table = file.read()
    except OSError as error:
        return broken(f"cannot be read: {error.strerror or str(error).splitlines()[0]}")
    except (pa.ArrowException, ValueError) as error:
        return broken(f"it is no Parquet file: {str(error).splitlines()[0]}")
    if listed is not None and table.num_rows != listed.rows:
        return broken(f"it should have {count(listed.rows, 'row')}")
    for name in ADDED:
        if name not in table.column_names:
            table = table.append_column(queries_schema().field(name), pa.nulls(table.num_rows, pa.int64()))
    table = table.select(queries_schema().names)
    return table if _is_lawful(table) else broken("it has impossible times")


def _schema_of(found: pa.Schema) -> pa.Schema:
    """What a file is to have: all columns, but for those that its version did not know."""
    return pa.schema([f for f in queries_schema() if f.name not in ADDED or f.name in found.names])


def _is_lawful(table: pa.Table) -> bool:
    """Whether each row is one that a run can have: what figures rest on. `fathom recording verify` tells of
    every law.
    """
    if any(table[f.name].null_count for f in queries_schema() if not f.nullable):
        return False
    numbers = [f.name for f in queries_schema() if pa.types.is_integer(f.type) and f.name != "started_ns"]
    if any(bool(np.any(column(table, name) < 0)) for name in numbers):
        return False
    wall = column(table, "wall_ns")
    low, high = ([column(table, f"{party}_{end}_ns") for party in PARTIES] for end in ("low", "high"))
    if any(bool(np.any((a > b) | (b > wall))) for a, b in zip(low, high, strict=True)):
        return False
    # Each is at most the wall time, so that floats hold their sums far beyond any run.
    lows, highs = (np.sum(np.stack(ends).astype(np.float64), axis=0) for ends in (low, high))
    if bool(np.any((lows > wall.astype(np.float64)) | (highs < wall.astype(np.float64)))):
        return False
    return bool(np.all(column(table, "first_row_ns") <= wall)) and _splits(table, wall, low, high)


def _splits(table: pa.Table, wall: Ints, low: Sequence[Ints], high: Sequence[Ints]) -> bool:
    """Whether the parts lie within their bounds and sum to the wall time, where there are any."""
    known = np.array(table["no_split"].is_null())
    total = np.zeros(len(wall), dtype=np.int64)
    for party, least, most in zip(PARTIES, low, high, strict=True):
        if bool(np.any(np.array(table[f"{party}_ns"].is_null()) == known)):
            return False
        part = column(table, f"{party}_ns")
        if bool(np.any(known & ((part < least) | (part > most)))):
            return False
        total += part
    return bool(np.all(~known | (total == wall)))
