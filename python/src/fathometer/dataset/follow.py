"""Following a recording that grows: what is new since the last look, and never the rest again.

What a live view reads: rows of closed segments are taken at their word, checksums are for `open_recording`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fathometer.dataset.batches import known, numbers
from fathometer.dataset.events import MAX_LINE, Parts, PartsMissingError, event_of
from fathometer.dataset.format import EVENTS, Flags, segment_name, segment_ordinal
from fathometer.dataset.histogram import Ints
from fathometer.dataset.manifest import read_manifest
from fathometer.dataset.model import Event, Manifest
from fathometer.dataset.places import regular_for_arrow
from fathometer.dataset.segments import read_open_from
from fathometer.errors import FathometerError
from fathometer.reading import regular

COLUMNS: Final = ("sent_ns", "rtt_ns", "flags")
ROWS: Final = 1 << 20
"""Rows after which one look ends, so that who looks at much can say so."""
NONE: Final = -1
"""In `NewSamples.rtt_ns`: never answered. No round trip is negative."""


class Tail:
    """Lines that are appended to a file, by offset. A line without its newline is not there yet."""

    def __init__(self) -> None:
        self._at = 0

    def lines(self, path: FilePath) -> list[bytes]:
        """The whole lines since the last call; none where there is no file. A file that has become shorter
        is another one, and read from its beginning.
        """
        try:
            with regular(path) as file:
                if file.seek(0, 2) < self._at:
                    self._at = 0
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return [line for line in whole.split(b"\n") if line.strip() and len(line) < MAX_LINE]


@dataclass(frozen=True, slots=True)
class NewSamples:
    """Samples in the order in which they were resolved; arrays of one length."""

    sent_ns: Ints
    """Ns since the Unix epoch."""
    rtt_ns: Ints
    """`NONE` where no echo came."""
    warm_up: np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class NewOnDisk:
    """What is new."""

    manifest: Manifest | None
    """Told once, when it can be read for the first time."""
    events: tuple[Event, ...]
    samples: NewSamples
    more: bool
    """Whether this look ended before the end, at about `ROWS` rows."""


@dataclass(slots=True)
class _Place:
    """How far a segment is read."""

    offset: int = 0
    """In the open segment: where the next message begins."""
    rows: int = 0
    """The closed segment has the same rows in the same order."""


class RecordingFollower:
    """Reads a recording as it grows. The directory is given each time: a study moves its recordings."""

    def __init__(self, *, samples: bool = True) -> None:
        """Without `samples`: events alone."""
        self._wants_samples = samples
        self._manifest = False
        self._events = Tail()
        self._parts = Parts()
        self._places: dict[int, _Place] = {}
        """By segment, of those that are not read to their end."""
        self._done: set[int] = set()

    def poll(self, directory: FilePath) -> NewOnDisk:
        """What came since the last look. What cannot be read now is left for the next one."""
        manifest = None
        if not self._manifest:
            try:
                manifest = read_manifest(directory)
                self._manifest = True
            except FathometerError:
                pass  # Not there yet.
        lines = self._events.lines(directory / EVENTS)
        events = tuple(e for line in lines if (e := self._whole(line)))
        parts, more = self._segments(directory) if self._wants_samples else ([], False)
        return NewOnDisk(manifest, events, _samples(parts), more)

    def _whole(self, line: bytes) -> Event | None:
        """The event of a line; None: it is none, or a part of one that follows."""
        event = event_of(line)
        try:
            return None if event is None else self._parts.take(event)
        except PartsMissingError:
            return None

    def _segments(self, directory: FilePath) -> tuple[list[pa.Table], bool]:
        parts: list[pa.Table] = []
        there = _segments_in(directory)
        for ordinal in sorted({o for o, _ in there} - self._done):
            while self._read(directory, ordinal, there, parts):
                if sum(part.num_rows for part in parts) >= ROWS:
                    return parts, True
        return parts, False

    def _read(
        self, directory: FilePath, ordinal: int, there: set[tuple[int, str]], parts: list[pa.Table]
    ) -> bool:
        """Reads on in a segment; False: there is nothing more now.

        A closed segment is better than the open one that it was made of: of a copy from another host the open
        one may lack its end, and the next segment may be here already.
        """
        read = (ordinal, "parquet") in there and self._closed(directory, ordinal, parts)
        if read or ordinal in self._done or (ordinal, "arrows") not in there:
            return read
        return self._open(directory, ordinal, parts)

    def _open(self, directory: FilePath, ordinal: int, parts: list[pa.Table]) -> bool:
        """Reads on in an open segment, so far as it is whole."""
        place = self._places.setdefault(ordinal, _Place())
        try:
            batches, place.offset = read_open_from(directory / segment_name(ordinal, "arrows"), place.offset)
        except OSError:
            return False  # Closed since we looked, or on its way to another directory.
        if not batches:
            return False
        parts.append(pa.Table.from_batches(batches).select(COLUMNS))
        place.rows += parts[-1].num_rows
        return True

    def _closed(self, directory: FilePath, ordinal: int, parts: list[pa.Table]) -> bool:
        """Reads on in a closed segment, a row group at a time."""
        place = self._places.setdefault(ordinal, _Place())
        try:
            with (
                regular_for_arrow(directory / segment_name(ordinal, "parquet")) as opened,
                pq.ParquetFile(opened) as file,
            ):
                first = 0
                for group in range(file.num_row_groups):
                    end = first + file.metadata.row_group(group).num_rows
                    if end > place.rows:
                        part = file.read_row_group(group, columns=list(COLUMNS))
                        parts.append(part.slice(max(0, place.rows - first)))
                        place.rows = end
                        return True
                    first = end
        except (OSError, pa.ArrowException):
            return False
        del self._places[ordinal]
        self._done.add(ordinal)
        return False


def _segments_in(directory: FilePath) -> set[tuple[int, str]]:
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names are wanted, not paths
    except OSError:
        return set()
    pairs = ((segment_ordinal(name, kind), kind) for name in names for kind in ("arrows", "parquet"))
    return {(ordinal, kind) for ordinal, kind in pairs if ordinal is not None}


def _samples(parts: list[pa.Table]) -> NewSamples:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return NewSamples(none, none, none.astype(np.bool_))
    table = pa.concat_tables(parts)
    sent, rtt, flags = (pa.concat_arrays(table.column(name).chunks) for name in COLUMNS)
    there = known(rtt)
    return NewSamples(
        numbers(sent),
        numbers(rtt) if there is None else np.where(there, numbers(rtt), NONE),
        (numbers(flags) & Flags.WARM_UP) != 0,
    )
