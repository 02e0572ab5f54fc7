"""The samples of a recording in batches of arrays, some ten thousand at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.layout import row_batches
from fathometer.dataset.source import Closed, opened

ROWS: Final = 1 << 16
"""Samples in a batch: its columns, half a megabyte each, stay in a processor's cache from step to step."""
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
"""As the file has it: an array of integers."""


class Batch:
    """Samples, as they stand in the file. Columns are made when asked for, and kept."""

    def __init__(
        self,
        rows: int,
        names: frozenset[str],
        only_size: int | None,
        load: Callable[[str], tuple[Column, Bools | None]],
    ) -> None:
        self.rows = rows
        self.only_size = only_size
        """The payload of all; None: they differ."""
        self._names, self._load = names, load
        self._columns: dict[str, tuple[Column, Bools | None]] = {}

    def has(self, name: str) -> bool:
        """Whether there is a column."""
        return name in self._names

    def column(self, name: str) -> Column:
        """A column; where a value is absent, it holds anything."""
        return self._both(name)[0]

    def known(self, name: str) -> Bools | None:
        """Where a column has values; None: everywhere."""
        return self._both(name)[1]

    def _both(self, name: str) -> tuple[Column, Bools | None]:
        if name not in self._columns:
            self._columns[name] = self._load(name)
        return self._columns[name]

    def part(self, mask: Bools) -> Batch:
        """Some of the rows."""

        def load(name: str) -> tuple[Column, Bools | None]:
            values, known = self._both(name)
            return values[mask], None if known is None else known[mask]

        return Batch(int(np.count_nonzero(mask)), self._names, self.only_size, load)


def batches(part: Closed | pa.Table, columns: list[str]) -> Iterator[Batch]:
    """The batches of a closed segment, or of the rows of open ones."""
    if isinstance(part, Closed):
        only = part.sizes[0] if part.sizes[0] == part.sizes[1] else None
        names = [c for c in columns if c != "size" or only is None]
        with opened(part) as file, pq.ParquetFile(file) as parquet:
            for each in row_batches(parquet, names, ROWS):
                yield batch_of(each, only)
        return
    names = [c for c in columns if c in part.column_names]
    for each in part.select(names).combine_chunks().to_batches(max_chunksize=ROWS):
        yield batch_of(each, None)


def batch_of(part: pa.RecordBatch, only_size: int | None) -> Batch:
    """As arrays; `only_size`: the payload of all."""

    def load(name: str) -> tuple[Column, Bools | None]:
        column = part.column(name)
        return numbers(column), known(column)

    return Batch(part.num_rows, frozenset(part.schema.names), only_size, load)


def numbers(column: pa.Array) -> Column:
    """A column of integers without a copy; where a value is absent, it holds anything.

    Arrow's own way loads pandas, where that is installed: a third of a second.
    """
    kind = np.dtype(column.type.to_pandas_dtype())
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros(len(column), kind)
    return np.frombuffer(data, kind, len(column), column.offset * kind.itemsize)


def known(column: pa.Array) -> Bools | None:
    """Which values are there; None: all of them."""
    if column.null_count == 0:
        return None
    bits = column.buffers()[0]
    if bits is None:
        return np.zeros(len(column), dtype=np.bool_)
    # Only the bytes that are needed: a batch is a slice of a larger buffer.
    first, last = column.offset // 8, -(-(column.offset + len(column)) // 8)
    each = np.unpackbits(np.frombuffer(bits, np.uint8, last - first, first), bitorder="little")
    begin = column.offset - 8 * first
    return each[begin : begin + len(column)].astype(np.bool_)
