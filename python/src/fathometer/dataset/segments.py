"""Which file of a segment counts, and what of it can be trusted. The rules are those of
``schema/recording.md``.

A Parquet segment counts when a ``segment.closed`` event states its size, CRC-32 and rows, and they are so.
Otherwise the open segment (``.arrows``) of the same number counts, up to its last whole batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fathometer.counts import count
from fathometer.dataset.format import arrow_schema, segment_name, segment_ordinal
from fathometer.dataset.layout import is_derived, is_known
from fathometer.dataset.model import Damage, Event
from fathometer.dataset.places import Place, RemotePath, footer_of, size_of
from fathometer.dataset.source import Closed
from fathometer.reading import NO_FILE, regular

_CHUNK: Final = 1 << 20
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_MAX_METADATA: Final = 64 << 10
_MAX_BODY: Final = 16 << 20
_READ: Final = 2 * _MAX_BODY
"""Bytes that one reading of a growing segment takes: any message fits."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a ``segment.closed`` event states."""

    rows: int
    bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Segments:
    """The readable samples of a recording."""

    closed: tuple[Closed, ...]
    """Whole and checked, in order."""
    open: pa.Table | None
    """Rows of open segments; memory-mapped, not copied."""
    damage: tuple[Damage, ...]


def listed(events: Iterable[Event]) -> dict[int, Listed]:
    """Closed segments by number; a later statement about the same file replaces an earlier one."""
    by_ordinal: dict[int, Listed] = {}
    for e in events:
        if e.kind == "segment.closed" and e.known:
            ordinal = segment_ordinal(e.fields["file"], "parquet")
            if ordinal is not None:
                by_ordinal[ordinal] = Listed(e.fields["rows"], e.fields["bytes"], e.fields["crc32"])
    return by_ordinal


def read_segments(directory: Place, names: Iterable[str], closed: dict[int, Listed]) -> Segments:
    """Looks at every segment that a file name or an event speaks of.

    Args:
        directory: the recording.
        names: its files, listed before its events were read: a segment that closes in between is then known
            by either.
        closed: what the events state.
    """
    ordinals = set(closed)
    for name in names:
        for kind in ("arrows", "parquet"):
            ordinal = segment_ordinal(name, kind)
            if ordinal is not None:
                ordinals.add(ordinal)
    parquet: list[Closed] = []
    batches: list[pa.RecordBatch] = []
    damage: list[Damage] = []
    for ordinal in sorted(ordinals):
        segment = _parquet(directory, ordinal, closed.get(ordinal))
        if isinstance(segment, Closed):
            parquet.append(segment)
            continue
        arrows = directory / segment_name(ordinal, "arrows")
        if not arrows.exists():
            damage.append(segment)
            continue
        whole, torn = read_open(arrows)
        batches += whole
        if torn:
            damage.append(torn)
    table = pa.Table.from_batches(batches, arrow_schema()) if batches else None
    return Segments(tuple(parquet), table, tuple(damage))


def _parquet(directory: Place, ordinal: int, stated: Listed | None) -> Closed | Damage:
    """A closed segment, or why it does not count."""
    name = segment_name(ordinal, "parquet")
    path = directory / name
    try:
        length = size_of(path)
    except FileNotFoundError:
        missing = stated.bytes if stated else 0
        return Damage(name, 0, missing, False, "it is missing")
    except OSError as error:
        return Damage(name, 0, 0, False, f"cannot be read: {error.strerror}")

    def broken(reason: str) -> Damage:
        return Damage(name, 0, length, False, reason)

    if stated is None:
        return broken("no event lists it, so it cannot be trusted")
    if not path.is_file():
        return broken(NO_FILE)
    if length != stated.bytes:
        return broken(f"it should have {count(stated.bytes, 'byte')}")
    try:
        # Of one in a store it is looked at when it is read: as a whole, once (`places.opened`).
        if not isinstance(path, RemotePath) and checksum(path) != stated.crc32:
            return broken("it does not have the checksum its event states")
        with footer_of(path) as opened, pq.ParquetFile(opened) as file:
            if not is_known(file.schema_arrow):
                return broken("its columns are those of no format version that this program knows")
            if file.metadata.num_rows != stated.rows:
                return broken(f"it should have {count(stated.rows, 'row')}")
            derived = is_derived(file.schema_arrow)
            (first, last), sizes = (_bounds(file, name) for name in ("sent_ns", "size"))
    except OSError as error:
        # Arrow tells of a damaged file as of one that cannot be read.
        return broken(f"cannot be read: {error.strerror or str(error).splitlines()[0]}")
    except (pa.ArrowException, ValueError) as error:
        return broken(f"it is no Parquet file: {str(error).splitlines()[0]}")
    return Closed(path, stated.rows, stated.crc32, first, last, sizes, derived)


