"""Where the samples of an opened recording are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fathometer.dataset.places import Place, RemotePath
from fathometer.dataset.selection import SILENCE


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed segment, whole and checked."""

    path: Place
    rows: int
    crc32: int
    first_sent_ns: int
    """Of all its samples, by the statistics in its footer."""
    last_sent_ns: int
    sizes: tuple[int, int]
    """The smallest and the largest payload."""
    derived: bool
    """Whether its file lacks the columns that can be derived: see `layout`."""


@dataclass(frozen=True, slots=True)
class Source:
    """Closed segments, and the rows of open ones."""

    closed: tuple[Closed, ...]
    open: pa.Table | None

    @property
    def has_silences(self) -> bool:
        """Whether there is the column that `silences` makes."""
        return self.open is not None and SILENCE in self.open.column_names

    @property
    def rows(self) -> int:
        """All samples."""
        return sum(c.rows for c in self.closed) + (self.open.num_rows if self.open is not None else 0)


@contextmanager
def opened(segment: Closed) -> Iterator[Any]:
    """A closed segment for reading all of it. One in a store comes in one request, and its checksum is looked
    at as it comes; one of this machine was looked at when the recording was opened.
    """
    if isinstance(segment.path, RemotePath):
        data = segment.path.read_bytes()
        if zlib.crc32(data) != segment.crc32:
            raise OSError(f"{segment.path.name} does not have the checksum its event states")
        yield pa.BufferReader(data)
        return
    with pa.OSFile(str(segment.path)) as file:
        yield file
