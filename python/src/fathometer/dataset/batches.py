"""The samples of a recording in batches of arrays, a few hundred thousand at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.histogram import Ints, bucket_of
from fathometer.dataset.selection import Selection, metric_named

ROWS: Final = 1 << 16
"""Samples in a batch: its columns, half a megabyte each, stay in a processor's cache from step to step."""
T = TypeVar("T")
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
"""As the file has it: an array of integers."""


class Batch:
    """Samples in the order of sending. Columns, parts and values are made when asked for, and kept: many
    questions share them.
    """

    def __init__(self, rows: int, load: Callable[[str], tuple[Column, Bools | None]]) -> None:
        self.rows = rows
        self._load = load
        self._columns: dict[str, tuple[Column, Bools | None]] = {}
        self._made: dict[object, Any] = {}

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

    def chosen(self, selection: Selection) -> Batch:
        """The part that a selection wants."""
        return self._once(selection, lambda: self._part(self._mask(selection)))

    def between(self, start_ns: int, end_ns: int) -> Batch:
        """The part that was sent in a time."""
        inside = Selection(start_ns=start_ns, end_ns=end_ns, warm_up=True)
        return self.chosen(inside)

    def measured(self, metric: str) -> Batch:
        """The part that has a metric."""
        return self._once(("measured", metric), lambda: self._part(self.has(metric)))

    def has(self, metric: str) -> Bools:
        """Which samples have a metric."""
        parts = metric_named(metric)
        known = [k for name in parts.plus + parts.minus if (k := self.known(name)) is not None]
        return np.logical_and.reduce(known) if known else np.ones(self.rows, dtype=np.bool_)

    def values(self, metric: str) -> Ints:
        """A metric in ns, of samples that have it; of others anything. Below 0, which only lateness, the
        network's share and differences of clocks can be, counts as 0.
        """

        def make() -> Ints:
            parts = metric_named(metric)
            total = sum(self.column(name).astype(np.int64, copy=False) for name in parts.plus)
            for name in parts.minus:
                total = total - self.column(name)
            for name in parts.minus_where_known:
                known = self.known(name)
                total = total - (
                    self.column(name) if known is None else np.where(known, self.column(name), 0)
                )
            found: Ints = np.maximum(total * parts.factor if parts.factor != 1 else total, 0)
            return found

        return self._once(("values", metric), make)

    def buckets(self, metric: str, shift: int) -> Ints:
        """The buckets of `measured` samples, those of the round trip as recorded."""

        def make() -> Ints:
            if shift:
                coarse: Ints = self.buckets(metric, 0) >> shift << shift
                return coarse
            return (
                self.column("rtt_bucket").astype(np.int64)
                if metric == "rtt"
                else bucket_of(self.values(metric))
            )

        return self._once(("buckets", metric, shift), make)

    def _once(self, key: object, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def _mask(self, selection: Selection) -> Bools | None:
        terms = selection.terms()
        return np.logical_and.reduce([self._holds(*term) for term in terms]) if terms else None

    def _holds(self, name: str, sign: str, number: int) -> Bools:
        column = self.column(name)
        match sign:
            case "=":
                holds = column == number
            case ">=":
                holds = column >= number
            case "<":
                holds = column < number
            case "has":
                holds = (column & number) != 0
            case _:
                holds = (column & number) == 0
        return np.asarray(holds, dtype=np.bool_)

    def _part(self, mask: Bools | None) -> Batch:
        if mask is None or mask.all():
            return self

        def load(name: str) -> tuple[Column, Bools | None]:
            values, known = self._both(name)
            return values[mask], None if known is None else known[mask]

        return Batch(int(mask.sum()), load)


def of_parquet(path: FilePath, columns: list[str]) -> Iterator[Batch]:
    """The batches of a closed segment."""
    with pq.ParquetFile(path) as file:
        for part in file.iter_batches(ROWS, columns=columns, use_threads=False):
            yield _batch(part)


def of_table(table: pa.Table) -> Iterator[Batch]:
    """The batches of an open segment."""
    for part in table.combine_chunks().to_batches(max_chunksize=ROWS):
        yield _batch(part)


def _batch(part: pa.RecordBatch) -> Batch:
    sent = numbers(part.column("sent_ns"))
    # Rows stand in the order in which samples were resolved; nearly that of sending.
    order = np.argsort(sent, kind="stable") if (sent[1:] < sent[:-1]).any() else None

    def load(name: str) -> tuple[Column, Bools | None]:
        column = part.column(name)
        values, known = numbers(column), _known(column)
        if order is None:
            return values, known
        return values[order], None if known is None else known[order]

    return Batch(part.num_rows, load)


def numbers(column: pa.Array) -> Column:
    """A column of integers without a copy; where a value is absent, it holds anything.

    Arrow's own way loads pandas, where that is installed: a third of a second.
    """
    kind = np.dtype(column.type.to_pandas_dtype())
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros(len(column), kind)
    return np.frombuffer(data, kind, len(column), column.offset * kind.itemsize)


def _known(column: pa.Array) -> Bools | None:
    if column.null_count == 0:
        return None
    bits = column.buffers()[0]
    if bits is None:
        return np.zeros(len(column), dtype=np.bool_)
    each = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return each[column.offset : column.offset + len(column)].astype(np.bool_)
