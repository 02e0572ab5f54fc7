"""Which columns stand in the file of a closed segment, and all columns of a sample made of them.

From format version 2 on what a reader can derive is not written: ``lateness_ns``, ``rtt_bucket`` and
``backward_ns`` (``schema/recording.md``). Here, and nowhere else, they are put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fathometer.dataset.format import arrow_schema, closed_schema
from fathometer.dataset.histogram import bucket_of

DUE: Final = "due_ns"
_SHIFT: Final = "clock_shift_ns"
_OF: Final = {
    "lateness_ns": ("sent_ns", DUE),
    "rtt_bucket": ("rtt_ns",),
    "backward_ns": ("rtt_ns", "reflector_ns", "forward_ns", _SHIFT),
}
"""What each column that is not written follows from."""


def is_known(schema: pa.Schema) -> bool:
    """Whether a file's columns are those of a format version that this program knows."""
    plain = schema.remove_metadata()
    return bool(plain.equals(closed_schema()) or plain.equals(arrow_schema()))


def is_derived(schema: pa.Schema) -> bool:
    """Whether a file lacks what can be derived."""
    return DUE in schema.names


def row_batches(
    file: pq.ParquetFile, columns: Sequence[str], rows: int = 1 << 16, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """These columns of a sample, in their order, some rows at a time; of some row groups or of all."""
    groups = range(file.num_row_groups) if groups is None else groups
    # Without a column nothing is to be made, and a batch of none made here would have no rows.
    if not columns or not is_derived(file.schema_arrow):
        yield from file.iter_batches(rows, list(groups), list(columns), use_threads=False)
        return
    stored = list(dict.fromkeys(name for column in columns for name in _OF.get(column, (column,))))
    for batch in file.iter_batches(rows, list(groups), stored, use_threads=False):
        yield pa.RecordBatch.from_arrays([_column(batch, name) for name in columns], schema=_schema(columns))


def whole_table(file: pq.ParquetFile) -> pa.Table:
    """All rows with every column of a sample."""
    return pa.Table.from_batches(row_batches(file, arrow_schema().names), arrow_schema())


@cache
def _fields() -> dict[str, pa.Field]:
    return {field.name: field for field in arrow_schema()}


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([_fields()[name] for name in columns])


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name == "lateness_ns":
        return pc.subtract(batch.column("sent_ns"), batch.column(DUE))
    if name == "rtt_bucket":
        return _bucket(batch.column("rtt_ns"))
    if name == "backward_ns":
        rtt, reflector, forward = (pc.fill_null(batch.column(of), 0) for of in _OF[name][:3])
        return pc.add(pc.subtract(pc.subtract(rtt, reflector), forward), batch.column(_SHIFT))
    return batch.column(name)


def _bucket(rtt: pa.Array) -> pa.Array:
    """Not by `pa.array`, which loads pandas where that is installed."""
    valid = pc.is_valid(rtt).buffers()[1] if rtt.null_count else None
    data = rtt.buffers()[1]
    values = (
        np.zeros(len(rtt), np.int64)
        if data is None
        else np.frombuffer(data, np.int64, len(rtt), rtt.offset * 8)
    )
    bucket = np.ascontiguousarray(bucket_of(values), dtype=np.uint16)
    return pa.Array.from_buffers(pa.uint16(), len(rtt), [valid, pa.py_buffer(bucket)], rtt.null_count)