def _bounds(file: Any, name: str) -> tuple[int, int]:  # noqa: ANN401 - a ParquetFile
    """The smallest and the largest value of a column without absent ones: from the footer, as the recorder
    writes it there, else from the column.
    """
    if not file.metadata.num_rows:
        return 0, 0
    at = file.schema_arrow.get_field_index(name)
    groups = range(file.metadata.num_row_groups)
    every = [file.metadata.row_group(g).column(at).statistics for g in groups]
    if all(s is not None and s.has_min_max for s in every):
        return min(s.min for s in every), max(s.max for s in every)
    bounds = pc.min_max(file.read([name]).column(0)).as_py()
    return bounds["min"], bounds["max"]


def checksum(path: FilePath) -> int:
    """CRC-32 (IEEE 802.3) of a whole file."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


def read_open(path: Place) -> tuple[list[pa.RecordBatch], Damage | None]:
    """The whole batches of an open segment, and what ended the reading where it was not the end of the file.

    The stream is one of Arrow IPC; each batch carries the CRC-32 of its body. Nothing is taken from a message
    that is cut off or does not fit.
    """
    try:
        length = size_of(path)
        if not path.is_file():
            return [], Damage(path.name, 0, 0, False, NO_FILE)
        if length == 0:
            return [], Damage(path.name, 0, 0, True, "the file is empty")
        if isinstance(path, RemotePath):
            data = pa.py_buffer(path.read_bytes(length))
        else:
            with pa.memory_map(str(path)) as mapped:
                data = mapped.read_buffer(length)
    except OSError as error:
        return [], Damage(path.name, 0, 0, False, f"cannot be read: {error.strerror or error}")
    try:
        begun = _schema_length(data)
    except _UnreadableError as error:
        return [], Damage(path.name, 0, data.size, error.torn, str(error))
    batches, at, wrong = _batches(data.slice(0, begun), data, begun)
    if wrong is None:
        return batches, None
    if wrong.torn and _rows_behind(data.slice(0, begun), data, at):
        wrong = _UnreadableError("a message has a wrong length", torn=False)
    return batches, Damage(path.name, at, data.size - at, wrong.torn, str(wrong))


def _rows_behind(schema: pa.Buffer, data: pa.Buffer, at: int) -> bool:
    """Whether a whole batch stands behind what seems to be cut off."""
    left = data.slice(at).to_pybytes()
    found = left.find(_CONTINUATION, 8)
    while found >= 0:
        if found % 8 == 0:
            try:
                _batch(schema, data.slice(at + found, _message_length(data, at + found)))
            except (_UnreadableError, pa.ArrowException, EOFError, OSError, ValueError):
                pass
            else:
                return True
        found = left.find(_CONTINUATION, found + 1)
    return False


def read_open_from(path: FilePath, start: int) -> tuple[list[pa.RecordBatch], int]:
    """The whole batches of an open segment from an offset on, and where the one after them begins: to be
    given as `start` the next time; 0 is the beginning. At most `_READ` bytes at once. Raises `OSError`.

    Read and not mapped: a copy that grows (of a host that is reached over SSH) may be cut, and a mapping of
    what is no longer there ends the process.
    """
    with regular(path) as file:
        head = pa.py_buffer(file.read(8 + _MAX_METADATA))
        try:
            begun = _schema_length(head)
        except _UnreadableError:
            return [], start
        start = max(start, begun)
        file.seek(start)
        data = pa.py_buffer(file.read(_READ))
    batches, at, _ = _batches(head.slice(0, begun), data, 0)
    return batches, start + at


def _schema_length(data: pa.Buffer) -> int:
    """Bytes of the message that begins a segment and tells its columns, which must be ours."""
    try:
        begun = _message_length(data, 0)
        head = pa.ipc.open_stream(pa.BufferReader(data.slice(0, begun)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _UnreadableError(f"a message is not readable: {error}", torn=False) from None
    if not head.schema.remove_metadata().equals(arrow_schema()):
        raise _UnreadableError("its columns are not those of the format", torn=False)
    return begun


def _batches(
    schema: pa.Buffer, data: pa.Buffer, at: int
) -> tuple[list[pa.RecordBatch], int, _UnreadableError | None]:
    """The whole batches from an offset on, where reading ended, and why, where it was not the end."""
    batches: list[pa.RecordBatch] = []
    try:
        while at < data.size:
            size = _message_length(data, at)
            if size == 8:
                break  # The mark that ends a stream.
            batches.append(_batch(schema, data.slice(at, size)))
            at += size
    except _UnreadableError as error:
        return batches, at, error
    except (pa.ArrowException, OSError, ValueError) as error:
        return batches, at, _UnreadableError(f"a message is not readable: {error}", torn=False)
    return batches, at, None


class _UnreadableError(Exception):
    def __init__(self, reason: str, *, torn: bool) -> None:
        super().__init__(reason)
        self.torn = torn


def _message_length(data: pa.Buffer, at: int) -> int:
    """Bytes of the message that begins at an offset, body included; 8 for the mark that ends a stream."""
    left = data.size - at
    if left < 8:
        raise _UnreadableError("the last message is cut off", torn=True)
    prefix = data.slice(at, 8).to_pybytes()
    if prefix[:4] != _CONTINUATION:
        raise _UnreadableError("no message begins here", torn=False)
    metadata = int.from_bytes(prefix[4:], "little")
    if metadata == 0:
        return 8
    if metadata > _MAX_METADATA:
        raise _UnreadableError("a message is larger than any of ours", torn=False)
    if left < 8 + metadata:
        raise _UnreadableError("the last message is cut off", torn=True)
    # Arrow checks the flat buffer; the body's length stands in it.
    body = _body_length(data.slice(at + 8, metadata))
    if not 0 <= body <= _MAX_BODY:
        raise _UnreadableError("a message is larger than any of ours", torn=False)
    if left < 8 + metadata + body:
        raise _UnreadableError("the last message is cut off", torn=True)
    return 8 + metadata + body


def _body_length(metadata: pa.Buffer) -> int:
    """`bodyLength` of the flat buffer `Message`: field 3 of its root table (Message.fbs of Apache Arrow)."""
    data = metadata.to_pybytes()

    def number(at: int, size: int) -> int:
        if not 0 <= at <= len(data) - size:
            raise _UnreadableError("a message's header is not readable", torn=False)
        return int.from_bytes(data[at : at + size], "little", signed=True)

    table = number(0, 4)
    vtable = table - number(table, 4)
    if number(vtable, 2) < 4 + 2 * 4:
        return 0
    field = number(vtable + 4 + 2 * 3, 2)
    return number(table + field, 8) if field else 0


def _batch(schema: pa.Buffer, message: pa.Buffer) -> pa.RecordBatch:
    body = pa.ipc.read_message(message).body
    # Arrow tells the metadata of a batch only to who reads a stream; this one has the schema and one message.
    stream = pa.ipc.open_stream(pa.BufferReader(schema.to_pybytes() + message.to_pybytes()))
    _, metadata = stream.read_next_batch_with_custom_metadata()
    stated = (metadata or {}).get(b"crc32")
    if stated is None or not stated.isdigit() or zlib.crc32(body) != int(stated):
        raise _UnreadableError("a batch does not have its checksum", torn=False)
    batch = pa.ipc.read_record_batch(message, pa.ipc.read_schema(schema))
    batch.validate(full=True)
    for field, column in zip(arrow_schema(), batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise _UnreadableError(f"{field.name} is absent in a row", torn=False)
    return batch
